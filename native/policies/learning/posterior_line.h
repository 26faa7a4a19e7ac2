// The density of the posterior along a line q + s d through the chain's point, and whether a place on it lies
// in a slice.
//
// sum w_i log(1 + s r_i) is read from the power sums of r where their remainder's bound decides, from
// logarithms otherwise: the decision is that of the exact sum. Where alpha < 1 the density is infinite at the
// ends of the chord: x, the place between them, is then walked through as y with b = 1 / alpha and x = y^b /
// (y^b + (1 - y)^b), in which the density is bounded.
#pragma once
#include "../../elementary.h"
#include "posterior_geometry.h"
#include "walk_draws.h"

namespace hw {
inline namespace HW_BUILD {
namespace posterior {

inline constexpr double pooled = 0.25;  // relative slopes below this are read from power sums

// x^b, quickly for the exponents of alpha = 1/2.
template <class N> HW_INLINE N power(N x, double b) {
    if (b == 2.0) return x * x;
    return b == 0.5 ? sqrt(x) : exp(b * log(x));
}

// log x within `roughness`, for what need not be known better. x = 2^k m with m between sqrt(1/2) and
// sqrt(2).
inline constexpr double roughness = 5e-8;
template <class N> HW_INLINE N rough_log(N x) {
    const Bits<N> offset = bits(x) + (0x4000000000000000ull - 0x3fe6a09e667f3bcdull);
    const N k = from_bits((offset >> 52) | 0x4330000000000000ull) - (4503599627370496.0 + 1024.0);
    const N t = from_bits(bits(x) - ((offset & 0xfff0000000000000ull) - 0x4000000000000000ull)) - 1.0;
    const N t2 = t * t, t4 = t2 * t2;
    const N low = (0.9999998139 - 0.500006674 * t) + (0.3333618204 - 0.2495934354 * t) * t2;
    const N high = (0.1987304587 - 0.1733346804 * t) + (0.1641999517 - 0.1010223482 * t) * t2;
    return k * 0.6931471805599453 + t * (low + high * t4);
}

template <class N> HW_INLINE double sum_of(N x) {
    if constexpr (lanes<N> == 4) return (lane(x, 0) + lane(x, 2)) + (lane(x, 1) + lane(x, 3));
    double out = lane(x, 0);
    for (int i = 1; i < lanes<N>; ++i) out += lane(x, i);
    return out;
}
template <class N> HW_INLINE double largest_of(N x) {
    if constexpr (lanes<N> == 4)
        return larger(larger(lane(x, 0), lane(x, 2)), larger(lane(x, 1), lane(x, 3)));
    double out = lane(x, 0);
    for (int i = 1; i < lanes<N>; ++i) out = larger(out, lane(x, i));
    return out;
}

template <class N> HW_INLINE double smallest_of(N x) {
    if constexpr (lanes<N> == 4)
        return smaller(smaller(lane(x, 0), lane(x, 2)), smaller(lane(x, 1), lane(x, 3)));
    double out = lane(x, 0);
    for (int i = 1; i < lanes<N>; ++i) out = smaller(out, lane(x, i));
    return out;
}

// Which of n numbers is the first equal to x. One of them is.
HW_INLINE Int first_of(const double *of, Int n, double x) {
    const Many wanted = x;
    if (n <= 64) {
        Long found = 1ull << 63;
        for (Int i = 0; i < n; i += many) found |= Long{which(load<Many>(of + i) == wanted)} << i;
        return __builtin_ctzll(found);
    }
    Int i = 0;
    while (i < n - 1 && of[i] != x) ++i;
    return i;
}

// A direction through the chain's point.
struct Line {
    const double *d, *slope;  // how the groups' masses move, and the rows' values
};

// The ends of a line's chord, s from `low` to `high`, and the groups that vanish there. The density is
// infinite at an end where the group's exponent a is below 1.
struct Chord {
    double low, high, length, a_low, a_high;
    Int g_low, g_high;
    bool spiky;
};

// A mass that falls with s vanishes at an s above 0, one that rises at one below 0. Of groups that vanish
// together the first counts.
HW_INLINE Chord chord_of(const PosteriorGeometry &geometry, const Line &line) {
    const double *const q = geometry.chain.q.data, *const d = line.d;
    double *const ratio = geometry.chain.ratio.data, *const gone = geometry.chain.gone.data;
    const Int groups = geometry.groups;
    const Many zero = 0.0, none = infinity;
    Many low = -infinity, high = infinity;
    for (Int g = 0; g < groups; g += many) {
        const Many mass = load<Many>(q + g), step = load<Many>(d + g), s = -mass / step;
        store(gone + g, s);
        store(ratio + g, step / mass);
        low = larger(low, pick(s < zero, s, -none));
        high = smaller(high, pick(s > zero, s, none));
    }
    Chord out;
    out.low = largest_of(low);
    out.high = smallest_of(high);
    out.length = out.high - out.low;
    out.g_low = first_of(gone, groups, out.low);
    out.g_high = first_of(gone, groups, out.high);
    out.a_low = geometry.prior[out.g_low];
    out.a_high = geometry.prior[out.g_high];
    out.spiky = (out.a_low < 1.0) | (out.a_high < 1.0);
    return out;
}

// The place x on a spiky chord as y: x = y^b / (y^b + (1 - y)^b).
struct Spike {
    double b, a_low, a_high;
    bool plain;  // both ends are alike, and the density in y is 1 over y^b + (1 - y)^b

    HW_INLINE explicit Spike(const Chord &chord)
        : b(1.0 / min(chord.a_low, chord.a_high)), a_low(chord.a_low), a_high(chord.a_high),
          plain((a_low == 0.5) & (a_high == 0.5)) {}

    template <class N> struct Place {
        N x, rest, sum;  // x, 1 - x, y^b + (1 - y)^b
    };
    template <class N> HW_INLINE Place<N> at(N y) const {
        const N low = power(y, b), high = power(1.0 - y, b), sum = low + high;
        return {low / sum, high / sum, sum};
    }
    // The logarithm of x^(a_low - 1) (1 - x)^(a_high - 1) dx/dy, by a logarithm of one's choice.
    template <class N, class Log> HW_INLINE N value(N y, N sum, Log log_by) const {
        N out = -(a_low + a_high) * log_by(sum);
        if (a_low * b != 1.0) out += (a_low * b - 1.0) * log_by(y);
        if (a_high * b != 1.0) out += (a_high * b - 1.0) * log_by(1.0 - y);
        return out;
    }
    HW_INLINE double weight() const {
        return a_low + a_high + absolute(a_low * b - 1.0) + absolute(a_high * b - 1.0);
    }

    // The y of an x, `rest` being 1 - x; kept off the ends.
    template <class N> HW_INLINE N y_of(N x, N rest) const {
        const N low = power(x, 1.0 / b), high = power(rest, 1.0 / b);
        return smaller(larger(low / (low + high), N(smallest)), N(1.0 - 0x1p-53));
    }
};

// sum w log(1 + s r) over the terms of a line: the power sums of the small r, and the others, `steep`, one by
// one.
struct Rise {
    double m1, m2, m3, m4, m5, bound, steepest;
    double heavy = 0.0;  // the weights of the steep ones, signs aside
    Int steep = 0;
};

// The same of some terms side by side, as it is summed up.
struct RiseSum {
    Many m1 = 0.0, m2 = 0.0, m3 = 0.0, m4 = 0.0, m5 = 0.0, bound = 0.0, steepest = 0.0;
    Mask<Many> steep = from_bool<Many>(false);

    // Terms of slope over value r and weight w; none where r is 0.
    HW_INLINE void add(Many r, Many w) {
        const Many size = absolute(r);
        const Mask<Many> large = size >= pooled;
        const Many x = pick(large, Many(0.0), r);
        Many y = w * x;
        m1 += y;
        y *= x;
        m2 += y;
        y *= x;
        m3 += y;
        y *= x;
        m4 += y;
        y *= x;
        m5 += y;
        bound += absolute(y * x);
        steepest = larger(steepest, absolute(x));
        steep = either(steep, large);
    }
    HW_INLINE Rise total() const {
        Rise out;
        out.m1 = sum_of(m1);
        out.m2 = sum_of(m2) * (-1.0 / 2.0);
        out.m3 = sum_of(m3) * (1.0 / 3.0);
        out.m4 = sum_of(m4) * (-1.0 / 4.0);
        out.m5 = sum_of(m5) * (1.0 / 5.0);
        out.bound = sum_of(bound) * (1.0 / 6.0);
        out.steepest = largest_of(steepest);
        return out;
    }
};

// The terms that rise steeply.
HW_INLINE void find_steep(const PosteriorGeometry &geometry, const Line &line, const Chord &chord,
                          Rise &out) {
    const ChainRoom &chain = geometry.chain;
    const auto keep = [&](double r, double w) {
        if (absolute(r) < pooled) return;
        chain.steep[out.steep] = r;
        chain.heavy[out.steep++] = w;
        out.heavy += absolute(w);
    };
    for (Int i = 0; i < geometry.rows; ++i) keep(line.slope[i] / chain.z[i], chain.w[i]);
    for (Int g = 0; g < geometry.weighed; ++g) {
        const bool end = chord.spiky & ((g == chord.g_low) | (g == chord.g_high));
        if (!end && chain.exponent[g] != 0.0) keep(chain.ratio[g], chain.exponent[g]);
    }
}

// The groups at the ends of a spiky chord are none of the sum: their part is the spike's.
HW_INLINE Rise rise_along(const PosteriorGeometry &geometry, const Line &line, const Chord &chord) {
    const ChainRoom &chain = geometry.chain;
    const double *const z = chain.z.data, *const w = chain.w.data, *const slope = line.slope;
    const double *const ratio = chain.ratio.data, *const exponent = chain.exponent.data;
    const double *const number = geometry.number.data;
    const Int rows = geometry.rows, groups = geometry.weighed;
    RiseSum sum;
    for (Int i = 0; i < rows; i += many) {
        const Many r = load<Many>(slope + i) / load<Many>(z + i);
        sum.add(r, load<Many>(w + i));
    }
    const Many low = chord.spiky ? static_cast<double>(chord.g_low) : -1.0;
    const Many high = chord.spiky ? static_cast<double>(chord.g_high) : -1.0;
    for (Int g = 0; g < groups; g += many) {
        const Many which_one = load<Many>(number + g), weight = load<Many>(exponent + g);
        sum.add(pick(either(which_one == low, which_one == high), Many(0.0), load<Many>(ratio + g)), weight);
    }
    Rise out = sum.total();
    if (any(sum.steep)) find_steep(geometry, line, chord, out);
    return out;
}

// One try: the place s on the line, and where on a spiky chord.
template <class N> struct Try {
    N s, x, rest, sum;
};
template <class N> HW_INLINE Try<N> try_at(const Chord &chord, const Spike &spike, N y) {
    if (!chord.spiky) return {y, y, y, y};
    const Spike::Place<N> place = spike.at(y);
    const N from_low = chord.low + chord.length * place.x, from_high = chord.high - chord.length * place.rest;
    const N s = pick(place.x < 0.5, from_low, from_high);
    return {s, place.x, place.rest, place.sum};
}

// Whether a try lies in the slice, decided as exactly as doubles can: below the same level, by the same sums
// in the same order, whatever the rough decision was made of. For the few tries that it leaves open.
HW_COLD bool inside_exactly(const PosteriorGeometry &geometry, const Line &line, const Chord &chord,
                            double draw, double now, double y) {
    const ChainRoom &chain = geometry.chain;
    const Spike spike(chord);
    const auto exact = [](double x) { return log(x); };
    const Try<double> at = try_at(chord, spike, y);
    double level = log(draw), value = 0.0;
    if (chord.spiky) {
        level += spike.value(now, spike.at(now).sum, exact);
        value = spike.value(y, at.sum, exact);
    }
    double m[6] = {}, steepest = 0.0;
    const auto each = [&](auto visit) {
        for (Int i = 0; i < geometry.rows; ++i) visit(line.slope[i] / chain.z[i], chain.w[i]);
        for (Int g = 0; g < geometry.groups; ++g) {
            const bool end = chord.spiky & ((g == chord.g_low) | (g == chord.g_high));
            if (!end && chain.exponent[g] != 0.0) visit(line.d[g] / chain.q[g], chain.exponent[g]);
        }
    };
    each([&](double r, double w) {
        if (absolute(r) < pooled) {
            double y_k = w;
            for (Int k = 0; k < 5; ++k) {
                y_k *= r;
                m[k] += y_k;
            }
            m[5] += absolute(y_k * r);
            steepest = max(steepest, absolute(r));
        } else {
            value += w * log(max(1.0 + at.s * r, smallest));
        }
    });
    const double s = at.s, s2 = s * s, reach = absolute(s) * steepest;
    const double m2 = m[1] * (-1.0 / 2.0), m3 = m[2] * (1.0 / 3.0);
    const double m4 = m[3] * (-1.0 / 4.0), m5 = m[4] * (1.0 / 5.0);
    const double about = value + s * (m[0] + s * (m2 + s * (m3 + s * (m4 + s * m5))));
    const double margin = (1.0 - reach) * absolute(about - level) - m[5] * (1.0 / 6.0) * s2 * s2 * s2;
    if (margin > 0.0 && reach < 1.0) return about > level;
    each([&](double r, double w) {
        if (absolute(r) < pooled) value += w * log(max(1.0 + s * r, smallest));
    });
    return value > level;
}

// How far a try lies above the level, from rough logarithms of all terms; `above`: how far the spike's does.
HW_INLINE double rough_gap(const PosteriorGeometry &geometry, const Line &line, const Chord &chord, double s,
                           double above) {
    const ChainRoom &chain = geometry.chain;
    const Many g_low = chord.spiky ? static_cast<double>(chord.g_low) : -1.0;
    const Many g_high = chord.spiky ? static_cast<double>(chord.g_high) : -1.0;
    Many out = 0.0;
    for (Int i = 0; i < geometry.rows; i += many) {
        const Many r = load<Many>(line.slope + i) / load<Many>(chain.z.data + i);
        out += load<Many>(chain.w.data + i) * rough_log(larger(1.0 + s * r, Many(smallest)));
    }
    for (Int g = 0; g < geometry.groups; g += many) {
        const Many number = load<Many>(geometry.number.data + g);
        const Mask<Many> end = either(number == g_low, number == g_high);
        const Many w = pick(end, Many(0.0), load<Many>(chain.exponent.data + g));
        const Many r = load<Many>(line.d + g) / load<Many>(chain.q.data + g);
        out += w * rough_log(larger(1.0 + s * r, Many(smallest)));
    }
    return above + sum_of(out);
}

// The slice: what lies above the level that a number `draw` sets, where the chain is `now`, known roughly.
struct Slice {
    double draw, now, level, error;
    double factor;  // of a plain spike, whose level is the logarithm of this instead

    HW_INLINE Slice(const ChainRoom &chain, const Chord &chord, const Spike &spike, const Rise &rise, double by,
                    double at)
        : draw(by), now(at) {
        error = roughness * (1.0 + rise.heavy) + 1e-12 * chain.weight;  // the second part for rounding
        if (chord.spiky & spike.plain) {
            factor = draw / spike.at(now).sum;
            level = 0.0;
            return;
        }
        factor = 1.0;
        level = rough_log(draw);
        if (!chord.spiky) return;
        level += spike.value(now, spike.at(now).sum, [](double x) { return rough_log(x); });
        error += roughness * 2.0 * spike.weight();
    }
    // The spike's part of a try's height.
    template <class N> HW_INLINE N height(const Chord &chord, const Spike &spike, N y, N sum) const {
        if (!chord.spiky) return 0.0;
        if (spike.plain) return -rough_log(factor * sum);
        return spike.value(y, sum, [](N x) { return rough_log(x); });
    }
    // Whether a try that was left open lies inside.
    HW_DEVICE __attribute__((noinline)) bool settle(const PosteriorGeometry &geometry, const Line &line,
                                                    const Chord &chord, double y) const {
        const Spike spike(chord);
        const Try<double> at = try_at(chord, spike, y);
        const double value = height(chord, spike, y, at.sum);
        const double gap = rough_gap(geometry, line, chord, at.s, value - level);
        if (absolute(gap) > error + roughness * geometry.chain.weight) return gap > 0.0;
        return inside_exactly(geometry, line, chord, draw, now, y);
    }
    // Which tries lie inside, in the low bits, and of which that is not decided, in the bits from `few` on.
    HW_INLINE Word judge(const ChainRoom &chain, const Chord &chord, const Spike &spike, const Rise &rise,
                         Few y, const Try<Few> &at) const {
        const Few s = at.s;
        Few value = height(chord, spike, y, at.sum);
        for (Int e = 0; e < rise.steep; ++e)
            value += chain.heavy[e] * rough_log(larger(1.0 + s * chain.steep[e], Few(smallest)));
        const Few s2 = s * s, s4 = s2 * s2, reach = absolute(s) * rise.steepest;
        const Few near = (value - level) + s * rise.m1;
        const Few gap = near + (s2 * (rise.m2 + s * rise.m3) + s4 * (rise.m4 + s * rise.m5));
        const Few missed = error + rise.bound * (s2 * s4);  // times 1 - reach, at most
        const Mask<Few> decided = both(absolute(gap) * (1.0 - reach) > missed, reach < 1.0);
        return which(gap > 0.0) | which(opposite(decided)) << few;
    }
};

// The chain goes to the place s of a line.
HW_INLINE void go(const PosteriorGeometry &geometry, const Line &line, const Chord &chord, double s, double x,
                  double rest) {
    double *const q = geometry.chain.q.data, *const z = geometry.chain.z.data;
    const double *const d = line.d, *const slope = line.slope, *const number = geometry.number.data;
    const Int groups = geometry.groups, rows = geometry.rows;
    const Many at = s, least = smallest;
    const Many low = chord.spiky ? static_cast<double>(chord.g_low) : -1.0;
    const Many high = chord.spiky ? static_cast<double>(chord.g_high) : -1.0;
    const Many q_low = max(d[chord.g_low] * chord.length * x, smallest);
    const Many q_high = max(-d[chord.g_high] * chord.length * rest, smallest);
    for (Int g = 0; g < groups; g += many) {
        const Many which_one = load<Many>(number + g);
        const Many moved = larger(load<Many>(q + g) + at * load<Many>(d + g), least);
        store(q + g, pick(which_one == low, q_low, pick(which_one == high, q_high, moved)));
    }
    for (Int i = 0; i < rows; i += many)
        store(z + i, larger(load<Many>(z + i) + at * load<Many>(slope + i), least));
}

}  // namespace posterior
}  // namespace HW_BUILD
}  // namespace hw
