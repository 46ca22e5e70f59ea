// Tensor memory and its products (tcgen05). Kernels named `mistaken` make the mistake that they are launched with, in the line that names it;
// `pair_without_its_second` has one, and all others are right. As `tests/it` launches them: 128 threads.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int STEP = 32; // bytes of k of one product

// For PTX that is no longer than its kernels.
#define ONE_BY_ONE _Pragma("unroll 1")

// How a tile of `extent` rows of A (or columns of B) lies in shared memory. `mn_major` is ATOMS_OF_32 for a swizzle of 128 with such atoms.
struct Layout {
    int extent, swizzle, mn_major;
};

constexpr int ATOMS_OF_32 = 2;

__device__ __forceinline__ u64 describe(const u8 *tile, Layout layout, int bytes = 2) {
    u64 start = __cvta_generic_to_shared(tile) >> 4;
    // Steps across and along k, from one pattern of the swizzle to the next.
    u64 leading = 0, stride = 0;
    if (!layout.mn_major) {
        stride = 8 * layout.swizzle;
        leading = layout.extent * layout.swizzle;
    } else if (layout.mn_major == ATOMS_OF_32) {
        leading = 4 * 128;
        stride = 4 * (u64)layout.extent * bytes;
    } else {
        u64 across = 8 * layout.swizzle, along = (u64)layout.extent / 8 * 16 * 8;
        leading = layout.swizzle == 16 ? along : across;
        stride = layout.swizzle == 16 ? across : along;
    }
    u64 mode = layout.mn_major == ATOMS_OF_32 ? 1 : layout.swizzle == 128 ? 2 : layout.swizzle == 64 ? 4 : layout.swizzle == 32 ? 6 : 0;
    return start | leading >> 4 << 16 | stride >> 4 << 32 | 1ull << 46 | mode << 61;
}

// Place in a tile of element (mn, k), of `bytes` bytes.
__device__ __forceinline__ int place(Layout layout, int mn, int k, int bytes) {
    int w = layout.swizzle, at;
    if (!layout.mn_major) {
        int byte = k * bytes;
        at = mn / 8 * 8 * w + mn % 8 * w + byte % w + byte / w * layout.extent * w;
    } else if (layout.mn_major == ATOMS_OF_32) {
        int byte = mn * bytes;
        at = k % 4 * 128 + byte % 128 + byte / 128 * 4 * 128 + k / 4 * 4 * layout.extent * bytes;
        return at ^ ((at >> 7) & 3) << 5;
    } else {
        int byte = mn * bytes;
        at = k % 8 * w + byte % w + byte / w * 8 * w + k / 8 * (layout.extent / 8 * 16 * 8);
    }
    return at ^ ((at >> 7) & (w / 16 - 1)) << 4;
}

__device__ __noinline__ void fill(u8 *tile, const u8 *from, Layout layout, int bytes, int pitch) {
    int k = STEP / bytes;
    ONE_BY_ONE
    for (int i = threadIdx.x; i < layout.extent * k; i += blockDim.x) {
        int to = place(layout, i / k, i % k, bytes);
        for (int byte = 0; byte < bytes; ++byte) tile[to + byte] = from[i / k * pitch + i % k * bytes + byte];
    }
}

__device__ __forceinline__ u32 allocate(u32 columns) {
    __shared__ u32 address;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(&address)), "r"(columns) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    return address;
}

__device__ __forceinline__ void release(u32 address, u32 columns) {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns));
}

__device__ __forceinline__ void begin(u64 *barrier) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"((u32)__cvta_generic_to_shared(barrier)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}

__device__ __forceinline__ void commit(u64 *barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"((u32)__cvta_generic_to_shared(barrier)) : "memory");
}

// Arrives at the mbarriers of both blocks of a pair.
__device__ __forceinline__ void commit_to_pair(u64 *barrier) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"((u32)__cvta_generic_to_shared(barrier)), "h"((unsigned short)3) : "memory");
}

__device__ __forceinline__ void await(u64 *barrier, u32 parity) {
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra again;\n}" ::"r"((u32)__cvta_generic_to_shared(barrier)), "r"(parity) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

#define MULTIPLY(kind, d, a, b, descriptor, accumulate)                                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::" kind " [%0], %1, %2, %3, p;\n}" \
                 ::"r"(d), "l"(a), "l"(b), "r"(descriptor), "r"((int)(accumulate)) : "memory")

