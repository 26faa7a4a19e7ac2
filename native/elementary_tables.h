// The constants of elementary.h. Written by tables.py: change that instead.
#pragma once
#include "portable.h"

// A GPU reads its own copy.
#if defined(__CUDA_ARCH__)
#define HW_TABLE static __device__ const double
#else
#define HW_TABLE inline constexpr double
#endif

namespace hw {
inline namespace HW_BUILD {

// of about the middle of a stretch, in 20 binary digits
alignas(64) HW_TABLE log_inverse[16] = {
    0x1.745d200000000p+0, 0x1.642c800000000p+0, 0x1.5555600000000p+0, 0x1.47ae200000000p+0,
    0x1.3b13c00000000p+0, 0x1.2f68400000000p+0, 0x1.2492400000000p+0, 0x1.1a7ba00000000p+0,
    0x1.1111200000000p+0, 0x1.0842200000000p+0, 0x1.0000000000000p+0, 0x1.e1e1e00000000p-1,
    0x1.c71c800000000p-1, 0x1.af28600000000p-1, 0x1.9999a00000000p-1, 0x1.8618600000000p-1
};
// minus the logarithm of that, a multiple of 2^-42
alignas(64) HW_TABLE log_head[16] = {
    -0x1.7fafbbbd81000p-2, -0x1.522ad0738a000p-2, -0x1.269641134d000p-2, -0x1.f9920ecb3a000p-3,
    -0x1.a93f33c8ac000p-3, -0x1.5bf3b6b542000p-3, -0x1.1178a8227e000p-3, -0x1.933675d594000p-4,
    -0x1.085a6b59dc000p-4, -0x1.0417b89e68000p-5, 0x0.0p+0, 0x1.f0a32c0118000p-5,
    0x1.e26ff6e2b0000p-4, 0x1.5ff33f0a7a000p-3, 0x1.c8ff5c79aa000p-3, 0x1.1675cebaba000p-2
};
// and what is missing
alignas(64) HW_TABLE log_tail[16] = {
    -0x1.37dbf1fb69c39p-47, -0x1.d7ce0ad74385dp-46, -0x1.c93c334b1010bp-45, 0x1.8d03da7cce9c4p-48,
    0x1.4391f682b24f4p-44, -0x1.2c7eb6fa0f5bfp-45, 0x1.7084443942ab2p-44, 0x1.ef750efa1627bp-44,
    -0x1.8068c36a8211cp-44, 0x1.cbb871ec3ed0cp-45, 0x0.0p+0, -0x1.c599e828be3e6p-45,
    0x1.2e5e93fdd5937p-44, 0x1.3c8ad0cb5ddecp-51, -0x1.de53e4d28b97bp-47, 0x1.8b80e7374ab1ap-44
};
// log 2, likewise
alignas(64) HW_TABLE log_2[2] = {
    0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45
};
// (log(1 + r) - r + r^2/2) / r^3 for -0.0297 < r < 0.0313
alignas(64) HW_TABLE log_rest[9] = {
    0x1.5555555555555p-2, -0x1.fffffffffffb4p-3, 0x1.999999999a383p-3, -0x1.5555555661aecp-3,
    0x1.249249157317fp-3, -0x1.ffffe00e5df2cp-4, 0x1.c71d51845f3eap-4, -0x1.9a4e4d3daf52cp-4,
    0x1.72a15865d54bdp-4
};
// 2^(i/16) in 26 binary digits
alignas(64) HW_TABLE power_head[16] = {
    0x1.0000000000000p+0, 0x1.0b55870000000p+0, 0x1.172b840000000p+0, 0x1.2387a70000000p+0,
    0x1.306fe08000000p+0, 0x1.3dea650000000p+0, 0x1.4bfdad8000000p+0, 0x1.5ab07e0000000p+0,
    0x1.6a09e68000000p+0, 0x1.7a11470000000p+0, 0x1.8ace540000000p+0, 0x1.9c49180000000p+0,
    0x1.ae89f98000000p+0, 0x1.c199be0000000p+0, 0x1.d5818e0000000p+0, 0x1.ea4afa0000000p+0
};
// and what is missing
alignas(64) HW_TABLE power_tail[16] = {
    0x0.0p+0, -0x1.833b784eb3a37p-27, -0x1.c15742919041cp-27, -0x1.8a9dc7993e052p-28,
    0x1.18db8a96f46adp-27, -0x1.f6e5eee525f6fp-27, -0x1.64eaec715e343p-27, -0x1.5bd5eb539b67fp-27,
    -0x1.80c4336f74d05p-28, 0x1.f580c36bea881p-27, 0x1.15506dadd3e2bp-27, 0x1.51f8480e3e236p-27,
    0x1.5ad3ad5e8734dp-28, -0x1.3d56b1eeef9a7p-27, -0x1.822dbc6d12fd3p-27, 0x1.52486cc2c7b9dp-27
};
// (log 2)/16, in two parts
alignas(64) HW_TABLE power_step[2] = {
    0x1.62e42fefa0000p-5, 0x1.cf79abc9e3b3ap-44
};
// (e^r - 1 - r) / r^2 for |r| < 0.0217
alignas(64) HW_TABLE power_rest[6] = {
    0x1.0000000000001p-1, 0x1.5555555555556p-3, 0x1.55555554e917bp-5, 0x1.11111110e0f5bp-7,
    0x1.6c17ed8da4b83p-10, 0x1.a01b0c6885897p-13
};
// Stirling's series in 1/x
alignas(64) HW_TABLE gamma_far[8] = {
    0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11, -0x1.3813813813814p-11,
    0x1.b951e2b18ff23p-11, -0x1.f6ab0d9993c7dp-10, 0x1.a41a41a41a41ap-8, -0x1.e4286cb0f5398p-6
};
// log gamma(2 + z) / z for -3/4 <= z <= 1/2
alignas(64) HW_TABLE gamma_near[25] = {
    0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557607p-4, 0x1.51322ac7d8486p-6,
    -0x1.e404fc218f4b8p-8, 0x1.7add6eadb660bp-9, -0x1.38ac5c2c09abbp-10, 0x1.0b36af8666e5ep-11,
    -0x1.d3fd4c67e0189p-13, 0x1.a127b0e08b08fp-14, -0x1.78de5fc2fb76cp-15, 0x1.580dce9dc5451p-16,
    -0x1.3cbbf1c01b603p-17, 0x1.259852a2fd0c1p-18, -0x1.11c41c31c138bp-19, 0x1.00435d6b5e991p-20,
    -0x1.e0220f846ed28p-22, 0x1.cdce806714dfap-23, -0x1.c4a9d0695afb1p-24, 0x1.42196f9d74674p-25,
    -0x1.370ff2bafd517p-26, 0x1.fb5094d4bb1bcp-26, -0x1.b794485b7a6d3p-31, -0x1.8d0ba694677b1p-27,
    -0x1.79e5a72b62c5dp-27
};
// normal quantile of |u - 1/2| <= 0.425, in 0.180625 - (u - 1/2)^2
alignas(64) HW_TABLE normal_middle[16] = {
    0x1.39a296f7d925ep+11, 0x1.052d26b2e45e4p+15, 0x1.06c1c55b78f20p+16, 0x1.66c3e869b752ap+15,
    0x1.ad1d8cd4ee71dp+13, 0x1.ece5d2213c0ccp+10, 0x1.0a4888b1a436ep+7, 0x1.b18d91e9eef75p+1,
    0x1.46a7eca984a16p+12, 0x1.c0e457cb1ae76p+14, 0x1.3317caa64f4bep+15, 0x1.4b772d5d65266p+14,
    0x1.512322e75c89fp+12, 0x1.5797efdc8b3f7p+9, 0x1.5281b386e1ab5p+5, 0x1.0000000000000p+0
};
// in r - 1.6, r = sqrt(-log(u)) <= 5
alignas(64) HW_TABLE normal_tail[16] = {
    0x1.9615ac0b7ace9p-11, 0x1.744eb6c45ec67p-6, 0x1.ef2abb9b85c37p-3, 0x1.453cc085375b2p+0,
    0x1.d2ecb1a3d02c4p+1, 0x1.713f71462256ap+2, 0x1.2857748cab19bp+2, 0x1.6c665fde9526ap+0,
    0x1.20d3f686439e4p-30, 0x1.1f18cbfdf2728p-11, 0x1.f207a7eab17bfp-7, 0x1.2f5123394f040p-3,
    0x1.61292f23385c9p-1, 0x1.ad278e6526633p+0, 0x1.06cefbb46a449p+1, 0x1.0000000000000p+0
};
// in r - 5
alignas(64) HW_TABLE normal_end[16] = {
    0x1.afb74d693bf93p-23, 0x1.c6ec6cc59e02ap-16, 0x1.45c1908425345p-10, 0x1.b2b41193b4ee7p-6,
    0x1.2fad9315255cfp-2, 0x1.c8ea6461fa445p+0, 0x1.5daea6e875003p+2, 0x1.aa1b1c13ee526p+2,
    0x1.269bff1f8c190p-49, 0x1.31446f740b9e0p-23, 0x1.35c2c496374bfp-16, 0x1.9c8bc979dc5d7p-11,
    0x1.e76f93215462ap-7, 0x1.186eb183443fbp-3, 0x1.331d34fc7d77fp-1, 0x1.0000000000000p+0
};

}  // namespace HW_BUILD
}  // namespace hw
