// Right values, but rows follow threadIdx.x: the elements of a warp lie a row apart.

extern "C" __global__ void add_row(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * 32 + (threadIdx.y * 32 + threadIdx.x) / 8;
    unsigned row = blockIdx.y * 8 + (threadIdx.y * 32 + threadIdx.x) % 8;
    if (row < rows && column < columns) {
        y[row * columns + column] = x[row * columns + column] + bias[column];
    }
}
