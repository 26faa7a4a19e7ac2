// Replications side by side, one a lane, round by round: for index rules and few arms, where every reward is decided by X.
//
// Every policy of a game plays a stretch of rounds on the same x_t before the next stretch is drawn, so that x_t is drawn once
// for all. A few packs take turns, because one would wait for its own divisions. Counts are whole numbers in doubles: the caller
// sees to it that none exceeds 2^53.
#pragma once
#include "../registry.h"
#include "game.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr Int packs = 4;              // that take turns
inline constexpr Int block = packs * wide;   // replications at a time
inline constexpr Int stretch = 16;           // rounds drawn ahead; even, since a call of the generator serves two
inline constexpr Int few_arms = 5;          // up to which there is an engine for each number of arms
inline constexpr Int registered = 16;        // atoms up to which a table of them stays in registers

// A problem as lanes read it: numbers by atom, in rows of `row` that a look-up may read beyond the end of.
struct LaneTables {
    Int arms = 0, atoms = 0, row = 0;
    Doubles thresholds, guide;
    double guide_scale = 0.0;
    Doubles units, levels;    // [k][j]
    Doubles excess;           // few arms and atoms: [k][ell][j]
    Doubles excess_rows;      // else [k][j][ell], rows of `across`
    Int across = 0;

    HW_INLINE bool few() const { return arms <= few_arms && atoms <= registered; }
    HW_INLINE void lay(Arena &arena) {
        units = arena.view<double>(arms * row + registered);
        levels = arena.view<double>(arms * row + registered);
        across = row_length(arms);
        excess = arena.view<double>(few() ? arms * arms * row + registered : 0);
        excess_rows = arena.view<double>(arms * atoms * across);
    }
};

// What the arms pay at an atom, in every lane.
template <class N> struct LanePaid {
    const LaneTables &tables;
    N atom;

    HW_INLINE N units(Int k) const { return look_up(&tables.units[k * tables.row], tables.atoms, atom); }
    HW_INLINE N level(Int k) const { return look_up(&tables.levels[k * tables.row], tables.atoms, atom); }
    // Of each lane, what the arm's reward exceeds every arm by.
    struct Rows {
        const LaneTables &tables;
        Long atom[lanes<N>];
        HW_INLINE const double *operator()(Int in, Int k) const {
            return &tables.excess_rows[(k * tables.atoms + static_cast<Int>(atom[in])) * tables.across];
        }
    };
    HW_INLINE Rows excess_rows() const {
        Rows out{tables, {}};
        store(out.atom, whole_of(atom));
        return out;
    }
};

// The same with the number of atoms known to be at most 8 or 16, so that a look-up is one permutation.
template <int Most> struct SmallPaid {
    const LaneTables &tables;
    Lanes atom;

    HW_INLINE Lanes units(Int k) const { return look_up(&tables.units[k * tables.row], Most, atom); }
    HW_INLINE Lanes level(Int k) const { return look_up(&tables.levels[k * tables.row], Most, atom); }
    HW_INLINE Lanes excess(Int k, Int ell) const { return look_up(&tables.excess[(k * tables.arms + ell) * tables.row], Most, atom); }
};

// The atoms of a stretch of rounds, for every pack.
struct Atoms {
    Lanes at[stretch][packs];
    Round round[stretch];
    Int used = packs;  // packs with a replication in them
};

HW_INLINE Lanes atom_of(const Game &game, const LaneTables &tables, Lanes u) {
    const Source &law = game.law;
    Lanes j = broadcast<Lanes>(0.0);
    if (law.guide.size == 0) {
        for (Int i = 0; i < law.thresholds.size; ++i)
            j = pick(u >= broadcast<Lanes>(tables.thresholds[i]), j + broadcast<Lanes>(1.0), j);
        return j;
    }
    j = look_up(tables.guide.data, tables.guide.size, floor(u * broadcast<Lanes>(tables.guide_scale)));
    while (true) {  // thresholds end with one that no uniform reaches
        const auto beyond = u >= look_up(tables.thresholds.data, tables.thresholds.size, j);
        if (!any(beyond)) return j;
        j = pick(beyond, j + broadcast<Lanes>(1.0), j);
    }
}

