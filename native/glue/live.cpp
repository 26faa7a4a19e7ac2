// Live policies for Python.
#include "live.h"

#include "../registry.h"
#include "parts.h"

namespace glue {
namespace {

using namespace nb::literals;

template <class Policy> std::unique_ptr<AnyLive> start(const Policy &policy, Int replication) {
    hw::Live<Policy> live;
    live.policy = policy;
    return std::make_unique<LiveOf<hw::Live<Policy>>>(live, replication);
}

template <class Rule> std::unique_ptr<AnyLive> index_policy(const Model &model, const hw::Settings &settings, Int replication, Blocks &blocks) {
    const hw::Rewards &rewards = model.rewards.view;
    if (model.columns) {
        if constexpr (!Rule::needs.levels)
            return start(hw::Many<Rule>{rewards, settings, model.columns->view, blocks.memory()}, replication);
        throw nb::value_error("rule: this one reads every level of every arm; there are too many");
    }
    if (model.random && settings.filter != hw::Filter::none)
        return start(hw::IndexedRandom<Rule>{{rewards, settings}, model.random->view}, replication);
    return start(hw::Indexed<Rule, true>{rewards, settings}, replication);
}

std::unique_ptr<AnyLive> make(const Model &model, const hw::Settings &settings, Int replication, Blocks &blocks) {
    switch (static_cast<hw::Rule>(settings.rule)) {
#define HW_CASE(code, name, type) \
    case hw::Rule::code: return index_policy<hw::type>(model, settings, replication, blocks);
        HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
#define HW_CASE(code, name, type) \
    case hw::Rule::code: return start(hw::Learning<hw::type>{model.rewards.view, settings, model.evidence.value().view}, replication);
        HW_LEARNING_RULES(HW_CASE)
#undef HW_CASE
    }
    throw nb::value_error("rule: expected the number of one");
}

// A live policy with the arrays that it reads.
class Live {
  public:
    Live(const Model &model, const hw::Settings &settings, Int replication) : model_(model), live_(make(model_, settings, replication, blocks_)) {}
    Live(const Live &other) : model_(other.model_), live_(other.live_->copy()) {
        if (model_.columns) throw nb::value_error("copy: expected a policy that keeps a table");  // what grows is not copied
    }

    AnyLive &operator*() { return *live_; }
    Int arm(Int k) const {
        if (k < 0 || k >= model_.rewards.view.arms()) throw nb::index_error("arm: expected the number of one");
        return k;
    }
    void pay(Int k, Int kind) {
        if (kind < 0 || kind >= (model_.columns ? model_.columns->view.atoms() : model_.rewards.view.kinds())) throw nb::index_error("kind: expected the number of one of the arm's rewards");
        live_->pay(arm(k), kind);
    }
    Int bytes() {
        Int channels = 0;
        if (model_.evidence) {
            const hw::ChannelView &c = model_.evidence->channels.view;
            channels = c.row.size * 24 + c.rows() * 10 + (c.g.size() + c.error.size() + c.strain.size()) * 8 + c.cell.size() * 2;
        }
        return live_->bytes() + channels;
    }
    hw::FitState &fit() {
        hw::FitState *const fit = live_->learner().fit;
        if (fit == nullptr) throw nb::attribute_error("fit: this policy does not learn the law of X");
        return *fit;
    }

