// Right values, but the lanes meet in shared memory.

extern "C" __global__ void row_max(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    float most = __int_as_float(0xff800000);  // −∞
    for (unsigned column = lane; column < columns; column += 32) {
        most = fmaxf(most, x[row * columns + column]);
    }
    __shared__ float values[128];
    values[threadIdx.x] = most;
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        __syncwarp();
        if (lane < distance) {
            values[threadIdx.x] = fmaxf(values[threadIdx.x], values[threadIdx.x + distance]);
        }
    }
    most = values[threadIdx.x];
    if (lane == 0) {
        y[row] = most;
    }
}
