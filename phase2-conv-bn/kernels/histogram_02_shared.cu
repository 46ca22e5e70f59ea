// How often each byte occurs as the lowest one of a list's keys: each block counts its share in shared memory, and adds its 256 counts
// to those in memory once.
//
//     block 0   keys ──→ own[256] ──┐
//     block 1   keys ──→ own[256] ──┼──→ counts[256]        one addition per block and byte
//        …                          │
//     block B   keys ──→ own[256] ──┘
//
// Limited by loads: every thread waits for its key before it asks for the next one. Lanes of a warp whose keys end in the same byte add
// to the same word of shared memory; on an H200 that costs skewed keys no more time than random ones.
// run: histogram // trial: histogram

constexpr unsigned THREADS = 512;
constexpr unsigned BINS = 256;
// The most blocks of a grid: four of 512 threads fill an SM, and no GPU has more than 160 SMs.
constexpr unsigned BLOCKS = 640;

// keys: [n]; counts: [BINS], 0 before the launch. Any number of blocks.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) histogram(const unsigned *keys, unsigned *counts, unsigned n) {
    __shared__ unsigned own[BINS];
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        own[bin] = 0;
    }
    __syncthreads();
    // `i` ends below n + 2²⁰: it can't pass 2³².
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        atomicAdd(&own[keys[i] % BINS], 1);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        if (own[bin] != 0) {
            atomicAdd(&counts[bin], own[bin]);
        }
    }
}
// ANCHOR_END: kernel
