// Right values, but without the tile: a warp stores to 32 rows.

extern "C" __global__ void transpose(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    for (unsigned k = threadIdx.y; k < 32; k += 8) {
        unsigned row = blockIdx.y * 32 + k;
        if (row < rows && column < columns) {
            y[column * rows + row] = x[row * columns + column];
        }
    }
}