__device__ __forceinline__ void multiply(int kind, u32 d, u64 a, u64 b, u32 descriptor, bool accumulate) {
    switch (kind) {
        case 0: MULTIPLY("f16", d, a, b, descriptor, accumulate); break;
        case 1: MULTIPLY("tf32", d, a, b, descriptor, accumulate); break;
        case 2: MULTIPLY("f8f6f4", d, a, b, descriptor, accumulate); break;
        default: MULTIPLY("i8", d, a, b, descriptor, accumulate);
    }
}

// A column of the warp's lanes of D.
__device__ __forceinline__ u32 column(u32 address) {
    u32 word;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(address));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    return word;
}

#define COPY(form, to, from) asm volatile("tcgen05.cp.cta_group::1." form " [%0], %1;" ::"r"(to), "l"(from) : "memory")

__device__ __forceinline__ void copy(int shape, int unpacked, u32 to, u64 from) {
    switch (shape * 3 + unpacked) {
#define SHAPE(number, form)                                              \
    case 3 * number: COPY(form, to, from); break;                        \
    case 3 * number + 1: COPY(form ".b8x16.b6x16_p32", to, from); break; \
    case 3 * number + 2: COPY(form ".b8x16.b4x16_p64", to, from); break;
        SHAPE(0, "128x256b")
        SHAPE(1, "4x256b")
        SHAPE(2, "128x128b")
        SHAPE(3, "64x128b.warpx2::02_13")
        SHAPE(4, "64x128b.warpx2::01_23")
        SHAPE(5, "32x128b.warpx4")
    }
}

__shared__ alignas(1024) u8 a_tile[128 * STEP * 4];
__shared__ alignas(1024) u8 b_tile[256 * STEP * 4];
__shared__ u64 barrier;

// out[lane, column] = the words of D, of A[rows, k] · B[columns, k]ᵀ for `steps` of 32 bytes of k.
extern "C" __global__ void product(const u8 *a, const u8 *b, u32 *out, int kind, u32 descriptor, Layout of_a, Layout of_b, int bytes, int steps) {
    begin(&barrier);
    u32 columns = 32;
    while (columns < (u32)of_b.extent) columns *= 2;
    u32 d = allocate(columns);
    ONE_BY_ONE
    for (int step = 0; step < steps; ++step) {
        fill(a_tile, a + step * STEP, of_a, bytes, steps * STEP);
        fill(b_tile, b + step * STEP, of_b, bytes, steps * STEP);
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            multiply(kind, d, describe(a_tile, of_a, bytes), describe(b_tile, of_b, bytes), descriptor, step > 0);
            commit(&barrier);
        }
        await(&barrier, step & 1);
        __syncthreads();
    }
    ONE_BY_ONE
    for (int i = 0; i < of_b.extent; ++i) out[threadIdx.x * of_b.extent + i] = column(d + (threadIdx.x / 32 << 21) + i);
    release(d, columns);
}

