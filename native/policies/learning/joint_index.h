// The joint index: the most an arm can pay on average under any law of X that the whole table of counts
// allows.
//
//     U_l = max{ g_l.p : L(p) >= L* - delta },    L* = max_p L(p),    delta = log t .
//
// Bounds that cost O(1). For any tilt theta > 0 and prices y > 0 of the rows seen, Fenchel's inequality
// n log z <= y z + n log(n / y) - n gives
//
//     U_l <= (1 / theta) [ max_j (theta g_lj + (A'y)_j) + sum_i (n_i log(n_i / y_i) - n_i) + delta - L* ],
//
// with equality at the solution, where y_i = n_i / z_i. Rows without a price are left out: their logarithm is
// negative. Once y is known, a new reward changes one term of the sum, so that the bound of every arm follows
// the counts at the cost of an addition, exact to first order. From below, mixtures of the likeliest law and
// the arm's old solution are feasible, as L is concave. L* itself is enclosed the same way.
//
// A bound that costs O(R). Rows never seen before have no price, which is what the first bound misses most.
// But each point of the support pays something for every arm: to raise the prices of all of arm k's rows by s
// > 0 raises the maximum by just s. The best s makes the probabilities n / y that the prices stand for add up
// to 1 over arm k's rows.
//
// A bound that costs a step. One step towards the arm's solution leaves prices (`approach`) under which the
// bound is mostly exact.
//
// A step that lands. A row seen once or twice is where log z bends most, and a step by its curvature falls
// short. If its probability is going to be z', the curvature n / (z z') of the secant is right. The likeliest
// law tells by which factor the row's probability has changed since the arm was solved: about the same is
// expected of the arm's own law.
//
// An arm is solved anew only while these bounds leave open which arm is best: the choice is the one that
// solving every arm in every round would make (indices closer than `tie` of the span count as equal, and go
// to the lowest-numbered arm).
//
// Learned channels. Where the channels are estimates, a mean may be wrong by a few of its standard errors e_l
// at the likeliest law: the index is the smaller of U_l + tolerance e_l and the arm's own, so that where the
// model is too coarse to tell arms apart their own rewards decide. The guard allows each reward the
// likelihood that estimates cost.
#pragma once
#include "guard.h"

