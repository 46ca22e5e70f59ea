// Lanes whose first key comes after the query leave, but the exchange waits for all 32, and their weights are not written.

extern "C" __global__ void causal_softmax(const float *s, float *p, int rows, int tokens) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    int query = row % tokens;
    if (threadIdx.x > query) {
        return;
    }
    s += row * tokens;
    p += row * tokens;
    float values[8], most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int key = k * 32 + threadIdx.x;
        values[k] = key <= query ? s[key] : -INFINITY;
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
            p[key] = values[k] / sum;
        }
    }
}
