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

// A histogram whose bins are spread over the shared memory of four blocks; then each thread reads a bin of the next block.
extern "C" __global__ void __cluster_dims__(4, 1, 1) histogram_of_clusters(const int *x, int *out) {
    __shared__ int bins[16];
    auto cluster = cg::this_cluster();
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    cluster.sync();
    int bin = x[blockIdx.x * blockDim.x + threadIdx.x] & 63;
    atomicAdd(cluster.map_shared_rank(bins, bin / 16) + bin % 16, 1);
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    int *theirs = cluster.map_shared_rank(bins, next);
    out[blockIdx.x * blockDim.x + threadIdx.x] = theirs[threadIdx.x % 16] + 1000 * cluster.query_shared_rank(theirs)
        + 10000 * cluster.block_index().x + 100000 * cluster.dim_blocks().x;
    auto token = cluster.barrier_arrive();
    cluster.barrier_wait(std::move(token));
}
#endif
