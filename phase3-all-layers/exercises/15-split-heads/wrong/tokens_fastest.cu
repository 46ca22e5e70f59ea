// Right values, but neighbouring threads take neighbouring tokens, whose vectors lie far apart in both arrays.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int token = i % tokens, vector = i / tokens % vectors;
    int head = i / tokens / vectors % heads, which = i / tokens / vectors / heads;
    to[((which * heads + head) * tokens + token) * vectors + vector] =
        from[((token * 3 + which) * heads + head) * vectors + vector];
}
