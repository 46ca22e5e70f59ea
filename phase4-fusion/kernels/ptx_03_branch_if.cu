// Leaky ReLU with an `if`: the compiler sees that one multiplication is cheaper than a branch.
//
// Limited by memory.
// run: ptx

#include "ptx_03_branch.cuh"

// ANCHOR: leaky
__device__ float leaky(float x) {
    if (x < 0.0f) {
        x *= 0.125f;
    }
    return x;
}
// ANCHOR_END: leaky
