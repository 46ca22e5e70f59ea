// GEMM by pairs of blocks, each of which takes the place of another when its tile is done (Blackwell: cta_group::2, clusterlaunchcontrol).
//
//     block 0   A: rows   0 … 127   B: columns   0 … 127     one product of 256 × 256 reads the tiles of both: a block fetches half of B
//     block 1   A: rows 128 … 255   B: columns 128 … 255
//
//     copies      tile 0 │ tile 1 │ tile 2 …         The grid has a pair for each tile. A pair that is at work asks for one that has not
//     products       tile 0 │ tile 1 │ tile 2 …      begun, and does its tile: so the ring never runs empty, and sums go to one half of
//     C                       tile 0 │ tile 1 …      tensor memory while those of the other half are stored.
//
// By the manual: no such GPU was there to compare with.
//
// Limited by L2, as step 11 is: a step of a pair is 64 KiB for 4 million multiplications, as much as a step of a cluster there.
// nvrtc: --gpu-architecture=compute_100a // run: blackwell // trial: gemm
#include "tensor_pairs.cuh"

constexpr int BM = 128, BN = 256;  // rows and columns of C per block
constexpr int CLUSTER = 2, PART = BN / CLUSTER;  // blocks of a pair, and columns of B in each
constexpr int STORING = 4;         // warps that store C: they reach all 128 lanes
constexpr int THREADS = (STORING + 2) * 32;
constexpr int STAGES = 6;          // tiles of each matrix in shared memory
constexpr int A_BYTES = BM * ROW_BYTES, STAGE_BYTES = A_BYTES + PART * ROW_BYTES;
constexpr int READERS = CLUSTER * (STORING + 1) + 1;  // of an answer: the copying thread and storing warps of both, the multiplying thread

// Barriers and answers in shared memory; sums and answers have two places each, used in turn.
constexpr int FULL = STAGES * STAGE_BYTES, EMPTY = FULL + STAGES * 8, DONE = EMPTY + STAGES * 8, STORED = DONE + 2 * 8;
constexpr int ANSWERED = STORED + 2 * 8, TAKEN = ANSWERED + 2 * 8, ANSWERS = TAKEN + 2 * 8, PLACE = ANSWERS + 2 * ANSWER_BYTES, SHARED = PLACE + 8;

// ANCHOR: copy
// Asks for this block's tile of A and part of B's; those of both arrive at `barrier` of the first.
template <Layout LAYOUT>
__device__ void copy_step(const TensorMap &a, const TensorMap &b, unsigned tiles, unsigned barrier, int step, int first_row, int first_column) {
    copy_box_for_pair(tiles, a, step * BK, first_row, barrier);
    if (LAYOUT == TRANSPOSED) {
        copy_box_for_pair(tiles + A_BYTES, b, step * BK, first_column, barrier);
    } else {
        for (int box = 0; box < PART / 64; box++) {
            copy_box_for_pair(tiles + A_BYTES + box * BOX_BYTES, b, first_column + box * 64, step * BK, barrier);
        }
    }
}
// ANCHOR_END: copy

