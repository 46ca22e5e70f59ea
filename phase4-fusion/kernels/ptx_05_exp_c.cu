// Softmax with `expf`: right to 2 units in the last place, whatever the argument.
//
// Limited by memory: its 8 instructions per power are fewer than an H200 starts in the time that 8 bytes take.
// run: ptx

#include "ptx_05_exp.cuh"

// ANCHOR: power
__device__ float prepare(float most) {
    return most;
}

__device__ float power(float x, float prepared) {
    return expf(x - prepared);
}
// ANCHOR_END: power
