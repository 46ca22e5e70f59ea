// Right values, but the row is read twice: once for the mean, once for the distances from it.

__device__ float across_warp(float sum) {
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    return sum;
}

extern "C" __global__ void statistics(const float *x, float *mean, float *variance, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    float sum = 0.0f, squares = 0.0f;
    for (unsigned column = lane; column < columns; column += 32) {
        sum += x[row * columns + column];
    }
    float m = across_warp(sum) / columns;
    for (unsigned column = lane; column < columns; column += 32) {
        float distance = x[row * columns + column] - m;
        squares += distance * distance;
    }
    squares = across_warp(squares);
    if (lane == 0) {
        mean[row] = m;
        variance[row] = squares / columns;
    }
}
