// KL-UCB: the largest mean that the rewards do not refute, n kl(observed, q) <= log t, in its Bernoulli form on rewards scaled to
// [0, 1]. (kl_empirical.h has the empirical form.)
#pragma once
#include "policy.h"

namespace hw {
inline namespace HW_BUILD {

// A mean on the scale of [low, low + span], and back.
struct Scale {
    double low = 0.0, span = 1.0;
};

template <class N> HW_INLINE N clamped(N x) { return smaller(larger(x, number<N>(0.0)), number<N>(1.0)); }

// Where a mean lies between the ends, and its logarithms: what kl(p, q) takes of p.
template <class N> struct Place {
    N p, log_p, log_rest;  // log p, log(1 - p)

    static HW_INLINE Place of(N mean, Scale scale) {
        const N p = clamped((mean - number<N>(scale.low)) / number<N>(scale.span));
        return {p, log(p), log1p(-p)};
    }
};

// 1 - e^-x is more: the beginning of the series of e^x in its place.
template <class N> HW_INLINE N below_one_less_exp(N x) {
    const N one = number<N>(1.0);
    const N series = one + x * (one + x * (number<N>(1.0 / 2.0) + x * (number<N>(1.0 / 6.0) + x * number<N>(1.0 / 24.0))));
    return number<N>(1.0 - 1e-12) * (one - one / series);
}

// The search for an index in the Bernoulli form: Newton's method on the convex q -> kl(p, q) - log(t)/n from the right end of a
// bracket descends monotonically to the root; the bracket starts at Pinsker's bound p + sqrt(log(t) / 2n), and a step that leaves it
// is replaced by bisection. Typically 3 to 7 evaluations; the count is bounded, and the result is above the root by rounding only.
template <class N> struct Search {
    N p, rest, entropy, budget, left, right, q;

    static constexpr double most = 64.0;  // steps

    // Where no search is `open`, what it would end with.
    HW_INLINE N start(Place<N> place, N mean, N n, double log_t, Scale scale, Mask<N> &open) {
        const N zero = number<N>(0.0), one = number<N>(1.0), half = number<N>(0.5), low = number<N>(scale.low), span = number<N>(scale.span);
        const auto unknown = either(n == zero, mean == number<N>(infinity));
        p = place.p;
        rest = one - p;
        budget = number<N>(log_t) / n;
        N out = pick(unknown, number<N>(infinity), low + span * p);
        open = both(opposite(unknown), both(budget > zero, p < one));
        const auto never = both(open, p == zero);
        if (any(never)) out = pick(never, low - span * expm1(-budget), out);
        open = both(open, p > zero);
        entropy = -p * place.log_p - rest * place.log_rest;
        // 1 - q >= exp(-(budget + entropy) / (1 - p)) keeps q off 1, where kl is infinite and Newton useless.
        const N off = (budget + entropy) / rest;
        left = p;
        right = p + sqrt(half * budget);
        if (any(both(open, opposite(right < below_one_less_exp(off))))) right = smaller(-expm1(-off), right);
        q = right;
        const auto high = both(open, right >= one);
        out = pick(high, low + span, out);
        open = both(both(open, opposite(high)), right > p);
        return out;
    }
    // A step; whether it is the last one, which leaves q.
    HW_INLINE Mask<N> step() {
        const N one = number<N>(1.0), half = number<N>(0.5);
        const N gap = -entropy - p * log(q) - rest * log1p(-q) - budget;
        const auto above = gap > number<N>(0.0);
        right = pick(above, q, right);
        left = pick(above, left, q);
        N following = q - gap * q * (one - q) / (q - p);
        following = pick(either(following <= left, following >= right), half * (left + right), following);
        const auto close = absolute(following - q) <= number<N>(1e-15) * q;
        q = pick(close, q, following);
        return close;
    }
};

template <class N> HW_DEVICE inline N kl_ucb_index(Place<N> place, N mean, N n, double log_t, Scale scale) {
    if (scale.span <= 0.0) return pick(either(n == number<N>(0.0), mean == number<N>(infinity)), number<N>(infinity), mean);
    Search<N> search;
    Mask<N> open;
    const N out = search.start(place, mean, n, log_t, scale, open);
    search.q = pick(open, search.q, number<N>(0.5));
    auto moving = open;
    for (double step = 0.0; step < search.most && any(moving); ++step) {
        const N before = search.q;
        const auto close = search.step();
        search.q = pick(moving, search.q, before);
        moving = both(moving, opposite(close));
    }
    return pick(open, number<N>(scale.low) + number<N>(scale.span) * search.q, out);
}
template <class N> HW_DEVICE inline N kl_ucb_index(N mean, N n, double log_t, Scale scale) {
    return kl_ucb_index(Place<N>::of(mean, scale), mean, n, log_t, scale);
}

// An index that others must reach, and what kl(p, q) takes of it.
template <class N> struct Bar {
    N value, q, log_q, log_rest;  // log q, log(1 - q)

    // Below its place by more than rounding, that of an index included.
    static HW_INLINE Bar of(N value, Scale scale) {
        const N low = number<N>(scale.low), span = number<N>(scale.span);
        const N q = (value - low - number<N>(4e-15) * (absolute(low) + absolute(value) + span)) / span;
        const N inside = pick(both(q > number<N>(0.0), q < number<N>(1.0)), q, number<N>(0.5));  // else nobody asks
        return {value, q, log(inside), log1p(-inside)};
    }
};

// Whether an arm's index may be the bar or more: one evaluation of kl instead of a search for its root. Errs towards yes by more
// than rounding: near 1 by moving q, elsewhere by widening the budget. So a no is certain.
template <class N> HW_INLINE Mask<N> kl_ucb_reaches(Place<N> place, N mean, N n, Bar<N> bar, double log_t) {
    const N zero = number<N>(0.0), one = number<N>(1.0), p = place.p;
    const auto sure = either(n == zero, bar.value <= mean);
    const auto yes = either(sure, either(bar.q <= p, either(bar.q >= one, p >= one)));
    N kl = -(one - p) * (bar.log_rest - place.log_rest);
    kl = pick(p > zero, kl + p * (place.log_p - bar.log_q), kl);
    return either(yes, n * kl <= number<N>(log_t * (1.0 + 1e-9)) + number<N>(4e-15) * n + number<N>(1e-12));
}
template <class N> HW_DEVICE inline Mask<N> kl_ucb_reaches(N mean, N n, N other, double log_t, Scale scale) {
    if (scale.span <= 0.0) return from_bool<N>(true);
    return kl_ucb_reaches(Place<N>::of(mean, scale), mean, n, Bar<N>::of(other, scale), log_t);
}

// Many searches side by side: where one ends, the next begins.
struct Searches {
    static constexpr Int most = 64, fields = 8, together = 2;

    double mean[most], n[most];                          // of whom
    double p[most], log_p[most], log_rest[most], value[most];  // what was found

    HW_DEVICE __attribute__((noinline)) void run(Int count, double log_t, Scale scale) {
        for (; count % wide != 0; ++count) {
            mean[count] = scale.low + 0.5 * scale.span;
            n[count] = 0.0;
        }
        waiting = 0;
        for (Int i = 0; i < count; i += wide) begin(i, log_t, scale);
        next = 0;
        Word open[together] = {};  // the lanes that search
        for (Int i = 0; i < together * wide; ++i) {
            const bool some = next < waiting;
            if (some) ++next;
            else idle(i);
            open[i / wide] |= static_cast<Word>(some) << i % wide;
        }
        bool any_open = true;
        while (any_open) {
            Word ended[together];  // steps first: they overlap as long as nothing depends on where one ends
            for (Int j = 0; j < together; ++j) ended[j] = open[j] == 0 ? 0 : open[j] & advance(j * wide);
            any_open = false;
            for (Int j = 0; j < together; ++j) {
                for (Word left = ended[j]; left != 0; left &= left - 1)
                    if (!end(j * wide + __builtin_ctz(left), scale)) open[j] ^= left & -left;
                any_open |= open[j] != 0;
            }
        }
    }

  private:
    double field[fields][most];  // of each search, and its steps
    Int of[most];                // whose it is
    Int waiting, next;

    HW_INLINE void begin(Int i, double log_t, Scale scale) {
        const Lanes m = load<Lanes>(&mean[i]);
        const auto place = Place<Lanes>::of(m, scale);
        Search<Lanes> search;
        Mask<Lanes> open;
        store(&value[i], search.start(place, m, load<Lanes>(&n[i]), log_t, scale, open));
        store(&p[i], place.p);
        store(&log_p[i], place.log_p);
        store(&log_rest[i], place.log_rest);
        double each[fields][wide];
        put(search, &each[0][0], wide);
        for (Word left = which(open); left != 0; left &= left - 1) {
            const Int j = __builtin_ctz(left);
            for (Int f = 0; f < fields - 1; ++f) field[f][waiting] = each[f][j];
            field[fields - 1][waiting] = 0.0;
            of[waiting++] = i + j;
        }
    }
    // The i-th search has ended: the next that waits takes its place, if there is one.
    HW_INLINE bool end(Int i, Scale scale) {
        value[of[i]] = scale.low + scale.span * field[6][i];
        if (next == waiting) return false;
        for (Int f = 0; f < fields; ++f) field[f][i] = field[f][next];
        of[i] = of[next++];
        return true;
    }
    // Harmless numbers in a lane that does not search.
    HW_INLINE void idle(Int i) {
        for (Int f = 0; f < fields; ++f) field[f][i] = 0.5;
        field[0][i] = 0.25;
    }
    HW_INLINE static void put(const Search<Lanes> &from, double *to, Int apart) {
        const Lanes each[] = {from.p, from.rest, from.entropy, from.budget, from.left, from.right, from.q};
        for (Int f = 0; f < fields - 1; ++f) store(to + f * apart, each[f]);
    }
    // A step of the searches from the j-th on; those that end with it.
    HW_INLINE Word advance(Int j) {
        const auto from = [&](Int f) { return load<Lanes>(&field[f][j]); };
        Search<Lanes> search{from(0), from(1), from(2), from(3), from(4), from(5), from(6)};
        const Lanes steps = from(7) + Lanes(1.0);
        const auto ended = either(search.step(), steps >= Lanes(search.most));
        store(&field[4][j], search.left);
        store(&field[5][j], search.right);
        store(&field[6][j], search.q);
        store(&field[7][j], steps);
        return which(ended);
    }
};

// With h(x) = 1 / (x (1 - x)), which is convex, kl(p, q) is the integral of (x - p) h(x) from p to q. So, d being q - p, a chord of h
// says kl <= d^2 (h(p) / 6 + h(q) / 3), and its tangent kl >= d^2 h(p + 2 d / 3) / 2: both right to the third order, without a
// logarithm.
HW_INLINE double kl_at_most(double p, double q) { return (q - p) * (q - p) * (1.0 / (6.0 * p * (1.0 - p)) + 1.0 / (3.0 * q * (1.0 - q))); }
HW_INLINE double kl_at_least(double p, double q) {
    const double m = p + (q - p) * (2.0 / 3.0);
    return (q - p) * (q - p) / (2.0 * m * (1.0 - m));
}

// A mean, scaled to (0, 1), that the index of an arm of scaled mean p certainly exceeds, close to it; 0 where none is found.
HW_INLINE double kl_ucb_exceeds(double p, double budget) {
    const double own = 1.0 / (6.0 * p * (1.0 - p));
    double d = sqrt(budget / (3.0 * own));
    for (int turn = 0; turn < 3; ++turn) {
        const double q = p + d;
        if (!(q < 1.0)) return 0.0;
        d = sqrt(budget / (own + 1.0 / (3.0 * q * (1.0 - q))));
    }
    const double q = p + d * (1.0 - 1e-5);
    return q < 1.0 && kl_at_most(p, q) <= budget * (1.0 - 1e-7) ? q : 0.0;
}

struct KlUcb {
    static constexpr Needs needs{.successes = false, .squares = false, .levels = false, .notes = 4};
    static constexpr bool cheap = false;
    static constexpr bool randomised = false;

    // Whether the arm chosen last certainly has the largest index again, of all in the running: by far more than rounding. A no may
    // be wrong. About a tenth of what it takes to compute an index.
    template <class S, class Running> HW_INLINE static bool holds(const S &s, const Rewards &rewards, const Round &round, Running running) {
        const Int chosen = s.chosen;
        const double p = (s.mean[chosen] - rewards.low) / rewards.span;
        if (!(running(chosen) && s.pulls[chosen] > 0 && p > 0.0 && p < 1.0)) return false;
        const double level = kl_ucb_exceeds(p, round.log_t / pulls_of(s, chosen)), log_t = round.log_t * (1.0 + 1e-7);
        if (!(level > 0.0)) return false;
        bool out = true;
        for (Int k = 0; k < s.arms(); ++k) {
            if (k == chosen || !running(k)) continue;
            const double other = clamped((s.mean[k] - rewards.low) / rewards.span);
            out = out && s.pulls[k] > 0 && other < level && pulls_of(s, k) * kl_at_least(other, level) > log_t;
        }
        return out;
    }

    // The exact index of every arm that may win; an arm that certainly does not keeps its mean for an index. The arm chosen last
    // goes first, because it mostly wins again. Whether another arm's index reaches the best one so far takes no search: it does
    // if and only if the best one is still within its budget. In lanes, each looks for the next arm that may win, and the indices
    // of all these are searched for at once.
    template <class S, class Running> HW_DEVICE static void rank(S &s, const Rewards &rewards, const Settings &, const Round &round, Running running) {
        using N = typename S::N;
        using C = typename S::C;
        const Scale scale{rewards.low, rewards.span};
        const Int arms = s.arms();
        const C nobody = whole<C>(arms);
        const N none = number<N>(-infinity);
        Candidate<N> first = chosen_last(s, scale, running);
        N best = none;
        if (any(first.wanted)) best = pick(first.wanted, index_foreseen(s, first, round.log_t, scale), best);
        for (Int k = 0; k < arms; ++k) {
            const auto on = running(k);
            s.index[k] = pick(on, pick(s.chosen == whole<C>(k), best, s.mean[k]), none);
        }
        C last = whole<C>(-1);
        Bar<N> bar = Bar<N>::of(best, scale);
        while (true) {
            Candidate<N> next;
            C found = nobody;
            for (Int k = lanes<N> == 1 ? first_after(last) : 0; k < arms; ++k) {
                const auto open = both(both(s.index[k] > none, s.chosen != whole<C>(k)), both(last < whole<C>(k), found == nobody));
                if (!any(open)) continue;
                const Candidate<N> mine{open, s.mean[k], pulls_of(s, k), noted(s, k, scale)};
                const auto may = both(open, scale.span <= 0.0 ? from_bool<N>(true) : kl_ucb_reaches(mine.place, mine.mean, mine.n, bar, round.log_t));
                if (!any(may)) continue;
                next.take(may, mine);
                found = pick(may, whole<C>(k), found);
                if (all(found < nobody)) break;
            }
            if (!any(next.wanted)) return;
            const N x = next.index(round.log_t, scale);
            at(found, arms, [&](Int k, auto hit) { s.index[k] = pick(hit, x, s.index[k]); });
            const auto better = both(next.wanted, x > best);
            best = pick(better, x, best);
            if (any(better)) bar = Bar<N>::of(best, scale);
            last = found;
        }
    }

    // The index of the arm chosen last, of some replications, before any of them chooses: their searches go side by side.
    template <class S> HW_DEVICE static void foresee(View<S> states, const Rewards &rewards, const Round &round) {
        using N = typename S::N;
        const Scale scale{rewards.low, rewards.span};
        if (scale.span <= 0.0) return;
        Searches all;
        for (Int i = 0; i < states.size; ++i) {
            const S &s = states[i];
            store(&all.mean[i * lanes<N>], value_at(s.mean, s.chosen, s.arms()));
            store(&all.n[i * lanes<N>], as_number(value_at(s.pulls, s.chosen, s.arms()) + value_at(s.pending, s.chosen, s.arms())));
        }
        all.run(states.size * lanes<N>, round.log_t, scale);
        for (Int i = 0; i < states.size; ++i) {
            S &s = states[i];
            const Int at_lane = i * lanes<N>, arms = s.arms(), row = arms + 1;
            const N mean = load<N>(&all.mean[at_lane]);
            const Place<N> place{load<N>(&all.p[at_lane]), load<N>(&all.log_p[at_lane]), load<N>(&all.log_rest[at_lane])};
            at(s.chosen, arms, [&](Int k, auto hit) { note(s, k, hit, mean, place); });
            s.notes[arms] = load<N>(&all.n[at_lane]) + number<N>(1.0);
            s.notes[row + arms] = mean;
            s.notes[2 * row + arms] = number<N>(round.log_t);
            s.notes[3 * row + arms] = load<N>(&all.value[at_lane]);
        }
    }

  private:
    // An arm whose index is wanted, in some lanes.
    template <class N> struct Candidate {
        Mask<N> wanted = from_bool<N>(false);
        N mean = number<N>(0.0), n = mean;
        Place<N> place{mean, mean, mean};

        HW_INLINE void take(Mask<N> hit, const Candidate &other) {
            wanted = either(wanted, hit);
            mean = pick(hit, other.mean, mean);
            n = pick(hit, other.n, n);
            place.p = pick(hit, other.place.p, place.p);
            place.log_p = pick(hit, other.place.log_p, place.log_p);
            place.log_rest = pick(hit, other.place.log_rest, place.log_rest);
        }
        HW_INLINE N index(double log_t, Scale scale) const { return pick(wanted, kl_ucb_index(place, mean, n, log_t, scale), mean); }
    };

    // Notes are rows of K + 1. What was written down of an arm is good while its mean has the same bits. All bits turned round, lest
    // memory that was never written to looks like a note on the mean 0. The last column is of an index that was foreseen: n + 1, the
    // mean, log t, and the index.
    template <class N> static HW_INLINE Bits<N> signature(N mean) { return bits(mean) ^ broadcast_bits<N>(~0ull); }
    template <class S> static HW_INLINE auto is_noted(const S &s, Int k) {
        return bits(s.notes[k]) == signature(s.mean[k]);
    }
    template <class S, class Hit> static HW_INLINE void note(S &s, Int k, Hit hit, typename S::N mean, const Place<typename S::N> &place) {
        const Int row = s.arms() + 1;
        s.notes[k] = pick(hit, from_bits(signature(mean)), s.notes[k]);
        s.notes[row + k] = pick(hit, place.p, s.notes[row + k]);
        s.notes[2 * row + k] = pick(hit, place.log_p, s.notes[2 * row + k]);
        s.notes[3 * row + k] = pick(hit, place.log_rest, s.notes[3 * row + k]);
    }
    template <class S> static HW_INLINE Place<typename S::N> noted(S &s, Int k, Scale scale) {
        const Int row = s.arms() + 1;
        if (!all(is_noted(s, k))) note(s, k, from_bool<typename S::N>(true), s.mean[k], Place<typename S::N>::of(s.mean[k], scale));
        return {s.notes[row + k], s.notes[2 * row + k], s.notes[3 * row + k]};
    }

    // The arm chosen last, whose mean has mostly changed since.
    template <class S, class Running> static HW_INLINE Candidate<typename S::N> chosen_last(S &s, Scale scale, Running running) {
        Candidate<typename S::N> out;
        at(s.chosen, s.arms(), [&](Int k, auto hit) {
            const auto mine = both(hit, running(k));
            if (any(mine)) out.take(mine, {mine, s.mean[k], pulls_of(s, k), noted(s, k, scale)});
        });
        return out;
    }
    template <class S> static HW_INLINE typename S::N index_foreseen(const S &s, const Candidate<typename S::N> &arm, double log_t, Scale scale) {
        using N = typename S::N;
        const Int arms = s.arms(), row = arms + 1;
        const auto same = both(both(s.notes[arms] == arm.n + number<N>(1.0), s.notes[row + arms] == arm.mean),
                               s.notes[2 * row + arms] == number<N>(log_t));
        if (any(both(arm.wanted, opposite(same)))) return arm.index(log_t, scale);
        return s.notes[3 * row + arms];
    }
    HW_INLINE static Int first_after(Int k) { return k + 1; }
    template <class P> HW_INLINE static Int first_after(P) { return 0; }
};

}  // namespace HW_BUILD
}  // namespace hw
