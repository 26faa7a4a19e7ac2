// Problems, laws and games for Python.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "../builds/engines.h"
#include <nanobind/stl/optional.h>

#include "../engines/general.h"
#include "../policies/standing.h"
#include "../registry.h"
#include "arrays.h"
#include "builds.h"
#include "model.h"
#include "parts.h"

namespace glue {
namespace {

using namespace nb::literals;

// The engines that this processor runs, the widest registers last.
std::vector<const hw::Engines *> runnable() { return HW_RUNNABLE(engines); }

// The last of them, or the one that was asked for by name.
const hw::Engines &pick_engines(const char *wanted) {
    if (wanted == nullptr || *wanted == 0) return *runnable().back();
    for (const hw::Engines *some : runnable())
        if (std::strcmp(wanted, some->name) == 0) return *some;
    throw nb::import_error(
        (std::string("HEADWATER_SIMD: got ") + wanted + "; expected baseline, avx2 or avx512, whichever this processor has").c_str());
}

const hw::Engines &engines() {
    static const hw::Engines &picked = pick_engines(std::getenv("HEADWATER_SIMD"));
    return picked;
}

// Whether a rule has the trait that the leap engine asks for.
bool stands_for(Int rule) {
    switch (static_cast<hw::Rule>(rule)) {
#define HW_CASE(code, name, type) \
    case hw::Rule::code: return hw::stands<hw::type>;
        HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
        default: break;
    }
    return false;
}

// A policy's seat in a game, with the arrays that it fills.
struct Seat {
    hw::Player player;
    WholeCube pulls;
    WholeMatrix reward, excluded;
    std::optional<WholeMatrix> evidence, doubted;
};

// What the leap engine asks beside.
struct Leaps {
    Leaps(Known<double, 2> chances, Int longest, double sure) : chances(chances), view{glue::view(chances), longest, sure} {}
    Known<double, 2> chances;
    hw::Leaps view;
};

const hw::Engine &engine_called(const std::string &name) {
    return name == "lockstep" ? engines().lockstep : name == "leap" ? *engines().leap : name == "general" ? hw::general_engine : engines().serial;
}

// Refuse what the leap engine does not play.
void check(const Leaps *leaps, const hw::Game &game) {
    if (leaps == nullptr) throw nb::value_error("leaps: expected what the leap engine asks for");
    expect_size("leaps.chances: the last axis", leaps->view.chances[0], game.rewards.kinds());
    expect(leaps->view.chances.rows == game.rewards.arms(), "leaps.chances", leaps->view.chances.rows, game.rewards.arms());
    for (const hw::Player &player : game.players)
        if (!stands_for(player.settings.rule) || player.settings.filter == hw::Filter::well_pulled || player.settings.audit > 0.0)
            throw nb::value_error("seats: expected policies whose choice may stand, by the most-pulled reference and without audits");
}

void play(const Model &model, const Source &source, Known<std::int64_t, 1> checkpoints, nb::list seats, Int first, Whole watch, Int slot,
          const char *called, const Leaps *leaps) {
    const std::string engine = called;
    std::vector<hw::Player> players;
    Int replications = -1;
    for (auto item : seats) {
        const Seat &seat = nb::cast<const Seat &>(item);
        players.push_back(seat.player);
        replications = seat.player.output.reward.rows;
    }
    hw::Game game;
    game.rewards = model.rewards.view;
    if (model.evidence) game.evidence = &model.evidence->view;
    if (model.random) game.random = &model.random->view;
    if (model.columns) game.columns = &model.columns->view;
    Blocks blocks;
    const hw::Memory more = blocks.memory();
    game.memory = &more;
    game.law = source.view;
    game.checkpoints = view(checkpoints);
    game.players = {players.data(), static_cast<Int>(players.size())};
    game.key = source.key;
    game.first = first;
    game.replications = replications;
    const hw::View<Int> told = view(watch);
    if (slot < 1 || slot >= told.size) throw nb::value_error("slot: expected a place in watch after the first");
    game.watch = {told.data, &told[slot]};
    if (engine == "leap") check(leaps, game);
    if (leaps != nullptr) game.leaps = leaps->view;
    nb::gil_scoped_release free;
    const hw::Engine &chosen = engine_called(engine);
    const Block memory(chosen.room(game));
    chosen.play(game, memory.start());
}

}  // namespace

void bind_engines(nb::module_ &m) {
    nb::class_<Rewards>(m, "Rewards").def(nb::init<Known<std::int64_t, 3>, double, double, double>(), "table"_a, "unit"_a, "low"_a, "span"_a);
    nb::class_<Evidence>(m, "Evidence")
        .def(nb::init<const Channels &, Known<double, 2>, Known<std::int64_t, 2>, bool, double, double>(), "channels"_a, "pays"_a, "bins"_a,
             nb::kw_only(), "binned"_a, "zero"_a, "width"_a);
    nb::class_<Random>(m, "Random").def(nb::init<Known<double, 2>, nb::list, double, double, double>(), "g"_a, "channels"_a, nb::kw_only(),
                                        "zero"_a, "scale"_a, "slack"_a);
    nb::class_<Columns>(m, "Columns")
        .def("__init__",
             [](Columns *self, Known<std::int32_t, 2> up, std::optional<Known<std::uint8_t, 2>> less,
                std::optional<Known<std::uint32_t, 2>> much_less, Known<double, 2> g, Int top, Int rows, Int kept, Int least, Int debts) {
                 if (rows < 1 || kept < 0 || debts < 1) throw nb::value_error("rows, kept, debts: expected rows >= 1, kept >= 0, debts >= 1");
                 new (self) Columns(up, less, much_less, g, top, {rows, kept, least, debts});
             },
             "up"_a, "less"_a.none(), "much_less"_a.none(), "g"_a, "top"_a, nb::kw_only(), "rows"_a = hw::Limits{}.rows,
             "kept"_a = hw::Limits{}.kept, "least"_a = hw::Limits{}.least, "debts"_a = hw::Limits{}.debts);
    nb::class_<Model>(m, "Model").def(nb::init<const Rewards &, std::optional<Evidence>, std::optional<Random>, std::optional<Columns>>(),
                                      "rewards"_a, nb::kw_only(), "evidence"_a = nb::none(), "random"_a = nb::none(), "columns"_a = nb::none());
    nb::class_<Source>(m, "Source")
        .def(nb::init<Known<std::int64_t, 1>, Known<std::int64_t, 1>, Known<std::int64_t, 2>, Known<std::int64_t, 3>, std::uint64_t>(),
             "thresholds"_a, "guide"_a, "level"_a, "cuts"_a, "seed"_a);
    nb::class_<hw::Settings>(m, "Settings")
        .def("__init__",
             [](hw::Settings *self, Int rule, std::uint64_t seed, double scale, double sd, double audit, bool late, int filtered,
                double epsilon, double guard, double prior, double discount, bool thorough) {
                 new (self) hw::Settings{rule, hw::Key::of(seed), scale, sd, audit, late, static_cast<hw::Filter>(filtered), epsilon,
                                         guard, prior, discount, thorough};
             },
             nb::kw_only(), "rule"_a, "seed"_a, "scale"_a, "sd"_a = 0.0, "audit"_a = 0.0, "late"_a = false, "filtered"_a = 0,
             "epsilon"_a = 0.0, "guard"_a = 0.0, "prior"_a = 1.0, "discount"_a = 0.0, "thorough"_a = false);
    nb::class_<Seat>(m, "Seat").def(
        "__init__",
        [](Seat *self, const hw::Settings &settings, WholeCube pulls, WholeMatrix reward, WholeMatrix excluded,
           std::optional<WholeMatrix> evidence, std::optional<WholeMatrix> doubted) {
            hw::Output out{view(pulls), view(reward), view(excluded), {}, {}};
            if (evidence) out.evidence = view(*evidence);
            if (doubted) out.doubted = view(*doubted);
            new (self) Seat{{settings, out}, pulls, reward, excluded, evidence, doubted};
        },
        "settings"_a, "pulls"_a, "reward"_a, "excluded"_a, "evidence"_a = nb::none(), "doubted"_a = nb::none());
    nb::class_<Leaps>(m, "Leaps").def(nb::init<Known<double, 2>, Int, double>(), "chances"_a, "longest"_a, "sure"_a);
    m.def("play", &play, "model"_a, "source"_a, "checkpoints"_a, "seats"_a, "first"_a, "watch"_a, "slot"_a, "engine"_a,
          "leaps"_a = nb::none());
    m.def("simd", [] { return engines().name; });
    m.def("builds", [] {
        nb::list out;
        for (const hw::Engines *some : runnable()) out.append(some->name);
        return out;
    });
    engines();  // a name that is none ends the import
    nb::dict rules;
#define HW_NAME(code, name, type) rules[name] = static_cast<Int>(hw::Rule::code);
    HW_INDEX_RULES(HW_NAME)
    HW_LEARNING_RULES(HW_NAME)
#undef HW_NAME
    m.attr("RULES") = rules;
    nb::list lasting;
#define HW_LASTING(code, name, type) \
    if (stands_for(static_cast<Int>(hw::Rule::code))) lasting.append(name);
    HW_INDEX_RULES(HW_LASTING)
#undef HW_LASTING
    m.attr("LASTING") = nb::tuple(lasting);
}

}  // namespace glue
