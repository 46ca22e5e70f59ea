// Right values, but a thread moves all the vectors of a token and head, one after the other: a warp's lie a row apart.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int token = i % tokens, head = i / tokens % heads, which = i / tokens / heads;
    for (int vector = 0; vector < vectors; ++vector) {
        to[i * vectors + vector] = from[((token * 3 + which) * heads + head) * vectors + vector];
    }
}
