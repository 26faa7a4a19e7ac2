#include "../policies/pseudo_reward_programme.h"

#include "model.h"
#include "parts.h"

namespace {
using namespace glue;

// What a learner keeps up to date, one arm at a time.
struct Learner {
    explicit Learner(const Random &given) : model(given), programme(hw::Programme(model.view)) { programme.thing.forget(); }
    Int fit(Int k, Int pulls, Int total, Known<std::int64_t, 1> seen, Whole sums) {
        expect_size("sums", view(sums), model.view.arms());
        if (k < 0 || k >= model.view.arms() || !model.view.random(k))
            throw nb::value_error(("k: got " + std::to_string(k) + "; expected an arm of random rewards").c_str());
        expect(view(seen).size >= model.view.levels[k], "seen", view(seen).size, model.view.levels[k]);
        return hw::fit(model.view, programme.thing, k, pulls, total, view(seen), view(sums));
    }
    Random model;
    Owned<hw::Programme> programme;
};

double likeliest_law(Known<double, 2> a, Known<double, 1> q, Numbers f) {
    const hw::KnownTable rows = view(a);
    expect_size("q", view(q), rows.rows);
    expect_size("f", view(f), rows.rows);
    hw::likeliest::Room start;
    start.rows = rows.rows, start.points = rows.columns;
    const Owned<hw::likeliest::Room> room(start);
    return hw::likeliest::find({rows, view(q), view(f)}, room.thing);
}

// What arm k implies; bases (K, M + 1) are read and written, bound (K,) is written.
bool imply(Int k, Known<double, 2> a, Known<double, 2> g, Known<std::int64_t, 1> seen, WholeMatrix bases,
           Numbers bound) {
    const hw::KnownTable rows = view(a), means = view(g);
    expect_size("seen", view(seen), rows.rows);
    expect_size("bound", view(bound), means.rows);
    expect(view(bases).rows == means.rows, "bases", view(bases).rows, means.rows);
    if (k < 0 || k >= means.rows) throw nb::value_error("k: expected the number of an arm");
    expect(view(bases).columns == rows.rows + 1, "bases", view(bases).columns, rows.rows + 1);
    expect(means.columns == rows.columns, "g", means.columns, rows.columns);
    const Owned<hw::Programme> work(hw::Programme(means.rows, rows.rows, rows.columns));
    const hw::Ints kept = work.thing.bases[k].flat();
    hw::copy<Int>(view(bases).flat(), kept);
    hw::copy<double>(view(bound), work.thing.bound);
    const bool explained = hw::implied::imply({k, rows, means, view(seen)}, work.thing);
    hw::copy<Int>(kept, view(bases).flat());
    hw::copy<double>(work.thing.bound, view(bound));
    return explained;
}
}  // namespace

void glue::bind_pseudo_reward_programme(nb::module_ &m) {
    m.def("likeliest_law", &likeliest_law, nb::arg("a"), nb::arg("q"), nb::arg("f"));
    m.def("imply", &imply, nb::arg("k"), nb::arg("a"), nb::arg("g"), nb::arg("seen"), nb::arg("bases"),
          nb::arg("bound"));
    nb::class_<Learner>(m, "PseudoRewardProgramme")
        .def(nb::init<const Random &>(), nb::arg("random"))
        .def("fit", &Learner::fit, nb::arg("k"), nb::arg("pulls"), nb::arg("total"), nb::arg("seen"),
             nb::arg("sums"))
        .def("forget", [](Learner &self) { self.programme.thing.forget(); })
        .def("fitted", [](Learner &self, Int k) { return self.programme.thing.fitted[k]; }, nb::arg("k"));
}
