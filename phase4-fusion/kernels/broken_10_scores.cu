// Attention scores: the products of all queries with all keys, rows of 64 bf16. While one tile is written, the next is multiplied.
// nvrtc: --gpu-architecture=compute_90a // run: broken 10
#include "wgmma.cuh"

// ANCHOR: parts
// sums = a · bᵀ, for tiles of 64 rows of 64 bf16, swizzled by 128 bytes.
__device__ inline void multiply(float (&sums)[32], const void *a, const void *b) {
#pragma unroll
    for (int step = 0; step < 4; ++step) { // 16 of the 64 columns, 32 bytes
        unsigned long long a_part = descriptor(shared_address(a) + 32 * step, 16, 1024);
        wgmma<false>(BF16(), sums, a_part, descriptor(shared_address(b) + 32 * step, 16, 1024), step > 0);
    }
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
// Blocks of 128 threads: 64 queries, 2 × 64 keys.
extern "C" __global__ void scores(const __grid_constant__ TensorMap queries, const __grid_constant__ TensorMap keys, float *scores,
                                  unsigned query_count, unsigned key_count) {
    __shared__ alignas(1024) unsigned char query_tile[8192], key_tiles[2][8192];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), query = blockIdx.y * 64, key = blockIdx.x * 128;
    if (threadIdx.x == 0) {
        barrier_init(full, 1);
        fence_barrier_init();
        barrier_expect(full, sizeof query_tile + sizeof key_tiles);
        copy_box_to(0, shared_address(query_tile), queries, 0, query, full);
        copy_box_to(0, shared_address(key_tiles[0]), keys, 0, key, full);
        copy_box_to(0, shared_address(key_tiles[1]), keys, 0, key + 64, full);
    }
    __syncthreads();
    barrier_wait(full, 0);

    float first[32], second[32];
    wgmma_fence();
    multiply(first, query_tile, key_tiles[0]);
    wgmma_commit();
    multiply(second, query_tile, key_tiles[1]);
    wgmma_commit();
    wgmma_wait<1>();
    write(scores, first, query, key, query_count, key_count);
    write(scores, second, query, key + 64, query_count, key_count);
}
// ANCHOR_END: kernel
