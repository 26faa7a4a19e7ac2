// The channels as the policies that learn the law of X read them, with room to work in.
//
// Row i stands for "an arm paid one of its rewards", A[i, j] is its probability at atom j of X. Nothing here
// is changed by play: the arrays belong to whoever made them.
#pragma once
#include "../../vectors.h"

namespace hw {

// By atoms: atom j pays the rows `row[start[j]:start[j + 1]]`, ascending, with the chances `weight` of the
// same places. By rows: row i is paid at the atoms `atom[begin[i]:begin[i + 1]]`, with the chances `chance`,
// which are all 1 if `sure[i]`. Arm k's rows are `offset[k]:offset[k + 1]`.
//
// Deterministic arms may be read in pairs: arms `pair[q]` (2,) pay at atom j the rewards that `cell[q, j]` =
// m M + m' says, M the second's number of rewards. Their rows are not `lone`; `cells` is the most that any
// pair has.
//
// g[k, j] is arm k's mean at atom j, all scaled to [0, 1]; `error` and `strain` (K, J) are what learned
// channels may be wrong by in their means and in the likelihood of a reward, at the tolerance's number of
// standard errors; empty where channels are known.
struct ChannelView {
    KnownInts start;
    View<const int> row;
    KnownDoubles weight;
    KnownInts begin;
    View<const int> atom;
    View<const bool> sure;
    KnownDoubles chance;
    Grid<const Int> pair;
    Grid<const unsigned short> cell;
    View<const bool> lone;
    Int cells = 0;
    bool plain = false;  // whether every arm pays one row at every atom, so that all weights are 1
    KnownTable g;
    KnownInts offset;
    KnownTable error, strain;

    HW_INLINE Int arms() const { return g.rows; }
    HW_INLINE Int atoms() const { return g.columns; }
    HW_INLINE Int rows() const { return sure.size; }
    HW_INLINE Int rows_of(Int k) const { return offset[k + 1] - offset[k]; }
    HW_INLINE bool learned() const { return error.rows > 0; }
};

// Atoms that one quadratic problem may take in.
inline constexpr Int hopefuls = 32;

// Room to work in, O(J^2): two threads need two of them. `used` lists atoms, ascending, outside of which
// neither the law at hand nor a step from it has anything. `active` lists the atoms in use, `slot` (J,) says
// where in that list an atom stands (-1: nowhere), `square` is the factor of their curvature: no larger a
// square than they may come to fill, so that it stays near. The rest are vectors over atoms or rows, by what
// they hold most of the time.
struct Room {
    Int atoms = 0, rows = 0, entries = 0, cells = 0;

    View<int> used;
    Int used_size = 0;
    View<int> active, slot;
    Table square;
    Doubles gradient, step, column, u, v, pull, worth;         // (J,)
    Doubles bend, change, scatter, weighed, gone, prices, z;   // (R,); `scatter` is all zeros between calls
    View<int> hopeful;                                         // (hopefuls,)
    View<int> first, last;                                     // (R,)
    View<int> who;                                             // (entries,): atoms in use, by rows
    Doubles value;                                             // (entries,)
    Table sums;                                                // (4, cells)
    View<int> seen;                                            // (R,): rows seen, if nobody keeps a list

