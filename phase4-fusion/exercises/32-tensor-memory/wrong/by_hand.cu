// The products by threads: right values, and no tensor core.

// Eight values of a row of a matrix with `k` columns, 0 where there is no such row.
__device__ uint4 piece_of(const unsigned short *matrix, unsigned row, unsigned column, unsigned rows, unsigned k) {
    return row < rows ? *reinterpret_cast<const uint4 *>(matrix + row * k + column) : make_uint4(0, 0, 0, 0);
}

__device__ unsigned shared_address(const void *at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// A tile whose rows have 128 bytes, swizzled by 128: the pattern repeats every 1024 bytes.
__device__ unsigned long long descriptor(const unsigned char *at) {
    return shared_address(at) >> 4 | 1024ull >> 4 << 32 | 1ull << 46 | 1ull << 62;
}

// What threads have stored in shared memory becomes visible to the tensor cores.
__device__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Takes 32 columns of tensor memory for the block: a whole warp asks, and their address is stored at `to`.
__device__ void take_columns(unsigned *to) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(shared_address(to)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}

__device__ void give_columns_back(unsigned d) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(d));
}

// Beside a barrier of threads: orders what tensor memory does before it, and after it.
__device__ void fence_before() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

__device__ void fence_after() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Begins D = A · Bᵀ + D, or A · Bᵀ alone, for 16 values of k, and goes on. D begins at the address `d` of tensor memory.
__device__ void multiply(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction, bool add) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n"
                 "}" ::"r"(d),
                 "l"(a), "l"(b), "r"(instruction), "r"(static_cast<int>(add))
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

// 32 lanes × 16 columns of tensor memory, by a whole warp: lane l of the warp gets the columns of the l-th of those lanes. The four warps
// of a block reach a quarter of the 128 lanes each, in their order.
__device__ void load(float *sums, unsigned address) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
                 "tcgen05.wait::ld.sync.aligned;"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3]), "=f"(sums[4]), "=f"(sums[5]), "=f"(sums[6]),
                   "=f"(sums[7]), "=f"(sums[8]), "=f"(sums[9]), "=f"(sums[10]), "=f"(sums[11]), "=f"(sums[12]), "=f"(sums[13]),
                   "=f"(sums[14]), "=f"(sums[15])
                 : "r"(address)
                 : "memory");
}

extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *c, unsigned rows, unsigned columns,
                                   unsigned k) {
    __shared__ alignas(1024) unsigned char tile[144 * 128]; // 128 rows of A, then 16 of B
    __shared__ unsigned long long done;
    __shared__ unsigned d;
    unsigned top = 128 * blockIdx.y, left = 16 * blockIdx.x, thread = threadIdx.x, warp = thread / 32;
    if (thread == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&done)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    } else if (warp == 1) {
        take_columns(&d);
    }
    fence_before();
    __syncthreads();
    fence_after();
    float sums[16] = {};
    for (unsigned step = 0; step < k; step += 64) {
        for (unsigned i = thread; i < 144 * 8; i += 128) {
            unsigned row = i / 8, piece = i % 8, column = step + 8 * piece;
            uint4 values = row < 128 ? piece_of(a, top + row, column, rows, k) : piece_of(b, left + row - 128, column, columns, k);
            *reinterpret_cast<uint4 *>(tile + row * 128 + (piece ^ row % 8) * 16) = values;
        }
        fence_async_proxy();
        __syncthreads(); // the tile is complete
        if (true) {
            for (unsigned i = 0; i < 16; ++i) {
                for (unsigned at = 0; at < 64; ++at) {
                    auto value = [&](unsigned row) {
                        unsigned short bits = *reinterpret_cast<unsigned short *>(tile + row * 128 + (at / 8 ^ row % 8) * 16 + at % 8 * 2);
                        float wide;
                        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
                        return wide;
                    };
                    sums[i] += value(thread) * value(128 + i);
                }
            }
        }
        __syncthreads();
    }

    for (unsigned i = 0; i < 16; ++i) {
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
