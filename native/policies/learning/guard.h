// The guard against a wrong model.
//
// Let a forecaster who knows nothing of X predict each arm's rewards from its own past, a reward seen n of m
// times with probability (n + 1/2) / (m + M/2), M the number of rewards the arm can pay. Under the true law
// the ratio of the forecast's likelihood to the truth's is a martingale of mean 1, however arms are chosen,
// so that but for a chance of alpha it never reaches 1/alpha. When it does even against the likeliest law,
// the model contradicts the rewards: the arm that fits worst is doubted. Its rewards no longer count as
// evidence on X, and its index is its own. The laws that the forecast has not refuted at level alpha are a
// confidence region for the law of X that holds at all times at once.
#pragma once
#include "fit_state.h"

namespace hw {
inline namespace HW_BUILD {

// How much less likely arm k's rewards are under the law whose z is given than under their own frequencies,
// less its leeway.
HW_DEVICE inline double misfit_of(const FitState &state, Int k, KnownDoubles z) {
    double misfit = -x_log_x(state.pulls[k]) - state.pulls[k] * state.leeway[k];
    for (Int i = state.view.offset[k]; i < state.view.offset[k + 1]; ++i) {
        if (state.n[i] > 0.0) misfit += state.n[i] * state.log_n[i] - state.n[i] * log(z[i]);
    }
    return misfit;
}

// The arm to doubt, or -1, at the guard's `limit`: -log of its error rate. O(1) while the evidence is far
// from speaking.
HW_DEVICE inline Int contradiction(FitState &state, double limit) {
    const bool known = state.fresh != Freshness::unknown;
    if (state.total == 0.0 || (known && state.forecast - state.likelihood <= limit)) return -1;
    freshen(state);
    for (Int k = 0; k < state.view.arms(); ++k) limit += state.pulls[k] * state.leeway[k];
    if (state.forecast - state.likelihood <= limit) return -1;
    Doubles z = state.room.z;
    through(state.view, state.likeliest_law(), z);
    Int worst = -1;
    double most = -infinity;
    for (Int k = 0; k < state.view.arms(); ++k) {
        if (state.pulls[k] == 0.0) continue;
        const double misfit = misfit_of(state, k, z);
        if (misfit > most) worst = k, most = misfit;
    }
    return worst;
}

// No longer take arm k's rewards as evidence on X.
HW_DEVICE inline void doubt(FitState &state, Int k) {
    state.doubted[k] = true;
    relearn(state);
}

// Let the guard look at the counts: doubt arms until what is left can be explained.
HW_DEVICE inline void check(FitState &state, double limit) {
    for (Int k = contradiction(state, limit); k >= 0; k = contradiction(state, limit)) doubt(state, k);
}

}  // namespace HW_BUILD
}  // namespace hw
