// The curvature of the atoms in use, H = A' diag(b) A, kept as its upper Cholesky factor U, row by row in
// `room.square`: to take an atom in, or drop one, costs O(size^2), in loops along rows, which vectorise.
#pragma once
#include "../../elementary.h"
#include "channel_view.h"

namespace hw {
inline namespace HW_BUILD {
namespace quadratic {

// What is added to the curvature, as a part of its largest entry: atoms that all rows see alike make it
// singular.
inline constexpr double ridge_part = 1e-10;

// line[from:to] += a x[from:to]
HW_INLINE void add_scaled(double *__restrict line, const double *__restrict x, double a, Int from, Int to) {
    for (Int m = from; m < to; ++m) line[m] += a * x[m];
}
HW_INLINE void take_scaled(double *__restrict line, const double *__restrict x, double a, Int from, Int to) {
    for (Int m = from; m < to; ++m) line[m] -= a * x[m];
}

// Add x to the upper half where line and column are both in `who`, which ascends. Two lines at a time, as
// both look up the same columns.
HW_DEVICE inline void add_outer(double x, View<const int> who, Table square) {
    Int a = 0;
    for (; a + 1 < who.size; a += 2) {
        double *__restrict line = square[who[a]].data, *__restrict below = square[who[a + 1]].data;
        line[who[a]] += x;
        for (Int b = a + 1; b < who.size; ++b) {
            const int at = who[b];
            line[at] += x;
            below[at] += x;
        }
    }
    if (a < who.size) square(who[a], who[a]) += x;
}

// Add the outer products of the `rows` that all atoms in use pay. Four at a time: one by one, each would read
// and write the whole square.
HW_DEVICE inline void add_full_rows(Room &room, KnownDoubles bend, View<const int> rows, Int size) {
    Table square = room.square;
    const double *const value = room.value.data;
    Int r = 0;
    for (; r + 3 < rows.size; r += 4) {
        const int h = rows[r], i = rows[r + 1], k = rows[r + 2], m = rows[r + 3];
        const double *__restrict w = value + room.first[h], *__restrict x = value + room.first[i];
        const double *__restrict y = value + room.first[k], *__restrict z = value + room.first[m];
        for (Int a = 0; a < size; ++a) {
            double *__restrict line = square[a].data;
            const double ww = bend[h] * w[a], xx = bend[i] * x[a], yy = bend[k] * y[a], zz = bend[m] * z[a];
            for (Int b = a; b < size; ++b) line[b] += (ww * w[b] + xx * x[b]) + (yy * y[b] + zz * z[b]);
        }
    }
    for (; r < rows.size; ++r) {
        const Int h = rows[r];
        const double *w = value + room.first[h];
        for (Int a = 0; a < size; ++a) add_scaled(square[a].data, w, bend[h] * w[a], a, size);
    }
}

// The entries of the first `size` atoms in use, by rows, into `who` and `value`: row i's are
// first[i]:last[i].
HW_DEVICE inline void sort_by_rows(const ChannelView &view, Room &room, Int size) {
    const int *__restrict row = view.row.data;
    int *__restrict first = room.first.data, *__restrict last = room.last.data,
        *__restrict who = room.who.data;
    double *__restrict value = room.value.data;
    for (Int i = 0; i < room.rows; ++i) first[i] = 0;
    for (Int a = 0; a < size; ++a) {
        const Int j = room.active[a];
        for (Int e = view.start[j], end = view.start[j + 1]; e < end; ++e) ++first[row[e]];
    }
    int place = 0;
    for (Int i = 0; i < room.rows; ++i) {
        const int count = first[i];
        first[i] = last[i] = place;
        place += count;
    }
    for (Int a = 0; a < size; ++a) {
        const Int j = room.active[a];
        if (view.plain) {
            for (Int e = view.start[j], end = view.start[j + 1]; e < end; ++e) who[last[row[e]]++] =
                static_cast<int>(a);
            continue;
        }
        for (Int e = view.start[j], end = view.start[j + 1]; e < end; ++e) {
            const int at = last[row[e]]++;
            who[at] = static_cast<int>(a), value[at] = view.weight[e];
        }
    }
}

// As `curve` below, for a few atoms and deterministic arms: pair by pair, over the arms that pay both atoms
// the same.
HW_DEVICE inline void curve_few(const ChannelView &view, Room &room, Int size, KnownDoubles bend) {
    const Int arms = view.arms();
    for (Int a = 0; a < size; ++a) {
        const int *const mine = view.row.data + view.start[room.active[a]];
        for (Int b = a; b < size; ++b) {
            const int *const other = view.row.data + view.start[room.active[b]];
            double sum = 0.0;
            for (Int k = 0; k < arms; ++k) sum += mine[k] == other[k] ? bend[mine[k]] : 0.0;
            room.square(a, b) = sum;
        }
    }
}

// The curvature of the first `size` atoms in use, into the upper half of the square. Row by row of the
// channels, each an outer product over the atoms in use that pay it: a fraction of all pairs where rewards
// are deterministic.
HW_DEVICE inline void curve(const ChannelView &view, Room &room, Int size, KnownDoubles bend) {
    const Int few = 6;
    if (view.plain && size <= few) return curve_few(view, room, size, bend);
    Table square = room.square;
    sort_by_rows(view, room, size);
    for (Int a = 0; a < size; ++a) fill(square[a].part(a, size), 0.0);
    Int full = 0;
    for (Int i = 0; i < bend.size; ++i) {
        const Int low = room.first[i], high = room.last[i];
        if (bend[i] <= 0.0) continue;
        if (view.sure[i]) {
            add_outer(bend[i], room.who.part(low, high), square);
        } else if (high - low == size) {
            room.last[full++] = static_cast<int>(i);  // row i's own place is not needed any more
        } else {
            for (Int x = low; x < high; ++x) {
                const double factor = bend[i] * room.value[x];
                double *__restrict line = square[room.who[x]].data;
                for (Int y = x; y < high; ++y) line[room.who[y]] += factor * room.value[y];
            }
        }
    }
    add_full_rows(room, bend, room.last.first(full), size);
}

// An atom of more curvature than those that the ridge was made for has its own: else rounding would swamp it.
HW_INLINE double own_ridge(double curvature, double ridge) { return max(ridge, ridge_part * curvature); }

HW_INLINE double factor_of(Table square, Int size) {
    double largest = 1.0;
    for (Int a = 0; a < size; ++a) largest = max(largest, square(a, a));
    const double ridge = ridge_part * largest;
    for (Int b = 0; b < size; ++b) {
        double *__restrict top = square[b].data;
        const double own = own_ridge(top[b], ridge);
        Int c = 0;
        for (; c + 3 < b; c += 4) {  // four at a time: one alone would read and write the row for each
            const double *__restrict w = square[c].data, *__restrict x = square[c + 1].data;
            const double *__restrict y = square[c + 2].data, *__restrict z = square[c + 3].data;
            const double ww = w[b], xx = x[b], yy = y[b], zz = z[b];
            for (Int a = b; a < size; ++a) top[a] -= (ww * w[a] + xx * x[a]) + (yy * y[a] + zz * z[a]);
        }
        for (; c < b; ++c) take_scaled(top, square[c].data, square(c, b), b, size);
        top[b] = sqrt(max(top[b] + own, own));
        const double scale = 1.0 / top[b];
        for (Int a = b + 1; a < size; ++a) top[a] *= scale;
    }
    return ridge;
}

// Cholesky in place, a ridge added; a vanishing pivot becomes the ridge. Returns the ridge. O(size^3). Few
// atoms are the usual case on a small support: their loops are unrolled.
HW_DEVICE inline double factor(Table square, Int size) {
    switch (size) {
        case 1: return factor_of(square, 1);
        case 2: return factor_of(square, 2);
        case 3: return factor_of(square, 3);
        case 4: return factor_of(square, 4);
        default: return factor_of(square, size);
    }
}

// A[:, j] . x, x (R,). Four sums side by side: one alone would wait for each addition.
HW_DEVICE inline double column_dot(const ChannelView &view, Int j, KnownDoubles x) {
    const int *const row = view.row.data;
    const double *const of = x.data;
    const Int end = view.start[j + 1];
    Int e = view.start[j];
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    if (view.plain) {
        for (; e + 3 < end; e += 4) {
            a += of[row[e]];
            b += of[row[e + 1]];
            c += of[row[e + 2]];
            d += of[row[e + 3]];
        }
        for (; e < end; ++e) a += of[row[e]];
        return (a + b) + (c + d);
    }
    if (end - e == x.size) return dot(view.weight.part(e, end), x, x.size);  // every row, in order
    const double *const weight = view.weight.data;
    for (; e + 3 < end; e += 4) {
        a += weight[e] * of[row[e]];
        b += weight[e + 1] * of[row[e + 1]];
        c += weight[e + 2] * of[row[e + 2]];
        d += weight[e + 3] * of[row[e + 3]];
    }
    for (; e < end; ++e) a += weight[e] * of[row[e]];
    return (a + b) + (c + d);
}

// The factor's column for the last of `size` atoms in use. O(size^2), and what its curvature with the others
// takes.
HW_DEVICE inline void append(const ChannelView &view, Room &room, Int size, KnownDoubles bend, double ridge) {
    const Int last = size - 1, j = room.active[last];
    Doubles h = room.column, scatter = room.scatter;
    for (Int e = view.start[j]; e < view.start[j + 1]; ++e) scatter[view.row[e]] =
        view.weight[e] * bend[view.row[e]];
    for (Int a = 0; a < size; ++a) h[a] = column_dot(view, room.active[a], scatter);
    for (Int e = view.start[j]; e < view.start[j + 1]; ++e) scatter[view.row[e]] = 0.0;
    const double own = own_ridge(h[last], ridge);
    for (Int c = 0; c < last; ++c) {
        double *line = room.square[c].data;
        const double x = h[c] / line[c];
        line[last] = x;
        take_scaled(h.data, line, x, c + 1, last);
        h[last] -= x * x;
    }
    room.square(last, last) = sqrt(max(h[last] + own, own));
}

// Take the atom at `slot` out of the factor of `size`: what its column explained goes back, by rotations.
// O(size^2).
HW_DEVICE inline void remove(Table square, Int size, Int slot) {
    for (Int c = 0; c < slot; ++c) {
        double *line = square[c].data;
        for (Int b = slot + 1; b < size; ++b) line[b - 1] = line[b];
    }
    for (Int c = slot; c < size - 1; ++c) {
        double *__restrict line = square[c].data, *__restrict below = square[c + 1].data;
        const double x = line[c + 1], y = below[c + 1], pivot = sqrt(x * x + y * y);
        const double cosine = x / pivot, sine = y / pivot;
        for (Int b = c + 1; b < size; ++b) {
            const double upper = line[b], lower = below[b];
            line[b - 1] = cosine * upper + sine * lower;
            below[b] = cosine * lower - sine * upper;
        }
    }
}

HW_INLINE void solve_for(Table square, Int size, Doubles first, Doubles second) {
    double *__restrict u = first.data, *__restrict v = second.data;
    for (Int i = 0; i < size; ++i) {
        const double *__restrict line = square[i].data;
        const double scale = 1.0 / line[i];
        u[i] *= scale;
        v[i] *= scale;
        const double x = u[i], y = v[i];
        for (Int m = i + 1; m < size; ++m) {
            u[m] -= line[m] * x;
            v[m] -= line[m] * y;
        }
    }
    for (Int i = size - 1; i >= 0; --i) {
        const KnownDoubles rest = square[i].part(i + 1, size);
        u[i] = (u[i] - dot(rest, first.part(i + 1, size), rest.size)) / square(i, i);
        v[i] = (v[i] - dot(rest, second.part(i + 1, size), rest.size)) / square(i, i);
    }
}

// u and v (size,) become H^-1 u and H^-1 v: together, as reading the factor takes longest. O(size^2).
HW_DEVICE inline void solve(Table square, Int size, Doubles u, Doubles v) {
    switch (size) {
        case 1: return solve_for(square, 1, u, v);
        case 2: return solve_for(square, 2, u, v);
        case 3: return solve_for(square, 3, u, v);
        case 4: return solve_for(square, 4, u, v);
        default: return solve_for(square, size, u, v);
    }
}

// The atoms that p uses, with their factor: how many, and the ridge.
struct Active {
    Int size;
    double ridge;
};

// Wants p's atoms listed. The square is made as large as those and all hopefuls need.
HW_DEVICE inline Active start(const ChannelView &view, Room &room, KnownDoubles p, KnownDoubles bend) {
    int size = 0;
    fill(room.slot, -1);
    for_used(room, p, [&](Int j) {
        room.active[size] = static_cast<int>(j), room.slot[j] = size;
        ++size;
    });
    room.square.rows = room.square.columns = min(size + hopefuls, room.atoms);
    curve(view, room, size, bend);
    return {size, factor(room.square, size)};
}

}  // namespace quadratic
}  // namespace HW_BUILD
}  // namespace hw
