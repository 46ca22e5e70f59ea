// Warps beyond the last row quantise, too.

extern "C" __global__ void quantise(const float *x, signed char *q, float *scales, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.y;
    x += row * columns;
    q += row * columns;
    float values[8], most = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int column = k * 32 + threadIdx.x;
        values[k] = column < columns ? x[column] : 0.0f;
        most = fmaxf(most, fabsf(values[k]));
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
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
