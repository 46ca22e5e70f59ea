// The sum of each run of 256 values, one block per run: in each round half of the threads add the other half's values.
// run: broken 06 --repaired
// ANCHOR: kernel
// Blocks of 256 threads.
extern "C" __global__ void block_sum(const float *x, float *sums, unsigned n) {
    __shared__ float partial[256];
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned stride = 128; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) {
            partial[threadIdx.x] += partial[threadIdx.x + stride];
        }
        // ANCHOR: repair
        __syncthreads(); // threads with nothing to add wait too
        // ANCHOR_END: repair
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = partial[0];
    }
}
// ANCHOR_END: kernel
