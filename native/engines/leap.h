// The leap engine: rounds in which no reward could change the choice are drawn together, exactly in law.
//
// While the most-pulled arm r is chosen, only its own row of counts changes. So a stretch of m rounds is drawn at once: the end
// first, as one multinomial number of each of r's levels. If the policy says that r is chosen throughout, whatever the order
// (see policies/standing.h), the stretch is counted whole. If not, it is cut in two by a multivariate hypergeometric number,
// and its halves are looked at in turn; a few rounds are played one by one. The first round in which r is not chosen ends the
// stretch: what was drawn beyond it is forgotten, which changes no law, because rewards after a stopping time do not depend on
// what came before.
//
// What happens with a chance of at most exp(-sure) counts as impossible; exp(-44) = 8e-20 is far below the rounding of the
// 53-bit uniforms that everything is drawn from; an infinite `sure` leaves only what is certain.
//
// Rounds played one by one take x_t from the same stream as the other engines: with longest = 1 all do, and the engines are the
// same, action for action. A run of T rounds costs O(K M) for each stretch; there are O(log T) of them between two pulls of
// other arms.
#pragma once
#include "../policies/standing.h"
#include "../registry.h"
#include "binomial_draws.h"
#include "game.h"
#include "paid.h"
#include "rounds.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr Int short_stretch = 3;  // rounds that are played one by one rather than cut further
inline constexpr Int most_cuts = 64;     // halving no stretch takes more

// x_t, round by round: a few are drawn together where they are wanted.
class LatentDraws {
  public:
    HW_INLINE void lay(Arena &arena) { atoms_ = arena.view<Int>(count_); }
    HW_INLINE void rewind(Key key, Int replication) {
        key_ = key;
        replication_ = replication;
        start_ = -1;
    }

    // Which of arm k's rewards round t + 1 pays.
    HW_INLINE Int level(const Source &law, Int k, Int t) {
        const Int start = t / count_ * count_;
        if (start != start_) refill(law, start);
        return level_of(law, k, atoms_[t - start], law.random() ? coin(t + 1) : 0);
    }

  private:
    static constexpr Int count_ = 2 * wide;  // one call of the generator

    HW_INLINE Int coin(Int round) const {
        const Long who = static_cast<Long>(replication_), when = static_cast<Long>(round);
        return static_cast<Int>(uniforms<Long>(key_, who, when, purpose::reward, 0).one);
    }
    HW_DEVICE void refill(const Source &law, Int start) {
        using B = Bits<Lanes>;
        const B who(static_cast<Long>(replication_)), from(static_cast<Long>(start / 2));
        const B steps = whole_of(each_lane<Lanes>([](Int i) { return as_number(i); }));
        const auto pair = uniforms(key_, who, from + steps, purpose::latent, B(0));
        const Int shift = guide_shift(law);
        for (Int i = 0; i < wide; ++i) {
            atoms_[2 * i] = atom_of(law, shift, static_cast<Int>(lane(pair.one, i)));
            atoms_[2 * i + 1] = atom_of(law, shift, static_cast<Int>(lane(pair.two, i)));
        }
        start_ = start;
    }

    Key key_;
    Int replication_ = 0, start_ = -1;
    Ints atoms_;
};

