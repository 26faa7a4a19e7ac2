// The kernels of a GPU. Compiled when one is asked for, for what is asked for, which macros say:
//
//   HW_KIND      0 few, 1 crew, 2 solo (see gpu.h)
//   HW_RULE      the rule's number (registry.h)
//   HW_FILTERED  whether the filter by the most-pulled arm is on (few, crew)
//   HW_REAL, HW_COUNT   the types of means, and of sums (few, crew)
//   HW_ARMS, HW_ATOMS   of few; atoms 0: any number
//   HW_MEMBERS, HW_PLACES   of a crew
//   HW_LEARNS    whether the rule learns the law of X
//   HW_RANDOM    whether rewards are random and the filter on (solo)
//   HW_ROOM      bytes of a replication that are kept in the thread's own memory; 0: they stay in the GPU's (solo)
//   HW_THREADS   of a block; HW_CELLS: numbers in the table of few, 0 where it does not fit into shared memory
#define HW_GPU 1
#define HW_BUILD gpu_build
#if HW_LEARNS || HW_RANDOM
#define HW_CALLS 1
#endif
#include "gpu.h"
#include "../registry.h"
#if HW_KIND == 2
#include "../policies/random_rewards.h"
#include "../policies/learning.h"
#endif

namespace hw {
inline namespace HW_BUILD {

#define HW_KERNEL extern "C" __global__ void __launch_bounds__(HW_THREADS)
#define HW_GIVEN const __grid_constant__ Problem problem, const __grid_constant__ Launch launch

__device__ inline Int thread_number() { return static_cast<Int>(blockIdx.x) * HW_THREADS + static_cast<Int>(threadIdx.x); }

#if HW_KIND < 2
HW_KERNEL prepare(HW_GIVEN) {
    fill_widths<HW_REAL>(problem, launch, thread_number());
    fill_roots(launch, thread_number());
}
#else
HW_KERNEL prepare(HW_GIVEN) { fill_logs(launch, thread_number()); }
#endif

#if HW_KIND == 0

HW_KERNEL play(HW_GIVEN) {
    __shared__ HW_COUNT cells[HW_CELLS];
    fill_cells<HW_COUNT, HW_ARMS, HW_FILTERED>(problem, cells, threadIdx.x, HW_THREADS);
    __syncthreads();
    const Int r = thread_number();
    if (r < launch.size) Few<HW_REAL, HW_COUNT, HW_ARMS, HW_ATOMS, HW_FILTERED>(problem, launch, cells).play(r);
}

#elif HW_KIND == 1

// The threads of a block that share a replication: part of a warp, or all of a block of several warps.
template <int size> struct DeviceCrew {
    static constexpr int members = size;
    static constexpr bool within = size <= 32;
    static constexpr int warps = within ? 1 : size / 32;

    struct Shared {
        int atoms[within ? 2 * HW_THREADS : 2 * size];
        HW_REAL index[2][warps];  // two places for everything, in turn, so that one meeting is enough
        HW_COUNT arm[2][warps], passed[2];
    };

    Shared &shared;
    int turn = 0, round = 0;

    __device__ explicit DeviceCrew(Shared &place) : shared(place) {}
    __device__ int member() const { return threadIdx.x % size; }
    __device__ int *atoms() const { return shared.atoms + (within ? threadIdx.x / size * 2 * size : 0); }
    __device__ unsigned mask() const {
        return size >= 32 ? 0xFFFFFFFFu : ((1u << (size % 32)) - 1u) << (threadIdx.x % 32 / size * size);
    }
    __device__ void meet() const {
        if constexpr (within) __syncwarp(mask());
        else __syncthreads();
    }
    template <class T> __device__ T from(T x, int who) {
        if constexpr (size == 1) return x;
        else if constexpr (within) return __shfl_sync(mask(), x, who, size);
        else {
            turn ^= 1;
            if (member() == who) shared.passed[turn] = x;
            __syncthreads();
            return shared.passed[turn];
        }
    }
    template <class B> __device__ static void offer(B &best, B other) {
        const bool better = other.index > best.index || (other.index == best.index && other.arm < best.arm);
        best.index = pick(better, other.index, best.index);
        best.arm = pick(better, other.arm, best.arm);
    }
    template <class B> __device__ B best(B mine) {
        for (int step = 1; step < (within ? size : 32); step *= 2)
            offer(mine, B{__shfl_xor_sync(mask(), mine.index, step), __shfl_xor_sync(mask(), mine.arm, step)});
        if constexpr (within) return mine;
        round ^= 1;
        HW_REAL *const index = shared.index[round];
        HW_COUNT *const arm = shared.arm[round];
        if (threadIdx.x % 32 == 0) index[threadIdx.x / 32] = mine.index, arm[threadIdx.x / 32] = mine.arm;
        __syncthreads();
        B out{index[0], arm[0]};
        for (int i = 1; i < warps; ++i) offer(out, B{index[i], arm[i]});
        return out;
    }
    template <class T> __device__ T sum(T x) {
        T out = 0;
        for (int i = 0; i < size; ++i) out += from(x, i);
        return out;
    }
    __device__ static void add_one(Word *at) { atomicAdd(at, 1u); }  // nobody waits for it
    __device__ static Word read(const Word *at) { return __ldcg(at); }
    __device__ static void clear(Word *at) { __stcg(at, 0u); }
};

HW_KERNEL play(HW_GIVEN) {
    using Crew = DeviceCrew<HW_MEMBERS>;
    __shared__ Crew::Shared shared;
    const Int r = thread_number() / HW_MEMBERS;
    if (r < launch.size) Member<HW_REAL, HW_COUNT, Crew, HW_PLACES, HW_FILTERED>(problem, launch, Crew(shared)).play(r);
}

#else

template <Rule rule> struct PolicyOf;
#if HW_RANDOM
#define HW_CASE(code, name, type)                     \
    template <> struct PolicyOf<Rule::code> {         \
        using Policy = IndexedRandom<type>;           \
    };
#else
#define HW_CASE(code, name, type)                     \
    template <> struct PolicyOf<Rule::code> {         \
        using Policy = Indexed<type>;                 \
    };
#endif
HW_INDEX_RULES(HW_CASE)
#undef HW_CASE
#define HW_CASE(code, name, type)                     \
    template <> struct PolicyOf<Rule::code> {         \
        using Policy = Learning<type>;                \
    };
HW_LEARNING_RULES(HW_CASE)
#undef HW_CASE

HW_KERNEL play(HW_GIVEN) {
    const Int r = thread_number();
    if (r >= launch.size) return;
    SoloThread<PolicyOf<static_cast<Rule>(HW_RULE)>::Policy> solo{};
    make(problem, solo.policy);
#if HW_ROOM
    // A thread's own memory is laid out so that a warp reads one number of all its threads at once; so is what is kept.
    alignas(64) Long room[HW_ROOM / 8];
    Long *const kept = static_cast<Long *>(launch.state) + r;
    if (launch.start > 0)
        for (Int i = 0; i < HW_ROOM / 8; ++i) room[i] = kept[i * launch.size];
    solo.play(problem, launch, r, room);
    for (Int i = 0; i < HW_ROOM / 8; ++i) kept[i * launch.size] = room[i];
#else
    solo.play(problem, launch, r, static_cast<Byte *>(launch.state) + r * launch.room);
#endif
}

#endif

}  // namespace HW_BUILD
}  // namespace hw
