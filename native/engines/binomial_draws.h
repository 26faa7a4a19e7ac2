// How many of n draws are of each kind, for n up to 10^12, from a counter-based stream of uniforms.
//
// Binomial (with replacement) and hypergeometric (without) numbers. Where they spread little, by inversion from the mode; else
// by the ratio of uniforms (Stadlober 1990): x = floor(a + h (v - 1/2) / u) is taken if u^2 is at most the probability of x
// over that of the mode. Probabilities come from Loader's saddle-point form: differences of large logarithms of factorials
// would lose all digits from n = 10^9 on; its deviances do not.
#pragma once
#include "../state.h"

namespace hw {
inline namespace HW_BUILD {

// Variance up to which inversion from the mode, a few steps of a recurrence, beats rejection.
inline constexpr double narrow_variance = 36.0;
inline constexpr double half_log_2_pi = 0.9189385332046727;
// Populations below this take their chances from a table of n!, and are inverted: they spread little.
inline constexpr Int small_population = 2048;

// log n! less Stirling's formula, n = 0, 1, ..., 15; the entry of 0 is not used.
HW_TABLE stirling_near[16] = {
    0.0, 0.08106146679532726, 0.0413406959554093, 0.02767792568499834,
    0.020790672103765093, 0.016644691189821193, 0.013876128823070748, 0.01189670994589177,
    0.010411265261972096, 0.009255462182712733, 0.00833056343336287, 0.007573675487951841,
    0.00694284010720953, 0.006408994188004207, 0.0059513701127588475, 0.005554733551962801
};
HW_DEVICE inline double stirling_error(double n) {
    if (n < 16.0) return stirling_near[static_cast<Int>(n)];
    const double r = 1.0 / n, s = r * r;
    return r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0)))));
}

// x log(x/m) + m - x, without cancellation where x is near m.
HW_DEVICE inline double deviance(double x, double m) {
    const double d = x - m, v = d / (x + m);
    if (absolute(v) < 0.03) {
        const double s = v * v;
        return d * v + 2.0 * x * v * s * (1.0 / 3.0 + s * (0.2 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0))));
    }
    return x * log(x / m) + m - x;
}

// Four numbers at once, in as few registers as hold them.
struct Cells {
    static constexpr Int width = wide < 4 ? wide : 4, pieces = 4 / width;
#if defined(HW_PACKS)
    using N = Pack<static_cast<int>(width)>;
#else
    using N = double;
#endif
    N part[pieces];

    HW_INLINE Cells(double a, double b, double c, double d) {
        const double from[4] = {a, b, c, d};
        for (Int i = 0; i < pieces; ++i) part[i] = load<N>(from + i * width);
    }
    HW_INLINE double operator[](Int i) const { return lane(part[i / width], i % width); }
    HW_INLINE double sum() const { return ((*this)[0] + (*this)[1]) + ((*this)[2] + (*this)[3]); }
    HW_INLINE double product() const { return ((*this)[0] * (*this)[1]) * ((*this)[2] * (*this)[3]); }
};
template <class N> HW_INLINE N stirling_errors(N n) {
    const N r = 1.0 / n, s = r * r;
    const N out = r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0)))));
    if (__builtin_expect(!any(n < 16.0), 1)) return out;
    return each_lane<N>([&](Int i) { return stirling_error(lane(n, i)); });
}
template <class N> HW_INLINE N deviances(N x, N m) {
    const N d = x - m, v = d / (x + m), s = v * v;
    const N out = d * v + 2.0 * x * v * s * (1.0 / 3.0 + s * (0.2 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s * (1.0 / 11.0)))));
    if (__builtin_expect(!any(absolute(v) >= 0.03), 1)) return out;
    return each_lane<N>([&](Int i) { return deviance(lane(x, i), lane(m, i)); });
}
HW_INLINE Cells stirling_errors(Cells n) {
    for (auto &part : n.part) part = stirling_errors(part);
    return n;
}
// The deviances, and the errors of Stirling's formula.
HW_INLINE Cells surprise(Cells x, const Cells &m) {
    for (Int i = 0; i < Cells::pieces; ++i) x.part[i] = stirling_errors(x.part[i]) + deviances(x.part[i], m.part[i]);
    return x;
}

// The logarithm of the chance of x successes in n trials, q = 1 - p.
HW_DEVICE inline double log_binomial(double x, double n, double p, double q) {
    if (x == 0.0) return p < 0.5 ? n * log1p(-p) : n > 0.0 ? n * log(q) : 0.0;
    if (x == n) return p < 0.5 ? n * log(p) : n * log1p(-q);
    const double y = n - x, error = stirling_error(n) - stirling_error(x) - stirling_error(y);
    return error - deviance(x, n * p) - deviance(y, n * q) + 0.5 * log(n / (x * y)) - half_log_2_pi;
}

