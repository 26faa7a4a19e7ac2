// graves-lai: exploit the likeliest law's best arm until a plausible law favours another, then explore
// where it is cheapest.
#pragma once
#include "exploration_rates.h"
#include "fit_state.h"

namespace hw {

// What graves-lai keeps beside the fit state. Pulls of `held_arm` until round `held_until` are decided
// already. `rates` (K,) are those at the law `planned` (J,), zeros before there is one; `last_law` and
// `last_rates` are the last that were worked out.
struct Exploration {
    Doubles planned, rates;
    double held_until = 0.0;
    Int held_arm = 0;
    double low = 0.0, span = 1.0;  // the scale of the indices: a mean of 0 and of 1
    Doubles last_law, last_rates;
    Doubles lead, law;  // (J,) scratch: what a rival pays more than the best; a law
    RatesProgramme programme;

    HW_INLINE explicit Exploration(const ChannelView &channels)
        : programme(channels), arms_(channels.arms()), points_(channels.atoms()) {}

    HW_DEVICE void lay(Arena &arena) {
        lay_each(arena, points_, planned, last_law, lead, law);
        lay_each(arena, arms_, rates, last_rates);
        programme.lay(arena);
    }

  private:
    Int arms_, points_;
};

// What has been played: rewards counted and pulls that have not paid, by arm; the round is how many of both
// there are.
struct Played {
    KnownInts pulls, pending;
    Int round;
};

inline namespace HW_BUILD {

// Back to knowing nothing. Also what comes first.
HW_DEVICE inline void forget(Exploration &mine) {
    fill(mine.planned, 0.0), fill(mine.rates, 0.0), fill(mine.last_law, 0.0), fill(mine.last_rates, 0.0);
    mine.held_until = 0.0, mine.held_arm = 0;
}

// The exploration rates at the law `planned`.
HW_DEVICE inline void plan(Exploration &mine, const ChannelView &channels) {
    mine.programme.solve(channels, mine.planned, mine.rates);
}

namespace detail {

// As `plan`, from memory if it is the law of the last call: with pulls pending, one law is planned for many
// times.
HW_DEVICE inline void recall_plan(Exploration &mine, const ChannelView &channels) {
    bool same = true;
    for (Int j = 0; j < mine.planned.size; ++j) same = same && mine.last_law[j] == mine.planned[j];
    if (same) {
        copy<double>(mine.last_rates, mine.rates);
        return;
    }
    plan(mine, channels);
    copy<double>(mine.planned, mine.last_law);
    copy<double>(mine.rates, mine.last_rates);
}

HW_INLINE double mean(KnownDoubles x, KnownDoubles p) {
    double total = 0.0;
    for (Int j = 0; j < p.size; ++j) total += x[j] * p[j];
    return total;
}

// Whether some law under which `lead` is 0 or more has a likelihood less than `limit` below the largest.
//
// That drop is the largest D(theta) = best - max_p (L + theta lead.p), whose slope is -lead.p at the
// maximiser: Newton's method on the slope, until D settles it one way or p does it the other. From the
// uniform law, so that the answer is that of the counts.
//
// A law that stops short of the lead, by less than climbing can tell, is no such law: the answer is then
// no, however likely it is.
HW_DEVICE inline bool plausible(FitState &state, KnownDoubles lead, double limit, Doubles p) {
    constexpr Int TURNS = 60;
    constexpr double TOLERANCE = 1e-7;
    const Counts counts = state.counts();
    const Law law{p, state.room.z};
    const double range = 2.0 * magnitude(lead);
    fill(p, 1.0 / static_cast<double>(p.size));
    double low = 0.0, high = infinity, theta = 1.0;
    for (Int turn = 1; turn <= TURNS; ++turn) {
        const double gap = climb(state.view, state.room, counts, {lead, theta}, TOLERANCE, law);
        const double ahead = mean(lead, p), drop = state.likelihood - log_likelihood(counts, law.z);
        if (drop - theta * ahead >= limit) return false;
        if (ahead >= 0.0 && drop < limit) return true;
        (ahead < 0.0 ? low : high) = theta;
        const double slope = tilt_slope(state.view, state.room, counts, lead, law);
        double following = slope > 0.0 ? theta - ahead / slope : 4.0 * theta;
        const double creep = static_cast<double>(TURNS - turn) * (following - theta);
        if (ahead < 0.0 && slope > 0.0 && theta + creep < high && gap + creep * range < 0.5 * TOLERANCE)
            return false;  // in all turns that are left, no tilt would move p
        if (!(low < following && following < high) || following > 30.0 * theta)
            following = high < infinity ? 0.5 * (low + high) : 8.0 * theta;
        if (absolute(following - theta) <= 1e-12 * theta || theta > 1e15) break;
        theta = following;
    }
    return false;
}

// Whether it takes little to see that there is no such law: D is at least `limit` where Newton's method on
// its slope would first go from the likeliest law. Most questions are answered here.
HW_DEVICE inline bool implausible(FitState &state, KnownDoubles lead, double limit, Doubles p) {
    const Counts counts = state.counts();
    const Law law{p, state.room.z};
    copy<double>(state.likeliest_law(), p);
    climb(state.view, state.room, counts, {lead, 0.0}, infinity, law);  // stays there
    const double slope = tilt_slope(state.view, state.room, counts, lead, law), behind = -mean(lead, p);
    if (!(slope > 0.0 && behind > 0.0)) return false;
    const double theta = behind / slope;
    const double gap = climb(state.view, state.room, counts, {lead, theta}, 0.05 * limit, law);
    const double drop = state.likelihood - log_likelihood(counts, law.z);
    return drop - theta * mean(lead, p) - gap >= limit;
}

// Whether no plausible law favours an arm over the best, as far as the channels are believed of both.
HW_DEVICE inline bool settled(Exploration &mine, FitState &state, Int best, double limit) {
    if (!(state.total > 0.0) || state.doubted[best]) return true;
    const KnownTable g = state.view.g;
    for (Int k = 0; k < g.rows; ++k) {
        if (k == best || !(state.share[k] >= 0.0) || state.doubted[k]) continue;
        for (Int j = 0; j < g.columns; ++j) mine.lead[j] = g(k, j) - g(best, j);
        if (implausible(state, mine.lead, limit, mine.law)) continue;
        if (plausible(state, mine.lead, limit, mine.law)) return false;
    }
    return true;
}

// Have the rates at the likeliest law with half a reward spread over all points, solved anew where that law
// moved.
HW_DEVICE inline void follow(Exploration &mine, const FitState &state, Int rewards) {
    const KnownDoubles law = state.likeliest_law();
    const double size = static_cast<double>(law.size);
    const double share = min(0.5 / (static_cast<double>(rewards) + 1.0), 0.5 / size);
    double moved = 0.0;
    for (Int j = 0; j < law.size; ++j) {
        mine.lead[j] = (1.0 - size * share) * law[j] + share;
        moved = max(moved, absolute(mine.lead[j] - mine.planned[j]));
    }
    if (!(moved > 0.005)) return;
    copy<double>(mine.lead, mine.planned);
    recall_plan(mine, state.view);
}

// The arm most short of its rate, or the best where none is. What a doubted arm pays would settle nothing.
HW_DEVICE inline Int shortest(const Exploration &mine, const FitState &state, const Played &played, Int best,
                              double limit) {
    const Int pulled = played.pulls[best] + played.pending[best];
    Int chosen = best;
    double most = 0.0;
    for (Int k = 0; k < mine.rates.size; ++k) {
        const Int count = played.pulls[k] + played.pending[k];
        const double n = static_cast<double>(count), due = mine.rates[k] * limit;
        const bool heard = state.share[k] >= 0.0 && !state.doubted[k];
        if (k != best && heard && n < due && count <= pulled && due / (n + 0.5) > most)
            chosen = k, most = due / (n + 0.5);
    }
    return chosen;
}

}  // namespace detail

// The likeliest law's best arm, unless a plausible law favours a rival; then an arm short of its rate.
// Leaves every arm's index, where it is not decided already.
//
// Plausible: a likelihood less than f = log(1 + t/(1 + E)) below the largest, E the pulls of arms other
// than the best. The rates are those at the likeliest law with half a reward spread over all points, solved
// anew when that law moved. An arm that was pulled more often than the best is not explored: an early, tiny
// gap would ask for it without end. Nor is one that is doubted, which is judged by its own rewards.
//
// Several laws may be likeliest. The one found from the uniform law is taken, so that the choice is that of
// the counts. Pending pulls count as pulls, but are no evidence. Arms that are switched off (`share` below
// 0) are neither best nor rivals nor explored; the rates are those of all arms.
HW_DEVICE inline Int explore(Exploration &mine, FitState &state, const Played &played, Doubles index) {
    const double t = static_cast<double>(played.round);
    const bool held = t < mine.held_until && state.share[mine.held_arm] >= 0.0;
    if (held && !state.eager) return mine.held_arm;
    const Doubles law = state.likeliest_law();
    fill(law, 1.0 / static_cast<double>(law.size));
    state.fresh = Freshness::unknown;
    freshen(state);
    Int best = -1, waiting = 0;
    for (Int k = 0; k < index.size; ++k) {
        index[k] = state.doubted[k] ? state.own[k] : detail::mean(state.view.g[k], law);
        if (state.share[k] >= 0.0 && (best < 0 || index[k] > index[best])) best = k;
        waiting += played.pending[k];
    }
    const double pulled = static_cast<double>(played.pulls[best] + played.pending[best]);
    const double limit = log1p(t / (1.0 + t - pulled));
    Int chosen = best;
    if (!detail::settled(mine, state, best, limit)) {
        detail::follow(mine, state, played.round - waiting);
        chosen = detail::shortest(mine, state, played, best, limit);
    }
    for (double &each : index) each = mine.low + mine.span * each;
    if (held) return mine.held_arm;
    if (chosen == best) mine.held_until = t + max(1.0, 0.02 * t), mine.held_arm = best;
    return chosen;
}

}  // namespace HW_BUILD
}  // namespace hw
