// Dense systems with many right sides at once. Their columns stand side by side, so that inner loops run
// across them: no sum waits for itself, however few equations there are. Tables of columns are as wide as a
// multiple of GROUP, padded with zeros.
#pragma once
#include "../../elementary.h"
#include "../../vectors.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr Int GROUP = 4;

HW_INLINE Int padded(Int columns) { return (columns + GROUP - 1) / GROUP * GROUP; }

// Lay tables of one size one after the other.
template <class... Tables> HW_INLINE void lay_tables(Arena &arena, Int rows, Int columns, Tables &...each) {
    ((each = arena.grid<double>(rows, columns)), ...);
}

// The lower half of a matrix L L', and 1 / L_ii: division would be what each step waits for.
struct Triangle {
    Table a;          // (n, w)
    Doubles inverse;  // (n,)

    HW_DEVICE void lay(Arena &arena, Int n) {
        lay_tables(arena, n, padded(n), a);
        lay_each(arena, n, inverse);
    }
};

// The lower half of a becomes its Cholesky factor. A pivot lost to rounding is raised to this part of what
// it was: the step is then shorter, still downhill. O(n^3).
inline constexpr double RIDGE = 1e-13;

namespace detail {

// As `factor`, for so few that all of it stays in registers.
template <int n> HW_DEVICE inline void factor_few(const Triangle &l) {
    double a[n][n], inverse[n];
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) {
        const double least = RIDGE * l.a(i, i) + 1e-300;
        double rest = l.a(i, i);
#pragma GCC unroll 8
        for (int j = 0; j < i; ++j) {
            double value = l.a(i, j);
#pragma GCC unroll 8
            for (int m = 0; m < j; ++m) value -= a[i][m] * a[j][m];
            a[i][j] = value * inverse[j];
            rest -= a[i][j] * a[i][j];
            l.a(i, j) = a[i][j];
        }
        l.a(i, i) = sqrt(max(rest, least));
        l.inverse[i] = inverse[i] = 1.0 / l.a(i, i);
    }
}

}  // namespace detail

HW_DEVICE inline void factor(const Triangle &l, Int n) {
    if (n == 2) return detail::factor_few<2>(l);
    if (n == 3) return detail::factor_few<3>(l);
    if (n == 4) return detail::factor_few<4>(l);
    if (n == 5) return detail::factor_few<5>(l);
    if (n == 6) return detail::factor_few<6>(l);
    const Table a = l.a;
    for (Int i = 0; i < n; ++i) {
        const double least = RIDGE * a(i, i) + 1e-300;
        for (Int j = 0; j < i; ++j) a(i, j) = (a(i, j) - dot(a[i], a[j], j)) * l.inverse[j];
        a(i, i) = sqrt(max(a(i, i) - dot(a[i], a[i], i), least));
        l.inverse[i] = 1.0 / a(i, i);
    }
}

// x (n,) becomes the solution of L L' y = x. O(n^2).
HW_DEVICE inline void solve(const Triangle &l, Int n, Doubles x) {
    for (Int i = 0; i < n; ++i) x[i] = (x[i] - dot(l.a[i], x, i)) * l.inverse[i];
    for (Int i = n - 1; i >= 0; --i) {
        x[i] *= l.inverse[i];
        for (Int m = 0; m < i; ++m) x[m] -= l.a(i, m) * x[i];
    }
}

// A few columns of one row, in registers.
struct ColumnStretch {
    double at[GROUP];
    HW_INLINE explicit ColumnStretch(const double *from) {
        for (Int i = 0; i < GROUP; ++i) at[i] = from[i];
    }
    HW_INLINE ColumnStretch() {
        for (Int i = 0; i < GROUP; ++i) at[i] = 0.0;
    }
    HW_INLINE void add(double by, const double *row) {
        for (Int i = 0; i < GROUP; ++i) at[i] += by * row[i];
    }
    HW_INLINE void scale(double by) {
        for (Int i = 0; i < GROUP; ++i) at[i] *= by;
    }
    HW_INLINE void put(double *to) const {
        for (Int i = 0; i < GROUP; ++i) to[i] = at[i];
    }
};

// x (n, w) becomes the solution of L y = x: half of the way. O(n^2 w).
HW_DEVICE inline void forward(const Triangle &l, Int n, Table x) {
    for (Int c = 0; c < x.columns; c += GROUP)
        for (Int i = 0; i < n; ++i) {
            ColumnStretch row(&x(i, c));
            for (Int m = 0; m < i; ++m) row.add(-l.a(i, m), &x(m, c));
            row.scale(l.inverse[i]);
            row.put(&x(i, c));
        }
}

// x (n, w) becomes the solution of L' y = x: the other half. O(n^2 w).
HW_DEVICE inline void backward(const Triangle &l, Int n, Table x) {
    for (Int c = 0; c < x.columns; c += GROUP)
        for (Int i = n - 1; i >= 0; --i) {
            ColumnStretch row(&x(i, c));
            for (Int m = i + 1; m < n; ++m) row.add(-l.a(m, i), &x(m, c));
            row.scale(l.inverse[i]);
            row.put(&x(i, c));
        }
}

// out (m, w) += by x' y, for the first m columns of x (n, ...) and y (n, w). O(m n w).
HW_DEVICE inline void add_crossed(double by, Table x, Int m, Table y, Table out) {
    for (Int i = 0; i < m; ++i)
        for (Int c = 0; c < y.columns; c += GROUP) {
            ColumnStretch row(&out(i, c));
            for (Int j = 0; j < y.rows; ++j) row.add(by * x(j, i), &y(j, c));
            row.put(&out(i, c));
        }
}

// out becomes x' x for the first m columns of x (n, w): its first m rows. O(m^2 n).
HW_DEVICE inline void square(Table x, Int m, Table out) {
    for (Int i = 0; i < m; ++i)
        for (Int c = 0; c <= i; c += GROUP) {
            ColumnStretch row;
            for (Int j = 0; j < x.rows; ++j) row.add(x(j, i), &x(j, c));
            row.put(&out(i, c));
        }
}

// out (n, w) += by x y, for the first m columns of x (n, ...) and rows of y (m, w). O(m n w).
HW_DEVICE inline void add_product(double by, Table x, Int m, Table y, Table out) {
    for (Int i = 0; i < out.rows; ++i)
        for (Int c = 0; c < out.columns; c += GROUP) {
            ColumnStretch row(&out(i, c));
            for (Int j = 0; j < m; ++j) row.add(by * x(i, j), &y(j, c));
            row.put(&out(i, c));
        }
}

}  // namespace HW_BUILD
}  // namespace hw
