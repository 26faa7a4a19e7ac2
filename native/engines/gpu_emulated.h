// The kernels of a GPU, played by the processor.
#pragma once
#include "gpu_launch.h"

namespace hw {

// What a kernel is compiled for: see gpu.cu.
struct GpuKind {
    Int kind = 0, arms = 0, atoms = 0, members = 1;
    bool filtered = false, single = false, narrow = false;  // single: means in 32 bits; narrow: sums in 32 bits
};

// Bytes of a replication that plays alone.
Int gpu_room(const gpu::Problem &problem);
// Fill the tables of a launch, then play it. False where nothing was compiled for that kind.
bool emulate_gpu(const GpuKind &kind, const gpu::Problem &problem, const gpu::Launch &launch);

}  // namespace hw
