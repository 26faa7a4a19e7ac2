// The paper's filter: an arm that, by what the rewards of another say of it, cannot be best is left out of the running.
#pragma once
#include "policy.h"

namespace hw {
inline namespace HW_BUILD {

// Excluded by the most-pulled arm k: the sum over k's pulls of its reward less ell's pseudo-reward is above 0, that is, k's mean
// strictly exceeds ell's empirical pseudo-reward. The sums' diagonal is 0, so k stays; before the first reward all sums are 0.
template <class S> HW_INLINE auto excluded_by_most_pulled(const S &s, Int ell) {
    return s.outdone(ell);
}

// An index of -inf for every arm that the most-pulled one excludes, 0 for the others. O(K).
template <class S> HW_INLINE void exclude_by_most_pulled(S &s) {
    for (Int ell = 0; ell < s.arms(); ++ell)
        s.index[ell] = pick(excluded_by_most_pulled(s, ell), number<typename S::N>(-infinity), number<typename S::N>(0.0));
}

// Leave out, with an index of -inf, every arm that some other, well-pulled arm excludes; index 0 for the others. O(K^2) at worst.
//
// Well-pulled at the t-th decision: K n[k] >= t - 1, the number of rewards observed; some arm always is. With b the best mean
// among them (ties to the lowest number), ell stays if ell = b or its smallest empirical pseudo-reward over the others of them
// reaches b's mean: it is excluded if (total[k] - sums[k, ell]) / n[k] < total[b] / n[b]. An arm's own mean never excludes it:
// weighing means is the index's business, and unrelated arms must all stay. Equal fractions of whole numbers round to the same
// number, so a tie stays a tie. Totals are those of the likeliest law (`shift`). Arms that are not `on` are left out of all this.
template <class S, class On> HW_DEVICE inline void exclude_by_well_pulled(S &s, On on) {
    using N = typename S::N;
    using C = typename S::C;
    C arms = whole<C>(0), observed = arms;
    for (Int k = 0; k < s.arms(); ++k) {
        s.index[k] = number<N>(0.0);
        arms = pick(on(k), arms + whole<C>(1), arms);
        observed = pick(on(k), observed + s.pulls[k], observed);
    }
    const auto some = observed > whole<C>(0);
    if (!any(some)) return;
    const auto well_pulled = [&](Int k) { return both(both(some, on(k)), s.pulls[k] * arms >= observed); };
    Best<N, C> best;
    auto found = both(some, opposite(some));
    for (Int k = 0; k < s.arms(); ++k) {
        const auto well = well_pulled(k);
        const N x = to_number<N>(s.total[k] + s.shift[k]) / to_number<N>(s.pulls[k]);
        const auto better = both(well, either(opposite(found), x > best.index));
        best.index = pick(better, x, best.index);
        best.arm = pick(better, whole<C>(k), best.arm);
        found = either(found, well);
    }
    for (Int k = 0; k < s.arms(); ++k) {
        const auto well = well_pulled(k);
        if (!any(well)) continue;
        for (Int ell = 0; ell < s.arms(); ++ell) {
            if (ell == k) continue;
            const N most = to_number<N>(s.total[k] + s.shift[k] - s.against(k, ell)) / to_number<N>(s.pulls[k]);
            const auto out = both(both(well, most < best.index), opposite(best.arm == whole<C>(ell)));
            s.index[ell] = pick(out, number<N>(-infinity), s.index[ell]);
        }
    }
}

}  // namespace HW_BUILD
}  // namespace hw
