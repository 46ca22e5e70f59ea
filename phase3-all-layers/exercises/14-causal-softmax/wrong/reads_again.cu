// Right values, but nothing is kept in registers: each score is read three times.

extern "C" __global__ void causal_softmax(const float *s, float *p, int rows, int tokens) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) {
        return;
    }
    int query = row % tokens;
    s += row * tokens;
    p += row * tokens;
    float most = -INFINITY, sum = 0.0f;
    for (int key = threadIdx.x; key <= query; key += 32) {
        most = fmaxf(most, s[key]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    for (int key = threadIdx.x; key <= query; key += 32) {
        sum += expf(s[key] - most);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    for (int key = threadIdx.x; key < tokens; key += 32) {
        p[key] = key <= query ? expf(s[key] - most) / sum : 0.0f;
    }
}
