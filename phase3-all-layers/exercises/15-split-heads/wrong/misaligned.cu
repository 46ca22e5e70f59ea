// The source is counted in vectors, but from a pointer to floats: most of these addresses are no multiple of 16 bytes.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    float4 *to = reinterpret_cast<float4 *>(out);
    int vector = i % vectors, token = i / vectors % tokens;
    int head = i / vectors / tokens % heads, which = i / vectors / tokens / heads;
    to[i] = *reinterpret_cast<const float4 *>(qkv + ((token * 3 + which) * heads + head) * vectors + vector);
}
