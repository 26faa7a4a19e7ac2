// What a policy that reads all evidence at once keeps of it: the likeliest law of X, and for each arm its
// last solution, with bounds of its index that follow the counts. All of it is derived from the counts.
#pragma once
#include "likelihood.h"

namespace hw {

// What is known of an arm's index. `theta` is the tilt of its last solution (0: none), `peak` the maximum in
// the bound from above and `spent` the sum in it, `like` the likelihood of its law, `top` and `base` the
// arm's mean under its law and under the likeliest, `most` its largest mean; `exact` says that `bound` and
// `floor` are one, `tries` how often it was worked at for this decision.
struct ArmBounds {
    double theta, peak, spent, like, top, base, most, bound, floor;
    Int tries;
    bool exact;
};

// The logarithms of a row's z and price at some solution. Until the row is first seen `z` is z itself, as few
// such rows are ever asked for, and the price is -inf.
struct RowLogs {
    double z, price;
};

// What is known of the likeliest law: nothing of use, from both sides, or exactly.
enum class Freshness : int { unknown, stale, exact };

// What a joint policy keeps of the counts `n` (R,), with their logarithms `log_n` (0 where n is 0).
//
// `laws` (K + 1, J): each arm's last solution, and the likeliest law; with the counts `counted` (K, R) and
// the likeliest law's z `then` (K, R) of that time; `now` (R,) is its z now. `logs` (K + 1, R) go with the
// laws. `likelihood` is the likeliest law's, `priced` the sum of n log of its prices, `entropy` the sum of n
// log n, `total` N, with N log N and, for the next reward, `log_next` = log(N + 1); `forecast` is the
// forecaster's likelihood (see the guard). `doubted` (K,) marks arms the guard spoke against: their rewards
// are not in `n` and `pulls` (K,), and their index is `own` (K,), which caps every other arm's too (inf: no
// cap). `share` (K,) is the part of the threshold delta that an arm's index goes by: 1, or less while pulls
// of it are pending; below 0 marks an arm that may not be chosen. Where channels were learned, `slack` (K,)
// is what an arm's mean may be above the model's, and `leeway` (K,) what a reward may lose in likelihood.
// `eager` solves every arm in every round: slow, for comparison.
struct FitState {
    ChannelView view;
    Room room;
    bool eager = false;

    Doubles n, log_n, pulls, own, share, slack, leeway;
    View<bool> doubted;
    Table laws, counted, then;
    Doubles now;
    Grid<RowLogs> logs;
    View<ArmBounds> arms;
    View<int> seen;  // the rows with n > 0, ascending; of these the first `seen_size`
    Int seen_size = 0;

    double likelihood = 0.0, priced = 0.0, entropy = 0.0, total = 0.0, total_log_total = 0.0, log_next = 0.0;
    double forecast = 0.0;
    Freshness fresh = Freshness::unknown;

    HW_INLINE explicit FitState(const ChannelView &channels) : view(channels), room(room_for(channels)) {}

    HW_INLINE void lay(Arena &arena) {
        const Int count = view.arms(), rows = view.rows();
        room.lay(arena);
        arms = arena.view<ArmBounds>(count);
        lay_each(arena, count, pulls, own, share, slack, leeway);
        lay_each(arena, rows, n, log_n, now);
        seen = arena.view<int>(rows);
        doubted = arena.view<bool>(count);
        laws = arena.grid<double>(count + 1, view.atoms());
        counted = arena.grid<double>(count, rows), then = arena.grid<double>(count, rows);
        logs = arena.grid<RowLogs>(count + 1, rows);
    }

