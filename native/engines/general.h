// The serial engine of what one build is enough for: policies that learn the law of X, random rewards under the filter, very many
// arms.
#pragma once
#include "game.h"

namespace hw {
extern const Engine general_engine;
}  // namespace hw
