// Memory: every state space, vectors, qualifiers, atomics, asynchronous copies.
#include <cuda_pipeline.h>

// Static and dynamic shared memory in one kernel: a tile is transposed, its rows weighted from the dynamic part.
extern "C" __global__ void static_and_dynamic_shared(const float *x, float *out) {
    __shared__ float tile[16][17];
    extern __shared__ __align__(16) unsigned char raw[];
    float *weights = (float *)raw;
    int *order = (int *)(weights + 16);
    int c = threadIdx.x, r = threadIdx.y;
    tile[r][c] = x[r * 16 + c];
    if (r == 0) weights[c] = c + 0.5f;
    if (r == 1) order[c] = (c * 5 + 3) % 16;
    __syncthreads();
    out[r * 16 + c] = tile[c][order[r]] * weights[r];
}

extern "C" __global__ void vectors(const float4 *f, const int2 *i, const double2 *d, const uchar4 *c, const short2 *s,
                                   const longlong2 *l, float4 *fo, int2 *io, double2 *dout, uchar4 *co, short2 *so,
                                   longlong2 *lo) {
    int t = threadIdx.x;
    float4 a = f[t];
    fo[t] = make_float4(a.w, a.z, a.y, a.x + a.w);
    int2 b = i[t];
    io[t] = make_int2(b.y - b.x, b.x);
    double2 e = d[t];
    dout[t] = make_double2(e.y, e.x * 2);
    uchar4 g = c[t];
    co[t] = make_uchar4(g.w, g.x + g.y, g.z, g.x);
    short2 h = s[t];
    so[t] = make_short2(h.y, h.x - h.y);
    longlong2 m = l[t];
    lo[t] = make_longlong2(m.y ^ m.x, m.x);
}

__constant__ float coefficients[5] = {0.5f, -1.0f, 2.0f, 0.25f, 8.0f};
__constant__ struct {
    char kind;
    long long offset;
    short steps[3];
} settings = {'k', 1LL << 40, {7, -8, 9}};

// Uniform and per-thread indices into constant memory.
extern "C" __global__ void constants(const float *x, float *polynomial, long long *out) {
    int t = threadIdx.x;
    float sum = 0, power = 1;
    for (int i = 0; i < 5; i++) {
        sum = __fadd_rn(sum, __fmul_rn(coefficients[i], power));
        power *= x[t];
    }
    polynomial[t] = sum + coefficients[t % 5];
    out[t] = settings.offset + settings.steps[t % 3] * settings.kind;
}

struct Layer {
    int size[3];
    double scale;
    unsigned char flags[5];
};

// A struct by value, indexed by the thread, so that the compiler must take its address.
extern "C" __global__ void struct_by_value(const float *weights, Layer layer, short bias, double *out) {
    int t = threadIdx.x;
    out[t] = weights[t] * layer.scale + layer.size[t % 3] + layer.flags[t % 5] + bias;
}

__device__ __noinline__ double at(const Layer *layer, const float *weights, int t) {
    return weights[t] * layer->scale + layer->size[t % 3];
}

extern "C" __global__ void grid_constant(const float *weights, const __grid_constant__ Layer layer, double *out) {
    int t = threadIdx.x;
    out[t] = at(&layer, weights, t) + layer.flags[t % 5];
}

