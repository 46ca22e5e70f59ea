// The sum of n values in one launch: the block that finishes last adds the sums of all blocks.
//
//     block 0:  partial[0] ──┐
//     block 1:  partial[1] ──┼─▶ atomicAdd(done): whoever gets gridDim.x − 1 is last ──▶ sum of partial[…] ──▶ *sum
//     block 2:  partial[2] ──┘
//
// An atomic operation counts correctly whatever else happens; it does not say that what its thread wrote before can be seen.
// Blocks have 32 threads, `done` begins at 0. With n = 0 there is one block all the same, and it writes 0.
//
// Limited by memory for large n, and by the last block's turn at the end.
// run: test memory_model // trial: memory_model
// ANCHOR: warp_sum
// The sum of all lanes' values, in lane 0.
__device__ float warp_sum(float value) {
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    return value;
}
// ANCHOR_END: warp_sum

// ANCHOR: hoped
// The count is right. What it counts may not have arrived.
extern "C" __global__ void sum_hoped(const float *x, float *partial, unsigned *done, float *sum, unsigned n) {
    unsigned i = blockIdx.x * 32 + threadIdx.x;
    float mine = warp_sum(i < n ? x[i] : 0.0f);
    bool last = false;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        last = atomicAdd(done, 1) == gridDim.x - 1;
    }
    if (__any_sync(0xffffffff, last)) {
        float all = 0.0f;
        for (unsigned block = threadIdx.x; block < gridDim.x; block += 32) {
            all += partial[block];
        }
        all = warp_sum(all);
        if (threadIdx.x == 0) {
            *sum = all;
        }
    }
}
// ANCHOR_END: hoped

// ANCHOR: fenced
extern "C" __global__ void sum_fenced(const float *x, float *partial, unsigned *done, float *sum, unsigned n) {
    unsigned i = blockIdx.x * 32 + threadIdx.x;
    float mine = warp_sum(i < n ? x[i] : 0.0f);
    bool last = false;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();  // this block's sum before the news of it
        last = atomicAdd(done, 1) == gridDim.x - 1;
        __threadfence();  // the news of the others before their sums
    }
    if (__any_sync(0xffffffff, last)) {
        __syncwarp();  // what lane 0 has seen, the other lanes see
        float all = 0.0f;
        for (unsigned block = threadIdx.x; block < gridDim.x; block += 32) {
            all += partial[block];
        }
        all = warp_sum(all);
        if (threadIdx.x == 0) {
            *sum = all;
        }
    }
}
// ANCHOR_END: fenced
