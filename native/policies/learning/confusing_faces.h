// Where an arm draws level with the best: laws that the best arms cannot tell from p, and an interior one
// among them.
//
// The geometry under exploration_rates.h: which equations are independent, and whether a face has an
// inside. Equation i is column i of a table (J, w); a law q meets it where its product with q is 0.
#pragma once
#include "columns.h"

namespace hw {
inline namespace HW_BUILD {

// An arm that can lead by no more than this part of the largest difference asks for nothing.
inline constexpr double LEAD = 1e-7;
// A row whose remainder is a smaller part of it than this depends on the others.
inline constexpr double DEPENDENT = 1e-13;

// Room for one face's Newton step, with m equations of J unknowns: all that does not outlive the step.
struct FaceRoom {
    Table unit;         // (J, w) the equations relative to a law, each of length 1
    Table within;       // (J, w) the same seen through the curvature
    Doubles length;     // (w,) of the equations
    Triangle gram;      // (J, J) of the equations
    Triangle curved;    // (J, J) the curvature
    Doubles pull, step, last, multiplier;  // (J,) of an ascent: gradient, step, where it began, multipliers

    HW_DEVICE void lay(Arena &arena, Int points) {
        lay_tables(arena, points, padded(points), unit, within);
        lay_each(arena, padded(points), length);
        gram.lay(arena, points);
        curved.lay(arena, points);
        lay_each(arena, points, pull, step, last, multiplier);
    }
    // Of the room for equations, what those of this width need.
    HW_DEVICE void narrow(Int width) { unit.columns = within.columns = gram.a.columns = width; }
};

// a[x] - a.p without cancellation: where a[x] is the value of nearly all of p, what is left is exact.
HW_DEVICE inline double excess(Doubles a, Doubles p, Int x) {
    double total = 0.0;
    for (Int y = 0; y < p.size; ++y) total += (a[x] - a[y]) * p[y];
    return total;
}

// Fill columns of `equations` with independent ones among the rows A_i - (A p)_i 1 and say how many: at
// most J - 1.
//
// Chosen by the largest remainder (Gram-Schmidt with pivoting) relative to p, as steps are, and kept as
// they are: of rows that depend on each other, those of tiny probability must stay, clean of the others.
// `known` (B, J) holds the rows A_i and is overwritten; `spare` (B, J) and `size` (B,) are scratch. O(B
// J^2).
HW_DEVICE inline Int independent(Table known, Doubles p, Table spare, Doubles size, Table equations) {
    const Int n = known.rows, points = p.size;
    for (Int i = 0; i < n; ++i) {
        const Doubles row = known[i], rest = spare[i];
        for (Int x = 0; x < points; ++x) rest[x] = excess(row, p, x);
        for (Int x = 0; x < points; ++x) {
            row[x] = rest[x];
            rest[x] *= p[x];
        }
        size[i] = sqrt(dot(rest, rest, points));
        if (size[i] > 0.0) {
            for (double &value : rest) value /= size[i];
            size[i] = 1.0;
        }
    }
    Int count = 0;
    while (count < points - 1 && n > 0) {
        Int at = 0;
        for (Int i = 1; i < n; ++i)
            if (size[i] > size[at]) at = i;
        if (size[at] < DEPENDENT) break;
        for (Int x = 0; x < points; ++x) equations(x, count) = known(at, x);
        ++count;
        const Doubles chosen = spare[at];
        for (double &value : chosen) value /= size[at];
        size[at] = 0.0;
        for (Int i = 0; i < n; ++i) {
            if (!(size[i] >= DEPENDENT)) continue;
            const Doubles rest = spare[i];
            const double along = dot(rest, chosen, points);
            for (Int x = 0; x < points; ++x) rest[x] -= along * chosen[x];
            size[i] = sqrt(dot(rest, rest, points));
        }
    }
    return count;
}

// `unit` becomes the equations times q, each of length 1; `length` keeps the lengths. O(J w).
HW_DEVICE inline void scale(Table equations, Doubles q, Table unit, Doubles length) {
    for (Int c = 0; c < equations.columns; c += GROUP) {
        ColumnStretch square;
        for (Int x = 0; x < q.size; ++x) {
            ColumnStretch row(&equations(x, c));
            row.scale(q[x]);
            row.put(&unit(x, c));
            for (Int i = 0; i < GROUP; ++i) square.at[i] += row.at[i] * row.at[i];
        }
        double inverse[GROUP];
        for (Int i = 0; i < GROUP; ++i) {
            length[c + i] = max(sqrt(square.at[i]), 1e-300);
            inverse[i] = 1.0 / length[c + i];
        }
        for (Int x = 0; x < q.size; ++x)
            for (Int i = 0; i < GROUP; ++i) unit(x, c + i) *= inverse[i];
    }
}

// The logarithm of a product of (1 + x): one logarithm for eight factors, none of which is so small or so
// large that eight of them would leave the range of numbers.
class LogOfProduct {
  public:
    HW_INLINE void times(double factor) {
        product_ *= factor;
        if (++factors_ == 8) settle();
    }
    HW_INLINE double value() {
        settle();
        return sum_;
    }

  private:
    HW_INLINE void settle() {
        sum_ += log(product_);
        product_ = 1.0;
        factors_ = 0;
    }
    double sum_ = 0.0, product_ = 1.0;
    int factors_ = 0;
};

// Finds an interior law that meets the equations and h.q = 0. See `reach`.
struct Reach {
    Table equations;  // (J, w) the first `count` columns; the next is overwritten
    Int count;
    Doubles h;  // (J,)
    Doubles q;  // (J,) the law

    // What t h.q + sum log q gains with q (1 + step d).
    HW_DEVICE double gain(Doubles d, double t, double step) const {
        double linear = 0.0;
        LogOfProduct barrier;
        for (Int x = 0; x < q.size; ++x) {
            linear += h[x] * q[x] * d[x];
            barrier.times(1.0 + step * d[x]);
        }
        return t * step * linear + barrier.value();
    }

    // Newton's step, relative to q, for t h.q + sum log q. Returns what it promises; `bound`: what h.q is
    // at most on the face.
    HW_DEVICE double direct(const FaceRoom &room, double t, double &bound) const {
        const Int n = q.size, m = count + 1;
        const Doubles d = room.step, pull = room.pull, multiplier = room.multiplier;
        scale(equations, q, room.unit, room.length);
        for (Int x = 0; x < n; ++x) pull[x] = t * h[x] * q[x] + 1.0;
        for (Int i = 0; i < m; ++i) {
            double total = 0.0;  // d also removes what rounding has left of q's product with the equations
            for (Int x = 0; x < n; ++x) total += room.unit(x, i) * (i < count ? pull[x] + 1.0 : pull[x]);
            multiplier[i] = total;
        }
        square(room.unit, m, room.gram.a);
        factor(room.gram, m);
        solve(room.gram, m, multiplier);
        bound = -infinity;
        double down = 0.0;
        for (Int x = 0; x < n; ++x) {
            const double held = dot(room.unit[x], multiplier, count);
            d[x] = pull[x] - held - room.unit(x, count) * multiplier[count];
            bound = max(bound, h[x] - held / (q[x] * t));
            down += d[x] * pull[x];
        }
        return down;
    }
};

// Find an interior law q that meets the equations and has h.q = 0, from p, where h is below; false if there
// is none.
//
// Follows the central path of max h.q until h.q is positive or its upper bound max_j (h - E' lambda)_j
// shows that it stays at LEAD or below. O(J m^2 + m^3) a step, few steps where there is one.
HW_DEVICE inline bool reach(const Reach &face, Doubles p, const FaceRoom &room) {
    constexpr Int STEPS = 200;
    const Int n = p.size;
    const Doubles h = face.h, q = face.q, d = room.step, last = room.last;
    for (Int x = 0; x < n; ++x) face.equations(x, face.count) = 1.0;  // the mass
    copy<double>(p, q);
    double t = static_cast<double>(n) / max(-dot(h, p, n), 1e-3);
    for (Int turn = 0; turn < STEPS; ++turn) {
        double bound;
        const double down = face.direct(room, t, bound);
        if (bound <= LEAD) return false;
        double shrink = 0.0;
        for (const double each : d) shrink = max(shrink, -each);
        const double most = 0.95 / max(shrink, 1e-300);
        double step = min(1.0, most), gain = face.gain(d, t, step);
        while (gain < 0.1 * step * down && step > 1e-12) {
            step *= 0.5;
            gain = face.gain(d, t, step);
        }
        while (1.0 <= 4.0 * step && 4.0 * step < most) {
            const double further = face.gain(d, t, 4.0 * step);
            if (!(further > gain + 0.1)) break;
            step *= 4.0;
            gain = further;
        }
        copy<double>(q, last);
        const double before = dot(h, q, n);
        double after = 0.0;
        for (Int x = 0; x < n; ++x) {
            q[x] *= 1.0 + step * d[x];
            after += h[x] * q[x];
        }
        if (after > LEAD) {
            const double part = -before / (after - before);
            for (Int x = 0; x < n; ++x) q[x] = last[x] + part * (q[x] - last[x]);
            return true;
        }
        if (down < 0.3 || turn % 12 == 11) {
            if (static_cast<double>(n) / t < 0.01 * LEAD) return false;
            t *= 8.0;
        }
    }
    return false;
}

}  // namespace HW_BUILD
}  // namespace hw
