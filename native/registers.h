// How a pack lies in the processor's registers: the only file that knows an instruction. What is said here in the
// compilers' vector types compiles for any processor. AVX-512, AVX2 and SSE2 say it in their own instructions
// where the compiler would not find them.
// Every operation is exact or rounds once, so that all of them give the same bits.
#pragma once
#include "portable.h"
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace hw {
inline namespace HW_BUILD {

inline constexpr double two_52 = 4503599627370496.0, two_84 = 19342813113834066795298816.0;

// W doubles, W whole numbers of 64 bits and W flags, side by side: for any processor.
template <int W> struct PlainRegisters {
    typedef double Reals __attribute__((vector_size(8 * W)));
    typedef Long Wholes __attribute__((vector_size(8 * W)));
    typedef long long Flags __attribute__((vector_size(8 * W)));

    // As they lie in memory, at any place and under any name: compilers make two steps of a copy.
    typedef double LooseReals __attribute__((vector_size(8 * W), aligned(8), may_alias));
    typedef Long LooseWholes __attribute__((vector_size(8 * W), aligned(8), may_alias));

    HW_INLINE static Reals load(const double *from) { return *reinterpret_cast<const LooseReals *>(from); }
    HW_INLINE static Wholes load(const void *from) { return *static_cast<const LooseWholes *>(from); }
    HW_INLINE static void store(double *to, Reals x) { *reinterpret_cast<LooseReals *>(to) = x; }
    HW_INLINE static void store(void *to, Wholes x) { *static_cast<LooseWholes *>(to) = x; }

    HW_INLINE static Reals spread(double x) { return Reals{} + x; }
    HW_INLINE static Wholes spread(Long x) { return Wholes{} + x; }
    HW_INLINE static Flags spread(bool flag) { return Flags{} - static_cast<long long>(flag); }

    HW_INLINE static Flags equal(Reals a, Reals b) { return (Flags)(a == b); }
    HW_INLINE static Flags less(Reals a, Reals b) { return (Flags)(a < b); }
    HW_INLINE static Flags at_most(Reals a, Reals b) { return (Flags)(a <= b); }
    HW_INLINE static Flags equal(Wholes a, Wholes b) { return (Flags)(a == b); }
    HW_INLINE static Flags less(Wholes a, Wholes b) { return (Flags)(a < b); }
    HW_INLINE static Flags less_signed(Wholes a, Wholes b) { return (Flags)((Flags)a < (Flags)b); }

    HW_INLINE static Flags both(Flags m, Flags n) { return m & n; }
    HW_INLINE static Flags either(Flags m, Flags n) { return m | n; }
    HW_INLINE static Flags opposite(Flags m) { return ~m; }
    HW_INLINE static Word which(Flags m) {
        Long flags[W];
        __builtin_memcpy(flags, &m, sizeof m);
        Word out = 0;
        for (int i = 0; i < W; ++i) out |= static_cast<Word>(flags[i] & 1) << i;
        return out;
    }
    HW_INLINE static Reals pick(Flags m, Reals a, Reals b) { return m ? a : b; }
    HW_INLINE static Wholes pick(Flags m, Wholes a, Wholes b) { return m ? a : b; }

    HW_INLINE static Reals smaller(Reals a, Reals b) { return b < a ? b : a; }
    HW_INLINE static Reals larger(Reals a, Reals b) { return a < b ? b : a; }
    HW_INLINE static Reals sqrt(Reals x) {
        double out[W];
        __builtin_memcpy(out, &x, sizeof x);
        for (double &one : out) one = __builtin_sqrt(one);
        __builtin_memcpy(&x, out, sizeof x);
        return x;
    }
    HW_INLINE static Reals floor(Reals x) {
        const Wholes sign = (Wholes)x & 0x8000000000000000ull;
        const Reals size = (Reals)((Wholes)x ^ sign), near = (Reals)((Wholes)((size + two_52) - two_52) | sign);
        return size < two_52 ? near - (near > x ? spread(1.0) : spread(0.0)) : x;
    }
    // Both halves of a number below 2^53, each put into the last bits of a large double.
    HW_INLINE static Reals number_of(Wholes x) {
        const Reals high = (Reals)((x >> 32) | 0x4530000000000000ull);
        const Reals low = (Reals)((x & 0xffffffffull) | 0x4330000000000000ull);
        return (high - (two_84 + two_52)) + low;
    }
    HW_INLINE static Wholes whole_of(Reals x) { return (Wholes)(x + 1.5 * two_52) - 0x4338000000000000ull; }
    HW_INLINE static Wholes multiply(Wholes a, Wholes b) { return (a & 0xffffffffull) * (b & 0xffffffffull); }

    HW_INLINE static Reals gather(const double *table, Wholes index) {
        Long at[W];
        __builtin_memcpy(at, &index, sizeof index);
        double found[W];
        for (int i = 0; i < W; ++i) found[i] = table[at[i]];
        Reals out;
        __builtin_memcpy(&out, found, sizeof out);
        return out;
    }
    // An entry of a table of 4, of 8 or of 16. Of 16 the last four bits of the index say which.
    HW_INLINE static Reals of_4(const double *table, Wholes index) { return gather(table, index); }
    HW_INLINE static Reals of_8(const double *table, Wholes index) { return gather(table, index); }
    HW_INLINE static Reals of_16(const double *table, Wholes index) { return gather(table, index & 15); }
    // A table of at most 16 entries, where it is or held.
    struct Table {
        const double *entries;
        HW_INLINE Reals operator[](Wholes index) const { return gather(entries, index); }
    };
};

template <int W> struct Registers : PlainRegisters<W> {};

#if defined(__SSE2__)
template <> struct Registers<2> : PlainRegisters<2> {
    // In its own instructions, and choices bit by bit: GCC 12 fails at what it makes of the vector types' comparisons here.
    HW_INLINE static Flags equal(Reals a, Reals b) { return (Flags)_mm_cmpeq_pd(a, b); }
    HW_INLINE static Flags less(Reals a, Reals b) { return (Flags)_mm_cmplt_pd(a, b); }
    HW_INLINE static Flags at_most(Reals a, Reals b) { return (Flags)_mm_cmple_pd(a, b); }
    HW_INLINE static Wholes pick(Flags m, Wholes a, Wholes b) { return ((Wholes)m & a) | (~(Wholes)m & b); }
    HW_INLINE static Reals pick(Flags m, Reals a, Reals b) { return (Reals)pick(m, (Wholes)a, (Wholes)b); }
    HW_INLINE static Reals floor(Reals x) {
        const Wholes sign = (Wholes)x & 0x8000000000000000ull;
        const Reals size = (Reals)((Wholes)x ^ sign), near = (Reals)((Wholes)((size + two_52) - two_52) | sign);
        return pick(less(size, spread(two_52)), near - (Reals)((Wholes)less(x, near) & (Wholes)spread(1.0)), x);
    }
    using PlainRegisters<2>::equal;
    using PlainRegisters<2>::less;
    // The sign of a - b, or of a where it would not fit; there is no comparison of 64 bits.
    HW_INLINE static Flags less_signed(Wholes a, Wholes b) {
        const __m128i sign = (__m128i)((a & ~b) | (~(a ^ b) & (a - b)));
        return (Flags)_mm_shuffle_epi32(_mm_srai_epi32(sign, 31), _MM_SHUFFLE(3, 3, 1, 1));
    }
    HW_INLINE static Word which(Flags m) { return static_cast<Word>(_mm_movemask_pd((Reals)m)); }
    HW_INLINE static Reals smaller(Reals a, Reals b) { return _mm_min_pd(b, a); }
    HW_INLINE static Reals larger(Reals a, Reals b) { return _mm_max_pd(b, a); }
    HW_INLINE static Reals sqrt(Reals x) { return _mm_sqrt_pd(x); }
    HW_INLINE static Wholes multiply(Wholes a, Wholes b) { return (Wholes)_mm_mul_epu32((__m128i)a, (__m128i)b); }
};
#endif

#if defined(__AVX2__)
template <> struct Registers<4> : PlainRegisters<4> {
    HW_INLINE static Word which(Flags m) { return static_cast<Word>(_mm256_movemask_pd((Reals)m)); }
    HW_INLINE static Reals smaller(Reals a, Reals b) { return _mm256_min_pd(b, a); }
    HW_INLINE static Reals larger(Reals a, Reals b) { return _mm256_max_pd(b, a); }
    HW_INLINE static Reals sqrt(Reals x) { return _mm256_sqrt_pd(x); }
    HW_INLINE static Reals floor(Reals x) { return _mm256_floor_pd(x); }
    HW_INLINE static Wholes multiply(Wholes a, Wholes b) { return (Wholes)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
    HW_INLINE static Reals gather(const double *table, Wholes index) {
        return _mm256_i64gather_pd(table, (__m256i)index, 8);
    }
    // There is no permutation of doubles by variable, but one of halves of doubles.
    HW_INLINE static Reals of_4(const double *table, Wholes index) {
        const Wholes twice = index + index, halves = twice | ((twice + 1) << 32);  // their last three bits count
        const __m256 entries = _mm256_castpd_ps(_mm256_loadu_pd(table));
        return (Reals)_mm256_permutevar8x32_ps(entries, (__m256i)halves);
    }
    HW_INLINE static Reals of_8(const double *table, Wholes index) {
        return _mm256_blendv_pd(of_4(table, index), of_4(table + 4, index), (Reals)(index << 61));
    }
    HW_INLINE static Reals of_16(const double *table, Wholes index) {
        const Wholes last = index & 15;
        return _mm256_blendv_pd(of_8(table, last), of_8(table + 8, last), (Reals)(index << 60));
    }
    struct Table {
        const double *entries;
        HW_INLINE Reals operator[](Wholes index) const { return gather(entries, index); }
    };
};
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)
template <> struct Registers<8> : PlainRegisters<8> {
    using Flags = Byte;
    static constexpr Flags every = 0xff;  // GCC 12 warns of the unmasked forms, which it builds on an unset register

    HW_INLINE static Reals spread(double x) { return _mm512_set1_pd(x); }
    HW_INLINE static Wholes spread(Long x) { return (Wholes)_mm512_set1_epi64(static_cast<long long>(x)); }
    HW_INLINE static Flags spread(bool flag) { return flag ? 0xff : 0; }

    HW_INLINE static Flags equal(Reals a, Reals b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
    HW_INLINE static Flags less(Reals a, Reals b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
    HW_INLINE static Flags at_most(Reals a, Reals b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }
    HW_INLINE static Flags equal(Wholes a, Wholes b) { return _mm512_cmpeq_epu64_mask((__m512i)a, (__m512i)b); }
    HW_INLINE static Flags less(Wholes a, Wholes b) { return _mm512_cmplt_epu64_mask((__m512i)a, (__m512i)b); }
    HW_INLINE static Flags less_signed(Wholes a, Wholes b) { return _mm512_cmplt_epi64_mask((__m512i)a, (__m512i)b); }

    HW_INLINE static Flags both(Flags m, Flags n) { return m & n; }
    HW_INLINE static Flags either(Flags m, Flags n) { return m | n; }
    HW_INLINE static Flags opposite(Flags m) { return static_cast<Flags>(~m); }
    HW_INLINE static Word which(Flags m) { return m; }
    HW_INLINE static Reals pick(Flags m, Reals a, Reals b) { return _mm512_mask_blend_pd(m, b, a); }
    HW_INLINE static Wholes pick(Flags m, Wholes a, Wholes b) {
        return (Wholes)_mm512_mask_blend_epi64(m, (__m512i)b, (__m512i)a);
    }

    HW_INLINE static Reals smaller(Reals a, Reals b) { return _mm512_maskz_min_pd(every, b, a); }
    HW_INLINE static Reals larger(Reals a, Reals b) { return _mm512_maskz_max_pd(every, b, a); }
    HW_INLINE static Reals sqrt(Reals x) { return _mm512_maskz_sqrt_pd(every, x); }
    HW_INLINE static Reals floor(Reals x) {
        return _mm512_maskz_roundscale_pd(every, x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    }
    HW_INLINE static Reals number_of(Wholes x) { return _mm512_maskz_cvtepu64_pd(every, (__m512i)x); }
    HW_INLINE static Wholes whole_of(Reals x) { return (Wholes)_mm512_maskz_cvttpd_epi64(every, x); }
    HW_INLINE static Wholes multiply(Wholes a, Wholes b) {
        return (Wholes)_mm512_maskz_mul_epu32(every, (__m512i)a, (__m512i)b);
    }

    HW_INLINE static Reals gather(const double *table, Wholes index) {
        return _mm512_mask_i64gather_pd(Reals{}, every, (__m512i)index, table, 8);
    }
    HW_INLINE static Reals of_8(const double *table, Wholes index) {
        return _mm512_maskz_permutexvar_pd(every, (__m512i)index, _mm512_loadu_pd(table));
    }
    HW_INLINE static Reals of_4(const double *table, Wholes index) { return of_8(table, index); }
    HW_INLINE static Reals of_16(const double *table, Wholes index) { return Table(table)[index]; }
    struct Table {
        Reals first, second;
        HW_INLINE explicit Table(const double *entries)
            : first(_mm512_loadu_pd(entries)), second(_mm512_loadu_pd(entries + 8)) {}
        HW_INLINE Reals operator[](Wholes index) const {
            return _mm512_permutex2var_pd(first, (__m512i)index, second);
        }
    };
};
#endif

// How many replications this build packs into one number.
#if defined(__AVX512F__) && defined(__AVX512DQ__)
inline constexpr Int wide = 8;
#elif defined(__AVX2__)
inline constexpr Int wide = 4;
#else
inline constexpr Int wide = 2;
#endif

}  // namespace HW_BUILD
}  // namespace hw
