// The source is counted in channels, but read through a pointer to vectors: it is four times as far away as it should be.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int vector = i % vectors, token = i / vectors % tokens;
    int head = i / vectors / tokens % heads, which = i / vectors / tokens / heads;
    to[i] = from[((token * 3 + which) * heads + head) * 4 * vectors + 4 * vector];
}
