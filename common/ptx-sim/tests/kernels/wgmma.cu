// Products of a warpgroup by wgmma, m64n8k16 of f16. `right` is right, and so are the kernels named after what they do; each of the
// others makes the mistake that it is named after. As `tests/it/wgmma.rs` launches them: 128 threads, in `warps_differ` 256.

#include <cuda_fp16.h>

typedef unsigned long long Descriptor;

// Tiles without swizzle: 8 rows of 16 bytes beneath each other, 128 bytes; two of them along k; 256 bytes for eight rows.
__device__ __forceinline__ Descriptor describe(const void *tile) {
    Descriptor start = (Descriptor)__cvta_generic_to_shared(tile);
    return (start & 0x3ffff) >> 4 | (Descriptor)(128 >> 4) << 16 | (Descriptor)(256 >> 4) << 32;
}

__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }

#define MULTIPLY(d, a, b)                                                                                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"                 \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b))

#define MULTIPLY_REGISTERS(d, a, b)                                                                                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"      \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

struct Tiles {
    alignas(1024) __half a[64 * 16];
    __half b[8 * 16];
};

// a[64, k] and b[8, k] from column `at` on.
__device__ __forceinline__ void fill(Tiles &tiles, const __half *a, const __half *b, int k, int at) {
    for (int i = threadIdx.x; i < 64 * 16; i += blockDim.x) {
        int row = i / 16, column = i % 16;
        int to = row / 8 * 128 + column / 8 * 64 + row % 8 * 8 + column % 8;
        tiles.a[to] = a[row * k + at + column];
        if (row < 8) tiles.b[to] = b[row * k + at + column];
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
}

__device__ __forceinline__ void store(float *out, const float *d) {
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; ++i) out[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

__shared__ Tiles tiles[2];

#define BEGIN                             \
    float d[4] = {0, 0, 0, 0};            \
    fill(tiles[0], a, b, 16, 0);          \
    Descriptor at = describe(tiles[0].a); \
    Descriptor bt = describe(tiles[0].b);

extern "C" __global__ void right(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void does_not_wait(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    commit();
    store(out, d); // too early
    wait<0>();
}

extern "C" __global__ void does_not_commit(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    wait<0>();
    store(out, d);
}

extern "C" __global__ void writes_an_accumulator(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    commit();
    asm volatile("cvt.rn.f32.s32 %0, 7;" : "+f"(d[1]));
    wait<0>();
    store(out, d);
}

extern "C" __global__ void does_not_fence(const __half *a, const __half *b, float *out) {
    BEGIN
    MULTIPLY(d, at, bt);
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void fences_only_once(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    commit();
    wait<0>();
    for (int i = 0; i < 4; ++i) d[i] *= 2;
    MULTIPLY(d, at, bt); // without a fence
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void overwrites_its_tile(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    commit();
    if (threadIdx.x < 8) tiles[0].b[threadIdx.x] = 0; // it may be read yet
    wait<0>();
    store(out, d);
}

// Ordinary stores and nothing that makes them visible to the tensor cores.
extern "C" __global__ void does_not_fence_the_proxy(const __half *a, const __half *b, float *out) {
    BEGIN
    tiles[0].b[threadIdx.x] = tiles[0].b[threadIdx.x] * __half(2);
    __syncthreads();
    fence();
    MULTIPLY(d, at, bt); // not fenced
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void does_not_meet_at_a_barrier(const __half *a, const __half *b, float *out) {
    float d[4] = {0, 0, 0, 0};
    for (int i = threadIdx.x; i < 64 * 16; i += blockDim.x) tiles[0].a[i] = a[i];
    tiles[0].b[threadIdx.x] = b[threadIdx.x];
    asm volatile("fence.proxy.async;" ::: "memory");
    Descriptor at = describe(tiles[0].a), bt = describe(tiles[0].b);
    fence();
    MULTIPLY(d, at, bt); // no barrier
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void begins_within_a_pattern(const __half *a, const __half *b, float *out) {
    BEGIN
    Descriptor shifted = (bt & ~0x3fffull) | (Descriptor)(((unsigned)__cvta_generic_to_shared(tiles[0].a) + 128) >> 4);
    fence();
    MULTIPLY(d, at, shifted | 1ull << 62);
    commit();
    wait<0>();
    store(out, d);
}

// Each warp has a descriptor of its own.
extern "C" __global__ void warps_differ(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    if (threadIdx.x / 32 == 5) at += 1;
    MULTIPLY(d, at, bt);
    commit();
    wait<0>();
    if (threadIdx.x < 128) store(out, d);
}

extern "C" __global__ void lanes_differ(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    bt += threadIdx.x / 20 % 2;
    MULTIPLY(d, at, bt);
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void one_warp_alone(const __half *a, const __half *b, float *out) {
    BEGIN
    if (threadIdx.x / 32 == 2) {
        fence();
        MULTIPLY(d, at, bt);
        commit();
        wait<0>();
    }
    store(out, d);
}

extern "C" __global__ void leaves_shared_memory(const __half *a, const __half *b, float *out) {
    BEGIN
    fence();
    MULTIPLY(d, at, bt + (Descriptor)(0x8000 >> 4));
    commit();
    wait<0>();
    store(out, d);
}

// The second half of k is under way while the first is waited for; then the accumulators go on to another product.
extern "C" __global__ void waits_for_one_of_two(const __half *a, const __half *b, float *out) {
    float d[4] = {0, 0, 0, 0}, e[4] = {0, 0, 0, 0};
    fill(tiles[0], a, b, 32, 0);
    fill(tiles[1], a, b, 32, 16);
    fence();
    MULTIPLY(d, describe(tiles[0].a), describe(tiles[0].b));
    commit();
    MULTIPLY(e, describe(tiles[1].a), describe(tiles[1].b));
    commit();
    wait<1>();
    for (int i = 0; i < 4; ++i) d[i] *= 2;
    wait<0>();
    for (int i = 0; i < 4; ++i) d[i] += e[i];
    store(out, d);
}

// A loop as pipelines have it: the product of the last round is under way when the tile of the next is filled.
extern "C" __global__ void keeps_one_under_way(const __half *a, const __half *b, float *out, int rounds) {
    float d[4] = {0, 0, 0, 0};
    for (int round = 0; round < rounds; ++round) {
        Tiles &tile = tiles[round % 2];
        fill(tile, a, b, 16 * rounds, 16 * round);
        fence();
        MULTIPLY(d, describe(tile.a), describe(tile.b));
        commit();
        wait<1>();
        __syncthreads();
    }
    wait<0>();
    store(out, d);
}

// One thread of the warpgroup tells another warp that the tile may be overwritten: when one warp has waited, all have been read.
extern "C" __global__ void one_thread_tells(const __half *a, const __half *b, float *out) {
    __shared__ alignas(8) unsigned long long done;
    unsigned at = (unsigned)__cvta_generic_to_shared(&done);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
    fill(tiles[0], a, b, 16, 0);
    if (threadIdx.x >= 128) {
        unsigned over = 0;
        while (!over) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(over) : "r"(at) : "memory");
        }
        for (int i = threadIdx.x - 128; i < 64 * 16; i += 32) tiles[0].a[i] = 0;
        return;
    }
    float d[4] = {0, 0, 0, 0};
    fence();
    MULTIPLY(d, describe(tiles[0].a), describe(tiles[0].b));
    commit();
    wait<0>();
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");
    store(out, d);
}

__device__ __forceinline__ void load(unsigned *registers, const __half *a) {
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; ++i) registers[i] = *(const unsigned *)&a[(row + i % 2 * 8) * 16 + column + i / 2 * 8];
}

extern "C" __global__ void takes_a_from_registers(const __half *a, const __half *b, float *out) {
    unsigned registers[4];
    BEGIN
    load(registers, a);
    fence();
    MULTIPLY_REGISTERS(d, registers, bt);
    commit();
    wait<0>();
    store(out, d);
}

extern "C" __global__ void overwrites_a(const __half *a, const __half *b, float *out) {
    unsigned registers[4];
    BEGIN
    load(registers, a);
    fence();
    asm volatile("{ .reg .b32 r; mov.b32 r, %4;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {r, %5, %6, %7}, %8, 1, 1, 1, 0;\n"
                 "add.u32 r, r, 1; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3]), "l"(bt));
    commit();
    wait<0>();
    store(out, d);
}

// As compilers do where a loop begins anew: the accumulators in flight get other names.
extern "C" __global__ void renames_in_flight(const __half *a, const __half *b, float *out) {
    float e[4];
    BEGIN
    fence();
    MULTIPLY(d, at, bt);
    commit();
    asm volatile("mov.f32 %0, %4; mov.f32 %1, %5; mov.f32 %2, %6; mov.f32 %3, %7;"
                 : "=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3]) : "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]));
    MULTIPLY(e, at, bt);
    commit();
    wait<0>();
    store(out, e);
}
