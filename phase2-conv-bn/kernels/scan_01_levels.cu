// Inclusive sums of a list: each block sums its 256 values in shared memory, the blocks' totals are summed in the same way, level by
// level, and then each block adds what came before it.
//
//     distance 1    y₀    y₀+y₁   y₁+y₂   y₂+y₃   …        each thread adds the sum that ends `distance` before its own
//     distance 2    y₀    y₀+y₁   y₀..y₂  y₀..y₃  …        (Hillis and Steele)
//     distance 4    …                                       two barriers per line: all have read before one of them writes
//
//     scan_blocks   | block 0 | block 1 | block 2 | …      totals: [t₀ t₁ t₂ …]
//     scan_blocks   on the totals, in place                         [t₀ t₀+t₁ …]
//     add_before    | as it is | + t₀   | + t₀+t₁ | …
//
// Limited by memory traffic that is not needed: each value is read twice and written twice. In a block, by sixteen barriers.
// run: scan // trial: scan

constexpr unsigned THREADS = 256;

// x, y: [n], which may be the same; totals: [blocks]. A thread per value.
// ANCHOR: scan
extern "C" __global__ void __launch_bounds__(THREADS)
    scan_blocks(const unsigned *x, unsigned *y, unsigned *totals, unsigned n) {
    __shared__ unsigned sums[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    sums[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (unsigned distance = 1; distance < THREADS; distance *= 2) {
        unsigned before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    if (i < n) {
        y[i] = sums[threadIdx.x];
    }
    if (threadIdx.x == THREADS - 1) {
        totals[blockIdx.x] = sums[threadIdx.x];
    }
}
// ANCHOR_END: scan

// y: [n], summed within each block; totals: [blocks], inclusive sums of the blocks' totals. A thread per value.
// ANCHOR: add
extern "C" __global__ void __launch_bounds__(THREADS) add_before(unsigned *y, const unsigned *totals, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (blockIdx.x > 0 && i < n) {
        y[i] += totals[blockIdx.x - 1];
    }
}
// ANCHOR_END: add