    HW_INLINE Counts counts() const { return {n, seen.first(seen_size), total}; }
    HW_INLINE Law law(Int ell) const { return {laws[ell], room.z}; }
    HW_INLINE Doubles likeliest_law() const { return laws[view.arms()]; }
    HW_INLINE View<RowLogs> likeliest_logs() const { return logs[view.arms()]; }
};

inline namespace HW_BUILD {

// Atoms up to which the first law tried uses all; beyond, one: solutions use few, and atoms are dropped one
// at a time.
inline constexpr Int dense = 64;

HW_INLINE double x_log_x(double x) { return x > 0.0 ? x * log(x) : 0.0; }

namespace detail {

// Take the counts as they are, but for those of doubted arms, which go: all sums, lists and the forecast.
// O(R).
HW_DEVICE inline void recount(FitState &state) {
    const ChannelView &view = state.view;
    state.entropy = state.total = state.forecast = 0.0;
    state.seen_size = 0;
    for (Int k = 0; k < view.arms(); ++k) {
        const Int low = view.offset[k], high = view.offset[k + 1];
        double pulls = 0.0;
        for (Int i = low; i < high; ++i) {
            if (state.doubted[k]) state.n[i] = 0.0;
            state.log_n[i] = state.n[i] > 0.0 ? log(state.n[i]) : 0.0;
            if (state.n[i] > 0.0) state.seen[state.seen_size++] = static_cast<int>(i);
            state.entropy += state.n[i] * state.log_n[i];
            pulls += state.n[i];
        }
        state.pulls[k] = pulls;
        state.total += pulls;
        if (pulls > 0.0) {
            const double half = 0.5 * static_cast<double>(high - low);
            state.forecast += log_gamma(half) - log_gamma(pulls + half);
            for (Int i = low; i < high; ++i) state.forecast += log_gamma(state.n[i] + 0.5) - log_gamma(0.5);
        }
    }
    state.total_log_total = x_log_x(state.total);
    state.log_next = log(state.total + 1.0);
}

// By how much each arm's learned channel may be wrong where X has law p, its atoms listed: in its mean, and
// in what a reward loses.
HW_DEVICE inline void allow(FitState &state, KnownDoubles p) {
    for (Int ell = 0; ell < state.view.arms(); ++ell) {
        const KnownDoubles error = state.view.error[ell], strain = state.view.strain[ell];
        double square = 0.0, loss = 0.0;
        for_used(state.room, p, [&](Int j) {
            const double part = p[j] * error[j];
            square += part * part;
            loss += p[j] * p[j] * strain[j];
        });
        state.slack[ell] = sqrt(square), state.leeway[ell] = loss;
    }
}

// The likeliest law anew, with its prices, and every arm's mean under it. One climb, O(R + K J).
HW_DEVICE inline void solve_likeliest(FitState &state) {
    const Counts counts = state.counts();
    const Law law = state.law(state.view.arms());
    const double gap = climb(state.view, state.room, counts, {state.view.g[0], 0.0}, 1e-9, law);
    const double peak = log(state.total + max(gap, 0.0));
    copy<double>(law.z, state.now);
    View<RowLogs> logs = state.likeliest_logs();
    double likelihood = 0.0, priced = 0.0;
    bool possible = true;
    for (const int i : counts.seen) {
        logs[i].z = log(law.z[i]);
        logs[i].price = state.log_n[i] - logs[i].z - peak;
        possible &= law.z[i] > 0.0;
        likelihood += counts.n[i] * logs[i].z;
        priced += counts.n[i] * logs[i].price;
    }
    state.likelihood = possible ? likelihood : -infinity, state.priced = priced;
    for (Int ell = 0; ell < state.view.arms(); ++ell)
        state.arms[ell].base = mean_under(state.room, law.p, state.view.g[ell]);
    if (state.view.learned()) allow(state, law.p);
    state.fresh = Freshness::exact;
}

}  // namespace detail

// Forget every solution: the counts, or what is doubted, were changed from outside. Takes doubted arms' rows
// out. O(K (J + R)).
HW_DEVICE inline void relearn(FitState &state) {
    const ChannelView &view = state.view;
    const Int used = view.atoms() <= dense ? view.atoms() : 1;
    fill(state.laws.flat(), 0.0);
    const double share = 1.0 / static_cast<double>(used);
    for (Int ell = 0; ell <= view.arms(); ++ell) fill(state.laws[ell].first(used), share);
    detail::recount(state);
    for (Int ell = 0; ell <= view.arms(); ++ell) {
        View<RowLogs> logs = state.logs[ell];
        for (Int i = 0; i < logs.size; ++i) logs[i] = {state.n[i] > 0.0 ? -infinity : 0.0, -infinity};
    }
    state.fresh = Freshness::unknown;
    for (Int ell = 0; ell < view.arms(); ++ell) {
        state.arms[ell] = ArmBounds{};
        double most = -infinity;
        for (const double mean : view.g[ell]) most = max(most, mean);
        state.arms[ell].most = most;
    }
}

// Back to knowing nothing, with no arm doubted, none capped, all of them on offer. Also what comes first.
HW_DEVICE inline void forget(FitState &state) {
    fill(state.n, 0.0), fill(state.slack, 0.0), fill(state.leeway, 0.0), fill(state.room.scatter, 0.0);
    fill(state.own, infinity), fill(state.share, 1.0), fill(state.doubted, false);
    fill(state.now, 0.0), fill(state.counted.flat(), 0.0), fill(state.then.flat(), 0.0);
    relearn(state);
}

namespace detail {

// Row i is seen for the first time: list it, and take the logarithms that were put off. O(R + K).
HW_COLD void see_first(FitState &state, Int i) {
    Int at = state.seen_size++;
    for (; at > 0 && state.seen[at - 1] > i; --at) state.seen[at] = state.seen[at - 1];
    state.seen[at] = static_cast<int>(i);
    for (Int ell = 0; ell < state.logs.rows; ++ell) {
        double &z = state.logs(ell, i).z;
        z = z > 0.0 ? log(z) : -infinity;
    }
}

}  // namespace detail

// Count that row i, one of arm k's, was seen once more, and move every bound along. O(K).
HW_DEVICE inline void witness(FitState &state, Int k, Int i) {
    if (state.doubted[k]) return;
    const Int count = state.view.arms();
    const double before = state.n[i] * state.log_n[i], n = state.n[i] + 1.0, log_n = log(n);
    const double more = n * log_n - before;
    if (state.n[i] == 0.0) detail::see_first(state, i);
    const double half = 0.5 * static_cast<double>(state.view.rows_of(k));
    state.n[i] = n, state.log_n[i] = log_n;
    state.forecast += log((n - 0.5) / (state.pulls[k] + half));
    state.pulls[k] += 1.0;
    const RowLogs *logs = state.logs.data + i;
    for (Int ell = 0; ell < count; ++ell, logs += state.logs.columns) {
        ArmBounds &arm = state.arms[ell];
        if (logs->price > -infinity) arm.spent += more - 1.0 - logs->price;
        arm.like += logs->z;
    }
    state.entropy += more;
    state.total += 1.0;
    state.total_log_total = state.total * state.log_next;
    state.log_next = log(state.total + 1.0);
    if (logs->price > -infinity) {
        state.likelihood += logs->z;
        state.priced += logs->price;
        if (state.fresh == Freshness::exact) state.fresh = Freshness::stale;
    } else {
        // the likeliest law calls it impossible: nothing is known of L* from below
        state.fresh = Freshness::unknown;
    }
}

// Bring the likeliest law, `likeliest_law()`, up to date; uniform, or one atom, before the first reward.
HW_DEVICE inline void freshen(FitState &state) {
    if (state.fresh != Freshness::exact && state.total > 0.0) detail::solve_likeliest(state);
}

}  // namespace HW_BUILD
}  // namespace hw
