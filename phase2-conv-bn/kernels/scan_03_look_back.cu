// Inclusive sums of a list in one pass: a tile publishes its total as soon as it knows it, and looks back over those of the tiles before
// it until it finds one whose sum from the list's beginning is known (Merrill and Garland, 2016).
//
//     tile      0     1     2     3     4     5
//     state   [Σ₀₋₀][ t₁ ][Σ₀₋₂][ t₃ ][ t₄ ]  ?          t: total of the tile alone; Σ: of all up to it
//                            ↑     ↑     ↑
//                            '-----'-----'--- tile 5 adds t₄ + t₃ + Σ₀₋₂, then publishes Σ₀₋₅
//
// A state is one 64-bit word, the kind in its upper half and the sum in its lower: whoever sees the kind sees the sum, and no fence is
// needed. Tiles are numbered in the order in which blocks begin: all that a tile waits for is at work already.
//
// Limited by memory: each value is read once and written once.
// run: scan // trial: scan

#include "scan.cuh"

// What a state tells. Before the launch all are NOTHING.
enum Kind : unsigned { NOTHING = 0, OF_TILE = 1, OF_ALL = 2 };

// ANCHOR: states
// Relaxed: the word orders nothing but itself, which is all that it carries. Not plain: the compiler would be free to load it once.
__device__ inline void publish(unsigned long long *state, Kind kind, unsigned sum) {
    unsigned long long word = static_cast<unsigned long long>(kind) << 32 | sum;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(state), "l"(word) : "memory");
}

__device__ inline unsigned long long look_at(const unsigned long long *state) {
    unsigned long long word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(state) : "memory");
    return word;
}
// ANCHOR_END: states

// ANCHOR: look-back
// The sum of all tiles before `tile`, which is not 0: 32 of them at a time, the nearest in lane 0. A warp.
__device__ inline unsigned look_back(const unsigned long long *states, unsigned tile) {
    unsigned lane = threadIdx.x % 32;
    unsigned before = 0;
    for (unsigned end = tile;; end -= 32) {
        // Lanes before the list's beginning find a sum of nothing, from the beginning.
        unsigned long long word = static_cast<unsigned long long>(OF_ALL) << 32;
        bool waits;
        do {
            if (lane < end) {
                word = look_at(states + (end - 1 - lane));
            }
            waits = word >> 32 == NOTHING;
        } while (__any_sync(0xffffffff, waits));
        // What lies behind the nearest sum from the beginning is in that sum.
        unsigned complete = __ballot_sync(0xffffffff, word >> 32 == OF_ALL);
        unsigned last = complete != 0 ? __ffs(complete) - 1 : 31;
        unsigned sum = lane <= last ? static_cast<unsigned>(word) : 0;
        for (unsigned offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, offset);
        }
        before += sum;
        if (complete != 0) {
            return before;
        }
    }
}
// ANCHOR_END: look-back

// x, y: [n]; ticket: the number of the next tile, then a state per tile, all 0 before the launch. A block per tile.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const unsigned *x, unsigned *y, unsigned long long *ticket, unsigned n) {
    __shared__ unsigned of_warps[WARPS];
    __shared__ unsigned shared_tile, shared_before;
    unsigned long long *states = ticket + 1;
    if (threadIdx.x == 0) {
        shared_tile = atomicAdd(ticket, 1);
    }
    __syncthreads();
    unsigned tile = shared_tile;

    Values values = load(x, tile, n);
    unsigned total, own = scan_warp(values);
    unsigned before = before_warp(own, of_warps, total);
    if (threadIdx.x < 32) {
        unsigned of_tiles = 0;
        if (tile > 0) {
            if (threadIdx.x == 0) {
                publish(states + tile, OF_TILE, total);
            }
            of_tiles = look_back(states, tile);
        }
        if (threadIdx.x == 0) {
            publish(states + tile, OF_ALL, of_tiles + total);
            shared_before = of_tiles;
        }
    }
    __syncthreads();
    store(y, tile, n, values, before + shared_before);
}
// ANCHOR_END: kernel
