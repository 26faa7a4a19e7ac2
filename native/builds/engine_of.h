// An engine as plain functions.
#pragma once
#include "engines.h"

#define HW_TEXT(x) #x
#define HW_NAME(x) HW_TEXT(x)
#define HW_JOIN(a, b) a##b
#define HW_ENGINES(build) HW_JOIN(engines_, build)
#define HW_LEAP(build) HW_JOIN(leap_, build)

namespace hw {
inline namespace HW_BUILD {
namespace {

template <class Kind> Int room(const Game &game) {
    Arena arena;
    Kind engine;
    engine.lay(game, arena);
    return arena.used();
}
template <class Kind> void play(const Game &game, void *memory) {
    Arena arena(memory);
    Kind engine;
    engine.lay(game, arena);
    engine.play(game);
}
template <class Kind> constexpr Engine engine_of{room<Kind>, play<Kind>};

}  // namespace
}  // namespace HW_BUILD
}  // namespace hw
