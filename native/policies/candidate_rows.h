// The filter for very many arms: rows of sums only for arms that ever led, from columns of rewards.
//
// The filter compares every arm with one other, the most-pulled one. So of the K x K sums one row is read,
// and of the K x M x K excesses those of one arm. Here the rewards themselves stand for the excesses
// (`Columns`): what a level says of the others is the maximum of a few columns, usually of one. How often
// each arm paid at each atom is counted in a table of its own (`SeenAtoms`), and a row of sums is made from
// these counts when its arm first leads; from then on every reward of that arm is added to it. Whole numbers,
// added in another order: the decisions are those of the full table, one by one.
#pragma once
#include "../model.h"
#include "../vectors.h"

namespace hw {
inline namespace HW_BUILD {

inline constexpr double same_reward = 1e-12;  // of the largest magnitude: closer ones are one

// How often each arm was seen to pay at each atom: `counts` at the places that `keys` (arm J + atom + 1, 0:
// free) say, open addressing, at most half full; their number is a power of two. Who owns the memory gives it
// more when it is full.
struct SeenAtoms {
    Ints keys, counts;
    Int used = 0;

    // Whether `more` keys might not fit.
    HW_INLINE bool full(Int more = 1) const { return keys.size < 2 * (used + more); }
    // Where a key is or would be.
    HW_INLINE Int place(Int key) const {
        const Long mask = static_cast<Long>(keys.size - 1);
        Long at = ((static_cast<Long>(key) * 0x1E3779B97F4A7C15ull) >> 24) & mask;
        while (keys[static_cast<Int>(at)] != 0 && keys[static_cast<Int>(at)] != key) at = (at + 1) & mask;
        return static_cast<Int>(at);
    }
    HW_INLINE Int times(Int key) const {
        const Int at = place(key);
        return keys[at] == key ? counts[at] : 0;
    }
    // Count n more; there must be room.
    HW_INLINE void see(Int key, Int n) {
        const Int at = place(key);
        if (keys[at] == 0) {
            keys[at] = key;
            ++used;
        }
        counts[at] += n;
    }
    HW_INLINE void forget() {
        fill(keys, Int{0});
        fill(counts, Int{0});
        used = 0;
    }
};

HW_INLINE Int seen_key(const Columns &columns, Int arm, Int atom) { return arm * columns.atoms() + atom + 1; }

// The same counts in a larger table, so far empty. O(size).
HW_DEVICE inline void move_seen(const SeenAtoms &from, SeenAtoms &to) {
    for (Int i = 0; i < from.keys.size; ++i) {
        if (from.keys[i] != 0) to.see(from.keys[i], from.counts[i]);
    }
}

// Rows of sums, R of them, and what they are made from, E kept levels. What does not depend on rewards stays
// when a replication begins anew.
struct CandidateRows {
    Int arms, atoms, limit, room;
    Ints slot;         // (K,): an arm's row, -1 if it has none
    Ints owner;        // (R,): a row's arm, -1 if it is free
    Ints stamp;        // (R,): when it was last needed
    Grid<Int> rows;    // (R, K): over its owner's pulls, the sum of the reward less each arm's pseudo-reward
    Ints drop;         // (R,): by how much a pull may lower any of them at most
    Grid<int> order;   // (R, J): the atoms by level of that arm
    Grid<int> begin;   // (R, J + 1): where in `order` each level begins
    Grid<int> level;   // (R, J): each atom's
    Grid<int> place;   // (R, J): where a level's pseudo-rewards are kept, -1 where they are not
    Grid<int> kept;    // (E, K): pseudo-rewards of a level of more than one atom
    Grid<Int> kept_by; // (E, 2): its slot and level
    View<int> sorting; // (J,): to sort in
    Int clock = 0, next = 0;  // the last stamp, the next place in `kept`

    // About 100 MB at 10,000 arms and atoms, of which the system gives what is used if the memory comes
    // zeroed.
    HW_INLINE CandidateRows(Int arms_, Int atoms_, const Limits &limits)
        : arms(arms_), atoms(atoms_), limit(min(arms_, limits.rows)),
          room(max(Int{8}, min(limit * atoms_, limits.kept / arms_))) {}

    HW_INLINE void lay(Arena &arena) {
        slot = arena.view<Int>(arms), owner = arena.view<Int>(limit), stamp = arena.view<Int>(limit);
        rows = arena.grid<Int>(limit, arms), drop = arena.view<Int>(limit);
        order = arena.grid<int>(limit, atoms), begin = arena.grid<int>(limit, atoms + 1);
        level = arena.grid<int>(limit, atoms), place = arena.grid<int>(limit, atoms);
        kept = arena.grid<int>(room, arms), kept_by = arena.grid<Int>(room, 2);
        sorting = arena.view<int>(atoms);
    }
    // Every row must be made anew: nothing was seen yet, or what was seen changed otherwise than reward by
    // reward.
    HW_INLINE void forget() {
        fill(slot, Int{-1});
        fill(owner, Int{-1});
        fill(kept_by.flat(), Int{-1});
    }
    // The atoms of a row's m-th level.
    HW_INLINE View<int> atoms_of(Int row, Int m) const {
        return order[row].part(begin(row, m), begin(row, m + 1));
    }
};

// Nothing seen: every row is of an arm that was never pulled.
HW_DEVICE inline void forget_seen(CandidateRows &rows, SeenAtoms &seen) {
    seen.forget();
    for (Int slot = 0; slot < rows.limit; ++slot) {
        if (rows.owner[slot] >= 0) fill(rows.rows[slot], Int{0});
    }
}

namespace candidate {

// Whether the most that a target pays at the atoms is what the arm pays there, rounding aside: then a tie
// stays one.
HW_DEVICE inline bool same(const Columns &columns, Int arm, Int target, View<const int> atoms) {
    double r = infinity, s = -infinity;
    for (const int j : atoms) {
        r = min(r, columns.g(arm, j));
        s = max(s, columns.g(target, j));
    }
    return absolute(s - r) <= same_reward * max(absolute(s), absolute(r));
}

// Where the pseudo-rewards of a level of several atoms are kept; computed if they are not. O(K) for each
// atom.
HW_DEVICE inline Int keep(CandidateRows &rows, const Columns &columns, Int slot, Int m) {
    if (rows.place(slot, m) >= 0) return rows.place(slot, m);
    const Int at = rows.next;
    rows.next = (at + 1) % rows.room;
    if (rows.kept_by(at, 0) >= 0) rows.place(rows.kept_by(at, 0), rows.kept_by(at, 1)) = -1;
    rows.kept_by(at, 0) = slot, rows.kept_by(at, 1) = m;
    rows.place(slot, m) = static_cast<int>(at);
    const View<const int> atoms = rows.atoms_of(slot, m);
    const View<int> kept = rows.kept[at];
    copy<int>(columns.up[atoms[0]], kept);
    for (Int i = 1; i < atoms.size; ++i) {
        const View<const int> up = columns.up[atoms[i]];
        for (Int ell = 0; ell < kept.size; ++ell) kept[ell] = max(kept[ell], up[ell]);
    }
    if (!columns.rounded()) return at;
    const Int arm = rows.owner[slot], paid = columns.pays(arm, atoms[0]);
    for (Int ell = 0; ell < kept.size; ++ell) {
        if (kept[ell] == paid + 1 && same(columns, arm, ell, atoms)) kept[ell] = static_cast<int>(paid);
    }
    return at;
}

// Count n rewards of level m in a row of sums. O(K).
HW_DEVICE inline void add(CandidateRows &rows, const Columns &columns, Int slot, Int m, Int n) {
    const Int arm = rows.owner[slot];
    const View<const int> atoms = rows.atoms_of(slot, m);
    const Int paid = columns.pays(arm, atoms[0]);
    const bool several = atoms.size > 1;
    const View<const int> up = several ? rows.kept[keep(rows, columns, slot, m)] : columns.up[atoms[0]];
    const Ints row = rows.rows[slot];
    if (n == 1) {  // mostly, and products of such numbers are slow
        for (Int ell = 0; ell < row.size; ++ell) row[ell] += paid - up[ell];
    } else {
        for (Int ell = 0; ell < row.size; ++ell) row[ell] += n * (paid - up[ell]);
    }
    const int next = static_cast<int>(paid + 1);
    int close = up[arm] == next ? -1 : 0;  // how many others are within rounding
    if (!several && columns.rounded())
        for (Int ell = 0; ell < row.size; ++ell) close += up[ell] == next;
    if (close > 0) {
        for (Int ell = 0; ell < row.size; ++ell) {
            if (up[ell] == next && same(columns, arm, ell, atoms)) row[ell] += n;
        }
    }
    row[arm] = 0;
}

// What a reward of level m adds to one arm's sum in a row.
HW_DEVICE inline Int excess(CandidateRows &rows, const Columns &columns, Int slot, Int m, Int ell) {
    const Int arm = rows.owner[slot];
    const View<const int> atoms = rows.atoms_of(slot, m);
    if (ell == arm) return 0;
    const Int paid = columns.pays(arm, atoms[0]);
    if (atoms.size > 1) return paid - static_cast<Int>(rows.kept(keep(rows, columns, slot, m), ell));
    const Int more = paid - static_cast<Int>(columns.up(atoms[0], ell));
    return more == -1 && columns.rounded() && same(columns, arm, ell, atoms) ? 0 : more;
}

// Merge the sorted stretches of `from` that are `width` long into stretches of twice that.
HW_DEVICE inline void merge(KnownDoubles values, View<const int> from, View<int> to, Int width) {
    for (Int start = 0; start < from.size; start += 2 * width) {
        const Int middle = min(start + width, from.size), end = min(start + 2 * width, from.size);
        Int i = start, j = middle;
        for (Int at = start; at < end; ++at) {
            const bool left = j >= end || (i < middle && !(values[from[j]] < values[from[i]]));
            to[at] = left ? from[i++] : from[j++];
        }
    }
}

// The numbers 0, 1, ... in the order of their values, equal ones in their own order. O(J log J).
HW_DEVICE inline void sort_stably(KnownDoubles values, View<int> order, View<int> scratch) {
    const Int run = 16;
    for (Int i = 0; i < order.size; ++i) {  // runs, by insertion
        const Int first = i / run * run;
        Int at = i;
        for (; at > first && values[i] < values[order[at - 1]]; --at) order[at] = order[at - 1];
        order[at] = static_cast<int>(i);
    }
    View<int> from = order, to = scratch;
    for (Int width = run; width < order.size; width *= 2) {
        merge(values, from, to, width);
        const View<int> merged = to;
        to = from, from = merged;
    }
    if (from.data != order.data) copy<int>(from, order);
}

// A row for an arm that has none: a free one, or the one that was needed last longest ago.
HW_DEVICE inline Int make_room(CandidateRows &rows) {
    Int slot = 0;
    for (Int i = 0; i < rows.limit; ++i) {
        if (rows.owner[i] < 0) return i;
        if (rows.stamp[i] < rows.stamp[slot]) slot = i;
    }
    rows.slot[rows.owner[slot]] = -1;
    for (Int at = 0; at < rows.room; ++at) {
        if (rows.kept_by(at, 0) == slot) rows.kept_by(at, 0) = -1;
    }
    return slot;
}

// Sort the atoms of a row's arm into levels; returns how many there are. O(J log J).
HW_DEVICE inline Int sort_levels(CandidateRows &rows, const Columns &columns, Int slot) {
    const KnownDoubles rewards = columns.g[rows.owner[slot]];
    const View<int> order = rows.order[slot];
    sort_stably(rewards, order, rows.sorting);
    const double apart = same_reward * magnitude(rewards);
    Int m = -1;
    for (Int i = 0; i < order.size; ++i) {
        const bool next = i == 0 || rewards[order[i]] - rewards[order[i - 1]] > apart;
        if (next) rows.begin(slot, ++m) = static_cast<int>(i);
        rows.level(slot, order[i]) = static_cast<int>(m);
    }
    rows.begin(slot, m + 1) = static_cast<int>(order.size);
    return m + 1;
}

}  // namespace candidate

// Make the row of an arm that has none, from what was seen. O(J log J), and O(K) for each level seen.
HW_DEVICE inline void lead(Int arm, CandidateRows &rows, const Columns &columns, const SeenAtoms &seen) {
    const Int slot = candidate::make_room(rows);
    rows.owner[slot] = arm, rows.slot[arm] = slot;
    fill(rows.rows[slot], Int{0});
    fill(rows.place[slot], -1);
    const Int levels = candidate::sort_levels(rows, columns, slot);
    rows.drop[slot] = columns.top - columns.pays(arm, rows.order(slot, 0));
    for (Int m = 0; m < levels; ++m) {
        Int n = 0;
        for (const int j : rows.atoms_of(slot, m)) n += seen.times(seen_key(columns, arm, j));
        if (n > 0) candidate::add(rows, columns, slot, m, n);
    }
}

}  // namespace HW_BUILD
}  // namespace hw
