// The curvature of the atoms in use, factored, for whoever looks at it while atoms come and go.
#include "../policies/learning/quadratic.h"

#include "learning.h"
#include "parts.h"

namespace {
using namespace glue;

struct Curvature {
    Channels channels;
    Owned<hw::Room> owned;
    std::vector<double> bend;
    hw::quadratic::Active active;

    Curvature(const Channels &c, const Known<double, 1> &p, const Known<double, 1> &curvature)
        : channels(c), owned(hw::room_for(c.view)) {
        expect_size("p", view(p), c.view.atoms());
        expect_size("bend", view(curvature), c.view.rows());
        bend.assign(view(curvature).begin(), view(curvature).end());
        hw::fill(room().scatter, 0.0), hw::fill(room().gone, 0.0), hw::fill(room().pull, 0.0);
        hw::list_used(room(), view(p));
        active = hw::quadratic::start(c.view, room(), view(p), bends());
    }
    hw::Room &room() { return owned.thing; }
    hw::KnownDoubles bends() const { return {bend.data(), static_cast<Int>(bend.size())}; }
    hw::View<int> used() { return room().active.first(active.size); }
};

void take_in(Curvature &of, Int j) {
    hw::Room &room = of.room();
    if (j < 0 || j >= of.channels.view.atoms()) throw nb::index_error("atom: no such number");
    expect(of.active.size < room.square.rows, "atoms in use", of.active.size + 1, room.square.rows);
    room.active[of.active.size++] = static_cast<int>(j);
    hw::quadratic::append(of.channels.view, room, of.active.size, of.bends(), of.active.ridge);
}

void drop(Curvature &of, Int slot, double mass) {
    hw::Room &room = of.room();
    if (slot < 0 || slot >= of.active.size) throw nb::index_error("slot: no such number");
    hw::quadratic::let_go(of.channels.view, room, slot, slot, of.active.size, mass);
    hw::quadratic::remove(room.square, of.active.size, slot);
    for (Int a = slot + 1; a < of.active.size; ++a) room.active[a - 1] = room.active[a];
    --of.active.size;
}

void solve(Curvature &of, const Numbers &u, const Numbers &v) {
    expect_size("u", view(u), of.active.size);
    expect_size("v", view(v), of.active.size);
    hw::quadratic::solve(of.room().square, of.active.size, view(u), view(v));
}

nb::object factor(Curvature &of) {
    const Int size = of.active.size;
    const auto entry = [&](Int i) { return i / size <= i % size ? of.room().square(i / size, i % size) : 0.0; };
    return array_of<double>(size * size, entry);
}

}  // namespace

void glue::bind_quadratic(nb::module_ &m) {
    nb::class_<Curvature>(m, "Curvature", "The curvature of the atoms that p uses, factored: A' diag(bend) A.")
        .def(nb::init<const Channels &, const Known<double, 1> &, const Known<double, 1> &>(),
             nb::arg("channels"), nb::arg("p"), nb::arg("bend"))
        .def("take_in", &take_in, nb::arg("atom"))
        .def("drop", &drop, nb::arg("slot"), nb::arg("mass"),
             "Its mass goes to `gone`, the others feel it in `pull`.")
        .def("solve", &solve, nb::arg("u").noconvert(), nb::arg("v").noconvert(),
             "u and v, over the atoms in use, become H^-1 u and H^-1 v.")
        .def_prop_ro("factor", &factor, "The upper triangular factor, row after row.")
        .def_prop_ro("active", [](Curvature &of) {
                 return array_of<std::int64_t>(of.active.size, [&](Int a) { return Int{of.used()[a]}; });
             }, "The atoms in use.")
        .def_prop_ro("gone", [](Curvature &of) { return array_of(of.room().gone); })
        .def_prop_ro("pull", [](Curvature &of) { return array_of(of.room().pull); })
        .def_prop_ro("ridge", [](Curvature &of) { return of.active.ridge; });
}
