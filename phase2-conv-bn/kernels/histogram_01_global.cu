// How often each byte occurs as the lowest one of a list's keys: every thread adds 1 to its key's counter in memory.
//
//     keys       7    3    7    255   7   …        a thread per key
//                 \    \   /     |   /
//     counts     … [3] [7] …  [255]                256 counters, which all threads of the grid share
//
// Limited by the counters: the L2 cache makes the additions to one address one after another, and the more often a byte occurs, the
// longer its queue.
// run: histogram // trial: histogram

constexpr unsigned THREADS = 512;
constexpr unsigned BINS = 256;

// keys: [n]; counts: [BINS], 0 before the launch. A thread per key.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) histogram(const unsigned *keys, unsigned *counts, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) {
        atomicAdd(&counts[keys[i] % BINS], 1);
    }
}
// ANCHOR_END: kernel
