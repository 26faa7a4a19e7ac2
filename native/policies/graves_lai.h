// graves-lai: the likeliest law's best arm; explores at the Graves-Lai rates while some plausible law favours another arm.
#pragma once
#include "learning/exploration.h"
#include "learning/learner.h"

namespace hw {
inline namespace HW_BUILD {

struct GravesLai {
    static constexpr bool randomised = false;
    static constexpr bool bounds = false;
    static constexpr bool moves = false;

    struct Tools {
        Exploration exploration;
        Doubles planned_aside, rates_aside;
        double until_aside = 0.0;
        Int arm_aside = 0;
        Int points, arms;

        HW_INLINE explicit Tools(const ChannelView &channels) : exploration(channels), points(channels.atoms()), arms(channels.arms()) {}
        HW_INLINE void set(const Settings &, const Evidence &evidence) { exploration.low = evidence.zero, exploration.span = evidence.width; }
        HW_DEVICE void lay(Arena &arena) {
            exploration.lay(arena);
            planned_aside = arena.view<double>(points);
            rates_aside = arena.view<double>(arms);
        }
        HW_DEVICE void forget() { hw::forget(exploration); }
        HW_INLINE void rebuild() { exploration.held_until = 0.0, exploration.held_arm = 0; }
        HW_DEVICE void begin_ahead(bool) {
            copy<double>(exploration.planned, planned_aside);
            copy<double>(exploration.rates, rates_aside);
            until_aside = exploration.held_until, arm_aside = exploration.held_arm;
        }
        HW_INLINE void begin_draw() {}
        HW_INLINE void end_draw() {}
        HW_INLINE void after_choice() { exploration.held_until = until_aside, exploration.held_arm = arm_aside; }
        HW_DEVICE void end_ahead(bool) {
            copy<double>(planned_aside, exploration.planned);
            copy<double>(rates_aside, exploration.rates);
        }
    };

    template <class Policy> HW_DEVICE static Int choose(const Policy &, typename Policy::State &s, const Round &, double) {
        const Int arms = s.arms();
        return explore(s.learner->tools.exploration, s.learner->fit, {{s.pulls.data, arms}, {s.pending.data, arms}, s.round}, {s.index.data, arms});
    }
};

}  // namespace HW_BUILD
}  // namespace hw
