// Small dense linear programmes: maximise c.x subject to A x = b, x >= 0, with A (m, n).
//
// The revised simplex method with an explicit inverse. basis[i] is the column that is basic in place i, -1
// where none is: the artificial variable of row i stands there, which must be 0. So redundant rows are
// allowed, and all -1 is a cold start. A basis that was optimal for another b is optimal again if it is still
// feasible; if not, dual pivots repair it.
#pragma once
#include "portable.h"
#include "vectors.h"

namespace hw {
inline namespace HW_BUILD {
namespace simplex {

enum class Status : int { optimal, infeasible, unbounded, stalled };

inline constexpr double feasible = 1e-10;  // below 0 by less is 0, as a part of the largest |b|
inline constexpr double costless = 1e-10;  // a reduced cost up to this part of the largest |c| is none
inline constexpr double least_pivot = 1e-9;
inline constexpr double negligible = 1e-13;  // of a pivot of the inverse, and between steps that are as long
inline constexpr Int attempts = 8;

// What is kept while programmes of up to `rows` rows and `columns` columns are solved.
struct Room {
    Int rows = 0, columns = 0;
    Doubles x, dual, column, reduced, across;
    Table inverse, square;

    HW_INLINE void lay(Arena &arena) {
        x = arena.view<double>(rows), dual = arena.view<double>(rows), column = arena.view<double>(rows);
        reduced = arena.view<double>(columns), across = arena.view<double>(columns);
        inverse = arena.grid<double>(rows, rows), square = arena.grid<double>(rows, rows);
    }
    // The part that a programme of m rows and n columns takes.
    HW_INLINE Room part(Int m, Int n) const {
        return {m, n, x.first(m), dual.first(m), column.first(m), reduced.first(n), across.first(n),
                {inverse.data, m, m}, {square.data, m, m}};
    }
};

struct Programme {
    KnownTable a;
    KnownDoubles b, c;
};

// A programme on its way: the basis, the basic variables x (m,), the dual y (m,) and the reduced costs (n,).
// `near` is how far from feasible still counts as feasible.
struct Tableau : Programme, Room {
    Ints basis;
    double near;
};

// to += factor row. O(n).
HW_INLINE void add_scaled(Doubles to, double factor, KnownDoubles row) {
    double *__restrict__ target = to.data;
    const double *__restrict__ source = row.data;
    for (Int j = 0; j < to.size; ++j) target[j] += factor * source[j];
}

// to -= the sum of the rows times y, row after row; four of them in one sweep. O(m n).
HW_INLINE void subtract_rows(Doubles to, KnownDoubles y, KnownTable a) {
    double *__restrict__ target = to.data;
    Int i = 0;
    while (i < y.size) {
        const double y0 = y[i];
        const bool four =
            i + 3 < y.size && y0 != 0.0 && y[i + 1] != 0.0 && y[i + 2] != 0.0 && y[i + 3] != 0.0;
        if (four) {
            const double y1 = y[i + 1], y2 = y[i + 2], y3 = y[i + 3];
            const double *__restrict__ r0 = a[i].data, *__restrict__ r1 = a[i + 1].data;
            const double *__restrict__ r2 = a[i + 2].data, *__restrict__ r3 = a[i + 3].data;
            for (Int j = 0; j < to.size; ++j)
                target[j] = (((target[j] - y0 * r0[j]) - y1 * r1[j]) - y2 * r2[j]) - y3 * r3[j];
        } else if (y0 != 0.0) {
            add_scaled(to, -y0, a[i]);
        }
        i += four ? 4 : 1;
    }
}

HW_INLINE void swap_rows(Table a, Int i, Int j) {
    for (Int q = 0; i != j && q < a.columns; ++q) {
        const double kept = a(i, q);
        a(i, q) = a(j, q), a(j, q) = kept;
    }
}

// The inverse of the basis by Gauss-Jordan elimination; false where it is singular. O(m^3).
HW_DEVICE inline bool invert(const Tableau &t) {
    const Int m = t.rows;
    for (Int i = 0; i < m; ++i) {
        for (Int p = 0; p < m; ++p) {
            t.inverse(i, p) = i == p ? 1.0 : 0.0;
            t.square(i, p) = t.basis[p] >= 0 ? t.a(i, t.basis[p]) : t.inverse(i, p);
        }
    }
    for (Int p = 0; p < m; ++p) {
        Int best = p;
        for (Int i = p + 1; i < m; ++i) {
            if (absolute(t.square(i, p)) > absolute(t.square(best, p))) best = i;
        }
        const double scale = t.square(best, p);
        if (absolute(scale) <= negligible) return false;
        swap_rows(t.square, p, best);
        swap_rows(t.inverse, p, best);
        for (Int q = p; q < m; ++q) t.square(p, q) /= scale;  // the columns before are done with
        for (Int q = 0; q < m; ++q) t.inverse(p, q) /= scale;
        for (Int i = 0; i < m; ++i) {
            const double factor = t.square(i, p);
            if (i != p && factor != 0.0) {
                add_scaled(t.square[i].part(p, m), -factor, t.square[p].part(p, m));
                add_scaled(t.inverse[i], -factor, t.inverse[p]);
            }
        }
    }
    return true;
}

// The dual of a basis and the reduced costs. O(m^2 + m n). In phase 1 the objective is to hold little in
// artificial variables.
HW_DEVICE inline void price(const Tableau &t, int phase) {
    fill(t.dual, 0.0);
    for (Int p = 0; p < t.rows; ++p) {
        const bool artificial = t.basis[p] < 0;
        const double held = phase == 1 ? -1.0 : 0.0, paid = phase == 2 && !artificial ? t.c[t.basis[p]] : 0.0;
        const double cost = artificial ? held : paid;
        if (cost != 0.0) add_scaled(t.dual, cost, t.inverse[p]);
    }
    for (Int j = 0; j < t.columns; ++j) t.reduced[j] = phase == 2 ? t.c[j] : 0.0;
    subtract_rows(t.reduced, t.dual, t.a);
}

// inverse v, by rows, four sums side by side as each waits for its last addition. O(m^2).
template <class Vector> HW_INLINE void apply(KnownTable inverse, const Vector &v, Doubles out) {
    const Int m = out.size;
    Int p = 0;
    for (; p + 3 < m; p += 4) {
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        for (Int i = 0; i < m; ++i) {
            const double x = v(i);
            s0 += inverse(p, i) * x, s1 += inverse(p + 1, i) * x;
            s2 += inverse(p + 2, i) * x, s3 += inverse(p + 3, i) * x;
        }
        out[p] = s0, out[p + 1] = s1, out[p + 2] = s2, out[p + 3] = s3;
    }
    for (; p < m; ++p) {
        double s = 0.0;
        for (Int i = 0; i < m; ++i) s += inverse(p, i) * v(i);
        out[p] = s;
    }
}

// column = inverse A[:, j], what each basic variable loses as the j-th grows. O(m^2).
HW_DEVICE inline void enter(const Tableau &t, Int j) {
    apply(t.inverse, [&](Int i) { return t.a(i, j); }, t.column);
}

// Column j, entered before, becomes basic in place r. O(m^2).
HW_DEVICE inline void pivot(const Tableau &t, Int r, Int j) {
    const double scale = t.column[r];
    for (Int i = 0; i < t.rows; ++i) t.inverse(r, i) /= scale;
    t.x[r] /= scale;
    for (Int p = 0; p < t.rows; ++p) {
        if (p != r && t.column[p] != 0.0) {
            add_scaled(t.inverse[p], -t.column[p], t.inverse[r]);
            t.x[p] -= t.column[p] * t.x[r];
        }
    }
    t.basis[r] = j;
}

struct Leaving {
    Int place;
    double length;
};

// Which place is the first to reach 0 as the column enters, and how far that is; -1 if none ever does. O(m).
HW_DEVICE inline Leaving leaving(const Tableau &t, bool settled, bool bland) {
    Leaving out{-1, infinity};
    for (Int p = 0; p < t.rows; ++p) {
        // An artificial variable of a feasible basis is 0 and stays so: it leaves at once, whichever way it
        // would move.
        const bool fixed = settled && t.basis[p] < 0;
        if (!(t.column[p] > least_pivot || (fixed && t.column[p] < -least_pivot))) continue;
        const double ratio = fixed ? 0.0 : max(t.x[p], 0.0) / t.column[p];
        const Int r = out.place;
        const auto better = [&] {
            return bland ? t.basis[p] < t.basis[r] : absolute(t.column[p]) > absolute(t.column[r]);
        };
        if (r < 0 || ratio < out.length - negligible || (ratio <= out.length + negligible && better()))
            out = {p, min(ratio, out.length)};
    }
    return out;
}

// Pivots from a feasible basis. The largest reduced cost enters; after many steps of length 0, Bland's rule:
// no cycles.
HW_DEVICE inline Status primal(const Tableau &t, int phase, double enough) {
    Int still = 0;
    for (Int step = 0; step < 100 + 50 * (t.rows + t.columns); ++step) {
        price(t, phase);
        const bool bland = still > t.rows + t.columns;
        Int j = -1;
        double most = enough;
        for (Int h = 0; h < t.columns && !(bland && j >= 0); ++h) {
            if (t.reduced[h] > most) j = h, most = t.reduced[h];
        }
        if (j < 0) return Status::optimal;
        enter(t, j);
        const Leaving out = leaving(t, phase == 2, bland);
        if (out.place < 0) return Status::unbounded;
        still = out.length > 1e-12 ? 0 : still + 1;
        pivot(t, out.place, j);
    }
    return Status::stalled;
}

// The place that is farthest from feasible, or the lowest-numbered variable of those that are not; -1 if all
// are. O(m).
HW_DEVICE inline Int worst(const Tableau &t, bool bland) {
    Int r = -1;
    double most = t.near;
    for (Int p = 0; p < t.rows; ++p) {
        const double lacking = t.basis[p] < 0 ? absolute(t.x[p]) : -t.x[p];
        if (!(lacking > t.near)) continue;
        if (r < 0 || (bland ? t.basis[p] < t.basis[r] : lacking > most)) r = p, most = lacking;
    }
    return r;
}

// Which column repairs place r at the least loss, -1 if none can. The reduced costs are those of the basis.
// O(m n).
HW_DEVICE inline Int repairing(const Tableau &t, Int r, double sign, bool bland) {
    fill(t.across, 0.0);
    for (Int i = 0; i < t.rows; ++i) add_scaled(t.across, t.inverse(r, i), t.a[i]);
    Int j = -1;
    double least = infinity, largest = 0.0;
    for (Int h = 0; h < t.columns; ++h) {
        const double across = t.across[h] * sign;
        if (!(across < -least_pivot)) continue;
        const double ratio = min(t.reduced[h], 0.0) / across;
        if (j < 0 || ratio < least - negligible || (ratio <= least && !bland && -across > largest))
            j = h, least = min(ratio, least), largest = -across;
    }
    return j;
}

// Pivots from a basis of no positive reduced cost until it is feasible; where that is impossible, the dual
// says why. In the second half of the steps allowed by Bland's rule, lest it cycle.
HW_DEVICE inline Status dual(const Tableau &t) {
    const Int steps = 100 + 20 * (t.rows + t.columns);
    for (Int step = 0; step < steps; ++step) {
        const bool bland = 2 * step > steps;
        const Int r = worst(t, bland);
        if (r < 0) return Status::optimal;
        // An artificial variable above 0 is as wrong as one below.
        const double sign = t.x[r] > 0.0 ? -1.0 : 1.0;
        price(t, 2);
        const Int j = repairing(t, r, sign, bland);
        if (j < 0) {
            for (Int i = 0; i < t.rows; ++i) t.dual[i] = sign * t.inverse(r, i);
            return Status::infeasible;
        }
        enter(t, j);
        pivot(t, r, j);
    }
    return Status::stalled;
}

// Phase 1: pivots until artificial variables hold nothing; infeasible where they must hold something.
HW_DEVICE inline Status phase_one(const Tableau &t) {
    for (Int p = 0; p < t.rows; ++p) {
        if (!(t.basis[p] < 0 && t.x[p] < 0.0)) continue;
        t.x[p] = -t.x[p];  // the same variable with the other sign
        for (Int i = 0; i < t.rows; ++i) t.inverse(p, i) = -t.inverse(p, i);
    }
    const Status status = primal(t, 1, costless);
    double held = 0.0;
    for (Int p = 0; p < t.rows; ++p) held += t.basis[p] < 0 ? t.x[p] : 0.0;
    const bool stuck = status == Status::optimal && held > t.near * static_cast<double>(t.rows);
    return stuck ? Status::infeasible : status;
}

// How far below 0 a basic variable is, how far off 0 an artificial one, and the largest reduced cost.
struct Look {
    double below = 0.0, artificial = 0.0, most = -infinity;
};

// Invert a basis (a singular one is forgotten) and price it. O(m^3 + m n).
HW_DEVICE inline Look look(const Tableau &t) {
    if (!invert(t)) {
        fill(t.basis, Int{-1});
        invert(t);
    }
    apply(t.inverse, [&](Int i) { return t.b[i]; }, t.x);
    Look out;
    for (Int p = 0; p < t.rows; ++p) {
        if (t.basis[p] < 0) out.artificial = max(out.artificial, absolute(t.x[p]));
        else out.below = max(out.below, -t.x[p]);
    }
    price(t, 2);
    out.most = at_least(-infinity, t.reduced);
    return out;
}

// Solve from a basis (m,), which is left as it ends; x of the basic variables, dual and reduced costs are
// left in `room`, which must have the programme's shape. At an optimum A'y >= c and b.y = c.x; where
// infeasible A'y >= 0 and b.y < 0. Each phase starts from a fresh inverse, and so does the check of the
// answer: it is feasible, and no reduced cost is left. O(m^3 + m n), and O(m^2 + m n) a pivot.
HW_DEVICE inline Status maximise(const Programme &programme, Ints basis, const Room &room) {
    const double scale = magnitude(programme.c), near = feasible * max(1.0, magnitude(programme.b));
    const Tableau t{programme, room, basis, near};
    for (Int attempt = 0; attempt < attempts; ++attempt) {
        const Look now = look(t);
        const bool optimal = now.most <= 2.0 * costless * scale;
        Status status = Status::stalled;
        if (now.below <= near && now.artificial <= near) {
            if (optimal) return Status::optimal;
            status = primal(t, 2, costless * scale);
        } else if (optimal) {
            status = dual(t);
        } else if (now.below <= near) {
            status = phase_one(t);
        }
        if (status == Status::unbounded || status == Status::infeasible) return status;
        if (status == Status::stalled) fill(basis, Int{-1});
    }
    return Status::stalled;
}

}  // namespace simplex
}  // namespace HW_BUILD
}  // namespace hw
