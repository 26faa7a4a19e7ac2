// How the rewards of a problem bear on the law of X.
#pragma once
#include "../audit.h"
#include "joint_index.h"

namespace hw {

// The channels' rows are *bins*: on a listed support every reward is its own bin; `bins(k, m)` says into which one arm k's m-th
// reward falls, `pays(k, b)` what that bin pays, at its upper end where it is of many rewards (`binned`). A mean of x in the
// channels' scale is `zero` + `width` x.
struct Evidence {
    ChannelView channels;
    KnownTable pays;
    Grid<const Int> bins;
    bool binned = false;
    double zero = 0.0, width = 1.0;

    HW_INLINE double scaled(double mean) const { return (mean - zero) / width; }
    HW_INLINE double mean(double scaled) const { return zero + width * scaled; }
};

}  // namespace hw
