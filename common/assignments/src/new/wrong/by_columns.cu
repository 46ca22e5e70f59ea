// Goes down the columns: the addresses of a warp lie a row apart, each in a sector of its own.

extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    unsigned threads = gridDim.x * gridDim.y * blockDim.x * blockDim.y;
    unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    unsigned first = (block * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    for (unsigned i = first; i < rows * columns; i += threads) {
        unsigned row = i % rows, column = i / rows;
        y[row * columns + column] = factors[row] * x[row * columns + column];
    }
}
