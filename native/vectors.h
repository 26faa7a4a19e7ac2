// Small vectors and triangles. What becomes of a vanishing pivot is each factoriser's business.
#pragma once
#include "portable.h"

namespace hw {
inline namespace HW_BUILD {

// The largest of some numbers (signs aside, if `aside`) and of `out`, passing over NaN. Four at a time, as each
// comparison waits for its last one.
template <bool aside = false> HW_INLINE double at_least(double out, KnownDoubles x) {
    const auto at = [&](Int i) { return aside ? absolute(x[i]) : x[i]; };
    double a = out, b = out, c = out, d = out;
    Int i = 0;
    for (; i + 3 < x.size; i += 4) {
        a = max(a, at(i)), b = max(b, at(i + 1));
        c = max(c, at(i + 2)), d = max(d, at(i + 3));
    }
    for (; i < x.size; ++i) a = max(a, at(i));
    return max(max(a, b), max(c, d));
}

HW_INLINE bool any_nan(KnownDoubles x) {
    bool out = false;
    for (const double value : x) out |= value != value;
    return out;
}

// The largest entry, NaN where one is, -inf where there is none.
HW_DEVICE inline double largest(KnownDoubles x) {
    return any_nan(x) ? infinity - infinity : at_least(-infinity, x);
}

// The largest entry, signs aside: NaN where one is, 0 where there is none.
HW_DEVICE inline double magnitude(KnownDoubles x) {
    return any_nan(x) ? infinity - infinity : at_least<true>(0.0, x);
}

// The sum of the first n products. Four sums side by side: one alone would wait for each addition.
HW_INLINE double dot(KnownDoubles x, KnownDoubles y, Int n) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    Int i = 0;
    for (; i + 3 < n; i += 4) {
        a += x[i] * y[i];
        b += x[i + 1] * y[i + 1];
        c += x[i + 2] * y[i + 2];
        d += x[i + 3] * y[i + 3];
    }
    for (; i < n; ++i) a += x[i] * y[i];
    return (a + b) + (c + d);
}

// Call visit(i) for every entry that is not zero, by ascending i. Laws use few of their atoms: blocks without
// any are passed by, and their bits are looked at as whole numbers, which any processor does several at a time.
template <class Visit> HW_INLINE void for_nonzero(KnownDoubles x, Visit visit) {
    const double *const at = x.data;
    Int i = 0;
    for (; i + 15 < x.size; i += 16) {
        Long any = 0;
        for (Int m = 0; m < 16; ++m) any |= __builtin_bit_cast(Long, at[i + m]);
        if (any << 1 == 0) continue;  // but for the sign
        for (Int m = i; m < i + 16; ++m) {
            if (at[m] != 0.0) visit(m);
        }
    }
    for (; i < x.size; ++i) {
        if (at[i] != 0.0) visit(i);
    }
}

// x (n,) becomes the solution of L L' y = x, L the lower half of a. Row by row, so that both sweeps vectorise. O(n^2).
HW_DEVICE inline void backsolve(Table a, Int n, Doubles x) {
    for (Int i = 0; i < n; ++i) x[i] = (x[i] - dot(a[i], x, i)) / a(i, i);
    for (Int i = n - 1; i >= 0; --i) {
        x[i] /= a(i, i);
        const double top = x[i];
        for (Int m = 0; m < i; ++m) x[m] -= a(i, m) * top;
    }
}

}  // namespace HW_BUILD
}  // namespace hw
