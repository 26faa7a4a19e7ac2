// What every header here stands on, and nothing of the standard library: NVRTC has none, and inline functions of it that are
// compiled for a newer processor could be merged into code for an older one.
#pragma once

// The engines are built several times, for processors of several ages, in one namespace each (HW_BUILD), so that the linker cannot
// take one build's function for another's. What is in this file is shared by all of them: data, and functions that are always
// inlined, which leaves no copy that could be taken.
#ifndef HW_BUILD
#define HW_BUILD baseline
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HW_ANYWHERE __host__ __device__
#else
#define HW_ANYWHERE
#endif
#if defined(__CUDACC_RTC__)  // which has none of these
#define __builtin_huge_val() __builtin_bit_cast(double, 0x7FF0000000000000ull)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7FF8000000000000ull)
#define __builtin_memcpy memcpy
#define __builtin_fabs fabs
#endif
#if defined(__CUDA_ARCH__)
#define __builtin_ctz(x) (__ffs(static_cast<int>(x)) - 1)
#define __builtin_ctzll(x) (__ffsll(static_cast<long long>(x)) - 1)
#endif
#if defined(HW_CALLS)  // a GPU's compiler takes whatever it can inline, for minutes: calls, then
#define HW_DEVICE HW_ANYWHERE __attribute__((noinline))
#else
#define HW_DEVICE HW_ANYWHERE
#endif
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HW_UNROLL _Pragma("unroll")  // so that what a loop of known length indexes can be in registers
#else
#define HW_UNROLL
#endif
#define HW_INLINE HW_ANYWHERE inline __attribute__((always_inline))
#define HW_COLD HW_ANYWHERE inline __attribute__((noinline))  // kept out of the way of what runs every round

#if defined(__CUDACC_RTC__)  // it has none of the compilers' built-in functions, but these
#define __builtin_memcpy memcpy
#define __builtin_fabs fabs
#define __builtin_huge_val() __builtin_bit_cast(double, 0x7ff0000000000000ull)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000ull)
#define __builtin_ctz(x) (__ffs(static_cast<int>(x)) - 1)
#define __builtin_ctzll(x) (__ffsll(static_cast<long long>(x)) - 1)
#endif

namespace hw {

#ifdef __INT64_TYPE__
using Int = __INT64_TYPE__;
#else
using Int = long long;
#endif
using Word = unsigned int;         // 32 bits
using Long = unsigned long long;   // 64 bits
using Byte = unsigned char;

inline constexpr double infinity = __builtin_huge_val();

// A stretch of numbers that somebody else owns. A view of const T is made from one of T, as a pointer would be.
template <class T> struct View {
    T *data = nullptr;
    Int size = 0;

    HW_INLINE T &operator[](Int i) const { return data[i]; }
    HW_INLINE T *begin() const { return data; }
    HW_INLINE T *end() const { return data + size; }
    HW_INLINE View part(Int from, Int to) const { return {data + from, to - from}; }
    HW_INLINE View first(Int count) const { return {data, count}; }
    HW_INLINE operator View<const T>() const { return {data, size}; }
};

// Rows of numbers, one after the other.
template <class T> struct Grid {
    T *data = nullptr;
    Int rows = 0, columns = 0;

    HW_INLINE T &operator()(Int i, Int j) const { return data[i * columns + j]; }
    HW_INLINE View<T> operator[](Int i) const { return {data + i * columns, columns}; }
    HW_INLINE Int size() const { return rows * columns; }
    HW_INLINE View<T> flat() const { return {data, rows * columns}; }
    HW_INLINE operator Grid<const T>() const { return {data, rows, columns}; }
};

// Layers of rows of numbers.
template <class T> struct Cube {
    T *data = nullptr;
    Int layers = 0, rows = 0, columns = 0;

    HW_INLINE T &operator()(Int i, Int j, Int k) const { return data[(i * rows + j) * columns + k]; }
    HW_INLINE Grid<T> operator[](Int i) const { return {data + i * rows * columns, rows, columns}; }
    HW_INLINE Int size() const { return layers * rows * columns; }
    HW_INLINE operator Cube<const T>() const { return {data, layers, rows, columns}; }
};

using Doubles = View<double>;
using Table = Grid<double>;
using Ints = View<Int>;
using KnownDoubles = View<const double>;
using KnownTable = Grid<const double>;
using KnownInts = View<const Int>;

// Hands out parts of one block of memory, in the order asked for. Without a block it only counts: whatever keeps arrays says
// once, in a function `lay(Arena &)`, what it keeps, first to learn how much that is, then to have it.
class Arena {
  public:
    HW_INLINE explicit Arena(void *block = nullptr) : block_(static_cast<Byte *>(block)) {}

    template <class T> HW_INLINE View<T> view(Int size) {
        const Int each = static_cast<Int>(sizeof(T)), fit = 64;  // a cache line, and the widest register
        const Int at = used_;
        used_ += (size * each + fit - 1) / fit * fit;
        return {block_ == nullptr ? nullptr : reinterpret_cast<T *>(block_ + at), size};
    }
    template <class T> HW_INLINE Grid<T> grid(Int rows, Int columns) { return {view<T>(rows * columns).data, rows, columns}; }
    template <class T> HW_INLINE Cube<T> cube(Int layers, Int rows, Int columns) {
        return {view<T>(layers * rows * columns).data, layers, rows, columns};
    }
    HW_INLINE Int used() const { return used_; }

  private:
    Byte *block_;
    Int used_ = 0;
};

// Lay views of one size one after the other.
template <class T, class... Rest> HW_INLINE void lay_each(Arena &arena, Int size, View<T> &first, Rest &...rest) {
    first = arena.view<T>(size);
    if constexpr (sizeof...(rest) > 0) lay_each(arena, size, rest...);
}

template <class A, class B> inline constexpr bool same_type = false;
template <class A> inline constexpr bool same_type<A, A> = true;

template <class T> HW_INLINE T min(T a, T b) { return b < a ? b : a; }
template <class T> HW_INLINE T max(T a, T b) { return a < b ? b : a; }
HW_INLINE double absolute(double x) { return __builtin_fabs(x); }

template <class T> HW_INLINE void fill(View<T> x, T value) {
    for (Int i = 0; i < x.size; ++i) x[i] = value;
}
template <class T> HW_INLINE void copy(View<const T> from, View<T> to) {
    for (Int i = 0; i < to.size; ++i) to[i] = from[i];
}

}  // namespace hw
