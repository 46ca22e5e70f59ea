// Right values, but as vectors of two channels: twice as many loads and stores.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    const float2 *from = reinterpret_cast<const float2 *>(qkv);
    float2 *to = reinterpret_cast<float2 *>(out);
    int vector = i % vectors, token = i / vectors % tokens;
    int head = i / vectors / tokens % heads, which = i / vectors / tokens / heads;
    int first = 2 * (((token * 3 + which) * heads + head) * vectors + vector);
    to[2 * i] = from[first];
    to[2 * i + 1] = from[first + 1];
}