  private:
    Model model_;
    Blocks blocks_;
    std::unique_ptr<AnyLive> live_;
};

template <class T> auto numpy(nb::handle owner, hw::View<T> x) {
    using Shown = std::conditional_t<std::is_same_v<T, Int>, std::int64_t, T>;
    return nb::ndarray<nb::numpy, Shown, nb::ndim<1>>(reinterpret_cast<Shown *>(x.data), {static_cast<std::size_t>(x.size)}, owner);
}
template <class T> auto numpy(nb::handle owner, hw::Grid<T> x) {
    using Shown = std::conditional_t<std::is_same_v<T, Int>, std::int64_t, T>;
    return nb::ndarray<nb::numpy, Shown, nb::ndim<2>>(reinterpret_cast<Shown *>(x.data),
                                                      {static_cast<std::size_t>(x.rows), static_cast<std::size_t>(x.columns)}, owner);
}

// A state's arrays, which share its memory and keep the policy alive.
nb::object arrays(nb::handle self, bool ahead) {
    const StateView s = (*nb::cast<Live &>(self)).state(ahead);
    nb::dict out;
    out["pulls"] = numpy(self, s.pulls);
    out["total"] = numpy(self, s.total);
    out["successes"] = numpy(self, s.successes);
    out["squares"] = numpy(self, s.squares);
    out["rest"] = numpy(self, s.rest);
    out["pending"] = numpy(self, s.pending);
    out["shift"] = numpy(self, s.shift);
    out["mean"] = numpy(self, s.mean);
    out["root"] = numpy(self, s.root);
    out["index"] = numpy(self, s.index);
    out["sums"] = numpy(self, s.sums);
    out["seen"] = numpy(self, s.seen);
    return out;
}

// The arms that the guard spoke against.
nb::list doubted(Live &self) {
    nb::list out;
    const hw::FitState &fit = self.fit();
    for (Int k = 0; k < fit.doubted.size; ++k)
        if (fit.doubted[k]) out.append(k);
    return out;
}

// Where a learner is going, copied out: the chain of latent-ts and the counts it was prepared for, the law that graves-lai planned for
// and until when it holds which arm.
nb::dict course(Live &self) {
    const LearnerView known = (*self).learner();
    nb::dict out;
    if (known.particle.data != nullptr) {
        out["particle"] = array_of(known.particle);
        out["prepared"] = array_of(known.prepared);
    }
    if (known.planned.data != nullptr) {
        out["planned"] = array_of(known.planned);
        out["held"] = nb::make_tuple(known.held_until, known.held_arm);
    }
    return out;
}

nb::object likeliest(Live &self) {
    hw::freshen(self.fit());
    return array_of(self.fit().likeliest_law());
}

// What an audit makes of a choice: `state` has the arms' pulls, pending, mean and index.
Int audited_arm(Int chosen, double log_t, const Rewards &rewards, const hw::Settings &settings, nb::dict state) {
    hw::State<double> start;
    start.shape.arms = rewards.view.arms();
    Owned<hw::State<double>> owned(start);
    hw::State<double> &s = owned.thing;
    s.forget();
    const auto take = [&](const char *name, auto kind, auto &row) {
        const auto x = view(nb::cast<decltype(kind)>(state[name]));
        expect_size(name, x, s.arms());
        for (Int k = 0; k < s.arms(); ++k) row[k] = x[k];
    };
    take("pulls", Whole(), s.pulls), take("pending", Whole(), s.pending);
    take("mean", Numbers(), s.mean), take("index", Numbers(), s.index);
    for (Int k = 0; k < s.arms(); ++k)
        if (s.pulls[k] > s.pulls[s.most_pulled]) s.most_pulled = k;
    return hw::audited(s, chosen, s.mean[s.most_pulled], log_t, rewards.view, settings);
}

}  // namespace

void bind_live(nb::module_ &m) {
    m.def("audited", &audited_arm, "chosen"_a, "log_t"_a, "rewards"_a, "settings"_a, "state"_a,
          "The arm to pull instead of the chosen one, or that one.");
    m.def(
        "audit_bar",
        [](const Rewards &rewards, const hw::Settings &settings, double top, double log_t) {
            return hw::audit_bar(top, log_t, rewards.view, settings);
        },
        "rewards"_a, "settings"_a, "top"_a, "log_t"_a, "The mean that an audited arm must be able to reach.");
    nb::class_<Live>(m, "Live")
        .def(nb::init<const Model &, const hw::Settings &, Int>(), "model"_a, "settings"_a, "replication"_a)
        .def("copy", [](const Live &self) { return Live(self); })
        .def("select", [](Live &self) { return (*self).select(); })
        .def("decide", [](Live &self) { return (*self).decide(); })
        .def("decide_ahead",
             [](Live &self, Whole out, Known<std::int64_t, 1> off, Int draws) { (*self).decide_ahead(view(out), view(off), draws); },
             "out"_a, "off"_a, "draws"_a)
        .def("expect", [](Live &self, Known<std::int64_t, 1> arms) { (*self).expect(view(arms)); }, "arms"_a)
        .def("cancel", [](Live &self, Int arm) { (*self).cancel(self.arm(arm)); }, "arm"_a)
        .def("pay", &Live::pay, "arm"_a, "kind"_a)
        .def("forget_choice", [](Live &self) { (*self).forget_choice(); })
        .def("rebuild", [](Live &self) { (*self).rebuild(); })
        .def("doubted", &doubted, "The arms that are judged by their own rewards alone.")
        .def("course", &course)
        .def("likeliest", &likeliest, "The likeliest law of X.")
        .def("tries", [](Live &self) {
                 const hw::FitState &fit = self.fit();
                 return array_of<std::int64_t>(fit.arms.size, [&](Int k) { return fit.arms[k].tries; });
             }, "How often each arm was worked at for the last decision.")
        .def("count", [](Live &self, Int arm, Int atom, Int n) { (*self).count(self.arm(arm), atom, n); }, "arm"_a, "atom"_a, "n"_a)
        .def("row", [](Live &self, Int arm) {
                 const hw::KnownInts row = (*self).row_of(self.arm(arm));
                 return array_of<std::int64_t>(row.size, [&](Int k) { return row[k]; });
             }, "arm"_a)
        .def("seen", [](Live &self) {
                 const auto seen = (*self).seen();
                 const auto part = [&](auto get) { return array_of<std::int64_t>(static_cast<Int>(seen.size()), get); };
                 return nb::make_tuple(part([&](Int i) { return seen[static_cast<std::size_t>(i)].first; }),
                                       part([&](Int i) { return seen[static_cast<std::size_t>(i)].second; }));
             })
        .def("follow",
             [](Live &self, Known<double, 1> law, Known<double, 1> prepared, double held_until, Int held_arm) {
                 (*self).follow(view(law), view(prepared), held_until, self.arm(held_arm));
             },
             "law"_a, "prepared"_a, "held_until"_a, "held_arm"_a)
        .def("look_closely", [](Live &self) { self.fit().eager = true; hw::relearn(self.fit()); })
        .def("doubt", [](Live &self, Known<bool, 1> doubted) {
                 expect_size("doubted", view(doubted), self.fit().view.arms());
                 hw::copy<bool>(view(doubted), self.fit().doubted);
             }, "doubted"_a)
        .def("arrays", [](nb::handle self, bool ahead) { return arrays(self, ahead); }, "ahead"_a)
        .def("most_pulled", [](Live &self, bool ahead) { return (*self).most_pulled(ahead); }, "ahead"_a)
        .def_prop_ro("bytes", &Live::bytes,
                     "How much memory it keeps, but for what grows with the rewards.")
        .def_prop_ro("debts", [](Live &self) { return (*self).debts(); }, "Levels that the leader's row of sums is owed for.")
        .def_prop_ro("waiting", [](Live &self) { return (*self).waiting(); })
        .def_prop_rw("rounds", [](Live &self) { return (*self).round(); }, [](Live &self, Int round) { (*self).set_round(round); });
}

}  // namespace glue
