// Each product starts anew.

// 16 values of a row of a matrix with `k` columns, 0 where there is no such row.
__device__ uint4 piece_of(const unsigned char *matrix, unsigned row, unsigned column, unsigned rows, unsigned k) {
    return row < rows ? *reinterpret_cast<const uint4 *>(matrix + row * k + column) : make_uint4(0, 0, 0, 0);
}

// The scales of the four blocks of 32 values from `column` on, lowest byte first; 1 where there is no such row.
__device__ unsigned scales_of(const unsigned char *scales, unsigned row, unsigned column, unsigned rows, unsigned k) {
    return row < rows ? *reinterpret_cast<const unsigned *>(scales + (row * k + column) / 32) : 0x7f7f7f7f;
}

__device__ unsigned shared_address(const void *at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// A tile whose rows have 128 bytes, swizzled by 128.
__device__ unsigned long long tile_descriptor(const unsigned char *at) {
    return shared_address(at) >> 4 | 1024ull >> 4 << 32 | 1ull << 46 | 2ull << 61;
}

// 32 rows of 16 bytes, one after the other.
__device__ unsigned long long scales_descriptor(const unsigned *at) {
    return shared_address(at) >> 4 | 128ull >> 4 << 32 | 1ull << 46;
}

// What threads have stored in shared memory becomes visible to the tensor cores.
__device__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Takes 64 columns of tensor memory for the block: a whole warp asks, and their address is stored at `to`.
__device__ void take_columns(unsigned *to) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(shared_address(to)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}

__device__ void give_columns_back(unsigned d) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(d));
}

// Beside a barrier of threads: orders what tensor memory does before it, and after it.
__device__ void fence_before() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ void fence_after() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Begins to copy 32 rows of 16 bytes to four columns of tensor memory, and goes on: row r to lanes r, 32 + r, 64 + r and 96 + r. Products that the
// same thread asks for later find them there.
__device__ void copy_scales(unsigned to, unsigned long long from) {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

// Begins D = A · Bᵀ + D, or A · Bᵀ alone, for 32 values of k, and goes on. The scale of row r of A is a byte of the word in lane r % 32 of column
// r / 32 from `scales_a` on; those of B's columns lie likewise.
__device__ void multiply(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction, unsigned scales_a, unsigned scales_b,
                         bool add) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%4], [%5], p;\n"
                 "}" ::"r"(d),
                 "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b), "r"(static_cast<int>(add))
                 : "memory");
}

// One arrival, once this thread's products so far are complete.
__device__ void commit(unsigned long long *barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Waits until the phase of that parity is over.
__device__ void wait(unsigned long long *barrier, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

// 32 lanes × 16 columns of tensor memory, by a whole warp: lane l of the warp gets the columns of the l-th of those lanes.
__device__ void load(float *sums, unsigned address) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
                 "tcgen05.wait::ld.sync.aligned;"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3]), "=f"(sums[4]), "=f"(sums[5]), "=f"(sums[6]),
                   "=f"(sums[7]), "=f"(sums[8]), "=f"(sums[9]), "=f"(sums[10]), "=f"(sums[11]), "=f"(sums[12]), "=f"(sums[13]),
                   "=f"(sums[14]), "=f"(sums[15])
                 : "r"(address)
                 : "memory");
}

extern "C" __global__ void product(const unsigned char *a, const unsigned char *b, const unsigned char *scales_a, const unsigned char *scales_b,
                                   float *c, unsigned rows, unsigned columns, unsigned k) {
    __shared__ alignas(1024) unsigned char tile[160 * 128]; // 128 rows of A, then 32 of B
    __shared__ alignas(16) unsigned scales[2][32 * 4];      // of A, and of B: 32 rows of 16 bytes each
    __shared__ unsigned long long done;
    __shared__ unsigned d;
    unsigned top = 128 * blockIdx.y, left = 32 * blockIdx.x, thread = threadIdx.x, warp = thread / 32;
    if (thread == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&done)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    } else if (warp == 1) {
        take_columns(&d);
    }
    scales[1][thread] = 0x7f7f7f7f; // B has a word in each row of the copy, and three that nothing reads
    fence_before();
    __syncthreads();
    fence_after();
    // Bits 17 to 22 are N / 8 and bits 24 to 28 M / 16, as before; bit 23: scales are UE8M0. A and B are e4m3 (0), D is f32 in any case.
    constexpr unsigned INSTRUCTION = 32 / 8 << 17 | 1 << 23 | 128 / 16 << 24;
    for (unsigned step = 0; step < k; step += 128) {
        for (unsigned i = thread; i < 160 * 8; i += 128) {
            unsigned row = i / 8, piece = i % 8, column = step + 16 * piece;
            uint4 values = row < 128 ? piece_of(a, top + row, column, rows, k) : piece_of(b, left + row - 128, column, columns, k);
            *reinterpret_cast<uint4 *>(tile + row * 128 + (piece ^ row % 8) * 16) = values;
        }
        scales[0][thread % 32 * 4 + warp] = scales_of(scales_a, top + thread, step, rows, k);
        if (warp == 0) {
            scales[1][thread * 4] = scales_of(scales_b, left + thread, step, columns, k);
        }
        fence_async_proxy();
        __syncthreads(); // tile and scales are complete
        if (thread == 0) {
            copy_scales(d + 32, scales_descriptor(scales[0]));
            copy_scales(d + 36, scales_descriptor(scales[1]));
            for (unsigned i = 0; i < 4; ++i) {
                multiply(d, tile_descriptor(tile + 32 * i), tile_descriptor(tile + 128 * 128 + 32 * i), INSTRUCTION | i << 29 | i << 4, d + 32,
                         d + 36, false);
            }
            commit(&done);
        }
        wait(&done, step / 128 % 2); // the sums are there, and tile and scales may be overwritten
    }
    fence_after();
    __syncwarp();
    float sums[32];
    load(sums, d + (32 * warp << 16));
    load(sums + 16, d + (32 * warp << 16) + 16);
    for (unsigned i = 0; i < 32; ++i) {
        if (top + thread < rows && left + i < columns) {
            c[(top + thread) * columns + left + i] = sums[i];
        }
    }
    fence_before();
    __syncthreads(); // all warps have loaded their sums
    if (warp == 1) {
        give_columns_back(d);
    }
}
