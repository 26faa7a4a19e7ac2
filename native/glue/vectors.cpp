#include "../vectors.h"

#include "arrays.h"
#include "parts.h"

void glue::bind_vectors(nb::module_ &m) {
    m.def("largest", [](Known<double, 1> x) { return hw::largest(view(x)); }, nb::arg("x"));
    m.def("magnitude", [](Known<double, 1> x) { return hw::magnitude(view(x)); }, nb::arg("x"));
}
