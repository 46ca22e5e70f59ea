// The k largest of n keys, without sorting: digit by digit from the highest, find the digit that the k-th largest key has.
//
//     how many keys have digit …   255  254  253  252  …      k = 10
//                                    3    4    6    9          3 + 4 < 10 ≤ 3 + 4 + 6: it has 253, and is the third largest
//                                    ─────    ───              of the six that have it
//     then only those six are counted by their next digit, until all four digits are known
//
// After four counts the k-th largest key is known, and how many keys that equal it belong to the result: the first ones of them in the
// list. A last pass stores the results in the order of the list.
//
// Limited by reading: the keys are read six times.
// run: top-k // trial: top-k

constexpr unsigned BITS = 8;
constexpr unsigned THREADS = 256;
constexpr unsigned DIGITS = 1u << BITS;
// Keys of a tile in the last two passes, of which a warp takes 32 neighbouring ones at a time.
constexpr unsigned TILE = 4096;
// The most blocks of a grid that counts.
constexpr unsigned BLOCKS = 1280;
static_assert(DIGITS == THREADS, "a thread per digit");

#include "radix_scan.cuh"

// What is known of the k-th largest key.
struct Known {
    unsigned prefix;  // its digits so far, and 0 below
    unsigned rank;    // it is this one of the keys with this prefix, from the largest and 1
};

// ANCHOR: count
// Adds to counts[DIGITS] how often each digit occurs among the keys with the prefix known. digits: how many are known. Any number of
// blocks.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_candidates(const unsigned *keys, const Known *known, unsigned *counts, unsigned n, unsigned digits) {
    __shared__ unsigned own[DIGITS];
    own[threadIdx.x] = 0;
    __syncthreads();
    unsigned shift = 32 - BITS * (digits + 1);
    unsigned prefix = known->prefix;
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        unsigned key = keys[i];
        // A shift by 32, before any digit is known, would be undefined: two shifts by less.
        if (((key ^ prefix) >> shift >> (BITS - 1) >> 1) == 0) {
            atomicAdd(&own[key >> shift & (DIGITS - 1)], 1);
        }
    }
    __syncthreads();
    if (own[threadIdx.x] != 0) {
        atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
    }
}
// ANCHOR_END: count

// Finds the next digit from the counts, and sets them to 0 again. One block.
// ANCHOR: choose
extern "C" __global__ void __launch_bounds__(THREADS) choose_digit(unsigned *counts, Known *known, unsigned digits) {
    unsigned digit = DIGITS - 1 - threadIdx.x;  // the largest first
    unsigned count = counts[digit], rank = known->rank, all;
    unsigned larger = exclusive(count, all);  // with barriers in it: all have read `rank`
    counts[digit] = 0;
    if (larger < rank && rank <= larger + count) {  // one thread alone
        known->prefix |= digit << (32 - BITS * (digits + 1));
        known->rank = rank - larger;
    }
}
// ANCHOR_END: choose

// counts: [2, tiles]: how many keys of a tile are larger than the k-th, and how many equal it. A block per tile.
// ANCHOR: winners
extern "C" __global__ void __launch_bounds__(THREADS)
    count_winners(const unsigned *keys, const Known *known, unsigned *counts, unsigned n) {
    __shared__ unsigned own[2];
    if (threadIdx.x < 2) {
        own[threadIdx.x] = 0;
    }
    __syncthreads();
    unsigned last = known->prefix, larger = 0, equal = 0;
    unsigned end = min(n, (blockIdx.x + 1) * TILE);
    for (unsigned i = blockIdx.x * TILE + threadIdx.x; i < end; i += THREADS) {
        unsigned key = keys[i];
        larger += key > last;
        equal += key == last;
    }
    atomicAdd(&own[0], larger);
    atomicAdd(&own[1], equal);
    __syncthreads();
    if (threadIdx.x < 2) {
        counts[threadIdx.x * gridDim.x + blockIdx.x] = own[threadIdx.x];
    }
}
// ANCHOR_END: winners

// counts: as `scan_rows` leaves those of `count_winners`. largest and indices: [k], written once each: the k largest keys and where they
// stand in the list, in its order. A block per tile.
// ANCHOR: collect
extern "C" __global__ void __launch_bounds__(THREADS)
    collect(const unsigned *keys, const Known *known, const unsigned *counts, unsigned *largest, unsigned *indices, unsigned n) {
    unsigned last = known->prefix, wanted = known->rank;  // of the keys that equal the k-th, the first `wanted`
    unsigned larger_before = counts[blockIdx.x], equal_before = counts[gridDim.x + blockIdx.x];
    unsigned end = min(n, (blockIdx.x + 1) * TILE);
    for (unsigned first = blockIdx.x * TILE; first < end; first += THREADS) {  // the same rounds for all threads
        unsigned i = first + threadIdx.x;
        unsigned key = i < end ? keys[i] : 0;
        bool larger = i < end && key > last, equal = i < end && key == last;
        // Both sums at once: there are at most 256 of each in a round.
        unsigned all, before = exclusive(larger | equal << 16, all);
        unsigned equals = equal_before + (before >> 16);
        if (larger || (equal && equals < wanted)) {
            unsigned to = larger_before + (before & 0xffff) + min(equals, wanted);
            largest[to] = key;
            indices[to] = i;
        }
        larger_before += all & 0xffff;
        equal_before += all >> 16;
    }
}
// ANCHOR_END: collect
