// A policy that decides live, whatever it is: what Python calls.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "../engines/live.h"
#include "../policies/learning.h"
#include "../policies/many.h"
#include "../policies/random_rewards.h"
#include "model.h"

namespace glue {

// The numbers of a state, as arrays that share its memory.
struct StateView {
    hw::Ints pulls, total, successes, squares, rest, pending, shift;
    hw::Doubles mean, root, index;
    hw::Grid<Int> sums, seen;
};

template <class State> StateView view_of(State &s) {
    const Int k = s.arms();
    return {{s.pulls.data, k}, {s.total.data, k}, {s.successes.data, k}, {s.squares.data, k}, {s.rest.data, k}, {s.pending.data, k},
            {s.shift.data, k}, {s.mean.data, k}, {s.root.data, k}, {s.index.data, k},
            {s.sums.data, s.shape.paired ? k : 0, k}, {s.seen.data, s.shape.levelled ? k : 0, s.shape.kinds}};
}

// What is known of the law of X beside the counts, by name: views, and numbers.
struct LearnerView {
    hw::FitState *fit = nullptr;
    hw::Doubles particle, prepared, planned;
    double held_until = 0.0;
    Int held_arm = 0;
};

class AnyLive {
  public:
    virtual ~AnyLive() = default;
    virtual Int select() = 0;
    virtual Int decide() = 0;
    virtual void decide_ahead(hw::Ints out, hw::KnownInts off, Int draws) = 0;
    virtual void expect(hw::KnownInts arms) = 0;
    virtual void cancel(Int arm) = 0;
    virtual void pay(Int arm, Int kind) = 0;
    virtual void rebuild() = 0;
    virtual void forget_choice() = 0;
    virtual StateView state(bool ahead) = 0;
    virtual Int waiting() const = 0;
    virtual Int round() const = 0;
    virtual void set_round(Int round) = 0;
    virtual Int most_pulled(bool ahead) const = 0;
    virtual std::unique_ptr<AnyLive> copy() const = 0;
    virtual Int bytes() const = 0;
    virtual LearnerView learner() { return {}; }
    // Where there are very many arms: rewards counted from elsewhere, an arm's row of sums, what was seen by
    // arm and atom, and how many levels the leader's row is owed for.
    virtual void count(Int, Int, Int) {}
    virtual hw::KnownInts row_of(Int) { return {}; }
    virtual std::vector<std::pair<Int, Int>> seen() { return {}; }
    virtual Int debts() const { return 0; }
    virtual void follow(hw::KnownDoubles, hw::KnownDoubles, double, Int) {}
};

// `Live` is an hw::Live<Policy>, whatever that keeps beside its states.
template <class Live> class LiveOf : public AnyLive {
  public:
    LiveOf(const Live &start, Int replication) : owned_(start) {
        live().known.replication = static_cast<hw::Long>(replication);
        live().forget();
    }
    Int select() override {
        if (live().waiting == 0) return live().select();
        Int arm = 0;
        live().decide_ahead({&arm, 1}, {}, 0);
        live().expect({&arm, 1});
        return arm;
    }
    Int decide() override { return live().decide(); }
    void decide_ahead(hw::Ints out, hw::KnownInts off, Int draws) override { live().decide_ahead(out, {off}, draws); }
    void expect(hw::KnownInts arms) override { live().expect(arms); }
    void cancel(Int arm) override { live().settle(arm); }
    void pay(Int arm, Int kind) override { live().pay(arm, kind); }
    void rebuild() override { live().rebuild(); }
    void forget_choice() override { live().next = -1; }
    StateView state(bool ahead) override { return view_of(ahead ? live().ahead : live().known); }
    Int waiting() const override { return owned_.thing.waiting; }
    Int round() const override { return owned_.thing.known.round; }
    void set_round(Int round) override { live().known.round = round; }
    Int most_pulled(bool ahead) const override { return (ahead ? owned_.thing.ahead : owned_.thing.known).most_pulled; }
    std::unique_ptr<AnyLive> copy() const override { return std::unique_ptr<AnyLive>(new LiveOf(*this)); }
    Int bytes() const override {
        Live measured = owned_.thing;
        hw::Arena arena;
        measured.lay(arena);
        return arena.used();
    }

    LearnerView learner() override {
        if constexpr (requires { live().known.learner; }) {
            auto &learner = *live().known.learner;
            LearnerView out;
            out.fit = &learner.fit;
            if constexpr (requires { learner.tools.particle; }) {
                out.particle = learner.tools.particle;
                out.prepared = learner.tools.geometry.seen;
            }
            if constexpr (requires { learner.tools.exploration; }) {
                out.planned = learner.tools.exploration.planned;
                out.held_until = learner.tools.exploration.held_until;
                out.held_arm = learner.tools.exploration.held_arm;
            }
            return out;
        }
        return {};
    }
    // Go on as a stored learner would have: from the chain's law and the counts it was prepared for, or the law planned for and the
    // arm held.
    void follow(hw::KnownDoubles law, hw::KnownDoubles prepared, double held_until, Int held_arm) override {
        if constexpr (requires { live().known.learner; }) {
            auto &learner = *live().known.learner;
            if constexpr (requires { learner.tools.particle; }) {
                hw::copy<double>(law, learner.tools.particle);
                bool any = false;
                for (const double n : prepared) any = any || n != 0.0;
                if (any) hw::prepare(learner.tools.geometry, prepared);
            }
            if constexpr (requires { learner.tools.exploration; }) {
                bool any = false;
                for (const double p : law) any = any || p != 0.0;
                if (any) {
                    hw::copy<double>(law, learner.tools.exploration.planned);
                    hw::plan(learner.tools.exploration, learner.fit.view);
                }
                learner.tools.exploration.held_until = held_until;
                learner.tools.exploration.held_arm = held_arm;
            }
        }
    }

    void count(Int arm, Int atom, Int n) override {
        if constexpr (requires { live().known.seen_atoms; }) live().policy.count(live().known, arm, atom, n);
    }
    hw::KnownInts row_of(Int k) override {
        if constexpr (requires { live().known.seen_atoms; }) return live().policy.row_of(live().known, k);
        return {};
    }
    Int debts() const override {
        if constexpr (requires { owned_.thing.known.room; }) return owned_.thing.known.room->candidates.debts;
        return 0;
    }
    std::vector<std::pair<Int, Int>> seen() override {
        std::vector<std::pair<Int, Int>> out;
        if constexpr (requires { live().known.seen_atoms; }) {
            const hw::SeenAtoms &seen = *live().known.seen_atoms;
            for (Int i = 0; i < seen.keys.size; ++i)
                if (seen.keys[i] != 0) out.emplace_back(seen.keys[i] - 1, seen.counts[i]);
        }
        return out;
    }

  private:
    LiveOf(const LiveOf &) = default;
    Live &live() { return owned_.thing; }
    Owned<Live> owned_;
};

}  // namespace glue
