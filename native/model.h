// What is fixed while a policy learns: arms, rewards in units and what each says of the other arms, and the law that rewards are
// drawn from where they are simulated. Views of arrays that Python owns.
#pragma once
#include "portable.h"

namespace hw {

enum class Filter : Int { none, most_pulled, well_pulled };

// The rewards of K arms as whole multiples of a unit. `table(k, m, ell)` is by how much arm k's m-th reward exceeds the most
// that arm ell could have paid with it, `table(k, m, K)` the reward itself: (K, M, K + 1), rows padded.
struct Rewards {
    Cube<const Int> table;
    double unit = 1.0, low = 0.0, span = 0.0;  // every reward lies in [low, low + span]
    KnownDoubles roots;                        // 1 / sqrt(n), n = 0, 1, ..., where to look it up is quicker; else empty

    HW_INLINE Int arms() const { return table.layers; }
    HW_INLINE Int kinds() const { return table.rows; }
    HW_INLINE Int units(Int k, Int m) const { return table(k, m, table.layers); }
};

// The arms of random rewards, and every arm's mean given X: what is fixed. `zero` and `scale`, in units, undo
// what brought the means g (K, J) into [0, 1]; `slack`, in units, is added to every bound. Without such an
// arm there are no means.
struct RandomRewards {
    double zero = 0.0, scale = 0.0, slack = 0.0;
    KnownTable g;
    KnownDoubles channels;  // (M, J) of each such arm, one after the other
    KnownInts levels;       // (K,): how many rewards, 0 where X decides the reward
    KnownInts starts;       // (K,): where in `channels` that of an arm begins
    Int most_levels = 0;

    HW_INLINE Int arms() const { return g.rows; }
    HW_INLINE Int points() const { return g.columns; }
    HW_INLINE bool random(Int k) const { return levels.size > 0 && levels[k] > 0; }
    HW_INLINE KnownTable channel(Int k) const { return {channels.data + starts[k], levels[k], g.columns}; }
};

// How much is kept where there are very many arms. It changes no decision: with less room, more is made anew.
struct Limits {
    Int rows = 128;      // of sums; the one that was read last longest ago makes room
    Int kept = 1 << 24;  // pseudo-rewards of levels
    Int least = 8;       // candidates at least, beside 2 sqrt(K)
    Int debts = 4096;    // levels that are owed for
};

// The rewards in units, K arms on J atoms: what is fixed. `up` (J, K) is the pseudo-reward that atom j gives
// each target: that of a level is the maximum over its atoms. An arm's reward there may be less, because
// rewards are rounded down and pseudo-rewards up: by `less` (K, J), or by `much_less` where a byte is too
// small; both are empty where all rewards are whole multiples of the unit. g (K, J) are the rewards
// themselves. `top` is the largest of `up`.
struct Columns {
    Grid<const int> up;
    Grid<const Byte> less;
    Grid<const Word> much_less;
    KnownTable g;
    Int top = 0;
    Limits limits;

    HW_INLINE Int arms() const { return up.columns; }
    HW_INLINE Int atoms() const { return up.rows; }
    HW_INLINE bool rounded() const { return less.data != nullptr || much_less.data != nullptr; }
    // What an arm pays at an atom, in units.
    HW_INLINE Int pays(Int arm, Int atom) const {
        const Int most = up(atom, arm);
        if (less.data != nullptr) return most - static_cast<Int>(less(arm, atom));
        return much_less.data == nullptr ? most : most - static_cast<Int>(much_less(arm, atom));
    }
};

// Where memory that grows comes from: zeroed, and kept until whoever gave it is done.
struct Memory {
    void *owner = nullptr;
    void *(*take)(void *owner, Int bytes) = nullptr;

    template <class T> HW_INLINE View<T> view(Int size) const {
        return {static_cast<T *>(take(owner, size * static_cast<Int>(sizeof(T)))), size};
    }
};

// How x_t is drawn, and what each arm pays there. A 53-bit uniform u falls on the atom whose number is how many `thresholds`
// (J - 1) are at most u; `guide` says where to begin counting (empty where J is small). `level(k, j)` is which of arm k's
// rewards atom j pays; where some arm's reward is random, how many of `cuts(k, j, ·)` are at most a second uniform.
struct Source {
    KnownInts thresholds, guide;
    Grid<const Int> level;
    Cube<const Int> cuts;

    HW_INLINE Int atoms() const { return thresholds.size + 1; }
    HW_INLINE bool random() const { return cuts.size() > 0; }
};

// The key of a seed: its two words.
struct Key {
    Word low = 0, high = 0;

    HW_INLINE Key at(Word round) const { return {low + round * 0x9E3779B9u, high + round * 0xBB67AE85u}; }
    HW_INLINE static Key of(Long seed) { return {static_cast<Word>(seed & 0xFFFFFFFFull), static_cast<Word>(seed >> 32)}; }
};

// What a policy goes by: its rule (see registry.h), B, the deviation that Thompson sampling assumes, the filter, the audit, and the
// options of some rules.
struct Settings {
    Int rule = 0;
    Key key;
    double scale = 1.0, sd = 0.5, audit = 0.0;
    bool late = false;  // audits as in release 0.1
    Filter filter = Filter::none;
    double epsilon = 0.1;   // how often epsilon-greedy explores
    double guard = 0.0;     // the error rate of the test for a wrong model, 0 for none
    double prior = 1.0;     // the weight of latent-ts's on every point
    double discount = 0.0;  // of explored rounds, in joint-ucb's threshold
    bool thorough = false;  // whether all excluded arms are audited, also those that the model calls never best
};

}  // namespace hw
