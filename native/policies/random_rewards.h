// Index policies under the filter where some arms' rewards are random: what their counts imply is kept up to date.
#pragma once
#include "indexed.h"
#include "pseudo_reward_programme.h"

namespace hw {
inline namespace HW_BUILD {

struct RandomState : State<double> {
    Programme *programme = nullptr;
};

template <class Rule> struct IndexedRandom : Indexed<Rule, true> {
    using Base = Indexed<Rule, true>;
    using State = RandomState;

    RandomRewards random;

    HW_DEVICE void lay(State &s, Arena &arena) const {
        s.hw::State<double>::lay(arena);
        const View<Programme> place = arena.view<Programme>(1);
        Programme made(random);
        made.lay(arena);
        s.programme = place.data;
        if (place.data != nullptr) *place.data = made;
    }
    HW_DEVICE void share(const State &known, State &ahead) const {
        Base::share(known, ahead);
        ahead.programme = known.programme;
    }
    HW_DEVICE void forget(State &s) const {
        s.forget();
        s.programme->forget();
    }
    HW_DEVICE void rebuild(State &s) const {
        Base::rebuild(s);
        s.programme->forget();
    }
    HW_DEVICE Int choose(State &s, const Round &round) const {
        prepare(s, s.most_pulled, Everyone{});
        return Base::choose(s, round);
    }
    HW_DEVICE Int sure(State &s, const Round &round) const {
        prepare(s, s.most_pulled, Everyone{});
        return Base::sure(s, round);
    }

    // The rows of sums that the next decision reads, where arms of random rewards were pulled since they were computed. For such an
    // arm k, sums[k, ell] is n[k] times the mean of its likeliest law less the most that arm ell may pay on average under that law;
    // where no law of X explains the rewards exactly, shift[k] is the likeliest law's total less the one that was paid. O(K M^3 + K
    // M J) for each such row, mostly.
    template <class On> HW_DEVICE void prepare(State &s, Int reference, On on) const {
        Int arms = 0, observed = 0;
        for (Int k = 0; k < s.arms(); ++k) {
            if (!on(k)) continue;
            ++arms;
            observed += s.pulls[k];
        }
        for (Int k = 0; k < s.arms(); ++k) {
            const Int n = s.pulls[k];
            const bool read = this->settings.filter == Filter::most_pulled ? k == reference : n * arms >= observed && on(k);
            if (!read || n == 0 || !random.random(k) || s.programme->fitted[k] == n) continue;
            s.shift[k] = fit(random, *s.programme, k, n, s.total[k], {&s.seen[k * s.shape.kinds], s.shape.kinds},
                             {&s.sums[k * s.arms()], s.arms()});
        }
    }
};

}  // namespace HW_BUILD
}  // namespace hw
