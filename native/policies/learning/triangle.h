// Small upper triangles, row by row.
#pragma once
#include "../../elementary.h"
#include "../../portable.h"

namespace hw {
inline namespace HW_BUILD {
namespace posterior {

// Cholesky, in place: the upper triangle of a positive definite matrix becomes U with U'U equal to it.
// O(m^3). `least`: bounds that the squared pivots have in exact arithmetic (the prior's part, a / c^2), kept
// against rounding.
HW_DEVICE inline void factor(Int m, KnownDoubles least, Table u) {
    for (Int k = 0; k < m; ++k) {
        const double root = sqrt(max(u(k, k), least[k]));
        u(k, k) = root;
        for (Int i = k + 1; i < m; ++i) u(k, i) /= root;
        for (Int i = k + 1; i < m; ++i) {
            const double x = u(k, i);
            if (x == 0.0) continue;
            for (Int col = i; col < m; ++col) u(i, col) -= x * u(k, col);
        }
    }
}

// x becomes the solution of U'U y = x. O(m^2).
HW_DEVICE inline void solve(Int m, KnownTable u, Doubles x) {
    for (Int k = 0; k < m; ++k) {
        x[k] /= u(k, k);
        for (Int i = k + 1; i < m; ++i) x[i] -= u(k, i) * x[k];
    }
    for (Int k = m - 1; k >= 0; --k) {
        for (Int i = k + 1; i < m; ++i) x[k] -= u(k, i) * x[i];
        x[k] /= u(k, k);
    }
}

// U becomes its inverse. O(m^3).
HW_DEVICE inline void invert(Int m, Table u, Doubles scratch) {
    for (Int k = m - 1; k >= 0; --k) {
        const double scale = 1.0 / u(k, k);
        for (Int col = k + 1; col < m; ++col) scratch[col] = 0.0;
        for (Int i = k + 1; i < m; ++i) {
            const double x = u(k, i) * scale;
            if (x == 0.0) continue;
            for (Int col = i; col < m; ++col) scratch[col] -= x * u(i, col);
        }
        for (Int col = k + 1; col < m; ++col) u(k, col) = scratch[col];
        u(k, k) = scale;
    }
}

}  // namespace posterior
}  // namespace HW_BUILD
}  // namespace hw
