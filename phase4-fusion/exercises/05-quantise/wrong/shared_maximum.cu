// Right values, but all lanes add to the maximum by atomics in shared memory.

extern "C" __global__ void quantise(const float *x, signed char *q, float *scales, int rows, int columns) {
    __shared__ int largest[4];
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
    largest[threadIdx.y] = 0;
    __syncwarp();
    atomicMax(&largest[threadIdx.y], __float_as_int(most));
    __syncwarp();
    most = __int_as_float(largest[threadIdx.y]);
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
