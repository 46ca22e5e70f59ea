// The keys beyond the last token count, too.

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int tokens, float scale) {
    __shared__ float keys[32][32], values[32][32];
    int query = blockIdx.x * 32 + threadIdx.x;
    float mine[32], sums[32] = {}, most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int c = 0; c < 32; ++c) {
        mine[c] = query < tokens ? q[query * 32 + c] * scale : 0.0f;
    }
    for (int first = 0; first < tokens; first += 32) {
        int count = 32;
        for (int key = 0; key < count; ++key) {
            bool there = first + key < tokens;
            keys[key][threadIdx.x] = there ? k[(first + key) * 32 + threadIdx.x] : 0.0f;
            values[key][threadIdx.x] = there ? v[(first + key) * 32 + threadIdx.x] : 0.0f;
        }
        __syncthreads();
        for (int key = 0; key < count; ++key) {
            float score = 0.0f;
#pragma unroll
            for (int c = 0; c < 32; ++c) {
                score += mine[c] * keys[key][c];
            }
            float larger = fmaxf(most, score);
            float shrink = expf(most - larger), weight = expf(score - larger);
            most = larger;
            sum = sum * shrink + weight;
#pragma unroll
            for (int c = 0; c < 32; ++c) {
                sums[c] = sums[c] * shrink + weight * values[key][c];
            }
        }
        __syncthreads();
    }
    if (query < tokens) {
#pragma unroll
        for (int c = 0; c < 32; ++c) {
            out[query * 32 + c] = sums[c] / sum;
        }
    }
}
