#define HW_GPU 1
#define HW_BUILD emulated
#include "gpu_emulated.h"

#include <barrier>
#include <thread>
#include <vector>

#include "../policies/learning.h"
#include "../policies/random_rewards.h"
#include "../registry.h"
#include "gpu.h"

namespace hw {
inline namespace HW_BUILD {
namespace {

// Members of a crew as threads, which tell each other numbers by way of a place for each.
template <int size> struct ThreadCrew {
    static constexpr int members = size;
    struct Shared {
        std::barrier<> barrier{size};
        double passed[size];
        Int arm[size];
        int atoms[2 * size];
    };

    Shared &shared;
    int number;

    int member() const { return number; }
    int *atoms() const { return shared.atoms; }
    void meet() const { shared.barrier.arrive_and_wait(); }
    template <class T> T from(T x, int who) const {
        if (number == who) shared.arm[0] = static_cast<Int>(x);
        meet();
        const T out = static_cast<T>(shared.arm[0]);
        meet();
        return out;
    }
    template <class B> B best(B mine) const {
        shared.passed[number] = static_cast<double>(mine.index), shared.arm[number] = static_cast<Int>(mine.arm);
        meet();
        B out = mine;
        for (int i = 0; i < size; ++i) {
            const B other{static_cast<decltype(mine.index)>(shared.passed[i]), static_cast<decltype(mine.arm)>(shared.arm[i])};
            if (other.index > out.index || (other.index == out.index && other.arm < out.arm)) out = other;
        }
        meet();
        return out;
    }
    template <class T> T sum(T x) const {
        T out = 0;
        for (int i = 0; i < size; ++i) out += from(x, i);
        return out;
    }
    static void add_one(Word *at) { ++*at; }
    static Word read(const Word *at) { return *at; }
    static void clear(Word *at) { *at = 0; }
};

template <class N> void prepare(const Problem &problem, const Launch &launch) {
    for (Int i = 0; i < launch.length; ++i) fill_widths<N>(problem, launch, i);
    for (Int i = 0; i < launch.roots_size; ++i) fill_roots(launch, i);
}

template <class N, class C, int K, int J, bool filtered> bool play_few(const Problem &problem, const Launch &launch) {
    prepare<N>(problem, launch);
    std::vector<C> cells(static_cast<std::size_t>((K + 1) * K * problem.law.atoms()));
    fill_cells<C, K, filtered>(problem, cells.data(), 0, 1);
    for (Int r = 0; r < launch.size; ++r) Few<N, C, K, J, filtered>(problem, launch, cells.data()).play(r);
    return true;
}
template <class N, class C, int K, bool filtered> bool play_few(const GpuKind &kind, const Problem &problem, const Launch &launch) {
    switch (kind.atoms) {
        case 0: return play_few<N, C, K, 0, filtered>(problem, launch);
        case 3: return play_few<N, C, K, 3, filtered>(problem, launch);
        case 5: return play_few<N, C, K, 5, filtered>(problem, launch);
        default: return false;
    }
}

inline constexpr int members = 4, places = 32;

template <class N, class C, bool filtered> bool play_crew(const Problem &problem, const Launch &launch) {
    using Crew = ThreadCrew<members>;
    prepare<N>(problem, launch);
    typename Crew::Shared shared;
    std::vector<std::thread> threads;
    for (int i = 0; i < members; ++i) {
        threads.emplace_back([&, i] {
            for (Int r = 0; r < launch.size; ++r)
                Member<N, C, Crew, places, filtered>(problem, launch, Crew{shared, i}).play(r);
        });
    }
    for (std::thread &thread : threads) thread.join();
    return true;
}

template <class N, class C, bool filtered> bool play_ucb1(const GpuKind &kind, const Problem &problem, const Launch &launch) {
    if (kind.kind == 1) return kind.members == members && kind.arms <= members * places && play_crew<N, C, filtered>(problem, launch);
    switch (kind.arms) {
        case 2: return play_few<N, C, 2, filtered>(kind, problem, launch);
        case 3: return play_few<N, C, 3, filtered>(kind, problem, launch);
        case 4: return play_few<N, C, 4, filtered>(kind, problem, launch);
        default: return false;
    }
}
template <class N, class C> bool play_ucb1(const GpuKind &kind, const Problem &problem, const Launch &launch) {
    return kind.filtered ? play_ucb1<N, C, true>(kind, problem, launch) : play_ucb1<N, C, false>(kind, problem, launch);
}

// Call visit(a policy) with the policy that a problem is set for.
template <class Visit> auto with_policy(const Problem &problem, Visit visit) {
    const auto made = [&](auto policy) {
        make(problem, policy);
        return visit(policy);
    };
    const bool random = problem.random.arms() > 0 && problem.settings.filter != Filter::none;
    switch (static_cast<Rule>(problem.settings.rule)) {
#define HW_CASE(code, name, type) \
    case Rule::code: return random ? made(IndexedRandom<type>{}) : made(Indexed<type>{});
        HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
#define HW_CASE(code, name, type) \
    case Rule::code: return made(Learning<type>{});
        HW_LEARNING_RULES(HW_CASE)
#undef HW_CASE
    }
    return made(Indexed<Uniform>{});
}

template <class Policy> Int room_of(const Policy &policy) {
    SoloThread<Policy> solo{policy, {}, {}};
    typename Policy::State state;
    Arena arena;
    solo.lay(state, arena);
    return arena.used();
}

bool play_solo(const Problem &problem, const Launch &launch) {
    for (Int i = 0; i < launch.length; ++i) fill_logs(launch, i);
    return with_policy(problem, [&](auto policy) {
        for (Int r = 0; r < launch.size; ++r)
            SoloThread<decltype(policy)>{policy, {}, {}}.play(problem, launch, r, static_cast<Byte *>(launch.state) + r * launch.room);
        return true;
    });
}

}  // namespace
}  // namespace HW_BUILD

Int gpu_room(const gpu::Problem &problem) {
    return with_policy(problem, [](auto policy) { return room_of(policy); });
}

bool emulate_gpu(const GpuKind &kind, const gpu::Problem &problem, const gpu::Launch &launch) {
    if (kind.kind == 2) return play_solo(problem, launch);
    if (kind.single) return kind.narrow ? play_ucb1<float, int>(kind, problem, launch) : play_ucb1<float, Int>(kind, problem, launch);
    return kind.narrow ? play_ucb1<double, int>(kind, problem, launch) : play_ucb1<double, Int>(kind, problem, launch);
}

}  // namespace hw
