// Rearranges queries, keys and values so that each head has a matrix of its own.
//
//     qkv: [tokens][3][heads][channels]    →    out: [3][heads][tokens][channels]        channels = 4 · vectors
//
// One thread per vector of four channels. Blocks have 128 threads.

extern "C" __global__ void split_heads(const float *qkv, float *out, int tokens, int heads, int vectors) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * 3 * heads * vectors) {
        return;
    }
    const float4 *from = reinterpret_cast<const float4 *>(qkv);
    float4 *to = reinterpret_cast<float4 *>(out);
    // Your code: the token, which of the three, the head and the vector of this thread's float4, and its place in both arrays.
    to[i] = from[i];
}
