// Weights of later keys are set to 0 when they are stored, but the sum has their exponentials.

extern "C" __global__ void causal_softmax(const float *s, float *p, int rows, int tokens) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    int query = row % tokens;
    s += row * tokens;
    p += row * tokens;
    float values[8], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int key = k * 32 + threadIdx.x;
        values[k] = key < tokens ? s[key] : -INFINITY;
        most = fmaxf(most, values[k]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        values[k] = expf(values[k] - most);
        sum += values[k];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int key = k * 32 + threadIdx.x;
        if (key < tokens) {
            p[key] = key <= query ? values[k] / sum : 0.0f;
        }
    }
}
