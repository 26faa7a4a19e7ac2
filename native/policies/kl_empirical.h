// KL-UCB in its empirical form: the largest mean that the arm's own rewards, one by one, do not refute.
#pragma once
#include "kl_ucb.h"

namespace hw {
inline namespace HW_BUILD {

// The index on the arm's own rewards, in units: the largest mean of a law q with n KL(observed law, q) <= log t. seen[m] of the
// pulls paid pays[m], at least one; n may also count pulls that have not paid yet. The largest reward may get mass although it was
// never seen. With f(nu) = sum p_m log(nu - v_m) + log sum p_m / (nu - v_m), which falls from nu = v_max on, the best q is
// proportional to p_m / (nu - v_m) where f meets the budget; if f stays below it, the rest of the mass goes to v_max. About 60
// steps of O(M).
template <class C, class Pays> HW_DEVICE inline auto kl_empirical_index(const C *seen, Int kinds, Pays pays, C n, double log_t) {
    using N = decltype(as_number(n));
    const N zero = number<N>(0.0), infinite = number<N>(infinity);
    double top = -infinity;
    for (Int m = 0; m < kinds; ++m) top = max(top, pays(m));
    C seen_top = whole<C>(0), paid = seen_top;
    for (Int m = 0; m < kinds; ++m) {
        paid = paid + seen[m];
        if (pays(m) == top) seen_top = seen_top + seen[m];
    }
    const N of = as_number(paid), budget = number<N>(log_t) / as_number(n);
    N out = number<N>(top);
    auto open = opposite(seen_top == paid);
    const auto first = both(open, budget <= zero);
    if (any(first)) {
        N total = zero;
        for (Int m = 0; m < kinds; ++m) total = total + as_number(seen[m]) * number<N>(pays(m));
        out = pick(first, total / of, out);
        open = both(open, opposite(first));
    }
    // the excess w of nu over the top: 0 first, if that is possible; then doubled until f is below the budget; then bisected
    N low = zero, high = number<N>(1.0), w = zero, inverse = infinite;
    auto expanding = opposite(low > high), searching = open;
    const auto touched = seen_top == whole<C>(0);
    for (int step = 0; step < 200 && any(searching); ++step) {
        const N tried = step == 0 ? zero : pick(expanding, high, number<N>(0.5) * (low + high));
        w = pick(searching, tried, w);
        const auto looked = step > 0 ? searching : both(searching, touched);
        if (any(looked)) {
            N logs = zero, sum = zero;
            for (Int m = 0; m < kinds; ++m) {
                const N times = as_number(seen[m]);
                const auto some = times > zero;
                if (!any(some)) continue;
                const N gap = number<N>(top) + w - number<N>(pays(m));
                logs = pick(some, logs + times * log(gap), logs);
                sum = pick(some, sum + times / gap, sum);
            }
            inverse = pick(looked, sum, inverse);
            const N value = logs / of + log(sum / of);
            const auto above = both(looked, value > budget), below = both(looked, opposite(value > budget));
            low = pick(above, w, low);
            if (step == 0) {
                out = pick(below, number<N>(top) - exp(value - budget) * of / sum, out);
                searching = both(searching, opposite(below));
                open = both(open, opposite(below));
            } else {
                high = pick(both(above, expanding), number<N>(2.0) * high, high);
                high = pick(below, w, high);
                expanding = both(expanding, opposite(below));
            }
        }
        const auto close = high - low <= number<N>(1e-14) * (absolute(number<N>(top)) + high);
        if (step > 0) searching = both(searching, opposite(both(opposite(expanding), close)));
    }
    return pick(open, number<N>(top) + w - of / inverse, out);
}

struct KlEmpirical {
    static constexpr Needs needs{.successes = false, .squares = false, .levels = true};
    static constexpr bool cheap = false;
    static constexpr bool randomised = false;

    template <class S, class Running> HW_INLINE static void rank(S &s, const Rewards &rewards, const Settings &, const Round &round, Running running) {
        using N = typename S::N;
        const Scale scale{rewards.low, rewards.span};
        for (Int k = 0; k < s.arms(); ++k) {
            const auto on = running(k), none = s.pulls[k] == whole<Count<N>>(0);
            N x = number<N>(-infinity);
            if (any(both(on, none)))  // no law yet: +inf, or the Bernoulli form while its first reward is pending
                x = pick(both(on, none), kl_ucb_index(s.mean[k], pulls_of(s, k), round.log_t, scale), x);
            const auto some = both(on, opposite(none));
            if (any(some)) {
                const auto pays = [&](Int m) { return static_cast<double>(rewards.units(k, m)); };
                const N own = kl_empirical_index(&s.seen[k * s.shape.kinds], s.shape.kinds, pays, s.pulls[k] + s.pending[k], round.log_t);
                x = pick(some, number<N>(rewards.unit) * own, x);
            }
            s.index[k] = x;
        }
    }
};

}  // namespace HW_BUILD
}  // namespace hw
