// Subtracts from each value of a row its left neighbour: one block per row, which loads each value once.
// run: broken 01
// ANCHOR: kernel
// A row has at most 256 columns, and the block 256 threads.
extern "C" __global__ void difference(const float *x, float *y, unsigned columns) {
    __shared__ float row[256];
    unsigned column = threadIdx.x;
    unsigned i = blockIdx.x * columns + column;
    row[column] = column < columns ? x[i] : 0.0f;
    if (column < columns) {
        float left = column > 0 ? row[column - 1] : 0.0f;
        y[i] = row[column] - left;
    }
}
// ANCHOR_END: kernel
