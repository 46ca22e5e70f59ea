// Leaky ReLU: y = x if x ≥ 0, otherwise x / 8. The file that includes this says how a lane chooses: `leaky`.
// run: ptx
#pragma once

__device__ float leaky(float x);

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) branch(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = leaky(x[i]);
    }
}
// ANCHOR_END: kernel
