// Each device talks to its neighbour only: N − 1 times it adds its own values to a part that the left one has come to, each time another
// part; then the finished parts go round the same way, as plain copies.
//
//     rank 0 ──▶ rank 1 ──▶ rank 2 ─┐      part 0: values of rank 0 + rank 1 + rank 2, finished at rank 2
//       ▲───────────────────────────┘      part 1: of rank 1 + rank 2 + rank 0, finished at rank 0 …
//
// Limit: 2(N − 1) hand-overs one after the other, each of which takes events and a launch.
// run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: ring
// Vectors [begin, end) of all three.
extern "C" __global__ void add_received(const uint4 *received, const uint4 *own, uint4 *sums, unsigned long long begin,
                                        unsigned long long end) {
    unsigned long long stride = gridDim.x * blockDim.x;
    for (unsigned long long i = begin + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += stride) {
        Vector<F32> sum;
        sum.add(received[i]);
        sum.add(own[i]);
        sums[i] = sum.bytes();
    }
}
// ANCHOR_END: ring
