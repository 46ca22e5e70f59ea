// The first lane of each warp adds the count of the whole block.

extern "C" __global__ void count_above(const float *x, float threshold, unsigned *count, unsigned n) {
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    unsigned above = __syncthreads_count(i < n && x[i] > threshold); // of the block
    if (threadIdx.x % 32 == 0) {
        atomicAdd(count, above);
    }
}