    HW_INLINE void lay(Arena &arena) {
        lay_each(arena, atoms, used, active, slot);
        square = arena.grid<double>(atoms, atoms);
        lay_each(arena, atoms, gradient, step, column, u, v, pull, worth);
        lay_each(arena, rows, bend, change, scatter, weighed, gone, prices, z);
        hopeful = arena.view<int>(hopefuls);
        lay_each(arena, rows, first, last, seen);
        who = arena.view<int>(entries), value = arena.view<double>(entries);
        sums = arena.grid<double>(4, cells);
    }
};

HW_INLINE Room room_for(const ChannelView &view) {
    Room room;
    room.atoms = view.atoms(), room.rows = view.rows(), room.entries = view.row.size, room.cells = view.cells;
    return room;
}

inline namespace HW_BUILD {

// z += mass A[:, j]
HW_INLINE void add_column(const ChannelView &view, Int j, double mass, Doubles z) {
    double *__restrict to = z.data;
    const int *__restrict row = view.row.data;
    const Int from = view.start[j], end = view.start[j + 1];
    const double *__restrict weight = view.weight.data;
    if (view.plain) {
        for (Int e = from; e < end; ++e) to[row[e]] += mass;
    } else if (end - from == z.size) {  // every row, in order
        for (Int i = 0; i < z.size; ++i) to[i] += weight[from + i] * mass;
    } else {
        for (Int e = from; e < end; ++e) to[row[e]] += weight[e] * mass;
    }
}

// z = A p: how likely each row is under p. O(J + the entries of the atoms that p uses).
HW_DEVICE inline void through(const ChannelView &view, KnownDoubles p, Doubles z) {
    fill(z, 0.0);
    for_nonzero(p, [&](Int j) { add_column(view, j, p[j], z); });
}

// ---- the atoms that matter at present ---------------------------------------------------------------------

// List the atoms that p uses.
HW_DEVICE inline void list_used(Room &room, KnownDoubles p) {
    Int size = 0;
    for_nonzero(p, [&](Int j) { room.used[size++] = static_cast<int>(j); });
    room.used_size = size;
}

// List atom j as well.
HW_DEVICE inline void use(Room &room, Int j) {
    Int at = room.used_size;
    while (at > 0 && room.used[at - 1] > j) --at;
    if (at > 0 && room.used[at - 1] == j) return;
    for (Int m = room.used_size++; m > at; --m) room.used[m] = room.used[m - 1];
    room.used[at] = static_cast<int>(j);
}

// Call visit(j) for every entry of x that is not zero, x a law or a step on the atoms listed.
template <class Visit> HW_INLINE void for_used(const Room &room, KnownDoubles x, Visit visit) {
    const int *const used = room.used.data;
    for (Int m = 0, size = room.used_size; m < size; ++m) {
        if (x[used[m]] != 0.0) visit(static_cast<Int>(used[m]));
    }
}

HW_DEVICE inline void through_used(const ChannelView &view, const Room &room, KnownDoubles p, Doubles z) {
    fill(z, 0.0);
    for_used(room, p, [&](Int j) { add_column(view, j, p[j], z); });
}

HW_DEVICE inline double mean_under(const Room &room, KnownDoubles p, KnownDoubles g) {
    double out = 0.0;
    for_used(room, p, [&](Int j) { out += p[j] * g[j]; });
    return out;
}

// ---- from rows to atoms -----------------------------------------------------------------------------------

namespace detail {

// What both arms of pair q pay together at each of its cells. Whether that is more than nothing.
HW_DEVICE inline bool fill_cells(const ChannelView &view, Int q, KnownDoubles y, double *__restrict out) {
    const Int k = view.pair(q, 0), ell = view.pair(q, 1), from = view.offset[ell], to = view.offset[ell + 1];
    double most = 0.0;
    for (Int i = view.offset[k]; i < view.offset[k + 1]; ++i) {
        const double own = y[i];
        for (Int h = from; h < to; ++h) {
            const double sum = own + y[h];
            most = max(most, sum);
            *out++ = sum;
        }
    }
    return most > 0.0;
}

// Add what waiting pairs pay at each atom: four at a time, as one alone would read and write `out` for each.
HW_DEVICE inline void add_cells(const unsigned short *const cell[4], const double *const sum[4], Int count,
                                Doubles out) {
    double *__restrict to = out.data;
    if (count == 4) {
        const unsigned short *const a = cell[0], *const b = cell[1], *const c = cell[2], *const d = cell[3];
        const double *const w = sum[0], *const x = sum[1], *const y = sum[2], *const z = sum[3];
        for (Int j = 0; j < out.size; ++j) to[j] = (((to[j] + w[a[j]]) + x[b[j]]) + y[c[j]]) + z[d[j]];
        return;
    }
    for (Int q = 0; q < count; ++q) {
        const unsigned short *const a = cell[q];
        const double *const w = sum[q];
        for (Int j = 0; j < out.size; ++j) to[j] += w[a[j]];
    }
}

// out += x A[i], over atoms (J,).
HW_DEVICE inline void add_row(const ChannelView &view, Int i, double x, Doubles out) {
    double *__restrict to = out.data;
    const int *__restrict atom = view.atom.data;
    const Int end = view.begin[i + 1];
    if (view.sure[i]) {
        for (Int e = view.begin[i]; e < end; ++e) to[atom[e]] += x;
    } else {
        const double *__restrict chance = view.chance.data;
        for (Int e = view.begin[i]; e < end; ++e) to[atom[e]] += chance[e] * x;
    }
}

// out += y A of four rows without zeros, read straight through: one alone would read and write `out` for
// each.
HW_DEVICE inline void add_four(const ChannelView &view, const Int i[4], KnownDoubles y, Doubles out) {
    const double *__restrict a = view.chance.data + view.begin[i[0]],
        *__restrict b = view.chance.data + view.begin[i[1]];
    const double *__restrict c = view.chance.data + view.begin[i[2]],
        *__restrict d = view.chance.data + view.begin[i[3]];
    const double aa = y[i[0]], bb = y[i[1]], cc = y[i[2]], dd = y[i[3]];
    double *__restrict to = out.data;
    for (Int j = 0; j < out.size; ++j) to[j] += (aa * a[j] + bb * b[j]) + (cc * c[j] + dd * d[j]);
}

}  // namespace detail

// out += A'y, over atoms (J,), y (R,) from 0. O(entries), a fraction of that where deterministic arms are
// read in pairs.
HW_DEVICE inline void back(const ChannelView &view, Room &room, KnownDoubles y, Doubles out) {
    const unsigned short *cell[4];
    const double *sum[4];
    Int count = 0;
    for (Int q = 0; q < view.pair.rows; ++q) {
        double *const table = room.sums[count].data;
        if (!detail::fill_cells(view, q, y, table)) continue;
        cell[count] = view.cell[q].data, sum[count] = table;
        if (++count == 4) detail::add_cells(cell, sum, 4, out), count = 0;
    }
    detail::add_cells(cell, sum, count, out);
    Int four[4], waiting = 0;  // rows without zeros
    for (Int i = 0; i < y.size; ++i) {
        if (!(view.lone[i] && y[i] > 0.0)) continue;
        if (view.sure[i] || view.begin[i + 1] - view.begin[i] < out.size) {
            detail::add_row(view, i, y[i], out);
        } else {
            four[waiting++] = i;
            if (waiting == 4) {
                const Int order[4] = {four[2], four[1], four[0], four[3]};
                detail::add_four(view, order, y, out);
                waiting = 0;
            }
        }
    }
    while (waiting > 0) {
        --waiting;
        detail::add_row(view, four[waiting], y[four[waiting]], out);
    }
}

}  // namespace HW_BUILD
}  // namespace hw
