// What a thread of a GPU does; compiled for one by NVRTC or nvcc (gpu.cu), and for the processor (gpu_emulated.cpp), so that tests
// need no GPU.
//
// A launch plays some rounds, so that progress is told and a wish to stop is heard. What it costs to take the logarithms of t, and
// 1 / sqrt(n), is paid once for all threads: a launch finds them in tables, filled by the same functions.
//
// Three ways to play the same policies:
//   few    UCB1 and C-UCB with a few arms: a thread a replication, all that it knows in registers
//   crew   the same with more arms: some threads share a replication, each has some of the arms
//   solo   everything else: a thread a replication, the state as the processor's
#pragma once
#include "../policies/indexed.h"
#include "../policies/ucb1.h"
#include "gpu_launch.h"
#include "paid.h"
#include "rounds.h"

namespace hw {
inline namespace HW_BUILD {
using gpu::Launch, gpu::Problem;

// ---------------------------------------------------------------------------------------------------------------- tables

// A round in which UCB1 finds its width in a table.
template <class N> struct TabledRound : Round {
    N width;
};
template <class N, class M> HW_INLINE N ucb1_width(const TabledRound<M> &round, const Settings &) { return round.width; }

template <class N> HW_DEVICE void fill_widths(const Problem &problem, const Launch &launch, Int i) {
    if (i < launch.length) static_cast<N *>(launch.rounds)[i] = ucb1_width<N>(round_of(launch.start + i + 1), problem.settings);
}
HW_DEVICE inline void fill_logs(const Launch &launch, Int i) {
    if (i < launch.length) static_cast<double *>(launch.rounds)[i] = round_of(launch.start + i + 1).log_t;
}
HW_DEVICE inline void fill_roots(const Launch &launch, Int i) {
    if (i < launch.roots_size) launch.roots[i] = 1.0 / sqrt(static_cast<double>(i));
}

HW_INLINE Rewards rewards_of(const Problem &problem, const Launch &launch) {
    Rewards out = problem.rewards;
    out.roots = {launch.roots, launch.roots_size};
    return out;
}

// ------------------------------------------------------------------------------------------------------------------- few

// Fill a table of rewards, and under the filter of excesses, word by word, by arm and atom: threads that look up one word of different
// cells want different banks. The threads of a block take turns.
template <class C, int K, bool filtered> HW_DEVICE void fill_cells(const Problem &problem, C *table, Int thread, Int threads) {
    const Int atoms = problem.law.atoms(), pairs = K * atoms;
    for (Int i = thread; i < (filtered ? K + 1 : 1) * pairs; i += threads) {
        const Int word = i / pairs, k = i % pairs / atoms, m = problem.law.level(k, i % atoms), column = word == 0 ? K : word - 1;
        table[i] = problem.narrow.data != nullptr ? static_cast<C>(problem.narrow(k, m, column))
                                                  : static_cast<C>(problem.rewards.table(k, m, column));
    }
}

// What the arm that was pulled pays at an atom.
template <class C> struct CellPaid {
    const C *cell;
    Int pairs;

    HW_INLINE C units(Int) const { return cell[0]; }
    HW_INLINE C level(Int) const { return C(0); }
    HW_INLINE C excess(Int, Int ell) const { return cell[(1 + ell) * pairs]; }
};

// J > 0: as many atoms, found by their limits; 0: any number, found by the guide.
template <int J> HW_INLINE Int find_atom(const Problem &problem, Int shift, Long high, Long low) {
    if constexpr (J > 0) {
        const Long draw = high << 32 | (low & 0xFFFFF800ull);
        int j = 0;
        HW_UNROLL
        for (int i = 0; i < J - 1; ++i) j += draw >= problem.limits[i] ? 1 : 0;
        return j;
    } else {
        return atom_of(problem.law, shift, static_cast<Int>(join(high, low)));
    }
}

// Replication r of UCB1 or C-UCB with K arms; N for means and indices, C for sums. `state` holds its numbers `size` apart.
template <class N, class C, int K, int J, bool filtered> struct Few {
    using Policy = Indexed<Ucb1>;
    static constexpr int numbers = 3 * K + (filtered ? K * K : 0);

    const Problem &problem;
    const Launch &launch;
    const C *table;
    Policy policy;
    State<N, K, C> s;
    C excluded[K];
    Int shift, atoms;

    HW_INLINE Few(const Problem &problem_, const Launch &launch_, const C *table_)
        : problem(problem_), launch(launch_), table(table_), shift(J > 0 ? 0 : guide_shift(problem_.law)),
          atoms(J > 0 ? J : problem_.law.atoms()) {
        policy.rewards = rewards_of(problem, launch);
        policy.settings = problem.settings;
        policy.settings.filter = filtered ? Filter::most_pulled : Filter::none;
        policy.settings.audit = 0.0;
    }

    HW_INLINE void play(Int r) {
        resume(r);
        const N *const widths = static_cast<const N *>(launch.rounds);
        const Long who = static_cast<Long>(launch.first + r);
        Long block = static_cast<Long>(launch.start) / 2;
        if (launch.length == 1) {
            const Words<Long> w = draw(who, block);
            if (launch.start % 2 == 0) step(widths[0], w.a, w.b);
            else step(widths[0], w.c, w.d);
        } else {
            for (Int i = 0; i < launch.length; i += 2, ++block) {
                const Words<Long> w = draw(who, block);
                step(widths[i], w.a, w.b);
                step(widths[i + 1], w.c, w.d);
            }
        }
        keep(r);
    }

  private:
    HW_INLINE Words<Long> draw(Long who, Long block) const {
        return philox(counter_words<Long>(who, block, purpose::latent, 0), problem.keys);
    }
    HW_INLINE void step(N width, Long high, Long low) {
        const Int j = find_atom<J>(problem, shift, high, low);
        const C arm = policy.choose(s, TabledRound<N>{{}, width});
        if (filtered)
            HW_UNROLL
            for (int k = 0; k < K; ++k) excluded[k] += s.index[k] == number<N>(-infinity) ? 1 : 0;
        const int at = static_cast<int>(arm) * static_cast<int>(atoms) + static_cast<int>(j);
        policy.observe(s, arm, CellPaid<C>{table + at, K * atoms});
    }
    HW_INLINE C &number_at(Int i, Int r) const { return static_cast<C *>(launch.state)[i * launch.size + r]; }
    HW_INLINE void resume(Int r) {
        s.shape = policy.shape();
        s.forget();
        HW_UNROLL
        for (int k = 0; k < K; ++k) excluded[k] = 0;
        if (launch.start == 0) return;
        HW_UNROLL
        for (int k = 0; k < K; ++k) {
            s.pulls[k] = number_at(k, r), s.total[k] = number_at(K + k, r);
            excluded[k] = number_at(2 * K + k, r);
        }
        if (filtered)
            HW_UNROLL
            for (int i = 0; i < K * K; ++i) s.sums[i] = number_at(3 * K + i, r);
        s.rebuild(policy.rewards, policy.settings, Needs{});
    }
    HW_INLINE void keep(Int r) const {
        HW_UNROLL
        for (int k = 0; k < K; ++k) {
            number_at(k, r) = s.pulls[k], number_at(K + k, r) = s.total[k];
            number_at(2 * K + k, r) = excluded[k];
        }
        if (filtered)
            HW_UNROLL
            for (int i = 0; i < K * K; ++i) number_at(3 * K + i, r) = s.sums[i];
        if (launch.out == nullptr) return;
        C *const out = static_cast<C *>(launch.out), *const reward = out + launch.size * K;
        C sum = 0;
        HW_UNROLL
        for (int k = 0; k < K; ++k) {
            out[r * K + k] = s.pulls[k], reward[launch.size + r * K + k] = excluded[k];
            sum += s.total[k];
        }
        reward[r] = sum;
    }
};

// ------------------------------------------------------------------------------------------------------------------ crew

// One of the threads that share a replication: arm k is with member k % members, in its place k / members.
//
// Under the filter only the most-pulled arm's row of sums matters, and it is kept in registers, a number a place. Another arm's row
// is not: how often each arm paid each of its rewards is (`seen`, K M numbers a replication), from which the row follows when the
// arm comes to have the most pulls.
template <class N, class C, class Crew, int places, bool filtered> struct Member {
    static constexpr Int ahead = 2 * Crew::members;  // rounds drawn at a time: a block of two by each member

    const Problem &problem;
    const Launch &launch;
    Crew crew;
    Rewards rewards;
    State<N, places, C> s;  // of this member's arms, by place; only what their indices need
    C row[places], excluded[places];
    C *pulls, *total;  // the same, apart, as they are looked up by number: that keeps the others in registers
    C most_pulled, most;
    Int arms, kinds, shift;
    Word *seen;

    HW_INLINE Member(const Problem &problem_, const Launch &launch_, const Crew &crew_)
        : problem(problem_), launch(launch_), crew(crew_), rewards(rewards_of(problem_, launch_)), arms(problem_.law.level.rows),
          kinds(problem_.narrow.data != nullptr ? problem_.narrow.rows : problem_.rewards.table.rows), shift(guide_shift(problem_.law)) {}

    HW_INLINE void play(Int r) {
        C own_pulls[places], own_total[places];
        pulls = own_pulls, total = own_total;
        seen = launch.seen + r * arms * kinds;
        resume(r);
        const N *const widths = static_cast<const N *>(launch.rounds);
        for (Int i = 0; i < launch.length; ++i) {
            const Int t = launch.start + i, at = t % ahead;
            if (i == 0 || at == 0) draw(static_cast<Long>(launch.first + r), t / ahead * Crew::members);
            step(widths[i], crew.atoms()[at]);
        }
        keep(r);
    }

  private:
    HW_INLINE Int arm_at(int place) const { return place * Crew::members + crew.member(); }
    HW_INLINE C entry(Int k, Int m, Int column) const {
        if (problem.narrow.data != nullptr) return static_cast<C>(problem.narrow(k, m, column));
        return static_cast<C>(problem.rewards.table(k, m, column));
    }

    HW_INLINE void draw(Long who, Int block) const {
        const Long mine = static_cast<Long>(block + crew.member());
        const Uniforms<Long> u = uniforms<Long>(problem.keys, who, mine, purpose::latent, 0);
        crew.meet();
        crew.atoms()[2 * crew.member()] = static_cast<int>(atom_of(problem.law, shift, static_cast<Int>(u.one)));
        crew.atoms()[2 * crew.member() + 1] = static_cast<int>(atom_of(problem.law, shift, static_cast<Int>(u.two)));
        crew.meet();
    }

    HW_INLINE void step(N width, Int atom) {
        Ucb1::rank(s, rewards, problem.settings, TabledRound<N>{{}, width}, [&](Int place) {
            const bool here = arm_at(static_cast<int>(place)) < arms;
            return filtered ? here & (row[place] <= 0) : here;
        });
        Best<N, C> best{number<N>(-infinity), static_cast<C>(arms)};
        HW_UNROLL
        for (int place = 0; place < places; ++place) {
            if (filtered) excluded[place] += row[place] > 0 ? 1 : 0;
            const bool better = s.index[place] > best.index;
            best.index = pick(better, s.index[place], best.index);
            best.arm = pick(better, static_cast<C>(arm_at(place)), best.arm);
        }
        best = crew.best(best);
        count(best.arm, problem.law.level(static_cast<Int>(best.arm), atom));
    }

    HW_INLINE void count(C arm, Int m) {
        const int owner = static_cast<int>(arm) % Crew::members, place = static_cast<int>(arm) / Crew::members;
        C n = 0;
        if (crew.member() == owner) {
            n = pulls[place] + 1;
            const C sum = total[place] + entry(arm, m, arms);
            pulls[place] = n, total[place] = sum;
            const Refreshed<N> now = refreshed<N>(n, sum, rewards);
            HW_UNROLL
            for (int i = 0; i < places; ++i) {
                s.mean[i] = pick(i == place, now.mean, s.mean[i]);
                s.root[i] = pick(i == place, now.root, s.root[i]);
            }
            if (filtered) crew.add_one(seen + arm * kinds + m);
        }
        if (!filtered) return;
        n = crew.from(n, owner);
        const bool same = arm == most_pulled, leads = n > most || (n == most && arm < most_pulled);
        most = pick(leads, n, most), most_pulled = pick(leads, arm, most_pulled);
        if (same) add(arm, m, C(1));
        else if (leads) take_row(arm);
    }

    HW_INLINE void add(C arm, Int m, C times) {
        HW_UNROLL
        for (int place = 0; place < places; ++place)
            if (arm_at(place) < arms) row[place] += times * entry(arm, m, arm_at(place));
    }
    HW_INLINE void take_row(C arm) {
        const int owner = static_cast<int>(arm) % Crew::members;
        HW_UNROLL
        for (int place = 0; place < places; ++place) row[place] = 0;
        for (Int m = 0; m < kinds; ++m) {
            C times = 0;
            if (crew.member() == owner) times = static_cast<C>(crew.read(seen + arm * kinds + m));
            times = crew.from(times, owner);
            if (times > 0) add(arm, m, times);
        }
    }

    // A replication's numbers between launches: pulls, totals, rounds excluded; the most-pulled arm and its pulls.
    HW_INLINE C *numbers(Int r) const { return static_cast<C *>(launch.state) + r * (3 * arms + 2); }
    HW_INLINE void resume(Int r) {
        C *const kept = numbers(r);
        const bool fresh = launch.start == 0;
        most_pulled = fresh ? 0 : kept[3 * arms], most = fresh ? 0 : kept[3 * arms + 1];
        HW_UNROLL
        for (int place = 0; place < places; ++place) {
            const Int k = arm_at(place);
            const bool known = !fresh && k < arms;
            pulls[place] = known ? kept[k] : 0, total[place] = known ? kept[arms + k] : 0;
            excluded[place] = known ? kept[2 * arms + k] : 0, row[place] = 0;
            const bool some = pulls[place] > 0;
            const Refreshed<N> now = refreshed<N>(some ? pulls[place] : C(1), total[place], rewards);
            s.mean[place] = some ? now.mean : number<N>(infinity), s.root[place] = some ? now.root : number<N>(0.0);
            if (filtered && fresh && k < arms)
                for (Int m = 0; m < kinds; ++m) crew.clear(seen + k * kinds + m);
        }
        crew.meet();
        if (filtered && !fresh) take_row(most_pulled);
    }
    HW_INLINE void keep(Int r) {
        C *const kept = numbers(r);
        C sum = 0;
        HW_UNROLL
        for (int place = 0; place < places; ++place) {
            const Int k = arm_at(place);
            if (k >= arms) continue;
            kept[k] = pulls[place], kept[arms + k] = total[place], kept[2 * arms + k] = excluded[place];
            sum += total[place];
        }
        if (crew.member() == 0) kept[3 * arms] = most_pulled, kept[3 * arms + 1] = most;
        if (launch.out == nullptr) return;
        C *const out = static_cast<C *>(launch.out), *const reward = out + launch.size * arms;
        HW_UNROLL
        for (int place = 0; place < places; ++place) {
            const Int k = arm_at(place);
            if (k < arms) out[r * arms + k] = pulls[place], reward[launch.size + r * arms + k] = excluded[place];
        }
        sum = crew.sum(sum);
        if (crew.member() == 0) reward[r] = sum;
    }
};

// ------------------------------------------------------------------------------------------------------------------ solo

// A policy for a problem.
template <class Policy> HW_INLINE void make(const Problem &problem, Policy &policy) {
    policy.rewards = problem.rewards;
    policy.settings = problem.settings;
    if constexpr (requires { policy.evidence; }) policy.evidence = problem.evidence;
    if constexpr (requires { policy.random; }) policy.random = problem.random;
}

// A replication of any policy, in a room of its own.
template <class Policy> struct SoloThread {
    static constexpr Int together = 64;  // rounds after which those who can go on wait for the others
    using State = typename Policy::State;

    Policy policy;
    View<State> kept;
    Ints excluded;

    HW_DEVICE void lay(State &s, Arena &arena) {
        kept = arena.view<State>(1);
        s.shape = policy.shape();
        policy.lay(s, arena);
        excluded = arena.view<Int>(s.arms());
    }

    // Play in memory that holds what it did when the last launch ended.
    HW_DEVICE void play(const Problem &problem, const Launch &launch, Int r, void *room) {
        Arena first(room);
        kept = first.view<State>(1);
        State s = launch.start == 0 ? State{} : kept[0];
        Arena arena(room);
        lay(s, arena);
        if (launch.start == 0) {
            policy.forget(s);
            s.replication = static_cast<Long>(launch.first + r);
            fill(excluded, Int(0));
        }
        play_rounds(problem, launch, s);
        kept[0] = s;
        if (launch.out == nullptr) return;
        const Int arms = s.arms();
        Int *const out = static_cast<Int *>(launch.out), *const reward = out + launch.size * arms;
        reward[r] = 0;
        for (Int k = 0; k < arms; ++k) {
            out[r * arms + k] = s.pulls[k], reward[launch.size + r * arms + k] = excluded[k];
            reward[r] += s.total[k];
        }
    }

  private:
    HW_DEVICE void play_rounds(const Problem &problem, const Launch &launch, State &s) {
        const Source &law = problem.law;
        const Key key = problem.settings.key;
        const Int who = static_cast<Int>(s.replication), shift = guide_shift(law);
        const double *const logs = static_cast<const double *>(launch.rounds);
        Uniforms<Long> pair{};
        Int i = 0;
        const auto play_one = [&](Int arm) {
            const Int t = launch.start + i;
            if (i == 0 || t % 2 == 0) pair = uniforms(key, who, t / 2, purpose::latent, 0);
            const Int atom = atom_of(law, shift, static_cast<Int>(t % 2 == 0 ? pair.one : pair.two));
            const Int coin = law.random() ? static_cast<Int>(uniforms(key, who, t + 1, purpose::reward, 0).one) : 0;
            policy.count_excluded(s, excluded);
            policy.observe(s, arm, Paid{policy.rewards, arm, level_of(law, arm, atom, coin)});
            ++i;
        };
        // Replications that can go on without an index, or without solving anything, do: those that cannot then meet, and do it
        // together.
        while (i < launch.length) {
            Int arm = -1;
            if constexpr (requires { policy.sure(s, Round{}); }) {
                for (Int turn = 0; turn < together && i < launch.length; ++turn) {
                    arm = policy.sure(s, Round{launch.start + i + 1, logs[i]});
                    if (arm < 0) break;
                    play_one(arm);
                }
                if (i == launch.length || arm >= 0) continue;
            }
            if constexpr (requires { policy.work(s); }) policy.work(s);
            else play_one(policy.choose(s, Round{launch.start + i + 1, logs[i]}));
        }
    }
};

}  // namespace HW_BUILD
}  // namespace hw
