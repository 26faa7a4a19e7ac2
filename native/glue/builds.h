// What each build offers, of those builds that this processor runs.
#pragma once
#include <vector>

namespace glue {

// The widest registers last.
template <class Offer> std::vector<const Offer *> runnable(const Offer *baseline, const Offer *avx2, const Offer *avx512) {
    std::vector<const Offer *> out{baseline};
#if defined(__x86_64__) || defined(_M_X64)
    if (__builtin_cpu_supports("avx2")) out.push_back(avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        out.push_back(avx512);
#endif
    return out;
}

}  // namespace glue

// Elsewhere there is one build.
#if defined(__x86_64__) || defined(_M_X64)
#define HW_RUNNABLE(offer) glue::runnable(&hw::offer##_baseline, &hw::offer##_avx2, &hw::offer##_avx512)
#else
#define HW_RUNNABLE(offer) glue::runnable(&hw::offer##_baseline, &hw::offer##_baseline, &hw::offer##_baseline)
#endif
