// The fit state and the joint index, for whoever decides one round at a time and for what is read of the
// state beside that.
#include "../policies/learning/joint_index.h"

#include "learning.h"
#include "parts.h"

namespace {
using namespace glue;
namespace joint = hw::joint;

struct Fit {
    Channels channels;
    Owned<hw::FitState> owned;

    Fit(const Channels &c, bool eager) : channels(c), owned(hw::FitState(c.view)) {
        state().eager = eager;
        hw::forget(state());
    }
    hw::FitState &state() { return owned.thing; }
    Int arm(Int k) {
        if (k < 0 || k >= state().view.arms()) throw nb::index_error("arm: no such number");
        return k;
    }
    Int row(Int k, Int i) {
        if (i < state().view.offset[arm(k)] || i >= state().view.offset[k + 1])
            throw nb::index_error("row: not one of the arm's");
        return i;
    }
};

void recall(Fit &fit, Known<double, 1> n, Known<bool, 1> doubted) {
    hw::FitState &state = fit.state();
    expect_size("n", view(n), state.view.rows());
    expect_size("doubted", view(doubted), state.view.arms());
    hw::copy<double>(view(n), state.n);
    hw::copy<bool>(view(doubted), state.doubted);
    hw::relearn(state);
}

void set_own(Fit &fit, Known<double, 1> own) {
    expect_size("own", view(own), fit.state().view.arms());
    hw::copy<double>(view(own), fit.state().own);
}
void set_share(Fit &fit, Known<double, 1> share) {
    expect_size("share", view(share), fit.state().view.arms());
    hw::copy<double>(view(share), fit.state().share);
}

Int contradiction(Fit &fit, double rate) { return hw::contradiction(fit.state(), -hw::log(rate)); }
bool reaches(Fit &fit, Int k, double delta, double x) {
    return joint::reaches(fit.state(), fit.arm(k), delta, x);
}

// Bounds of every arm anew, whatever was exact before.
void enclose(Fit &fit, double delta) {
    for (hw::ArmBounds &arm : fit.state().arms) arm.exact = false;
    joint::enclose(fit.state(), delta);
}
// A step of arm k's law from where it is said to be.
void improve(Fit &fit, Int k, double delta, Known<double, 1> p, double theta, Int tries) {
    hw::FitState &state = fit.state();
    hw::ArmBounds &arm = state.arms[fit.arm(k)];
    expect_size("p", view(p), state.view.atoms());
    hw::copy<double>(view(p), state.law(k).p);
    arm.theta = theta, arm.tries = tries;
    joint::improve(state, k, delta);
}

nb::object likeliest(Fit &fit) {
    hw::freshen(fit.state());
    return array_of(fit.state().likeliest_law());
}

// Whole rounds at delta = log t, arm k paying its reward number `level[k, x[t]]` where X is x[t]: the arms
// pulled.
nb::object play(Fit &fit, Known<std::int64_t, 2> level, Known<std::int64_t, 1> x) {
    hw::FitState &state = fit.state();
    const auto pays = view(level);
    const auto drawn = view(x);
    expect(pays.rows == state.view.arms(), "level", pays.rows, state.view.arms());
    for (const Int j : drawn) expect(0 <= j && j < pays.columns, "x: an entry", j, pays.columns);
    for (Int k = 0; k < pays.rows; ++k)
        for (const Int m : pays[k])
            expect(0 <= m && m < state.view.rows_of(k), "level: an entry", m, state.view.rows_of(k));
    return array_of<std::int64_t>(drawn.size, [&](Int t) {
        const Int k = joint::decide(state, state.log_next);
        hw::witness(state, k, state.view.offset[k] + pays(k, drawn[t]));
        return k;
    });
}

template <class Out, class Member> auto of_arms(Member member) {
    return [member](Fit &fit) {
        return array_of<Out>(fit.state().arms.size,
                             [&](Int ell) { return static_cast<Out>(fit.state().arms[ell].*member); });
    };
}
template <class Out, class Member> auto array_in(Member member) {
    return [member](Fit &fit) {
        const auto x = fit.state().*member;
        return array_of<Out>(x.size, [&](Int i) { return static_cast<Out>(x[i]); });
    };
}
template <class Member> auto number_in(Member member) {
    return [member](Fit &fit) { return fit.state().*member; };
}

void bind_state(nb::class_<Fit> &fit) {
    using S = hw::FitState;
    fit.def_prop_ro("n", array_in<double>(&S::n), "How often each row was seen.")
        .def_prop_ro("pulls", array_in<double>(&S::pulls))
        .def_prop_ro("doubted", array_in<bool>(&S::doubted))
        .def_prop_ro("slack", array_in<double>(&S::slack))
        .def_prop_ro("leeway", array_in<double>(&S::leeway))
        .def_prop_rw("own", array_in<double>(&S::own), &set_own,
                     "Each arm's own index, which caps the joint one.")
        .def_prop_rw("share", array_in<double>(&S::share), &set_share,
                     "The part of delta an arm's index goes by.")
        .def_prop_rw("eager", number_in(&S::eager), [](Fit &f, bool eager) { f.state().eager = eager; })
        .def_prop_ro("total", number_in(&S::total))
        .def_prop_ro("likelihood", number_in(&S::likelihood), "That of the likeliest law at hand.")
        .def_prop_ro("forecast", number_in(&S::forecast), "The forecaster's likelihood.");
}

void bind_bounds(nb::class_<Fit> &fit) {
    using A = hw::ArmBounds;
    fit.def_prop_ro("bound", of_arms<double>(&A::bound), "Each arm's index, or what bounds it from above.")
        .def_prop_ro("floor", of_arms<double>(&A::floor))
        .def_prop_ro("base", of_arms<double>(&A::base), "Each arm's mean under the likeliest law at hand.")
        .def_prop_ro("theta", of_arms<double>(&A::theta))
        .def_prop_ro("exact", of_arms<bool>(&A::exact))
        .def_prop_ro("tries", of_arms<std::int64_t>(&A::tries),
                     "How often an arm was worked at for the last decision.");
}

}  // namespace

