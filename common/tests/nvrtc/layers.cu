// Small versions of layers, with the techniques of tuned kernels: vector loads, tiles, registers, online sums.

// NVRTC has no <math.h>, where INFINITY comes from.
#define MINUS_INFINITY __int_as_float(0xff800000)

__device__ float warp_sum(float v) {
    for (int offset = 16; offset; offset >>= 1) v += __shfl_xor_sync(~0u, v, offset);
    return v;
}

__device__ float warp_max(float v) {
    for (int offset = 16; offset; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, offset));
    return v;
}

// One warp per row of n values, n a multiple of 4; then exact GELU.
extern "C" __global__ void layer_norm_gelu(const float *__restrict__ x, const float *__restrict__ gain, float *__restrict__ y,
                                           int n) {
    const float4 *row = (const float4 *)(x + blockIdx.x * n);
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n / 4; i += 32) {
        float4 v = __ldg(row + i);
        sum += v.x + v.y + v.z + v.w;
    }
    float mean = warp_sum(sum) / n;
    for (int i = threadIdx.x; i < n; i += 32) {
        float d = x[blockIdx.x * n + i] - mean;
        squares += d * d;
    }
    float scale = rsqrtf(warp_sum(squares) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += 32) {
        float v = (x[blockIdx.x * n + i] - mean) * scale * gain[i];
        y[blockIdx.x * n + i] = 0.5f * v * (1 + erff(v * 0.70710678f));
    }
}

// Maximum and sum in one pass; one warp per row.
extern "C" __global__ void online_softmax(const float *x, float *y, int n) {
    const float *row = x + blockIdx.x * n;
    float m = MINUS_INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        float larger = fmaxf(m, row[i]);
        sum = sum * expf(m - larger) + expf(row[i] - larger);
        m = larger;
    }
    float all = warp_max(m);
    sum = warp_sum(m == MINUS_INFINITY ? 0.0f : sum * expf(m - all));
    for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = expf(row[i] - all) / sum;
}

// C[M, N] = relu(A[M, K] B[K, N] + bias[N]): 32×32 tiles, 64 threads, 4×4 values each; any M, N, K.
extern "C" __global__ void __launch_bounds__(64) gemm_bias_relu(const float *a, const float *b, const float *bias, float *c,
                                                                int M, int N, int K) {
    __shared__ float as[8][32];
    __shared__ __align__(16) float bs[8][32];
    int t = threadIdx.x, row = t / 8 * 4, column = t % 8 * 4;
    int top = blockIdx.y * 32, left = blockIdx.x * 32;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < 256; i += 64) {
            int r = top + i / 8, k = k0 + i % 8;
            as[i % 8][i / 8] = r < M && k < K ? a[r * K + k] : 0.0f;
            int kb = k0 + i / 32, col = left + i % 32;
            bs[i / 32][i % 32] = kb < K && col < N ? b[kb * N + col] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float4 bv = *(float4 *)&bs[k][column];
            for (int i = 0; i < 4; i++) {
                float av = as[k][row + i];
                acc[i][0] += av * bv.x;
                acc[i][1] += av * bv.y;
                acc[i][2] += av * bv.z;
                acc[i][3] += av * bv.w;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int r = top + row + i, col = left + column + j;
            if (r < M && col < N) c[r * N + col] = fmaxf(acc[i][j] + bias[col], 0.0f);
        }
}

struct Pool {
    int channels, height, width, kernel, stride, pad, out_height, out_width;
};

extern "C" __global__ void max_pool(const float *x, float *y, const __grid_constant__ Pool p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.channels * p.out_height * p.out_width) return;
    int ox = i % p.out_width, oy = i / p.out_width % p.out_height, ch = i / (p.out_width * p.out_height);
    float best = MINUS_INFINITY;
    for (int ky = 0; ky < p.kernel; ky++)
        for (int kx = 0; kx < p.kernel; kx++) {
            int iy = oy * p.stride - p.pad + ky, ix = ox * p.stride - p.pad + kx;
            if (iy >= 0 && iy < p.height && ix >= 0 && ix < p.width)
                best = fmaxf(best, x[(ch * p.height + iy) * p.width + ix]);
        }
    y[i] = best;
}

// One warp per query, keys in steps, the running maximum corrected: o[q] = softmax(q·k/√d) v, d = 32.
extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *o, int keys) {
    extern __shared__ float kv[];
    float *ks = kv, *vs = kv + 8 * 32;
    int lane = threadIdx.x, warp = threadIdx.y, query = blockIdx.x * blockDim.y + warp;
    float mine = q[query * 32 + lane] * rsqrtf(32.0f), m = MINUS_INFINITY, sum = 0, acc = 0;
    for (int start = 0; start < keys; start += 8) {
        __syncthreads();
        for (int i = warp; i < 8 && start + i < keys; i += blockDim.y) {
            ks[i * 32 + lane] = k[(start + i) * 32 + lane];
            vs[i * 32 + lane] = v[(start + i) * 32 + lane];
        }
        __syncthreads();
        for (int i = 0; i < 8 && start + i < keys; i++) {
            float score = warp_sum(mine * ks[i * 32 + lane]);
            float larger = fmaxf(m, score), correction = __expf(m - larger), p = __expf(score - larger);
            sum = sum * correction + p;
            acc = acc * correction + p * vs[i * 32 + lane];
            m = larger;
        }
    }
    o[query * 32 + lane] = acc / sum;
}

// x̂ = (x − √(1−ᾱ) ε) / √ᾱ, blended with the previous frame where they agree, clamped.
extern "C" __global__ void diffusion_step(const float *x, const float *noise, const float *before, float *y, float alpha,
                                          float weight, float threshold, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float clean = (x[i] - sqrtf(1 - alpha) * noise[i]) / sqrtf(alpha), p = before[i];
    float blended = fabsf(clean - p) <= threshold ? weight * clean + (1 - weight) * p : clean;
    y[i] = fminf(fmaxf(blended, -1.0f), 1.0f);
}

// [cos, sin] of step · 10000^(−j/half), then SiLU of a + b.
extern "C" __global__ void timestep_embedding(float step, float *out, int half) {
    int j = threadIdx.x;
    float sine, cosine, angle = step * powf(10000.0f, -(float)j / half);
    sincosf(angle, &sine, &cosine);
    out[j] = cosine;
    out[half + j] = sine;
    float v = sine + cosine;
    out[2 * half + j] = v / (1 + expf(-v));
}
