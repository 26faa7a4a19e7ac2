// Functions over arrays, in packs and one by one: what tests compare between the builds.
#pragma once
#include "../portable.h"

namespace hw {

struct OverArray {
    const char *name;
    void (*packs)(const double *x, double *y, Int n);
    void (*doubles)(const double *x, double *y, Int n);
};
struct Elementary {
    const char *build;
    OverArray functions[13];
};

extern const Elementary elementary_baseline, elementary_avx2, elementary_avx512;

}  // namespace hw
