// How often each byte occurs as the lowest one of a list's keys: four loads of 16 bytes are in flight before a thread counts the first
// of their keys.
//
//     round 0   | block 0 | block 1 | … | block B − 1 |       a block's round: THREADS · 4 vectors of 4 keys
//     round 1   | block 0 | block 1 | …
//
//     own[32 · byte + lane], as in histogram_03_copies.cu
//
// Limited by shared memory, which a key costs one pass for each warp, or by memory, whichever takes longer.
// run: histogram // trial: histogram

constexpr unsigned THREADS = 512;
constexpr unsigned BINS = 256;
constexpr unsigned COPIES = 32;
// Vectors of a thread in flight.
constexpr unsigned IN_FLIGHT = 4;
// The most blocks of a grid.
constexpr unsigned BLOCKS = 640;

// keys: [n] at a multiple of 16 bytes; counts: [BINS], 0 before the launch. Any number of blocks.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) histogram(const unsigned *keys, unsigned *counts, unsigned n) {
    __shared__ unsigned own[BINS * COPIES];
    for (unsigned i = threadIdx.x; i < BINS * COPIES; i += THREADS) {
        own[i] = 0;
    }
    __syncthreads();
    unsigned copy = threadIdx.x % COPIES;
    auto count = [&](unsigned key) { atomicAdd(&own[key % BINS * COPIES + copy], 1); };
    unsigned vectors = n / 4;
    for (unsigned first = blockIdx.x * (IN_FLIGHT * THREADS); first < vectors;
         first += gridDim.x * (IN_FLIGHT * THREADS)) {
        uint4 v[IN_FLIGHT];
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {  // all loads before the first count
            unsigned at = first + j * THREADS + threadIdx.x;
            v[j] = at < vectors ? reinterpret_cast<const uint4 *>(keys)[at] : uint4();
        }
#pragma unroll
        for (unsigned j = 0; j < IN_FLIGHT; j++) {
            if (first + j * THREADS + threadIdx.x < vectors) {
                count(v[j].x);
                count(v[j].y);
                count(v[j].z);
                count(v[j].w);
            }
        }
    }
    // The last n mod 4 keys.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        count(keys[4 * vectors + threadIdx.x]);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        unsigned sum = 0;
        for (unsigned j = 0; j < COPIES; j++) {
            sum += own[bin * COPIES + (copy + j) % COPIES];
        }
        if (sum != 0) {
            atomicAdd(&counts[bin], sum);
        }
    }
}
// ANCHOR_END: kernel
