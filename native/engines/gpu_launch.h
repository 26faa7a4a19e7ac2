// What a GPU is handed: a problem whose arrays lie in its memory, and which rounds of which replications to play. Plain data, laid
// out alike on both sides.
#pragma once
#include "../policies/learning/evidence.h"

namespace hw {
namespace gpu {

inline constexpr Int linear_atoms = 16;  // as many are told apart by comparing with every threshold

// The key of every round of the generator, which costs nothing to read from constant memory.
struct Schedule {
    Word low[10] = {}, high[10] = {};

    HW_INLINE Key at(Word round) const { return {low[round], high[round]}; }
    HW_INLINE static Schedule of(Key key) {
        Schedule out;
        for (Word round = 0; round < 10; ++round) out.low[round] = key.at(round).low, out.high[round] = key.at(round).high;
        return out;
    }
};

// `narrow` stands for the rewards' table where its numbers fit into 32 bits. A draw of 64 bits, of which the last 11 do not count,
// reaches a threshold if it is at least the limit of that number; the last limits are never reached.
struct Problem {
    Rewards rewards;
    Cube<const int> narrow;
    RandomRewards random;
    Evidence evidence;
    Source law;
    Settings settings;
    Schedule keys;
    Long limits[linear_atoms] = {};
};

// Rounds start + 1, ..., start + length of replications first, ..., first + size - 1. What these are between launches is in `state`,
// `room` bytes each where a policy lays out its own, and in `seen`. `rounds` holds what the rule takes of log t in each round; `out`,
// if any, is where pulls (size, K), reward (size,) and rounds excluded (size, K) go at the end.
struct Launch {
    Int first = 0, size = 0, start = 0, length = 0, room = 0;
    void *state = nullptr;
    Word *seen = nullptr;
    void *rounds = nullptr;
    double *roots = nullptr;
    Int roots_size = 0;
    void *out = nullptr;
};

}  // namespace gpu
}  // namespace hw