// out[lane, column] = eight columns of tensor memory that held the number of their thread, after a copy of rows to them.
extern "C" __global__ void copies(const u8 *from, u32 *out, int shape, int unpacked, u32 lane, Layout of) {
    begin(&barrier);
    u32 to = allocate(32), warp = threadIdx.x / 32 << 21;
    ONE_BY_ONE
    for (int i = 0; i < 8; ++i) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(to + warp + i), "r"(threadIdx.x) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    fill(a_tile, from, of, 1, STEP);
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (threadIdx.x == 0) {
        copy(shape, unpacked, to + (lane << 16), describe(a_tile, of));
        commit(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = column(to + warp + i);
    release(to, 32);
}

#define SHIFT(group, at) asm volatile("tcgen05.shift.cta_group::" group ".down [%0];" ::"r"(at) : "memory")

// Stores a word in each of the warp's lanes of some columns: 100 times the number of its thread, plus the column.
__device__ __forceinline__ void number_cells(u32 first, int columns) {
    ONE_BY_ONE
    for (int i = 0; i < columns; ++i)
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(first + (threadIdx.x / 32 << 21) + i), "r"(threadIdx.x * 100 + i) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// out[lane, column] = 16 numbered columns, 8 of which were shifted `times` in two quarters, and then got new last rows.
extern "C" __global__ void shifts(const u8 *from, u32 *out, u32 column_at, int times, Layout of) {
    begin(&barrier);
    u32 d = allocate(32);
    number_cells(d, 16);
    fill(a_tile, from, of, 1, STEP);
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (threadIdx.x == 0) {
        u32 at = d + column_at;
        ONE_BY_ONE
        for (int i = 0; i < times; ++i) {
            SHIFT("1", at);
            SHIFT("1", at + (64 << 16));
        }
        COPY("4x256b", at + (31 << 16), describe(a_tile, of));
        commit(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = column(d + (threadIdx.x / 32 << 21) + i);
    release(d, 32);
}

__shared__ alignas(128) u8 scales[3 * 512];

#define SCALED(form, group, d, a, b, descriptor, of_a, of_b)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\ntcgen05.mma.cta_group::" group ".kind::" form " [%0], " a ", %2, %3, [%4], [%5], p;\n}" \
                 ::"r"(d), "l"(of_a_tile), "l"(b), "r"(descriptor), "r"(of_a), "r"(of_b), "r"(d + 276) : "memory")
#define OF_KIND(group, a)                                                                                               \
    switch (kind) {                                                                                                     \
        case 0: SCALED("mxf8f6f4.block_scale.scale_vec::1X", group, d, a, of_b_tile, descriptor, d + 256, d + 260); break; \
        case 1: SCALED("mxf4.block_scale", group, d, a, of_b_tile, descriptor, d + 256, d + 260); break;                 \
        case 2: SCALED("mxf4nvf4.block_scale.block32", group, d, a, of_b_tile, descriptor, d + 256, d + 260); break;     \
        default: SCALED("mxf4nvf4.block_scale.block16", group, d, a, of_b_tile, descriptor, d + 256, d + 260);           \
    }

// One step of a block-scaled product; 128 rows of A, or 128 columns of B, have 512 bytes of scales, in the layout of tcgen05.cp.
extern "C" __global__ void scaled(const u8 *a, const u8 *b, u32 *out, const u8 *scales_a, const u8 *scales_b, int kind, int in_tmem, int unpacked, u32 descriptor,
                                  int columns) {
    begin(&barrier);
    u32 d = allocate(512);
    Layout of_a = {128, 32, 0}, of_b = {columns, 32, 0}, of_scales = {32, 16, 0};
    fill(a_tile, a, of_a, 1, STEP);
    fill(b_tile, b, of_b, 1, STEP);
    ONE_BY_ONE
    for (int i = threadIdx.x; i < 512; i += 128) scales[i] = scales_a[i];
    ONE_BY_ONE
    for (int i = threadIdx.x; i < 1024; i += 128) scales[512 + i] = scales_b[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        ONE_BY_ONE
        for (int i = 0; i < 3; ++i) COPY("32x128b.warpx4", d + 256 + 4 * i, describe(scales + 512 * i, of_scales));
        u64 of_a_tile = describe(a_tile, of_a), of_b_tile = describe(b_tile, of_b);
        if (in_tmem) {
            copy(0, unpacked, d + 276, of_a_tile);
            OF_KIND("1", "[%6]")
        } else {
            OF_KIND("1", "%1")
        }
        commit(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < columns; ++i) out[threadIdx.x * columns + i] = column(d + (threadIdx.x / 32 << 21) + i);
    release(d, 512);
}

// A in tensor memory, as 16 columns; D = A[128, 32] · B[64, 32]ᵀ / 8 + A[128, 32] · B[64, 32]ᵀ, but for lanes 0 to 31 and 96, which keep the first.
extern "C" __global__ void from_tensor_memory(const u32 *a, const u8 *b, u32 *out, u32 descriptor) {
    begin(&barrier);
    u32 d = allocate(128), of_a = d + 64, warp = threadIdx.x / 32 << 21;
    Layout of_b = {64, 64, 0};
    ONE_BY_ONE
    for (int i = 0; i < 16; ++i) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(of_a + warp + i), "r"(a[threadIdx.x * 16 + i]) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    ONE_BY_ONE
    for (int half = 0; half < 2; ++half) fill(b_tile + 4096 * half, b + half * STEP, of_b, 2, 2 * STEP);
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (threadIdx.x == 0) {
        ONE_BY_ONE
        for (int step = 0; step < 4; ++step) {
            u64 tile = describe(b_tile + 4096 * (step & 1), of_b);
            u32 of_step = of_a + 8 * (step & 1);
            if (step != 2)
                asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, {%5, %6, %6, %7}, p;\n}"
                             ::"r"(d), "r"(of_step), "l"(tile), "r"(descriptor), "r"(step), "r"(step < 2 ? 0 : -1), "r"(0), "r"(step < 2 ? 0 : 1) : "memory");
            else
                asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, {%4, %5, %5, %6}, p, 3;\n}"
                             ::"r"(d), "r"(of_step), "l"(tile), "r"(descriptor), "r"(-1), "r"(0), "r"(1) : "memory");
        }
        commit(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < 64; ++i) out[threadIdx.x * 64 + i] = column(d + warp + i);
    release(d, 128);
}

__device__ __forceinline__ u32 rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// A product of a pair of blocks: each has half of A's rows and half of B's columns in its shared memory, and its rows of D.
extern "C" __global__ void pair(const u8 *a, const u8 *b, u32 *out, u32 descriptor, int rows, int columns) {
    Layout of_a = {rows / 2, 128, 0}, of_b = {columns / 2, 128, 0};
    __shared__ u32 place;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"((u32)__cvta_generic_to_shared(&place)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    begin(&barrier);
    u32 d = place;
    fill(a_tile, a + rank() * rows / 2 * STEP, of_a, 2, STEP);
    fill(b_tile, b + rank() * columns / 2 * STEP, of_b, 2, STEP);
    asm volatile("fence.proxy.async;" ::: "memory");
    meet();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (rank() == 0 && threadIdx.x == 0) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}"
                     ::"r"(d), "l"(describe(a_tile, of_a)), "l"(describe(b_tile, of_b)), "r"(descriptor) : "memory");
        commit_to_pair(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < columns; ++i) out[(rank() * 128 + threadIdx.x) * columns + i] = column(d + (threadIdx.x / 32 << 21) + i);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    meet();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 256;" ::"r"(d));
}

