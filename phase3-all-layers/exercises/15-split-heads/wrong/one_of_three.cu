// A token is taken to have heads · channels floats, as if queries, keys and values were three arrays.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int vector = i % vectors, token = i / vectors % tokens;
    int head = i / vectors / tokens % heads, which = i / vectors / tokens / heads;
    to[i] = from[((which * tokens + token) * heads + head) * vectors + vector];
}
