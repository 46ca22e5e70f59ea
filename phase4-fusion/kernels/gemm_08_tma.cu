// GEMM with tiles that the copy engine fetches: one thread asks for a whole box, which arrives swizzled and with zeros beyond the edges,
// and a barrier in shared memory counts its bytes.
//
//     step       0 1 2 3 4 5      Four stages. All threads wait for a stage's barrier, multiply, and meet; then thread 0 asks for
//     copy     2 3 4 5 6 7        the tiles that come there next. The barrier's phases alternate, so one bit says which of a stage's
//     multiply   0 1 2 3 4 5      uses is meant.
//
// Limited by that meeting: the tensor cores have nothing to do from the end of one step's products to the beginning of the next one's.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "swizzled.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int THREADS = BM / 64 * GROUP_THREADS;
constexpr int STAGES = 4;          // tiles of each matrix in shared memory
constexpr int A_BYTES = BM * ROW_BYTES, STAGE_BYTES = A_BYTES + BN * ROW_BYTES;
constexpr int BARRIERS = STAGES * STAGE_BYTES, SHARED = BARRIERS + STAGES * 8;

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
    unsigned shared = shared_address(memory), barriers = shared + BARRIERS;
    int tiles = (n + BN - 1) / BN, group = threadIdx.x / GROUP_THREADS, steps = (k + BK - 1) / BK;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;
    auto copy = [&](int step) {
        int stage = step % STAGES;
        copy_step<LAYOUT>(a, b, shared + stage * STAGE_BYTES, barriers + stage * 8, step, first_row, first_column);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(barriers + stage * 8, 1);
        }
        fence_barrier_init();
        for (int step = 0; step < STAGES && step < steps; step++) {
            copy(step);
        }
    }
    __syncthreads();  // the barriers are ready

    float sums[BN / 2] = {};
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES;
        unsigned a_tile = shared + stage * STAGE_BYTES, b_tile = a_tile + A_BYTES;
        barrier_wait(barriers + stage * 8, step / STAGES % 2);
        wgmma_fence();
        multiply<Element, LAYOUT>(sums, a_tile + group * 64 * ROW_BYTES, b_tile);
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads();  // both groups are done with this stage
        if (threadIdx.x == 0 && step + STAGES < steps) {
            copy(step + STAGES);
        }
    }
    finish_rows<Element>(epilogue, sums, c, first_row + group * 64, first_column, m, n);
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_MAP_KERNEL, (THREADS), gemm)
