// Asynchronous copies and tensor cores of Hopper: kernels with one mistake each, and right ones that come close to it.
//
// `tests/it/asynchrony.rs` launches all of them with 128 threads and says what the sanitiser is to find. A comment `// WRONG` stands at
// the line of the mistake, which is not always the line of the finding.

typedef unsigned long long u64;
typedef unsigned u32;

#define THREADS 128
#define TILE 128 // floats of a tile
#define BYTES (TILE * 4)

__device__ __forceinline__ u32 shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Barriers in shared memory

__device__ __forceinline__ void init(u64 *bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void inval(u64 *bar) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(shared(bar)) : "memory");
}
__device__ __forceinline__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void expect(u64 *bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void expect_only(u64 *bar, u32 bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(shared(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(u64 *bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(bar)) : "memory");
}
__device__ __forceinline__ void arrive_at(u64 *bar, u32 rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(shared(bar)), "r"(rank) : "memory");
}
__device__ __forceinline__ void wait(u64 *bar, u32 parity) {
    asm volatile("{ .reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "  @!done bra again; }" :: "r"(shared(bar)), "r"(parity) : "memory");
}

// Copies

__device__ __forceinline__ void load(void *tile, const void *from, u32 bytes, u64 *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared(tile)), "l"(from), "r"(bytes), "r"(shared(bar)) : "memory");
}
__device__ __forceinline__ void load_to_all(void *tile, const void *from, u32 bytes, u64 *bar, unsigned short ranks) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :: "r"(shared(tile)), "l"(from), "r"(bytes), "r"(shared(bar)), "h"(ranks) : "memory");
}
__device__ __forceinline__ void store(void *to, const void *tile, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(shared(tile)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void reduce_add(float *to, const void *tile, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :: "l"(to), "r"(shared(tile)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int n> __device__ __forceinline__ void wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(n) : "memory");
}
template <int n> __device__ __forceinline__ void wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(n) : "memory");
}
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Clusters

__device__ __forceinline__ u32 rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

// Most kernels double their block's tile of the input.
#define SETUP(count)                                                       \
    __shared__ alignas(128) float tile[TILE];                              \
    __shared__ alignas(8) u64 full;                                        \
    const u32 t = threadIdx.x;                                             \
    in += blockIdx.x * TILE;                                               \
    out += blockIdx.x * TILE;                                              \
    if (t == 0) { init(&full, count); fence_init(); }                      \
    __syncthreads();

#define KERNEL extern "C" __global__ void
#define PAIR extern "C" __global__ void __cluster_dims__(2, 1, 1)

// ------------------------------------------------------------------------------------------------ copies to shared memory

KERNEL loads(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL reads_too_soon(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    out[t] = 2 * tile[t]; // WRONG: nobody has waited
    wait(&full, 0);
}

KERNEL writes_too_soon(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    tile[t] = 0; // WRONG
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

// A wait of one thread and a barrier of the block are enough for all.
KERNEL one_waits_for_all(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); wait(&full, 0); }
    __syncthreads();
    out[t] = 2 * tile[t];
}

KERNEL one_waits_for_itself(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); wait(&full, 0); }
    __syncwarp();
    out[t] = 2 * tile[t]; // WRONG: the other warps do not wait
}

// Two copies, one barrier: bytes may be expected before or after they are asked for.
KERNEL two_halves(const float *in, float *out) {
    SETUP(1)
    if (t == 0) {
        expect_only(&full, BYTES / 2);
        load(tile, in, BYTES / 2, &full);
        load(tile + TILE / 2, in + TILE / 2, BYTES / 2, &full);
        expect(&full, BYTES / 2);
    }
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL expects_half(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES / 2); load(tile, in, BYTES, &full); } // WRONG
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL expects_twice(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, 2 * BYTES); load(tile, in, BYTES, &full); } // WRONG
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL never_arrives(const float *in, float *out) {
    SETUP(2) // WRONG: there is one arrival
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL all_arrive(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect_only(&full, BYTES); load(tile, in, BYTES, &full); }
    arrive(&full); // WRONG: by all threads, where one is expected
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL waits_for_the_past(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    wait(&full, 1); // WRONG: the phase before the first counts as over
    out[t] = 2 * tile[t];
}

KERNEL waits_before_init(const float *in, float *out) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ alignas(8) u64 full;
    const u32 t = threadIdx.x;
    if (t == 96) { init(&full, 1); fence_init(); expect(&full, BYTES); load(tile, in, BYTES, &full); }
    wait(&full, 0); // WRONG: no __syncthreads() after the initialisation
    out[t] = 2 * tile[t];
}

