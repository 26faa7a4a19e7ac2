// joint-ucb: the arm of largest joint index, the most that it can pay on average under any law of X that the whole table of counts
// allows.
#pragma once
#include "learning/learner.h"

namespace hw {
inline namespace HW_BUILD {

struct JointUcb {
    static constexpr bool randomised = false;
    static constexpr bool bounds = true;  // an index is a bound, so that an arm can be excluded
    static constexpr bool moves = false;

    // Nothing beside the fit state.
    struct Tools {
        HW_INLINE explicit Tools(const ChannelView &) {}
        HW_INLINE void set(const Settings &, const Evidence &) {}
        HW_INLINE void lay(Arena &) {}
        HW_INLINE void forget() {}
        HW_INLINE void rebuild() {}
        HW_INLINE void begin_ahead(bool) {}
        HW_INLINE void begin_draw() {}
        HW_INLINE void end_draw() {}
        HW_INLINE void after_choice() {}
        HW_INLINE void end_ahead(bool) {}
    };

    template <class Policy> HW_DEVICE static Int choose(const Policy &policy, typename Policy::State &s, const Round &, double delta) {
        FitState &fit = s.learner->fit;
        const Int arm = joint::decide(fit, delta);
        for (Int k = 0; k < s.arms(); ++k) s.index[k] = policy.evidence.mean(fit.arms[k].bound);
        return arm;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
