// What was learned: how often each arm was pulled and what it paid in all, in whole units, so that a tie stays a tie; and what
// follows from these counts alone. The only place that counts a reward.
//
// One text for one replication (N = double, counts are 64-bit integers) and for several side by side (N = a pack, counts are
// packs of whole numbers below 2^53). K > 0 keeps K arms in place, K = 0 as many as the arena is asked for.
#pragma once
#include "draws.h"
#include "elementary.h"
#include "model.h"
#include "number.h"

namespace hw {
inline namespace HW_BUILD {

template <class N> struct CountOf {
    using type = N;
};
template <> struct CountOf<double> {
    using type = Int;
};
template <> struct CountOf<float> {
    using type = Int;
};
template <class N> using Count = typename CountOf<N>::type;
template <class N> using Arm = Count<N>;  // an arm's number

template <class C> HW_INLINE C whole(Int x) { return broadcast<C>(static_cast<double>(x)); }
template <> HW_INLINE Int whole<Int>(Int x) { return x; }
template <> HW_INLINE int whole<int>(Int x) { return static_cast<int>(x); }
template <class C> HW_INLINE C as_number(C count) { return count; }
HW_INLINE double as_number(Int count) { return static_cast<double>(count); }
HW_INLINE Int pick(bool mask, Int a, Int b) { return mask ? a : b; }
HW_INLINE int pick(bool mask, int a, int b) { return mask ? a : b; }
template <class N, class C> HW_INLINE N to_number(C count) {  // exactly, or rounded once
    if constexpr (lanes<N> == 1) return static_cast<N>(count);
    else return as_number(count);
}
template <class C> HW_INLINE C count_of(C number) { return number; }  // of a number that is whole
template <class C> HW_INLINE Int count_of(double number) { return static_cast<Int>(number); }
HW_INLINE Long bits_of(int count) { return static_cast<Long>(count); }
HW_INLINE Long bits_of(Int count) { return static_cast<Long>(count); }
HW_INLINE Int count_in(Int count, Int) { return count; }
HW_INLINE Int count_in(int count, Int) { return count; }
#if defined(HW_PACKS)
template <int W> HW_INLINE PackBits<W> bits_of(Pack<W> count) { return whole_of(count); }
template <int W> HW_INLINE Int count_in(Pack<W> count, Int i) { return static_cast<Int>(lane(count, i)); }
#endif

// A number for each lane, from a function of the lane.
template <class N, class F> HW_INLINE N each_lane(F f) {
    N out = broadcast<N>(0.0);
    for (Int i = 0; i < lanes<N>; ++i) out = with_lane(out, i, f(i));
    return out;
}

// K numbers in place, or a view of as many as there are.
template <class T, int K> struct Row {
    T data[K];
    HW_INLINE T &operator[](Int i) { return data[i]; }
    HW_INLINE const T &operator[](Int i) const { return data[i]; }
    HW_INLINE void lay(Arena &, Int) {}
};
template <class T> struct Row<T, 0> {
    T *data = nullptr;
    HW_INLINE T &operator[](Int i) const { return data[i]; }
    HW_INLINE void lay(Arena &arena, Int size) { data = arena.view<T>(size).data; }
};

// What may be read beyond a row's end: as much as the widest registers hold, less one.
inline constexpr Int beyond = 7;
HW_INLINE Int row_length(Int size) { return (size + 7) / 8 * 8; }

// Do something for the arm pulled; in lanes for every arm, with a mask of the lanes that pulled it. (So, too, for one replication
// whose arms are kept in place: what is never looked up by number can stay in registers.)
template <class F> HW_INLINE void at(Int arm, Int, F f) { f(arm, true); }
template <class P, class F> HW_INLINE void at(P arm, Int arms, F f) {
    for (Int k = 0; k < arms; ++k) f(k, arm == whole<P>(k));
}
template <class Values> HW_INLINE auto value_at(const Values &values, Int arm, Int) { return values[arm]; }
template <class Values, class P> HW_INLINE auto value_at(const Values &values, P arm, Int arms) {
    auto out = values[0];
    for (Int k = 1; k < arms; ++k) out = pick(arm == whole<P>(k), values[k], out);
    return out;
}

// What a rule needs counted beside pulls and totals.
struct Needs {
    bool successes = false, squares = false, levels = false;
    Int notes = 0;  // numbers an arm that the rule keeps for itself, each good for the mean that it was written down with
};

// What a state is made for.
struct Shape {
    Int arms = 0, kinds = 0;
    bool paired = false;    // whether a filter reads the sums of pairs
    bool levelled = false;  // whether rewards are counted one by one
    Int notes = 0;          // numbers an arm that the rule keeps
};

// A square, or a sum, in two words: high 2^31 + low, 0 <= low < 2^31. A squared reward has up to 62 bits, so a sum of squares
// needs two words.
template <class C> struct Split {
    C high, low;
};
HW_INLINE Split<int> split_word(int x) { return {0, x}; }
HW_INLINE Split<Int> split_word(Int x) { return {x >> 31, x & 0x7FFFFFFF}; }
template <class P> HW_INLINE Split<P> split_word(P x) {
    const P high = floor(x * broadcast<P>(0x1p-31));
    return {high, x - high * broadcast<P>(0x1p31)};
}
HW_INLINE Split<int> split_square(int x) { return {0, x * x}; }  // no rule asks for both narrow counts and squares
HW_INLINE Split<Int> split_square(Int x) { return split_word(x * x); }
template <class P> HW_INLINE Split<P> split_square(P x) {  // below 2^31: x = a 2^16 + b, so that no product is rounded
    const P y = absolute(x), a = floor(y * broadcast<P>(0x1p-16)), b = y - a * broadcast<P>(0x1p16);
    const Split<P> middle = split_word(a * b * broadcast<P>(0x1p17)), small = split_word(b * b);
    const Split<P> sum = split_word(middle.low + small.low);
    return {a * a * broadcast<P>(2.0) + middle.high + small.high + sum.high, sum.low};
}

// The standard error of an arm's mean: sqrt((sd^2 + sum (r - mean)^2) / n) / sqrt(n), and sd where n is 0. The n rewards sum to
// `total` units, their squares to `squares` 2^31 + `rest`. The sum of squares about the mean rounded down is exact, in two words,
// so that nothing cancels however far from 0 the rewards are.
HW_DEVICE inline double estimated_error(Int n, Int total, Int squares, Int rest, double unit, double sd) {
    n = max<Int>(n, 1);
    Int m = total / n;
    if (m * n > total) --m;
    const Int over = total - m * n, both = total + over;
    rest -= m * (both & 0x7FFFFFFF);
    const double about = static_cast<double>(squares - m * (both >> 31) + (rest >> 31)) * 2147483648.0 + static_cast<double>(rest & 0x7FFFFFFF);
    const double spread = max(about - static_cast<double>(over) * (static_cast<double>(over) / static_cast<double>(n)), 0.0);
    const double wide = sd / unit;
    return unit * sqrt(spread + wide * wide) / static_cast<double>(n);
}

// An arm's mean and 1 / sqrt(n), from n >= 1 rewards that sum to `total` units.
template <class N> struct Refreshed {
    N mean, root;
};

// 1 / sqrt(n). A GPU has a table of it.
template <class N, class C> HW_INLINE N reciprocal_root(C n, const Rewards &rewards) {
#if defined(HW_GPU)
    if (n < static_cast<C>(rewards.roots.size)) return static_cast<N>(rewards.roots[n]);
#else
    static_cast<void>(rewards);
#endif
    return broadcast<N>(1.0) / sqrt(to_number<N>(n));
}
template <class N, class C> HW_INLINE Refreshed<N> refreshed(C n, C total, const Rewards &rewards) {
#if defined(__CUDA_ARCH__)
    if constexpr (same_type<N, float>) {  // a division costs more than to round 1 / sqrt(n) twice
        const float root = rsqrtf(static_cast<float>(n));
        return {static_cast<float>(total) * static_cast<float>(rewards.unit) * (root * root), root};
    }
#endif
    return {to_number<N>(total) * broadcast<N>(rewards.unit) / to_number<N>(n), reciprocal_root<N>(n, rewards)};
}

template <class N_, int K = 0, class C_ = Count<N_>> struct State {
    using N = N_;
    using C = C_;

    Shape shape;
    Int round = 0;           // rewards counted; where pulls are pending, in the state that looks ahead, these too
    Bits<N> replication{};
    C most_pulled{}, chosen{}, most{};  // `most`: the pulls of the most-pulled arm
    Row<C, K> pulls, total, successes, squares, rest, pending, shift;
    Row<N, K> mean, root, index;
    Row<C, K * K> sums;  // sums[k K + ell]: over the pulls of k, the sum of k's reward less ell's pseudo-reward
    Row<Bits<N>, 0> out; // `by_lane`: the arms that the most-pulled one excludes, a bit an arm
    Row<C, 0> seen;      // seen[k M + m]: how often arm k paid its m-th reward
    Row<N, 0> notes;     // notes[i (K + 1) + k]: the rule's own

    HW_INLINE Int arms() const {
        if constexpr (K > 0) return K;
        else return shape.arms;
    }

    // Many arms side by side keep each lane's sums together, in rows that registers fill: [lane][k][ell].
    static constexpr bool by_lane = lanes<N> > 1 && K == 0;
    HW_INLINE Int row() const { return row_length(arms()); }
    HW_INLINE double *row_of(Int in, Int k) const { return reinterpret_cast<double *>(&sums[0]) + (in * arms() + k) * row(); }
    HW_INLINE Int words() const { return (arms() + 63) / 64; }

    HW_INLINE void lay(Arena &arena) {
        const Int n = arms();
        pulls.lay(arena, n);
        total.lay(arena, n);
        successes.lay(arena, n);
        squares.lay(arena, n);
        rest.lay(arena, n);
        pending.lay(arena, n);
        shift.lay(arena, n);
        mean.lay(arena, n);
        root.lay(arena, n);
        index.lay(arena, n);
        sums.lay(arena, !shape.paired ? 0 : by_lane ? n * row() : n * n + beyond);
        if constexpr (by_lane) out.lay(arena, words());
        seen.lay(arena, shape.levelled ? n * shape.kinds : 0);
        notes.lay(arena, (n + 1) * shape.notes);
    }

    // Nothing observed: no pulls, every mean +inf, which makes every index +inf. O(K^2) with sums, else O(K).
    HW_DEVICE void forget() {
        const C none = whole<C>(0);
        round = 0;
        most_pulled = chosen = most = none;
        for (Int k = 0; k < arms(); ++k) {
            pulls[k] = total[k] = successes[k] = squares[k] = rest[k] = pending[k] = shift[k] = none;
            mean[k] = broadcast<N>(infinity);
            root[k] = index[k] = broadcast<N>(0.0);
        }
        for (Int i = 0; shape.paired && i < arms() * (by_lane ? row() : arms()); ++i) sums[i] = none;
        for (Int i = 0; by_lane && i < words(); ++i) out[i] = Bits<N>(0);
        for (Int i = 0; shape.levelled && i < arms() * shape.kinds; ++i) seen[i] = none;
    }

    // The sum in which arm k is weighed against ell.
    HW_INLINE C against(Int k, Int ell) const {
        if constexpr (by_lane) return each_lane<N>([&](Int in) { return row_of(in, k)[ell]; });
        else return sums[k * arms() + ell];
    }

    // Whether the most-pulled arm's sum against ell is above 0.
    HW_INLINE Mask<N> outdone(Int ell) const {
        if constexpr (by_lane) {
            return below_signed(out[ell / 64] << static_cast<int>(63 - ell % 64), Bits<N>(0));
        } else if constexpr (lanes<N> == 1 && K == 0) {
            return sums[most_pulled * arms() + ell] > 0;
        } else {
            C against = sums[ell];
            for (Int i = 1; i < arms(); ++i) against = pick(most_pulled == whole<C>(i), sums[i * arms() + ell], against);
            return against > whole<C>(0);
        }
    }

    // As the function of that name, for this state's way of keeping arms.
    template <class F> HW_INLINE void at_arm(C arm, F f) const {
        if constexpr (lanes<N> == 1 && K > 0) {
            HW_UNROLL
            for (Int k = 0; k < K; ++k) f(k, arm == whole<C>(k));
        } else {
            at(arm, arms(), f);
        }
    }

    // Count that `arm` paid what `paid` says of it: units, level, excess over every other arm. O(K) with sums, else O(1); in lanes
    // O(K^2) and O(K).
    template <class Paid> HW_INLINE void observe(C arm, const Paid &paid, const Rewards &rewards, const Settings &settings, Needs needs) {
        ++round;
        C n = whole<C>(0), sum = n, gain = n;
        at_arm(arm, [&](Int k, auto hit) {
            gain = pick(hit, paid.units(k), gain);
            pulls[k] = pick(hit, pulls[k] + whole<C>(1), pulls[k]);
            n = pick(hit, pulls[k], n);
        });
        at_arm(arm, [&](Int k, auto hit) {
            total[k] = pick(hit, total[k] + gain, total[k]);
            sum = pick(hit, total[k], sum);
        });
        Refreshed<N> now = refreshed<N>(n, sum, rewards);
        if (needs.squares) {
            count_square(arm, gain);
            now.root = standard_error(value_at(pulls, arm, arms()), sum, value_at(squares, arm, arms()), value_at(rest, arm, arms()),
                                      rewards, settings);
        }
        at_arm(arm, [&](Int k, auto hit) {
            mean[k] = pick(hit, now.mean, mean[k]);
            root[k] = pick(hit, now.root, root[k]);
        });
        if (shape.paired) weigh_pairs(arm, n, paid);
        if (needs.levels) count_level(arm, paid);
        if (needs.successes) flip_coin(arm, gain, rewards, settings);
    }

    // Means, roots and the most-pulled arm anew from the counts, as if the rewards had come one by one. O(K).
    HW_DEVICE void rebuild(const Rewards &rewards, const Settings &settings, Needs needs) {
        most_pulled = most = whole<C>(0);
        for (Int k = 0; k < arms(); ++k) {
            const auto none = pulls[k] == whole<C>(0);
            const Refreshed<N> now = refreshed<N>(pulls[k], total[k], rewards);
            mean[k] = pick(none, broadcast<N>(infinity), now.mean);
            root[k] = pick(none, broadcast<N>(0.0), now.root);
            if (needs.squares) root[k] = pick(none, root[k], standard_error(pulls[k], total[k], squares[k], rest[k], rewards, settings));
            const auto more = pulls[k] > most;
            most_pulled = pick(more, whole<C>(k), most_pulled);
            most = pick(more, pulls[k], most);
        }
        if constexpr (by_lane) {
            for (Int in = 0; shape.paired && in < lanes<N>; ++in)
                for (Int c = 0; c < words(); ++c) out[c] = with_lane(out[c], in, above_zero(row_of(in, count_in(most_pulled, in)), c));
        }
    }

    // Of a mean, its variance estimated from the arm's rewards and one pseudo-observation, sd squared; sd if it was never pulled.
    static HW_DEVICE N standard_error(C n, C sum, C square, C low, const Rewards &rewards, const Settings &settings) {
        return each_lane<N>([&](Int i) {
            return estimated_error(count_in(n, i), count_in(sum, i), count_in(square, i), count_in(low, i), rewards.unit, settings.sd);
        });
    }

  private:
    template <class Paid> HW_INLINE void weigh_pairs(C arm, C n, const Paid &paid) {
        const auto overtakes = either(n > most, both(n == most, arm < most_pulled));
        most_pulled = pick(overtakes, arm, most_pulled);
        most = pick(overtakes, n, most);
        if constexpr (by_lane) {
            weigh_lanes(arm, paid);
        } else if constexpr (requires { paid.excesses(); }) {
            const Int among = arms();
            const Int *const excesses = paid.excesses();
            Int *const __restrict row = &sums[arm * among];
            for (Int ell = 0; ell < among; ++ell) row[ell] += excesses[ell];
        } else {
            at_arm(arm, [&](Int k, auto hit) {
                for (Int ell = 0; ell < arms(); ++ell) {
                    C &sum = sums[k * arms() + ell];
                    sum = pick(hit, sum + paid.excess(k, ell), sum);
                }
            });
        }
    }

    // The bits of one word of a row's sums that are above 0.
    HW_INLINE Long above_zero(const double *sum, Int word) const {
        Long bits_set = 0;
        for (Int ell = 64 * word; ell < min(row(), 64 * word + 64); ell += lanes<N>)
            bits_set |= static_cast<Long>(which(load<N>(sum + ell) > broadcast<N>(0.0))) << (ell - 64 * word);
        return bits_set;
    }

    // Each lane adds one row to the sums of the arm that it pulled. Of the arms excluded nothing changes but where that arm is the
    // most-pulled one now: whoever overtakes was pulled just now.
    template <class Paid> HW_INLINE void weigh_lanes(C arm, const Paid &paid) {
        const Int among = row();
        Long pulled[lanes<N>], set[lanes<N>];
        store(pulled, bits_of(arm));
        const auto excesses = paid.excess_rows();
        for (Int in = 0; in < lanes<N>; ++in) {
            const double *const more = excesses(in, static_cast<Int>(pulled[in]));
            double *const sum = row_of(in, static_cast<Int>(pulled[in]));
            Long above = 0;
            for (Int ell = 0; ell < among; ell += lanes<N>) {
                const N x = load<N>(sum + ell) + load<N>(more + ell);
                store(sum + ell, x);
                above |= static_cast<Long>(which(x > broadcast<N>(0.0))) << (ell & 63);
            }
            set[in] = above;
        }
        const auto leads = arm == most_pulled;
        if (words() == 1) {
            out[0] = pick(leads, load_bits<N>(set), out[0]);
            return;
        }
        for (Int c = 0; c < words(); ++c) {
            for (Int in = 0; in < lanes<N>; ++in) set[in] = above_zero(row_of(in, static_cast<Int>(pulled[in])), c);
            out[c] = pick(leads, load_bits<N>(set), out[c]);
        }
    }

    template <class Paid> HW_INLINE void count_level(C arm, const Paid &paid) {
        at_arm(arm, [&](Int k, auto hit) {
            at(paid.level(k), shape.kinds, [&](Int m, auto same) {
                C &times = seen[k * shape.kinds + m];
                times = pick(both(hit, same), times + whole<C>(1), times);
            });
        });
    }

    // The square of a reward, in two words.
    HW_INLINE void count_square(C arm, C gain) {
        at_arm(arm, [&](Int k, auto hit) {
            const Split<C> more = split_square(gain), sum = split_word(rest[k] + more.low);
            rest[k] = pick(hit, sum.low, rest[k]);
            squares[k] = pick(hit, squares[k] + more.high + sum.high, squares[k]);
        });
    }

    // Make a reward 1 or 0 by a coin that keeps its mean on [0, 1].
    HW_INLINE void flip_coin(C arm, C gain, const Rewards &rewards, const Settings &settings) {
        const N reward = to_number<N>(gain) * broadcast<N>(rewards.unit);
        const Bits<N> block(static_cast<Long>(round));
        const N u = to_open_unit(uniforms(settings.key, replication, block, purpose::binarise, bits_of(arm)).one);
        const auto success = u * broadcast<N>(rewards.span) < reward - broadcast<N>(rewards.low);
        at_arm(arm, [&](Int k, auto hit) {
            successes[k] = pick(both(hit, success), successes[k] + whole<C>(1), successes[k]);
        });
    }
};

}  // namespace HW_BUILD
}  // namespace hw
