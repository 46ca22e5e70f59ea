// y[i] = x[(i · step) mod n]: a walk round a ring of n values that visits each once if step and n are coprime.
// run: broken 09 --repaired

// ANCHOR: kernel
extern "C" __global__ void ring_walk(const float *x, float *y, int step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // ANCHOR: repair
        int at = static_cast<long long>(i) * step % n; // the product may need more than 32 bits
        // ANCHOR_END: repair
        y[i] = x[at];
    }
}
// ANCHOR_END: kernel
