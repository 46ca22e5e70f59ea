// What CUDA's own headers make of barriers wider than a warp and other than a block: `cooperative.ptx` is this file,
// compiled by `compile.py`.
#include <cooperative_groups.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;

// Each round, every block adds what its neighbour had in the round before: only grid.sync() keeps rounds apart.
extern "C" __global__ void grid_rounds(unsigned *data, unsigned rounds) {
    cg::grid_group grid = cg::this_grid();
    unsigned n = gridDim.x;
    for (unsigned round = 0; round < rounds; ++round) {
        unsigned neighbour = data[(blockIdx.x + 1) % n * blockDim.x + threadIdx.x];
        grid.sync();
        data[blockIdx.x * blockDim.x + threadIdx.x] += neighbour;
        grid.sync();
    }
}

// Tiles of 64 threads, whose barriers stand in reserved shared memory.
extern "C" __global__ void wide_tiles(unsigned *out) {
    __shared__ cg::block_tile_memory<128> memory;
    cg::thread_block block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block);
    __shared__ unsigned values[128];
    values[threadIdx.x] = threadIdx.x * 3;
    tile.sync();
    unsigned first = threadIdx.x / 64 * 64;
    out[threadIdx.x] = values[first + (threadIdx.x + 40) % 64] + tile.meta_group_rank() * 1000;
}

// Tiles of the input come by cp.async, whose completion a cuda::barrier waits for.
extern "C" __global__ void staged_sum(const unsigned *in, unsigned *out, unsigned tiles) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) unsigned tile[64];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier ready;
    if (threadIdx.x == 0) {
        init(&ready, blockDim.x);
    }
    __syncthreads();
    unsigned sum = 0;
    for (unsigned k = 0; k < tiles; ++k) {
        cuda::memcpy_async(tile + threadIdx.x, in + k * 64 + threadIdx.x, cuda::aligned_size_t<4>(4), ready);
        ready.arrive_and_wait();
        sum += tile[(threadIdx.x + 33) % 64];
        ready.arrive_and_wait();
    }
    out[threadIdx.x] = sum;
}