KERNEL initialises_twice(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { init(&full, 1); fence_init(); } // WRONG: no inval before it
    __syncthreads();
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL initialises_again(const float *in, float *out) {
    SETUP(7)
    if (t == 0) { inval(&full); init(&full, 1); fence_init(); }
    __syncthreads();
    if (t == 0) { expect(&full, BYTES); load(tile, in, BYTES, &full); }
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

// Stores and copies to the same bytes are of two proxies, with a fence between them.
KERNEL clears_then_loads(const float *in, float *out) {
    SETUP(1)
    tile[t] = 0;
    fence_async();
    __syncthreads();
    if (t == 0) { expect(&full, BYTES / 2); load(tile, in, BYTES / 2, &full); }
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL clears_then_loads_unfenced(const float *in, float *out) {
    SETUP(1)
    tile[t] = 0;
    __syncthreads();
    if (t == 0) { expect(&full, BYTES / 2); load(tile, in, BYTES / 2, &full); } // WRONG: the copy may come first
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL misaligned(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES - 16); load(tile + 1, in, BYTES - 16, &full); } // WRONG: 4 past a multiple of 16
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

KERNEL past_the_end(const float *in, float *out) {
    SETUP(1)
    if (t == 0) { expect(&full, BYTES); load(tile, in + gridDim.x * TILE - TILE / 2, BYTES, &full); } // WRONG
    wait(&full, 0);
    out[t] = 2 * tile[t];
}

// ---------------------------------------------------------------------------------------------- copies from shared memory

KERNEL stores(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group<0>(); }
}

// The fence may stand on the other side of the barrier as well: it is on the way from the stores to the copy.
KERNEL stores_fenced_late(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    __syncthreads();
    if (t == 0) { fence_async(); store(out, tile, BYTES); commit(); wait_group<0>(); }
}

KERNEL stores_unfenced(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group<0>(); } // WRONG
}

KERNEL stores_before_the_barrier(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    fence_async();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group<0>(); } // WRONG: no __syncthreads()
}

KERNEL overwrites_the_source(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); }
    __syncthreads();
    tile[t] = 0; // WRONG: the copy may not have read it
    if (t == 0) wait_group<0>();
}

KERNEL reuses_the_source(const float *in, float *out) {
    SETUP(1)
    tile[t] = in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group<0>(); }
    __syncthreads();
    tile[t] = 2 * in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group_read<0>(); }
    __syncthreads();
    tile[t] = 0;
}

KERNEL reads_the_result(const float *in, float *out) {
    SETUP(1)
    tile[t] = in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group<0>(); }
    __syncthreads();
    out[t] = 2 * out[t];
}

// `.read` says that the source is free, not that the destination is written.
KERNEL reads_the_result_too_soon(const float *in, float *out) {
    SETUP(1)
    tile[t] = in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); wait_group_read<0>(); }
    __syncthreads();
    out[t] = 2 * out[t]; // WRONG
}

KERNEL never_commits(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); wait_group<0>(); } // WRONG: the wait is for committed groups
}

KERNEL leaves_a_copy_behind(const float *in, float *out) {
    SETUP(1)
    tile[t] = 2 * in[t];
    fence_async();
    __syncthreads();
    if (t == 0) { store(out, tile, BYTES); commit(); } // WRONG: the block ends, and with it the source
}

// All blocks add to one tile: copies that reduce are atomic.
KERNEL reduces(const float *in, float *out) {
    __shared__ alignas(128) float tile[TILE];
    const u32 t = threadIdx.x;
    tile[t] = in[blockIdx.x * TILE + t];
    fence_async();
    __syncthreads();
    if (t == 0) { reduce_add(out, tile, BYTES); commit(); wait_group<0>(); }
}

// Two tiles in turn: one is filled while the other is on its way.
template <int WAIT> __device__ __forceinline__ void in_turn(const float *in, float *out) {
    __shared__ alignas(128) float tiles[2][TILE];
    const u32 t = threadIdx.x;
    for (u32 k = 0; k < 6; ++k) {
        if (t == 0) wait_group_read<WAIT>();
        __syncthreads();
        tiles[k % 2][t] = 2 * in[k * TILE + t];
        fence_async();
        __syncthreads();
        if (t == 0) { store(out + k * TILE, tiles[k % 2], BYTES); commit(); }
    }
    if (t == 0) wait_group<0>();
}

KERNEL stores_in_turn(const float *in, float *out) { in_turn<1>(in, out); }
KERNEL stores_in_turn_one_late(const float *in, float *out) { in_turn<2>(in, out); } // WRONG: two rounds ago is this tile

