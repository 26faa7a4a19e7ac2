// UCB1: the mean plus B sqrt(2 log t / n).
#pragma once
#include "policy.h"

namespace hw {
inline namespace HW_BUILD {

// What an arm's root is multiplied by in a round. (A GPU's rounds bring it with them.)
template <class N> HW_INLINE N ucb1_width(const Round &round, const Settings &settings) {
    return number<N>(settings.scale * sqrt(2.0 * round.log_t));
}

struct Ucb1 {
    static constexpr Needs needs{};
    static constexpr bool cheap = true;  // an index costs no more than to say that it is not wanted
    static constexpr bool randomised = false;

    // The root changes only when the arm is pulled, so a round costs one product and one sum an arm.
    template <class S, class R, class Running> HW_INLINE static void rank(S &s, const Rewards &, const Settings &settings, const R &round, Running running) {
        using N = typename S::N;
        const N width = ucb1_width<N>(round, settings);
        HW_UNROLL
        for (Int k = 0; k < s.arms(); ++k)
            s.index[k] = pick(running(k), s.mean[k] + width * s.root[k], number<N>(-infinity));
    }
};

}  // namespace HW_BUILD
}  // namespace hw
