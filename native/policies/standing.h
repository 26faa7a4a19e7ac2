// A trait of a policy: how long does its choice stand? Rules that go by an arm's mean and pulls, and whose most-pulled arm
// stays the choice over long stretches, have it; the leap engine asks for it.
//
//   outlook(state, policy, steady)     how many rounds the choice of the most-pulled arm may last, after `steady` rounds of it
//   lasts(state, policy, stretch)      whether it does, in whatever order that arm pays a stretch
//   again(state, policy)               whether it surely is the next choice: no more than a short cut
//   forget()                           a new replication begins; what is kept in between saves time, and changes no answer
#pragma once
#include "indexed.h"
#include "kl_ucb.h"
#include "stretch.h"
#include "ucb1.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr double index_margin = 1e-12;  // of the range of rewards: what rounding might do to an index, many times over

template <class Rule> struct Standing;
template <class Rule> inline constexpr bool stands = requires { sizeof(Standing<Rule>); };

template <class Policy> HW_INLINE bool filtered(const Policy &policy) { return policy.settings.filter != Filter::none; }

// The logarithm of a round's number, once for all questions in that round.
struct RoundLog {
    Int round = -1;
    double log_t = 0.0;

    HW_INLINE double of(Int t) {
        if (t != round) {
            round = t;
            log_t = log(as_number(t));
        }
        return log_t;
    }
};

// Whether the filter excludes arm ell throughout a stretch of the most-pulled arm, whatever that pays. O(1).
template <class S, class Policy>
HW_INLINE bool surely_excluded(const S &s, const Policy &policy, const Stretch &stretch, Int ell) {
    return filtered(policy) && as_number(s.against(s.most_pulled, ell)) > as_number(stretch.m) * stretch.most;
}
// Whether it does, but for a chance that counts as none. O(M).
template <class S, class Policy>
HW_INLINE bool stays_excluded(const S &s, const Policy &policy, const Stretch &stretch, Int ell) {
    return filtered(policy) && keeps_excluded(stretch, ell, s.against(s.most_pulled, ell));
}

// UCB1, by the lines that the total of the most-pulled arm r must stay above. n + i times the difference of two indices is at
// least such a line, in units: sqrt(log(t + i)) lies below its tangent, sqrt(n + i) above its chord.
template <> struct Standing<Ucb1> {
    RoundLog logs;

    HW_INLINE void lay(Arena &, Int) {}
    HW_INLINE void forget() {}
    template <class S, class Policy> HW_INLINE bool again(const S &, const Policy &) const { return false; }

    // Until a rival would catch up if r kept paying its average: r's lead over what it loses a round, which is how a rival's
    // bonus grows, but no more rounds than r has pulls. A rival that is excluded may stay so for as long again. O(K).
    template <class S, class Policy> HW_DEVICE Int outlook(const S &s, const Policy &policy, Int) {
        const Int r = s.most_pulled;
        const double b = policy.settings.scale, t = as_number(s.round) + 1.0, now = b * sqrt(2.0 * logs.of(s.round + 1));
        const double head = s.mean[r] + now * s.root[r], growth = b * b / (now * t);
        double out = as_number(s.pulls[r]);
        for (Int ell = 0; ell < s.arms(); ++ell) {
            if (ell == r || (filtered(policy) && s.against(r, ell) > 0)) continue;
            out = min(out, (head - s.mean[ell] - now * s.root[ell]) / (growth * s.root[ell]));
        }
        return static_cast<Int>(max(out, 0.0));
    }

    // With no filter, by one line below them all. O(K M).
    template <class S, class Policy> HW_DEVICE bool lasts(const S &s, const Policy &policy, const Stretch &stretch) {
        const bool plain = !filtered(policy);
        const Rewards &rewards = policy.rewards;
        const Int r = s.most_pulled, gain = stretch.reward();
        const double b = policy.settings.scale, t = as_number(s.round) + 1.0, m = as_number(stretch.m);
        const double n = as_number(s.pulls[r]), later = n + m, now = b * sqrt(2.0 * logs.of(s.round + 1));
        const double own = now * s.root[r], own_later = now / sqrt(later);  // at the end it is larger, by next to nothing
        const double all = n / rewards.unit, all_later = later / rewards.unit;
        const double then = now + m * b * b / (now * t);                   // the tangent
        const double total = as_number(s.total[r]), total_later = total + as_number(gain);
        double near = infinity, near_later = infinity;
        for (Int ell = 0; ell < s.arms(); ++ell) {
            if (ell == r || surely_excluded(s, policy, stretch, ell)) continue;
            const double spare = index_margin * (rewards.span + absolute(s.mean[ell]) + then * s.root[ell]);
            const double start = total - all * (s.mean[ell] + now * s.root[ell] - own + spare);
            const double end = total_later - all_later * (s.mean[ell] + then * s.root[ell] - own_later + spare);
            const bool fine = start > 0.0 && end > 0.0;
            if (plain && fine) {
                near = min(near, start);
                near_later = min(near_later, end);
            } else if (plain || !((fine && keeps(stretch, Spread(stretch, s.arms(), gain), start, end)) ||
                                  stays_excluded(s, policy, stretch, ell))) {
                return false;
            }
        }
        return !plain || keeps(stretch, Spread(stretch, s.arms(), gain), near, near_later);
    }
};

