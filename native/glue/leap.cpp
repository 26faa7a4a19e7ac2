// What the leap engine is made of, for Python: whole numbers by chance, and what is known of rewards in an unknown order.
#include "../engines/binomial_draws.h"
#include "../policies/standing.h"
#include "../registry.h"
#include "model.h"
#include "parts.h"

namespace glue {
namespace {

using namespace nb::literals;

// Draws of one replication.
class Draws {
  public:
    Draws(std::uint64_t seed, Int replication) : key_(hw::Key::of(seed)), draws_(hw::BinomialDraws{}) { rewind(replication); }

    void rewind(Int replication) { draws_.thing.rewind(key_, replication); }
    double unit() { return draws_.thing.unit(); }
    void binomial(Int n, double p, Whole out) {
        for (Int &x : view(out)) x = draws_.thing.binomial(n, p);
    }
    void hypergeometric(Int good, Int bad, Int taken, Whole out) {
        for (Int &x : view(out)) x = draws_.thing.hypergeometric(good, bad, taken);
    }
    void split(Known<std::int64_t, 1> whole, Int taken, WholeMatrix out) {
        const auto from = view(whole);
        const auto rows = view(out);
        expect(rows.columns == from.size, "out: the last axis", rows.columns, from.size);
        for (Int i = 0; i < rows.rows; ++i) {
            std::vector<Int> left(from.begin(), from.end());
            Int n = 0;
            for (const Int x : left) n += x;
            draws_.thing.split({left.data(), from.size}, n, taken, rows[i]);
        }
    }
    // Orders of what an urn holds.
    void take(Known<std::int64_t, 1> whole, WholeMatrix out) {
        const auto from = view(whole);
        const auto rows = view(out);
        Int n = 0;
        for (const Int x : from) n += x;
        expect(rows.columns == n, "out: the last axis", rows.columns, n);
        for (Int i = 0; i < rows.rows; ++i) {
            std::vector<Int> left(from.begin(), from.end());
            for (Int place = 0; place < n; ++place) rows(i, place) = draws_.thing.take({left.data(), from.size}, n - place);
        }
    }

  private:
    hw::Key key_;
    Owned<hw::BinomialDraws> draws_;
};

// Rewards that come so many times each in an unknown order.
class Order {
  public:
    Order(Known<std::int64_t, 1> drawn, Known<std::int64_t, 1> pay) : drawn_(drawn), pay_(pay) {
        const auto times = view(drawn), column = view(pay);
        expect_size("pay", column, times.size);
        for (const Int x : times) stretch_.m += x;
        stretch_.drawn = times;
        stretch_.row = {column.data, column.size, 1};
    }
    hw::Spread spread() const { return hw::Spread(stretch_, 0, stretch_.gain(0)); }
    hw::Stretch stretch(double sure) const {
        hw::Stretch out = stretch_;
        out.sure = sure;
        return out;
    }

  private:
    Known<std::int64_t, 1> drawn_, pay_;
    hw::Stretch stretch_;
};

// Whether a rule's choice of its most-pulled arm lasts, whatever the order in which that arm pays `drawn`, after these counts.
template <class Rule>
bool lasts(const Rewards &rewards, const hw::Settings &settings, nb::dict counts, Known<std::int64_t, 1> drawn, double sure) {
    const hw::Indexed<Rule> policy{rewards.view, settings};
    struct Laid {
        hw::State<double> state;
        hw::Standing<Rule> standing;
        void lay(hw::Arena &arena) {
            state.lay(arena);
            standing.lay(arena, state.arms());
        }
    } start;
    start.state.shape = policy.shape();
    Owned<Laid> owned(start);
    hw::State<double> &s = owned.thing.state;
    hw::Standing<Rule> &standing = owned.thing.standing;
    policy.forget(s);
    const auto pulls = view(nb::cast<Whole>(counts["pulls"])), total = view(nb::cast<Whole>(counts["total"]));
    const auto sums = view(nb::cast<WholeMatrix>(counts["sums"]));
    expect_size("pulls", pulls, s.arms());
    expect_size("total", total, s.arms());
    for (Int k = 0; k < s.arms(); ++k) {
        s.pulls[k] = pulls[k];
        s.total[k] = total[k];
        s.round += pulls[k];
    }
    if (s.shape.paired) {
        expect(sums.size() == s.arms() * s.arms(), "sums", sums.size(), s.arms() * s.arms());
        for (Int i = 0; i < sums.size(); ++i) s.sums[i] = sums.data[i];
    }
    policy.rebuild(s);
    standing.forget();
    hw::Stretch stretch{0, view(drawn), rewards.view.table[s.most_pulled], hw::largest_entry(rewards.view), sure};
    expect_size("drawn", stretch.drawn, rewards.view.kinds());
    for (const Int x : stretch.drawn) stretch.m += x;
    return standing.lasts(s, policy, stretch);
}

bool lasts_by_rule(Int rule, const Rewards &rewards, const hw::Settings &settings, nb::dict counts,
                   Known<std::int64_t, 1> drawn, double sure) {
    switch (static_cast<hw::Rule>(rule)) {
#define HW_CASE(code, name, type)                                                                            \
    case hw::Rule::code:                                                                                     \
        if constexpr (hw::stands<hw::type>) return lasts<hw::type>(rewards, settings, counts, drawn, sure);  \
        break;
        HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
        default: break;
    }
    throw nb::value_error("rule: expected one whose choice may stand");
}

}  // namespace

void bind_leap(nb::module_ &m) {
    nb::class_<Draws>(m, "Draws")
        .def(nb::init<std::uint64_t, Int>(), "seed"_a, "replication"_a = 0)
        .def("rewind", &Draws::rewind, "replication"_a)
        .def("unit", &Draws::unit)
        .def("binomial", &Draws::binomial, "n"_a, "p"_a, "out"_a)
        .def("hypergeometric", &Draws::hypergeometric, "good"_a, "bad"_a, "taken"_a, "out"_a)
        .def("split", &Draws::split, "whole"_a, "taken"_a, "out"_a)
        .def("take", &Draws::take, "whole"_a, "out"_a);
    nb::class_<Order>(m, "Order")
        .def(nb::init<Known<std::int64_t, 1>, Known<std::int64_t, 1>>(), "drawn"_a, "pay"_a)
        .def("doubt",
             [](const Order &self, double start, double end) {
                 return hw::doubt(self.stretch(hw::infinity), self.spread(), start, end);
             },
             "start"_a, "end"_a)
        .def("keeps",
             [](const Order &self, double start, double end, double sure) {
                 return hw::keeps(self.stretch(sure), self.spread(), start, end);
             },
             "start"_a, "end"_a, "sure"_a)
        .def("strays", [](const Order &self, double sure) { return hw::strays(self.stretch(sure), self.spread()); }, "sure"_a)
        .def_prop_ro("low", [](const Order &self) { return self.spread().low; })
        .def_prop_ro("second", [](const Order &self) { return self.spread().squares * self.spread().share; });
    m.def("lasts", &lasts_by_rule, "rule"_a, "rewards"_a, "settings"_a, "counts"_a, "drawn"_a, "sure"_a);
    m.attr("MANY_REWARDS") = hw::many_rewards;
    m.attr("NARROW_VARIANCE") = hw::narrow_variance;
}

}  // namespace glue
