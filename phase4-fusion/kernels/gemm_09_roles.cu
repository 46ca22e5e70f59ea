// GEMM with a warp that copies and warpgroups that multiply: nobody meets at a barrier of the block, each waits for what it needs.
//
//     producer     copy 0 │ copy 1 │ copy 2 │ … waits for `empty` …      `full` counts a stage's bytes,
//     consumer 0      … waits for `full` … multiply 0 │ multiply 1 │ …   `empty` the warps that are done with it
//     consumer 1      … waits for `full` … multiply 0 │ multiply 1 │ …
//
// The producer needs few registers and gives its own to the consumers (setmaxnreg), which hold 128 sums each: tiles of 128 × 256. The
// products of a step begin while those of the step before are still under way.
//
// Limited by its ends: a block begins with an empty ring and stores C while the tensor cores rest, and one block fills a
// SM.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "swizzled.cuh"

constexpr int BM = 128, BN = 256;  // rows and columns of C per block
constexpr int CONSUMERS = BM / 64;
constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS;
constexpr int STAGES = 4;          // tiles of each matrix in shared memory
constexpr int A_BYTES = BM * ROW_BYTES, STAGE_BYTES = A_BYTES + BN * ROW_BYTES;
constexpr int BARRIERS = STAGES * STAGE_BYTES, SHARED = BARRIERS + 2 * STAGES * 8;

// ANCHOR: copy
// Asks for both tiles of a step; their bytes arrive at `barrier`.
template <Layout LAYOUT>
__device__ void copy_step(const TensorMap &a, const TensorMap &b, unsigned tiles, unsigned barrier, int step, int first_row, int first_column) {
    barrier_expect(barrier, STAGE_BYTES);
    copy_box_to(0, tiles, a, step * BK, first_row, barrier);
    if (LAYOUT == TRANSPOSED) {
        copy_box_to(0, tiles + A_BYTES, b, step * BK, first_column, barrier);
    } else {
        for (int box = 0; box < BN / 64; box++) {
            copy_box_to(0, tiles + A_BYTES + box * BOX_BYTES, b, first_column + box * 64, step * BK, barrier);
        }
    }
}
// ANCHOR_END: copy

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const TensorMap &a, const TensorMap &b, typename Element::Value *c, int m, int n, int k, const Epilogue &epilogue) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), full = shared + BARRIERS, empty = full + STAGES * 8;
    int tiles = (n + BN - 1) / BN, steps = (k + BK - 1) / BK;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, CONSUMERS * 4);  // a warp each
        }
        fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready

    if (threadIdx.x < GROUP_THREADS) {
        give_registers_back<40>();
        if (threadIdx.x == 0) {
            for (int step = 0; step < steps; step++) {
                int stage = step % STAGES;
                barrier_wait(empty + stage * 8, step / STAGES % 2 ^ 1);  // at once the first time
                copy_step<LAYOUT>(a, b, shared + stage * STAGE_BYTES, full + stage * 8, step, first_row, first_column);
            }
        }
    } else {
        take_registers<232>();
        int consumer = threadIdx.x / GROUP_THREADS - 1;
        auto release = [&](int step) {
            if (threadIdx.x % 32 == 0) {
                barrier_arrive(empty + step % STAGES * 8);
            }
        };
        float sums[BN / 2] = {};
        for (int step = 0; step < steps; step++) {
            int stage = step % STAGES;
            unsigned a_tile = shared + stage * STAGE_BYTES, b_tile = a_tile + A_BYTES;
            barrier_wait(full + stage * 8, step / STAGES % 2);
            wgmma_fence();
            multiply<Element, LAYOUT>(sums, a_tile + consumer * 64 * ROW_BYTES, b_tile);
            wgmma_commit();
            if (step > 0) {
                wgmma_wait<1>();  // the products of the step before are complete
                release(step - 1);
            }
        }
        wgmma_wait<0>();
        finish_rows<Element>(epilogue, sums, c, first_row + consumer * 64, first_column, m, n);
    }
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_MAP_KERNEL, (THREADS, 1), gemm)
