#include "elementary.h"

#include "../elementary.h"

namespace hw {
inline namespace HW_BUILD {
namespace {

template <auto function> void in_packs(const double *x, double *y, Int n) {
    double last[wide];
    for (Int i = 0; i < n; i += wide) {
        const Int count = min(wide, n - i);
        for (Int j = 0; j < wide; ++j) last[j] = x[i + min(j, count - 1)];
        store(last, function(load<Lanes>(last)));
        for (Int j = 0; j < count; ++j) y[i + j] = last[j];
    }
}
template <auto function> void one_by_one(const double *x, double *y, Int n) {
    for (Int i = 0; i < n; ++i) y[i] = function(x[i]);
}
template <auto function> constexpr OverArray over_array(const char *name) {
    return {name, in_packs<function>, one_by_one<function>};
}

alignas(64) constexpr double squares[40] = {
    0,   1,   4,   9,   16,  25,  36,  49,  64,  81,  100, 121, 144, 169,  196,  225,  256,  289,  324,  361,
    400, 441, 484, 529, 576, 625, 676, 729, 784, 841, 900, 961, 1024, 1089, 1156, 1225, 1296, 1369, 1444, 1521};

// Of any number some whole number from 0 to size - 1.
template <class N> N some_index(N x, double size) {
    const N u = number_of(bits(x) >> 12 & Bits<N>(0xffffffffull)) / 4294967296.0;
    return smaller(floor(u * size), N(size - 1.0));
}
constexpr auto look_ups = [](auto x) {
    using N = decltype(x);
    const Lookup<N> small(squares);
    return look_up(squares, 4, some_index(x, 4.0)) + 1e3 * look_up(squares, 8, some_index(x, 8.0)) +
           1e6 * look_up(squares, 16, some_index(x, 16.0)) + 1e9 * look_up(squares, 40, some_index(x, 40.0)) +
           1e12 * small(some_index(x, 15.0)) + 1e-3 * look_up_16(squares, bits(x) >> 20);
};
constexpr auto wholes = [](auto x) {
    using N = decltype(x);
    const N size = smaller(pick(x == x, absolute(x), N(7.0)), N(1e15)), whole = floor(pick(x < 0.0, -size, size));
    const Bits<N> b = whole_of(whole), mixed = multiply(b ^ bits(x), (b << 3) - (bits(x) >> 7)) | 1ull;
    const Mask<N> order = either(below_signed(b, mixed), both(b < mixed, opposite(b == bits(x))));
    return pick(order, number_of(mixed & 0x1fffffffffffffull), number_of(mixed >> 11)) + whole;
};
constexpr auto gammas = [](double x) { return log_gamma(x); };
constexpr auto order = [](auto x) {
    using N = decltype(x);
    N best = -infinity, which = 0.0;
    for (int i = 0; i < 4; ++i) {
        const N index = pick(x > 0.0, x - i * x * x, i + x);
        const Mask<N> better = either(index > best, from_bool<N>(i == 0));
        which = pick(better, broadcast<N>(i), which);
        best = pick(better, index, best);
    }
    for (Int i = 0; i < lanes<N>; ++i) which = with_lane(which, i, lane(which, i) + 0.5);
    const double bonus = all(best == best) && any(opposite(best < -infinity)) ? 0.0 : 0.0;
    return larger(which, best) - smaller(which, best) + bonus;
};

}  // namespace
}  // namespace HW_BUILD

#define HW_TEXT(x) #x
#define HW_NAME(x) HW_TEXT(x)
#define HW_JOIN(a, b) a##b
#define HW_ELEMENTARY(build) HW_JOIN(elementary_, build)
extern const Elementary HW_ELEMENTARY(HW_BUILD) = {
    HW_NAME(HW_BUILD),
    {
        over_array<[](auto x) { return log(x); }>("log"),
        over_array<[](auto x) { return log1p(x); }>("log1p"),
        over_array<[](auto x) { return exp(x); }>("exp"),
        over_array<[](auto x) { return expm1(x); }>("expm1"),
        over_array<[](auto x) { return normal_quantile(x); }>("normal_quantile"),
        over_array<[](auto x) { return sqrt(x); }>("sqrt"),
        over_array<[](auto x) { return floor(x); }>("floor"),
        over_array<[](auto x) { return absolute(x); }>("absolute"),
        over_array<[](auto x) { return 1.0 / -x; }>("inverse"),
        over_array<look_ups>("look_ups"),
        over_array<wholes>("wholes"),
        over_array<order>("order"),
        {"log_gamma", one_by_one<gammas>, one_by_one<gammas>},
    }};

}  // namespace hw
