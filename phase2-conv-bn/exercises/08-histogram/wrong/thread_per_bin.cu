// Right values without atomics in shared memory, but 64 threads each go through all of the block's values.

extern "C" __global__ void histogram(const int *bins, int *counts, unsigned n) {
    if (threadIdx.x >= 64) {
        return;
    }
    int own = 0;
    for (unsigned first = blockIdx.x * 256; first < n; first += gridDim.x * 256) {
        for (unsigned i = first; i < min(first + 256, n); ++i) {
            own += bins[i] == threadIdx.x;
        }
    }
    atomicAdd(&counts[threadIdx.x], own);
}
