// Epsilon-greedy: the arm of largest mean, but with probability epsilon an arm by lot. Every arm once first.
#pragma once
#include "uniform.h"

namespace hw {
inline namespace HW_BUILD {

struct EpsilonGreedy {
    static constexpr Needs needs{};
    static constexpr bool cheap = false;
    static constexpr bool randomised = true;

    template <class S, class Running> HW_INLINE static void rank(S &s, const Rewards &rewards, const Settings &settings, const Round &round, Running running) {
        using N = typename S::N;
        const auto pair = draw(s, settings.key, round, purpose::choice, 1);
        const auto explores = to_open_unit(pair.one) < number<N>(settings.epsilon);
        Uniform::rank(s, rewards, settings, round, running);
        for (Int k = 0; k < s.arms(); ++k) {  // not to ask who is running again: that may be read from the indices
            const auto runs = s.index[k] > number<N>(-infinity), unseen = s.mean[k] == number<N>(infinity);
            s.index[k] = pick(both(runs, either(opposite(explores), unseen)), s.mean[k], s.index[k]);
        }
    }
};

}  // namespace HW_BUILD
}  // namespace hw
