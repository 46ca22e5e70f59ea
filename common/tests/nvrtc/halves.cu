// Half precision, bfloat16 and FP8.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// Correctly rounded, so exact: the same operations for both 16-bit types (bfloat16 has a fused multiply-add from compute_80 on).
template <typename T>
__device__ void exact_rows(T a, T b, T c, T *out, int n) {
    int row = 0;
    auto put = [&](T value) { out[row++ * n] = value; };
    put(__hadd(a, b));
    put(__hsub(a, b));
    put(__hmul(a, b));
    put(__hfma(a, b, c));
    put(__hmin(a, b));
    put(__hmax(a, b));
    put(__hneg(a));
    put(__habs(a));
    put(hfloor(a));
    put(hceil(a));
    put(htrunc(a));
    put(hrint(a));
    put(__hgt(a, b) ? a : c);
    put(__hle(a, b) ? a : c);
}

extern "C" __global__ void f16_exact(const __half *x, const __half *y, const __half *z, __half *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) exact_rows(x[i], y[i], z[i], out + i, n);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bf16_exact(const __nv_bfloat16 *x, const __nv_bfloat16 *y, const __nv_bfloat16 *z,
                                      __nv_bfloat16 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) exact_rows(x[i], y[i], z[i], out + i, n);
}
#endif

// Two lanes in a word; n pairs.
template <typename T2>
__device__ void pair_rows(T2 a, T2 b, T2 c, T2 *out, int n) {
    int row = 0;
    auto put = [&](T2 value) { out[row++ * n] = value; };
    put(__hadd2(a, b));
    put(__hsub2(a, b));
    put(__hmul2(a, b));
    put(__hfma2(a, b, c));
    put(__hmin2(a, b));
    put(__hmax2(a, b));
    put(__hneg2(a));
    put(__habs2(a));
}

extern "C" __global__ void f16_pairs(const __half2 *x, const __half2 *y, const __half2 *z, __half2 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    pair_rows(x[i], y[i], z[i], out + i, n);
    out[8 * n + i] = __lows2half2(x[i], y[i]);
    out[9 * n + i] = __halves2half2(__high2half(x[i]), __low2half(y[i]));
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bf16_pairs(const __nv_bfloat162 *x, const __nv_bfloat162 *y, const __nv_bfloat162 *z,
                                      __nv_bfloat162 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    pair_rows(x[i], y[i], z[i], out + i, n);
    out[8 * n + i] = __lows2bfloat162(x[i], y[i]);
    out[9 * n + i] = __halves2bfloat162(__high2bfloat16(x[i]), __low2bfloat16(y[i]));
}
#endif

extern "C" __global__ void half_conversions(const float *x, const int *y, unsigned short *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i];
    int b = y[i], row = 0;
    auto put = [&](unsigned short value) { out[row++ * n + i] = value; };
    put(__half_as_ushort(__float2half_rn(a)));
    put(__half_as_ushort(__float2half_rz(a)));
    put(__half_as_ushort(__int2half_rn(b)));
    put(__half_as_ushort(__ushort2half_rn(b)));
    put(__half2int_rz(__float2half(a)));
    put(__half2short_rn(__float2half(a)));
    put(__bfloat16_as_ushort(__float2bfloat16_rn(a)));
    put(__bfloat16_as_ushort(__int2bfloat16_rn(b)));
    put(__bfloat162int_rz(__float2bfloat16(a)));
    put(__half_as_ushort(__double2half((double)a)));
    put(__half_as_ushort(__low2half(__floats2half2_rn(a, 1.0f))));
    put(__half_as_ushort(__high2half(__floats2half2_rn(1.0f, a))));
    put(__bfloat16_as_ushort(__high2bfloat16(__floats2bfloat162_rn(1.0f, a))));
}

extern "C" __global__ void f16_functions(const __half *x, const __half *y, __half *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half a = x[i], positive = y[i];
    int row = 0;
    auto put = [&](__half value) { out[row++ * n + i] = value; };
    put(__hdiv(a, positive));
    put(hsqrt(positive));
    put(hrsqrt(positive));
    put(hrcp(positive));
    put(hexp(a));
    put(hexp2(a));
    put(hlog(positive));
    put(hlog2(positive));
    put(hsin(a));
    put(hcos(a));
    put(__high2half(h2exp(__halves2half2(positive, a))));
    put(__low2half(__h2div(__halves2half2(a, a), __halves2half2(positive, a))));
}

extern "C" __global__ void bf16_functions(const __nv_bfloat16 *x, const __nv_bfloat16 *y, __nv_bfloat16 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat16 a = x[i], positive = y[i];
    int row = 0;
    auto put = [&](__nv_bfloat16 value) { out[row++ * n + i] = value; };
    put(__hdiv(a, positive));
    put(hsqrt(positive));
    put(hrsqrt(positive));
    put(hrcp(positive));
    put(hexp(a));
    put(hlog(positive));
    put(hsin(a));
    put(hcos(a));
}

// Sums of small integers, exact in any order.
extern "C" __global__ void half_atomics(__half2 *pair, __nv_bfloat16 *single, __half *one) {
    atomicAdd(pair, __floats2half2_rn(threadIdx.x & 7, 1.0f));
    atomicAdd(single + (threadIdx.x & 1), __float2bfloat16(1.0f));
    atomicAdd(one, __float2half(2.0f));
}

extern "C" __global__ void fp8(const float *x, unsigned char *e4m3, unsigned char *e5m2, float *back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_fp8_e4m3 narrow(x[i]);
    __nv_fp8_e5m2 wide(x[i]);
    e4m3[i] = narrow.__x;
    e5m2[i] = wide.__x;
    back[i] = (float)narrow;
    back[n + i] = (float)wide;
}
