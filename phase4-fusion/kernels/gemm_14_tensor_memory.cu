// GEMM with tensor memory (Blackwell, tcgen05): the sums are in no thread's registers, so one thread asks for all products of a block.
//
//     thread 0      copy 0 │ copy 1 │ copy 2 │ … waits for `empty` …              `full` counts a stage's bytes, `empty` tells that the
//     thread 32     … waits for `full` … ask for product 0 │ product 1 │ … done   products that read a stage are complete
//     all of them   … wait for `done` … 16 rows × 64 columns to registers │ to C │ …
//
// By the manual: no such GPU was there to compare with.
//
// Limited, by the counts, by its ends as step 9 is: an empty ring at first, and tensor cores that rest while C is stored.
// nvrtc: --gpu-architecture=compute_100a // run: blackwell // trial: gemm
#include "tensor_memory.cuh"

constexpr int BM = 128, BN = 256;  // rows and columns of C per block: lanes and columns of tensor memory
constexpr int THREADS = 128;       // four warps reach all 128 lanes
constexpr int STAGES = 4;          // tiles of each matrix in shared memory
constexpr int A_BYTES = BM * ROW_BYTES, STAGE_BYTES = A_BYTES + BN * ROW_BYTES;
constexpr int BARRIERS = STAGES * STAGE_BYTES, DONE = BARRIERS + 2 * STAGES * 8, PLACE = DONE + 8, SHARED = PLACE + 8;

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

// ANCHOR: step
// D = A · B + D of one step, or of the first one without D.
template <class Element, Layout LAYOUT>
__device__ void multiply_step(unsigned d, unsigned a_tile, unsigned b_tile, bool add) {
    constexpr int A_STEP = 16 * 2, B_STEP = LAYOUT == TRANSPOSED ? A_STEP : 16 * ROW_BYTES;  // bytes for 16 values of i
    unsigned long long a = descriptor(a_tile, 16, 1024), b = descriptor(b_tile, LAYOUT == TRANSPOSED ? 16 : BOX_BYTES, 1024);
    for (int i = 0; i < BK / 16; i++) {
        tensor_product(d, a + (i * A_STEP >> 4), b + (i * B_STEP >> 4), INSTRUCTION<Element, LAYOUT, BM, BN>, add || i > 0);
    }
}
// ANCHOR_END: step

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const TensorMap &a, const TensorMap &b, typename Element::Value *c, int m, int n, int k, const Epilogue &epilogue) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), full = shared + BARRIERS, empty = full + STAGES * 8, done = shared + DONE;
    int tiles = (n + BN - 1) / BN, steps = (k + BK - 1) / BK, warp = threadIdx.x / 32;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, 1);
        }
        barrier_init(done, 1);
        fence_barrier_init();
    } else if (warp == 1) {
        take_columns(shared + PLACE, BN);
    }
    tensor_fence_before();
    __syncthreads();  // the barriers are ready, and the sums have a place
    tensor_fence_after();
    unsigned d = *reinterpret_cast<unsigned *>(memory + PLACE);

    if (threadIdx.x == 0) {
        for (int step = 0; step < steps; step++) {
            int stage = step % STAGES;
            barrier_wait(empty + stage * 8, step / STAGES % 2 ^ 1);  // at once the first time
            copy_step<LAYOUT>(a, b, shared + stage * STAGE_BYTES, full + stage * 8, step, first_row, first_column);
        }
    } else if (threadIdx.x == 32) {
        for (int step = 0; step < steps; step++) {
            unsigned stage = step % STAGES, a_tile = shared + stage * STAGE_BYTES;
            barrier_wait(full + stage * 8, step / STAGES % 2);
            multiply_step<Element, LAYOUT>(d, a_tile, a_tile + A_BYTES, step > 0);
            tensor_commit(empty + stage * 8);  // the stage is free once they are complete
        }
        tensor_commit(done);
    }
    __syncwarp();

    barrier_wait(done, 0);
    __syncwarp();  // lanes leave the wait one by one, and a whole warp loads
    tensor_fence_after();
    for (int row = warp * 32; row < warp * 32 + 32; row += 16) {
        for (int column = 0; column < BN; column += 64) {
            float sums[32];
            load_sums(sums, d + (row << 16) + column);
            SumPlace place(first_row + row, first_column + column);
            finish<Element>(epilogue, sums, place, m, n);
            write<Element>(c, sums, place, m, n);
        }
    }
    tensor_fence_before();
    __syncthreads();  // all warps have loaded their sums
    if (warp == 1) {
        give_columns_back(d, BN);
    }
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_MAP_KERNEL, (THREADS), gemm)
