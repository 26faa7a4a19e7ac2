// What every policy pulls on a small problem, in every engine and live. `make arm` compares what this prints on two kinds of processor.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "../native/builds/engine_of.h"
#include "../native/engines/general.h"
#include "../native/engines/live.h"
#include "../native/engines/lockstep.h"
#include "../native/engines/serial.h"
#include "../native/policies/learning.h"

namespace {
using hw::Int;

constexpr Int arms = 3, atoms = 4, levels = 3, replications = 12;  // every arm pays 0, 1 and 2
const Int pays[arms * atoms] = {1, 2, 2, 0, 1, 0, 2, 1, 0, 2, 1, 2};
const Int checkpoints[2] = {20, 150};

struct Memory {
    explicit Memory(Int size) : block(static_cast<std::size_t>(size) + 64) {}
    void *start() { return block.data() + (64 - reinterpret_cast<std::uintptr_t>(block.data()) % 64) % 64; }
    std::vector<unsigned char> block;
};

template <class T> hw::View<const T> known(const std::vector<T> &x) { return {x.data(), static_cast<Int>(x.size())}; }

// The problem as the policies that learn the law of X read it: row 3 k + m stands for arm k's m-th reward.
struct Channels {
    std::vector<Int> start, begin{0}, offset, bins;
    std::vector<int> row, atom;
    std::vector<double> weight = std::vector<double>(arms * atoms, 1.0), g, values;
    bool yes[arms * levels];
    hw::Evidence evidence;

    Channels() {
        for (Int j = 0; j <= atoms; ++j) start.push_back(arms * j);
        for (Int j = 0; j < atoms; ++j)
            for (Int k = 0; k < arms; ++k) row.push_back(static_cast<int>(levels * k + pays[k * atoms + j]));
        for (Int i = 0; i < arms * levels; ++i) {
            yes[i] = true;
            for (Int j = 0; j < atoms; ++j)
                if (pays[i / levels * atoms + j] == i % levels) atom.push_back(static_cast<int>(j));
            begin.push_back(static_cast<Int>(atom.size()));
            bins.push_back(i % levels);
            values.push_back(static_cast<double>(i % levels));
        }
        for (Int k = 0; k <= arms; ++k) offset.push_back(levels * k);
        for (const Int m : pays) g.push_back(static_cast<double>(m) / 2.0);
        hw::ChannelView &view = evidence.channels;
        view.start = known(start), view.row = known(row), view.weight = view.chance = known(weight);
        view.begin = known(begin), view.atom = known(atom), view.offset = known(offset);
        view.sure = view.lone = {yes, arms * levels};
        view.pair = {nullptr, 0, 2}, view.cell = {nullptr, 0, atoms};
        view.plain = true;
        view.g = {g.data(), arms, atoms};
        evidence.pays = {values.data(), arms, levels}, evidence.bins = {bins.data(), arms, levels};
        evidence.width = 2.0;
    }
};

struct Problem {
    Int table[arms][levels][arms + 1];
    Int thresholds[atoms - 1];
    Channels channels;
    hw::Game game;

    Problem() {
        for (Int k = 0; k < arms; ++k)
            for (Int m = 0; m < levels; ++m) {
                for (Int ell = 0; ell < arms; ++ell) {
                    Int most = 0;
                    for (Int j = 0; j < atoms; ++j)
                        if (pays[k * atoms + j] == m) most = hw::max(most, pays[ell * atoms + j]);
                    table[k][m][ell] = m - most;
                }
                table[k][m][arms] = m;
            }
        const double below[atoms - 1] = {0.2, 0.5, 0.6};
        for (Int j = 0; j + 1 < atoms; ++j) thresholds[j] = static_cast<Int>(below[j] * 9007199254740992.0);
        game.rewards = {{&table[0][0][0], arms, levels, arms + 1}, 1.0, 0.0, 2.0};
        game.evidence = &channels.evidence;
        game.law = {{thresholds, atoms - 1}, {}, {pays, arms, atoms}, {}};
        game.checkpoints = {checkpoints, 2};
        game.key = hw::Key::of(11);
        game.replications = replications;
    }
};

hw::Settings settings_of(hw::Rule rule, hw::Filter filter) {
    hw::Settings out;
    out.rule = static_cast<Int>(rule), out.filter = filter, out.key = hw::Key::of(11);
    out.scale = 2.0, out.sd = 1.0, out.audit = 1.0, out.guard = 0.01;
    return out;
}

void play(const char *name, const hw::Engine &engine, const char *how, const Problem &problem, hw::Settings settings) {
    std::vector<Int> pulls(replications * 2 * arms), reward(replications * 2), excluded(replications * arms);
    hw::Player player{settings, {}};
    player.output.pulls = {pulls.data(), replications, 2, arms};
    player.output.reward = {reward.data(), replications, 2};
    player.output.excluded = {excluded.data(), replications, arms};
    hw::Game game = problem.game;
    game.players = {&player, 1};
    Memory memory(engine.room(game));
    engine.play(game, memory.start());
    std::printf("%s %s %d:", name, how, static_cast<int>(settings.filter));
    for (const Int n : pulls) std::printf(" %lld", static_cast<long long>(n));
    for (const Int n : excluded) std::printf(" %lld", static_cast<long long>(n));
    std::printf("\n");
}

template <class Policy> void decide(const char *name, const Policy &policy) {
    hw::Live<Policy> live;
    live.policy = policy;
    hw::Arena measure;
    live.lay(measure);
    Memory memory(measure.used());
    hw::Arena arena(memory.start());
    live.lay(arena);
    live.forget();
    std::printf("%s live %d:", name, static_cast<int>(policy.settings.filter));
    for (Int t = 0; t < 150; ++t) {
        const Int arm = live.select();
        std::printf(" %lld", static_cast<long long>(arm));
        live.pay(arm, pays[arm * atoms + t * t % atoms]);
    }
    std::printf(" %a\n", live.known.index[0]);
}

}  // namespace

int main() {
    const Problem problem;
    hw::Settings settings;
    for (const hw::Filter filter : {hw::Filter::none, hw::Filter::most_pulled}) {
#define HW_PLAY(code, name, type)                                                       \
    settings = settings_of(hw::Rule::code, filter);                                     \
    play(name, hw::engine_of<hw::Serial<hw::IndexSeats>>, "serial", problem, settings); \
    play(name, hw::engine_of<hw::Lockstep>, "lockstep", problem, settings);             \
    decide(name, hw::Indexed<hw::type>{problem.game.rewards, settings});
        HW_INDEX_RULES(HW_PLAY)
#undef HW_PLAY
    }
    const hw::Evidence &evidence = problem.channels.evidence;
#define HW_PLAY(code, name, type)                                      \
    settings = settings_of(hw::Rule::code, hw::Filter::none);          \
    play(name, hw::general_engine, "general", problem, settings);      \
    decide(name, hw::Learning<hw::type>{problem.game.rewards, settings, evidence});
    HW_LEARNING_RULES(HW_PLAY)
#undef HW_PLAY
}
