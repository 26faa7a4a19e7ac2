// Replications one by one: for every policy and every problem. A few take turns, because one would wait for its own divisions.
//
// Rounds are drawn ahead, so that the generator fills wide registers, and every policy of the game plays them before the next are
// drawn: x_t is drawn once for all.
#pragma once
#include "../registry.h"
#include "game.h"
#include "paid.h"
#include "rounds.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr Int abreast = 4;  // replications that take turns
inline constexpr Int ahead = 256;  // rounds drawn at a time; even, since a call of the generator serves two
static_assert(ahead % (2 * wide) == 0);

// The atoms of some rounds, the uniforms that decide random rewards there, and the logarithms of the rounds.
struct Draws {
    Grid<Int> atom, coin;  // [replication][round]
    Doubles log_t;
    Int start = 0, count = 0;  // rounds before the first of them; replications

    HW_INLINE void lay(Arena &arena) {
        atom = arena.grid<Int>(abreast, ahead + wide);
        coin = arena.grid<Int>(abreast, ahead + wide);
        log_t = arena.view<double>(ahead);
    }
};

HW_DEVICE inline void draw_rounds(const Source &law, Key key, Int first, Draws &out) {
    using B = Bits<Lanes>;
    const B steps = whole_of(each_lane<Lanes>([](Int i) { return static_cast<double>(i); }));
    const Int shift = guide_shift(law);
    for (Int t = 0; t < ahead; t += wide)
        store(&out.log_t[t], log(number_of(B(static_cast<Long>(out.start + t + 1)) + steps)));
    for (Int r = 0; r < out.count; ++r) {
        const B who(static_cast<Long>(first + r));
        for (Int b = 0; b < ahead / 2; b += wide) {
            const auto pair = uniforms(key, who, B(static_cast<Long>(out.start / 2 + b)) + steps, purpose::latent, B(0));
            for (Int i = 0; i < wide; ++i) {
                out.atom(r, 2 * (b + i)) = atom_of(law, shift, static_cast<Int>(lane(pair.one, i)));
                out.atom(r, 2 * (b + i) + 1) = atom_of(law, shift, static_cast<Int>(lane(pair.two, i)));
            }
        }
        if (!law.random()) continue;
        for (Int t = 0; t < ahead; t += wide) {
            const auto pair = uniforms(key, who, B(static_cast<Long>(out.start + t + 1)) + steps, purpose::reward, B(0));
            for (Int i = 0; i < wide; ++i) out.coin(r, t + i) = static_cast<Int>(lane(pair.one, i));
        }
    }
}

// One policy, some replications.
template <class Policy> struct Solo {
    using State = typename Policy::State;

    Policy policy;
    Shape shape;
    Int turns = 1;
    View<State> states;  // one a replication
    Grid<Int> excluded;  // [replication][k]: rounds

    HW_INLINE void lay(Arena &arena) {
        states = arena.view<State>(turns);
        for (Int r = 0; r < turns; ++r) {
            State state;
            state.shape = shape;
            policy.lay(state, arena);
            if (states.data != nullptr) states[r] = state;
        }
        excluded = arena.grid<Int>(turns, shape.arms);
    }
    HW_DEVICE void begin(Int first) {
        for (Int r = 0; r < turns; ++r) {
            policy.forget(states[r]);
            states[r].replication = static_cast<Long>(first + r);
        }
        fill(excluded.flat(), Int(0));
    }
    HW_DEVICE void play(const Game &game, const Draws &draws, Int from, Int to) {
        for (Int i = from; i < to; ++i) {
            const Round round{draws.start + i + 1, draws.log_t[i]};
            if constexpr (requires { policy.foresee(states, round); }) policy.foresee(states.first(draws.count), round);
            for (Int r = 0; r < draws.count; ++r) {
                const Int arm = policy.choose(states[r], round);
                policy.count_excluded(states[r], excluded[r]);
                const Int atom = draws.atom(r, i);
                const Int kind = game.columns != nullptr ? atom : level_of(game.law, arm, atom, draws.coin(r, i));
                policy.observe(states[r], arm, Paid{game.rewards, arm, kind});
            }
        }
    }
    HW_DEVICE void record(const Output &out, Int row, Int checkpoint, Int count) const {
        for (Int r = 0; r < count; ++r) {
            Int reward = 0;
            for (Int k = 0; k < shape.arms; ++k) {
                out.pulls(row + r, checkpoint, k) = states[r].pulls[k];
                reward += states[r].total[k];
            }
            out.reward(row + r, checkpoint) = reward;
        }
    }
    HW_DEVICE void finish(const Output &out, Int row, Int count) const {
        for (Int r = 0; r < count; ++r)
            for (Int k = 0; k < shape.arms; ++k) out.excluded(row + r, k) = excluded(r, k);
        if constexpr (requires { states[0].learner; }) {
            for (Int r = 0; r < count; ++r) {
                const auto &fit = states[r].learner->fit;
                if (out.evidence.rows > 0)
                    for (Int i = 0; i < fit.n.size; ++i) out.evidence(row + r, i) = static_cast<Int>(fit.n[i]);
                if (out.doubted.rows > 0)
                    for (Int k = 0; k < shape.arms; ++k) out.doubted(row + r, k) = fit.doubted[k] ? 1 : 0;
            }
        }
    }
};