// Both blocks of a pair: lanes 32 to 63 of 8 numbered columns are shifted.
extern "C" __global__ void pair_shifts(u32 *out) {
    __shared__ u32 place;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"((u32)__cvta_generic_to_shared(&place)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    begin(&barrier);
    u32 d = place;
    number_cells(d, 8);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    meet();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (rank() == 0 && threadIdx.x == 0) {
        SHIFT("2", d + (32 << 16));
        commit_to_pair(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < 8; ++i) out[(rank() * 128 + threadIdx.x) * 8 + i] = column(d + (threadIdx.x / 32 << 21) + i);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    meet();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 32;" ::"r"(d));
}

// A block-scaled product of a pair of blocks, of 256 rows: each has the scales of its rows of A, and of all columns of B.
extern "C" __global__ void scaled_pair(const u8 *a, const u8 *b, u32 *out, const u8 *scales_a, const u8 *scales_b, int kind, u32 descriptor, int columns) {
    Layout of_a = {128, 32, 0}, of_b = {columns / 2, 32, 0}, of_scales = {32, 16, 0};
    __shared__ u32 place;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"((u32)__cvta_generic_to_shared(&place)) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    begin(&barrier);
    u32 d = place;
    fill(a_tile, a + rank() * 128 * STEP, of_a, 1, STEP);
    fill(b_tile, b + rank() * columns / 2 * STEP, of_b, 1, STEP);
    ONE_BY_ONE
    for (int i = threadIdx.x; i < 512; i += 128) scales[i] = scales_a[rank() * 512 + i];
    ONE_BY_ONE
    for (int i = threadIdx.x; i < 1024; i += 128) scales[512 + i] = scales_b[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    meet();
    if (rank() == 0 && threadIdx.x == 0) {
        ONE_BY_ONE
        for (int i = 0; i < 3; ++i)
            asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(d + 256 + 4 * i), "l"(describe(scales + 512 * i, of_scales)) : "memory");
        u64 of_a_tile = describe(a_tile, of_a), of_b_tile = describe(b_tile, of_b);
        OF_KIND("2", "%1")
        commit_to_pair(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < columns; ++i) out[(rank() * 128 + threadIdx.x) * columns + i] = column(d + (threadIdx.x / 32 << 21) + i);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    meet();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 512;" ::"r"(d));
}

enum ScaleMistake {
    scales_are_right, scales_in_one_quarter, scales_of_another_thread, scales_read_too_early, scales_overwritten, scales_unfenced, scales_outside,
    scales_beyond_their_words, scales_not_copied, scales_stored_late
};

// A block-scaled product of 128 rows and 32 columns (mxf4nvf4, block16) with one mistake at most.
extern "C" __global__ void mistaken_scales(const u8 *a, const u8 *b, u32 *out, u32 descriptor, ScaleMistake M) {
    __shared__ u64 copied;
    begin(&barrier);
    begin(&copied);
    int kind = 3;
    u32 d = allocate(512), warp = threadIdx.x / 32 << 21;
    Layout of_a = {128, 32, 0}, of_b = {32, 32, 0}, of_scales = {32, 16, 0};
    fill(a_tile, a, of_a, 1, STEP);
    fill(b_tile, b, of_b, 1, STEP);
    ONE_BY_ONE
    for (int i = threadIdx.x; i < 512; i += 128) scales[i] = 0x38;
    if (M != scales_unfenced) asm volatile("fence.proxy.async;" ::: "memory");
    // The scales of B are stored by threads.
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(d + 260 + warp), "r"(0x38383838) : "memory");
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    u64 from = describe(scales, of_scales), of_a_tile = describe(a_tile, of_a), of_b_tile = describe(b_tile, of_b);
    if (M == scales_of_another_thread && threadIdx.x == 32) COPY("32x128b.warpx4", d + 256, from);
    if (M == scales_of_another_thread) __syncthreads();
    if (threadIdx.x == 0) {
        if (M == scales_in_one_quarter) COPY("4x256b", d + 256, from);
        else if (M == scales_outside) COPY("128x256b", d + 506, of_a_tile); // scales_outside
        else if (M != scales_of_another_thread && M != scales_not_copied) COPY("32x128b.warpx4", d + 256, from); // scales_unfenced
        u32 shape = M == scales_beyond_their_words ? descriptor | 1 << 29 : descriptor;
        SCALED("mxf4nvf4.block_scale.block16", "1", d, "%1", of_b_tile, shape, d + 256, d + 260); // scales_in_one_quarter scales_of_another_thread scales_beyond_their_words scales_not_copied
        commit(&barrier);
    }
    if (M == scales_overwritten && threadIdx.x == 0) scales[0] = 0; // scales_overwritten
    if (M == scales_read_too_early) column(d + 256 + warp); // scales_read_too_early
    if (M == scales_stored_late) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(d + 260 + warp), "r"(0) : "memory"); // scales_stored_late
    if (M == scales_stored_late) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    await(&barrier, 0);
    // The next scales may come once the product is there.
    if (M == scales_are_right && threadIdx.x == 0) {
        scales[0] = 0x40;
        asm volatile("fence.proxy.async;" ::: "memory");
        COPY("32x128b.warpx4", d + 256, from);
        commit(&copied);
    }
    if (M == scales_are_right) await(&copied, 0);
    ONE_BY_ONE
    for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = column(d + warp + i);
    release(d, 512);
}