HW_DEVICE inline void draw_atoms(const Game &game, const LaneTables &tables, Int first, Int start, Atoms &out) {
    for (Int p = 0; p < out.used; ++p) {
        const Bits<Lanes> replication = whole_of(each_lane<Lanes>([&](Int i) { return static_cast<double>(first + p * wide + i); }));
        for (Int b = 0; b < stretch / 2; ++b) {
            const Bits<Lanes> number(static_cast<Long>(start / 2 + b));
            const auto pair = uniforms(game.key, replication, number, purpose::latent, Bits<Lanes>(0));
            out.at[2 * b][p] = atom_of(game, tables, number_of(pair.one));
            out.at[2 * b + 1][p] = atom_of(game, tables, number_of(pair.two));
        }
    }
    for (Int i = 0; i < stretch; ++i) out.round[i] = round_of(start + i + 1);
}

// A policy's replications, of one block.
template <class Policy, int K> struct LaneTeam {
    Policy policy;
    Shape shape;
    View<State<Lanes, K>> states;  // one a pack
    View<Lanes> excluded;          // [pack][k]: rounds

    HW_INLINE void lay(Arena &arena) {
        states = arena.view<State<Lanes, K>>(packs);
        excluded = arena.view<Lanes>(packs * shape.arms);
        if (states.data == nullptr) {
            for (Int p = 0; p < packs; ++p) {
                State<Lanes, K> measure;
                measure.shape = shape;
                measure.lay(arena);
            }
            return;
        }
        for (Int p = 0; p < packs; ++p) {
            states[p].shape = shape;
            states[p].lay(arena);
        }
    }

    HW_DEVICE void begin(Int first) {
        for (Int p = 0; p < packs; ++p) {
            states[p].forget();
            states[p].replication = whole_of(each_lane<Lanes>([&](Int i) { return static_cast<double>(first + p * wide + i); }));
        }
        fill(excluded, broadcast<Lanes>(0.0));
    }

    template <class Paid> HW_DEVICE void play(const LaneTables &tables, const Atoms &atoms, Int from, Int to) {
        const Policy mine = policy;
        const bool filtered = mine.settings.filter != Filter::none;
        const Int arms = shape.arms;
        for (Int i = from; i < to; ++i) {
            const Round round = atoms.round[i];
            mine.foresee(states.first(atoms.used), round);
            for (Int p = 0; p < atoms.used; ++p) {
                State<Lanes, K> &s = states[p];
                const Lanes arm = mine.choose(s, round);
                if (filtered)
                    for (Int k = 0; k < (K > 0 ? K : arms); ++k) {
                        Lanes &out = excluded[p * arms + k];
                        out = pick(s.index[k] == broadcast<Lanes>(-infinity), out + broadcast<Lanes>(1.0), out);
                    }
                mine.observe(s, arm, Paid{tables, atoms.at[i][p]});
            }
        }
    }

    HW_DEVICE void record(const Output &out, Int row, Int checkpoint, Int count) const {
        for (Int r = 0; r < count; ++r) {
            const State<Lanes, K> &s = states[r / wide];
            Int reward = 0;
            for (Int k = 0; k < shape.arms; ++k) {
                out.pulls(row + r, checkpoint, k) = count_in(s.pulls[k], r % wide);
                reward += count_in(s.total[k], r % wide);
            }
            out.reward(row + r, checkpoint) = reward;
        }
    }

    HW_DEVICE void finish(const Output &out, Int row, Int count) const {
        for (Int r = 0; r < count; ++r)
            for (Int k = 0; k < shape.arms; ++k)
                out.excluded(row + r, k) = count_in(excluded[(r / wide) * shape.arms + k], r % wide);
    }
};

// Always the same arm: what it would have paid, on the same x_t.
struct LaneFollower {
    Int arm = 0;
    Lanes total[packs];

