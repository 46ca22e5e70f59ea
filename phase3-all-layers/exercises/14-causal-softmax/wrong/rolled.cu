// Right values, but the trip count of the loops is known only at run time, so the array is in local memory.

extern "C" __global__ void causal_softmax(const float *s, float *p, int rows, int tokens) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    int query = row % tokens;
    s += row * tokens;
    p += row * tokens;
    float values[8], most = -INFINITY, sum = 0.0f;
    for (int k = 0; k * 32 + threadIdx.x < tokens; ++k) {
        int key = k * 32 + threadIdx.x;
        values[k] = key <= query ? s[key] : -INFINITY;
        most = fmaxf(most, values[k]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    for (int k = 0; k * 32 + threadIdx.x < tokens; ++k) {
        values[k] = expf(values[k] - most);
        sum += values[k];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    for (int k = 0; k * 32 + threadIdx.x < tokens; ++k) {
        int key = k * 32 + threadIdx.x;
        p[key] = values[k] / sum;
    }
}
