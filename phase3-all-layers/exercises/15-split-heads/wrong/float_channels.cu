// Right values, but the threads take single channels, four times as many as there are threads: so each takes four in turn.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int channels = 4 * vectors, n = tokens * 3 * heads * channels;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int channel = i % channels, token = i / channels % tokens;
        int head = i / channels / tokens % heads, which = i / channels / tokens / heads;
        out[i] = qkv[((token * 3 + which) * heads + head) * channels + channel];
    }
}
