// Micro-kernels whose counters are known from the rules of the hardware. `profile.ptx` is this file, compiled by `compile.py`.
//
// Each does one kind of access with one shape. Loads and shared accesses are inline PTX, so that the compiler neither
// widens nor drops them; what was loaded goes to `sink`, which stores only what never occurs.

// One warp reads `in[lane * stride + offset]` with its first `lanes` lanes.
#define GLOBAL_LOAD(name, type, instruction, ...)                                                      \
    extern "C" __global__ void name(const type* in, float* sink, int stride, int offset, int lanes) {  \
        float value[4] = {};                                                                           \
        const type* at = in + threadIdx.x * stride + offset;                                           \
        if ((int)threadIdx.x < lanes) asm volatile(instruction : __VA_ARGS__ : "l"(at));               \
        if (value[0] == -1.0f) *sink = value[0] + value[1] + value[2] + value[3];                      \
    }
#define QUAD "=f"(value[0]), "=f"(value[1]), "=f"(value[2]), "=f"(value[3])
GLOBAL_LOAD(global_load_4, float, "ld.global.f32 %0, [%1];", "=f"(value[0]))
GLOBAL_LOAD(global_load_8, float2, "ld.global.v2.f32 {%0, %1}, [%2];", "=f"(value[0]), "=f"(value[1]))
GLOBAL_LOAD(global_load_16, float4, "ld.global.v4.f32 {%0, %1, %2, %3}, [%4];", QUAD)
// The read-only path.
GLOBAL_LOAD(global_load_nc, float, "ld.global.nc.f32 %0, [%1];", "=f"(value[0]))
// An address whose space only the hardware finds out.
GLOBAL_LOAD(generic_load, float, "ld.f32 %0, [%1];", "=f"(value[0]))

extern "C" __global__ void global_load_f64(const double* in, double* sink, int stride, int offset) {
    double value = in[threadIdx.x * stride + offset];
    if (value == -1.0) *sink = value;
}

// One warp writes `out[lane * stride + offset]` with its first `lanes` lanes.
#define GLOBAL_STORE(name, type, value)                                                            \
    extern "C" __global__ void name(type* out, int stride, int offset, int lanes) {                \
        if ((int)threadIdx.x < lanes) out[threadIdx.x * stride + offset] = value;                  \
    }
GLOBAL_STORE(global_store_1, unsigned char, 1)
GLOBAL_STORE(global_store_4, float, 1.0f)
GLOBAL_STORE(global_store_8, float2, make_float2(1.0f, 2.0f))
GLOBAL_STORE(global_store_16, float4, make_float4(1.0f, 2.0f, 3.0f, 4.0f))

// A row-major matrix of 32 columns, read down its columns: what a transposition without a tile does.
extern "C" __global__ void column_walk(const float* in, float* out, int columns) {
    for (int column = 0; column < columns; ++column) out[column * 32 + threadIdx.x] = in[threadIdx.x * 32 + column];
}