enum ShiftMistake {
    shift_is_right, shift_read_too_early, shift_stored_late, shift_by_another_thread, shift_outside, shift_between_quarters, shift_not_awaited
};

// A shift with one mistake at most.
extern "C" __global__ void mistaken_shift(u32 *out, ShiftMistake M) {
    begin(&barrier);
    u32 d = allocate(32), warp = threadIdx.x / 32 << 21;
    number_cells(d, 8);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (M == shift_by_another_thread && threadIdx.x == 32) SHIFT("1", d);
    if (M == shift_by_another_thread) __syncthreads();
    if (threadIdx.x == 0) {
        SHIFT("1", M == shift_outside ? d + 28 : M == shift_between_quarters ? d + (16 << 16) : d); // shift_by_another_thread shift_outside shift_between_quarters shift_not_awaited
        if (M != shift_not_awaited) commit(&barrier);
    }
    u32 word;
    if (M == shift_read_too_early) asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(d + warp)); // shift_read_too_early
    if (M == shift_stored_late) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(d + warp), "r"(0) : "memory"); // shift_stored_late
    if (M == shift_stored_late) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    if (M == shift_read_too_early) asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    if (M != shift_not_awaited) {
        await(&barrier, 0);
        out[threadIdx.x] = column(d + warp);
    }
    release(d, 32);
}

