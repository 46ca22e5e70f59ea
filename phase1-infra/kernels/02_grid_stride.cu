// Vector addition with a grid of fixed size: each thread steps through the data in strides of the whole grid.
//
//     grid of 8 threads, n = 21       t0  t1  t2  t3  t4  t5  t6  t7
//     first round                      0   1   2   3   4   5   6   7
//     second                           8   9  10  11  12  13  14  15
//     third, ragged                   16  17  18  19  20
//
// In each round neighbouring threads still access neighbouring elements, so reads stay coalesced. The index is computed
// once and then costs one addition per round. Limited by memory, like 01_vector_add.cu, once there are enough threads
// to keep it busy.
// run: grid-stride // trial: grid-stride

// ANCHOR: kernel
// n + gridDim.x · blockDim.x must fit in 32 bits, or `i` wraps round and the loop never ends.
extern "C" __global__ void grid_stride_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        c[i] = a[i] + b[i];
    }
}
// ANCHOR_END: kernel
