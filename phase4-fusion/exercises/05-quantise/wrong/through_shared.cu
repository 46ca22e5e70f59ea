// Right values, but each lane reads the largest values of all lanes from shared memory.

extern "C" __global__ void quantise(const float *x, signed char *q, float *scales, int rows, int columns) {
    __shared__ float largest[4][32];
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    x += row * columns;
    q += row * columns;
    float values[8], most = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? x[column] : 0.0f;
        most = fmaxf(most, fabsf(values[k]));
    }
    largest[threadIdx.y][threadIdx.x] = most;
    __syncwarp();
    for (int lane = 0; lane < 32; ++lane) {
        most = fmaxf(most, largest[threadIdx.y][lane]);
    }
    float scale = most / 127.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        if (column < columns) {
            q[column] = static_cast<signed char>(__float2int_rn(values[k] / scale));
        }
    }
    if (threadIdx.x == 0) {
        scales[row] = scale;
    }
}
