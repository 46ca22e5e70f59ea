// Boxes of a matrix, brought to shared memory and back by bulk copies.
// nvrtc: --gpu-architecture=compute_90

// As <cuda.h> has it: opaque.
struct alignas(64) CUtensorMap {
    unsigned long long opaque[16];
};

// [COLUMNS, ROWS] of a box, fastest dimension first.
constexpr int COLUMNS = 32;
constexpr int ROWS = 16;

__device__ inline unsigned shared_address(const void* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// out = in, box by box, each box of `out` at the place of that of `in`, plus 1.
extern "C" __global__ void add_one(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
    __shared__ alignas(1024) float tile[ROWS * COLUMNS];
    __shared__ alignas(8) unsigned long long full;
    const int column = blockIdx.x * COLUMNS, row = blockIdx.y * ROWS;
    const unsigned barrier = shared_address(&full), to = shared_address(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"((int)sizeof(tile)));
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                to),
            "l"(&in), "r"(column), "r"(row), "r"(barrier)
            : "memory");
    }
    __syncthreads();
    asm volatile(
        "{ .reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
        "@!done bra AGAIN; }" ::"r"(barrier)
        : "memory");
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) tile[i] += 1.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(column),
                     "r"(row), "r"(to)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