// KL-UCB, by the least that the most-pulled arm's index may be and the most that its rivals' may.
//
// Whether one index is above another takes no search where they differ: with some q between them, one evaluation of kl says
// that n kl(mean, q) is within the one's budget. A rival's index is a concave function of log t until it is pulled: so it is
// searched for once, and then lies between two lines.
template <> struct Standing<KlUcb> {
    RoundLog logs;

    HW_INLINE void lay(Arena &arena, Int arms) { known_ = arena.view<Known>(arms); }
    HW_INLINE void forget() { fill(known_, Known{}); }

    template <class S, class Policy> HW_INLINE Int outlook(const S &, const Policy &, Int steady) const { return steady; }

    // O(K M). What the filter excludes throughout needs no index.
    template <class S, class Policy> HW_DEVICE bool lasts(const S &s, const Policy &policy, const Stretch &stretch) {
        const Int r = s.most_pulled;
        const double later = as_number(s.pulls[r] + stretch.m), first = logs.of(s.round + 1);
        const double last = log(as_number(s.round) + as_number(stretch.m));
        const Scale scale{policy.rewards.low, policy.rewards.span};
        bool looked = false;
        double bottom = 0.0, bar = infinity;
        for (Int ell = 0; ell < s.arms(); ++ell) {
            if (ell == r || surely_excluded(s, policy, stretch, ell) || stays_excluded(s, policy, stretch, ell)) continue;
            Between rival = between(s, policy, ell, last);
            if (!looked) {
                looked = true;
                const Spread spread(stretch, s.arms(), stretch.reward());
                const double hope = lowest_mean(s, policy, stretch, strays_at_best(stretch, spread));
                if (compare(policy, hope, later, first, rival) == Answer::below) return false;
                bottom = lowest_mean(s, policy, stretch, strays(stretch, spread));
            }
            Answer answer = compare(policy, bottom, later, first, rival);
            if (answer == Answer::unclear && !rival.exact) {
                look(s, policy, ell, last);
                rival = between(s, policy, ell, last);
                answer = compare(policy, bottom, later, first, rival);
            }
            if (answer == Answer::below) return false;
            if (answer == Answer::above) continue;
            if (bar == infinity) {
                bar = kl_ucb_index(bottom, later, first, scale);
                bar -= index_margin * (policy.rewards.span + absolute(bar));
            }
            if (kl_ucb_reaches(s.mean[ell], as_number(s.pulls[ell]), bar, last, scale)) return false;
        }
        return true;
    }

    template <class S, class Policy> HW_DEVICE bool again(const S &s, const Policy &policy) {
        const Int r = s.most_pulled;
        if (s.round <= s.arms()) return false;
        const double log_t = logs.of(s.round + 1), n = as_number(s.pulls[r]);
        for (Int ell = 0; ell < s.arms(); ++ell) {
            if (ell == r || (filtered(policy) && s.against(r, ell) > 0)) continue;
            if (compare(policy, s.mean[r], n, log_t, between(s, policy, ell, log_t)) != Answer::above) return false;
        }
        return true;
    }

  private:
    enum class Answer { below, unclear, above };

    // A rival's index, on the scale of [0, 1], when log t was `log_t` and the arm had so many pulls, and by how much n kl grows
    // there.
    struct Known {
        double pulls = -1.0, log_t = 0.0, budget = 0.0, index = 0.0, slope = 0.0, mean = 0.0;
    };
    // Where an index is; where that is not known, `high` is 1.
    struct Between {
        double low = 0.0, high = 1.0;
        bool exact = true;  // whether looking again would say no more
    };

    // More than kl_ucb_reaches grants.
    HW_INLINE static double generous(double log_t, double n) { return log_t * (1.0 + 2e-9) + 8e-15 * n + 2e-12; }
    // What rounding might do to an index or a margin, on the scale of [0, 1], many times over.
    template <class Policy> HW_INLINE static double slack(const Policy &policy) {
        return 2e-11 * (1.0 + absolute(policy.rewards.low) / policy.rewards.span);
    }

    // The least that r's mean is in the stretch if its total falls that far behind.
    template <class S, class Policy>
    HW_INLINE static double lowest_mean(const S &s, const Policy &policy, const Stretch &stretch, double low) {
        const Int r = s.most_pulled, n = s.pulls[r];
        const double begin = (as_number(s.total[r]) - low) / as_number(n);
        const double end = (as_number(s.total[r] + stretch.reward()) - low) / as_number(n + stretch.m);
        return max(policy.rewards.unit * min(begin, end), policy.rewards.low);
    }

    // Search for a rival's index at log t.
    template <class S, class Policy> HW_DEVICE void look(const S &s, const Policy &policy, Int ell, double log_t) {
        const double n = as_number(s.pulls[ell]), low = policy.rewards.low, span = policy.rewards.span;
        const double mean = clamped((s.mean[ell] - low) / span), budget = generous(log_t, n);
        const double index = (kl_ucb_index(s.mean[ell], n, budget, Scale{low, span}) - low) / span;
        known_[ell] = {n, log_t, budget, index, growth(n, mean, index), mean};
    }
    // How fast n kl(mean, q) grows with q.
    HW_INLINE static double growth(double n, double mean, double q) { return n * (q - mean) / (q * (1.0 - q)); }

    template <class S, class Policy> HW_DEVICE Between between(const S &s, const Policy &policy, Int ell, double log_t) {
        const double n = as_number(s.pulls[ell]);
        if (n == 0.0 || policy.rewards.span <= 0.0) return {};
        const Known &known = known_[ell];
        if (known.pulls != n || absolute(log_t - known.log_t) > 0.05) look(s, policy, ell, log_t);
        if (!(known.index < 1.0 - 1e-9) || !(known.slope > 0.0)) return {};
        Between out;
        out.exact = known.log_t == log_t;
        out.high = known.index + (generous(log_t, n) - known.budget) / known.slope;  // the tangent
        if (!(out.high < 1.0 - 1e-9)) return {};
        const double more = log_t - known.budget;
        if (more > 0.0) {
            out.low = known.index + more / growth(n, known.mean, out.high);
        } else {  // down to `half` it grows by half as much, at least
            const double half = known.index + 2.0 * more / known.slope, slope = growth(n, known.mean, half);
            out.low = 2.0 * slope >= known.slope ? known.index + more / slope : 0.0;
        }
        return out;
    }

    // Where the index of an arm with such a mean and n pulls is: above a rival's, below it, or too near.
    template <class Policy>
    HW_DEVICE static Answer compare(const Policy &policy, double mean, double n, double log_t, Between rival) {
        if (!(rival.high < 1.0)) return Answer::unclear;
        const double p = (mean - policy.rewards.low) / policy.rewards.span, spare = slack(policy);
        if (p >= rival.high + spare) return Answer::above;
        if (!(p > 1e-9) || !(p < 1.0 - 1e-9) || !(rival.high + spare < 1.0)) return Answer::unclear;
        if (n * divergence(p, rival.high + spare - p) < log_t * (1.0 - 1e-9)) return Answer::above;
        if (p < rival.low - spare && n * divergence(p, rival.low - spare - p) > log_t * (1.0 + 1e-9)) return Answer::below;
        return Answer::unclear;
    }

    // kl(p, p + d), without cancellation where d is small.
    HW_INLINE static double divergence(double p, double d) { return -p * log1p(d / p) - (1.0 - p) * log1p(-d / (1.0 - p)); }

    View<Known> known_;
};

}  // namespace HW_BUILD
}  // namespace hw
