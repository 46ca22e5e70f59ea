// Smooths an image from top to bottom: each value becomes the mean of itself and the two above and below. Rows are copied ahead.
// nvrtc: --gpu-architecture=compute_90 // run: broken 02 --repaired
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 128 threads, one column per thread, which reads only what it copied itself.
extern "C" __global__ void smooth(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float ring[4][128]; // row r is in ring[r % 4]
    unsigned thread = threadIdx.x, column = blockIdx.x * 128 + thread;
    if (column >= columns) {
        return;
    }
    for (unsigned row = 0; row < 2; ++row) {
        if (row < rows) {
            copy_word(&ring[row][thread], x + row * columns + column);
        }
        copies_commit(); // one group per row
    }
    for (unsigned row = 0; row < rows; ++row) {
        if (row + 2 < rows) {
            copy_word(&ring[(row + 2) % 4][thread], x + (row + 2) * columns + column);
        }
        copies_commit();
        // ANCHOR: repair
        copies_wait<1>(); // row + 2 may still be under way
        // ANCHOR_END: repair
        unsigned above = row == 0 ? row : row - 1, below = row + 1 == rows ? row : row + 1;
        float sum = ring[above % 4][thread] + ring[row % 4][thread] + ring[below % 4][thread];
        y[row * columns + column] = sum / 3.0f;
    }
}
// ANCHOR_END: kernel