void glue::bind_joint(nb::module_ &m) {
    nb::class_<Fit> fit(m, "FitState",
                        "What is known of the law of X, with bounds of every arm's joint index.");
    fit.def(nb::init<const Channels &, bool>(), nb::arg("channels"), nb::arg("eager") = false)
        .def("forget", [](Fit &f) { hw::forget(f.state()); })
        .def("recall", &recall, nb::arg("n"), nb::arg("doubted"),
             "Take these counts, but for those of doubted arms.")
        .def("witness", [](Fit &f, Int k, Int i) { hw::witness(f.state(), f.arm(k), f.row(k, i)); },
             nb::arg("k"), nb::arg("row"))
        .def("freshen", [](Fit &f) { hw::freshen(f.state()); })
        .def("likeliest", &likeliest, "The law that makes the counts most likely.")
        .def("contradiction", &contradiction, nb::arg("rate"), "The arm to doubt, or -1.")
        .def("doubt", [](Fit &f, Int k) { hw::doubt(f.state(), f.arm(k)); }, nb::arg("k"))
        .def("check", [](Fit &f, double rate) { hw::check(f.state(), -hw::log(rate)); }, nb::arg("rate"),
             "Doubt arms until what is left can be explained.")
        .def("decide", [](Fit &f, double delta) { return joint::decide(f.state(), delta); }, nb::arg("delta"))
        .def("reaches", &reaches, nb::arg("k"), nb::arg("delta"), nb::arg("x"),
             "Whether arm k's index is at least x.")
        .def("enclose", &enclose, nb::arg("delta"), "Bounds of every arm, whatever was exact before.")
        .def("raise_prices", [](Fit &f, Int k) { joint::raise(f.state(), f.arm(k)); }, nb::arg("k"))
        .def("improve", &improve, nb::arg("k"), nb::arg("delta"), nb::arg("p"), nb::arg("theta"),
             nb::arg("tries"), "One more step of arm k's law from p and the tilt theta.")
        .def("play", &play, nb::arg("level"), nb::arg("x"), "Whole rounds: the arms pulled.");
    bind_state(fit);
    bind_bounds(fit);
}
