// Two sums in doubles, and the difference of two large numbers: their digits hide what it loses.

extern "C" __global__ void statistics(const float *x, float *mean, float *variance, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;
    }
    double sum = 0.0, squares = 0.0;
    for (unsigned column = lane; column < columns; column += 32) {
        double value = x[row * columns + column];
        sum += value;
        squares += value * value;
    }
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, distance);
        squares += __shfl_down_sync(0xffffffff, squares, distance);
    }
    if (lane == 0) {
        double middle = sum / columns;
        mean[row] = static_cast<float>(middle);
        variance[row] = static_cast<float>(squares / columns - middle * middle);
    }
}
