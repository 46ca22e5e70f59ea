// Blocks of a cluster that reach into each other's shared memory. Each kernel that is right has twins that are wrong.
//
// Threads and blocks are as `tests/it/clusters.rs` launches them: 64 threads, a one-dimensional grid, clusters of 2 to 8 blocks.

#define THREADS 64

__device__ __forceinline__ unsigned rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ unsigned blocks() {
    unsigned blocks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

__device__ __forceinline__ unsigned map(const void *own, unsigned rank) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(rank));
    return there;
}

__device__ __forceinline__ float load(unsigned there) {
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
    return value;
}

__device__ __forceinline__ void store(unsigned there, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there), "f"(value) : "memory");
}

__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ void sync() { arrive(); wait(); }

// Each block reads its neighbour's tile.
extern "C" __global__ void ring(const float *in, float *out) {
    __shared__ float tile[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = in[i];
    sync();
    unsigned next = map(&tile[threadIdx.x], (rank() + 1) % blocks());
    out[i] = load(next);
    sync();
}

extern "C" __global__ void ring_without_first_sync(const float *in, float *out) {
    __shared__ float tile[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    unsigned next = map(&tile[threadIdx.x], (rank() + 1) % blocks());
    out[i] = load(next);
    sync();
}

extern "C" __global__ void ring_without_last_sync(const float *in, float *out) {
    __shared__ float tile[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = in[i];
    sync();
    unsigned next = map(&tile[threadIdx.x], (rank() + 1) % blocks());
    out[i] = load(next);
}

// An arrival without release says nothing of the tile; a fence before it does.
extern "C" __global__ void ring_relaxed(const float *in, float *out) {
    __shared__ float tile[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = in[i];
    arrive_relaxed();
    wait();
    unsigned next = map(&tile[threadIdx.x], (rank() + 1) % blocks());
    out[i] = load(next);
    sync();
}

extern "C" __global__ void ring_fenced(const float *in, float *out) {
    __shared__ float tile[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    tile[threadIdx.x] = in[i];
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    arrive_relaxed();
    wait();
    unsigned next = map(&tile[threadIdx.x], (rank() + 1) % blocks());
    out[i] = load(next);
    sync();
}

// The value goes round the cluster; each round ends with an arrival and a wait, with work between them.
extern "C" __global__ void rounds(const float *in, float *out) {
    __shared__ float box[2][THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    float value = in[i], sum = 0.0f;
    sync(); // the neighbour has begun
    for (unsigned round = 0; round < blocks(); ++round) {
        store(map(&box[round % 2][threadIdx.x], (rank() + 1) % blocks()), value);
        arrive();
        sum += value * (round + 1);
        wait();
        value = box[round % 2][threadIdx.x];
    }
    out[i] = sum;
}

extern "C" __global__ void rounds_in_one_box(const float *in, float *out) {
    __shared__ float box[THREADS];
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    float value = in[i], sum = 0.0f;
    sync();
    for (unsigned round = 0; round < blocks(); ++round) {
        store(map(&box[threadIdx.x], (rank() + 1) % blocks()), value);
        arrive();
        sum += value * (round + 1);
        wait();
        value = box[threadIdx.x];
    }
    out[i] = sum;
}

// Bins are spread over the blocks; all add to all by atomics on generic addresses.
extern "C" __global__ void histogram(const unsigned *in, unsigned *out, int n, int bins) {
    extern __shared__ unsigned part[];
    int own = bins / blocks();
    for (int bin = threadIdx.x; bin < own; bin += THREADS) part[bin] = 0;
    sync();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        unsigned bin = in[i] % bins;
        unsigned long long there;
        asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&part[bin % own]), "r"(bin / own));
        atomicAdd((unsigned *)there, 1u);
    }
    sync();
    for (int bin = threadIdx.x; bin < own; bin += THREADS) atomicAdd(&out[rank() * own + bin], part[bin]);
}

extern "C" __global__ void histogram_by_stores(const unsigned *in, unsigned *out, int n, int bins) {
    extern __shared__ unsigned part[];
    int own = bins / blocks();
    for (int bin = threadIdx.x; bin < own; bin += THREADS) part[bin] = 0;
    sync();
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) {
        unsigned bin = in[i] % bins;
        unsigned long long there;
        asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&part[bin % own]), "r"(bin / own));
        *(volatile unsigned char *)there = 1;
        ((unsigned *)there)[0] += 1;
    }
    sync();
    for (int bin = threadIdx.x; bin < own; bin += THREADS) atomicAdd(&out[rank() * own + bin], part[bin]);
}

extern "C" __global__ void beyond_the_cluster(float *out) {
    __shared__ float tile[THREADS];
    tile[threadIdx.x] = threadIdx.x;
    sync();
    out[blockIdx.x * THREADS + threadIdx.x] = load(map(&tile[threadIdx.x], rank() + 1));
    sync();
}

extern "C" __global__ void past_the_tile(float *out) {
    __shared__ float tile[THREADS];
    tile[threadIdx.x] = threadIdx.x;
    sync();
    out[blockIdx.x * THREADS + threadIdx.x] = load(map(&tile[threadIdx.x], (rank() + 1) % blocks()) + 4);
    sync();
}

extern "C" __global__ void arrives_twice(float *out) {
    arrive();
    arrive();
    wait();
    out[blockIdx.x * THREADS + threadIdx.x] = rank();
}

extern "C" __global__ void waits_unasked(float *out) {
    wait();
    out[blockIdx.x * THREADS + threadIdx.x] = rank();
}

// Rank 0 waits for a flag that nobody sets at a barrier of its own; the others for rank 0.
extern "C" __global__ void stuck(float *out) {
    if (rank() == 0 && threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
    else if (rank() != 0) sync();
    out[blockIdx.x * THREADS + threadIdx.x] = rank();
}

// The cluster's shape and the block's place in it.
extern "C" __global__ void places(unsigned *out) {
    if (threadIdx.x != 0) return;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned x, y, z, cx, cy, cz;
    asm volatile("mov.u32 %0, %%cluster_ctaid.x; mov.u32 %1, %%cluster_ctaid.y; mov.u32 %2, %%cluster_ctaid.z;"
                 : "=r"(x), "=r"(y), "=r"(z));
    asm volatile("mov.u32 %0, %%clusterid.x; mov.u32 %1, %%clusterid.y; mov.u32 %2, %%clusterid.z;"
                 : "=r"(cx), "=r"(cy), "=r"(cz));
    out[block] = rank() | x << 4 | y << 6 | z << 8 | cx << 12 | cy << 16 | cz << 20 | blocks() << 24;
}
