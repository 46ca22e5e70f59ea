// Softmax with `__expf`: a multiplication by log₂ e, and the unit that knows powers of two.
//
// Limited by memory.
// run: ptx

#include "ptx_05_exp.cuh"

// ANCHOR: power
__device__ float prepare(float most) {
    return most;
}

__device__ float power(float x, float prepared) {
    return __expf(x - prepared);
}
// ANCHOR_END: power
