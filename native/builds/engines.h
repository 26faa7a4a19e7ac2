// The engines that are built once for each width of registers.
#pragma once
#include "../engines/game.h"

namespace hw {

struct Engines {
    const char *name;
    Int wide;
    Engine lockstep, serial;
    const Engine *leap;
};

extern const Engine leap_baseline, leap_avx2, leap_avx512;
extern const Engines engines_baseline, engines_avx2, engines_avx512;

}  // namespace hw
