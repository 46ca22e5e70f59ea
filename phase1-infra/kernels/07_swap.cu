// Swaps the neighbours of each pair through shared memory, one warp per 32 values: y[i] = x[i ^ 1], and 0 where there is no x[i ^ 1].
//
//     x    a b c d …        each lane writes its own word of `row`,
//     row  a b c d …        and reads its neighbour's
//     y    b a d c …
//
// Limited by the two accesses to global memory; both are coalesced. (A shuffle would need no shared memory.)
// run: test memory_model // trial: memory_model
// ANCHOR: hoped
// The lanes of a warp usually run together. Nothing says that they must.
extern "C" __global__ void swap_hoped(const float *x, float *y, unsigned n) {
    __shared__ float row[32];
    unsigned i = blockIdx.x * 32 + threadIdx.x;
    row[threadIdx.x] = i < n ? x[i] : 0.0f;
    float other = row[threadIdx.x ^ 1];
    if (i < n) {
        y[i] = other;
    }
}
// ANCHOR_END: hoped

// ANCHOR: ordered
extern "C" __global__ void swap_ordered(const float *x, float *y, unsigned n) {
    __shared__ float row[32];
    unsigned i = blockIdx.x * 32 + threadIdx.x;
    row[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncwarp();  // what each lane wrote, the others see from here on
    float other = row[threadIdx.x ^ 1];
    if (i < n) {
        y[i] = other;
    }
}
// ANCHOR_END: ordered
