#include "../simplex.h"

#include "arrays.h"
#include "parts.h"

namespace {
using namespace glue;

// The programme's status; basis (m,) is read and written, `basic` (m,), `dual` (m,) and `reduced` (n,) are
// written.
int maximise(Known<double, 2> a, Known<double, 1> b, Known<double, 1> c, Whole basis, Numbers basic,
             Numbers dual, Numbers reduced) {
    const hw::simplex::Programme programme{view(a), view(b), view(c)};
    const Int m = programme.a.rows, n = programme.a.columns;
    expect_size("b", programme.b, m);
    expect_size("c", programme.c, n);
    expect_size("basis", view(basis), m);
    expect_size("basic", view(basic), m);
    expect_size("dual", view(dual), m);
    expect_size("reduced", view(reduced), n);
    hw::simplex::Room start;
    start.rows = m, start.columns = n;
    Owned<hw::simplex::Room> room(start);
    hw::simplex::Status status;
    {
        nb::gil_scoped_release release;
        status = hw::simplex::maximise(programme, view(basis), room.thing);
    }
    hw::copy<double>(room.thing.x, view(basic));
    hw::copy<double>(room.thing.dual, view(dual));
    hw::copy<double>(room.thing.reduced, view(reduced));
    return static_cast<int>(status);
}
}  // namespace

void glue::bind_simplex(nb::module_ &m) {
    m.def("maximise", &maximise, nb::arg("a"), nb::arg("b"), nb::arg("c"), nb::arg("basis"), nb::arg("basic"),
          nb::arg("dual"), nb::arg("reduced"));
}
