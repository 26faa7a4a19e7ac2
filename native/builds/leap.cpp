#include "../engines/leap.h"

#include "engine_of.h"

namespace hw {

extern const Engine HW_LEAP(HW_BUILD) = engine_of<Leap>;

}  // namespace hw
