// For each tile of 512 keys: counts[digit][tile], how often a digit occurs, and ranks[i], how many keys before keys[i] in its tile have
// the digit of keys[i]. A digit is 6 bits, keys[i] >> shift & 63. The last tile may have fewer keys.
//
// Blocks have 128 threads, four warps. The grid has a block for each tile; a warp takes 128 neighbouring keys, 32 at a time.

extern "C" __global__ void rank_digits(const int *keys, int *counts, int *ranks, unsigned n, unsigned shift) {
    __shared__ unsigned counters[4][65];  // [warp][digit]; digit 64 is that of places behind the end
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned lanes_below = (1u << lane) - 1;
    for (unsigned digit = lane; digit < 65; digit += 32) {
        counters[warp][digit] = 0;
    }
    __syncwarp();  // the warp's counters are zero
    unsigned first = blockIdx.x * 512 + warp * 128 + lane;
    unsigned digits[4], rank[4];
    for (unsigned j = 0; j < 4; ++j) {
        unsigned i = first + 32 * j;
        digits[j] = i < n ? keys[i] >> shift & 63 : 64;
        // Your code: how many keys before this one has the warp seen with this digit? Then count this round's. No atomics: their order
        // is not that of the lanes.
        rank[j] = 0;
    }
    __syncthreads();  // all warps have counted
    if (threadIdx.x < 64) {
        unsigned sum = 0;
        // Your code: put into each warp's counter how many keys of earlier warps have digit threadIdx.x, and into `sum` those of all.
        counts[threadIdx.x * gridDim.x + blockIdx.x] = sum;
    }
    __syncthreads();  // counters[warp] says how many keys of earlier warps have a digit
    for (unsigned j = 0; j < 4; ++j) {
        unsigned i = first + 32 * j;
        if (i < n) {
            ranks[i] = counters[warp][digits[j]] + rank[j];
        }
    }
}
