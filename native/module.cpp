// The boundary to Python: converts and calls, nothing else. Each part of the core has a file in glue/ that registers it.
#include <nanobind/nanobind.h>

#include "glue/parts.h"

NB_MODULE(native, m) {
    nanobind::set_leak_warnings(false);  // of what an interpreter leaves alive when it ends
    m.doc() = "The compiled core: what runs once a round.";
#define HW_PART(name) glue::bind_##name(m);
#include "glue/parts.list"
#undef HW_PART
}
