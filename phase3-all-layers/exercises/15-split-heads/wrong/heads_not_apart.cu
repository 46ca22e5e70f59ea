// Takes queries, keys and values apart, but leaves a token's heads side by side: [3][tokens][heads][channels].

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int vector = i % vectors, head = i / vectors % heads;
    int token = i / vectors / heads % tokens, which = i / vectors / tokens / heads;
    to[i] = from[((token * 3 + which) * heads + head) * vectors + vector];
}
