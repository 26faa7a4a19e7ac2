// What an arm pays in a round, where one replication is played.
#pragma once
#include "../model.h"

namespace hw {

struct Paid {
    const Rewards &rewards;
    Int arm, kind;

    HW_INLINE Int units(Int) const { return rewards.units(arm, kind); }
    HW_INLINE Int level(Int) const { return kind; }
    HW_INLINE Int excess(Int, Int ell) const { return rewards.table(arm, kind, ell); }
    HW_INLINE const Int *excesses() const { return &rewards.table(arm, kind, 0); }  // over every arm
};

}  // namespace hw
