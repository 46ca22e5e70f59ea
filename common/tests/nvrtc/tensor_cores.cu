// Tensor cores, one warp each. Inputs are small integers, so every product and sum is exact in every format.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;

// c[M, N] = a[M, K] b[K, N], then relu: a row-major, b stored by columns.
template <int M, int N, int K, typename In, typename Held, typename Acc>
__device__ void multiply(const In *a, const In *b, Acc *c, layout_t layout) {
    fragment<matrix_a, M, N, K, Held, row_major> fa;
    fragment<matrix_b, M, N, K, Held, col_major> fb;
    fragment<accumulator, M, N, K, Acc> fc;
    fill_fragment(fc, (Acc)2.0f);
    load_matrix_sync(fa, a, K);
    load_matrix_sync(fb, b, K);
    mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] > (Acc)0.0f ? fc.x[i] : (Acc)0.0f;
    store_matrix_sync(c, fc, layout == mem_row_major ? N : M, layout);
}

extern "C" __global__ void f16_to_f32(const half *a, const half *b, float *square, float *tall, float *flat) {
    multiply<16, 16, 16, half, half, float>(a, b, square, mem_row_major);
    multiply<32, 8, 16, half, half, float>(a, b, tall, mem_col_major);
    multiply<8, 32, 16, half, half, float>(a, b, flat, mem_row_major);
}

extern "C" __global__ void f16_to_f16(const half *a, const half *b, half *c) {
    multiply<16, 16, 16, half, half, half>(a, b, c, mem_row_major);
}

extern "C" __global__ void s8_to_s32(const signed char *a, const signed char *b, const unsigned char *ua,
                                     const unsigned char *ub, int *c, int *uc) {
    multiply<16, 16, 16, signed char, signed char, int>(a, b, c, mem_col_major);
    multiply<16, 16, 16, unsigned char, unsigned char, int>(ua, ub, uc, mem_row_major);
}

// b by rows, and an accumulator that is loaded.
extern "C" __global__ void accumulates(const half *a, const half *b, float *c) {
    fragment<matrix_a, 16, 16, 16, half, col_major> fa;
    fragment<matrix_b, 16, 16, 16, half, row_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    load_matrix_sync(fa, a, 16);
    load_matrix_sync(fb, b, 16);
    load_matrix_sync(fc, c, 16, mem_row_major);
    for (int step = 0; step < 3; step++) mma_sync(fc, fa, fb, fc);
    store_matrix_sync(c, fc, 16, mem_row_major);
}

// Four 8×8 tiles through ldmatrix: each lane writes the two values of each tile that it got.
extern "C" __global__ void ldmatrix(const half *x, unsigned *out, unsigned *transposed) {
    __shared__ __align__(16) half tile[32 * 8];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) tile[i] = x[i];
    __syncwarp();
    unsigned address = __cvta_generic_to_shared(tile + lane * 8), r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
    for (int i = 0; i < 4; i++) out[i * 32 + lane] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
    for (int i = 0; i < 2; i++) transposed[i * 32 + lane] = r[i];
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bf16_to_f32(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
    multiply<16, 16, 16, __nv_bfloat16, __nv_bfloat16, float>(a, b, c, mem_row_major);
}

extern "C" __global__ void tf32_to_f32(const float *a, const float *b, float *c) {
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> fa;
    fragment<matrix_b, 16, 16, 8, precision::tf32, col_major> fb;
    fragment<accumulator, 16, 16, 8, float> fc;
    fill_fragment(fc, 2.0f);
    load_matrix_sync(fa, a, 8);
    load_matrix_sync(fb, b, 8);
    for (int i = 0; i < fa.num_elements; i++) fa.x[i] = __float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; i++) fb.x[i] = __float_to_tf32(fb.x[i]);
    mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fmaxf(fc.x[i], 0.0f);
    store_matrix_sync(c, fc, 16, mem_row_major);
}

extern "C" __global__ void f64_to_f64(const double *a, const double *b, double *c) {
    multiply<8, 8, 4, double, double, double>(a, b, c, mem_row_major);
}

// mma.sync by hand, with the PTX ISA's layout: 16×8×16, f16 in, f32 out.
extern "C" __global__ void mma_sync_by_hand(const half *a, const half *b, float *c) {
    int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
    auto two = [](const half *p) { return *(const unsigned *)p; };
    unsigned a0 = two(a + row * 16 + pair), a1 = two(a + (row + 8) * 16 + pair);
    unsigned a2 = two(a + row * 16 + pair + 8), a3 = two(a + (row + 8) * 16 + pair + 8);
    unsigned b0 = two(b + row * 16 + pair), b1 = two(b + row * 16 + pair + 8);
    float d[4] = {2, 2, 2, 2};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    for (int e = 0; e < 4; e++) c[(row + 8 * (e / 2)) * 8 + pair + e % 2] = fmaxf(d[e], 0.0f);
}
#endif
