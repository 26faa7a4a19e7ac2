// The likelihood of counts under laws of X, for whoever asks outside a round: profiles, fits, explanations.
#include "../policies/learning/joint_index.h"

#include "learning.h"
#include "parts.h"

namespace {
using namespace glue;

template <class T, int D> auto known(const nb::dict &arrays, const char *name) {
    const std::string what = name;
    if (!arrays.contains(name))
        throw nb::value_error((what + ": missing; expected an array of the channels").c_str());
    Known<T, D> array;
    const std::string wanted = std::to_string(D) + " dimensions, contiguous";
    if (!nb::try_cast(arrays[name], array, false))
        throw nb::type_error((what + ": got another type or shape; expected " + wanted).c_str());
    return view(array);
}

// Shapes that do not fit each other would be read past their ends.
void check(const hw::ChannelView &c) {
    const Int entries = c.row.size, rows = c.rows();
    expect_size("start", c.start, c.atoms() + 1);
    expect_size("offset", c.offset, c.arms() + 1);
    expect_size("weight", c.weight, entries);
    expect_size("atom", c.atom, entries);
    expect_size("chance", c.chance, entries);
    expect_size("begin", c.begin, rows + 1);
    expect_size("lone", c.lone, rows);
    expect(c.offset[c.arms()] == rows, "offset: its last entry", c.offset[c.arms()], rows);
    expect(c.start[c.atoms()] == entries, "start: its last entry", c.start[c.atoms()], entries);
    expect(c.pair.rows == c.cell.rows, "pair", c.pair.rows, c.cell.rows);
    if (c.pair.rows > 0) expect(c.cell.columns == c.atoms(), "cell", c.cell.columns, c.atoms());
    if (c.learned()) {
        expect(c.error.rows == c.arms() && c.error.columns == c.atoms(), "error", c.error.size(), c.g.size());
        expect(c.strain.rows == c.arms() && c.strain.columns == c.atoms(), "strain", c.strain.size(),
               c.g.size());
    }
}

hw::ChannelView view_of(const nb::dict &arrays) {
    hw::ChannelView c;
    c.start = known<std::int64_t, 1>(arrays, "start"), c.row = known<std::int32_t, 1>(arrays, "row");
    c.weight = known<double, 1>(arrays, "weight"), c.begin = known<std::int64_t, 1>(arrays, "begin");
    c.atom = known<std::int32_t, 1>(arrays, "atom"), c.sure = known<bool, 1>(arrays, "sure");
    c.chance = known<double, 1>(arrays, "chance"), c.pair = known<std::int64_t, 2>(arrays, "pair");
    c.cell = known<std::uint16_t, 2>(arrays, "cell"), c.lone = known<bool, 1>(arrays, "lone");
    c.g = known<double, 2>(arrays, "g"), c.offset = known<std::int64_t, 1>(arrays, "offset");
    c.error = known<double, 2>(arrays, "error"), c.strain = known<double, 2>(arrays, "strain");
    check(c);
    const auto one = [](double weight) { return weight == 1.0; };
    c.plain = c.row.size == c.g.size() && std::all_of(c.weight.begin(), c.weight.end(), one);
    for (Int q = 0; q < c.pair.rows; ++q)
        c.cells = hw::max(c.cells, c.rows_of(c.pair(q, 0)) * c.rows_of(c.pair(q, 1)));
    return c;
}

// Channels with room to work in.
struct Likelihood {
    Channels channels;
    Owned<hw::Room> room;

    explicit Likelihood(const Channels &c) : channels(c), room(hw::room_for(c.view)) {
        hw::fill(room.thing.scatter, 0.0);
    }
    hw::Counts counts(const Known<double, 1> &n) {
        expect_size("n", view(n), channels.view.rows());
        return hw::counts_of(view(n), room.thing);
    }
    hw::Law law(const Numbers &p) {
        expect_size("p", view(p), channels.view.atoms());
        return {view(p), room.thing.z};
    }
    void expect_mean(const Known<double, 1> &g) { expect_size("g", view(g), channels.view.atoms()); }
};

nb::tuple climb(Likelihood &of, Known<double, 1> n, Known<double, 1> g, double theta, double tolerance,
                Numbers p) {
    of.expect_mean(g);
    const hw::Law law = of.law(p);
    const double gap = hw::climb(of.channels.view, of.room.thing, of.counts(n), {view(g), theta}, tolerance,
                                 law);
    return nb::make_tuple(array_of(law.z), gap);
}

nb::tuple lift(Likelihood &of, Known<double, 1> n, Known<double, 1> g, double delta, double best, Numbers p) {
    of.expect_mean(g);
    const hw::Law law = of.law(p);
    const double theta = hw::joint::lift(of.channels.view, of.room.thing, of.counts(n), view(g), delta,
                                         best, law);
    return nb::make_tuple(array_of(law.z), theta, hw::largest(of.room.thing.gradient));
}

nb::object through(Likelihood &of, Known<double, 1> p) {
    expect_size("p", view(p), of.channels.view.atoms());
    hw::through(of.channels.view, view(p), of.room.thing.z);
    return array_of(of.room.thing.z);
}

nb::object back(Likelihood &of, Known<double, 1> y) {
    expect_size("y", view(y), of.channels.view.rows());
    hw::fill(of.room.thing.pull, 0.0);
    hw::back(of.channels.view, of.room.thing, view(y), of.room.thing.pull);
    return array_of(of.room.thing.pull);
}

double log_likelihood(Likelihood &of, Known<double, 1> n, Known<double, 1> z) {
    expect_size("z", view(z), of.channels.view.rows());
    return hw::log_likelihood(of.counts(n), view(z));
}

}  // namespace

void glue::bind_likelihood(nb::module_ &m) {
    nb::class_<Channels>(m, "ChannelView",
                         "The channels as learning policies read them: arrays that stay Python's.")
        .def("__init__", [](Channels *self, nb::kwargs arrays) {
            new (self) Channels{view_of(arrays), nb::dict(arrays)};
        })
        .def_prop_ro("pairs", [](const Channels &self) { return self.view.pair.rows; },
                     "How many pairs of arms are read together.");
    nb::class_<Likelihood>(m, "Likelihood", "The likelihood of counts under laws of X, with room to work in.")
        .def(nb::init<const Channels &>(), nb::arg("channels"))
        .def("climb", &climb, nb::arg("n"), nb::arg("g"), nb::arg("theta"), nb::arg("tolerance"),
             nb::arg("p").noconvert(),
             "Maximise L(p) + theta g.p from p, in place: A p, and how much better any other law could be.")
        .def("lift", &lift, nb::arg("n"), nb::arg("g"), nb::arg("delta"), nb::arg("best"),
             nb::arg("p").noconvert(),
             "Tilt p, in place, towards g until it is delta less likely than `best`: A p, theta, and the "
             "gradient's largest entry.")
        .def("through", &through, nb::arg("p"), "A p: how likely each row is.")
        .def("back", &back, nb::arg("y"), "A'y, over atoms.")
        .def("log_likelihood", &log_likelihood, nb::arg("n"), nb::arg("z"),
             "sum n log z over the rows that were seen.");
}
