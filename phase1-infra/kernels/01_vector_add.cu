// Vector addition: one thread for each element.
//
//     block 0                 block 1                    block 2, ragged
//     t0   t1   …  t255       t0     t1     …  t255      t0     t1    (254 idle)
//     c[0] c[1] …  c[255]     c[256] c[257] …  c[511]    c[512] c[513]           n = 514
//
// Limited by memory: 12 bytes move for one addition, and a GPU could do dozens in that time.
// The grid grows with n. Next, 02_grid_stride.cu: a grid of fixed size for any n.
// run: vector-add // trial: vector-add
// ANCHOR: kernel
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { // the last block reaches past the end
        c[i] = a[i] + b[i];
    }
}
// ANCHOR_END: kernel
