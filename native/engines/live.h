// One policy deciding live: select an arm, count what it paid, one at a time or many, in any order, with pulls pending.
//
// A pending pull has not paid, so nothing is learned from it. It counts as a round, and for policies that are not randomised as a
// pull that paid the arm's mean, so that the arm's bonus shrinks and other arms get a turn. A randomised policy's posterior is not
// made narrower by it: its draws spread by themselves. For all of them an arm whose first pull is pending is taken to have paid the
// middle of the rewards. Pulls, totals and sums stay what was paid: an exclusion never rests on a reward that has not come.
//
// Arms may be switched off. They are not chosen, they exclude nobody, and their rounds do not count in log t: the decision is that
// of the problem without them. (Policies that learn the law of X still learn from all rewards.)
//
// What is decided with pulls pending is worked out on a state `ahead` of the one that was observed, where it can be looked at.
#pragma once
#include "../policies/indexed.h"
#include "paid.h"

namespace hw {
inline namespace HW_BUILD {

// Which arms are on: those whose entry is 0; all where there are no entries.
struct On {
    KnownInts off;
    HW_INLINE bool operator()(Int k) const { return off.size == 0 || off[k] == 0; }
};

// Another replication's number, for draws that must not be those of any decision.
HW_INLINE Long elsewhere(Long replication, Int draw) {
    return ((replication + static_cast<Long>(draw)) ^ (1ull << 47)) & 0xFFFFFFFFFFFFull;
}

// Arm k's mean and root, with its pending pulls.
template <class S> HW_DEVICE void stand(S &s, Int k, const Rewards &rewards, const Settings &settings, Needs needs, bool randomised) {
    const Int n = s.pulls[k];
    Int m = s.pending[k];
    if (n == 0 && m > 0) s.mean[k] = rewards.low + 0.5 * rewards.span;
    if (randomised) m = n == 0 ? min<Int>(m, 1) : 0;
    if (needs.squares) s.root[k] = S::standard_error(n, s.total[k], s.squares[k], s.rest[k], rewards, settings);
    else s.root[k] = n + m == 0 ? 0.0 : 1.0 / sqrt(static_cast<double>(n + m));
}

// Copy what a decision may change, with the pending pulls. O(K).
template <class S> HW_DEVICE void look_ahead(const S &known, S &ahead, const Rewards &rewards, const Settings &settings, Needs needs,
                                             bool randomised) {
    ahead.round = known.round;
    ahead.replication = known.replication;
    ahead.most_pulled = known.most_pulled;
    ahead.most = known.most;
    ahead.chosen = known.chosen;
    for (Int k = 0; k < known.arms(); ++k) {
        ahead.pulls[k] = known.pulls[k];
        ahead.total[k] = known.total[k];
        ahead.successes[k] = known.successes[k];
        ahead.squares[k] = known.squares[k];
        ahead.rest[k] = known.rest[k];
        ahead.shift[k] = known.shift[k];
        ahead.mean[k] = known.mean[k];
        ahead.root[k] = known.root[k];
        ahead.pending[k] = known.pending[k];
        if (known.pending[k] > 0) {
            ahead.round += known.pending[k];
            stand(ahead, k, rewards, settings, needs, randomised);
        }
    }
}

template <class Policy> struct Live {
    using State = typename Policy::State;

    Policy policy;
    State known, ahead;
    Int waiting = 0;      // pending pulls of all arms
    Int next = -1;        // the next arm where it is known already
    bool asked = false;   // whether an arm was asked for since

    HW_DEVICE void lay(Arena &arena) {
        known.shape = policy.shape();
        policy.lay(known, arena);
        ahead.shape = {known.shape.arms, known.shape.kinds, false, false, known.shape.notes};
        static_cast<hw::State<double> &>(ahead).lay(arena);
        ahead.shape = known.shape;
        policy.share(known, ahead);
    }

    HW_DEVICE void forget() {
        policy.forget(known);
        look_ahead(known, ahead, policy.rewards, policy.settings, policy.needs(), policy.randomised());
        waiting = 0;
        next = -1;
        asked = false;
    }

    // The next arm, where no pull is pending and every arm is on; decided once, however often it is asked for.
    HW_INLINE Int decide() {
        if (next < 0) next = policy.choose(known, round_of(known.round + 1));
        return next;
    }
    // That arm, which is pending from now on.
    HW_INLINE Int select() {
        const Int arm = decide();
        next = -1;
        asked = true;
        ++known.pending[arm];
        ++waiting;
        return arm;
    }

    // Fill `out` with decisions in a row, nothing having been paid between them. With `draws` > 0, one decision as it would be with
    // other random numbers, so many times: of `out` (K,) the arms chosen are counted up.
    HW_DEVICE void decide_ahead(Ints out, On on, Int draws) {
        const Int reference = most_pulled(on);
        policy.prepare(known, reference, on);
        look_ahead(known, ahead, policy.rewards, policy.settings, policy.needs(), policy.randomised());
        ahead.most_pulled = reference;
        ahead.most = known.pulls[ahead.most_pulled];
        policy.begin_ahead(ahead, on, draws > 0);
        for (Int i = 0; i < (draws > 0 ? draws : out.size); ++i) {
            if (draws > 0) {
                ahead.replication = elsewhere(known.replication, i);
                policy.begin_draw(ahead);
            }
            const Int arm = policy.choose_among(ahead, Round{ahead.round + 1, log(static_cast<double>(rounds(on)))}, on);
            policy.after_choice(ahead);
            if (draws > 0) {
                ++out[arm];
                policy.end_draw(ahead);
                continue;
            }
            out[i] = arm;
            if (i + 1 < out.size) {
                ++ahead.pending[arm];
                ++ahead.round;
                stand(ahead, arm, policy.rewards, policy.settings, policy.needs(), policy.randomised());
                policy.pend(ahead, arm);
            }
        }
        policy.end_ahead(ahead, draws > 0);
    }
    // Those arms are pending from now on.
    HW_DEVICE void expect(KnownInts arms) {
        for (const Int arm : arms) ++known.pending[arm];
        waiting += arms.size;
        next = -1;
        asked = true;
    }

    // Count a reward. Whoever asks and tells in turn will ask again: so decide now, and remember it.
    HW_INLINE void pay(Int arm, Int kind) {
        policy.observe(known, arm, Paid{policy.rewards, arm, kind});
        if (known.pending[arm] > 0) settle(arm);
        next = -1;
        if (asked && waiting == 0) {
            decide();
            asked = false;
        }
    }
    // The counts came from elsewhere: all that follows from them anew, and the next choice.
    HW_DEVICE void rebuild() {
        policy.rebuild(known);
        next = -1;
        waiting = 0;
        for (Int k = 0; k < known.arms(); ++k) waiting += known.pending[k];
    }
    HW_INLINE void settle(Int arm) {
        --known.pending[arm];
        --waiting;
    }

  private:
    // t, counting the pulls and pending pulls of the arms that are on, and the decision to be made.
    HW_DEVICE Int rounds(On on) const {
        Int t = 1;
        for (Int k = 0; k < known.arms(); ++k)
            if (on(k)) t += ahead.pulls[k] + ahead.pending[k];
        return t;
    }
    // The most-pulled of the arms that are on, the lowest number among equals.
    HW_DEVICE Int most_pulled(On on) const {
        Int most = -1;
        for (Int k = 0; k < known.arms(); ++k)
            if (on(k) && (most < 0 || known.pulls[k] > known.pulls[most])) most = k;
        return most;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
