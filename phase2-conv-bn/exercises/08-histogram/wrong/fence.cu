// A fence orders the accesses of one thread, but it does not wait for those of the others.

extern "C" __global__ void histogram(const int *bins, int *counts, unsigned n) {
    __shared__ int own[64];
    if (threadIdx.x < 64) {
        own[threadIdx.x] = 0;
    }
    __syncthreads();  // all counters are zero
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        atomicAdd(&own[bins[i]], 1);
    }
    __threadfence_block();  // all values are counted
    if (threadIdx.x < 64) {
        atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
    }
}
