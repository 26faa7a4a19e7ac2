// A policy that ranks arms by an index of each arm's own numbers, perhaps among those that the filter leaves, perhaps with audits.
#pragma once
#include "audit.h"
#include "correlated.h"
#include "sideways.h"

namespace hw {
inline namespace HW_BUILD {

// The lowest-numbered arm of largest index. O(K), across the arms where there are many.
template <class S> HW_INLINE typename S::C best_arm(const S &s) {
    using N = typename S::N;
#if defined(HW_PACKS)
    if constexpr (same_type<N, double> && same_type<typename S::C, Int> && wide > 1) {
        if (s.arms() > few) return best_across(&s.index[0], s.arms());
    }
#endif
    Best<N, typename S::C> best;
    for (Int k = 0; k < s.arms(); ++k) best.offer(k, s.index[k]);
    return best.arm;
}

// Every arm is on.
struct Everyone {
    HW_INLINE bool operator()(Int) const { return true; }
};

// Rules whose index of an arm depends on the arm's own numbers alone rank many arms of one replication side by side.
template <class Rule, class S, class On>
inline constexpr bool sideways = wide > 1 && Rule::cheap && same_type<S, State<double>> && same_type<On, Everyone>;

// `levelled`: whether rewards are counted one by one even where the rule does not ask.
template <class Rule, bool levelled = false> struct Indexed {
    Rewards rewards;
    Settings settings;

    using State = hw::State<double>;

    static constexpr Needs needs() { return {Rule::needs.successes, Rule::needs.squares, Rule::needs.levels || levelled, Rule::needs.notes}; }
    static constexpr bool randomised() { return Rule::randomised; }
    HW_INLINE Shape shape() const {
        return {rewards.arms(), rewards.kinds(), settings.filter != Filter::none, needs().levels, needs().notes};
    }
    template <class S> HW_INLINE void forget(S &s) const { s.forget(); }
    template <class S> HW_DEVICE void lay(S &s, Arena &arena) const { s.lay(arena); }
    // A state that looks ahead shares what a decision only reads.
    template <class S> HW_DEVICE void share(const S &known, S &ahead) const {
        ahead.sums = known.sums;
        ahead.seen = known.seen;
    }

    // What several replications are about to choose from, where it pays to work it out for all at once. It changes no choice.
    template <class S> HW_INLINE void foresee(View<S> states, const Round &round) const {
        if constexpr (requires { Rule::foresee(states, rewards, round); }) Rule::foresee(states, rewards, round);
    }

    // All arms are on; leaves every arm's index. O(K) a round, mostly.
    template <class S, class R> HW_INLINE typename S::C choose(S &s, const R &round) const {
        return choose_among(s, round, Everyone{});
    }

    // As `choose`, among the arms that are on.
    template <class S, class R, class On> HW_INLINE typename S::C choose_among(S &s, const R &round, On is_on) const {
        using N = typename S::N;
        const auto on = [&](Int k) { return from_bool<N>(is_on(k)); };
        if constexpr (sideways<Rule, S, On>) {
            if (s.arms() > few && settings.filter != Filter::well_pulled) return choose_sideways(s, round);
        }
        if (settings.filter == Filter::none) {
            Rule::rank(s, rewards, settings, round, on);
        } else if (Rule::cheap && settings.filter == Filter::most_pulled) {  // one pass over the arms
            Rule::rank(s, rewards, settings, round, [&](Int k) { return both(on(k), opposite(excluded_by_most_pulled(s, k))); });
        } else {
            if (settings.filter == Filter::most_pulled) exclude_by_most_pulled(s);
            else exclude_by_well_pulled(s, on);
            Rule::rank(s, rewards, settings, round, [&](Int k) { return both(on(k), s.index[k] == number<N>(0.0)); });
        }
        if constexpr (!same_type<On, Everyone>)
            for (Int k = 0; k < s.arms(); ++k)
                if (!is_on(k)) s.index[k] = number<N>(__builtin_nan(""));  // which no comparison finds
        return settle(s, best_arm(s), round);
    }

    // The arm that is certainly the next choice, found without any index; -1 where that takes one.
    template <class S, class R> HW_INLINE Int sure(S &s, const R &round) const {
        if constexpr (requires { Rule::holds(s, rewards, round, Everyone{}); }) {
            if (settings.filter == Filter::well_pulled || settings.audit > 0.0) return -1;
            if (settings.filter == Filter::most_pulled) exclude_by_most_pulled(s);
            const bool filtered = settings.filter != Filter::none;
            if (Rule::holds(s, rewards, round, [&](Int k) { return !(filtered && s.index[k] == -infinity); })) return s.chosen;
        }
        return -1;
    }

    // Add 1 for every arm that the last choice left out.
    HW_INLINE void count_excluded(const State &s, Ints out) const {
        if (settings.filter == Filter::none) return;
        const double *const index = &s.index[0];
        Int *const __restrict rounds = out.data;
        for (Int k = 0; k < out.size; ++k) rounds[k] += index[k] == -infinity ? 1 : 0;
    }

    template <class S, class Paid> HW_INLINE void observe(S &s, typename S::C arm, const Paid &paid) const {
        s.observe(arm, paid, rewards, settings, needs());
    }

    // Nothing need be prepared for a decision, or kept aside while looking ahead.
    template <class S, class On> HW_INLINE void prepare(S &, Int, On) const {}
    template <class S, class On> HW_INLINE void begin_ahead(S &, On, bool) const {}
    template <class S> HW_INLINE void begin_draw(S &) const {}
    template <class S> HW_INLINE void after_choice(S &) const {}
    template <class S> HW_INLINE void end_draw(S &) const {}
    template <class S> HW_INLINE void pend(S &, Int) const {}
    template <class S> HW_INLINE void end_ahead(S &, bool) const {}

    template <class S> HW_DEVICE void rebuild(S &s) const { s.rebuild(rewards, settings, needs()); }

  private:
    template <class S> HW_INLINE Int choose_sideways(S &s, const Round &round) const {
        Sideways arms(s);
        if (settings.filter == Filter::none) {
            Rule::rank(arms, rewards, settings, round, [](Int) { return from_bool<Lanes>(true); });
        } else {
            const Int *const against = &s.sums[s.most_pulled * s.arms()];
            Rule::rank(arms, rewards, settings, round, [&](Int pack) { return opposite(above_zero(against + pack * wide)); });
        }
        return settle(s, best_across(&s.index[0], s.arms()), round);
    }

    // The arm that was chosen, or another one that must be audited.
    template <class S> HW_INLINE typename S::C settle(S &s, typename S::C arm, const Round &round) const {
        if constexpr (!same_type<typename S::N, float>) {  // which no audited policy asks for
            if (settings.audit > 0.0) arm = audited(s, arm, value_at(s.mean, s.most_pulled, s.arms()), round.log_t, rewards, settings);
        }
        s.chosen = arm;
        return arm;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
