// The shape of the posterior of p, the law of X on J atoms, given how often each arm paid each of its
// rewards.
//
// Prior Dirichlet(alpha, ..., alpha), likelihood prod_i (A p)_i^n_i over the rows i of the channels.
// `prepare` finds, from the counts alone, along which lines the chain of posterior_walk.h goes:
//
// Collapse. Atoms whose columns agree on every row seen so far are told apart by nothing but the prior:
// within such a group the shares are Dirichlet(alpha) exactly, drawn afresh, and the chain walks over the
// groups' masses q alone, whose prior exponents are a = alpha times the group's size. What one arm cannot see
// is so sampled over its whole range at once.
//
// Conjugate directions. The centre c is the argmax of sum n_i log (B q)_i + sum a_g log q_g (B: one column
// for each group), the mean of q wherever the posterior is a Dirichlet or a gamma law, and H its negative
// Hessian on the plane of constant sum. With H = U'U the columns of the inverse of U, groups in ascending
// order of c, are directions of unit scale: long where the counts say little, of the order 1/sqrt(n) where
// they say much. In a normal law one sweep over these G - 1 directions forgets the start entirely. They
// depend on the counts alone, so every move leaves the posterior as it is.
#pragma once
#include "channel_view.h"
#include "triangle.h"

namespace hw {
inline namespace HW_BUILD {

namespace posterior {

inline constexpr double smallest = 1e-300;
// Prepare again when a row's count has grown by this factor and this number.
inline constexpr double growth = 1.5, slack = 2.0;
inline constexpr double decrement = 1e-4;  // the centre may be off by a hundredth of a standard deviation
inline constexpr Int newton_steps = 60, em_steps = 20, halvings = 40;
inline constexpr Int unseen = -1, constant = -2;

// A move reads rows of numbers in packs: to whole ones they are filled up with what has no part in it.
HW_INLINE Int padded(Int n) { return (n + 7) / 8 * 8; }

// Views of one size.
template <class... T> HW_INLINE void lay_views(Arena &arena, Int size, View<T> &...views) {
    ((views = arena.view<T>(size)), ...);
}

// B: the columns of the groups, of the rows kept alone.
struct GroupColumns {
    Ints start, row;
    Doubles weight;

    HW_DEVICE void lay(Arena &arena, Int atoms, Int entries) {
        start = arena.view<Int>(atoms + 1);
        row = arena.view<Int>(entries);
        weight = arena.view<double>(entries);
    }
};

// What Newton's steps towards the centre work with, by row, by group, and the factor of H, later its inverse.
struct NewtonRoom {
    Doubles w, z, rate, bend, dense;
    Doubles slope, h, step, trial;
    Table u;

    HW_DEVICE void lay(Arena &arena, Int atoms, Int rows) {
        lay_views(arena, rows, w, z, rate, bend, dense);
        lay_views(arena, atoms, slope, h, step, trial);
        u = arena.grid<double>(atoms, atoms);
    }
};

// The chain's masses q, and what the logarithm of its density is made of: w log z of the rows and
// (a - 1) log q of the groups.
struct ChainRoom {
    Doubles q, exponent;   // (G,) exponent: a - 1
    Doubles z, w;          // (R,) of the rows kept
    double weight = 0.0;   // of all rows and exponents, signs aside
    Doubles ratio, gone;   // (G,) how the logarithms of the masses rise along a line, and where they vanish
    Doubles steep, heavy;  // of the terms that rise steeply along a line: how steeply, and their weights
    Doubles top, total;    // (G,) the largest logarithm of a share, and the sum of shares

    HW_DEVICE void lay(Arena &arena, Int atoms, Int rows) {
        lay_views(arena, padded(atoms), q, exponent, ratio, gone, top, total);
        lay_views(arena, padded(rows), z, w);
        lay_views(arena, rows + atoms, steep, heavy);
    }
};

}  // namespace posterior

// What the chain knows of the posterior, and the room it works in: about 2 J^2 + J R numbers.
struct PosteriorGeometry {
    ChannelView channels;
    double alpha = 1.0;

    bool prepared = false;
    Doubles seen;              // (R,) the counts it was prepared for, zeros before the first time
    Int groups = 0, rows = 0;  // rows: those kept as evidence
    Int weighed = 0;           // the groups up to the last whose prior exponent is not 1
    Ints group;                // (J,) of each atom
    Ints size, first;          // (G,) how many atoms, and the first one, whose column stands for all
    Ints order;                // (G,) groups by ascending centre; the last balances the others
    Doubles prior, centre;     // (G,) a and c
    Ints place, kept;          // (R,) the row's place among those kept, `unseen` or `constant`; and back
    Doubles number;            // 0, 1, 2, ...
    posterior::GroupColumns columns;
    Table directions, slopes;  // (G - 1, G), (G - 1, rows) one in a row, and how it moves z; a row to spare
    posterior::NewtonRoom newton;
    posterior::ChainRoom chain;

    HW_DEVICE void lay(Arena &arena) {
        using posterior::padded;
        const Int atoms = channels.atoms(), all = channels.rows();
        seen = arena.view<double>(all);
        posterior::lay_views(arena, atoms, group, size, first, order);
        posterior::lay_views(arena, padded(atoms), prior, centre, number);
        posterior::lay_views(arena, all, place, kept);
        columns.lay(arena, atoms, channels.row.size);
        directions = arena.grid<double>(atoms, padded(atoms));
        slopes = arena.grid<double>(atoms, padded(all));
        newton.lay(arena, atoms, all);
        chain.lay(arena, atoms, all);
    }
};

namespace posterior {

// Number the rows that are evidence: seen, and not of one probability everywhere. O(R + nnz).
HW_DEVICE inline void place_rows(PosteriorGeometry &geometry, KnownDoubles n) {
    const ChannelView &channels = geometry.channels;
    const Int atoms = channels.atoms();
    const Doubles least = geometry.newton.dense;
    const Ints place = geometry.place;
    for (Int i = 0; i < n.size; ++i) {
        place[i] = 0;
        least[i] = -1.0;
    }
    // place counts the atoms whose weight is that of the row's first one
    for (Int e = 0; e < channels.start[atoms]; ++e) {
        const Int i = channels.row[e];
        if (least[i] < 0.0) least[i] = channels.weight[e];
        if (channels.weight[e] == least[i]) ++place[i];
    }
    Int rows = 0;
    for (Int i = 0; i < n.size; ++i) {
        if (!(n[i] > 0.0)) {
            place[i] = unseen;
        } else if (place[i] == atoms || place[i] == 0) {  // or nowhere possible, which no p explains
            place[i] = constant;
        } else {
            place[i] = rows;
            geometry.kept[rows++] = i;
        }
    }
    geometry.rows = rows;
}

// Whether two atoms' columns agree on the rows kept. O(their length).
HW_DEVICE inline bool same_evidence(const PosteriorGeometry &geometry, Int one, Int other) {
    const ChannelView &channels = geometry.channels;
    Int e = channels.start[one], f = channels.start[other];
    const Int e_end = channels.start[one + 1], f_end = channels.start[other + 1];
    while (true) {
        while (e < e_end && geometry.place[channels.row[e]] < 0) ++e;
        while (f < f_end && geometry.place[channels.row[f]] < 0) ++f;
        if (e == e_end || f == f_end) return e == e_end && f == f_end;
        if (channels.row[e] != channels.row[f] || channels.weight[e] != channels.weight[f]) return false;
        ++e;
        ++f;
    }
}

// Put atoms of the same evidence into one group. O(nnz + J G), by a hash of each column first.
HW_DEVICE inline void group_atoms(PosteriorGeometry &geometry) {
    const ChannelView &channels = geometry.channels;
    const Doubles mark = geometry.newton.slope;
    Int groups = 0;
    for (Int j = 0; j < channels.atoms(); ++j) {
        double total = 0.0;
        for (Int e = channels.start[j]; e < channels.start[j + 1]; ++e)
            if (geometry.place[channels.row[e]] >= 0)
                total += channels.weight[e] * sqrt(static_cast<double>(channels.row[e]) + 2.0);
        Int g = 0;
        while (g < groups && !(mark[g] == total && same_evidence(geometry, j, geometry.first[g]))) ++g;
        if (g == groups) {
            mark[g] = total;
            geometry.first[g] = j;
            geometry.size[g] = 0;
            ++groups;
        }
        geometry.group[j] = g;
        ++geometry.size[g];
    }
    geometry.groups = groups;
}

// B, from the first atom of each group. O(nnz).
HW_DEVICE inline void gather_columns(PosteriorGeometry &geometry) {
    const ChannelView &channels = geometry.channels;
    const GroupColumns &b = geometry.columns;
    Int at = 0;
    for (Int g = 0; g < geometry.groups; ++g) {
        b.start[g] = at;
        const Int j = geometry.first[g];
        for (Int e = channels.start[j]; e < channels.start[j + 1]; ++e) {
            const Int i = geometry.place[channels.row[e]];
            if (i < 0) continue;
            b.row[at] = i;
            b.weight[at++] = channels.weight[e];
        }
    }
    b.start[geometry.groups] = at;
}

// z = B q, for the first `rows` of z. O(nnz).
HW_DEVICE inline void values(const PosteriorGeometry &geometry, KnownDoubles q, Doubles z) {
    const GroupColumns b = geometry.columns;
    for (Int i = 0; i < geometry.rows; ++i) z[i] = 0.0;
    for (Int g = 0; g < geometry.groups; ++g)
        for (Int e = b.start[g]; e < b.start[g + 1]; ++e) z[b.row[e]] += b.weight[e] * q[g];
}

// B' rate for one group.
HW_DEVICE inline double slope_of(const GroupColumns &b, Int g, KnownDoubles rate) {
    double total = 0.0;
    for (Int e = b.start[g]; e < b.start[g + 1]; ++e) total += b.weight[e] * rate[b.row[e]];
    return total;
}

// The upper triangle of the negative Hessian on the plane of constant sum, the last group in order balancing
// the others: u(i, l) for the i-th and l-th group in order. `bend`: w / z^2 of the rows; h: a / c^2 of the
// groups, in order. O(G nnz).
HW_DEVICE inline void set_hessian(PosteriorGeometry &geometry) {
    const GroupColumns &b = geometry.columns;
    const NewtonRoom &room = geometry.newton;
    const Table u = room.u;
    const Int groups = geometry.groups, last = groups - 1;
    for (Int round = 0; round < groups; ++round) {
        const Int at = round == 0 ? last : round - 1;  // the balancing group's row in full, first
        const Int g = geometry.order[at];
        for (Int i = 0; i < geometry.rows; ++i) room.dense[i] = 0.0;
        for (Int e = b.start[g]; e < b.start[g + 1]; ++e)
            room.dense[b.row[e]] = b.weight[e] * room.bend[b.row[e]];
        for (Int other = round == 0 ? 0 : at; other < groups; ++other)
            u(at, other) = slope_of(b, geometry.order[other], room.dense);
        u(at, at) += room.h[at];
    }
    for (Int at = 0; at < last; ++at)
        for (Int other = at; other < last; ++other)
            u(at, other) += u(last, last) - u(last, at) - u(last, other);
}

HW_DEVICE inline double objective(const PosteriorGeometry &geometry, KnownDoubles q) {
    const NewtonRoom &room = geometry.newton;
    double total = 0.0;
    for (Int i = 0; i < geometry.rows; ++i) total += room.w[i] * log(room.z[i]);
    for (Int g = 0; g < geometry.groups; ++g) total += geometry.prior[g] * log(q[g]);
    return total;
}

// Groups by ascending centre: insertion sort of what is nearly in order. O(G^2) at worst.
HW_DEVICE inline void sort_groups(const PosteriorGeometry &geometry) {
    const Ints order = geometry.order;
    for (Int i = 1; i < geometry.groups; ++i) {
        const Int g = order[i];
        Int k = i;
        for (; k > 0 && geometry.centre[order[k - 1]] > geometry.centre[g]; --k) order[k] = order[k - 1];
        order[k] = g;
    }
}

// Steps of EM towards the centre: cheap ones from far away, before Newton's exact ones. O(nnz) each.
HW_DEVICE inline void expect(const PosteriorGeometry &geometry) {
    const NewtonRoom &room = geometry.newton;
    const Doubles c = geometry.centre;
    for (Int round = 0; round < em_steps; ++round) {
        values(geometry, c, room.z);
        for (Int i = 0; i < geometry.rows; ++i) room.rate[i] = room.w[i] / room.z[i];
        double mass = 0.0;
        for (Int g = 0; g < geometry.groups; ++g) {
            c[g] = c[g] * slope_of(geometry.columns, g, room.rate) + geometry.prior[g];
            mass += c[g];
        }
        for (Int g = 0; g < geometry.groups; ++g) c[g] /= mass;
    }
}

// Move the centre along `step` (in order, the last balancing), as far as the objective rises enough and c
// stays inside. `gain` is the rise that the slope promises for a whole step; z are the values at c.
HW_DEVICE inline void search(const PosteriorGeometry &geometry, double gain) {
    const NewtonRoom &room = geometry.newton;
    const Doubles c = geometry.centre, step = room.step, trial = room.trial;
    const Ints order = geometry.order;
    const Int groups = geometry.groups, m = groups - 1;
    step[m] = 0.0;
    for (Int i = 0; i < m; ++i) step[m] -= step[i];
    double s = 1.0;
    for (Int i = 0; i < groups; ++i)
        if (step[i] < 0.0) s = min(s, -0.95 * c[order[i]] / step[i]);
    const double before = objective(geometry, c);
    for (Int halving = 0; halving < halvings; ++halving) {
        for (Int i = 0; i < groups; ++i) trial[order[i]] = c[order[i]] + s * step[i];
        values(geometry, trial, room.z);
        if (objective(geometry, trial) >= before + 0.1 * s * gain) break;
        s *= 0.5;
    }
    double mass = 0.0;
    for (Int g = 0; g < groups; ++g) mass += trial[g];
    for (Int g = 0; g < groups; ++g) c[g] = trial[g] / mass;
}

// The directions, each from a column of the inverse factor, and how the rows move along them. O(G (G + nnz)).
HW_DEVICE inline void set_directions(PosteriorGeometry &geometry) {
    const Int m = geometry.groups - 1;
    const Ints order = geometry.order;
    const Table u = geometry.newton.u;
    fill(geometry.directions.flat(), 0.0);
    fill(geometry.slopes.flat(), 0.0);
    for (Int k = 0; k < m; ++k) {
        const Doubles d = geometry.directions[k];
        double rest = 0.0;
        for (Int i = 0; i <= k; ++i) {
            d[order[i]] = u(i, k);
            rest -= u(i, k);
        }
        d[order[m]] = rest;
        values(geometry, d, geometry.slopes[k]);
    }
}

// What fills up packs of groups and rows: masses that no direction moves, and rows of no weight.
HW_DEVICE inline void pad(PosteriorGeometry &geometry) {
    const ChainRoom &chain = geometry.chain;
    geometry.weighed = 0;
    for (Int g = 0; g < geometry.number.size; ++g) geometry.number[g] = static_cast<double>(g);
    for (Int g = 0; g < chain.q.size; ++g) {
        chain.q[g] = 1.0;
        chain.exponent[g] = g < geometry.groups ? geometry.prior[g] - 1.0 : 0.0;
        if (chain.exponent[g] != 0.0) geometry.weighed = g + 1;
    }
    for (Int i = 0; i < chain.z.size; ++i) {
        chain.z[i] = 1.0;
        chain.w[i] = 0.0;
    }
}

}  // namespace posterior

// Whether `prepare` must run before a walk: a row was seen for the first time, or its count grew by half.
// O(R).
HW_DEVICE inline bool stale(const PosteriorGeometry &geometry, KnownDoubles n) {
    bool out = !geometry.prepared;
    for (Int i = 0; i < n.size; ++i) {
        const double seen = geometry.seen[i];
        const bool first = (seen == 0.0) & (n[i] > 0.0);
        out |= first | (n[i] < seen) | (n[i] > posterior::growth * seen + posterior::slack);
    }
    return out;
}

HW_DEVICE inline void forget(PosteriorGeometry &geometry) {
    geometry.prepared = false;
    fill(geometry.seen, 0.0);
}

// Groups, centre and directions for these counts n (R,); returns Newton's steps. A function of the counts and
// alpha alone. O(J^3 + J nnz) for each step, of which there are mostly fewer than 10.
HW_DEVICE inline Int prepare(PosteriorGeometry &geometry, KnownDoubles n) {
    using namespace posterior;
    const NewtonRoom &room = geometry.newton;
    place_rows(geometry, n);
    group_atoms(geometry);
    gather_columns(geometry);
    copy(n, geometry.seen);
    geometry.prepared = true;
    const Int groups = geometry.groups, rows = geometry.rows, m = groups - 1;
    const Doubles a = geometry.prior, c = geometry.centre;
    const double atoms = static_cast<double>(geometry.channels.atoms());
    for (Int i = 0; i < rows; ++i) room.w[i] = n[geometry.kept[i]];
    for (Int g = 0; g < groups; ++g) {
        const double size = static_cast<double>(geometry.size[g]);
        a[g] = geometry.alpha * size;
        c[g] = size / atoms;
        geometry.order[g] = g;
    }
    expect(geometry);
    Int iterations = 0;
    while (iterations < newton_steps) {
        ++iterations;
        sort_groups(geometry);
        values(geometry, c, room.z);
        for (Int i = 0; i < rows; ++i) {
            room.rate[i] = room.w[i] / room.z[i];
            room.bend[i] = room.rate[i] / room.z[i];
        }
        for (Int g = 0; g < groups; ++g)
            room.slope[g] = slope_of(geometry.columns, g, room.rate) + a[g] / c[g];
        for (Int i = 0; i < groups; ++i) {
            const Int g = geometry.order[i];
            room.h[i] = a[g] / (c[g] * c[g]);
        }
        set_hessian(geometry);
        factor(m, room.h, room.u);
        for (Int i = 0; i < m; ++i) {
            room.h[i] = room.slope[geometry.order[i]] - room.slope[geometry.order[m]];
            room.step[i] = room.h[i];
        }
        solve(m, room.u, room.step);
        double gain = 0.0;
        for (Int i = 0; i < m; ++i) gain += room.h[i] * room.step[i];
        if (!(gain > decrement)) break;
        search(geometry, gain);
    }
    invert(m, room.u, room.h);
    set_directions(geometry);
    pad(geometry);
    return iterations;
}

}  // namespace HW_BUILD
}  // namespace hw
