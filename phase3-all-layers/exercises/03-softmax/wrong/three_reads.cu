// Right values, but memory is asked for each value three times.

extern "C" __global__ void softmax(const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    x += row * columns;
    y += row * columns;
    float most = -INFINITY, sum = 0.0f;
    for (int column = threadIdx.x; column < columns; column += 32) {
        most = fmaxf(most, x[column]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    for (int column = threadIdx.x; column < columns; column += 32) {
        sum += expf(x[column] - most);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    for (int column = threadIdx.x; column < columns; column += 32) {
        y[column] = expf(x[column] - most) / sum;
    }
}
