// Mistakes that were reported in public, each rebuilt in a few lines, and right kernels that look like them. `it/wild.rs` names
// the reports, and what the sanitiser is to say.

#define KERNEL extern "C" __global__ void

// A scan by look-back: each block publishes its total, then a flag that the next one waits for.
template <bool FENCED> __device__ void look_back(const int *in, int *totals, int *flags, int *out) {
    const int b = blockIdx.x;
    if (threadIdx.x != 0) return;
    int before = 0;
    if (b > 0) {
        while (((volatile int *)flags)[b - 1] == 0) {}
        if (FENCED) __threadfence();
        before = __ldcg(&totals[b - 1]); // seen
    }
    totals[b] = before + in[b];
    if (FENCED) __threadfence();
    ((volatile int *)flags)[b] = 1;
    out[b] = before + in[b];
}
KERNEL look_back_fenced(const int *in, int *totals, int *flags, int *out) { look_back<true>(in, totals, flags, out); }
KERNEL look_back_unfenced(const int *in, int *totals, int *flags, int *out) { look_back<false>(in, totals, flags, out); }

__device__ int load_relaxed(const int *at) {
    int value;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}
__device__ int load_acquire(const int *at) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}
__device__ void store_release(int *at, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// The first block writes and releases; one lane of the second polls for its warp.
template <int (*LOAD)(const int *), bool FENCED> __device__ void hand_over(const int *in, int *data, int *flag, int *out) {
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = in[t];
        __syncthreads();
        if (t == 0) store_release(flag, 1);
    } else {
        if (t == 0) while (LOAD(flag) == 0) {}
        if (FENCED && t == 0) __threadfence();
        __syncwarp();
        out[t] = data[t];
    }
}
KERNEL polls_acquire(const int *in, int *data, int *flag, int *out) { hand_over<load_acquire, false>(in, data, flag, out); }
KERNEL polls_fenced(const int *in, int *data, int *flag, int *out) { hand_over<load_relaxed, true>(in, data, flag, out); }
KERNEL polls_relaxed(const int *in, int *data, int *flag, int *out) { hand_over<load_relaxed, false>(in, data, flag, out); }

// All blocks add to one histogram and meet at a counter before they read it.
template <bool FENCED> __device__ void histogram(const int *in, int *bins, int *arrived, int *out) {
    const int t = threadIdx.x;
    atomicAdd(&bins[in[blockIdx.x * blockDim.x + t] & 7], 1);
    __syncthreads();
    if (t == 0) {
        if (FENCED) __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile int *)arrived < gridDim.x) {}
        if (FENCED) __threadfence();
    }
    __syncthreads();
    if (t < 8) out[blockIdx.x * 8 + t] = bins[t];
}
KERNEL histogram_fenced(const int *in, int *bins, int *arrived, int *out) { histogram<true>(in, bins, arrived, out); }
KERNEL histogram_unfenced(const int *in, int *bins, int *arrived, int *out) { histogram<false>(in, bins, arrived, out); }

// The block that arrives last adds up what all have written, without a fence of its own.
KERNEL last_adds(const int *in, int *parts, int *arrived, int *out) {
    __shared__ bool last;
    const int t = threadIdx.x;
    if (t == 0) {
        parts[blockIdx.x] = in[blockIdx.x];
        __threadfence();
        last = atomicAdd(arrived, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t < gridDim.x) atomicAdd(out, ((volatile int *)parts)[t]);
}

// Each thread doubles a number, and reads another's through the read-only cache.
KERNEL reads_through_nc(const int *in, int *data, int *unused, int *out) {
    const int t = threadIdx.x;
    data[t] = 2 * in[t];
    __syncthreads();
    out[t] = __ldg(&data[blockDim.x - 1 - t]);
}

// In place, each number read before it is written: the read-only cache has nothing to miss.
KERNEL in_place_through_nc(const int *in, int *data, int *unused, int *out) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = __ldg(&data[t]);
    data[t] = value + in[t];
    out[t] = value + in[t];
}

