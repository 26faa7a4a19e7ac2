// Gamma draws by Marsaglia and Tsang's method, from one normal and one uniform an attempt.
#pragma once
#include "../../elementary.h"
#include "../../portable.h"

namespace hw {
inline namespace HW_BUILD {

// Of a shape >= 1.
struct GammaLaw {
    double d, c;

    HW_INLINE static GammaLaw of(double shape) {
        const double d = shape - 1.0 / 3.0;
        return {d, 1.0 / sqrt(9.0 * d)};
    }
    // One attempt: a draw, or -1 when it is rejected (under 5 % of the time). z is standard normal and u
    // uniform on (0, 1).
    HW_INLINE double attempt(double z, double u) const {
        double v = 1.0 + c * z;
        if (v <= 0.0) return -1.0;
        v = v * v * v;
        return log(u) < 0.5 * z * z + d - d * v + d * log(v) ? d * v : -1.0;
    }
};
}  // namespace HW_BUILD
}  // namespace hw
