// Many arms of one replication, side by side in the lanes.
#pragma once
#include "policy.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr Int few = 16; // arms for which it does not pay

// Numbers of arms, a pack at a time. Views of the arena may be read and written up to the end of the widest register.
struct SidewaysRow {
    struct Place {
        double *at;
        HW_INLINE operator Lanes() const { return load<Lanes>(at); }
        HW_INLINE void operator=(Lanes x) const { store(at, x); }
    };
    double *data;
    HW_INLINE Place operator[](Int pack) const { return {data + pack * wide}; }
};

// What a rule reads of a state and leaves there, where it looks at one arm at a time: "arms" are packs of them.
struct Sideways {
    using N = Lanes;
    SidewaysRow mean, root, index;
    Int packs;

    HW_INLINE explicit Sideways(State<double> &s)
        : mean{&s.mean[0]}, root{&s.root[0]}, index{&s.index[0]}, packs((s.arms() + wide - 1) / wide) {}
    HW_INLINE Int arms() const { return packs; }
};

HW_INLINE Mask<Lanes> above_zero(const Int *counts) {
    return below_signed(Bits<Lanes>(0), load_bits<Lanes>(reinterpret_cast<const Long *>(counts)));
}

#if defined(HW_PACKS)
// The lowest-numbered of `arms` entries that is largest; entries that are no number are never it. Two searches take turns,
// because one would wait for its own comparisons.
HW_INLINE Int best_across(const double *index, Int arms) {
    const Lanes step(static_cast<double>(wide)), last(static_cast<double>(arms)), none(-infinity);
    Best<Lanes> one, other;
    Lanes number = each_lane<Lanes>([](Int i) { return static_cast<double>(i); });
    const auto look = [&](Best<Lanes> &best, Lanes x) {
        const auto better = x > best.index;
        best.index = pick(better, x, best.index);
        best.arm = pick(better, number, best.arm);
        number = number + step;
    };
    Int k = 0;
    for (; k + 2 * wide <= arms; k += 2 * wide) {
        look(one, load<Lanes>(index + k));
        look(other, load<Lanes>(index + k + wide));
    }
    for (; k < arms; k += wide) look(one, pick(number < last, load<Lanes>(index + k), none));
    const auto better = either(other.index > one.index, both(other.index == one.index, other.arm < one.arm));
    const Lanes highest = pick(better, other.index, one.index), arm = pick(better, other.arm, one.arm);
    return static_cast<Int>(lowest_lane(pick(highest == Lanes(highest_lane(highest)), arm, last)));
}
#endif

}  // namespace HW_BUILD
}  // namespace hw
