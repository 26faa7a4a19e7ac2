// The one list of policies: `HW_RULE(code, name, type)` for every index rule, and for every rule that learns the law of X. Names are
// those that Python knows. (The types of the latter are in policies/learning.h, which only needs one build.)
#pragma once
#include "policies/epsilon_greedy.h"
#include "policies/indexed.h"
#include "policies/kl_empirical.h"
#include "policies/kl_ucb.h"
#include "policies/thompson.h"
#include "policies/ucb1.h"
#include "policies/uniform.h"

#define HW_INDEX_RULES(HW_RULE)                                \
    HW_RULE(ucb1, "ucb1", Ucb1)                                \
    HW_RULE(kl_ucb, "kl-ucb", KlUcb)                            \
    HW_RULE(kl_ucb_empirical, "kl-ucb-empirical", KlEmpirical) \
    HW_RULE(ts, "ts", Thompson)                                \
    HW_RULE(ts_estimated, "ts-estimated", ThompsonEstimated)   \
    HW_RULE(ts_beta, "ts-beta", ThompsonBeta)                  \
    HW_RULE(uniform, "uniform", Uniform)                       \
    HW_RULE(epsilon_greedy, "epsilon-greedy", EpsilonGreedy)

#define HW_LEARNING_RULES(HW_RULE)             \
    HW_RULE(joint_ucb, "joint-ucb", JointUcb)  \
    HW_RULE(latent_ts, "latent-ts", LatentTs)  \
    HW_RULE(graves_lai, "graves-lai", GravesLai)

namespace hw {
enum class Rule : Int {
#define HW_CODE(code, name, type) code,
    HW_INDEX_RULES(HW_CODE) HW_LEARNING_RULES(HW_CODE)
#undef HW_CODE
};
}  // namespace hw
