// Index policies where there are so many arms and rewards that a table of all pairs would not fit into memory.
#pragma once
#include "candidates.h"

namespace hw {

inline namespace HW_BUILD {

// What is kept beside the counts.
struct ManyRoom {
    CandidateRows rows;
    Candidates candidates;

    HW_INLINE ManyRoom(const Columns &columns, bool filtered)
        : rows(filtered ? columns.arms() : 1, filtered ? columns.atoms() : 1, columns.limits),
          candidates(columns.arms(), filtered ? columns.atoms() : 1, columns.limits) {}
    HW_INLINE void lay(Arena &arena) {
        rows.lay(arena);
        candidates.lay(arena);
    }
};

struct ManyState : State<double> {
    ManyRoom *room = nullptr;
    SeenAtoms *seen_atoms = nullptr;
};

template <class Rule> struct Many {
    Rewards rewards;
    Settings settings;
    Columns columns;
    Memory memory;

    using State = ManyState;

    static constexpr Needs needs() { return Rule::needs; }
    static constexpr bool randomised() { return Rule::randomised; }
    HW_INLINE Shape shape() const { return {columns.arms(), columns.atoms(), false, false, needs().notes}; }

    HW_DEVICE void lay(State &s, Arena &arena) const {
        s.hw::State<double>::lay(arena);
        const bool filtered = settings.filter != Filter::none;
        const View<ManyRoom> place = arena.view<ManyRoom>(1);
        const View<SeenAtoms> seen = arena.view<SeenAtoms>(1);
        ManyRoom room(columns, filtered);
        room.lay(arena);
        s.room = place.data;
        s.seen_atoms = seen.data;
        if (place.data == nullptr) return;
        place[0] = room;
        place[0].rows.forget();
        seen[0] = SeenAtoms{memory.view<Int>(first_keys), memory.view<Int>(first_keys)};
    }
    HW_DEVICE void share(const State &known, State &ahead) const {
        ahead.room = known.room;
        ahead.seen_atoms = known.seen_atoms;
    }

    // Nothing observed; what does not depend on rewards stays.
    HW_DEVICE void forget(State &s) const {
        s.forget();
        forget_seen(s.room->rows, *s.seen_atoms);
        s.room->candidates.forget();
    }
    // The counts came from elsewhere: rows of sums are made anew when they are needed.
    HW_DEVICE void rebuild(State &s) const {
        s.rebuild(rewards, settings, Rule::needs);
        s.room->rows.forget();
        s.room->candidates.forget();
    }

    HW_DEVICE Int choose(State &s, const Round &) const {
        ManyArms all = arms_of(s);
        return hw::choose<Rule>(all, true);
    }
    template <class Paid> HW_DEVICE void observe(State &s, Int arm, const Paid &paid) const {
        make_room(s);
        ManyArms all = arms_of(s);
        hw::observe<Rule>(all, arm, paid.kind);
    }
    // Count `n` more rewards of an arm at an atom, which its other counts know of already.
    HW_DEVICE void count(State &s, Int arm, Int atom, Int n) const {
        make_room(s);
        s.seen_atoms->see(seen_key(columns, arm, atom), n);
    }
    HW_INLINE void count_excluded(const State &s, Ints out) const {
        for (Int k = 0; k < s.arms(); ++k) out[k] = -1;  // nobody looks at all of them
    }

    // Before decisions that look at every arm, `reference` the most-pulled one that is on.
    template <class On> HW_DEVICE void prepare(State &s, Int reference, On) const {
        ManyArms all = arms_of(s);
        settle(all, reference);
    }
    template <class On> HW_DEVICE Int choose_among(State &ahead, const Round &round, On on) const {
        const ManyArms all = arms_of(ahead);
        return choose_ahead<Rule>(all, ahead, round, on);
    }
    template <class On> HW_INLINE void begin_ahead(State &, On, bool) const {}
    HW_INLINE void begin_draw(State &) const {}
    HW_INLINE void after_choice(State &) const {}
    HW_INLINE void end_draw(State &) const {}
    HW_INLINE void pend(State &, Int) const {}
    HW_INLINE void end_ahead(State &, bool) const {}

    // Arm k's sums of its rewards less each arm's pseudo-rewards, where it leads or led; made if they are not.
    HW_DEVICE KnownInts row_of(State &s, Int k) const {
        if (settings.filter == Filter::none) return {};
        ManyArms all = arms_of(s);
        candidate::dissolve(all);
        hw::prepare(all, k);
        return s.room->rows.rows[s.room->rows.slot[k]];
    }

  private:
    static constexpr Int first_keys = 1024;

    HW_INLINE ManyArms arms_of(State &s) const {
        return {columns, rewards, settings, s, s.room->rows, s.room->candidates, *s.seen_atoms};
    }
    HW_INLINE void make_room(State &s) const {
        if (!s.seen_atoms->full()) return;
        const Int size = 2 * s.seen_atoms->keys.size;
        SeenAtoms larger{memory.view<Int>(size), memory.view<Int>(size)};
        move_seen(*s.seen_atoms, larger);
        *s.seen_atoms = larger;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
