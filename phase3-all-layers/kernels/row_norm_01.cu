// Normalises each row of a matrix to length one: divides it by its Euclidean norm, or by 1e-12 if that is larger. One
// block per row.
//
//     y[r][c] = x[r][c] / max(√Σ x[r]², 1e-12)
//
// Limited by memory: a row is read twice, the second time from a cache, and the matrices that need it are small.
// run: test autoencoder // trial: row_norm
#include "rows.cuh"

// x, y: [gridDim.x, columns]
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    row_norm(const float *__restrict__ x, float *__restrict__ y, unsigned columns) {
    const float *from = x + (size_t)blockIdx.x * columns;
    float squares = 0.0f;
    for (unsigned i = threadIdx.x; i < columns; i += THREADS) {
        squares += from[i] * from[i];
    }
    float norm = sqrtf(sum_across<THREADS>(squares));
    // Not fmaxf, which would replace NaN by 1e-12.
    float divisor = norm < 1e-12f ? 1e-12f : norm;
    for (unsigned i = threadIdx.x; i < columns; i += THREADS) {
        y[(size_t)blockIdx.x * columns + i] = from[i] / divisor;
    }
}
// ANCHOR_END: kernel
