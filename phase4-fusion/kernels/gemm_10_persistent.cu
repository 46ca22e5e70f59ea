// GEMM with a grid that stays: as many blocks as there is room for, each of which takes one tile of C after the other.
//
//     producer     tile 0 │ tile 1 │ tile 2 …        The ring does not run empty between tiles: while consumers store one, the
//     consumers         tile 0 ■ tile 1 ■ …          producer fetches the next. C goes to shared memory (■), from where the
//     stores                   tile 0   tile 1       copy engine stores it while the next tile is multiplied.
//
// The boxes of C take the room of a stage: three are left. `use` counts the steps of all tiles, so the ring goes on turning.
//
// Limited by L2: each block fetches all of its tiles for itself, though its neighbours fetch the same ones.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "boxes.cuh"

constexpr int BM = 128, BN = 256;  // rows and columns of C per block
constexpr int CONSUMERS = BM / 64;
constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS;
constexpr int STAGES = 3;          // tiles of each matrix in shared memory
constexpr int A_BYTES = BM * ROW_BYTES, STAGE_BYTES = A_BYTES + BN * ROW_BYTES;
constexpr int OUT = STAGES * STAGE_BYTES, OUT_BYTES = BN / 64 * BOX_BYTES;  // boxes of C, per consumer
constexpr int BARRIERS = OUT + CONSUMERS * OUT_BYTES, SHARED = BARRIERS + 2 * STAGES * 8;

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

// ANCHOR: store
// A consumer's 64 rows of C to its boxes, which the copy engine stores.
template <class Out>
__device__ inline void store_rows(const TensorMap &c, const Epilogue &epilogue, float (&sums)[BN / 2], unsigned boxes, int first_row,
                           int first_column, int m, int n) {
    int barrier = threadIdx.x / GROUP_THREADS, thread = threadIdx.x % GROUP_THREADS;
    if (thread == 0) {
        stores_read<0>();
    }
    sync_warps(barrier, GROUP_THREADS);  // the boxes are free
    finish<Out, true>(epilogue, sums, SumPlace(first_row + thread / 32 * 16, first_column), m, n);
#pragma unroll
    for (int box = 0; box < BN / 64; box++) {
        write_box<Out>(boxes + box * BOX_BYTES, sums + box * 32);
    }
    fence_async_proxy();
    sync_warps(barrier, GROUP_THREADS);  // the boxes are complete
    if (thread == 0) {
        for (int box = 0; box < BN / 64; box++) {
            store_box(c, first_column + box * 64, first_row, boxes + box * BOX_BYTES);
        }
        stores_commit();
    }
}
// ANCHOR_END: store

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const TensorMap &a, const TensorMap &b, const TensorMap &c, int m, int n, int k, const Epilogue &epilogue) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), full = shared + BARRIERS, empty = full + STAGES * 8;
    int across = (n + BN - 1) / BN, tiles = (m + BM - 1) / BM * across, steps = (k + BK - 1) / BK;
    launch_dependents();
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, CONSUMERS * 4);  // a warp each
        }
        fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
    wait_for_launches_before();

    unsigned use = 0;
    if (threadIdx.x < GROUP_THREADS) {
        give_registers_back<40>();
        for (int tile = blockIdx.x; threadIdx.x == 0 && tile < tiles; tile += gridDim.x) {
            int first_row = tile / across * BM, first_column = tile % across * BN;
            for (int step = 0; step < steps; step++, use++) {
                int stage = use % STAGES;
                barrier_wait(empty + stage * 8, use / STAGES % 2 ^ 1);  // at once the first time
                copy_step<LAYOUT>(a, b, shared + stage * STAGE_BYTES, full + stage * 8, step, first_row, first_column);
            }
        }
    } else {
        take_registers<232>();
        int consumer = threadIdx.x / GROUP_THREADS - 1;
        auto release = [&](unsigned use) {
            if (threadIdx.x % 32 == 0) {
                barrier_arrive(empty + use % STAGES * 8);
            }
        };
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            int first_row = tile / across * BM, first_column = tile % across * BN;
            float sums[BN / 2] = {};
            for (int step = 0; step < steps; step++, use++) {
                int stage = use % STAGES;
                unsigned a_tile = shared + stage * STAGE_BYTES, b_tile = a_tile + A_BYTES;
                barrier_wait(full + stage * 8, use / STAGES % 2);
                wgmma_fence();
                multiply<Element, LAYOUT>(sums, a_tile + consumer * 64 * ROW_BYTES, b_tile);
                wgmma_commit();
                if (step > 0) {
                    wgmma_wait<1>();  // the products of the step before are complete
                    release(use - 1);
                }
            }
            wgmma_wait<0>();
            release(use - 1);
            store_rows<Element>(c, epilogue, sums, shared + OUT + consumer * OUT_BYTES, first_row + consumer * 64, first_column, m, n);
        }
        if (threadIdx.x % GROUP_THREADS == 0) {
            stores_read<0>();  // shared memory lasts as long as the block
        }
    }
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_BOX_KERNEL, (THREADS, 1), gemm)
