// What the policies that learn the law of X share: counting, the guard against a wrong model, each arm's own index, and the audit
// by the arm's own law of rewards.
#pragma once
#include "../kl_empirical.h"
#include "evidence.h"

namespace hw {
inline namespace HW_BUILD {

// What is remembered of an arm's last audit: at how many pulls, and the tangent of what it needed as a function of the bar; and
// whether the arm is outdone by the one of number `by` (-1: not looked at), by the model.
struct AuditNote {
    Int n = 0;
    double need = 0.0, rate = 0.0, bar = 0.0;
    Int by = -1;
    bool outdone = false;
};

struct Need {
    double value, rate;
};

// How much n KL(observed law, q) it takes for a law q on the arm's rewards to have mean `target`, 0 where the observed has; and how
// fast that grows with the target.
//
// seen[m] of the n pulls paid pays[m]. The least is max over lambda of sum seen_m log(1 - lambda (v_m - target)), 0 <= lambda <=
// 1/(v_max - target), concave in lambda: bisection on its slope. Infinite where no reward reaches the target. The rate is lambda n,
// and as the least is convex in the target, it is nowhere below its tangent. About 50 steps of O(M).
HW_DEVICE inline Need kl_needed(KnownInts seen, KnownDoubles pays, double target) {
    double top = -infinity, total = 0.0;
    Int n = 0;
    for (Int m = 0; m < seen.size; ++m) {
        top = max(top, pays[m]);
        total += static_cast<double>(seen[m]) * pays[m];
        n += seen[m];
    }
    if (total >= static_cast<double>(n) * target) return {0.0, 0.0};
    if (top <= target) return {infinity, infinity};
    double low = 0.0, high = 1.0 / (top - target);
    for (int step = 0; step < 50; ++step) {
        const double middle = 0.5 * (low + high);
        double slope = 0.0;
        for (Int m = 0; m < seen.size; ++m)
            if (seen[m] > 0) slope += static_cast<double>(seen[m]) * (target - pays[m]) / (1.0 - middle * (pays[m] - target));
        (slope > 0.0 ? low : high) = middle;
    }
    double value = 0.0;
    for (Int m = 0; m < seen.size; ++m)
        if (seen[m] > 0) value += static_cast<double>(seen[m]) * log(1.0 - low * (pays[m] - target));
    return {value, low * static_cast<double>(n)};
}

// What is known of the law of X, shared by the state that is observed and the one that looks ahead of it: all but `tools` follows
// from the counts and from whom the guard doubts.
template <class Tools> struct Learner {
    FitState fit;
    Tools tools;
    View<AuditNote> audits;

    HW_INLINE explicit Learner(const ChannelView &channels) : fit(channels), tools(channels) {}
    HW_INLINE void lay(Arena &arena) {
        fit.lay(arena);
        tools.lay(arena);
        audits = arena.view<AuditNote>(fit.view.arms());
    }
};

// The counts, `seen` by bin, and the learner that they are evidence for.
template <class Tools> struct LearnerState : State<double> {
    Learner<Tools> *learner = nullptr;
    Int open = -1;       // of a decision that is being made bit by bit: which arm to work at,
    double delta = 0.0;  // and the threshold
};

// The least part of the threshold that an arm with pulls pending keeps.
inline constexpr double least_share = 1e-4;

// A policy that learns the law of X. `Rule` says which arm it pulls: choose(policy, state, round, delta).
template <class Rule> struct Learning {
    using Tools = typename Rule::Tools;
    using State = LearnerState<Tools>;

    Rewards rewards;
    Settings settings;
    Evidence evidence;

    static constexpr Needs needs() { return {false, false, true}; }
    static constexpr bool randomised() { return Rule::randomised; }
    HW_INLINE Shape shape() const { return {rewards.arms(), evidence.pays.columns, false, true}; }

    // The state, and the learner it is evidence for.
    HW_DEVICE void lay(State &s, Arena &arena) const {
        s.hw::State<double>::lay(arena);
        const View<Learner<Tools>> place = arena.view<Learner<Tools>>(1);
        Learner<Tools> made(evidence.channels);
        made.tools.set(settings, evidence);
        // A copy of a policy finds the learner's own numbers where its memory was copied to; else this is the first one.
        if (place.data != nullptr && s.learner != nullptr) made = *place.data;
        made.lay(arena);
        s.learner = place.data;
        if (place.data != nullptr) *place.data = made;
    }
    // A state that looks ahead has the same learner.
    HW_DEVICE void share(const State &known, State &ahead) const {
        ahead.seen = known.seen;
        ahead.learner = known.learner;
    }

    HW_DEVICE void forget(State &s) const {
        s.forget();
        hw::forget(s.learner->fit);
        s.learner->tools.forget();
        fill(s.learner->audits, AuditNote{});
    }

    // Take the counts by bin for all that was observed; what is doubted stays so.
    HW_DEVICE void rebuild(State &s) const {
        s.rebuild(rewards, settings, Needs{});
        FitState &fit = s.learner->fit;
        for (Int k = 0; k < s.arms(); ++k)
            for (Int b = 0; b < fit.view.rows_of(k); ++b)
                fit.n[fit.view.offset[k] + b] = static_cast<double>(s.seen[k * s.shape.kinds + b]);
        s.learner->tools.rebuild();
        fill(s.learner->audits, AuditNote{});
        relearn(fit);
    }

    // The arm to pull; leaves every arm's index. May doubt an arm first. Arms whose share is below 0 are left out.
    //
    // Pending pulls count as rounds, but are no evidence. joint-ucb gives an arm of n rewards and m pending pulls the part n / (n +
    // m) of its threshold, as if its rewards had come again in proportion; an arm whose first pull is pending has an index of its
    // own, as if it had paid the middle of the rewards each time.
    HW_DEVICE Int choose(State &s, const Round &round) const {
        const double delta = prepare_choice(s, round);
        return end_choice(s, Rule::choose(*this, s, round, delta), round, delta);
    }

    // The same bit by bit, for whoever decides for many replications at once: the arm, or -1 where something must be solved first,
    // which `work` does some of.
    HW_DEVICE Int sure(State &s, const Round &round) const requires Rule::bounds {
        FitState &fit = s.learner->fit;
        const bool fresh = s.open < 0;
        if (fresh) s.delta = prepare_choice(s, round);
        const joint::Verdict found = joint::judge(fit, fresh ? joint::begin(fit, s.delta) : joint::enclose(fit, s.delta));
        s.open = found.open;
        return found.arm < 0 ? -1 : end_choice(s, found.arm, round, s.delta);
    }
    HW_DEVICE void work(State &s) const requires Rule::bounds {
        FitState &fit = s.learner->fit;
        joint::work_at(fit, s.open, s.delta * fit.share[s.open]);
    }

    // Add 1 for every arm whose joint index is below the mean that the likeliest law gives the best arm.
    HW_DEVICE void count_excluded(const State &s, Ints out) const {
        const FitState &fit = s.learner->fit;
        if (!Rule::bounds || fit.total == 0.0) return;
        double best = -infinity;
        for (Int k = 0; k < s.arms(); ++k)
            if (!fit.doubted[k]) best = max(best, fit.arms[k].base);
        for (Int k = 0; k < s.arms(); ++k) out[k] += fit.arms[k].bound < best && !fit.doubted[k] ? 1 : 0;
    }

    template <class On> HW_DEVICE Int choose_among(State &s, const Round &, On) const { return choose(s, round_of(s.round + 1)); }

    template <class Paid> HW_DEVICE void observe(State &s, Int arm, const Paid &paid) const {
        if constexpr (Rule::moves) {
            guard(s.learner->fit);
            Rule::keep_move(*this, s);
        }
        const Int bin = evidence.bins(arm, paid.kind);
        s.observe(arm, Binned{paid.units(arm), bin}, rewards, settings, needs());
        witness(s.learner->fit, arm, s.learner->fit.view.offset[arm] + bin);
    }

    template <class On> HW_INLINE void prepare(State &, Int, On) const {}
    // What a look ahead must not change is kept aside, and put back.
    template <class On> HW_DEVICE void begin_ahead(State &s, On on, bool draws) const {
        s.learner->tools.begin_ahead(draws);
        for (Int k = 0; k < s.arms(); ++k) {
            s.learner->fit.share[k] = on(k) ? 1.0 : -1.0;
            set_share(s, k);
        }
    }
    HW_DEVICE void begin_draw(State &s) const { s.learner->tools.begin_draw(); }
    HW_DEVICE void end_draw(State &s) const { s.learner->tools.end_draw(); }
    HW_DEVICE void after_choice(State &s) const { s.learner->tools.after_choice(); }
    HW_DEVICE void pend(State &s, Int arm) const { set_share(s, arm); }
    HW_DEVICE void end_ahead(State &s, bool draws) const {
        fill(s.learner->fit.share, 1.0);
        s.learner->tools.end_ahead(draws);
    }

    HW_DEVICE void guard(FitState &fit) const {
        if (settings.guard > 0.0) check(fit, -log(settings.guard));
    }

  private:
    // Let the guard look at the counts, and each arm's own rewards speak; returns the threshold.
    HW_DEVICE double prepare_choice(State &s, const Round &round) const {
        FitState &fit = s.learner->fit;
        guard(fit);
        const bool learned = fit.view.learned() && Rule::bounds;
        if (learned) freshen(fit);  // what an arm may be wrong by depends on it
        Int most = 0;
        for (Int k = 0; k < s.arms(); ++k) most = max(most, s.pulls[k] + s.pending[k]);
        const double rest = static_cast<double>(round.t) - static_cast<double>(most);
        const double delta = settings.discount > 0.0 ? round.log_t - settings.discount * log(max(rest, 1.0)) : round.log_t;
        for (Int k = 0; k < s.arms(); ++k) {
            fit.own[k] = infinity;
            const bool first = s.pulls[k] == 0 && s.pending[k] > 0;
            if (fit.doubted[k] || evidence.binned || learned || first)
                fit.own[k] = evidence.scaled(own_index(s, k, learned ? delta : round.log_t));
        }
        return delta;
    }
    HW_DEVICE Int end_choice(State &s, Int arm, const Round &round, double delta) const {
        if (audit_due(settings, round.log_t)) arm = audit(s, arm, round.log_t, delta);
        s.chosen = arm;
        return arm;
    }

    struct Binned {
        Int gain, bin;
        HW_INLINE Int units(Int) const { return gain; }
        HW_INLINE Int level(Int) const { return bin; }
        HW_INLINE Int excess(Int, Int) const { return 0; }
    };

    // The part of the threshold that arm k's joint index goes by while pulls of it are pending.
    HW_DEVICE void set_share(State &s, Int k) const {
        double &share = s.learner->fit.share[k];
        const double n = static_cast<double>(s.pulls[k]);
        if (share >= 0.0 && s.pulls[k] > 0) share = max(n / static_cast<double>(s.pulls[k] + s.pending[k]), least_share);
    }

    // Arm k's index from its own rewards alone.
    HW_DEVICE double own_index(const State &s, Int k, double log_t) const {
        const Int n = s.pulls[k] + s.pending[k];
        if (s.pulls[k] == 0 || evidence.binned)
            return kl_ucb_index(s.mean[k], static_cast<double>(n), log_t, Scale{rewards.low, rewards.span});
        const auto pays = [&](Int m) { return static_cast<double>(rewards.units(k, m)); };
        const Int levels = s.learner->fit.view.rows_of(k);
        return rewards.unit * kl_empirical_index(&s.seen[k * s.shape.kinds], levels, pays, n, log_t);
    }

    // How much evidence of its own speaks against arm k reaching `bar`: `kl_needed`, or +inf where it is above `budget`.
    //
    // Pending pulls count as if they had paid as the others; a first one that is pending is audit enough. It is convex in the bar,
    // so never below its tangent, which is remembered: while the arm is not pulled and the budget stays below that, nothing need be
    // computed.
    HW_DEVICE double short_of(State &s, Int k, double bar, double budget) const {
        const Int n = s.pulls[k], pending = s.pending[k], bins = s.learner->fit.view.rows_of(k);
        AuditNote &note = s.learner->audits[k];
        const KnownDoubles pays = evidence.pays[k].first(bins);
        if (n == 0) return pending == 0 && largest(pays) >= bar ? 0.0 : infinity;
        const double share = static_cast<double>(n) / static_cast<double>(n + pending);
        budget *= share;
        if (note.n == n && note.need + note.rate * (bar - note.bar) > budget * (1.0 + 1e-9)) return infinity;
        const Need need = kl_needed({&s.seen[k * s.shape.kinds], bins}, pays, bar);
        if (need.value <= budget) return need.value / share;
        if (need.value < infinity) note.n = n, note.need = need.value, note.rate = need.rate, note.bar = bar;
        return infinity;
    }

    // Whether an arm need not be audited because the model says outright that it is never best: not if the channels were learned or
    // are bins, or if anything contradicted the model.
    HW_DEVICE bool trusted(const State &s) const {
        const FitState &fit = s.learner->fit;
        bool out = !fit.view.learned() && !evidence.binned && !settings.thorough;
        for (Int k = 0; k < s.arms(); ++k) out = out && !fit.doubted[k];
        return out;
    }

    // Whether arm k pays at most what arm `by` does, whatever X is, by the model. Remembered: O(J) only for a new `by`.
    HW_DEVICE bool outdone(State &s, Int k, Int by) const {
        AuditNote &note = s.learner->audits[k];
        if (note.by != by) {
            const KnownTable g = s.learner->fit.view.g;
            note.by = by;
            note.outdone = true;
            for (Int j = 0; j < g.columns && note.outdone; ++j) note.outdone = !(g(k, j) > g(by, j));
        }
        return note.outdone;
    }

    // The arm to pull instead of `arm`, if any: one that its own rewards speak against by at most the audit's budget.
    //
    // As `audited`, but by the arm's own law of rewards, which is sharper than a coin's. joint-ucb excludes an arm if its index is
    // below the bar. Draws and likeliest means are no bounds: under other policies any arm may be audited, but only while they pull
    // the most-pulled one. Never an arm that is `outdone` by that one while the model is `trusted`, nor where `arm` itself looks no
    // worse by the same measure.
    HW_DEVICE Int audit(State &s, Int arm, double log_t, double delta) const {
        FitState &fit = s.learner->fit;
        Int most = -1;
        for (Int k = 0; k < s.arms(); ++k)
            if (fit.share[k] >= 0.0 && (most < 0 || s.pulls[k] > s.pulls[most])) most = k;
        const double budget = audit_budget(settings, log_t), bar = audit_bar(s.mean[most], log_t, rewards, settings);
        if (bar == infinity || !(Rule::bounds || arm == most)) return arm;
        const double scaled = evidence.scaled(bar);
        const bool trust = trusted(s);
        Int out = arm;
        double least = infinity;
        for (Int k = 0; k < s.arms(); ++k) {
            const bool allowed = Rule::bounds && fit.arms[k].floor >= scaled;  // not excluded, as its bound says already
            if (k == arm || fit.share[k] < 0.0 || allowed || (trust && outdone(s, k, most))) continue;
            double need = short_of(s, k, bar, budget);
            if (Rule::bounds && need < least && joint::reaches(fit, k, delta, scaled)) need = infinity;
            if (need < least) out = k, least = need;
        }
        return out != arm && least < short_of(s, arm, bar, budget) ? out : arm;
    }
};

}  // namespace HW_BUILD
}  // namespace hw
