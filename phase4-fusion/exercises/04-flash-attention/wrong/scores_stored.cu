// Right values, but a tile's scores are stored before their maximum is known.

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int tokens, float scale) {
    __shared__ float keys[32][32], values[32][32];
    int query = blockIdx.x * 32 + threadIdx.x;
    float mine[32], sums[32] = {}, most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int c = 0; c < 32; ++c) {
        mine[c] = query < tokens ? q[query * 32 + c] * scale : 0.0f;
    }
    for (int first = 0; first < tokens; first += 32) {
        int count = min(32, tokens - first);
        for (int key = 0; key < count; ++key) {
            keys[key][threadIdx.x] = k[(first + key) * 32 + threadIdx.x];
            values[key][threadIdx.x] = v[(first + key) * 32 + threadIdx.x];
        }
        __syncthreads();
        float scores[32], larger = most;
        for (int key = 0; key < count; ++key) {
            float score = 0.0f;
#pragma unroll
            for (int c = 0; c < 32; ++c) {
                score += mine[c] * keys[key][c];
            }
            scores[key] = score;
            larger = fmaxf(larger, score);
        }
        float shrink = expf(most - larger);
        most = larger;
        sum *= shrink;
#pragma unroll
        for (int c = 0; c < 32; ++c) {
            sums[c] *= shrink;
        }
        for (int key = 0; key < count; ++key) {
            float weight = expf(scores[key] - most);
            sum += weight;
#pragma unroll
            for (int c = 0; c < 32; ++c) {
                sums[c] += weight * values[key][c];
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
