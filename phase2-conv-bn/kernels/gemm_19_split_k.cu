// GEMM whose blocks have equal work whatever the shape: the steps of all tiles, one after the other, are dealt out evenly, and
// where a tile's steps went to several blocks, the last of them to finish adds up their parts.
//
//     steps    tile 0 ────────┤ tile 1 ────────┤ tile 2 ────────┤       a block's steps may begin and end inside a
//     blocks   0 ────────┤ 1 ────────┤ 2 ────────┤ 3 ───────────┤       tile: it has at most two parts to hand over
//
// A part goes to memory; a counter for each tile tells its last block that all are there. It adds them in their order along
// K, so that the result does not depend on who came last. No block waits for another.
//
// Limited by the arithmetic units for large products; for small ones by the latency of a step, and of handing over.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "gemm_tile.cuh"

// ANCHOR: kernel
template <class Tile>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue, float *parts, unsigned *arrived) {
    extern __shared__ float4 shared[];
    constexpr int PART = Tile::BM * Tile::BN / 4;  // in fours
    int tiles = (m + Tile::BM - 1) / Tile::BM * ((n + Tile::BN - 1) / Tile::BN);
    int steps = steps_along<Tile>(k);
    long long all = (long long)tiles * steps, blocks = gridDim.x;
    auto block_of = [&](long long step) { return (int)(((step + 1) * blocks - 1) / all); };

    long long now = blockIdx.x * all / blocks, end = (blockIdx.x + 1) * all / blocks;
    while (now < end) {
        int at = now / steps, first = now % steps, count = min((long long)(steps - first), end - now);
        now += count;
        int first_row, first_column;
        place_of_tile<Tile>(at, m, n, first_row, first_column);
        Tile tile;
        tile.multiply(reinterpret_cast<float *>(shared), a, b, m, n, k, first_row, first_column, first, count);
        if (count == steps) {
            tile.finish(reinterpret_cast<float *>(shared), epilogue, bias, c, m, n, first_row, first_column);
            continue;
        }

        // A block has one part that begins a tile at most, and one that does not.
        auto part_of = [&](int block, bool begins) { return reinterpret_cast<float4 *>(parts) + (2 * (long long)block + begins) * PART; };
        float4 *mine = part_of(blockIdx.x, first == 0);
#pragma unroll
        for (int g = 0; g < Tile::GROUPS; g++) {
            mine[g * Tile::THREADS + threadIdx.x] = tile.four(g);
        }
        __threadfence();  // this thread's sums, before the news of them
        __syncthreads();
        int from = block_of((long long)at * steps), to = block_of((long long)at * steps + steps - 1);
        unsigned *before = reinterpret_cast<unsigned *>(shared);
        if (threadIdx.x == 0) {
            *before = atomicAdd(&arrived[at], 1u);
        }
        __syncthreads();
        bool last = *before == (unsigned)(to - from);
        __syncthreads();  // `before` has been read, and shared memory may be used again
        if (!last) {
            continue;
        }
        __threadfence();  // the news of the others' sums, before the sums
        if (threadIdx.x == 0) {
            arrived[at] = 0;  // for the next launch
        }
        float4 sums[Tile::GROUPS] = {};
#pragma unroll 4  // enough loads on their way at a time to hide that each takes long
        for (int block = from; block <= to; block++) {
            const float4 *theirs = part_of(block, block == from);
#pragma unroll
            for (int g = 0; g < Tile::GROUPS; g++) {
                float4 part = theirs[g * Tile::THREADS + threadIdx.x];
                sums[g] = make_float4(sums[g].x + part.x, sums[g].y + part.y, sums[g].z + part.z, sums[g].w + part.w);
            }
        }
#pragma unroll
        for (int g = 0; g < Tile::GROUPS; g++) {
            tile.finish_group(g, sums[g], epilogue, bias, c, m, n, first_row, first_column);
        }
    }
}
// ANCHOR_END: kernel

struct Square {
    static constexpr int BM = 64, BN = 64;  // rows and columns of C per block
    static constexpr int BK = 16;           // values of i per step
    static constexpr int WM = 32, WN = 32;  // rows and columns of C per warp
    static constexpr int SLICES = 1, STAGES = 4;
};

// As GEMM_KERNEL, with a workspace: parts for each block, and a counter for each tile, zero. Without
// the bound of 3 blocks the compiler spills registers of one of these kernels.
#define SPLIT_KERNEL(name, ...)                                                                                       \
    extern "C" __global__ void __launch_bounds__(Geometry<Square>::THREADS, 3)                                         \
        name(const float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ bias,                \
             float *__restrict__ c, int m, int n, int k, Epilogue epilogue, float *parts, unsigned *arrived) {        \
        gemm<__VA_ARGS__>(a, b, bias, c, m, n, k, epilogue, parts, arrived);                                          \
    }
SPLIT_KERNEL(gemm_nn_64x64, Tile<Square, ROW_MAJOR, true>)
SPLIT_KERNEL(gemm_nt_64x64, Tile<Square, TRANSPOSED, true>)
SPLIT_KERNEL(gemm_nn_64x64_any, Tile<Square, ROW_MAJOR, false>)
SPLIT_KERNEL(gemm_nt_64x64_any, Tile<Square, TRANSPOSED, false>)
