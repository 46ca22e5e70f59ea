// Hopper's own instructions, one function each: barriers in memory, bulk copies of boxes, products of a warpgroup.
//
// PTX ISA: "mbarrier", "cp.async.bulk.tensor", "wgmma". Addresses of shared memory are the 32-bit ones that these take.
// run: gemm
#pragma once
#include "elements.cuh"
// What the driver encodes of a tensor: `Stream::tensor_map` makes it.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

__device__ inline unsigned shared_address(const void *pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// ANCHOR: barriers
__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to bulk copies, and to the other blocks of the cluster.
__device__ inline void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One arrival, which also announces bytes that a copy will bring.
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// An arrival at the same barrier of another block of the cluster.
__device__ inline void barrier_arrive_at(unsigned barrier, unsigned block) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}" ::"r"(barrier), "r"(block) : "memory");
}

// Returns once the phase with this parity is over.
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(barrier), "r"(parity) : "memory");
}
// ANCHOR_END: barriers

// ANCHOR: copies
// The box at (x, y) of a tensor into shared memory, where `barrier` counts its bytes; with MULTICAST into that of each block in
// `blocks`, a bit per rank, at the same places.
template <bool MULTICAST = false>
__device__ inline void copy_box_to(unsigned blocks, unsigned to, const TensorMap &map, int x, int y, unsigned barrier) {
    if (MULTICAST) {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
            "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((unsigned short)blocks)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
            "l"(&map), "r"(x), "r"(y), "r"(barrier)
            : "memory");
    }
}

// Channels of pixels of an image, in im2col mode: the first at (x, y) of `image`, those of the others as the map says, each moved by
// `right` and `down`.
template <bool MULTICAST = false>
__device__ inline void copy_pixels_to(unsigned blocks, unsigned to, const TensorMap &map, int channel, int x, int y, int image, int right,
                                      int down, unsigned barrier) {
    if (MULTICAST) {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9;" ::"r"(to),
            "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier), "h"((unsigned short)right), "h"((unsigned short)down),
            "h"((unsigned short)blocks)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
            "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier), "h"((unsigned short)right), "h"((unsigned short)down)
            : "memory");
    }
}

// A box of a tensor of three dimensions.
__device__ inline void copy_rows(unsigned to, const TensorMap &map, int x, int y, int z, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
}

__device__ inline void prefetch_map(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// A box of shared memory into the tensor, but for what lies outside it.
__device__ inline void store_box(const TensorMap &map, int x, int y, unsigned from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y),
                 "r"(from)
                 : "memory");
}

// The same with channels of pixels of an image.
__device__ inline void store_pixels(const TensorMap &map, int channel, int x, int y, int image, unsigned from) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map), "r"(channel),
                 "r"(x), "r"(y), "r"(image), "r"(from)
                 : "memory");
}

__device__ inline void stores_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most LEFT groups of this thread's stores have still to read shared memory.
template <int LEFT>
__device__ inline void stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}

// Waits until all of this thread's stores are complete.
__device__ inline void stores_done() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Orders this thread's ordinary stores to shared memory before bulk copies and wgmma that read them.
__device__ inline void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// ANCHOR_END: copies

// ANCHOR: cluster
__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The same place in the shared memory of another block of the cluster.
__device__ inline unsigned shared_address_in(unsigned address, unsigned block) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

// Reads four neighbours of another block's shared memory.
__device__ inline void read_four(float (&four)[4], unsigned there) {
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four[0]), "=f"(four[1]), "=f"(four[2]), "=f"(four[3]) : "r"(there) : "memory");
}

__device__ inline void read_four(int (&four)[4], unsigned there) {
    asm volatile("ld.shared::cluster.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3]) : "r"(there) : "memory");
}

__device__ inline void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// ANCHOR_END: cluster

// ANCHOR: dependent
// Lets the next launch of the stream begin wherever an SM has room, if it was launched as a dependent one.
__device__ inline void launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;");
}

// Waits until the launches before are complete and what they wrote is visible.
__device__ inline void wait_for_launches_before() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
// ANCHOR_END: dependent

// Threads of some warps alone; barrier 0 belongs to __syncthreads.
__device__ inline void sync_warps(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

template <int REGISTERS>
__device__ inline void give_registers_back() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ inline void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// ANCHOR: wgmma
__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT>
__device__ inline void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Keeps the compiler from moving what it knows of these values across this place: products that it does not see are writing or reading
// them until a wait.
template <int COUNT>
__device__ inline void hold(float (&values)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+f"(values[i])::"memory");
    }
}

template <int COUNT>
__device__ inline void hold(unsigned (&values)[COUNT][4]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+r"(values[i][0]), "+r"(values[i][1]), "+r"(values[i][2]), "+r"(values[i][3])::"memory");
    }
}

// Where a tile with rows of 128 bytes lies, swizzled by 128 bytes: `leading` and `stride` in bytes (PTX ISA, "Matrix
// Descriptor Format"). The tile begins at a multiple of 1024 bytes.
__device__ inline unsigned long long descriptor(unsigned address, unsigned leading, unsigned stride) {
    return (unsigned long long)(address >> 4 & 0x3fff) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
// ANCHOR_END: wgmma

__device__ inline void store_pair(unsigned to, float first, float second) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}

__device__ inline void store_pair(unsigned to, int first, int second) {
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(to), "r"(first), "r"(second) : "memory");
}
