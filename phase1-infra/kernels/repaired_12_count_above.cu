// Counts the values above a threshold: each block counts its own and adds them to the total.
// run: broken 12 --repaired

// ANCHOR: kernel
extern "C" __global__ void count_above(const float *x, float threshold, unsigned *count, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned above = __syncthreads_count(i < n && x[i] > threshold); // of the block
    if (threadIdx.x == 0) {
        // ANCHOR: repair
        atomicAdd(count, above);
        // ANCHOR_END: repair
    }
}
// ANCHOR_END: kernel
