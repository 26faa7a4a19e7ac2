// The number of a policy's text: a double, or a pack of doubles, one replication a lane. One text over N serves
// a live decision, the wide registers of a processor and a thread of a GPU, and gives the same bits in each:
// whatever is here is exact or rounds once.
//
//     N width = sqrt(2.0 * log_t / pulls);
//     N index = pick(pulls == 0.0, broadcast<N>(infinity), mean + width);
//
// Mask<N> is what a comparison gives, Bits<N> a whole number of 64 bits without sign: bool and Long for a double.
#pragma once
#include "portable.h"
#if !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#define HW_PACKS 1
#include "registers.h"
#endif

namespace hw {
inline namespace HW_BUILD {

#if !defined(HW_PACKS)
template <int W> struct Registers;
#endif
using hw::absolute;  // of a double; the packs' would hide it

// ---------------------------------------------------------------------------------------------------------------- doubles

template <class N> struct Kinds;
template <> struct Kinds<double> {
    using Mask = bool;
    using Bits = Long;
    static constexpr int lanes = 1;
};
template <> struct Kinds<float> {  // for a GPU, where it is quicker
    using Mask = bool;
    using Bits = Long;
    static constexpr int lanes = 1;
};
template <class N> using Mask = typename Kinds<N>::Mask;
template <class N> using Bits = typename Kinds<N>::Bits;
template <class N> inline constexpr int lanes = Kinds<N>::lanes;

HW_INLINE Long bits(double x) {
    Long out;
    __builtin_memcpy(&out, &x, sizeof out);
    return out;
}
HW_INLINE double from_bits(Long x) {
    double out;
    __builtin_memcpy(&out, &x, sizeof out);
    return out;
}

HW_INLINE double pick(bool m, double a, double b) { return m ? a : b; }
HW_INLINE Long pick(bool m, Long a, Long b) { return m ? a : b; }
HW_INLINE bool pick(bool m, bool a, bool b) { return m ? a : b; }
HW_INLINE bool any(bool m) { return m; }
HW_INLINE bool all(bool m) { return m; }
HW_INLINE bool both(bool m, bool n) { return m & n; }
HW_INLINE bool either(bool m, bool n) { return m | n; }
HW_INLINE bool opposite(bool m) { return !m; }
HW_INLINE Word which(bool m) { return m; }  // one bit a lane

HW_INLINE float pick(bool m, float a, float b) { return m ? a : b; }
HW_INLINE float smaller(float a, float b) { return b < a ? b : a; }
HW_INLINE float larger(float a, float b) { return a < b ? b : a; }
HW_INLINE float sqrt(float x) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

HW_INLINE double smaller(double a, double b) { return b < a ? b : a; }
HW_INLINE double larger(double a, double b) { return a < b ? b : a; }
HW_INLINE double sqrt(double x) {
#if defined(__CUDA_ARCH__)
    return __dsqrt_rn(x);
#else
    return __builtin_sqrt(x);
#endif
}
// Old x86 processors have no such instruction: |x| to the nearest whole number, and one down where that was up.
HW_INLINE double floor(double x) {
#if defined(__SSE4_1__) || defined(__aarch64__)
    return __builtin_floor(x);
#else
    const Long sign = bits(x) & 0x8000000000000000ull;
    const double size = from_bits(bits(x) ^ sign), large = 4503599627370496.0;  // 2^52
    const double near = from_bits(bits((size + large) - large) | sign);
    return size < large ? near - (near > x ? 1.0 : 0.0) : x;
#endif
}

HW_INLINE double number_of(Long x) { return static_cast<double>(static_cast<long long>(x)); }  // x < 2^53: exact
HW_INLINE Long whole_of(double x) { return static_cast<Long>(static_cast<long long>(x)); }     // x whole, |x| < 2^51
HW_INLINE Long multiply(Long a, Long b) {  // the low halves' product
#if defined(__CUDA_ARCH__)
    Long out;  // the one instruction that it is: the compiler makes four of it
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(out) : "r"(static_cast<Word>(a)), "r"(static_cast<Word>(b)));
    return out;
#else
    return (a & 0xffffffffull) * (b & 0xffffffffull);
#endif
}
HW_INLINE bool below_signed(Long a, Long b) { return static_cast<long long>(a) < static_cast<long long>(b); }

template <class N> HW_INLINE N broadcast(double x) { return N(x); }
template <class N> HW_INLINE Bits<N> broadcast_bits(Long x) { return Bits<N>(x); }
template <class N> HW_INLINE Mask<N> from_bool(bool m) { return Mask<N>(m); }
template <class N> HW_INLINE N load(const double *from) {
    if constexpr (lanes<N> == 1) return *from;
    else return N(Registers<lanes<N>>::load(from), 0);
}
template <class N> HW_INLINE Bits<N> load_bits(const Long *from) {
    if constexpr (lanes<N> == 1) return *from;
    else return Bits<N>(Registers<lanes<N>>::load(static_cast<const void *>(from)), 0);
}
HW_INLINE void store(double *to, double x) { *to = x; }
HW_INLINE void store(Long *to, Long x) { *to = x; }
HW_INLINE double lane(double x, Int) { return x; }
HW_INLINE Long lane(Long x, Int) { return x; }
HW_INLINE bool lane(bool m, Int) { return m; }
HW_INLINE double highest_lane(double x) { return x; }
HW_INLINE double lowest_lane(double x) { return x; }
HW_INLINE double with_lane(double, Int, double value) { return value; }
HW_INLINE float with_lane(float, Int, double value) { return static_cast<float>(value); }
HW_INLINE Long with_lane(Long, Int, Long value) { return value; }

// table[index] of `size` numbers. The caller pads a table to 16 numbers at least.
HW_INLINE double look_up(const double *table, Int, double index) { return table[static_cast<Int>(index)]; }
// The same for an index that is not in a double, of which only the last four bits count.
HW_INLINE double look_up_16(const double *table, Long index) { return table[index & 15]; }

// A table of at most 16 numbers that stays in registers where they are wide enough.
template <class N> struct Lookup;
template <> struct Lookup<double> {
    const double *table;
    HW_INLINE explicit Lookup(const double *entries) : table(entries) {}
    HW_INLINE double operator()(double index) const { return table[static_cast<Int>(index)]; }
};

// ------------------------------------------------------------------------------------------------------------------ packs

#if defined(HW_PACKS)
template <int W> struct PackMask {
    typename Registers<W>::Flags raw;
    PackMask() = default;
    HW_INLINE explicit PackMask(bool m) : raw(Registers<W>::spread(m)) {}
    HW_INLINE explicit PackMask(typename Registers<W>::Flags flags, int) : raw(flags) {}
};

template <int W> struct PackBits {
    using R = Registers<W>;
    using Flags = PackMask<W>;
    typename R::Wholes raw;
    PackBits() = default;
    HW_INLINE PackBits(Long x) : raw(R::spread(x)) {}
    HW_INLINE explicit PackBits(typename R::Wholes wholes, int) : raw(wholes) {}

    HW_INLINE friend PackBits operator+(PackBits a, PackBits b) { return PackBits(a.raw + b.raw, 0); }
    HW_INLINE friend PackBits operator-(PackBits a, PackBits b) { return PackBits(a.raw - b.raw, 0); }
    HW_INLINE friend PackBits operator^(PackBits a, PackBits b) { return PackBits(a.raw ^ b.raw, 0); }
    HW_INLINE friend PackBits operator&(PackBits a, PackBits b) { return PackBits(a.raw & b.raw, 0); }
    HW_INLINE friend PackBits operator|(PackBits a, PackBits b) { return PackBits(a.raw | b.raw, 0); }
    HW_INLINE friend PackBits operator<<(PackBits a, int n) { return PackBits(a.raw << n, 0); }
    HW_INLINE friend PackBits operator>>(PackBits a, int n) { return PackBits(a.raw >> n, 0); }
    HW_INLINE friend Flags operator==(PackBits a, PackBits b) { return Flags(R::equal(a.raw, b.raw), 0); }
    HW_INLINE friend Flags operator!=(PackBits a, PackBits b) { return Flags(R::opposite(R::equal(a.raw, b.raw)), 0); }
    HW_INLINE friend Flags operator<(PackBits a, PackBits b) { return Flags(R::less(a.raw, b.raw), 0); }
    HW_INLINE friend Flags operator>(PackBits a, PackBits b) { return Flags(R::less(b.raw, a.raw), 0); }
    HW_INLINE friend Flags operator<=(PackBits a, PackBits b) { return Flags(R::opposite(R::less(b.raw, a.raw)), 0); }
    HW_INLINE friend Flags operator>=(PackBits a, PackBits b) { return Flags(R::opposite(R::less(a.raw, b.raw)), 0); }
    HW_INLINE friend PackBits pick(Flags m, PackBits a, PackBits b) { return PackBits(R::pick(m.raw, a.raw, b.raw), 0); }
    HW_INLINE friend Flags below_signed(PackBits a, PackBits b) { return Flags(R::less_signed(a.raw, b.raw), 0); }
};

template <int W> struct Pack {
    using R = Registers<W>;
    using Flags = PackMask<W>;
    typename R::Reals raw;
    Pack() = default;
    HW_INLINE Pack(double x) : raw(R::spread(x)) {}
    HW_INLINE explicit Pack(typename R::Reals reals, int) : raw(reals) {}

    HW_INLINE friend Pack operator+(Pack a, Pack b) { return Pack(a.raw + b.raw, 0); }
    HW_INLINE friend Pack operator-(Pack a, Pack b) { return Pack(a.raw - b.raw, 0); }
    HW_INLINE friend Pack operator*(Pack a, Pack b) { return Pack(a.raw * b.raw, 0); }
    HW_INLINE friend Pack operator/(Pack a, Pack b) { return Pack(a.raw / b.raw, 0); }
    HW_INLINE friend Pack operator-(Pack a) { return Pack(-a.raw, 0); }
    HW_INLINE Pack &operator+=(Pack b) { return *this = *this + b; }
    HW_INLINE Pack &operator-=(Pack b) { return *this = *this - b; }
    HW_INLINE Pack &operator*=(Pack b) { return *this = *this * b; }
    HW_INLINE Pack &operator/=(Pack b) { return *this = *this / b; }
    HW_INLINE friend Flags operator==(Pack a, Pack b) { return Flags(R::equal(a.raw, b.raw), 0); }
    HW_INLINE friend Flags operator!=(Pack a, Pack b) { return Flags(R::opposite(R::equal(a.raw, b.raw)), 0); }
    HW_INLINE friend Flags operator<(Pack a, Pack b) { return Flags(R::less(a.raw, b.raw), 0); }
    HW_INLINE friend Flags operator>(Pack a, Pack b) { return Flags(R::less(b.raw, a.raw), 0); }
    HW_INLINE friend Flags operator<=(Pack a, Pack b) { return Flags(R::at_most(a.raw, b.raw), 0); }
    HW_INLINE friend Flags operator>=(Pack a, Pack b) { return Flags(R::at_most(b.raw, a.raw), 0); }

    HW_INLINE friend Pack pick(Flags m, Pack a, Pack b) { return Pack(R::pick(m.raw, a.raw, b.raw), 0); }
    HW_INLINE friend Pack smaller(Pack a, Pack b) { return Pack(R::smaller(a.raw, b.raw), 0); }
    HW_INLINE friend Pack larger(Pack a, Pack b) { return Pack(R::larger(a.raw, b.raw), 0); }
};

template <int W> struct Kinds<Pack<W>> {
    using Mask = PackMask<W>;
    using Bits = PackBits<W>;
    static constexpr int lanes = W;
};

template <int W> HW_INLINE PackBits<W> bits(Pack<W> x) { return PackBits<W>((typename Registers<W>::Wholes)x.raw, 0); }
template <int W> HW_INLINE Pack<W> from_bits(PackBits<W> x) { return Pack<W>((typename Registers<W>::Reals)x.raw, 0); }

template <int W> HW_INLINE PackMask<W> both(PackMask<W> m, PackMask<W> n) {
    return PackMask<W>(Registers<W>::both(m.raw, n.raw), 0);
}
template <int W> HW_INLINE PackMask<W> either(PackMask<W> m, PackMask<W> n) {
    return PackMask<W>(Registers<W>::either(m.raw, n.raw), 0);
}
template <int W> HW_INLINE PackMask<W> opposite(PackMask<W> m) { return PackMask<W>(Registers<W>::opposite(m.raw), 0); }
template <int W> HW_INLINE PackMask<W> pick(PackMask<W> m, PackMask<W> a, PackMask<W> b) {
    return either(both(m, a), both(opposite(m), b));
}
template <int W> HW_INLINE Word which(PackMask<W> m) { return Registers<W>::which(m.raw); }
template <int W> HW_INLINE bool any(PackMask<W> m) { return which(m) != 0; }
template <int W> HW_INLINE bool all(PackMask<W> m) { return which(m) == (1u << W) - 1; }

template <int W> HW_INLINE Pack<W> absolute(Pack<W> x) { return from_bits(bits(x) & 0x7fffffffffffffffull); }
template <int W> HW_INLINE Pack<W> sqrt(Pack<W> x) { return Pack<W>(Registers<W>::sqrt(x.raw), 0); }
template <int W> HW_INLINE Pack<W> floor(Pack<W> x) { return Pack<W>(Registers<W>::floor(x.raw), 0); }
template <int W> HW_INLINE Pack<W> number_of(PackBits<W> x) { return Pack<W>(Registers<W>::number_of(x.raw), 0); }
template <int W> HW_INLINE PackBits<W> whole_of(Pack<W> x) { return PackBits<W>(Registers<W>::whole_of(x.raw), 0); }
template <int W> HW_INLINE PackBits<W> multiply(PackBits<W> a, PackBits<W> b) {
    return PackBits<W>(Registers<W>::multiply(a.raw, b.raw), 0);
}

template <int W> HW_INLINE void store(double *to, Pack<W> x) { Registers<W>::store(to, x.raw); }
template <int W> HW_INLINE void store(Long *to, PackBits<W> x) { Registers<W>::store(static_cast<void *>(to), x.raw); }
template <int W> HW_INLINE double lane(Pack<W> x, Int i) { return x.raw[i]; }
template <int W> HW_INLINE Long lane(PackBits<W> x, Int i) { return x.raw[i]; }
template <int W> HW_INLINE bool lane(PackMask<W> m, Int i) { return which(m) >> i & 1; }
template <int W> HW_INLINE double highest_lane(Pack<W> x) {
    double each[W];
    store(each, x);
    for (int half = W / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) each[i] = larger(each[i], each[i + half]);
    return each[0];
}
template <int W> HW_INLINE double lowest_lane(Pack<W> x) { return -highest_lane(-x); }
template <int W> HW_INLINE Pack<W> with_lane(Pack<W> x, Int i, double value) {
    x.raw[i] = value;
    return x;
}
template <int W> HW_INLINE PackBits<W> with_lane(PackBits<W> x, Int i, Long value) {
    x.raw[i] = value;
    return x;
}

template <int W> HW_INLINE Pack<W> look_up(const double *table, Int size, Pack<W> index) {
    using R = Registers<W>;
    const auto at = R::whole_of(index.raw);
    return Pack<W>(size <= 4    ? R::of_4(table, at)
                   : size <= 8  ? R::of_8(table, at)
                   : size <= 16 ? R::of_16(table, at)
                                : R::gather(table, at), 0);
}
template <int W> HW_INLINE Pack<W> look_up_16(const double *table, PackBits<W> index) {
    return Pack<W>(Registers<W>::of_16(table, index.raw), 0);
}

template <int W> struct Lookup<Pack<W>> {
    typename Registers<W>::Table table;
    HW_INLINE explicit Lookup(const double *entries) : table{entries} {}
    HW_INLINE Pack<W> operator()(Pack<W> index) const { return Pack<W>(table[Registers<W>::whole_of(index.raw)], 0); }
};

using Lanes = Pack<wide>;
#else
inline constexpr Int wide = 1;
using Lanes = double;
#endif

}  // namespace HW_BUILD
}  // namespace hw
