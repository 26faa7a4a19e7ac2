// The random numbers of a walk through the posterior.
#pragma once
#include "../../draws.h"

namespace hw {
inline namespace HW_BUILD {

// The random numbers of a walk: those of one round of a stream.
struct WalkStream {
    Key key;
    Int replication = 0, round = 0;
};

namespace posterior {

// As many numbers side by side as a register of this build holds: for tries up to four, for groups and rows
// all.
#if defined(HW_PACKS)
using Few = Pack<(wide < 4 ? wide : 4)>;
using Many = Pack<wide>;
#else
using Few = double;
using Many = double;
#endif
inline constexpr Int few = lanes<Few>, many = lanes<Many>;

// A stream's uniforms, lane after lane. They are made many lanes at a time: one alone would wait for each
// product, and to ask before every move whether there are enough would be to guess, often wrongly.
class WalkDraws {
  public:
    HW_INLINE WalkDraws(const WalkStream &stream, Int expected) : stream_(stream) {
        made_to(min(expected, most));
    }
    HW_INLINE Int position() const { return next_; }
    HW_INLINE void skip(Int count) { next_ += count; }
    // The next unused lane's numbers, whole ones below 2^53.
    HW_INLINE Uniforms<Long> whole() const { return {one_[next_ & last], two_[next_ & last]}; }
    // The i-th number to come between 0 and 1, two a lane.
    HW_INLINE double unit(Int i) const { return unit_[i & 1][(next_ + (i >> 1)) & last]; }
    // Have the next `count` lanes, a few, at hand.
    HW_INLINE void want(Int count) {
        if (__builtin_expect(made_ < next_ + count, 0)) made_to(next_ + 16);
    }

  private:
    static constexpr Int kept = 64, last = kept - 1, ahead = 8, most = kept - ahead;

    HW_DEVICE void made_to(Int end) {
        const Key key = stream_.key;
        const Bits<Many> replication = static_cast<Long>(stream_.replication);
        const Bits<Many> round = static_cast<Long>(stream_.round);
        const Long offsets[] = {0, 1, 2, 3, 4, 5, 6, 7};
        const Bits<Many> offset = load_bits<Many>(offsets);
        Int from = made_;
        for (; from < end; from += many) {
            const Bits<Many> lane = offset + Bits<Many>(static_cast<Long>(from));
            const Uniforms<Bits<Many>> u = uniforms<Bits<Many>>(key, replication, round, purpose::walk, lane);
            const Int at = from & last;
            store(one_ + at, u.one);
            store(two_ + at, u.two);
            store(unit_[0] + at, to_open_unit(u.one));
            store(unit_[1] + at, to_open_unit(u.two));
        }
        made_ = from;
    }
    WalkStream stream_;
    Int next_ = 0, made_ = 0;
    Long one_[kept], two_[kept];
    double unit_[2][kept];
};

}  // namespace posterior
}  // namespace HW_BUILD
}  // namespace hw
