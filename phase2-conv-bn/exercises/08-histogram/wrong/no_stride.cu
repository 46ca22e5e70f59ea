// Each thread takes one value, but there may be more values than threads.

extern "C" __global__ void histogram(const int *bins, int *counts, unsigned n) {
    __shared__ int own[64];
    if (threadIdx.x < 64) {
        own[threadIdx.x] = 0;
    }
    __syncthreads();  // all counters are zero
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        atomicAdd(&own[bins[i]], 1);
    }
    __syncthreads();  // all values are counted
    if (threadIdx.x < 64) {
        atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
    }
}
