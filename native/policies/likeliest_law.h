// The likeliest law of an arm's random rewards: f = A p that maximises sum_m q_m log f_m over the laws p of
// X, where A (M, J) is the arm's channel and q, every q_m > 0, the law that was observed.
//
// It is only approached, and says how near: if no sum_m q_m A_mj / f_m exceeds 1 + delta, then sum_m q_m
// h(f*_m / f_m) <= delta with h(u) = u - 1 - log u, which bounds every |f*_m - f_m|.
#pragma once
#include "../elementary.h"
#include "../portable.h"
#include "../vectors.h"

namespace hw {
inline namespace HW_BUILD {
namespace likeliest {

inline constexpr double sharp = 1e-14;  // the delta at which the law is good enough
inline constexpr Int newton_steps = 80;

// What is kept while laws of up to `rows` rewards on `points` points are found.
struct Room {
    Int rows = 0, points = 0;
    Doubles p, s, ds, best, weights, ratios, w, dw;
    Table square;

    HW_INLINE void lay(Arena &arena) {
        p = arena.view<double>(points), s = arena.view<double>(points), ds = arena.view<double>(points);
        best = arena.view<double>(points);
        weights = arena.view<double>(points), ratios = arena.view<double>(points);
        w = arena.view<double>(rows), dw = arena.view<double>(rows);
        square = arena.grid<double>(rows, rows);
    }
    HW_INLINE Room part(Int m) const {
        return {m, points, p, s, ds, best, weights, ratios, w.first(m), dw.first(m), {square.data, m, m}};
    }
};

// A channel's rows, the observed law, and what becomes of the likeliest one.
struct Problem {
    KnownTable a;
    KnownDoubles q;
    Doubles f;
};

// Solve a symmetric positive definite system, `right` becoming the solution; false where it is not. O(m^3).
HW_DEVICE inline bool solve_cholesky(Table square, Doubles right) {
    const Int m = right.size;
    for (Int i = 0; i < m; ++i) {
        for (Int p = 0; p <= i; ++p) {
            double total = square(i, p);
            for (Int q = 0; q < p; ++q) total -= square(i, q) * square(p, q);
            if (i == p) {
                if (!(total > 0.0)) return false;
                square(i, i) = sqrt(total);
            } else {
                square(i, p) = total / square(p, p);
            }
        }
    }
    backsolve(square, m, right);
    return true;
}

// f = A p, and delta: by how much the largest sum_m q_m A_mj / f_m exceeds 1, for the law p / sum(p). O(m n).
HW_DEVICE inline double certify(const Problem &of, KnownDoubles p, Doubles slope) {
    double total = 0.0;
    for (const double x : p) total += x;
    fill(slope, 0.0);
    for (Int i = 0; i < of.q.size; ++i) {
        const KnownDoubles row = of.a[i];
        double f = 0.0;
        for (Int j = 0; j < p.size; ++j) f += row[j] * p[j];
        of.f[i] = f;
        const double share = of.q[i] * total / f;
        for (Int j = 0; j < p.size; ++j) slope[j] += share * row[j];
    }
    return largest(slope) - 1.0;
}

// square[i, h] += sum_j weights_j A_hj for h <= i, four rows side by side as each sum waits for its last
// addition. O(i n).
HW_INLINE void weigh_rows(KnownTable a, Int i, KnownDoubles weights, Table square) {
    Int h = 0;
    for (; h + 3 <= i; h += 4) {
        double s0 = square(i, h), s1 = square(i, h + 1), s2 = square(i, h + 2), s3 = square(i, h + 3);
        for (Int j = 0; j < weights.size; ++j) {
            const double weight = weights[j];
            s0 += weight * a(h, j), s1 += weight * a(h + 1, j);
            s2 += weight * a(h + 2, j), s3 += weight * a(h + 3, j);
        }
        square(i, h) = s0, square(i, h + 1) = s1, square(i, h + 2) = s2, square(i, h + 3) = s3;
    }
    for (; h <= i; ++h) {
        double s = square(i, h);
        for (Int j = 0; j < weights.size; ++j) s += weights[j] * a(h, j);
        square(i, h) = s;
    }
}

// Newton's direction: (f/w + A (p/s) A') dw = q/w - A (mu/s), ds = -A'dw; false where rounding spoils it.
// O(m^2 n + m^3).
HW_DEVICE inline bool direct(const Problem &of, const Room &at, double mu) {
    const Int m = of.q.size, n = at.p.size;
    fill(at.ds, 0.0);
    for (Int j = 0; j < n; ++j) at.ratios[j] = mu / at.s[j];
    for (Int i = 0; i < m; ++i) {
        const KnownDoubles row = of.a[i];
        for (Int h = 0; h < i; ++h) at.square(i, h) = 0.0;
        at.square(i, i) = of.f[i] / at.w[i];
        double right = of.q[i] / at.w[i];
        for (Int j = 0; j < n; ++j) right -= row[j] * at.ratios[j];
        at.dw[i] = right;
        for (Int j = 0; j < n; ++j) at.weights[j] = row[j] * at.p[j] / at.s[j];
        weigh_rows(of.a, i, at.weights, at.square);
    }
    if (!solve_cholesky(at.square, at.dw)) return false;
    for (Int i = 0; i < m; ++i) {
        const double step = at.dw[i];
        for (Int j = 0; j < n; ++j) at.ds[j] -= step * of.a(i, j);
    }
    return true;
}

// Step along the direction, so far that p, s and w stay above 0.
HW_DEVICE inline void move(const Room &at, double mu) {
    double far = 1.0, wide = 1.0;
    for (Int j = 0; j < at.p.size; ++j) {
        const double dp = (mu - at.p[j] * at.ds[j]) / at.s[j] - at.p[j];
        if (dp < 0.0) far = min(far, -0.995 * at.p[j] / dp);
        if (at.ds[j] < 0.0) wide = min(wide, -0.995 * at.s[j] / at.ds[j]);
    }
    for (Int i = 0; i < at.w.size; ++i) {
        if (at.dw[i] < 0.0) wide = min(wide, -0.995 * at.w[i] / at.dw[i]);
    }
    for (Int j = 0; j < at.p.size; ++j) {
        at.p[j] += far * ((mu - at.p[j] * at.ds[j]) / at.s[j] - at.p[j]);
        at.s[j] += wide * at.ds[j];
    }
    for (Int i = 0; i < at.w.size; ++i) at.w[i] += wide * at.dw[i];
}

// The certificate for p, now the best law found, and a start for Newton's method.
HW_DEVICE inline double begin(const Problem &of, const Room &at) {
    fill(at.p, 1.0 / static_cast<double>(at.p.size));
    const double delta = certify(of, at.p, at.ds);
    copy<double>(at.p, at.best);
    for (Int i = 0; i < at.w.size; ++i) at.w[i] = 0.9 * of.q[i] / (of.f[i] * (1.0 + delta));
    for (Int j = 0; j < at.s.size; ++j) at.s[j] = 1.0 - 0.9 * at.ds[j] / (1.0 + delta);
    return delta;
}

// Fill f and return delta. `room` must be of the problem's shape. Newton's method on the optimality
// conditions w f = q, s = 1 - A'w >= 0, p s = mu with mu falling: about 20 steps of O(m^2 n + m^3).
HW_DEVICE inline double find(const Problem &of, const Room &at) {
    const Int m = of.q.size, n = at.p.size;
    double delta = begin(of, at);
    for (Int step = 0; step < newton_steps && !(delta <= sharp); ++step) {
        double gap = 0.0;
        for (Int j = 0; j < n; ++j) gap += at.p[j] * at.s[j];
        const double mu = 0.1 * gap / static_cast<double>(n);
        if (!direct(of, at, mu)) break;
        move(at, mu);
        const double now = certify(of, at.p, at.ds);
        if (delta < 1e-11 && now > 0.5 * delta) break;  // rounding is all that is left
        if (now < delta) {
            delta = now;
            copy<double>(at.p, at.best);
        }
    }
    double total = 0.0;
    for (const double p : at.best) total += p;
    for (Int i = 0; i < m; ++i) {
        double f = 0.0;
        for (Int j = 0; j < n; ++j) f += of.a(i, j) * (at.best[j] / total);
        of.f[i] = f;
    }
    return max(delta, 2e-16 * static_cast<double>(m));
}

}  // namespace likeliest
}  // namespace HW_BUILD
}  // namespace hw
