// Thompson sampling: the arm that is best under a draw from the posterior of each mean.
//
// Normal: a draw of N(mean, sd^2 / n). With the deviation estimated, of N(mean, s^2), s the mean's standard error, which the state
// keeps for a root. Beta: of Beta(1 + successes, 1 + failures), rewards made 1 or 0 by a coin.
//
// Pending pulls are no evidence: draws spread by themselves. But an arm whose first one is pending counts as if it had paid the
// middle of the rewards.
#pragma once
#include "policy.h"

namespace hw {
inline namespace HW_BUILD {

template <class S> HW_INLINE Uniforms<Bits<typename S::N>> draw(const S &s, Key key, const Round &round, Long purpose, Int lane) {
    using B = Bits<typename S::N>;
    return uniforms(key, s.replication, broadcast_bits<typename S::N>(static_cast<Long>(round.t)), purpose, B(static_cast<Long>(lane)));
}

// Arms 2i and 2i + 1 share one call of the generator; the draws of arms that are not in the running are skipped, not shifted.
template <class S, class Running> HW_INLINE void rank_by_normal_draws(S &s, double sd, Key key, const Round &round, Running running) {
    using N = typename S::N;
    const N none = number<N>(-infinity), deviation = number<N>(sd);
    for (Int k = 0; k < s.arms(); k += 2) {
        const auto on = running(k), other = running(k + 1 < s.arms() ? k + 1 : k);
        const bool needed = any(either(on, other));
        if (!needed) {
            s.index[k] = none;
            if (k + 1 < s.arms()) s.index[k + 1] = none;
            continue;
        }
        const auto u = draw(s, key, round, purpose::normal, k / 2);
        s.index[k] = none;
        if (any(on)) s.index[k] = pick(on, s.mean[k] + deviation * s.root[k] * normal_quantile(to_open_unit(u.one)), none);
        if (k + 1 == s.arms()) break;
        s.index[k + 1] = none;
        if (any(other))
            s.index[k + 1] = pick(other, s.mean[k + 1] + deviation * s.root[k + 1] * normal_quantile(to_open_unit(u.two)), none);
    }
}

struct Thompson {
    static constexpr Needs needs{};
    static constexpr bool cheap = false;
    static constexpr bool randomised = true;

    template <class S, class Running> HW_INLINE static void rank(S &s, const Rewards &, const Settings &settings, const Round &round, Running running) {
        rank_by_normal_draws(s, settings.sd, settings.key, round, running);
    }
};

struct ThompsonEstimated {
    static constexpr Needs needs{.successes = false, .squares = true, .levels = false};
    static constexpr bool cheap = false;
    static constexpr bool randomised = true;

    template <class S, class Running> HW_INLINE static void rank(S &s, const Rewards &, const Settings &settings, const Round &round, Running running) {
        rank_by_normal_draws(s, 1.0, settings.key, round, running);
    }
};

inline constexpr Int gamma_attempts = 256;  // a gamma draw is rejected with probability < 0.05, so this bound is never met

// A gamma draw of shape >= 1, by Marsaglia and Tsang's method, for the lanes of `wanted`; the others are left at 1.
template <class S> HW_DEVICE inline typename S::N gamma_draw(const S &s, typename S::N shape, Mask<typename S::N> wanted, Key key,
                                                             const Round &round, Long purpose, Int arm) {
    using N = typename S::N;
    const N d = shape - number<N>(1.0 / 3.0), c = number<N>(1.0) / sqrt(number<N>(9.0) * d), half = number<N>(0.5);
    N out = pick(wanted, d, number<N>(1.0));
    auto open = wanted;
    for (Int attempt = 0; attempt < gamma_attempts && any(open); ++attempt) {
        const auto pair = draw(s, key, round, purpose, arm * gamma_attempts + attempt);
        const N z = normal_quantile(to_open_unit(pair.one)), u = to_open_unit(pair.two), side = number<N>(1.0) + c * z;
        const N v = side * side * side;
        const auto inside = side > number<N>(0.0);
        const auto taken = both(inside, log(u) < half * z * z + d - d * v + d * log(v));
        const N x = d * v;
        const auto done = both(both(open, taken), x > number<N>(0.0));
        out = pick(done, x, out);
        open = both(open, opposite(done));
    }
    return out;
}

struct ThompsonBeta {
    static constexpr Needs needs{.successes = true, .squares = false, .levels = false};
    static constexpr bool cheap = false;
    static constexpr bool randomised = true;

    template <class S, class Running> HW_INLINE static void rank(S &s, const Rewards &rewards, const Settings &settings, const Round &round, Running running) {
        using N = typename S::N;
        const N zero = number<N>(0.0), one = number<N>(1.0);
        for (Int k = 0; k < s.arms(); ++k) {
            const auto on = running(k), first = both(s.pulls[k] == whole<Count<N>>(0), s.pending[k] > whole<Count<N>>(0));
            s.index[k] = number<N>(-infinity);
            if (!any(on)) continue;
            const N n = pick(first, one, as_number(s.pulls[k])), wins = pick(first, number<N>(0.5), as_number(s.successes[k]));
            const auto known = both(on, n > zero);
            const N x = gamma_draw(s, one + wins, known, settings.key, round, purpose::beta_success, k);
            const N y = gamma_draw(s, one + n - wins, known, settings.key, round, purpose::beta_failure, k);
            const N share = number<N>(rewards.low) + number<N>(rewards.span) * (x / (x + y));
            s.index[k] = pick(known, share, pick(on, number<N>(infinity), s.index[k]));
        }
    }
};

}  // namespace HW_BUILD
}  // namespace hw
