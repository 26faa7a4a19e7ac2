// Every part of the module, by the function that registers it.
#pragma once
#include <nanobind/nanobind.h>

namespace glue {
#define HW_PART(name) void bind_##name(nanobind::module_ &m);
#include "parts.list"
#undef HW_PART
}  // namespace glue
