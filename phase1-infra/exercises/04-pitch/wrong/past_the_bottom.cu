// The guard on rows is too wide: the last block reads below the image, and writes below the window.

extern "C" __global__ void crop(const float *image, float *window, unsigned pitch, unsigned top, unsigned left, unsigned rows,
                                unsigned columns) {
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    unsigned row = blockIdx.y * 8 + threadIdx.y;
    if (row <= rows && column < columns) {
        window[row * columns + column] = image[(top + row) * pitch + left + column];
    }
}