// Whole numbers by chance, all from one stream: that of a replication.
class BinomialDraws {
  public:
    HW_INLINE void lay(Arena &arena) {
        ahead_ = arena.view<double>(count_);
        factorial_ = arena.view<Scaled>(small_population);
        if (factorial_.data == nullptr) return;
        factorial_[0] = {1.0, 0};
        for (Int n = 1; n < small_population; ++n) {
            const double x = factorial_[n - 1].part * as_number(n);
            const Long power = bits(x) & exponent_bits;
            factorial_[n] = {from_bits(bits(x) - power + one_bits), factorial_[n - 1].power + power - one_bits};
        }
    }

    // To the beginning of a replication's stream.
    HW_INLINE void rewind(Key key, Int replication) {
        key_ = key;
        replication_ = static_cast<Long>(replication);
        block_ = 0;
        place_ = count_;
    }

    // The next uniform in (0, 1).
    HW_INLINE double unit() {
        if (place_ == count_) refill();
        return ahead_[place_++];
    }

    // How many of n trials succeed.
    HW_DEVICE inline Int binomial(Int n, double p) {
        if (n == 0 || p <= 0.0) return 0;
        if (p >= 1.0) return n;
        const double q = 1.0 - p, trials = as_number(n);
        if (trials * p * q > narrow_variance) return reject({0.0, 0.0, trials}, trials * p, trials * p * q);
        return invert_binomial(trials, p, q);
    }

    // How many of `taken` balls are good, drawn without replacement from good + bad.
    HW_DEVICE inline Int hypergeometric(Int good, Int bad, Int taken) {
        if (good == 0 || taken == 0) return 0;
        if (bad == 0 || taken == good + bad) return min(good, taken);
        const Int whole = good + bad;
        const double g = as_number(good), b = as_number(bad), s = as_number(taken), w = as_number(whole);
        if (whole < small_population) {
            const Int mode = static_cast<Int>((s + 1.0) * (g + 1.0) / (w + 2.0));  // of such small numbers exact
            return invert({g, b, s}, as_number(mode), small_chance(good, bad, taken, mode));
        }
        const double p = s / w, q = (w - s) / w, variance = g * p * (b / w) * ((w - s) / (w - 1.0));
        if (variance > narrow_variance) return reject({g, b, s}, g * p, variance);
        const Int about = static_cast<Int>((s + 1.0) * ((g + 1.0) / (w + 2.0)));
        const double x = as_number(min(min(max(max(about, taken - bad), Int(0)), taken), good));
        const double chance = log_binomial(x, g, p, q) + log_binomial(s - x, b, p, q) - log_binomial(s, w, p, q);
        return invert({g, b, s}, x, exp(chance));
    }

    // How often each kind comes in n draws; `chance[m]` (M,) is that of kind m given that it is none before it. O(M).
    HW_DEVICE inline void multinomial(Int n, KnownDoubles chance, Ints out) {
        for (Int m = 0; m < out.size; ++m) {
            out[m] = binomial(n, chance[m]);
            n -= out[m];
        }
    }

    // How many of each kind are among the first `taken` of n draws that hold `whole` (M,) in all; those stay in `whole` that
    // are not. O(M).
    HW_DEVICE inline void split(Ints whole, Int n, Int taken, Ints out) {
        for (Int m = 0; m < out.size; ++m) {
            out[m] = hypergeometric(whole[m], n - whole[m], taken);
            n -= whole[m];
            taken -= out[m];
            whole[m] -= out[m];
        }
    }

    // The kind of the next of n draws that hold `left` (M,) in all; it is taken out. O(M).
    HW_DEVICE inline Int take(Ints left, Int n) {
        double place = unit() * as_number(n);
        Int m = 0;
        for (; m < left.size - 1 && (left[m] == 0 || place >= as_number(left[m])); ++m) place -= as_number(left[m]);
        while (left[m] == 0) --m;  // rounding at the upper end
        --left[m];
        return m;
    }

  private:
    static constexpr Int count_ = 128;  // uniforms drawn ahead

    // Balls in an urn, and how many are taken out; with replacement where there is none.
    struct Urn {
        double good, bad, taken;
    };

    // part 2^k, 1 <= part < 2: `power` is what k adds to the bits of a double.
    struct Scaled {
        double part;
        Long power;
    };