// One policy, one replication after the other.
template <class Rule> struct Leaper {
    Indexed<Rule> policy;
    typename Indexed<Rule>::State state;
    Standing<Rule> standing;
    LatentDraws latent;
    BinomialDraws draws;
    Grid<Int> drawn;  // (most_cuts, M): the stretches still to be looked at, the next one last
    Ints length;      // their rounds
    double most = 0.0;  // no entry of the table is larger in size
    Int steady = 0;   // rounds since the last choice of another arm
    Int next = -1;    // the next arm where it is known already

    HW_INLINE void lay(Arena &arena) {
        state.lay(arena);
        standing.lay(arena, state.arms());
        latent.lay(arena);
        draws.lay(arena);
        drawn = arena.grid<Int>(most_cuts, policy.rewards.kinds());
        length = arena.view<Int>(most_cuts);
    }

    // Whether it came to the end.
    HW_DEVICE bool play(const Game &game, const Output &out, Int row, Int before) {
        const Int replication = game.first + row;
        policy.forget(state);
        standing.forget();
        state.replication = static_cast<Long>(replication);
        latent.rewind(game.key, replication);
        draws.rewind(game.key, replication);
        steady = 0;
        next = -1;
        for (Int c = 0; c < game.checkpoints.size; ++c) {
            const Int until = game.checkpoints[c];
            while (state.round < until) {
                if (game.watch.stopped()) return false;
                game.watch.tell(before + state.round);
                const Int m = min(min(outlook(), game.leaps.longest), until - state.round);
                if (m > short_stretch) leap(game, m);
                else step(game);
            }
            record(out, row, c);
        }
        return true;
    }

  private:
    HW_INLINE Int outlook() { return state.round > state.arms() ? standing.outlook(state, policy, steady) : 0; }

    HW_INLINE Int choose() {
        if (next >= 0) return next;
        if (!standing.again(state, policy)) return policy.choose(state, round_of(state.round + 1));
        return state.chosen = state.most_pulled;
    }
    HW_INLINE void observe(Int arm, Int kind) {
        policy.observe(state, arm, Paid{policy.rewards, arm, kind});
        next = -1;
    }

    // A round with x_t.
    HW_DEVICE void step(const Game &game) {
        const Int before = state.most_pulled, arm = choose();
        observe(arm, latent.level(game.law, arm, state.round));
        if (state.pulls[arm] > state.pulls[state.most_pulled]) state.most_pulled = arm;  // which is kept only for a filter
        steady = arm == before && state.most_pulled == before ? steady + 1 : 0;
    }

    // At most m rounds of the most-pulled arm: as many as it is chosen in.
    HW_DEVICE void leap(const Game &game, Int m) {
        length[0] = m;
        draws.multinomial(m, game.leaps.chances[state.most_pulled], drawn[0]);
        for (Int top = 0; top >= 0;) {
            const Int rounds = length[top];
            const Stretch stretch{rounds, drawn[top], policy.rewards.table[state.most_pulled], most, game.leaps.sure};
            if (rounds <= short_stretch) {
                if (!play_out(drawn[top], rounds)) return;
                --top;
            } else if (standing.lasts(state, policy, stretch)) {
                count(stretch);
                --top;
            } else {
                const Int half = rounds / 2;
                length[top] = rounds - half;
                length[top + 1] = half;
                draws.split(drawn[top], rounds, half, drawn[top + 1]);
                ++top;
            }
        }
    }

    // Rounds of a stretch one by one, in an order by lot; whether the most-pulled arm was chosen in all of them.
    HW_DEVICE bool play_out(Ints left, Int rounds) {
        for (; rounds > 0; --rounds) {
            next = choose();
            if (next != state.most_pulled) {
                steady = 0;
                return false;
            }
            observe(next, draws.take(left, rounds));
            ++steady;
        }
        return true;
    }

    // The rewards of a stretch at once. O(K M).
    HW_DEVICE void count(const Stretch &stretch) {
        const Int r = state.most_pulled, arms = state.arms();
        for (Int i = 0; i < stretch.drawn.size; ++i) {
            const Int times = stretch.drawn[i];
            if (times == 0) continue;
            const auto pays = stretch.row[i];
            state.total[r] += times * pays[arms];
            for (Int ell = 0; state.shape.paired && ell < arms; ++ell) state.sums[r * arms + ell] += times * pays[ell];
        }
        state.pulls[r] += stretch.m;
        state.round += stretch.m;
        state.most = state.pulls[r];
        steady += stretch.m;
        next = -1;
        const double n = as_number(state.pulls[r]);
        state.mean[r] = as_number(state.total[r]) * policy.rewards.unit / n;
        state.root[r] = 1.0 / sqrt(n);
    }

    HW_DEVICE void record(const Output &out, Int row, Int checkpoint) const {
        Int reward = 0;
        for (Int k = 0; k < state.arms(); ++k) {
            out.pulls(row, checkpoint, k) = state.pulls[k];
            reward += state.total[k];
        }
        out.reward(row, checkpoint) = reward;
    }
};

// A policy of the game, whatever it is.
struct LeapPlayer {
    Byte *place = nullptr;
    bool (*play)(Byte *, const Game &game, const Output &out, Int row, Int before) = nullptr;
};

template <class Rule> HW_DEVICE LeapPlayer leaper(const Game &game, const Player &player, Arena &arena) {
    using One = Leaper<Rule>;
    const View<One> place = arena.view<One>(1);
    One one;
    one.policy = {game.rewards, player.settings};
    one.state.shape = one.policy.shape();
    one.most = largest_entry(game.rewards);
    one.lay(arena);
    if (place.data != nullptr) place[0] = one;
    return {reinterpret_cast<Byte *>(place.data), [](Byte *at, const Game &game, const Output &out, Int row, Int before) {
                return reinterpret_cast<One *>(at)->play(game, out, row, before);
            }};
}

// The caller sees to it that every rule of the game has the trait.
HW_DEVICE inline LeapPlayer leap_seat(const Game &game, const Player &player, Arena &arena) {
    switch (static_cast<Rule>(player.settings.rule)) {
#define HW_CASE(code, name, type)                                                                    \
    case Rule::code:                                                                                 \
        if constexpr (stands<type>) return leaper<type>(game, player, arena);                \
        break;
        HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
        default: break;
    }
    return {};
}

struct Leap {
    View<LeapPlayer> players;

    HW_DEVICE void lay(const Game &game, Arena &arena) {
        players = arena.view<LeapPlayer>(game.players.size);
        for (Int i = 0; i < game.players.size; ++i) {
            const LeapPlayer player = leap_seat(game, game.players[i], arena);
            if (players.data != nullptr) players[i] = player;
        }
    }

    HW_DEVICE void play(const Game &game) {
        Int done = 0;
        for (Int row = 0; row < game.replications; ++row)
            for (Int i = 0; i < players.size; ++i, done += game.horizon())
                if (!players[i].play(players[i].place, game, game.players[i].output, row, done)) return;
        game.watch.tell(done);
    }
};

}  // namespace HW_BUILD
}  // namespace hw
