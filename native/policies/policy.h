// The contract of a policy, and what every policy decides from.
//
// A policy is four verbs on a state:
//
//   choose(state, round)         the arm to pull
//   observe(state, arm, paid)    count a reward
//   rebuild(state)               whatever it keeps beside the counts, anew from the counts alone
//   explain(state)               its last choice as numbers: an index for every arm, -inf for what is excluded
//
// The t-th decision, t = 1, 2, ..., is made from the first t - 1 rewards, with log t in the indices. An arm never pulled has mean
// +inf and root 0, which makes its index +inf without a branch. Ties go to the lowest-numbered arm.
#pragma once
#include "../state.h"

namespace hw {
inline namespace HW_BUILD {

struct Round {
    Int t = 1;
    double log_t = 0.0;
};
HW_INLINE Round round_of(Int t) { return {t, log(static_cast<double>(t))}; }

// The arm of largest index so far.
template <class N, class C = Count<N>> struct Best {
    N index = broadcast<N>(-infinity);
    C arm = whole<C>(0);

    HW_INLINE void offer(Int k, N x) {
        const auto better = x > index;
        if constexpr (same_type<C, Int> && wide > 1) {  // a branch here would be guessed, and often wrongly
            index = larger(index, x);
            arm ^= (arm ^ k) & -static_cast<Int>(better);
        } else {
            index = pick(better, x, index);
            arm = pick(better, whole<C>(k), arm);
        }
    }
};

template <class N> HW_INLINE N number(double x) { return broadcast<N>(x); }

// Pulls of an arm, those included that have not paid yet.
template <class S> HW_INLINE typename S::N pulls_of(const S &s, Int k) { return to_number<typename S::N>(s.pulls[k] + s.pending[k]); }

}  // namespace HW_BUILD
}  // namespace hw