    HW_DEVICE void begin() {
        for (Int p = 0; p < packs; ++p) total[p] = broadcast<Lanes>(0.0);
    }
    template <class Paid> HW_DEVICE void play(const LaneTables &tables, const Atoms &atoms, Int from, Int to) {
        for (Int p = 0; p < atoms.used; ++p) {
            Lanes sum = total[p];
            for (Int i = from; i < to; ++i) sum = sum + Paid{tables, atoms.at[i][p]}.units(arm);
            total[p] = sum;
        }
    }
    HW_DEVICE void record(const Output &out, Int row, Int checkpoint, Int count) const {
        for (Int r = 0; r < count; ++r) out.reward(row + r, checkpoint) = count_in(total[r / wide], r % wide);
    }
};

// A policy of the game, whatever it is.
struct LanePlayer {
    Byte *team = nullptr;
    void (*begin)(Byte *team, Int first) = nullptr;
    void (*play)(Byte *team, const LaneTables &tables, const Atoms &atoms, Int from, Int to) = nullptr;
    void (*record)(Byte *team, const Output &out, Int row, Int checkpoint, Int count) = nullptr;
    void (*finish)(Byte *team, const Output &out, Int row, Int count) = nullptr;
};

template <class Team> HW_INLINE Team &team_at(Byte *team) { return *reinterpret_cast<Team *>(team); }

template <class Policy, int K, class Paid> HW_DEVICE LanePlayer lane_player(const Game &game, const Player &player, Arena &arena) {
    using Team = LaneTeam<Policy, K>;
    Team team;
    team.policy = {game.rewards, player.settings};
    team.shape = team.policy.shape();
    const View<Team> place = arena.view<Team>(1);
    team.lay(arena);
    if (place.data != nullptr) place[0] = team;
    return {reinterpret_cast<Byte *>(place.data),
            [](Byte *at, Int first) { team_at<Team>(at).begin(first); },
            [](Byte *at, const LaneTables &tables, const Atoms &atoms, Int from, Int to) { team_at<Team>(at).template play<Paid>(tables, atoms, from, to); },
            [](Byte *at, const Output &out, Int row, Int c, Int count) { team_at<Team>(at).record(out, row, c, count); },
            [](Byte *at, const Output &out, Int row, Int count) { team_at<Team>(at).finish(out, row, count); }};
}

template <class Paid> HW_DEVICE LanePlayer follower(const Player &player, Arena &arena) {
    const View<LaneFollower> place = arena.view<LaneFollower>(1);
    if (place.data != nullptr) place[0].arm = -1 - player.settings.rule;
    return {reinterpret_cast<Byte *>(place.data),
            [](Byte *at, Int) { team_at<LaneFollower>(at).begin(); },
            [](Byte *at, const LaneTables &tables, const Atoms &atoms, Int from, Int to) { team_at<LaneFollower>(at).play<Paid>(tables, atoms, from, to); },
            [](Byte *at, const Output &out, Int row, Int c, Int count) { team_at<LaneFollower>(at).record(out, row, c, count); },
            [](Byte *, const Output &, Int, Int) {}};
}

// UCB1, the paper's and its C-UCB, with few arms and atoms: compiled for their number, so that the state stays in registers.
template <int K> HW_DEVICE LanePlayer few_armed(const Game &game, const Player &player, Arena &arena) {
    return game.law.atoms() <= 8 ? lane_player<Indexed<Ucb1>, K, SmallPaid<8>>(game, player, arena)
                                 : lane_player<Indexed<Ucb1>, K, SmallPaid<16>>(game, player, arena);
}

HW_DEVICE inline LanePlayer seat(const Game &game, const Player &player, Arena &arena) {
    if (player.settings.rule < 0) return follower<LanePaid<Lanes>>(player, arena);
    const Rule rule = static_cast<Rule>(player.settings.rule);
    if (rule == Rule::ucb1 && game.law.atoms() <= registered) {
        switch (game.rewards.arms()) {
            case 2: return few_armed<2>(game, player, arena);
            case 3: return few_armed<3>(game, player, arena);
            case 4: return few_armed<4>(game, player, arena);
            case 5: return few_armed<5>(game, player, arena);
        }
    }
    switch (rule) {
#define HW_CASE(code, name, type) case Rule::code: return lane_player<Indexed<type>, 0, LanePaid<Lanes>>(game, player, arena);
        HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
        default: return {};
    }
}