__device__ unsigned shared_address(void* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// One warp reads or writes its shared element `lane * stride` with its first `lanes` lanes.
#define SHARED_LOAD(name, bytes, instruction, ...)                                                 \
    extern "C" __global__ void name(float* sink, int stride, int lanes) {                          \
        __shared__ float4 tile[33 * 32];                                                           \
        float value[4] = {};                                                                       \
        unsigned at = shared_address(tile) + threadIdx.x * stride * bytes;                         \
        if ((int)threadIdx.x < lanes) asm volatile(instruction : __VA_ARGS__ : "r"(at));           \
        if (value[0] == -1.0f) *sink = value[0] + value[1] + value[2] + value[3];                  \
    }
SHARED_LOAD(shared_load_4, 4, "ld.shared.f32 %0, [%1];", "=f"(value[0]))
SHARED_LOAD(shared_load_8, 8, "ld.shared.v2.f32 {%0, %1}, [%2];", "=f"(value[0]), "=f"(value[1]))
SHARED_LOAD(shared_load_16, 16, "ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];", QUAD)
// Four lanes in each word.
SHARED_LOAD(shared_load_1, 1, "{ .reg .u32 b; ld.shared.u8 b, [%1]; cvt.rn.f32.u32 %0, b; }", "=f"(value[0]))

#define SHARED_STORE(name, bytes, instruction)                                                     \
    extern "C" __global__ void name(float value, int stride, int lanes) {                          \
        __shared__ float4 tile[33 * 32];                                                           \
        unsigned at = shared_address(tile) + threadIdx.x * stride * bytes;                         \
        if ((int)threadIdx.x < lanes) asm volatile(instruction ::"r"(at), "f"(value) : "memory");  \
    }
SHARED_STORE(shared_store_4, 4, "st.shared.f32 [%0], %1;")
SHARED_STORE(shared_store_8, 8, "st.shared.v2.f32 [%0], {%1, %1};")
SHARED_STORE(shared_store_16, 16, "st.shared.v4.f32 [%0], {%1, %1, %1, %1};")

// The lanes read the words that `words` names: any pattern.
#define SHARED_GATHER(name, bytes, instruction, ...)                                               \
    extern "C" __global__ void name(const int* words, float* sink) {                               \
        __shared__ float4 tile[33 * 32];                                                           \
        float value[4] = {};                                                                       \
        unsigned at = shared_address(tile) + words[threadIdx.x] * 4;                               \
        asm volatile(instruction : __VA_ARGS__ : "r"(at));                                         \
        if (value[0] == -1.0f) *sink = value[0] + value[1] + value[2] + value[3];                  \
    }
SHARED_GATHER(shared_gather_4, 4, "ld.shared.f32 %0, [%1];", "=f"(value[0]))
SHARED_GATHER(shared_gather_8, 8, "ld.shared.v2.f32 {%0, %1}, [%2];", "=f"(value[0]), "=f"(value[1]))
SHARED_GATHER(shared_gather_16, 16, "ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];", QUAD)

// A 32 × 32 tile, one warp a row; with a pitch of 32 words its columns lie in one bank.
template <int PITCH> __device__ __forceinline__ void transpose_tile(const float* in, float* out, int n) {
    __shared__ float tile[32][PITCH];
    int x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x];
    __syncthreads();
    out[(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = tile[x][y];
}
extern "C" __global__ void transpose(const float* in, float* out, int n) { transpose_tile<32>(in, out, n); }
extern "C" __global__ void transpose_padded(const float* in, float* out, int n) { transpose_tile<33>(in, out, n); }

// Four 8 × 8 matrices of f16: lane 8 i + r points to row r of matrix i, `pitch` bytes after the row before.
extern "C" __global__ void ldmatrix_x4(float* sink, int pitch) {
    __shared__ float4 tile[33 * 32];
    unsigned at = shared_address(tile) + threadIdx.x * pitch, a, b, c, d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
    if ((a ^ b ^ c ^ d) == 0x12345678) *sink = 1.0f;
}

extern "C" __global__ void ldmatrix_x1(float* sink, int pitch) {
    __shared__ float4 tile[33 * 32];
    unsigned at = shared_address(tile) + threadIdx.x % 8 * pitch, a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(at));
    if (a == 0x12345678) *sink = 1.0f;
}

// `lane % distinct` is the element that a lane adds to. The result is not asked for: a reduction.
extern "C" __global__ void global_reduction(int* counts, int distinct) { atomicAdd(&counts[threadIdx.x % distinct], 1); }

// The old value is asked for: an atomic.
extern "C" __global__ void global_atomic(int* counts, int* sink, int distinct) {
    int old = atomicAdd(&counts[threadIdx.x % distinct], 1);
    if (old == -1) *sink = old;
}

extern "C" __global__ void shared_atomic(int* out, int distinct) {
    __shared__ int counts[32];
    counts[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&counts[threadIdx.x % distinct], 1);
    __syncthreads();
    out[threadIdx.x] = counts[threadIdx.x];
}

// Lane i goes round i + 1 times; the volatile store keeps the loop one.
extern "C" __global__ void divergent_loop(volatile int* out) {
#pragma unroll 1
    for (int i = 0; i <= (int)threadIdx.x; ++i) out[threadIdx.x] = i;
}

// Every lane goes round `count` times.
extern "C" __global__ void uniform_loop(volatile int* out, int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) out[threadIdx.x] = i;
}

extern "C" __global__ void barriers(int rounds) {
    for (int i = 0; i < rounds; ++i) __syncthreads();
}

// `bytes` from global to shared memory a lane, past the registers.
#define ASYNC_COPY(name, bytes)                                                                                  \
    extern "C" __global__ void name(const char* in, float* sink, int stride) {                                   \
        __shared__ float4 tile[33 * 32];                                                                         \
        unsigned to = shared_address(tile) + threadIdx.x * bytes;                                                \
        asm volatile("cp.async.ca.shared.global [%0], [%1], " #bytes ";" ::"r"(to), "l"(in + threadIdx.x * stride)); \
        asm volatile("cp.async.wait_all;" ::: "memory");                                                         \
        __syncthreads();                                                                                         \
        float value = ((float*)tile)[threadIdx.x];                                                               \
        if (value == -1.0f) *sink = value;                                                                       \
    }
ASYNC_COPY(async_copy_4, 4)
ASYNC_COPY(async_copy_8, 8)
ASYNC_COPY(async_copy_16, 16)

// An array that a variable indexes has to be in local memory.
extern "C" __global__ void local_array(int* out, int at) {
    volatile int values[8];
    for (int i = 0; i < 8; ++i) values[i] = i;
    out[threadIdx.x] = values[at];
}

__constant__ float weights[32];
extern "C" __global__ void constant_load(float* out, int stride) { out[threadIdx.x] = weights[threadIdx.x * stride % 32]; }

// `rounds` fused multiply-adds, one addition, one multiplication a lane.
extern "C" __global__ void flops(float* out, int rounds) {
    float value = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) value = __fmaf_rn(value, 0.5f, 1.0f);
    out[threadIdx.x] = __fmul_rn(__fadd_rn(value, 3.0f), 2.0f);
}

// Two groups of copies: a wait that leaves the second under way, one for it, and one for none.
extern "C" __global__ void copies_in_two_groups(const char* in, float* sink) {
    __shared__ float4 tile[128];
    for (int group = 0; group < 2; ++group) {
        int at = group * 1024 + threadIdx.x * 16;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile) + at), "l"(in + at));
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    float value = ((float*)tile)[threadIdx.x];
    if (value == -1.0f) *sink = value;
}