enum Mistake {
    nothing_wrong, reads_too_early, never_commits, uses_registers_early, overwrites_its_tile, does_not_fence_the_proxy, leaks, frees_twice,
    reaches_other_lanes, leaves_its_columns, does_not_wait_for_its_store, adds_to_nothing, has_no_such_shape, allocates_without_permit,
    allocates_too_much, allocates_an_odd_number, has_no_fence_after, copies_onto_its_tile, ends_too_early,
    lets_one_warp_wait
};

// A[128, 16] · B[64, 16]ᵀ, with A in tensor memory too, and one mistake at most.
extern "C" __global__ void mistaken(const u8 *a, const u8 *b, u32 *out, u32 descriptor, Mistake M) {
    Layout of_a = {128, 128, 0}, of_b = {64, 128, 0};
    begin(&barrier);
    u32 d, warp = threadIdx.x / 32 << 21;
    __shared__ u32 place, more;
    auto alloc = [](u32 *to, u32 columns) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(to)), "r"(columns) : "memory");
    };
    auto dealloc = [](u32 address, u32 columns) {
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns));
    };
    if (threadIdx.x < 32) {
        if (M == allocates_an_odd_number) alloc(&more, 48); // allocates_an_odd_number
        alloc(&place, M == allocates_too_much ? 512 : 128); // leaks
        if (M == allocates_too_much) alloc(&more, 32); // allocates_too_much
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
        if (M == allocates_without_permit) alloc(&more, 32); // allocates_without_permit
    }
    fill(a_tile, a, of_a, 2, STEP);
    fill(b_tile, b, of_b, 2, STEP);
    if (M != does_not_fence_the_proxy) asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    d = place;
    u32 of_lane = d + 64 + warp;
    ONE_BY_ONE
    for (int i = 0; i < 8; ++i) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(of_lane + i), "r"(((const u32 *)a)[threadIdx.x * 8 + i]) : "memory");
    if (M != does_not_wait_for_its_store) asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    if (threadIdx.x == 0) {
        u32 shape = M == has_no_such_shape ? descriptor & ~(31u << 24) | 6u << 24 : descriptor;
        MULTIPLY("f16", d, describe(a_tile, of_a), describe(b_tile, of_b), shape, M == adds_to_nothing); // has_no_such_shape adds_to_nothing does_not_fence_the_proxy ends_too_early
        asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}"
                     ::"r"(d), "r"(d + 64), "l"(describe(b_tile, of_b)), "r"(descriptor) : "memory"); // does_not_wait_for_its_store
        if (M != never_commits && M != ends_too_early) commit(&barrier);
    }
    if (M == overwrites_its_tile && threadIdx.x == 0) b_tile[0] = 0; // overwrites_its_tile
    if (M == copies_onto_its_tile && threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                     ::"r"((u32)__cvta_generic_to_shared(b_tile)), "l"(b), "r"((u32)__cvta_generic_to_shared(&barrier)) : "memory"); // copies_onto_its_tile
    __syncthreads(); // nobody has waited yet, so the product has not happened
    if (M != ends_too_early) {
        if (M != reads_too_early && M != has_no_fence_after && (M != lets_one_warp_wait || threadIdx.x < 32)) await(&barrier, 0); // never_commits
        if (M == has_no_fence_after) asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n@!p bra again;\n}" ::"r"((u32)__cvta_generic_to_shared(&barrier)) : "memory");
        u32 word;
        if (M == reaches_other_lanes) column(d + (warp ^ 1 << 21)); // reaches_other_lanes
        if (M == leaves_its_columns) column(d + warp + 128); // leaves_its_columns
        ONE_BY_ONE
        for (int i = 0; i < 64; ++i) {
            asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(d + warp + i)); // reads_too_early has_no_fence_after lets_one_warp_wait
            if (M == uses_registers_early) out[threadIdx.x * 64 + i] = word; // uses_registers_early
            asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
            out[threadIdx.x * 64 + i] = word;
        }
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < 32 && M != leaks) {
        dealloc(d, M == allocates_too_much ? 512 : 128);
        if (M == frees_twice) dealloc(d, 128); // frees_twice
    }
}

