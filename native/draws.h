// Streams of randomness: every number is a pure function of (seed, replication, block, purpose, lane).
//
// The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011): ten rounds of a keyed bijection of
// a 128-bit counter. It has no state, so any chunk of any replication can be drawn alone, in any order, on
// any machine.
//
//     key       (low, high) words of the 64-bit seed
//     counter   word 0: low 32 bits of block
//               word 1: low 32 bits of replication
//               word 2: purpose in the top 8 bits, lane in the low 24 (an arm, or an arm and an attempt)
//               word 3: bits 32..47 of block in the top half, bits 32..47 of replication in the bottom half
//
// One call gives four 32-bit words, that is two uniforms of 53 bits. For the latent value, rounds 2b + 1 and
// 2b + 2 take the two uniforms of block b; for everything else block is the round.
//
// W stands for an unsigned integer of 64 bits, or a pack of them; what is called a word is below 2^32.
#pragma once
#include "model.h"
#include "number.h"

namespace hw {
inline namespace HW_BUILD {

// What a number is drawn for, each below 2^8. They are part of the meaning of a seed: never renumber them.
namespace purpose {
inline constexpr Long latent = 0;        // x_t
inline constexpr Long normal = 1;        // Thompson sampling, normal posterior
inline constexpr Long reward = 2;        // which level a random reward takes, given x_t
inline constexpr Long binarise = 3;      // Thompson sampling, Beta posterior: the coin for a reward of 0 or 1
inline constexpr Long beta_success = 4;  // and its two gamma draws
inline constexpr Long beta_failure = 5;
inline constexpr Long walk = 6;          // Thompson sampling over the law of X: the moves of its chain
inline constexpr Long leap = 7;          // the rewards of many rounds at once; block counts calls, not rounds
inline constexpr Long traffic = 8;       // a live campaign: who gets an arm by lot, and which
inline constexpr Long choice = 9;        // an arm by lot, of a policy that chooses so
}  // namespace purpose

inline constexpr Long low_word = 0xFFFFFFFF;

template <class W> struct Words {
    W a, b, c, d;
};

// Two independent uniforms of 53 bits, as integers.
template <class W> struct Uniforms {
    W one, two;
};

// Philox4x32-10 of a counter under a key: words in, words out. What stands above a word meanwhile does no
// harm: products leave it out. `keys.at(round)` is the key of a round.
template <class W, class Keys> HW_INLINE Words<W> philox(Words<W> x, const Keys &keys) {
    const W first = W(0xD2511F53), second = W(0xCD9E8D57);
    for (Word round = 0; round < 10; ++round) {
        const Key key = keys.at(round);
        const W p = multiply(x.a, first), q = multiply(x.c, second);
        x = {(q >> 32) ^ x.b ^ W(Long(key.low)), q, (p >> 32) ^ x.d ^ W(Long(key.high)), p};
    }
    const W mask = W(low_word);
    return {x.a & mask, x.b & mask, x.c & mask, x.d & mask};
}

// The counter of a draw. replication and block below 2^48, lane below 2^24.
template <class W> HW_INLINE Words<W> counter_words(W replication, W block, Long purpose, W lane) {
    const W mask = W(low_word), half = W(0xFFFF);
    const W high = (((block >> 32) & half) << 16) | ((replication >> 32) & half);
    return {block & mask, replication & mask, W(purpose << 24) | lane, high};
}

// A uniform integer in [0, 2^53) from two words: all of `high`, the top 21 bits of `low`.
template <class W> HW_INLINE W join(W high, W low) { return (high << 21) | (low >> 11); }

template <class W, class Keys> HW_INLINE Uniforms<W> uniforms(const Keys &key, W replication, W block, Long purpose, W lane) {
    const Words<W> x = philox(counter_words(replication, block, purpose, lane), key);
    return {join(x.a, x.b), join(x.c, x.d)};
}
template <class Keys> HW_INLINE Uniforms<Long> uniforms(const Keys &key, Int replication, Int block, Long purpose, Int lane) {
    const Long run = static_cast<Long>(replication), at = static_cast<Long>(block);
    return uniforms<Long, Keys>(key, run, at, purpose, static_cast<Long>(lane));
}

// The midpoint of a 53-bit uniform's cell: in (0, 1), never an end, so that its logarithm and quantile are
// finite. Above 1/2 the midpoint is not representable and rounds to even, hence the cap at the largest number
// below 1.
template <class W> HW_INLINE auto to_open_unit(W u) {
    const auto x = (number_of(u) + 0.5) * 0x1p-53;
    return smaller(x, decltype(x)(1.0 - 0x1p-53));
}

}  // namespace HW_BUILD
}  // namespace hw