// Always the same arm.
struct Follower {
    Int arm = 0, total[abreast] = {};

    HW_DEVICE void begin(Int) {
        for (Int &sum : total) sum = 0;
    }
    HW_DEVICE void play(const Game &game, const Draws &draws, Int from, Int to) {
        for (Int r = 0; r < draws.count; ++r)
            for (Int i = from; i < to; ++i) {
                const Int atom = draws.atom(r, i);
                if (game.columns != nullptr) total[r] += game.columns->pays(arm, atom);
                else total[r] += game.rewards.units(arm, level_of(game.law, arm, atom, draws.coin(r, i)));
            }
    }
    HW_DEVICE void record(const Output &out, Int row, Int checkpoint, Int count) const {
        for (Int r = 0; r < count; ++r) out.reward(row + r, checkpoint) = total[r];
    }
    HW_DEVICE void finish(const Output &, Int, Int) const {}
};

// A policy of the game, whatever it is.
struct SoloPlayer {
    Byte *place = nullptr;
    void (*begin)(Byte *, Int first) = nullptr;
    void (*play)(Byte *, const Game &game, const Draws &draws, Int from, Int to) = nullptr;
    void (*record)(Byte *, const Output &out, Int row, Int checkpoint, Int count) = nullptr;
    void (*finish)(Byte *, const Output &out, Int row, Int count) = nullptr;
};

template <class One> HW_DEVICE SoloPlayer solo_player(const One &one, Arena &arena) {
    const View<One> place = arena.view<One>(1);
    One laid = one;
    if constexpr (requires { laid.lay(arena); }) laid.lay(arena);
    if (place.data != nullptr) place[0] = laid;
    return {reinterpret_cast<Byte *>(place.data),
            [](Byte *at, Int first) { reinterpret_cast<One *>(at)->begin(first); },
            [](Byte *at, const Game &game, const Draws &draws, Int from, Int to) { reinterpret_cast<One *>(at)->play(game, draws, from, to); },
            [](Byte *at, const Output &out, Int row, Int c, Int count) { reinterpret_cast<One *>(at)->record(out, row, c, count); },
            [](Byte *at, const Output &out, Int row, Int count) { reinterpret_cast<One *>(at)->finish(out, row, count); }};
}

template <class Policy> HW_DEVICE SoloPlayer solo(const Policy &policy, Arena &arena, Int turns = 1) {
    Solo<Policy> one;
    one.turns = turns;
    one.policy = policy;
    one.shape = policy.shape();
    return solo_player(one, arena);
}

// The index policies, and whoever follows an arm.
struct IndexSeats {
    // How many replications take turns: one where sums of pairs of arms are large.
    HW_DEVICE static Int turns(const Game &game) { return game.rewards.arms() <= 256 ? abreast : 1; }
    HW_DEVICE static SoloPlayer take(const Game &game, const Player &player, Arena &arena) {
        const Int rule = player.settings.rule;
        if (rule < 0) return solo_player(Follower{-1 - rule, {}}, arena);
        switch (static_cast<Rule>(rule)) {
#define HW_CASE(code, name, type) case Rule::code: return solo(Indexed<type>{game.rewards, player.settings}, arena, turns(game));
            HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
            default: return {};
        }
    }
};

// Who sits where is `Seats`' to say: Seats::take(game, player, arena).
template <class Seats> struct Serial {
    Draws draws;
    View<SoloPlayer> players;

    HW_DEVICE void lay(const Game &game, Arena &arena) {
        draws.lay(arena);
        players = arena.view<SoloPlayer>(game.players.size);
        for (Int i = 0; i < game.players.size; ++i) {
            const SoloPlayer player = Seats::take(game, game.players[i], arena);
            if (players.data != nullptr) players[i] = player;
        }
    }

    HW_DEVICE void play(const Game &game) {
        Int turns = 1;
        if constexpr (requires { Seats::turns(game); }) turns = Seats::turns(game);
        for (Int row = 0; row < game.replications; row += turns) {
            draws.count = min(turns, game.replications - row);
            for (const SoloPlayer &player : players) player.begin(player.place, game.first + row);
            if (!play_some(game, row)) return;
            for (Int i = 0; i < players.size; ++i) players[i].finish(players[i].place, game.players[i].output, row, draws.count);
        }
    }

  private:
    HW_DEVICE bool play_some(const Game &game, Int row) {
        Int t = 0;
        for (Int c = 0; c < game.checkpoints.size; ++c) {
            while (t < game.checkpoints[c]) {
                const Int from = t % ahead, to = min(ahead, from + game.checkpoints[c] - t);
                if (from == 0) {
                    if (game.watch.stopped()) return false;
                    game.watch.tell((row * game.horizon() + t * draws.count) * players.size);
                    draws.start = t;
                    draw_rounds(game.law, game.key, game.first + row, draws);
                }
                for (const SoloPlayer &player : players) player.play(player.place, game, draws, from, to);
                t += to - from;
            }
            for (Int i = 0; i < players.size; ++i) players[i].record(players[i].place, game.players[i].output, row, c, draws.count);
        }
        return true;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