    // The chance of `mode` good balls, the likeliest number, which is no smaller than 1 in their number.
    HW_INLINE double small_chance(Int good, Int bad, Int taken, Int mode) const {
        const View<Scaled> f = factorial_;
        const Int whole = good + bad, rest = taken - mode;
        const Scaled &a = f[good], &b = f[bad], &c = f[taken], &d = f[whole - taken];
        const Scaled &e = f[mode], &g = f[good - mode], &h = f[rest], &i = f[bad - rest], &j = f[whole];
        const double part = ((a.part * b.part) * (c.part * d.part)) / (((e.part * g.part) * (h.part * i.part)) * j.part);
        const Long power = (a.power + b.power + c.power + d.power) - (e.power + g.power + h.power + i.power + j.power);
        return from_bits(bits(part) + power);
    }

    HW_DEVICE inline void refill() {
        using B = Bits<Lanes>;
        const B steps = whole_of(each_lane<Lanes>([](Int i) { return as_number(i); }));
        for (Int i = 0; i < count_ / 2; i += wide) {
            const auto pair = uniforms(key_, B(replication_), B(block_ + static_cast<Long>(i)) + steps, purpose::leap, B(0));
            store(&ahead_[i], to_open_unit(pair.one));
            store(&ahead_[count_ / 2 + i], to_open_unit(pair.two));
        }
        block_ += count_ / 2;
        place_ = 0;
    }

    // A wide number by the ratio of uniforms; its chances are relative to those at the mean. At the mode they are larger by a
    // factor of at most exp(1 / (8 variance)), which `peak` makes up for. The ends, where some kind is exhausted, have a chance
    // below exp(-variance) < 3e-16 (such numbers are sums of independent coins) and are left out.
    HW_DEVICE inline Int reject(Urn urn, double mean, double variance) {
        const bool finite = urn.good > 0.0;
        const double least = finite ? max(0.0, urn.taken - urn.bad) : 0.0, most = finite ? min(urn.taken, urn.good) : urn.taken;
        const double width = 1.7155277699214135 * sqrt(variance + 0.5) + 0.8989161620588988;  // 2 sqrt(2/e), 3 - 2 sqrt(3/e)
        const double peak = 0.25 / variance, rest = urn.taken - mean;
        // the successes and failures taken, then those left; with replacement there are none, and any number cancels
        const Cells at_mean(mean, rest, finite ? urn.good - mean : 64.0, finite ? urn.bad - rest : 64.0);
        const double likely = stirling_errors(at_mean).sum() - peak, scale = 1.0 / at_mean.product();
        while (true) {
            const double u = unit(), x = floor(mean + 0.5 + width * (unit() - 0.5) / u);
            if (x <= least || x >= most) continue;
            const double y = urn.taken - x;
            const Cells here(x, y, finite ? urn.good - x : 64.0, finite ? urn.bad - y : 64.0);
            const double square = u * u, ratio = square * square * (here.product() * scale);
            if (0.5 * log(ratio) <= likely - surprise(here, at_mean).sum()) return static_cast<Int>(x);
        }
    }

    // A narrow number without replacement, outwards from the mode, whose chance is given. Beyond the ends chances are 0.
    HW_DEVICE inline Int invert(Urn urn, double mode, double chance) {
        const double good = urn.good, taken = urn.taken, spare = urn.bad - taken;
        double u = unit() - chance, x = mode, y = mode, up = chance, down = chance;
        if (u <= 0.0) return static_cast<Int>(mode);
        do {
            up *= (good - x) * (taken - x) / ((x + 1.0) * (spare + x + 1.0));
            x += 1.0;
            u -= up;
            if (u <= 0.0) return static_cast<Int>(x);
            down *= y * (spare + y) / ((good - y + 1.0) * (taken - y + 1.0));
            y -= 1.0;
            u -= down;
            if (u <= 0.0) return static_cast<Int>(y);
        } while (up != 0.0 || down != 0.0);
        return static_cast<Int>(mode);  // what is left is rounding
    }

    // A narrow number with replacement, likewise.
    HW_DEVICE inline Int invert_binomial(double trials, double p, double q) {
        const double mode = min(floor((trials + 1.0) * p), trials), odds = p / q;
        const double chance = exp(log_binomial(mode, trials, p, q));
        double u = unit() - chance, x = mode, y = mode, up = chance, down = chance;
        while (u > 0.0 && (x < trials || y > 0.0)) {
            if (x < trials) {
                up *= (trials - x) * odds / (x + 1.0);
                x += 1.0;
                u -= up;
                if (u <= 0.0) return static_cast<Int>(x);
            }
            if (y > 0.0) {
                down *= y / ((trials - y + 1.0) * odds);
                y -= 1.0;
                u -= down;
                if (u <= 0.0) return static_cast<Int>(y);
            }
        }
        return static_cast<Int>(mode);
    }

    Doubles ahead_;
    View<Scaled> factorial_;
    Key key_;
    Long replication_ = 0, block_ = 0;
    Int place_ = count_;
};

}  // namespace HW_BUILD
}  // namespace hw
