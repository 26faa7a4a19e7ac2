// Decisions among very many arms, few of which can win: the others are not looked at.
//
// UCB1's and KL-UCB's index of an arm that is not pulled grows with log t alone. So for the next L rounds its
// value at the end is a bound. A few arms of the largest bounds are the *candidates*; the largest bound of
// the others is the `bar`. While the best candidate's index is above the bar, it is the largest of all, and a
// round costs what its candidates cost. When it is not, or L rounds are over, every arm is looked at again; L
// doubles when they all were of use, and is cut when they were not.
//
// Under the filter, an arm whose sum in the leader's row is above L times what a pull may take from it stays
// excluded for L rounds: it is no candidate, whatever its index. While the same arm leads, only the
// candidates' sums are kept up to date; what the others are owed is counted by level, and paid when every arm
// is looked at.
//
// Nothing here changes a decision: they are those of the full table, one by one. Other rules look at every
// arm in every round.
#pragma once
#include "candidate_rows.h"
#include "indexed.h"
#include "ucb1.h"
#include "uniform.h"

namespace hw {
inline namespace HW_BUILD {

// The candidates, room for all K arms, and what is owed for J levels.
struct Candidates {
    static constexpr Int first = 32, shortest = 8, longest = 1 << 20, pause = 16;

    Int all, atoms, limit;
    Int few;            // of those in the running: as many as it takes rounds until every arm is looked at
    Int size = 0;       // 0: none are known
    Int place = 0;      // of the one chosen last
    Int since = 0, until = 0, length = first;  // the rounds they began and end with, and L
    Int leader = 0;
    Int debts = 0;      // how many levels are owed for
    Int rest = 0;       // rounds until they are looked for again
    double bar = 0.0;
    Ints arms;          // ascending
    Ints against;       // their sums in the leader's row
    Doubles floor;      // the last index that was computed since each was pulled
    Ints owed;          // (J,): rewards by level
    Ints levels;        // the levels owed for
    Doubles bound, work;

    HW_INLINE Candidates(Int arms_, Int atoms_, const Limits &limits)
        : all(arms_), atoms(atoms_), limit(min(atoms_, limits.debts)) {
        Int root = 0;
        while ((root + 1) * (root + 1) <= all) ++root;
        few = min(all, max(Int{1}, 2 * root + limits.least));
    }
    HW_INLINE void lay(Arena &arena) {
        arms = arena.view<Int>(all), against = arena.view<Int>(all), floor = arena.view<double>(all);
        owed = arena.view<Int>(atoms), levels = arena.view<Int>(limit);
        bound = arena.view<double>(all), work = arena.view<double>(all);
    }
    // Before the first decision, and when the rows are made anew: nobody, and nothing is owed.
    HW_INLINE void forget() {
        fill(owed, Int{0});
        size = debts = rest = 0;
        length = first;
    }
};

// A rule's indices at one log t, where an index is known to grow with log t alone while its arm is not
// pulled. `searched` says whether an index takes a search, so that it is better to ask first whether it
// reaches another one; then a no is certain.
template <class Rule> struct Growing {
    static constexpr bool known = false;
};

template <> struct Growing<Ucb1> {
    static constexpr bool known = true, searched = false;
    const double *mean, *root;
    double width, most = infinity;  // `most`: what no index of an arm that was pulled exceeds

    HW_INLINE Growing(const State<double> &state, const Rewards &, const Settings &settings, double log_t)
        : mean(state.mean.data), root(state.root.data), width(settings.scale * sqrt(2.0 * log_t)) {}
    template <class N> HW_INLINE N index_of(N mean_of, N root_of, N) const {
        return mean_of + number<N>(width) * root_of;
    }
    HW_INLINE double index(Int k) const { return mean[k] + width * root[k]; }
    HW_INLINE bool reaches(Int k, double other) const { return index(k) > other; }
};

template <> struct Growing<KlUcb> {
    static constexpr bool known = true, searched = true;
    const double *mean;
    const Int *pulls;
    double log_t, most;
    Scale scale;

    HW_INLINE Growing(const State<double> &state, const Rewards &rewards, const Settings &, double log_t_)
        : mean(state.mean.data), pulls(state.pulls.data), log_t(log_t_), most(rewards.low + rewards.span),
          scale{rewards.low, rewards.span} {}
    template <class N> HW_INLINE N index_of(N mean_of, N, N n) const {
        return kl_ucb_index(mean_of, n, log_t, scale);
    }
    HW_INLINE double index(Int k) const { return kl_ucb_index(mean[k], as_number(pulls[k]), log_t, scale); }
    HW_INLINE bool reaches(Int k, double other) const {
        return kl_ucb_reaches(mean[k], as_number(pulls[k]), other, log_t, scale);
    }
};

// Whether an arm that was never pulled goes before all others.
template <class Rule> inline constexpr bool new_first = true;
template <> inline constexpr bool new_first<Uniform> = false;

// One learner among very many arms: what is fixed, where `rewards` has no table, what was learned, and what is kept beside it.
struct ManyArms {
    const Columns &columns;
    const Rewards &rewards;
    const Settings &settings;
    State<double> &state;
    CandidateRows &rows;
    Candidates &candidates;
    SeenAtoms &seen;  // its memory is somebody else's, who makes it larger

    HW_INLINE bool filtered() const { return settings.filter != Filter::none; }
    HW_INLINE Int slot_of(Int arm) const { return filtered() ? rows.slot[arm] : 0; }
    HW_INLINE bool excluded(Int slot, Int k) const { return filtered() && rows.rows(slot, k) > 0; }
    template <class Rule> HW_INLINE Growing<Rule> at(double log_t) const {
        return {state, rewards, settings, log_t};
    }
};

// What an arm pays, in units: no levels, and no table of what each says of the others.
struct PaidUnits {
    Int paid;
    HW_INLINE Int units(Int) const { return paid; }
    HW_INLINE Int level(Int) const { return 0; }
    HW_INLINE Int excess(Int, Int) const { return 0; }
};

namespace candidate {

inline constexpr double margin = 1e-12;  // of the rewards' range: what rounding might do, and more

// Pay what is owed to the leader's row, if it still has one, and look at every arm next. O(K) for each level
// owed for.
HW_DEVICE inline void dissolve(ManyArms &all) {
    Candidates &c = all.candidates;
    if (c.size == 0) return;
    const Int slot = c.debts > 0 ? all.rows.slot[c.leader] : -1;
    for (Int i = 0; i < c.debts; ++i) {
        const Int m = c.levels[i];
        if (slot >= 0) add(all.rows, all.columns, slot, m, c.owed[m]);
        c.owed[m] = 0;
    }
    const Int lived = all.state.round + 1 - c.since;
    const bool enough = lived >= c.length;
    c.length = enough ? min(2 * c.length, Candidates::longest) : max(2 * lived, Candidates::shortest);
    c.rest = 2 * lived < Candidates::shortest ? Candidates::pause : 0;
    c.size = c.debts = 0;
}

// The n-th largest of some values, n from 1, which are left in another order. O(K) expected.
HW_DEVICE inline double nth_largest(Doubles values, Int n) {
    Int low = 0, high = values.size - 1;
    const Int want = n - 1;
    while (low < high) {
        const double pivot = values[(low + high) / 2];
        Int i = low, j = high;
        while (i <= j) {
            while (values[i] > pivot) ++i;
            while (values[j] < pivot) --j;
            if (i <= j) {
                const double kept = values[i];
                values[i++] = values[j], values[j--] = kept;
            }
        }
        if (want <= j) high = j;
        else if (want >= i) low = i;
        else break;
    }
    return values[want];
}

// The largest bound but `few`, or but those that are equal to the largest, rounding aside; -inf where there
// is none.
HW_DEVICE inline double bar_of(Doubles bounds, Int few, double span) {
    const double top = at_least(-infinity, bounds);
    const double below = top < infinity ? top - 4.0 * margin * (span + absolute(top)) : top;
    double bar = bounds.size > few ? nth_largest(bounds, few + 1) : -infinity;
    if (bar < below || bar == -infinity) return bar;
    bar = -infinity;
    for (const double bound : bounds) {
        if (bound < below) bar = max(bar, bound);
    }
    return bar;
}

// Whether so few arms are new that bounds tell the others apart: an arm never pulled has the index +inf.
HW_DEVICE inline bool few_are_new(const ManyArms &all, Int slot) {
    Int fresh = 0;
    for (Int k = 0; k < all.candidates.all; ++k)
        fresh += all.state.mean[k] == infinity && !all.excluded(slot, k);
    return fresh <= all.candidates.few;
}

// The bounds of the arms in the running, one after the other, and each arm's own. As many side by side as the
// registers take. O(K).
template <class Rule>
HW_DEVICE inline Doubles bound_running(ManyArms &all, Int slot, const Growing<Rule> &end) {
    Candidates &c = all.candidates;
    const State<double> &state = all.state;
    Int running = 0;
    for (Int k = 0; k < c.all; ++k) {
        if (!all.excluded(slot, k)) c.arms[running++] = k;  // for now
    }
    for (Int from = 0; from < running; from += wide) {
        const auto arm = [&](Int i) { return c.arms[min(from + i, running - 1)]; };
        const Lanes mean = each_lane<Lanes>([&](Int i) { return state.mean[arm(i)]; });
        const Lanes root = each_lane<Lanes>([&](Int i) { return state.root[arm(i)]; });
        const Lanes pulls = each_lane<Lanes>([&](Int i) { return as_number(state.pulls[arm(i)]); });
        const Lanes bound = end.index_of(mean, root, pulls);
        for (Int i = 0; i < wide && from + i < running; ++i)
            c.work[from + i] = c.bound[c.arms[from + i]] = lane(bound, i);
    }
    return c.work.first(running);
}

// Bound every arm's index over the next rounds, and find the candidates. O(K). The `few` arms in the running
// of largest bounds; and all that are excluded now, but neither surely nor below the bar.
template <class Rule> HW_DEVICE inline void gather(ManyArms &all) {
    Candidates &c = all.candidates;
    c.since = all.state.round + 1, c.leader = all.state.most_pulled, c.size = 0;
    c.until = c.since + c.length - 1;
    const Int slot = all.slot_of(all.state.most_pulled);
    if (!few_are_new(all, slot)) return;
    const Growing<Rule> end = all.at<Rule>(round_of(c.until).log_t);
    const double bar = bar_of(bound_running(all, slot, end), c.few, all.rewards.span);
    const Int safe = c.length * all.rows.drop[slot];
    for (Int k = 0; k < c.all; ++k) {
        const bool out = all.excluded(slot, k);
        const bool rival = !out ? c.bound[k] > bar : all.rows.rows(slot, k) <= safe && end.reaches(k, bar);
        if (!rival) continue;
        c.arms[c.size] = k;
        c.against[c.size] = all.filtered() ? all.rows.rows(slot, k) : 0;
        c.floor[c.size++] = -infinity;
    }
    c.bar = bar > -infinity ? bar + margin * (all.rewards.span + absolute(bar)) : bar;
}

// The candidate of largest index, the lowest number among equals; -1 if another arm might have a larger one.
// O(C).
template <class Rule> HW_DEVICE inline Int best_candidate(ManyArms &all) {
    Candidates &c = all.candidates;
    const Growing<Rule> now = all.at<Rule>(round_of(all.state.round + 1).log_t);
    const KnownInts arms = c.arms.first(c.size), against = c.against.first(c.size);
    const double *mean = all.state.mean.data;
    const Doubles last = c.floor;
    Int arm = -1, place = c.place;
    double best = -infinity, least = c.bar;
    if constexpr (Growing<Rule>::searched) {  // no index computed before has fallen since: no search below it
        for (Int i = 0; i < arms.size; ++i) {
            if (against[i] <= 0) least = max(least, last[i]);
        }
    }
    for (Int i = 0; i < arms.size; ++i) {
        const Int k = arms[i];
        if (against[i] > 0 || !(best < now.most || mean[k] == infinity)) continue;
        double x = -infinity;
        if constexpr (Growing<Rule>::searched) {
            if (now.reaches(k, max(best, least))) last[i] = x = now.index(k);
        } else {
            x = now.index(k);
        }
        if (x > best) arm = k, best = x, place = i;
    }
    c.place = place;
    return best > c.bar ? arm : -1;
}

// A reward of the leader: the candidates' sums now, the others' later. O(C). False if it must be counted
// otherwise.
HW_DEVICE inline bool owe(ManyArms &all, Int arm, Int m) {
    Candidates &c = all.candidates;
    const Int slot = all.rows.slot[arm];
    if (c.size == 0 || arm != c.leader || (c.owed[m] == 0 && c.debts == c.limit)) return false;
    if (16 * c.size > c.all) {  // one by one they would take longer than all at once
        add(all.rows, all.columns, slot, m, 1);
        const KnownInts arms = c.arms.first(c.size), row = all.rows.rows[slot];
        const Ints against = c.against;
        for (Int i = 0; i < arms.size; ++i) against[i] = row[arms[i]];
        return true;
    }
    if (c.owed[m] == 0) c.levels[c.debts++] = m;
    c.owed[m] += 1;
    for (Int i = 0; i < c.size; ++i) c.against[i] += excess(all.rows, all.columns, slot, m, c.arms[i]);
    return true;
}

// The arm of largest index among those that are on, the lowest number among equals; leaves every arm's index,
// -inf for the excluded. `state` may look ahead of the one that is observed; `slot` is the row of its
// most-pulled arm. O(K).
template <class Rule, class On>
HW_DEVICE inline Int choose_among(const ManyArms &all, State<double> &state, Int slot, const Round &round,
                                  On on) {
    static_assert(!Rule::needs.levels, "rewards are not counted by level here");
    const auto running = [&](Int k) { return on(k) && !all.excluded(slot, k); };
    Rule::rank(state, all.rewards, all.settings, round, running);
    if constexpr (!same_type<On, Everyone>) {
        for (Int k = 0; k < state.arms(); ++k) {
            if (!on(k)) state.index[k] = __builtin_nan("");  // which no comparison finds
        }
    }
    const Int arm = best_arm(state);
    if (!(all.settings.audit > 0.0)) return arm;
    return audited(state, arm, state.mean[state.most_pulled], round.log_t, all.rewards, all.settings);
}

// An arm in the running that was never pulled, the lowest number; -1 if there is none. Its index is +inf: no
// other need be known.
HW_DEVICE inline Int first_new(const ManyArms &all, Int slot) {
    for (Int k = 0; k < all.state.arms(); ++k) {
        if (all.state.mean[k] == infinity && !all.excluded(slot, k)) return k;
    }
    return -1;
}

// As `choose_among`, every arm being on. If `lazy`, indices need not be left. O(K).
template <class Rule> HW_DEVICE inline Int choose_among_all(ManyArms &all, bool lazy) {
    State<double> &state = all.state;
    const Int slot = all.slot_of(state.most_pulled);
    all.rows.stamp[slot] = ++all.rows.clock;
    const Round round = round_of(state.round + 1);
    const Int arm = lazy && new_first<Rule> ? first_new(all, slot) : -1;
    if (arm < 0) return choose_among<Rule>(all, state, slot, round, Everyone{});
    if (!(all.settings.audit > 0.0)) return arm;
    for (Int k = 0; k < state.arms(); ++k) state.index[k] = all.excluded(slot, k) ? -infinity : 0.0;
    return audited(state, arm, state.mean[state.most_pulled], round.log_t, all.rewards, all.settings);
}

// The best of the candidates, looked for anew if those known will not do; -1 where every arm must be looked
// at.
template <class Rule> HW_DEVICE inline Int choose_among_few(ManyArms &all, bool few) {
    Candidates &c = all.candidates;
    const State<double> &state = all.state;
    if constexpr (Growing<Rule>::known) {
        const bool known = few && c.size > 0 && state.round + 1 <= c.until;
        if (known && !(all.filtered() && state.most_pulled != c.leader)) {
            const Int arm = best_candidate<Rule>(all);
            if (arm >= 0) return arm;
        }
    }
    dissolve(all);
    Int arm = -1;
    if constexpr (Growing<Rule>::known) {
        if (few && c.rest == 0) {
            gather<Rule>(all);
            arm = best_candidate<Rule>(all);
            if (arm < 0) c.size = 0, c.rest = Candidates::pause;
        }
    }
    c.rest = max(c.rest - 1, Int{0});
    return arm;
}

}  // namespace candidate

// Count that `arm` paid what it pays at `atom`. O(K) at most. `seen` must have room for one more key.
template <class Rule> HW_DEVICE inline void observe(ManyArms &all, Int arm, Int atom) {
    State<double> &state = all.state;
    // An arm that was not chosen is perhaps no candidate: its index may be above its bound.
    if (arm != state.chosen) candidate::dissolve(all);
    state.observe(arm, PaidUnits{all.columns.pays(arm, atom)}, all.rewards, all.settings, Rule::needs);
    all.candidates.floor[all.candidates.place] = -infinity;
    if (all.seen.keys.size > 0) all.seen.see(seen_key(all.columns, arm, atom), 1);
    if (!all.filtered()) return;
    const Int slot = all.rows.slot[arm], n = state.pulls[arm];
    if (slot >= 0 && !candidate::owe(all, arm, all.rows.level(slot, atom))) {
        candidate::dissolve(all);
        candidate::add(all.rows, all.columns, slot, all.rows.level(slot, atom), 1);
    }
    const bool overtakes = n > state.most || (n == state.most && arm < state.most_pulled);
    if (overtakes) state.most_pulled = arm, state.most = n;
}

// An arm that is to lead has a row. O(J log J), and O(K) for each level seen, where it had none.
HW_DEVICE inline void prepare(ManyArms &all, Int arm) {
    if (all.filtered() && all.rows.slot[arm] < 0) lead(arm, all.rows, all.columns, all.seen);
}

// The arm to pull. O(K) at most, and O(J log J) and O(K) a level where the most-pulled arm leads for the
// first time. If not `lazy`, leaves every arm's index, -inf for the excluded.
template <class Rule> HW_DEVICE inline Int choose(ManyArms &all, bool lazy) {
    State<double> &state = all.state;
    prepare(all, state.most_pulled);
    const bool few = lazy && Growing<Rule>::known && !(all.settings.audit > 0.0);
    Int arm = candidate::choose_among_few<Rule>(all, few);
    if (arm < 0) arm = candidate::choose_among_all<Rule>(all, lazy);
    return state.chosen = arm;
}

// Before decisions on a copy of the state, with pending pulls or arms that are switched off, every one of
// which looks at every arm: nothing is owed any more, and the most-pulled arm that is on has a row. Returns
// its slot.
HW_DEVICE inline Int settle(ManyArms &all, Int most_pulled) {
    candidate::dissolve(all);
    prepare(all, most_pulled);
    const Int slot = all.slot_of(most_pulled);
    all.rows.stamp[slot] = ++all.rows.clock;
    return slot;
}

// A decision on such a copy, its `most_pulled` being the one that was settled.
template <class Rule, class On>
HW_DEVICE inline Int choose_ahead(const ManyArms &all, State<double> &ahead, const Round &round, On on) {
    const Int slot = all.slot_of(ahead.most_pulled);
    return ahead.chosen = candidate::choose_among<Rule>(all, ahead, slot, round, on);
}

}  // namespace HW_BUILD
}  // namespace hw