// ------------------------------------------------------------------------------------------------------------- pipelines

// Warp 0 loads, warps 1 to 3 use: `full` and `empty` for each stage, their phases counted.
template <int STAGES, bool WAITS_FOR_EMPTY, u32 FIRST_EMPTY, bool FLIPS>
__device__ __forceinline__ void pipeline(const float *in, float *out, u32 tiles) {
    __shared__ alignas(128) float ring[STAGES][TILE];
    __shared__ alignas(8) u64 full[STAGES], empty[STAGES];
    const u32 t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < STAGES; ++s) { init(&full[s], 1); init(&empty[s], 96); }
        fence_init();
    }
    __syncthreads();
    if (t < 32) {
        if (t == 0) {
            for (u32 k = 0; k < tiles; ++k) {
                u32 s = k % STAGES, phase = k / STAGES % 2;
                if (WAITS_FOR_EMPTY) wait(&empty[s], phase ^ FIRST_EMPTY);
                expect(&full[s], BYTES);
                load(ring[s], in + k * TILE, BYTES, &full[s]);
            }
        }
    } else {
        for (u32 k = 0; k < tiles; ++k) {
            u32 s = k % STAGES, phase = FLIPS ? k / STAGES % 2 : 0;
            wait(&full[s], phase);
            for (u32 i = t - 32; i < TILE; i += 96) out[k * TILE + i] = 2 * ring[s][i];
            arrive(&empty[s]);
        }
    }
}

KERNEL pipelined(const float *in, float *out) { pipeline<3, true, 1, true>(in, out, 6); }
KERNEL pipelined_once(const float *in, float *out) { pipeline<6, true, 1, true>(in, out, 6); }
KERNEL pipelined_in_one(const float *in, float *out) { pipeline<1, true, 1, true>(in, out, 6); }
KERNEL pipeline_never_empty(const float *in, float *out) { pipeline<2, false, 1, true>(in, out, 6); }
KERNEL pipeline_stuck(const float *in, float *out) { pipeline<2, true, 0, true>(in, out, 6); }
KERNEL pipeline_without_phases(const float *in, float *out) { pipeline<2, true, 1, false>(in, out, 6); }

// -------------------------------------------------------------------------------------------------------------- clusters

// Each block of two loads half of the tile for both.
template <bool INIT_SYNC> __device__ __forceinline__ void multicast(const float *in, float *out) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ alignas(8) u64 full;
    const u32 t = threadIdx.x, half = rank();
    if (t == 0) { init(&full, 1); fence_init(); expect(&full, BYTES); }
    if (INIT_SYNC) cluster_sync(); else __syncthreads();
    if (t == 0) load_to_all(tile + half * TILE / 2, in + half * TILE / 2, BYTES / 2, &full, 3);
    wait(&full, 0);
    out[blockIdx.x * TILE + t] = 2 * tile[t];
    cluster_sync();
}

PAIR multicasts(const float *in, float *out) { multicast<true>(in, out); }
PAIR multicasts_too_soon(const float *in, float *out) { multicast<false>(in, out); } // WRONG: has the other begun?

// Consumers of both blocks say that a stage is empty before either block fills its half of it again.
template <bool EMPTY_AT_BOTH> __device__ __forceinline__ void multicast_ring(const float *in, float *out, u32 tiles) {
    __shared__ alignas(128) float ring[2][TILE];
    __shared__ alignas(8) u64 full[2], empty[2];
    const u32 t = threadIdx.x, half = rank();
    if (t == 0) {
        for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], EMPTY_AT_BOTH ? 2 * 96 : 96); }
        fence_init();
    }
    cluster_sync();
    if (t < 32) {
        if (t == 0) {
            for (u32 k = 0; k < tiles; ++k) {
                u32 s = k % 2, phase = k / 2 % 2;
                wait(&empty[s], phase ^ 1);
                expect(&full[s], BYTES);
                load_to_all(ring[s] + half * TILE / 2, in + k * TILE + half * TILE / 2, BYTES / 2, &full[s], 3);
            }
        }
    } else {
        for (u32 k = 0; k < tiles; ++k) {
            u32 s = k % 2;
            wait(&full[s], k / 2 % 2);
            for (u32 i = t - 32; i < TILE; i += 96) out[(blockIdx.x * tiles + k) * TILE + i] = 2 * ring[s][i];
            if (EMPTY_AT_BOTH) { arrive_at(&empty[s], 0); arrive_at(&empty[s], 1); }
            else arrive(&empty[s]); // WRONG: the other block fills this ring too
        }
    }
    cluster_sync();
}

