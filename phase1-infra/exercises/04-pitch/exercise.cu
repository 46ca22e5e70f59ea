// Copies the window of rows × columns pixels whose upper left pixel is (top, left) out of an image whose rows begin `pitch` floats
// apart. The window is dense.
//
// One thread per pixel of the window: blocks have 32 × 8 threads.

extern "C" __global__ void crop(const float *image, float *window, unsigned pitch, unsigned top, unsigned left, unsigned rows,
                                unsigned columns) {
    unsigned column = blockIdx.x * 32 + threadIdx.x;
    unsigned row = blockIdx.y * 8 + threadIdx.y;
    if (row < rows && column < columns) {
        window[row * columns + column] = image[row * columns + column]; // Your code: the right pixel.
    }
}