// An array in local memory, because its index is known at run time only.
extern "C" __global__ void local_array(const int *x, int *out) {
    int t = threadIdx.x, sorted[9];
    for (int i = 0; i < 9; i++) {
        int value = x[t * 9 + i], at = i;
        for (; at > 0 && sorted[at - 1] > value; at--) sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    for (int i = 0; i < 9; i++) out[t * 9 + i] = sorted[i];
}

__device__ int counter = 5;
__device__ float2 pairs[3] = {{1.5f, -2.5f}, {3.25f, 4.0f}, {-0.5f, 0.125f}};
__device__ float2 *second_pair = &pairs[1];
__device__ const char *message = "warp";
__device__ unsigned short untouched[7];
__device__ unsigned char bytes[6] = {1, 2, 254, 255};

extern "C" __global__ void globals(float *out, int *count) {
    int t = threadIdx.x;
    out[t] = pairs[t % 3].x * 10 + second_pair->y + message[t % 4] + untouched[t % 7] + bytes[t % 6];
    atomicAdd(&counter, t);
    __syncthreads();
    if (t == 0) {
        *count = counter;
        counter = 5;
    }
}

// Loads and stores with cache hints, and volatile ones: one row each.
extern "C" __global__ void cache_hints(const int *x, const float4 *v, int *out, float4 *vectors) {
    int t = threadIdx.x, n = blockDim.x;
    out[t] = __ldg(x + t);
    __stcg(out + n + t, __ldcg(x + t) + 1);
    __stcs(out + 2 * n + t, __ldcs(x + t) + 2);
    __stwt(out + 3 * n + t, __ldca(x + t) + 3);
    __stwb(out + 4 * n + t, __ldlu(x + t) + 4);
    *(volatile int *)(out + 5 * n + t) = *(const volatile int *)(x + t) + 5;
    vectors[t] = __ldg(v + t);
    __stcs(vectors + n + t, __ldcs(v + t));
}

// Each in its own cell. Launched with one block of 64 threads.
extern "C" __global__ void atomics(int *a, unsigned long long *b, float *f, double *d, unsigned short *h, int *old) {
    __shared__ int sum;
    __shared__ unsigned long long wide;
    int t = threadIdx.x;
    if (t == 0) sum = 0, wide = 1ull << 40;
    __syncthreads();
    atomicAdd(&sum, t);
    atomicMax(&wide, (1ull << 50) + t);
    old[t] = atomicAdd(a, 1);
    atomicSub(a + 1, t);
    atomicMax(a + 2, t * 37 % 64);
    atomicMin(a + 3, t * 37 % 64 - 100);
    atomicMax((unsigned *)a + 4, t);
    atomicAnd(a + 5, ~(1 << (t % 32)) | 0xff00ff);
    atomicOr(a + 6, 1 << (t % 20));
    atomicXor(a + 7, 1 << (t % 31));
    atomicInc((unsigned *)a + 8, 40);
    atomicDec((unsigned *)a + 9, 40);
    if (t == 33) atomicExch(a + 10, 77);
    atomicCAS(a + 11, 12345, 54321);
    atomicAdd_block(a + 12, 2);
    atomicAdd_system(a + 13, 3);
    atomicAdd(b, (unsigned long long)t << 32);
    atomicMax(b + 1, (unsigned long long)t << 33);
    atomicMin((long long *)b + 2, -(1ll << 40) - t);
    atomicOr(b + 3, 1ull << t);
    if (t == 0) atomicCAS(b + 4, 5ull, 1ull << 63);
    if (t == 0) atomicExch(b + 5, 1ull << 62);
    atomicAdd(f, 1.5f);
    atomicExch(f + 1, 2.5f);
    atomicAdd(d, 0.25 * t);
    if (t == 40) atomicCAS(h + 1, (unsigned short)7, (unsigned short)40);
    __syncthreads();
    a[14] = sum;
    b[6] = wide;
}

// A float maximum by compare-and-swap, since there is no instruction for it.
extern "C" __global__ void atomic_loop(const float *x, int *max) {
    float value = x[blockIdx.x * blockDim.x + threadIdx.x];
    int seen = *max;
    while (__int_as_float(seen) < value) {
        int before = atomicCAS(max, seen, __float_as_int(value));
        if (before == seen) break;
        seen = before;
    }
}

// Two stages in flight (plain copies before compute_80).
extern "C" __global__ void pipeline(const float4 *x, float4 *out, float2 *half) {
    __shared__ float4 stage[2][64];
    __shared__ float2 small[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][t], &x[t], 16);
    __pipeline_commit();
    __pipeline_memcpy_async(&stage[1][t], &x[t + 64], 16);
    // Only the first half of the copy is read; the rest becomes zero.
    __pipeline_memcpy_async(&small[t], (const float2 *)&x[t], 8, 4);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 a = stage[0][63 - t];
    __pipeline_wait_prior(0);
    __syncthreads();
    float4 b = stage[1][63 - t];
    out[t] = make_float4(a.x + b.x, a.y - b.y, b.z, a.w);
    half[t] = small[63 - t];
}

// Tests which state space an address is in.
extern "C" __global__ void address_spaces(int *out) {
    __shared__ int shared;
    int local = 1;
    int *where[4] = {out, &shared, &local, (int *)coefficients};
    int *p = where[threadIdx.x % 4];
    // A constant's address may count as global, too: the windows overlap.
    out[threadIdx.x] = __isConstant(p) ? 8 : __isGlobal(p) + 2 * __isShared(p) + 4 * __isLocal(p);
}