PAIR multicast_pipeline(const float *in, float *out) { multicast_ring<true>(in, out, 6); }
PAIR multicast_pipeline_half_empty(const float *in, float *out) { multicast_ring<false>(in, out, 6); }

// A tile goes to the neighbour by a copy from shared memory to shared memory.
PAIR passes_a_tile(const float *in, float *out) {
    __shared__ alignas(128) float tile[TILE], theirs[TILE];
    __shared__ alignas(8) u64 full;
    const u32 t = threadIdx.x;
    tile[t] = in[blockIdx.x * TILE + t];
    if (t == 0) { init(&full, 1); fence_init(); expect(&full, BYTES); }
    fence_async();
    cluster_sync();
    if (t == 0) {
        asm volatile("{ .reg .b32 to, bar; mapa.shared::cluster.u32 to, %0, %3; mapa.shared::cluster.u32 bar, %2, %3;\n"
                     "  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%1], %4, [bar]; }"
                     :: "r"(shared(theirs)), "r"(shared(tile)), "r"(shared(&full)), "r"(rank() ^ 1), "r"(BYTES) : "memory");
    }
    wait(&full, 0);
    out[(blockIdx.x ^ 1) * TILE + t] = 2 * theirs[t];
    cluster_sync();
}

// Each thread sends a word to the neighbour; the bytes count at the neighbour's barrier.
__device__ __forceinline__ void send(float *theirs, u64 *full, float value) {
    asm volatile("{ .reg .b32 to, bar; mapa.shared::cluster.u32 to, %0, %2; mapa.shared::cluster.u32 bar, %1, %2;\n"
                 "  st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [to], %3, [bar]; }"
                 :: "r"(shared(theirs)), "r"(shared(full)), "r"(rank() ^ 1), "r"(__float_as_uint(value)) : "memory");
}

PAIR sends_words(const float *in, float *out) {
    __shared__ alignas(128) float theirs[TILE];
    __shared__ alignas(8) u64 full;
    const u32 t = threadIdx.x;
    if (t == 0) { init(&full, 1); fence_init(); expect(&full, BYTES); }
    cluster_sync();
    send(&theirs[t], &full, in[blockIdx.x * TILE + t]);
    wait(&full, 0);
    out[(blockIdx.x ^ 1) * TILE + t] = 2 * theirs[t];
    cluster_sync();
}

PAIR sends_words_too_soon(const float *in, float *out) {
    __shared__ alignas(128) float theirs[TILE];
    __shared__ alignas(8) u64 full;
    const u32 t = threadIdx.x;
    if (t == 0) { init(&full, 1); fence_init(); expect(&full, BYTES); }
    cluster_sync();
    send(&theirs[t], &full, in[blockIdx.x * TILE + t]);
    cluster_sync();
    out[(blockIdx.x ^ 1) * TILE + t] = 2 * theirs[t]; // WRONG: the cluster's barrier does not wait for words on their way
    wait(&full, 0);
    cluster_sync();
}

// ----------------------------------------------------------------------------------------------------------- tensor cores

// D = A · B of a 64 × 16 and a 16 × 8 matrix of bf16 in core matrices of 8 rows of 16 bytes, without swizzle: of A 8 × 2, the two
// of a row 128 bytes apart and rows 256; of B 2.
__device__ __forceinline__ u64 descriptor(const void *p) {
    return (u64)(shared(p) >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(256 >> 4) << 32;
}
__device__ __forceinline__ void wgmma(float (&d)[4], u64 a, u64 b, int keep) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                 "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"(keep));
}
__device__ __forceinline__ void wgmma_registers(float (&d)[4], const u32 (&a)[4], u64 b, int keep) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %9, 0;\n"
                 "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory");
}

// Small whole numbers as bf16, so that all sums are exact: the upper half of a float.
__device__ __forceinline__ u32 number(u32 i) { return __float_as_uint((float)(i % 7) - 3.0f) >> 16; }
__device__ __forceinline__ u32 two(u32 i) { return number(2 * i) | number(2 * i + 1) << 16; }

#define MATRICES                                                                                \
    __shared__ alignas(1024) u32 a[512], b[64];                                                 \
    const u32 t = threadIdx.x;                                                                  \
    for (u32 i = t; i < 512; i += THREADS) a[i] = two(i);                                       \
    if (t < 64) b[t] = two(5 * t + 1);                                                          \
    float d[4] = {0, 0, 0, 0};

__device__ __forceinline__ void keep(float *out, const float (&d)[4]) {
    for (int k = 0; k < 4; ++k) out[4 * threadIdx.x + k] = d[k];
}

KERNEL multiplies(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(out, d);
}

