// Right values, but a warp goes down a column.

extern "C" __global__ void crop(const float *image, float *window, unsigned pitch, unsigned top, unsigned left, unsigned rows,
                                unsigned columns) {
    unsigned column = blockIdx.x * 32 + (threadIdx.y * 32 + threadIdx.x) / 8;
    unsigned row = blockIdx.y * 8 + (threadIdx.y * 32 + threadIdx.x) % 8;
    if (row < rows && column < columns) {
        window[row * columns + column] = image[(top + row) * pitch + left + column];
    }
}
