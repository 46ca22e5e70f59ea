// Every thread of the block reaches the barrier.

extern "C" __global__ void block_sum(const float *x, float *sums, unsigned n) {
    __shared__ float partial[256];
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned stride = 128; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) {
            partial[threadIdx.x] += partial[threadIdx.x + stride];
        }
        __syncthreads(); // threads with nothing to add wait too
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = partial[0];
    }
}
