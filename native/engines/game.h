// What an engine plays: a problem, its law, the policies, and where the results go. Plain data, the same in every build.
#pragma once
#include "../model.h"

namespace hw {

struct Evidence;

// What was done by each replication up to each checkpoint.
struct Output {
    Cube<Int> pulls;      // (N, C, K)
    Grid<Int> reward;     // (N, C), in units
    Grid<Int> excluded;   // (N, K): rounds in which the filter excluded the arm, up to the last checkpoint
    Grid<Int> evidence;   // (N, R): of a policy that learns the law of X, its counts by row at the end; or nothing
    Grid<Int> doubted;    // (N, K): and 1 for the arms that it doubts
};

// One policy of a game, or, with a rule below 0, always pulling arm -1 - rule.
struct Player {
    Settings settings;
    Output output;
};

// Where progress is told, and a wish to stop is heard, between stretches of rounds.
struct Watch {
    const volatile Int *stop = nullptr;
    Int *done = nullptr;
    HW_INLINE bool stopped() const { return stop != nullptr && *stop != 0; }
    HW_INLINE void tell(Int rounds) const {
        if (done != nullptr) *done = rounds;
    }
};

// What the leap engine asks beside: the chance of arm k's m-th level if it is none before it, (K, M); stretches of more than
// `longest` rounds are not tried; what happens with a chance of at most exp(-sure) counts as impossible.
struct Leaps {
    KnownTable chances;
    Int longest = 0;
    double sure = 0.0;
};

struct Game {
    Rewards rewards;
    const Evidence *evidence = nullptr;  // for policies that learn the law of X
    const RandomRewards *random = nullptr;  // where some arm's reward is
    const Columns *columns = nullptr;       // where there are too many arms and rewards for a table
    const Memory *memory = nullptr;
    Source law;
    KnownInts checkpoints;  // increasing, the last one the horizon
    View<Player> players;   // all play on the same x_t
    Key key;
    Int first = 0, replications = 0;  // number `first`, first + 1, ...
    Watch watch;
    Leaps leaps;

    HW_INLINE Int horizon() const { return checkpoints[checkpoints.size - 1]; }
};

// An engine as plain functions: what a game needs of memory, and playing it.
struct Engine {
    Int (*room)(const Game &game);
    void (*play)(const Game &game, void *room);
};

}  // namespace hw