struct Lockstep {
    LaneTables tables;
    View<LanePlayer> players;
    View<Atoms> atoms;

    HW_DEVICE void lay(const Game &game, Arena &arena) {
        const Source &law = game.law;
        tables.arms = game.rewards.arms();
        tables.atoms = law.atoms();
        tables.row = (tables.atoms + 7) / 8 * 8;
        tables.lay(arena);
        tables.thresholds = arena.view<double>(law.thresholds.size + 1 + registered);
        tables.guide = arena.view<double>(law.guide.size + registered);
        atoms = arena.view<Atoms>(1);
        players = arena.view<LanePlayer>(game.players.size);
        for (Int i = 0; i < game.players.size; ++i) {
            const LanePlayer player = seat(game, game.players[i], arena);
            if (players.data != nullptr) players[i] = player;
        }
        if (atoms.data != nullptr) fill_tables(game);
    }

    HW_DEVICE void fill_tables(const Game &game) const {
        const Rewards &rewards = game.rewards;
        for (Int i = 0; i < tables.guide.size; ++i) tables.guide[i] = i < game.law.guide.size ? static_cast<double>(game.law.guide[i]) : 0.0;
        for (Int i = 0; i < tables.thresholds.size; ++i)
            tables.thresholds[i] = i < game.law.thresholds.size ? static_cast<double>(game.law.thresholds[i]) : infinity;
        fill(tables.units, 0.0);
        fill(tables.levels, 0.0);
        fill(tables.excess, 0.0);
        fill(tables.excess_rows, 0.0);
        for (Int k = 0; k < tables.arms; ++k) {
            for (Int j = 0; j < tables.atoms; ++j) {
                const Int m = game.law.level(k, j);
                tables.units[k * tables.row + j] = static_cast<double>(rewards.units(k, m));
                tables.levels[k * tables.row + j] = static_cast<double>(m);
                for (Int ell = 0; ell < tables.arms; ++ell) {
                    const double more = static_cast<double>(rewards.table(k, m, ell));
                    if (tables.few()) tables.excess[(k * tables.arms + ell) * tables.row + j] = more;
                    tables.excess_rows[(k * tables.atoms + j) * tables.across + ell] = more;
                }
            }
        }
    }

    HW_DEVICE void play(const Game &game) {
        tables.guide_scale = static_cast<double>(game.law.guide.size) * 0x1p-53;
        for (Int row = 0; row < game.replications; row += block) {
            const Int count = min(block, game.replications - row), first = game.first + row;
            atoms[0].used = (count + wide - 1) / wide;
            for (const LanePlayer &player : players) player.begin(player.team, first);
            if (!play_block(game, row, first, count)) return;
            for (Int i = 0; i < players.size; ++i) players[i].finish(players[i].team, game.players[i].output, row, count);
        }
    }

  private:
    HW_DEVICE bool play_block(const Game &game, Int row, Int first, Int count) {
        Int t = 0;
        for (Int c = 0; c < game.checkpoints.size; ++c) {
            while (t < game.checkpoints[c]) {
                const Int from = t % stretch, to = min(stretch, from + game.checkpoints[c] - t);
                if (from == 0) {
                    if (game.watch.stopped()) return false;
                    game.watch.tell((row * game.horizon() + t * count) * players.size);
                    draw_atoms(game, tables, first, t, atoms[0]);
                }
                for (const LanePlayer &player : players) player.play(player.team, tables, atoms[0], from, to);
                t += to - from;
            }
            for (Int i = 0; i < players.size; ++i) players[i].record(players[i].team, game.players[i].output, row, c, count);
        }
        return true;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