// One counter for all blocks, with the scope of a block.
KERNEL counts_within_blocks(const int *in, int *data, int *count, int *out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = in[threadIdx.x];
    atomicAdd_block(count, 1);
}
KERNEL counts_of_each_block(const int *in, int *data, int *counts, int *out) {
    atomicAdd_block(&counts[blockIdx.x], in[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = counts[blockIdx.x];
}

// A release and an acquire whose fences reach no other block.
KERNEL fences_within_blocks(const int *in, int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = *in;
        __threadfence_block();
        atomicExch(flag, 1);
    } else {
        while (atomicAdd(flag, 0) == 0) {}
        __threadfence();
        *out = *data;
    }
}

// An acquire by the scope of a block.
KERNEL acquires_within_blocks(const int *in, int *data, int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = *in;
        store_release(flag, 1);
    } else {
        int ready = 0;
        while (ready == 0) asm volatile("ld.acquire.cta.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
        *out = *data;
    }
}

// The sum of a warp through `volatile` shared memory, as before Volta.
template <bool MEETS> __device__ void warp_sum(const int *in, int *out) {
    __shared__ volatile int all[64];
    const int t = threadIdx.x;
    all[t] = in[t];
    all[t + 32] = 0;
    for (int step = 16; step > 0; step /= 2) {
        if (MEETS) __syncwarp();
        const int other = all[t + step];
        if (MEETS) __syncwarp();
        all[t] = all[t] + other;
    }
    if (t == 0) *out = all[0];
}
KERNEL warp_sum_volatile(const int *in, int *data, int *unused, int *out) { warp_sum<false>(in, out); }
KERNEL warp_sum_met(const int *in, int *data, int *unused, int *out) { warp_sum<true>(in, out); }

// All threads that find something store the same flag.
KERNEL stores_one_flag(const int *in, int *data, int *unused, int *out) {
    if (in[blockIdx.x * blockDim.x + threadIdx.x] > 0) *out = 1;
}

// A block of a cluster arrives at the mbarrier of the other one.
template <bool FENCED> __device__ void arrive_at_peer(int *out) {
    __shared__ alignas(8) unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    unsigned rank, peer;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        if (FENCED) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0) {
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(at), "r"(rank ^ 1));
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer) : "memory"); // seen
        asm volatile("{ .reg .pred done;\n"
                     "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
                     "@!done bra again; }" ::"r"(at) : "memory");
        out[rank] = 1;
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
KERNEL __cluster_dims__(2) arrives_fenced(const int *in, int *data, int *unused, int *out) { arrive_at_peer<true>(out); }
KERNEL __cluster_dims__(2) arrives_unfenced(const int *in, int *data, int *unused, int *out) { arrive_at_peer<false>(out); }

// Another warp waits at an mbarrier that nobody told it of.
KERNEL waits_untold(const int *in, int *data, int *unused, int *out) {
    __shared__ alignas(8) unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    }
    if (threadIdx.x == 32)
        asm volatile("{ .reg .pred done;\n"
                     "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n" // seen
                     "@!done bra again; }" ::"r"(at) : "memory");
    if (threadIdx.x == 32) *out = 1;
}

// A bulk copy refills a stage that all threads have read, with a barrier between the two and a fence or none.
template <bool FENCED> __device__ void refill(const int *in, int *out) {
    __shared__ alignas(16) int stage[64];
    __shared__ unsigned long long full;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&full), to = (unsigned)__cvta_generic_to_shared(stage);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                     "fence.mbarrier_init.release.cluster;" ::"r"(barrier) : "memory");
    }
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < 2; round++) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%2], 256;\n"
                         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                         ::"r"(to), "l"(in + 64 * round), "r"(barrier) : "memory"); // seen
        }
        asm volatile("{\n.reg .pred done;\n"
                     "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                     "@!done bra again;\n}" ::"r"(barrier), "r"(round) : "memory");
        sum += stage[threadIdx.x];
        if (FENCED) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
KERNEL refills_unfenced(const int *in, int *data, int *unused, int *out) { refill<false>(in, out); }
KERNEL refills_fenced(const int *in, int *data, int *unused, int *out) { refill<true>(in, out); }

// D = A · B of zeros in core matrices of 8 rows of 16 bytes: A has 64 × 16, B 16 × 8. The second warp learns of the first warp's wait
// for the product by a flag that orders nothing, and overwrites A.
template <bool WAITS> __device__ void overwrite_tile() {
    __shared__ alignas(1024) unsigned a[512], b[64];
    __shared__ volatile int waited;
    const unsigned t = threadIdx.x;
    for (unsigned i = t; i < 512; i += 128) a[i] = 0;
    if (t < 64) b[t] = 0;
    if (t == 0) waited = 0;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const auto descriptor = [](const void *tile) {
        return (__cvta_generic_to_shared(tile) >> 4 & 0x3fff) | 128ull >> 4 << 16 | 256ull >> 4 << 32;
    };
    float d[4];
    asm volatile("wgmma.fence.sync.aligned;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;\n"
                 "wgmma.commit_group.sync.aligned;"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "l"(descriptor(a)), "l"(descriptor(b)) : "memory");
    if (WAITS) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (t / 32 == 1) {
        while (waited == 0) {}
        a[t] = 1; // seen
    }
    if (!WAITS) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (t == 0) waited = 1;
}
KERNEL overwrites_after_its_wait(const int *in, int *data, int *unused, int *out) { overwrite_tile<true>(); }
KERNEL overwrites_after_another_wait(const int *in, int *data, int *unused, int *out) { overwrite_tile<false>(); }
