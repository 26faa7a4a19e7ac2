// The audit: an arm that the model excludes is pulled while its own rewards do not rule it out, at a budget.
#pragma once
#include "kl_ucb.h"

namespace hw {
inline namespace HW_BUILD {

// Measured: benchmarks/wrong_models.py, benchmarks/audit.py; the late ones are release 0.1's.
inline constexpr double audit_after = 30.0, audit_growth = 0.15, late_after = 1000.0, late_growth = 0.025;

HW_DEVICE inline bool audit_due(const Settings &settings, double log_t) {
    const double after = settings.late ? late_after / settings.audit : audit_after;
    return settings.audit > 0.0 && log_t > log(after) + 1e-9;
}

// What an audit may spend where KL-UCB spends log t: much of it at once, because a wrong model costs most when it is found out
// late, and more later, because there is more to lose.
HW_DEVICE inline double audit_budget(const Settings &settings, double log_t) {
    return settings.audit * (1.0 + (settings.late ? late_growth : audit_growth) * log_t);
}

// The mean that an audited arm must be able to reach: enough above the best one to matter within t rounds. To find an arm better by
// d costs about 2 v log t / d, v the variance of its rewards; not to find it costs d t. The largest variance that rewards with the
// best mean can have stands for v, so that rare rewards are no reason to miss an arm twice as good. (Late audits took the square
// of the range.)
template <class N> HW_DEVICE inline N audit_bar(N top, double log_t, const Rewards &rewards, const Settings &settings) {
    const N low = number<N>(rewards.low), span = number<N>(rewards.span);
    const double part = log_t * exp(-log_t);
    if (settings.late) return top + number<N>(rewards.span * sqrt(part));
    const N variance = larger((top - low) * (low + span - top), number<N>(0.0));
    return top + sqrt(number<N>(2.0) * variance * number<N>(part)) + number<N>(rewards.span * part);
}

// The arm to pull: `chosen`, or instead an arm of index -inf that its own rewards do not rule out yet: one whose KL-UCB index with
// the audit's budget reaches the bar above `top`, the mean of the most-pulled arm; the largest of them, the lowest number among
// equals. Nothing is audited before it is due, or while the most-pulled arm has no mean. So where the model is right, an excluded
// arm costs about budget / kl pulls. O(K).
template <class S> HW_RARE typename S::C audited(const S &s, typename S::C chosen, typename S::N top, double log_t,
                                                          const Rewards &rewards, const Settings &settings) {
    using N = typename S::N;
    if (!audit_due(settings, log_t)) return chosen;
    const auto due = top < number<N>(infinity);
    const Scale scale{rewards.low, rewards.span};
    const N bar = audit_bar(top, log_t, rewards, settings);
    const double budget = audit_budget(settings, log_t);
    Best<N> best{number<N>(-infinity), chosen};
    for (Int k = 0; k < s.arms(); ++k) {
        const auto out = both(due, s.index[k] == number<N>(-infinity));
        if (!any(out)) continue;
        const N n = pulls_of(s, k);
        const auto may = both(out, kl_ucb_reaches(s.mean[k], n, bar, budget, scale));
        if (!any(may)) continue;
        N x = kl_ucb_index(s.mean[k], n, budget, scale);
        x = pick(n == number<N>(0.0), number<N>(infinity), x);
        const auto reaches = both(may, either(x >= bar, n == number<N>(0.0)));
        best.offer(k, pick(reaches, x, number<N>(-infinity)));
    }
    return best.arm;
}

}  // namespace HW_BUILD
}  // namespace hw
