// A sum of products that fades: before each product is added, the sums so far are scaled, as in attention by blocks.
// nvrtc: --gpu-architecture=compute_90a // run: broken 11 --repaired
#include "wgmma.cuh"

// ANCHOR: parts
// sums += a · bᵀ, for tiles of 64 rows of 64 bf16, swizzled by 128 bytes.
__device__ inline void multiply(float (&sums)[32], const void *a, const void *b) {
#pragma unroll
    for (int step = 0; step < 4; ++step) { // 16 of the 64 columns, 32 bytes
        unsigned long long a_part = descriptor(shared_address(a) + 32 * step, 16, 1024);
        wgmma<false>(BF16(), sums, a_part, descriptor(shared_address(b) + 32 * step, 16, 1024), true);
    }
}

// Keeps the compiler from moving what computes a value below this line: it does not know that a fence concerns registers.
__device__ inline void stays_above(float &value) {
    asm volatile("" : "+f"(value)::"memory");
}

// The part of a 64 × 64 tile that a thread has: to the matrix of `rows` and `columns`, from `row` and `column` on.
__device__ inline void write(float *to, const float (&sums)[32], unsigned row, unsigned column, unsigned rows, unsigned columns) {
    row += threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    column += threadIdx.x % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) {
        unsigned r = row + i / 2 % 2 * 8, c = column + i / 4 * 8 + i % 2;
        if (r < rows && c < columns) {
            to[r * columns + c] = sums[i];
        }
    }
}
// ANCHOR_END: parts

// ANCHOR: kernel
// Blocks of 128 threads: 64 rows of a and 64 of b, 64 columns of both per step.
extern "C" __global__ void fading_sum(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float *y, float fade,
                                      unsigned a_rows, unsigned b_rows, unsigned steps) {
    __shared__ alignas(1024) unsigned char a_tile[8192], b_tile[8192];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), a_row = blockIdx.y * 64, b_row = blockIdx.x * 64;
    if (threadIdx.x == 0) {
        barrier_init(full, 1);
        fence_barrier_init();
    }
    __syncthreads();

    float sums[32] = {};
    for (unsigned step = 0; step < steps; ++step) {
        if (threadIdx.x == 0) {
            barrier_expect(full, sizeof a_tile + sizeof b_tile);
            copy_box_to(0, shared_address(a_tile), a, step * 64, a_row, full);
            copy_box_to(0, shared_address(b_tile), b, step * 64, b_row, full);
        }
        barrier_wait(full, step % 2);
        for (float &sum : sums) {
            sum *= fade;
            stays_above(sum);
        }
        // ANCHOR: repair
        wgmma_fence();
        // ANCHOR_END: repair
        multiply(sums, a_tile, b_tile);
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads(); // the tiles are free
    }
    write(y, sums, a_row, b_row, a_rows, b_rows);
}
// ANCHOR_END: kernel
