// What an arm pays in the rounds to come, known in number but not in order, and how far its running total may fall behind.
//
// A stretch of m rounds of one arm has its rewards drawn, so many of each level; what is unknown is their order. After i
// rewards of average a the total is a i - D_i more than before. It stays above a line that is x_0 below it now and x_1 below it
// at the end while D_i < x_0 + (x_1 - x_0) i/m. No order takes D_i above sum (a - y)+: the smallest rewards y first. And almost
// no order takes it across the line, since for any theta, lambda > 0
//
//     P{D_i >= x_0 + (x_1 - x_0) i/m for some i} <= 2 C e^-E,
//     E = min{(theta + lambda) x_0 - m log (1/m sum e^(theta (y - a))),
//             (theta + lambda) x_1 - m log (1/m sum e^(lambda (a - y)))}.
//
// Proof. A random order is that of independent draws from the stretch's own frequencies p, given that their numbers come out as
// p says. So a first crossing at i <= m/2 has the chance it has among independent draws, times that of what is left after it,
// over that of everything. The first is at most e^(-lambda D_i + i kappa(lambda)), kappa the second logarithm in E over m,
// summed over all i, because e^(lambda D_i - i kappa(lambda)) is a martingale. The rewards left are above average by D_i in
// all: tilted by e^(theta y) their chance is e^(-theta D_i + (m - i) kappa'(theta)) times that of the same numbers under the
// tilted frequencies q. The product of the exponentials is linear in i where D_i is on the line, so at most e^-E. C is what is
// left: no set of m - i >= m/2 draws has a chance above e^(1/6m) sqrt(2 pi (m - i)) prod (2 e (m - i) q_k)^(-1/2) (Poisson
// numbers given their sum; no Poisson number has a chance above (2 e mu)^(-1/2)), and that of everything is at least sqrt(2 pi
// m) prod e^(-1/12) (2 pi m p_k)^(-1/2), k over the levels drawn. Later crossings are early ones from the other end, which
// exchanges the two sums. With theta = 2 x_0 / m s^2, lambda = 2 x_1 / m s^2 and normal rewards, E would be 2 x_0 x_1 / m s^2,
// which is Brownian motion's.
#pragma once
#include "../elementary.h"
#include "../model.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr Int many_rewards = 64;      // from which on it helps to know that some order is unlikely
inline constexpr double tilt_room = 1.3;     // the exponent tried over what is needed, at most: too strong tilts waste it
inline constexpr double log_twice = 0.34657359027997264;  // log 2 / 2
inline constexpr double log_a_kind = 0.502271866538006;   // log(2 pi / e) / 2 + 1/12

// The rewards of an arm in the next m rounds, `drawn[i]` times its i-th level, whose row of the table is `row(i, ·)`: by how
// much it exceeds every other arm's pseudo-reward, then the reward.
struct Stretch {
    Int m = 0;
    KnownInts drawn;
    Grid<const Int> row;
    double most = infinity;  // no entry of the table is larger in size
    double sure = infinity;  // what happens with a chance of at most exp(-sure) counts as impossible

    // What is drawn of one column, in all. O(M).
    HW_INLINE Int gain(Int column) const {
        Int out = 0;
        for (Int i = 0; i < drawn.size; ++i) out += drawn[i] * row(i, column);
        return out;
    }
    HW_INLINE Int reward() const { return gain(row.columns - 1); }
};

HW_DEVICE inline double largest_entry(const Rewards &rewards) {
    Int out = 0;
    for (Int i = 0; i < rewards.table.size(); ++i) out = max(out, max(rewards.table.data[i], -rewards.table.data[i]));
    return static_cast<double>(out);
}

// One column of a stretch, its m rewards y of average a: how many levels there are; `low`, the sum of the (a - y)+; and that of
// the (y - a)^2. O(M).
struct Spread {
    Int m = 0, column = 0;
    double share = 0.0;  // 1/m
    double average = 0.0, kinds = 0.0, low = 0.0, squares = 0.0;

