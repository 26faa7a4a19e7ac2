// The Graves-Lai exploration rates, and graves-lai's decisions on a fit state.
#include "../policies/learning/exploration.h"

#include "learning.h"
#include "parts.h"

namespace {
using namespace glue;
using KnownNumbers = Known<double, 1>;
using KnownWhole = Known<std::int64_t, 1>;

// Fill `c` (K,) with the optimal exploration rates at the law `p` (J,).
hw::Rates exploration_rates(const Channels &channels, const KnownNumbers &p, const Numbers &c) {
    expect_size("p", view(p), channels.view.atoms());
    expect_size("c", view(c), channels.view.arms());
    nb::gil_scoped_release free;
    Owned<hw::RatesProgramme> programme{hw::RatesProgramme(channels.view)};
    return programme.thing.solve(channels.view, view(p), view(c));
}

// A learner that plays graves-lai by itself, without audits.
struct Explorer {
    Channels channels;
    Owned<hw::FitState> state;
    Owned<hw::Exploration> mine;

    Explorer(const Channels &c, bool eager)
        : channels(c), state(hw::FitState(c.view)), mine(hw::Exploration(c.view)) {
        state.thing.eager = eager;
        hw::forget(state.thing);
        hw::forget(mine.thing);
    }
};

// Whole rounds, arm k paying `level[k, x[t]]` of its rewards where X is x[t]: the arms pulled.
nb::object play(Explorer &explorer, const Known<std::int64_t, 2> &level, const KnownWhole &x) {
    hw::FitState &state = explorer.state.thing;
    hw::Exploration &mine = explorer.mine.thing;
    const auto pays = view(level);
    const auto drawn = view(x);
    const Int arms = state.view.arms();
    expect(pays.rows == arms, "level", pays.rows, arms);
    for (const Int j : drawn) expect(0 <= j && j < pays.columns, "x: an entry", j, pays.columns);
    for (Int k = 0; k < arms; ++k)
        for (const Int m : pays[k])
            expect(0 <= m && m < state.view.rows_of(k), "level: an entry", m, state.view.rows_of(k));
    std::vector<Int> pulls(static_cast<std::size_t>(arms)), pending(pulls);
    std::vector<double> index(pulls.size());
    hw::forget(state);
    hw::forget(mine);
    return array_of<std::int64_t>(drawn.size, [&](Int t) {
        const hw::Played played{{pulls.data(), arms}, {pending.data(), arms}, t};
        const Int k = hw::explore(mine, state, played, {index.data(), arms});
        ++pulls[static_cast<std::size_t>(k)];
        hw::witness(state, k, state.view.offset[k] + pays(k, drawn[t]));
        return k;
    });
}

}  // namespace

void glue::bind_exploration(nb::module_ &m) {
    nb::enum_<hw::Rates>(m, "Rates", nb::is_arithmetic(), "What became of the rates.")
        .value("SOLVED", hw::Rates::SOLVED, "They are optimal.")
        .value("NOTHING", hw::Rates::NOTHING, "No arm needs to be explored: they are 0.")
        .value("STALLED", hw::Rates::STALLED, "Rounding got in the way.");
    m.def("exploration_rates", &exploration_rates, nb::arg("channels"), nb::arg("p"), nb::arg("c").noconvert(),
          "Fill c with the optimal exploration rates at the law p.");
    nb::class_<Explorer>(m, "Explorer", "graves-lai on its own, without guard and audits.")
        .def(nb::init<const Channels &, bool>(), nb::arg("channels"), nb::arg("eager") = false)
        .def("play", &play, nb::arg("level"), nb::arg("x"), "Whole rounds from the start: the arms pulled.");
}
