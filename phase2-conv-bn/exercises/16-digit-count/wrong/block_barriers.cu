// Right values, but the warps of a block, whose counters are apart, wait for each other in each round.

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
        unsigned equal = __match_any_sync(0xffffffff, digits[j]);
        unsigned before = counters[warp][digits[j]];
        __syncthreads();  // all have read before one of them writes
        if ((equal & lanes_below) == 0) {
            counters[warp][digits[j]] = before + __popc(equal);
        }
        __syncthreads();  // it is written before the next round reads it
        rank[j] = before + __popc(equal & lanes_below);
    }
    __syncthreads();  // all warps have counted
    if (threadIdx.x < 64) {
        unsigned sum = 0;
        for (unsigned w = 0; w < 4; ++w) {
            unsigned of_warp = counters[w][threadIdx.x];
            counters[w][threadIdx.x] = sum;
            sum += of_warp;
        }
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
