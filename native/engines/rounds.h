// From a 53-bit uniform to x_t, and to what an arm pays there, where one replication is played.
#pragma once
#include "../draws.h"

namespace hw {
inline namespace HW_BUILD {

// The atom of a 53-bit uniform, from where the guide points. O(1) expected.
HW_INLINE Int atom_of(const Source &law, Int shift, Int u) {
    Int j = 0;
    if (law.guide.size > 0) {
        j = law.guide[u >> shift];
        while (j < law.thresholds.size && u >= law.thresholds[j]) ++j;
        return j;
    }
    for (Int i = 0; i < law.thresholds.size; ++i) j += u >= law.thresholds[i] ? 1 : 0;
    return j;
}

// How far to shift a 53-bit uniform to look it up in a guide of 2^b entries.
HW_INLINE Int guide_shift(const Source &law) {
    Int bits = 0;
    while ((Int(1) << bits) < law.guide.size) ++bits;
    return 53 - bits;
}

// The level of arm k's reward at an atom, by a 53-bit uniform where it is random. O(M).
HW_INLINE Int level_of(const Source &law, Int k, Int atom, Int coin) {
    if (!law.random()) return law.level(k, atom);
    Int m = 0;
    while (m < law.cuts.columns && coin >= law.cuts(k, atom, m)) ++m;
    return m;
}

}  // namespace HW_BUILD
}  // namespace hw
