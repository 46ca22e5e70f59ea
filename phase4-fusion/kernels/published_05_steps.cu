// Multiplies rows of two matrices, 64 columns per step. One warp copies the tiles, four multiply.
// nvrtc: --gpu-architecture=compute_90a // run: published 05
#include "product.cuh"

// ANCHOR: kernel
// Blocks of 160 threads: 64 rows of a and 64 of b. Threads 0 to 127 multiply, thread 128 copies.
extern "C" __global__ void steps(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *y, unsigned a_rows,
                                 unsigned b_rows, unsigned count) {
    __shared__ alignas(1024) unsigned char a_tile[2][8192], b_tile[2][8192];
    __shared__ unsigned long long barriers[4];
    unsigned full = shared_address(barriers), empty = full + 2 * 8, a_row = blockIdx.y * 64, b_row = blockIdx.x * 64;
    if (threadIdx.x == 0) {
        for (unsigned stage = 0; stage < 2; ++stage) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, 128);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 128) {
        for (unsigned step = 0; step < count; ++step) {
            unsigned stage = step % 2, ready = full + stage * 8;
            barrier_wait(empty + stage * 8, (step / 2 + 1) % 2); // in the first round both stages are empty
            barrier_expect(ready, 2 * 8192);
            copy_box_to(0, shared_address(a_tile[stage]), a, step * 64, a_row, ready);
            copy_box_to(0, shared_address(b_tile[stage]), b, step * 64, b_row, ready);
        }
    } else if (threadIdx.x < 128) {
        float sums[32] = {};
        wgmma_fence();
        for (unsigned step = 0; step < count; ++step) {
            barrier_wait(full + step % 2 * 8, step / 2 % 2);
            multiply(sums, a_tile[step % 2], b_tile[step % 2]);
            wgmma_commit();
            barrier_arrive(empty + step % 2 * 8);
        }
        wgmma_wait<0>();
        write(y, sums, a_row, b_row, a_rows, b_rows);
    }
}
// ANCHOR_END: kernel
