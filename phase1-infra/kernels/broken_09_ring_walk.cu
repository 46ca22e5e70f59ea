// y[i] = x[(i · step) mod n]: a walk round a ring of n values that visits each once if step and n are coprime.
// run: broken 09
// ANCHOR: kernel
extern "C" __global__ void ring_walk(const float *x, float *y, int step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int at = i * step % n;
        y[i] = x[at];
    }
}
// ANCHOR_END: kernel
