#include "../engines/lockstep.h"
#include "../engines/serial.h"
#include "engine_of.h"

namespace hw {

extern const Engines HW_ENGINES(HW_BUILD) = {HW_NAME(HW_BUILD), wide, engine_of<Lockstep>, engine_of<Serial<IndexSeats>>, &HW_LEAP(HW_BUILD)};

}  // namespace hw