KERNEL multiplies_unfenced_memory(float *out) {
    MATRICES
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0); // WRONG: the stores to a and b are of another proxy
    wgmma_commit();
    wgmma_wait<0>();
    keep(out, d);
}

KERNEL multiplies_unfenced_registers(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    for (int k = 0; k < 4; ++k) d[k] = (float)(t + k);
    wgmma(d, descriptor(a), descriptor(b), 1); // WRONG: no wgmma.fence after the accumulators were written
    wgmma_commit();
    wgmma_wait<0>();
    keep(out, d);
}

KERNEL reads_accumulators(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    keep(out, d); // WRONG
    wgmma_wait<0>();
}

KERNEL waits_for_all_but_one(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<1>(); // WRONG: the one group may be under way
    keep(out, d);
}

KERNEL forgets_to_commit(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_wait<0>(); // WRONG: no group was committed
    keep(out, d);
}

// Two products into one accumulator, one after another, and the next while they are under way.
KERNEL multiplies_on(float *out) {
    MATRICES
    float e[4] = {0, 0, 0, 0};
    for (int k = 0; k < 4; ++k) asm volatile("" : "+f"(e[k]), "+f"(d[k]) :: "memory"); // zero before the fence
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma(d, descriptor(a), descriptor(b), 1);
    wgmma_commit();
    wgmma(e, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<1>();
    for (int k = 0; k < 4; ++k) d[k] *= 0.5f;
    wgmma_wait<0>();
    for (int k = 0; k < 4; ++k) d[k] = 0.5f * (d[k] + e[k]);
    keep(out, d);
}

KERNEL refills(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
    a[t] = 0;
    keep(out, d);
}

KERNEL refills_too_soon(float *out) {
    MATRICES
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    __syncthreads();
    a[t] = 0; // WRONG: the product may not have read it
    wgmma_wait<0>();
    keep(out, d);
}

// A from registers: lane l of warp w has rows 16 w + l / 4 and + 8, columns 2 (l % 4) and + 8.
__device__ __forceinline__ u32 element(u32 row, u32 column) {
    return two((row / 8 * 2 + column / 8) * 32 + row % 8 * 4 + column % 8 / 2);
}
#define OPERANDS                                                                         \
    const u32 row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;                        \
    u32 r[4] = {element(row, column), element(row + 8, column), element(row, column + 8), element(row + 8, column + 8)};

KERNEL multiplies_registers(float *out) {
    MATRICES
    OPERANDS
    fence_async();
    __syncthreads();
    wgmma_fence();
    wgmma_registers(d, r, descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(out, d);
}

KERNEL changes_registers(float *out) {
    MATRICES
    OPERANDS
    fence_async();
    __syncthreads();
    asm volatile("{ .reg .b32 x0, x1, x2, x3; mov.u32 x0, %4; mov.u32 x1, %5; mov.u32 x2, %6; mov.u32 x3, %7;\n"
                 "  wgmma.fence.sync.aligned;\n"
                 "  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {x0, x1, x2, x3}, %8, 0, 1, 1, 0;\n"
                 "  wgmma.commit_group.sync.aligned;\n"
                 "  add.u32 x0, x0, 1;\n" // WRONG: the product may not have read it
                 "  wgmma.wait_group.sync.aligned 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor(b)) : "memory");
    keep(out, d);
}

// A tile that a copy brings needs no fence: copies and tensor cores are of one proxy.
#define LOADED                                                                           \
    __shared__ alignas(1024) u32 a[512], b[64];                                          \
    __shared__ alignas(8) u64 full;                                                      \
    const u32 t = threadIdx.x;                                                           \
    if (t == 0) { init(&full, 1); fence_init(); }                                        \
    __syncthreads();                                                                     \
    if (t == 0) { expect(&full, sizeof a + sizeof b); load(a, in, sizeof a, &full); load(b, in + 512, sizeof b, &full); } \
    wait(&full, 0);                                                                      \
    float d[4] = {0, 0, 0, 0};

KERNEL multiplies_what_was_loaded(const u32 *in, float *out) {
    LOADED
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    wgmma_wait<0>();
    keep(out, d);
}

KERNEL loads_over_a_product(const u32 *in, float *out) {
    LOADED
    wgmma_fence();
    wgmma(d, descriptor(a), descriptor(b), 0);
    wgmma_commit();
    __syncthreads();
    if (t == 0) { expect(&full, sizeof a); load(a, in + 64, sizeof a, &full); } // WRONG: the product may not have read a
    wgmma_wait<0>();
    wait(&full, 1);
    keep(out, d);
}