// D = A · B + D of one step, or of the first one without D.
template <class Element, Layout LAYOUT>
__device__ void multiply_step(unsigned d, unsigned a_tile, unsigned b_tile, bool add) {
    constexpr int A_STEP = 16 * 2, B_STEP = LAYOUT == TRANSPOSED ? A_STEP : 16 * ROW_BYTES;  // bytes for 16 values of i
    unsigned long long a = descriptor(a_tile, 16, 1024), b = descriptor(b_tile, LAYOUT == TRANSPOSED ? 16 : BOX_BYTES, 1024);
    for (int i = 0; i < BK / 16; i++) {
        tensor_product_of_pair(d, a + (i * A_STEP >> 4), b + (i * B_STEP >> 4), INSTRUCTION<Element, LAYOUT, CLUSTER * BM, BN>, add || i > 0);
    }
}

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const TensorMap &a, const TensorMap &b, typename Element::Value *c, int m, int n, int k, const Epilogue &epilogue) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), rank = cluster_rank();
    int across = (n + BN - 1) / BN, steps = (k + BK - 1) / BK, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(shared + FULL + stage * 8, 1);
            barrier_init(shared + EMPTY + stage * 8, 1);
        }
        for (int place = 0; place < 2; place++) {
            barrier_init(shared + DONE + place * 8, 1);
            barrier_init(shared + STORED + place * 8, CLUSTER * STORING);
            barrier_init(shared + ANSWERED + place * 8, 1);
            barrier_init(shared + TAKEN + place * 8, READERS);
        }
        fence_barrier_init();
    } else if (warp == 1) {
        take_columns_of_pair(shared + PLACE, 2 * BN);
    }
    tensor_fence_before();
    cluster_sync();  // the barriers of both blocks are ready, and the sums have a place
    tensor_fence_after();
    unsigned sums = *reinterpret_cast<unsigned *>(memory + PLACE);

    // Place `round % 2` and its parity; a pair's tile after the one of that round.
    auto place = [&](int barriers, unsigned round) { return shared + barriers + round % 2 * 8; };
    auto next = [&](unsigned round) {
        barrier_wait(place(ANSWERED, round), round / 2 % 2);
        int block = first_block(shared + ANSWERS + round % 2 * ANSWER_BYTES);
        return block < 0 ? -1 : block / CLUSTER;
    };
    int tile = blockIdx.x / CLUSTER;
    unsigned use = 0;
    if (warp == STORING && lane == 0) {
        for (unsigned round = 0; tile >= 0; round++) {
            barrier_expect(place(ANSWERED, round), ANSWER_BYTES);
            if (rank == 0) {
                barrier_wait(place(TAKEN, round), round / 2 % 2 ^ 1);  // at once the first two times
                fence_async_proxy();
                ask_for_cluster(shared + ANSWERS + round % 2 * ANSWER_BYTES, place(ANSWERED, round));
            }
            int first_row = (tile / across * CLUSTER + rank) * BM, first_column = tile % across * BN + rank * PART;
            for (int step = 0; step < steps; step++, use++) {
                int stage = use % STAGES;
                barrier_wait(shared + EMPTY + stage * 8, use / STAGES % 2 ^ 1);
                if (rank == 0) {
                    barrier_expect(shared + FULL + stage * 8, CLUSTER * STAGE_BYTES);
                }
                copy_step<LAYOUT>(a, b, shared + stage * STAGE_BYTES, shared + FULL + stage * 8, step, first_row, first_column);
            }
            tile = next(round);
            barrier_arrive_at(place(TAKEN, round), 0);
        }
    } else if (warp == STORING + 1 && lane == 0 && rank == 0) {
        for (unsigned round = 0; tile >= 0; round++) {
            barrier_wait(place(STORED, round), round / 2 % 2 ^ 1);
            tensor_fence_after();
            for (int step = 0; step < steps; step++, use++) {
                unsigned stage = use % STAGES, a_tile = shared + stage * STAGE_BYTES;
                barrier_wait(shared + FULL + stage * 8, use / STAGES % 2);
                multiply_step<Element, LAYOUT>(sums + round % 2 * BN, a_tile, a_tile + A_BYTES, step > 0);
                tensor_commit_to_pair(shared + EMPTY + stage * 8);
            }
            tensor_commit_to_pair(place(DONE, round));
            tile = next(round);
            barrier_arrive_at(place(TAKEN, round), 0);
        }
    } else if (warp < STORING) {
        auto arrive = [&](unsigned barrier) {  // for the warp
            __syncwarp();
            if (lane == 0) {
                barrier_arrive_at(barrier, 0);
            }
        };
        for (unsigned round = 0; tile >= 0; round++) {
            int first_row = (tile / across * CLUSTER + rank) * BM, first_column = tile % across * BN;
            tile = next(round);
            arrive(place(TAKEN, round));
            barrier_wait(place(DONE, round), round / 2 % 2);
            __syncwarp();  // lanes leave the wait one by one, and a whole warp loads
            tensor_fence_after();
            for (int row = warp * 32; row < warp * 32 + 32; row += 16) {
                for (int column = 0; column < BN; column += 64) {
                    float values[32];
                    load_sums(values, sums + (row << 16) + round % 2 * BN + column);
                    SumPlace at(first_row + row, first_column + column);
                    finish<Element>(epilogue, values, at, m, n);
                    write<Element>(c, values, at, m, n);
                }
            }
            tensor_fence_before();
            arrive(place(STORED, round));
        }
    }
    __syncwarp();
    tensor_fence_before();
    cluster_sync();  // both blocks have loaded their sums, and neither leaves while the other may arrive at its barriers
    if (warp == 1) {
        give_columns_of_pair_back(sums, 2 * BN);
    }
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_MAP_KERNEL, (THREADS, 1) __cluster_dims__(CLUSTER), gemm)
