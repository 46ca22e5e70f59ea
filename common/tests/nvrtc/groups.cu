// Cooperative groups. Launched with one block of 64 threads.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int *x, int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    int t = block.thread_rank(), n = block.size(), row = 0, v = x[t];
    auto put = [&](int value) { out[row++ * n + t] = value; };
    put(cg::reduce(warp, v, cg::plus<int>()));
    put(cg::reduce(tile, v, cg::greater<int>()));
    put(cg::reduce(tile, v, cg::bit_xor<int>()));
    put(tile.thread_rank() + 100 * tile.meta_group_rank());
    put(tile.shfl(v, 3));
    put(tile.shfl_up(v, 1));
    put(warp.shfl_xor(v, 9));
    put(tile.ballot(v > 40));
    put(tile.any(v > 80));
    put(tile.all(v > 5));
    put(warp.match_any(v / 25));
    put(cg::inclusive_scan(tile, v));
    put(cg::exclusive_scan(warp, v, cg::plus<int>()));
    block.sync();
}

extern "C" __global__ void coalesced(const int *x, int *out) {
    int t = threadIdx.x, n = blockDim.x, v = x[t];
    for (int row = 0; row < 3; row++) out[row * n + t] = -1;
    if (v & 1) {
        auto group = cg::coalesced_threads();
        out[t] = group.size();
        out[n + t] = group.thread_rank();
        out[2 * n + t] = group.shfl(v, 0);
    }
}

// memcpy_async of a whole tile, and of one that ends in the middle.
extern "C" __global__ void copies(const int4 *x, int4 *out) {
    __shared__ int4 tile[64];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, tile, x, sizeof(tile));
    cg::wait(block);
    out[threadIdx.x] = tile[63 - threadIdx.x];
    block.sync();
    cg::memcpy_async(block, tile, 64, x + 64, 40);
    cg::wait(block);
    if (threadIdx.x < 40) out[64 + threadIdx.x] = tile[39 - threadIdx.x];
}

#if __CUDA_ARCH__ >= 900
// Without a cluster dimension, a cluster is one block.
extern "C" __global__ void clusters(int *out) {
    auto cluster = cg::this_cluster();
    cluster.sync();
    out[threadIdx.x] = cluster.num_blocks() * 1000 + cluster.block_rank() * 100 + cluster.thread_rank();
}
#endif
