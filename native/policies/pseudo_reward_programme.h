// What an arm of random rewards implies about the others.
//
// From counts n_m of the rewards of an arm with channel A (M, J): the likeliest law f among {A p}, which is
// the empirical one where some p explains it, and the most that another arm ell may pay under it,
//
//     phi_hat[ell] = max {g_ell . p : A p = f, p >= 0}.
//
// Nothing here may fall below the truth, because that would exclude an arm wrongly. Any y whatever bounds a
// programme over laws p: c.p <= y.f + max_j (c_j - y.A_j)^+, so rounding in y costs nothing. The likeliest
// law f* is only approached: its certificate (likeliest_law.h) bounds every |f*_m - f_m| by some r_m, and
// sum_m |y_m| r_m is added.
//
// Such an arm's row of sums is not added up but computed from how often it paid each reward, when it is
// needed.
#pragma once
#include "../elementary.h"
#include "../model.h"
#include "../simplex.h"
#include "likeliest_law.h"

namespace hw {
inline namespace HW_BUILD {

// What a learner keeps of these programmes: where each last ended, and at how many pulls an arm's row of sums
// was computed, -1 for not yet; and room to work in.
struct Programme {
    Int arms = 0, levels = 0, points = 0;
    Cube<Int> bases;  // (K, K, M + 1): of arm k's programme about arm ell
    Ints fitted;      // (K,)
    Doubles bound, objective, b, near, q;
    Table packed;
    simplex::Room solver;
    likeliest::Room newton;

    HW_INLINE Programme() = default;
    HW_INLINE Programme(Int arms_, Int levels_, Int points_) : arms(arms_), levels(levels_), points(points_) {
        solver.rows = levels + 1, solver.columns = points;
        newton.rows = levels, newton.points = points;
    }
    HW_INLINE explicit Programme(const RandomRewards &model)
        : Programme(model.arms(), model.most_levels, model.points()) {}
    HW_INLINE void lay(Arena &arena) {
        bases = arena.cube<Int>(arms, arms, levels + 1);
        fitted = arena.view<Int>(arms);
        bound = arena.view<double>(arms), objective = arena.view<double>(points);
        b = arena.view<double>(levels + 1), near = arena.view<double>(levels + 1);
        q = arena.view<double>(levels + 1);
        packed = arena.grid<double>(levels + 1, points);
        solver.lay(arena);
        newton.lay(arena);
    }
    // Nothing was seen, or counts came from elsewhere: every row is computed anew when it is needed.
    HW_INLINE void forget() const {
        fill(View<Int>{bases.data, bases.size()}, Int{-1});
        fill(fitted, Int{-1});
    }
};

namespace implied {

inline constexpr double clear = 1e-8;  // above it, a variable or reduced cost is certainly not 0

// Whether no other basis is optimal: every basic variable clearly above 0, all other reduced costs below. O(m
// + n).
HW_DEVICE inline bool alone(KnownInts basis, const simplex::Room &solved) {
    for (Int p = 0; p < basis.size; ++p) {
        if (basis[p] < 0 || solved.x[p] <= clear) return false;
    }
    Int zeros = 0;
    for (const double cost : solved.reduced) zeros += cost >= -clear;
    return zeros == basis.size;
}

// Sort a basis; whether it was not. O(m^2), but O(m) where it was.
HW_DEVICE inline bool order(Ints basis) {
    bool moved = false;
    for (Int i = 1; i < basis.size; ++i) {
        const Int j = basis[i];
        Int at = i;
        for (; at > 0 && basis[at - 1] > j; --at) basis[at] = basis[at - 1];
        basis[at] = j;
        moved = moved || at < i;
    }
    return moved;
}

// As simplex::maximise, from wherever `basis` is, and yet the same to the last bit as from nowhere. So two
// replicas of a policy that merge, or one that is restored, decide as the one that counted everything itself.
// A basis that alone is optimal is used in the order of its columns; where several are, the one that a cold
// start finds.
HW_DEVICE inline simplex::Status canonical(const simplex::Programme &programme, Ints basis,
                                           const simplex::Room &room) {
    const simplex::Status status = simplex::maximise(programme, basis, room);
    if (status != simplex::Status::optimal) return status;
    if (!alone(basis, room)) fill(basis, Int{-1});
    else if (!order(basis)) return status;
    return simplex::maximise(programme, basis, room);
}

struct Bound {
    simplex::Status status;
    double value;
};

// A number that no c.p exceeds for laws p with A p within `near` of b: the dual's, rounding included.
HW_DEVICE inline Bound bound(const simplex::Programme &programme, KnownDoubles near, Ints basis,
                             const simplex::Room &room) {
    const simplex::Status status = canonical(programme, basis, room);
    double total = 0.0;
    for (Int i = 0; i < room.rows; ++i)
        total += room.dual[i] * programme.b[i] + absolute(room.dual[i]) * near[i];
    const double over = at_least(0.0, room.reduced), most = at_least(programme.c[0], programme.c);
    return {status, status == simplex::Status::optimal ? min(total + over, most) : most};
}

// An arm of random rewards: its number, its channel (M, J), every arm's mean g (K, J), how often it paid each
// reward (M,).
struct Arm {
    Int k;
    KnownTable channel, g;
    KnownInts seen;
};

HW_INLINE Int total_of(KnownInts seen) {
    Int n = 0;
    for (const Int times : seen) n += times;
    return n;
}

// The rows of the rewards that were seen, their likeliest law b and how near it is; returns how many rows the
// programmes have. Where some reward was never seen, the likeliest laws may differ in its probability. All of
// them count: its row is left out, and one that says that they sum to 1 comes in.
HW_DEVICE inline Int pack_seen(const Arm &arm, const Programme &work) {
    const Int rows = arm.channel.rows, points = arm.channel.columns, n = total_of(arm.seen);
    Int m = 0;
    for (Int i = 0; i < rows; ++i) {
        if (arm.seen[i] > 0) {
            work.q[m] = static_cast<double>(arm.seen[i]) / static_cast<double>(n);
            copy<double>(arm.channel[i], work.packed[m]);
            ++m;
        }
    }
    const KnownTable a{work.packed.data, m, points};
    const double delta = likeliest::find({a, work.q.first(m), work.b.first(m)}, work.newton.part(m));
    for (Int i = 0; i < m; ++i) {
        const double room = delta / work.q[i];
        work.near[i] = work.b[i] * (room + sqrt(room * (room + 2.0))) + simplex::feasible;
    }
    if (m == rows) return m;
    fill(work.packed[m], 1.0);
    work.b[m] = 1.0, work.near[m] = 0.0;
    return m + 1;
}

// `imply` where no law of X explains the rewards: bounds under the likeliest laws there are.
HW_DEVICE inline void project(const Arm &arm, const Programme &work) {
    const Int points = arm.channel.columns, size = pack_seen(arm, work);
    const Grid<Int> bases = work.bases[arm.k];
    // An edge of what laws of X can explain has many optimal bases: a warm start would not serve.
    fill(bases.flat(), Int{-1});
    const simplex::Programme programme{{work.packed.data, size, points}, work.b.first(size), work.objective};
    const simplex::Room room = work.solver.part(size, points);
    for (Int ell = 0; ell < arm.g.rows; ++ell) {
        const double sign = ell == arm.k ? -1.0 : 1.0;
        for (Int j = 0; j < points; ++j) work.objective[j] = sign * arm.g(ell, j);
        work.bound[ell] = bound(programme, work.near, bases[ell].first(size), room).value;
    }
    work.bound[arm.k] = -work.bound[arm.k];
    for (const Int times : arm.seen) {
        if (times == 0) {
            fill(bases.flat(), Int{-1});
            break;
        }
    }
}

// What an arm's rewards imply: work.bound[ell], the most that arm ell may pay on average under the likeliest
// law, or more. Returns whether some law of X explains the rewards seen exactly; if none does, the bound of
// the arm itself is the least mean of it that the likeliest laws allow. O(K M^3 + K M J) when the old bases
// serve, as they mostly do.
HW_DEVICE inline bool imply(const Arm &arm, const Programme &work) {
    const Int rows = arm.channel.rows, n = total_of(arm.seen);
    for (Int m = 0; m < rows; ++m) {
        work.b[m] = static_cast<double>(arm.seen[m]) / static_cast<double>(n);
        work.near[m] = simplex::feasible;
    }
    const simplex::Room room = work.solver.part(rows, arm.channel.columns);
    for (Int ell = 0; ell < arm.g.rows; ++ell) {
        if (ell == arm.k) continue;
        const simplex::Programme programme{arm.channel, work.b.first(rows), arm.g[ell]};
        const Bound now = bound(programme, work.near, work.bases[arm.k][ell].first(rows), room);
        work.bound[ell] = now.value;
        if (now.status == simplex::Status::infeasible) {
            project(arm, work);
            return false;
        }
    }
    return true;
}

}  // namespace implied

// Arm k's row of sums anew from how often it paid each reward: whole numbers of units, never above the truth.
// sums[ell] is n times the mean of its likeliest law less the most that arm ell may pay on average under that
// law. Returns the shift: the likeliest law's total less the one that was paid, 0 where some law of X
// explains the rewards exactly.
HW_DEVICE inline Int fit(const RandomRewards &model, const Programme &programme, Int k, Int pulls_k,
                         Int total_k, KnownInts seen_row, Ints sums_row) {
    const double n = static_cast<double>(pulls_k);
    double total = static_cast<double>(total_k);
    Int shift = 0;
    if (!implied::imply({k, model.channel(k), model.g, seen_row.first(model.levels[k])}, programme)) {
        const double mean = model.zero + model.scale * programme.bound[k] - model.slack;
        shift = static_cast<Int>(floor(n * mean - total));
        total += static_cast<double>(shift);
    }
    for (Int ell = 0; ell < model.arms(); ++ell) {
        const double phi = model.zero + model.scale * programme.bound[ell] + model.slack;
        sums_row[ell] = ell == k ? 0 : static_cast<Int>(floor(total - n * phi));
    }
    programme.fitted[k] = pulls_k;
    return shift;
}

}  // namespace HW_BUILD
}  // namespace hw
