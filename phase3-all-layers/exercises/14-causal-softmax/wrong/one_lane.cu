// Right values, but one lane does its warp's row: it reads and writes a score at a time.

extern "C" __global__ void causal_softmax(const float *s, float *p, int rows, int tokens) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows || threadIdx.x > 0) {
        return;
    }
    int query = row % tokens;
    s += row * tokens;
    p += row * tokens;
    float most = -INFINITY, sum = 0.0f;
    for (int key = 0; key <= query; ++key) {
        most = fmaxf(most, s[key]);
    }
    for (int key = 0; key <= query; ++key) {
        sum += expf(s[key] - most);
    }
    for (int key = 0; key < tokens; ++key) {
        p[key] = key <= query ? expf(s[key] - most) / sum : 0.0f;
    }
}