    HW_INLINE Spread(const Stretch &stretch, Int column, Int gain)
        : m(stretch.m), column(column), share(1.0 / static_cast<double>(m)), average(static_cast<double>(gain) * share) {
        for (Int i = 0; i < stretch.drawn.size; ++i) {
            const double times = static_cast<double>(stretch.drawn[i]);
            const double x = static_cast<double>(stretch.row(i, column)) - average, part = times * x;
            kinds += times > 0.0 ? 1.0 : 0.0;
            low -= min(part, 0.0);
            squares += part * x;
        }
    }
    // The part of log 2C that does not depend on the tilts.
    HW_INLINE double constant() const { return log_twice + kinds * log_a_kind + share / 6.0; }
    // How far below the straight line a line must be, both ends multiplied, that normal rewards would surely not cross.
    HW_INLINE double scale(double sure) const { return 0.5 * squares * (sure + constant()); }
};

// An L such that the running total crosses a line, `start` and `end` below the straight one, with a chance of at most exp(-L).
HW_DEVICE inline double doubt(const Stretch &stretch, const Spread &s, double start, double end) {
    // the sum of y - a over levels, its largest and least, and two more moments
    double lean = 0.0, above = 0.0, below = 0.0, third = 0.0, fourth = 0.0;
    for (Int i = 0; i < stretch.drawn.size; ++i) {
        if (stretch.drawn[i] <= 0) continue;
        const double x = static_cast<double>(stretch.row(i, s.column)) - s.average;
        const double part = static_cast<double>(stretch.drawn[i]) * x * x;
        above = max(above, x);
        below = max(below, -x);
        lean += x;
        third += part * x;
        fourth += part * x * x;
    }
    const double m = static_cast<double>(s.m), theta = 2.0 * start / s.squares, tilt = 2.0 * end / s.squares;
    const double second = s.squares * s.share;
    third *= s.share;
    fourth *= s.share;
    // exp(x) <= 1 + x + x^2/2 + x^3/6 + x^4/24 exp(max(x, 0)), and log(1 + u) <= u - u^2/2 + u^3/3
    double u = theta * theta * (second / 2.0 + theta * (third / 6.0 + theta * fourth / 24.0 * exp(theta * above)));
    double v = tilt * tilt * (second / 2.0 - tilt * (third / 6.0 - tilt * fourth / 24.0 * exp(tilt * below)));
    u = u * (1.0 - u * (0.5 - u / 3.0));
    v = v * (1.0 - v * (0.5 - v / 3.0));
    const double least = min((theta + tilt) * start - m * u, (theta + tilt) * end - m * v);
    const double uneven = 0.5 * max(s.kinds * u - theta * lean, s.kinds * v + tilt * lean);
    return least - uneven - s.constant();
}

// Whether the running total stays above such a line, for certain or but for a chance of exp(-sure).
HW_DEVICE inline bool keeps(const Stretch &stretch, const Spread &s, double start, double end) {
    double least = min(start, end);
    if (!(least > 0.0) || s.low < least) return least > 0.0;
    if (s.m < many_rewards) return false;
    double scale = s.scale(stretch.sure);
    if (!(start * end > scale)) return false;
    scale *= tilt_room;
    least = min(least, sqrt(scale));
    const double most = scale / least;
    return doubt(stretch, s, min(start, most), min(end, most)) >= stretch.sure;
}

// How far below the straight line the running total may fall, at best: no less than that can be said.
HW_DEVICE inline double strays_at_best(const Stretch &stretch, const Spread &s) {
    return s.m < many_rewards ? s.low : min(s.low, sqrt(tilt_room * s.scale(stretch.sure)));
}
// How far it may fall, for certain or but for a chance of exp(-sure).
HW_DEVICE inline double strays(const Stretch &stretch, const Spread &s) {
    const double far = strays_at_best(stretch, s);
    return far < s.low && doubt(stretch, s, far, far) >= stretch.sure ? far : s.low;
}

// Whether the sum that excludes arm ell, `against` now, stays positive. O(M), mostly O(1).
HW_DEVICE inline bool keeps_excluded(const Stretch &stretch, Int ell, Int against) {
    if (against <= 0) return false;
    if (static_cast<double>(against) > static_cast<double>(stretch.m) * stretch.most) return true;
    const Int gain = stretch.gain(ell);
    if (against + gain <= 0) return false;
    return keeps(stretch, Spread(stretch, ell, gain), static_cast<double>(against), static_cast<double>(against + gain));
}

}  // namespace HW_BUILD
}  // namespace hw
