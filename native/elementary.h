// Elementary functions of doubles and of packs, from + - * /, square root and bits alone: the same bits on every
// machine and in every lane, which the C libraries do not give. Each result is a large part and a correction,
// added last, so that nearly all of the error is that last rounding. Largest errors seen, in units in the last
// place: log and log1p 0.5001, exp 0.501, expm1 0.518, log_gamma 2.5.
#pragma once
#include "elementary_tables.h"
#include "number.h"

// What an unusual argument needs stays out of the way of the usual ones.
#define HW_RARE HW_DEVICE inline __attribute__((noinline))

namespace hw {
inline namespace HW_BUILD {

inline constexpr double not_a_number = __builtin_nan("");
inline constexpr Long exponent_bits = 0xfff0000000000000ull, one_bits = 0x3ff0000000000000ull;

// The leading 26 binary digits: the product of two such numbers is exact.
template <class N> HW_INLINE N leading(N x) { return from_bits(bits(x) & 0xfffffffff8000000ull); }

// -------------------------------------------------------------------------------------------------------------- logarithms
//
// u = 2^k m with m in [0.671875, 1.34375), cut into sixteen stretches: c is about 1/m, and r = c m - 1 below 1/32
// in size. Then log u = (k log 2 - log c) + r - r^2/2 + r^3 P(r). The bracket, r and r^2/2 are known to twice the
// digits of a double. One stretch lies around 1 and has c = 1, so that nothing cancels where log u is small.

inline constexpr Long log_start = 0x4000000000000000ull - 0x3fe5800000000000ull;  // less the bits of 0.671875, and 2^62
inline constexpr Long log_around_1 = (1024 << 4) + 10;                             // k = 0 in the stretch around 1

// What `log u` is made of: u = 2^k m, which stretch m lies in.
template <class N> struct Scaled {
    N power, mantissa;
    Bits<N> stretch, shift;  // of k and m together; the bits of 2^k less those of 1

    HW_INLINE explicit Scaled(N u) {
        const Bits<N> offset = bits(u) + log_start;
        stretch = offset >> 48;
        shift = (offset & exponent_bits) - 0x4000000000000000ull;
        power = from_bits((offset >> 52) | 0x4330000000000000ull) - (4503599627370496.0 + 1024.0);
        mantissa = from_bits(bits(u) - shift);
    }
};

// log(2^power) + log((1 + r + more)/c), `more` a rounding error of r.
template <class N> HW_INLINE N log_sum(N power, Bits<N> stretch, N r, N more) {
    const N head = power * log_2[0] + look_up_16(log_head, stretch);
    const N tail = power * log_2[1] + look_up_16(log_tail, stretch);
    const N r1 = leading(r), half = 0.5 * r1 * r1;
    const N first = head + r, missed = (head - first) + r;
    const N second = first - half, missed_too = (first - second) - half;
    const N r_2 = r * r, r_4 = r_2 * r_2;
    const double *const p = log_rest;
    const N low = (p[0] + p[1] * r) + (p[2] + p[3] * r) * r_2;
    const N high = (p[4] + p[5] * r) + (p[6] + p[7] * r) * r_2;
    const N rest = r * r_2 * (low + r_4 * (high + p[8] * r_4)) - 0.5 * (r - r1) * (r + r1);
    return second + (((tail + (more - more * r)) + (missed + missed_too)) + rest);
}

// The logarithm of a positive finite u that has all its digits, times 2^-shift.
template <class N> HW_INLINE N log_scaled(N u, double shift_when, Mask<N> shifted) {
    const Scaled<N> s(u);
    const N c = look_up_16(log_inverse, s.stretch);
    const N m1 = from_bits(bits(s.mantissa) & 0xffffffffff800000ull);
    const N much = m1 * c - 1.0, little = (s.mantissa - m1) * c;  // exact: c has 20 digits, m1 30
    const N r = much + little;
    const N power = shift_when == 0.0 ? s.power : s.power - pick(shifted, N(shift_when), N(0.0));
    return log_sum(power, s.stretch, r, little - (r - much));
}

template <class N> HW_RARE N log_unusual(N x) {
    const Mask<N> tiny = x < 2.2250738585072014e-308;
    N out = log_scaled(pick(tiny, x * 18014398509481984.0, x), 54.0, tiny);  // 2^54
    out = pick(x == 0.0, N(-infinity), out);
    out = pick(x < 0.0, N(not_a_number), out);
    return pick(x < infinity, out, x + x);
}

template <class N> HW_INLINE N log_of(N x) {
    const Mask<N> unusual = bits(x) - 0x0010000000000000ull >= Bits<N>(0x7fe0000000000000ull);
    N out = log_scaled(x, 0.0, unusual);
    if (__builtin_expect(any(unusual), 0)) out = pick(unusual, log_unusual(x), out);
    return out;
}

template <class N> HW_RARE N log1p_unusual(N x) {
    N out = log_of(pick(x > 1.0, x, N(1.0)));
    out = pick(x == -1.0, N(-infinity), out);
    out = pick(x < -1.0, N(not_a_number), out);
    return pick(x != x, x + x, out);
}

// log(u + e), where u + e is 1 + x exactly; around 1 without rounding 1 + x.
template <class N> HW_INLINE N log1p_of(N x) {
    const Mask<N> usual = both(x > -1.0, x < 1e300);
    const N u = 1.0 + x, gone = u - 1.0, e = (x - gone) + (1.0 - (u - gone));
    const Scaled<N> s(u);
    const N c = look_up_16(log_inverse, s.stretch);
    const N m1 = from_bits(bits(s.mantissa) & 0xffffffffff800000ull);
    const N much = m1 * c - 1.0;
    const N little = (s.mantissa - m1) * c + e * from_bits(Bits<N>(one_bits) - s.shift) * c;
    const N sum = much + little;
    const Mask<N> near = s.stretch == Bits<N>(log_around_1);
    const N r = pick(near, x, sum), more = pick(near, N(0.0), little - (sum - much));
    N out = pick(x == 0.0, x, log_sum(s.power, s.stretch, r, more));
    if (__builtin_expect(!all(usual), 0)) out = pick(usual, out, log1p_unusual(x));
    return out;
}

// ------------------------------------------------------------------------------------------------------------- exponentials
//
// x = n (log 2)/16 + r with |r| < 0.0217, known to more digits than a double has: e^x = 2^(n/16) (1 + r + r^2 Q(r)). The root
// 2^(i/16) is T1 + T2, r is r1 + r2, so that T1 and T1 r1 are exact.

template <class N> struct Exponent {
    N root1, root2;  // T1, T2
    N r1, rest;      // e^r - 1 in two parts
    Bits<N> shift;   // the bits of 2^k less those of 1, k = floor(n/16)

    HW_INLINE explicit Exponent(N x) {
        const double round = 6755399441055744.0;  // 1.5 2^52
        const N t = x * 23.083120654223414 + round, n = t - round;
        const N about = x - n * power_step[0], off = n * power_step[1];
        const N r = about - off, more = (about - r) - off;
        shift = (bits(t) & ~15ull) << 48;
        root1 = look_up_16(power_head, bits(t));
        root2 = look_up_16(power_tail, bits(t));
        r1 = leading(r);
        const double *const q = power_rest;
        const N r_2 = r * r;
        const N sum = (q[0] + q[1] * r) + r_2 * ((q[2] + q[3] * r) + r_2 * (q[4] + q[5] * r));
        rest = ((r - r1) + more) + r_2 * sum;
    }
    // e^x 2^-k is T1 + T1 r1 + tail().
    HW_INLINE N tail() const { return root2 + (root2 * r1 + (root1 + root2) * rest); }
};

// For the ends of the range: what is below the smallest number with all its digits must be rounded once, on a coarser grid.
template <class N> HW_RARE N exp_unusual(N x) {
    const N z = smaller(larger(x, N(-746.0)), N(710.0));
    const Exponent<N> p(z);
    const N step = p.root1 * p.r1, sum = p.root1 + step, missed = step - (sum - p.root1);
    const N tail = missed + p.tail();
    const N k = number_of((p.shift + 0x8000000000000000ull) >> 52) - 2048.0;
    const N fine = sum + tail;
    const N grid = from_bits(Bits<N>(0x0010000000000000ull) - p.shift);
    const N on = grid + sum, on_grid = (on + ((sum - (on - grid)) + tail)) - grid;
    const Mask<N> coarse = either(k < -1022.0, both(k == -1022.0, fine < 1.0));
    const N k1 = floor(0.5 * k), k2 = k - k1;
    const N scale1 = from_bits((whole_of(k1) + 1023ull) << 52), scale2 = from_bits((whole_of(k2) + 1023ull) << 52);
    return pick(x != x, x + x, pick(coarse, on_grid, fine) * scale1 * scale2);
}

template <class N> HW_INLINE N exp_of(N x) {
    const Mask<N> usual = absolute(x) <= 708.0;
    const Exponent<N> p(x);
    const N step = p.root1 * p.r1, sum = p.root1 + step, missed = step - (sum - p.root1);
    N out = from_bits(bits(sum + (missed + p.tail())) + p.shift);
    if (__builtin_expect(!all(usual), 0)) out = pick(usual, out, exp_unusual(x));
    return out;
}

// e^x - 1 = (2^k T1 - 1) + 2^k T1 r1 + 2^k tail. Below -60 it is -1.
template <class N> HW_INLINE N expm1_of(N x) {
    const Mask<N> large = x > 708.0;
    const N z = larger(x, N(-60.0));
    const Exponent<N> p(z);
    const N scale = from_bits(Bits<N>(one_bits) + p.shift), power = scale * p.root1;
    const N less = power - 1.0, gone = less - power, missed = (power - (less - gone)) + (-1.0 - gone);
    const N step = power * p.r1, sum = less + step, missed_too = step - (sum - less);
    N out = sum + ((missed + missed_too) + scale * p.tail());
    out = pick(x == 0.0, x, out);
    if (__builtin_expect(any(large), 0)) out = pick(large, exp_unusual(x), out);
    return out;
}

HW_DEVICE inline double log(double x) { return log_of(x); }
HW_DEVICE inline double log1p(double x) { return log1p_of(x); }
HW_DEVICE inline double exp(double x) { return exp_of(x); }
HW_DEVICE inline double expm1(double x) { return expm1_of(x); }
#if defined(HW_PACKS)
template <int W> inline Pack<W> log(Pack<W> x) { return log_of(x); }
template <int W> inline Pack<W> log1p(Pack<W> x) { return log1p_of(x); }
template <int W> inline Pack<W> exp(Pack<W> x) { return exp_of(x); }
template <int W> inline Pack<W> expm1(Pack<W> x) { return expm1_of(x); }
#endif

// ------------------------------------------------------------------------------------------------------- gamma and normal

// log gamma of a positive number. Stirling's series from 8 on, below it the recurrence into [1.25, 2.5], around the zero at 2.
HW_DEVICE inline double log_gamma(double x) {
    if (x >= 8.0) {
        const double y = 1.0 / x, z = y * y;
        double series = gamma_far[7];
        for (int i = 6; i >= 0; --i) series = series * z + gamma_far[i];
        return (x - 0.5) * (log(x) - 1.0) + (0.41893853320467274178 + y * series);  // (log 2 pi - 1)/2
    }
    double product = 1.0, z = x;
    for (; z > 2.5; product *= z) z -= 1.0;
    z -= z >= 1.25 ? 2.0 : z >= 0.5 ? 1.0 : 0.0;
    double near = gamma_near[24];
    for (int i = 23; i >= 0; --i) near = near * z + gamma_near[i];
    near *= z;
    return x >= 1.25 ? (x > 2.5 ? near + log(product) : near) : x >= 0.5 ? near - log(x) : near - log1p(x) - log(x);
}

// a[0] x^7 + ... + a[7], from the left.
template <class N> HW_INLINE N horner_7(const double *a, N x) {
    N out = a[0];
    for (int i = 1; i < 8; ++i) out = out * x + a[i];
    return out;
}

// The standard normal quantile of 0 < u < 1: Wichura's AS 241 (PPND16), relative error about 1e-16.
// Inversion rather than Box and Muller's way: one uniform gives one deviate, so an arm's draw depends on nothing else.
template <class N> HW_INLINE N normal_quantile(N u) {
    const N q = u - 0.5;
    const Mask<N> central = absolute(q) <= 0.425;
    N out = 0.0;
    if (any(central)) {
        const N r = 0.180625 - q * q;
        out = q * horner_7(normal_middle, r) / horner_7(normal_middle + 8, r);
    }
    if (!all(central)) {
        const Mask<N> left = q < 0.0;
        const N r = sqrt(-log(pick(left, u, 1.0 - u)));
        const Mask<N> near = r <= 5.0;
        N size = 0.0;
        if (any(near)) size = horner_7(normal_tail, r - 1.6) / horner_7(normal_tail + 8, r - 1.6);
        if (!all(near)) {
            const N far = horner_7(normal_end, r - 5.0) / horner_7(normal_end + 8, r - 5.0);
            size = pick(near, size, far);
        }
        out = pick(central, out, pick(left, -size, size));
    }
    return out;
}

}  // namespace HW_BUILD
}  // namespace hw