// The second block of a pair has gone when the first asks for their product.
extern "C" __global__ void pair_without_its_second(const u8 *, const u8 *, u32 *, u32 descriptor) {
    Layout tile = {64, 128, 0};
    __shared__ u32 place;
    if (rank() == 1) return;
    if (threadIdx.x < 32) asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"((u32)__cvta_generic_to_shared(&place)) : "memory");
    ONE_BY_ONE
    for (int i = 0; i < 1000; ++i) __nanosleep(100);
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %1, %2, p;\n}"
                     ::"r"(place), "l"(describe(a_tile, tile)), "r"(descriptor) : "memory"); // pair_without_its_second
}

// out[block, lane, column] = four columns of tensor memory, after a copy of the 512 bytes that each block of a pair has fetched. Unless
// it is `told`, the first block waits for its own alone.
__device__ __forceinline__ void copied_pair(const u8 *from, u32 *out, bool told) {
    __shared__ u32 place;
    __shared__ u64 fetched;
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 32;" ::"l"(&place) : "memory"); // generic: its lower half counts
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
    }
    begin(&barrier);
    begin(&fetched);
    u32 d = place, to = __cvta_generic_to_shared(scales), full = __cvta_generic_to_shared(&fetched);
    from += 512 * rank();
    if (threadIdx.x < 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * threadIdx.x), "l"(from + 16 * threadIdx.x) : "memory");
    asm volatile("cp.async.wait_all;\nfence.proxy.async;" ::: "memory");
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%2], 256;\n"
                     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(to + 256), "l"(from + 256), "r"(full) : "memory");
    if (!told) meet();
    if (told || rank() == 0) await(&fetched, 0);
    if (told) meet();
    if (rank() == 0 && threadIdx.x == 0) {
        asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(d), "l"(describe(scales, {32, 16, 0})) : "memory"); // copied_pair
        commit_to_pair(&barrier);
    }
    await(&barrier, 0);
    ONE_BY_ONE
    for (int i = 0; i < 4; ++i) out[(rank() * 128 + threadIdx.x) * 4 + i] = column(d + (threadIdx.x / 32 << 21) + i);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    meet();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 32;" ::"r"(d));
}

extern "C" __global__ void copies_of_a_pair(const u8 *from, const u8 *, u32 *out) { copied_pair(from, out, true); }
extern "C" __global__ void half_a_pair_not_waited_for(const u8 *from, const u8 *, u32 *out) { copied_pair(from, out, false); }

// The second block of a pair changes what a thread of the first had written before its commit, which alone it waits for.
__device__ __forceinline__ void change_what_was_written(u32 *out, bool waits) {
    __shared__ u32 written;
    begin(&barrier);
    meet();
    if (rank() == 0 && threadIdx.x == 0) {
        written = 41;
        commit_to_pair(&barrier);
    }
    if (waits) await(&barrier, 0);
    if (rank() == 1 && threadIdx.x == 0)
        asm volatile("{\n.reg .b32 to, value;\nmapa.shared::cluster.u32 to, %0, 0;\nld.shared::cluster.u32 value, [to];\n"
                     "add.u32 value, value, 1;\nst.shared::cluster.u32 [to], value;\n}" ::"r"((u32)__cvta_generic_to_shared(&written)) : "memory"); // not_told_by_a_commit
    meet();
    if (rank() == 0 && threadIdx.x == 0) out[0] = written;
}

extern "C" __global__ void told_by_a_commit(u32 *out) { change_what_was_written(out, true); }
extern "C" __global__ void not_told_by_a_commit(u32 *out) { change_what_was_written(out, false); }

// Blocks that all hold columns of tensor memory when they meet, unless they free them first; out = the first column of each.
extern "C" __global__ void meet_with_columns(u32 *count, u32 *out, u32 columns, int frees_first) {
    u32 d = allocate(columns);
    number_cells(d, 1);
    if (frees_first) release(d, columns);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = d;
        __threadfence();
        atomicAdd(count, 1);
        while (*(volatile u32 *)count != gridDim.x) {}
    }
    __syncthreads();
    if (!frees_first) release(d, columns);
}
