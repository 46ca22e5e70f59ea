// A product as Hopper likes it: a warp copies tiles of A and B by tensor maps, a warpgroup multiplies them by wgmma, and mbarriers
// tell them when a stage is full and when it is empty. For the pictures of the asynchronous work. `pipeline.ptx` is this file,
// compiled by `compile.py`; `tests/it/trace/` launches it with 160 threads: warps 0 to 3 multiply, warp 4 copies.

typedef unsigned long long u64;
typedef unsigned u32;

#define STAGES 2
#define BM 64
#define BN 32
#define BK 64 // of f16: 128 bytes, a line of the swizzle

struct alignas(64) TensorMap { char bytes[128]; };

// Tiles begin where the pattern of their swizzle does.
struct Stage {
    alignas(1024) unsigned short a[BM * BK];
    alignas(1024) unsigned short b[BN * BK];
};

__device__ __forceinline__ u32 shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void init(u64 *bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void expect(u64 *bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u64 *bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(bar)) : "memory");
}
__device__ __forceinline__ void wait(u64 *bar, u32 parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "  @!done bra again; }" :: "r"(shared(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void load(void *tile, const TensorMap &map, int k, int row, u64 *bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared(tile)), "l"(&map), "r"(k), "r"(row), "r"(shared(bar)) : "memory");
}

// K-major, 128 bytes of swizzle; from one eight rows to the next it is 1024 bytes.
__device__ __forceinline__ u64 describe(const void *tile) {
    return (u64)(shared(tile) & 0x3ffff) >> 4 | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

__device__ __forceinline__ void multiply(float *d, u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b));
}

// d[64, 32] = a[m, k] · b[n, k]ᵀ; what is outside the tensors is 0.
extern "C" __global__ void pipeline(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *out, int k) {
    __shared__ Stage stages[STAGES];
    __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) { init(&full[s], 1); init(&empty[s], 4); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int tiles = (k + BK - 1) / BK;
    if (threadIdx.x >= 128) {
        if (threadIdx.x > 128) return;
        for (int tile = 0; tile < tiles; ++tile) {
            int s = tile % STAGES, phase = tile / STAGES % 2;
            wait(&empty[s], phase ^ 1);
            expect(&full[s], sizeof(Stage));
            load(stages[s].a, a, tile * BK, 0, &full[s]);
            load(stages[s].b, b, tile * BK, 0, &full[s]);
        }
        return;
    }
    float d[16] = {};
    for (int tile = 0; tile < tiles; ++tile) {
        int s = tile % STAGES, phase = tile / STAGES % 2;
        wait(&full[s], phase);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < BK / 16; ++step) {
            multiply(d, describe(stages[s].a) + step * 2, describe(stages[s].b) + step * 2); // 32 bytes along k
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (threadIdx.x % 32 == 0) arrive(&empty[s]);
    }
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 16; ++i) out[(row + i / 2 % 2 * 8) * BN + column + i / 4 * 8 + i % 2] = d[i];
}
