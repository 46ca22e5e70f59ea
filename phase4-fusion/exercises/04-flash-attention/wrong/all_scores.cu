// The scores of all keys are stored in shared memory, which has room for those of 256.

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int tokens, float scale) {
    __shared__ float tile[32][32], scores[256][32];
    int query = blockIdx.x * 32 + threadIdx.x;
    float mine[32], sums[32] = {}, most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int c = 0; c < 32; ++c) {
        mine[c] = query < tokens ? q[query * 32 + c] * scale : 0.0f;
    }
    for (int first = 0; first < tokens; first += 32) {
        int count = min(32, tokens - first);
        for (int key = 0; key < count; ++key) {
            tile[key][threadIdx.x] = k[(first + key) * 32 + threadIdx.x];
        }
        __syncthreads();
        for (int key = 0; key < count; ++key) {
            float score = 0.0f;
#pragma unroll
            for (int c = 0; c < 32; ++c) {
                score += mine[c] * tile[key][c];
            }
            scores[first + key][threadIdx.x] = score;
            most = fmaxf(most, score);
        }
        __syncthreads();
    }
    for (int first = 0; first < tokens; first += 32) {
        int count = min(32, tokens - first);
        for (int key = 0; key < count; ++key) {
            tile[key][threadIdx.x] = v[(first + key) * 32 + threadIdx.x];
        }
        __syncthreads();
        for (int key = 0; key < count; ++key) {
            float weight = expf(scores[first + key][threadIdx.x] - most);
            sum += weight;
#pragma unroll
            for (int c = 0; c < 32; ++c) {
                sums[c] += weight * tile[key][c];
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
