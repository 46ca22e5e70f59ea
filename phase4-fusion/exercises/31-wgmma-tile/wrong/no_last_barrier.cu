// One group stores the next tile while the other still multiplies.

// Eight values of a row of a matrix with `k` columns, 0 where there is no such row.
__device__ uint4 piece_of(const unsigned short *matrix, unsigned row, unsigned column, unsigned rows, unsigned k) {
    return row < rows ? *reinterpret_cast<const uint4 *>(matrix + row * k + column) : make_uint4(0, 0, 0, 0);
}

// A tile whose rows have 128 bytes, swizzled by 128: the pattern repeats every `stride` bytes.
__device__ unsigned long long descriptor(const unsigned char *at, unsigned stride) {
    unsigned long long address = __cvta_generic_to_shared(at);
    return (address >> 4 & 0x3fff) | static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 62;
}

// What threads have stored in shared memory becomes visible to the tensor cores.
__device__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Orders the registers of sums before the next products.
__device__ void fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Begins sums += A · Bᵀ for 64 rows of A, 8 of B, and 16 values of each, and goes on.
__device__ void multiply(float *sums, unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "l"(a), "l"(b));
}

// Closes a group of products.
__device__ void commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for all groups.
__device__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *c, unsigned rows, unsigned columns,
                                   unsigned k) {
    __shared__ alignas(1024) unsigned char tile[136 * 128]; // 128 rows of A, then 8 of B
    unsigned top = 128 * blockIdx.y, left = 8 * blockIdx.x, thread = threadIdx.x, group = thread / 128;
    float sums[4] = {};
    for (unsigned step = 0; step < k; step += 64) {
        for (unsigned i = thread; i < 136 * 8; i += 256) {
            unsigned row = i / 8, piece = i % 8, column = step + 8 * piece;
            uint4 values = row < 128 ? piece_of(a, top + row, column, rows, k) : piece_of(b, left + row - 128, column, columns, k);
            *reinterpret_cast<uint4 *>(tile + row * 128 + (piece ^ row % 8) * 16) = values;
        }
        fence_async_proxy();
        __syncthreads(); // the tile is complete
        fence();
        for (unsigned i = 0; i < 4; ++i) {
            multiply(sums, descriptor(tile + group * 64 * 128 + 32 * i, 1024), descriptor(tile + 128 * 128 + 32 * i, 1024));
        }
        commit();
        wait();
    }
    for (unsigned i = 0; i < 4; ++i) {
        unsigned row = top + thread / 32 * 16 + thread % 32 / 4 + i / 2 * 8, column = left + thread % 4 * 2 + i % 2;
        if (row < rows && column < columns) {
            c[row * columns + column] = sums[i];
        }
    }
}
