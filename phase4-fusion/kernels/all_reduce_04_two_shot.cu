// Each device adds up one part of N for all, and then fetches the other parts from those that added them up: two hand-overs, for any
// number of devices.
//
//     part 0 of all ──▶ rank 0 ─┐         ┌──▶ rank 0
//     part 1 of all ──▶ rank 1 ─┼─ sums ──┼──▶ rank 1
//     part 2 of all ──▶ rank 2 ─┘         └──▶ rank 2
//
// Limit: three meetings of all devices by events, which small sums wait for.
// run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: two_shot
// A rank's part is vectors [begin, end).
extern "C" __global__ void reduce_scatter(const __grid_constant__ Peers<const uint4> values, uint4 *sums, unsigned long long begin,
                                          unsigned long long end, unsigned ranks) {
    auto from = [&](unsigned peer) { return values.at[peer]; };
    auto to = [&](unsigned long long i, uint4 sum) { sums[i] = sum; };
    sum_vectors<F32, 4>(begin, end, ranks, from, to);
}

// Parts have `part` vectors, the last ones may have fewer. Every rank begins with its right neighbour.
extern "C" __global__ void all_gather(const __grid_constant__ Peers<uint4> sums, unsigned long long vectors, unsigned long long part,
                                      unsigned rank, unsigned ranks) {
    uint4 *own = sums.at[rank];
    unsigned long long stride = gridDim.x * blockDim.x;
    for (unsigned k = 1; k < ranks; ++k) {
        unsigned peer = (rank + k) % ranks;
        unsigned long long end = (peer + 1) * part < vectors ? (peer + 1) * part : vectors;
        for (unsigned long long i = peer * part + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += stride) {
            own[i] = sums.at[peer][i];
        }
    }
}
// ANCHOR_END: two_shot
