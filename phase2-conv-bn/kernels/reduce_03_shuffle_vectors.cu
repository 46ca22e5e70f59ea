// The sum of a list: a grid as large as the GPU strides through it, with four 16-byte loads of a thread in flight; lanes add by
// shuffles, and a block needs one barrier for all of its share.
//
//     round 0   | block 0 | block 1 | … | block B − 1 |       a block's round: THREADS · 4 vectors of 4 values
//     round 1   | block 0 | block 1 | …
//        …                                                     then: thread → warp → block → one atomic
//
// Limited by memory.
// run: reduction // trial: reduction

constexpr unsigned THREADS = 256;
constexpr unsigned WARPS = THREADS / 32;
// Vectors of a thread in flight, and the values in them.
constexpr unsigned IN_FLIGHT = 4;
constexpr unsigned PER_THREAD = 4 * IN_FLIGHT;
// The most blocks of a grid: eight of 256 threads fill an SM, and no GPU has more than 160 SMs.
constexpr unsigned BLOCKS = 1280;

// ANCHOR: warp
// In lane 0: the sum over all lanes. All 32 take part.
__device__ unsigned across_warp(unsigned sum) {
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    return sum;
}
// ANCHOR_END: warp

// x: [n] at a multiple of 16 bytes; sum: one value, 0 before the launch. Any number of blocks.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) reduce(const unsigned *x, unsigned *sum, unsigned n) {
    __shared__ unsigned of_warps[WARPS];
    unsigned vectors = n / 4;
    unsigned total = 0;
    // `first` may pass 2³² only after 2³¹ values: it counts vectors.
    for (unsigned first = blockIdx.x * (IN_FLIGHT * THREADS); first < vectors;
         first += gridDim.x * (IN_FLIGHT * THREADS)) {
        uint4 v[IN_FLIGHT];
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {  // all loads before the first addition
            unsigned at = first + j * THREADS + threadIdx.x;
            v[j] = at < vectors ? reinterpret_cast<const uint4 *>(x)[at] : uint4();
        }
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {
            total += v[j].x + v[j].y + v[j].z + v[j].w;
        }
    }
    // The last n mod 4 values.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        total += x[4 * vectors + threadIdx.x];
    }

    total = across_warp(total);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = total;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        total = across_warp(threadIdx.x < WARPS ? of_warps[threadIdx.x] : 0);
        if (threadIdx.x == 0) {
            atomicAdd(sum, total);
        }
    }
}
// ANCHOR_END: kernel
