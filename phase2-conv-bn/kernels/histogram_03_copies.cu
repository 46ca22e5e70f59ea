// How often each byte occurs as the lowest one of a list's keys: a block has 32 copies of its counters, one per lane, so that lanes of
// a warp never meet, whatever their keys are.
//
//               copy 0   copy 1         copy 31
//     byte 0      [0]      [1]    …      [31]       own[32 · byte + lane]: the copy of a lane is its bank
//     byte 1     [32]     [33]    …      [63]
//       …
//
//     at the end: thread b adds the 32 copies of byte b, and begins with its own bank, so that no bank is asked twice
//
// Limited by loads: every thread waits for its key before it asks for the next one (histogram_04_vectors.cu).
// run: histogram // trial: histogram

constexpr unsigned THREADS = 512;
constexpr unsigned BINS = 256;
// Copies of a block's counters; 32 KiB of them. On an SM with 164 KiB of shared memory or more registers leave room for three blocks.
constexpr unsigned COPIES = 32;
// The most blocks of a grid.
constexpr unsigned BLOCKS = 640;

// keys: [n]; counts: [BINS], 0 before the launch. Any number of blocks.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) histogram(const unsigned *keys, unsigned *counts, unsigned n) {
    __shared__ unsigned own[BINS * COPIES];
    for (unsigned i = threadIdx.x; i < BINS * COPIES; i += THREADS) {
        own[i] = 0;
    }
    __syncthreads();
    unsigned copy = threadIdx.x % COPIES;
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        atomicAdd(&own[keys[i] % BINS * COPIES + copy], 1);  // atomic still: 16 warps share a copy
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        unsigned count = 0;
        for (unsigned j = 0; j < COPIES; j++) {
            count += own[bin * COPIES + (copy + j) % COPIES];
        }
        if (count != 0) {
            atomicAdd(&counts[bin], count);
        }
    }
}
// ANCHOR_END: kernel