namespace hw {
inline namespace HW_BUILD {
namespace joint {

inline constexpr double tie = 1e-7;
// How near, as a part of delta, the likelihood must come to its limit: the index is then exact to the square
// of that.
inline constexpr double close = 1e-4;
// Steps after which an arm that is still open is solved by the slower, safer way.
inline constexpr Int patience = 13;
// Newton steps towards the best raise of an arm's prices.
inline constexpr Int raises = 6;
// The most that the curvature of a row is changed by what is expected of its probability.
inline constexpr double secant = 8.0;
// A tilt this many times the number of rewards: the best point of the support is allowed, up to 1 / flat.
inline constexpr double flat = 1e9;

// The theta that a parabola would give, from the likeliest law p.
HW_DEVICE inline double first_tilt(const ChannelView &view, Room &room, const Counts &counts,
                                   KnownDoubles g, double delta, Law law) {
    const double bend = tilt_slope(view, room, counts, g, law);
    const double theta = bend > 0.0 ? sqrt(2.0 * delta / bend) : counts.total;
    return min(max(theta, 1e-3 * sqrt(counts.total)), flat * counts.total);
}

// Tilt p, to begin with the likeliest law or near it, towards g until its likelihood is delta below `best`,
// or the largest g is reached; returns theta.
//
// The square root of the drop is nearly linear in theta: Newton's method on it, kept in a bracket, which
// every eighth turn halves (in logarithms) in case that method creeps.
HW_DEVICE inline double lift(const ChannelView &view, Room &room, const Counts &counts, KnownDoubles g,
                             double delta, double best, Law law) {
    climb(view, room, counts, {g, 0.0}, 1e-9, law);
    double theta = first_tilt(view, room, counts, g, delta, law), low = 0.0, high = infinity;
    for (Int turn = 0; turn < 100; ++turn) {
        climb(view, room, counts, {g, theta}, 1e-10 * theta + 1e-9, law);
        const double drop = best - log_likelihood(counts, law.z);
        if (absolute(drop - delta) <= close * delta || (drop < delta && theta >= flat * counts.total)) break;
        (drop < delta ? low : high) = theta;
        const double bend = theta * tilt_slope(view, room, counts, g, law), root = sqrt(max(drop, 0.0));
        double guess = 30.0 * theta;
        if (bend > 0.0 && root > 0.0) guess = theta + 2.0 * root * (sqrt(delta) - root) / bend;
        guess = min(max(guess, theta / 30.0), 30.0 * theta);
        if (!(low < guess && guess < high) || turn % 8 == 7) {
            guess = high == infinity ? 30.0 * theta : low > 0.0 ? sqrt(low * high) : theta / 30.0;
        }
        if (high < infinity && high - low <= 1e-13 * high) break;
        theta = min(guess, 2.0 * flat * counts.total);
    }
    return theta;
}

// Turn the curvature of each row into the secant's: see the words above on a step that lands.
HW_DEVICE inline void foresee(FitState &state, Int ell) {
    const KnownDoubles then = state.then[ell];
    for (const int i : state.counts().seen) {
        if (then[i] > 0.0) state.room.bend[i] /= min(max(state.now[i] / then[i], 1.0 / secant), secant);
    }
}

// Keep arm ell's solution, at the prices in the room: what the bounds rest on from now on.
HW_DEVICE inline void keep(FitState &state, Int ell, double theta) {
    Room &room = state.room;
    const Counts counts = state.counts();
    const Law law = state.law(ell);
    const KnownDoubles g = state.view.g[ell];
    ArmBounds &arm = state.arms[ell];
    arm.theta = theta;
    arm.peak = worth(state.view, room, room.prices, {g, theta}, room.gradient);
    arm.top = mean_under(room, law.p, g);
    copy<double>(state.n, state.counted[ell]);
    copy<double>(state.now, state.then[ell]);
    View<RowLogs> logs = state.logs[ell];
    double like = 0.0, spent = state.entropy - state.total;
    Int from = 0;
    for (const int i : counts.seen) {
        for (; from < i; ++from) logs[from].z = law.z[from];
        from = i + 1;
        const double z = log(law.z[i]), price = log(room.prices[i]);
        logs[i] = {z, price};
        like += counts.n[i] * z;
        spent -= counts.n[i] * price;
    }
    for (; from < logs.size; ++from) logs[from].z = law.z[from];
    arm.like = like, arm.spent = spent;
}

// Arm ell's law one step nearer to its solution, with its prices; from then on the bounds enclose it more
// closely.
HW_DEVICE inline void improve(FitState &state, Int ell, double delta) {
    const ChannelView &view = state.view;
    Room &room = state.room;
    const Counts counts = state.counts();
    const Law law = state.law(ell);
    const KnownDoubles g = view.g[ell];
    ArmBounds &arm = state.arms[ell];
    double theta = arm.theta;
    const bool fresh = theta <= 0.0;
    if (fresh) copy<double>(state.likeliest_law(), law.p);
    const bool changed = spread(view, room, counts, law);
    if (fresh) theta = first_tilt(view, room, counts, g, delta, law);
    slope(view, room, counts, {g, theta}, law);
    if (!(fresh || changed)) foresee(state, ell);
    ++arm.tries;
    const bool settled = arm.tries > patience;
    if (settled) {  // from the likeliest law: where those steps led need not be anywhere near
        copy<double>(state.likeliest_law(), law.p);
        theta = lift(view, room, counts, g, delta, state.likelihood, law);
        slope(view, room, counts, {g, theta}, law);
    } else {
        theta = approach(view, room, counts, {g, theta}, {delta, state.likelihood, flat * state.total}, law);
    }
    keep(state, ell, theta);
    if (settled) {
        const double most = min((arm.peak + arm.spent + delta - state.likelihood) / theta, arm.most);
        arm.bound = arm.floor = min(most + state.slack[ell], state.own[ell]);
        arm.exact = true;
    }
}

// How much to raise the prices y of an arm's rows together. Newton's method on a convex decreasing function,
// from the left.
HW_DEVICE inline double best_raise(KnownDoubles n, KnownDoubles y, Int low, Int high) {
    double more = 0.0;
    for (Int i = low; i < high; ++i) {
        if (n[i] > 0.0) more = max(more, n[i] - y[i]);  // no probability is above 1
    }
    for (Int turn = 0; turn < raises; ++turn) {
        double over = -1.0, fall = 0.0;
        for (Int i = low; i < high; ++i) {
            if (n[i] > 0.0) {
                const double z = n[i] / (y[i] + more);
                over += z;
                fall += z / (y[i] + more);
            }
        }
        if (over <= 1e-6) break;
        more += over / fall;
    }
    return more;
}

// For each arm with rewards since arm ell was solved, raise the prices of its rows together as far as that
// helps. O(R).
HW_DEVICE inline void raise(FitState &state, Int ell) {
    ArmBounds &arm = state.arms[ell];
    const KnownDoubles n = state.n, counted = state.counted[ell];
    View<RowLogs> logs = state.logs[ell];
    Doubles y = state.room.bend;
    for (Int k = 0; k < state.view.arms(); ++k) {
        const Int low = state.view.offset[k], high = state.view.offset[k + 1];
        bool changed = false;
        for (Int i = low; i < high; ++i) changed |= n[i] != counted[i];
        if (!changed) continue;
        for (Int i = low; i < high; ++i) y[i] = logs[i].price > -infinity ? exp(logs[i].price) : 0.0;
        const double more = best_raise(n, y, low, high);
        if (!(more > 0.0)) continue;
        arm.peak += more;
        for (Int i = low; i < high; ++i) {
            if (!(n[i] > 0.0)) continue;
            const double price = log(y[i] + more);
            arm.spent += y[i] > 0.0 ? n[i] * (logs[i].price - price)
                : n[i] * state.log_n[i] - n[i] - n[i] * price;
            logs[i].price = price;
        }
    }
}

// The arm of highest floor.
struct Leader {
    Int arm = 0;
    double floor = -infinity;

    HW_INLINE void meet(Int ell, double other) {
        if (other > floor) arm = ell, floor = other;
    }
};

// What bounds of all arms have in common: the threshold, whether anything is known of the likeliest law, and
// how far it may be below L*.
struct Level {
    double delta;
    bool known;
    double slack;

    HW_INLINE Level(const FitState &state, double threshold)
        : delta(threshold), known(state.fresh != Freshness::unknown) {
        const double best = state.entropy - state.total_log_total;
        slack = known ? max(best - state.priced - state.likelihood, 0.0) : infinity;
    }
};

// Both bounds of an arm that is not exact.
HW_INLINE void enclose_arm(const FitState &state, const Level &level, Int ell, ArmBounds &arm) {
    const double d = level.delta * state.share[ell], more = state.slack[ell], own = state.own[ell];
    double bound = min(arm.most + more, own), floor = -infinity;
    if (level.known) {
        const double room = arm.peak + arm.spent + d - state.likelihood;
        if (arm.theta > 0.0) bound = min(bound, room / arm.theta + more);
        if (level.slack <= d) {
            floor = arm.base;
            const double below = state.likelihood - arm.like;
            if (arm.theta > 0.0 && below < infinity && arm.top > arm.base) {
                const double part = below > 0.0 ? min((d - level.slack) / below, 1.0) : 1.0;
                floor = arm.base + part * (arm.top - arm.base);
            }
            floor = min(floor + more, own);
        }
        arm.exact = bound - floor <= 0.1 * tie;
    }
    arm.bound = bound, arm.floor = floor;
}

// Both bounds of every arm that is not exact. O(K).
HW_DEVICE inline Leader enclose(FitState &state, double delta) {
    const Level level(state, delta);
    Leader leader;
    for (Int ell = 0; ell < state.arms.size; ++ell) {
        ArmBounds &arm = state.arms[ell];
        if (!arm.exact) enclose_arm(state, level, ell, arm);
        leader.meet(ell, arm.floor);
    }
    return leader;
}

// Begin a decision: as `enclose`, but that no arm is exact yet except those that need no bounds.
HW_DEVICE inline Leader begin(FitState &state, double delta) {
    const Level level(state, delta);
    const bool nothing = state.total == 0.0 || delta <= 0.0;
    Leader leader;
    for (Int ell = 0; ell < state.arms.size; ++ell) {
        ArmBounds &arm = state.arms[ell];
        arm.tries = 0;
        arm.exact = true;
        if (state.share[ell] < 0.0) {
            arm.bound = arm.floor = -infinity;
        } else if (state.doubted[ell]) {
            arm.bound = arm.floor = state.own[ell];
        } else if (nothing) {
            arm.bound = arm.floor = min(arm.most, state.own[ell]);
        } else {
            arm.exact = false;
            enclose_arm(state, level, ell, arm);
        }
        leader.meet(ell, arm.floor);
    }
    return leader;
}

// What the bounds leave open: how many arms may still beat the leader, the highest bound, and the open arm
// that has it (-1: none).
struct Standing {
    Int rivals = 0, open = -1;
    double most = -infinity;
};

HW_DEVICE inline Standing compare(const FitState &state, const Leader &leader) {
    Standing out;
    double highest = -infinity;
    for (Int ell = 0; ell < state.arms.size; ++ell) {
        const ArmBounds &arm = state.arms[ell];
        out.most = max(out.most, arm.bound);
        // a later arm that can at most tie with the leader loses to it whatever its index
        const bool may_win = arm.bound >= leader.floor - tie
            && (ell <= leader.arm || arm.bound > leader.floor + 0.5 * tie);
        if (!(may_win || state.eager)) continue;
        out.rivals += may_win && ell != leader.arm ? 1 : 0;
        if (!arm.exact && arm.bound > highest) out.open = ell, highest = arm.bound;
    }
    return out;
}

// Whatever is cheapest of what may tell more of an open arm's index.
HW_COLD void work_at(FitState &state, Int ell, double delta) {
    ArmBounds &arm = state.arms[ell];
    if (state.fresh != Freshness::exact) {
        freshen(state);
    } else if (arm.tries == 0 && arm.theta > 0.0) {
        raise(state, ell);
        arm.tries = 1;
    } else {
        improve(state, ell, delta);
    }
}

// What the bounds say: the arm to pull, or -1, and then which arm to work at.
struct Verdict {
    Int arm, open;
};

HW_DEVICE inline Verdict judge(const FitState &state, const Leader &leader) {
    const Standing now = compare(state, leader);
    if (now.rivals == 0 && !state.eager && leader.floor > -infinity) return {leader.arm, -1};
    if (now.open >= 0) return {-1, now.open};
    for (Int ell = 0; ell < state.arms.size; ++ell) {
        if (state.arms[ell].bound >= now.most - tie) return {ell, -1};
    }
    return {leader.arm, -1};
}

// The arm of largest index; the bounds it was decided by are left in `state.arms`. O(K), unless something
// must be solved.
HW_DEVICE inline Int decide(FitState &state, double delta) {
    for (Leader leader = begin(state, delta);; leader = enclose(state, delta)) {
        const Verdict found = judge(state, leader);
        if (found.arm >= 0) return found.arm;
        work_at(state, found.open, delta * state.share[found.open]);
    }
}

// Whether arm ell's index is at least x, solved anew only if the bounds leave it open.
HW_DEVICE inline bool reaches(FitState &state, Int ell, double delta, double x) {
    ArmBounds &arm = state.arms[ell];
    if (arm.bound < x || arm.floor >= x) return arm.bound >= x;
    if (state.fresh != Freshness::exact) {
        freshen(state);
        enclose(state, delta);
    }
    while (!arm.exact && arm.floor < x && x <= arm.bound) {
        improve(state, ell, delta * state.share[ell]);
        enclose(state, delta);
    }
    return arm.bound >= x;
}

}  // namespace joint
}  // namespace HW_BUILD
}  // namespace hw
