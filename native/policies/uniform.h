// Uniform: every arm with the same chance, whatever was learned. The A/B test.
#pragma once
#include "thompson.h"

namespace hw {
inline namespace HW_BUILD {

struct Uniform {
    static constexpr Needs needs{};
    static constexpr bool cheap = false;
    static constexpr bool randomised = true;

    // The lot falls on a place among the arms in the running, each with the same chance but for 2^-53: that arm has the index 1, the
    // others 0. O(K).
    template <class S, class Running> HW_INLINE static void rank(S &s, const Rewards &, const Settings &settings, const Round &round, Running running) {
        using N = typename S::N;
        const N zero = number<N>(0.0), one = number<N>(1.0), none = number<N>(-infinity);
        N size = zero, before = zero;
        for (Int k = 0; k < s.arms(); ++k) size = size + pick(running(k), one, zero);
        const auto lot = draw(s, settings.key, round, purpose::choice, 0).one;
        const N place = floor(number_of(lot) * number<N>(0x1p-53) * size);
        for (Int k = 0; k < s.arms(); ++k) {
            const auto on = running(k);
            s.index[k] = pick(on, pick(before == place, one, zero), none);
            before = before + pick(on, one, zero);
        }
    }
};

}  // namespace HW_BUILD
}  // namespace hw
