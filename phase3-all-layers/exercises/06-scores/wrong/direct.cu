// Right values without tiles: each thread reads a whole key, and its neighbours' keys lie a row apart.

extern "C" __global__ void scores(const float *qkv, float *s, int tokens, int heads, float scale) {
    int head = blockIdx.z, channels = heads * 32;
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= tokens || column >= tokens) {
        return;
    }
    const float *q = qkv + row * 3 * channels + head * 32, *k = qkv + column * 3 * channels + channels + head * 32;
    float sum = 0.0f;
    for (int i = 0; i < 32; ++i) {
        sum += q[i] * k[i];
    }
    s[(head * tokens + row) * tokens + column] = sum * scale;
}
