// Copies without a tensor map: bulk copies of a run of bytes, which one thread asks for, and `cp.async` of one value per thread.
//
// PTX ISA: "cp.async.bulk", "cp.reduce.async.bulk", "cp.async". Runs begin at multiples of 16 bytes and are as long.
// run: gemm
#pragma once
#include "hopper.cuh"
// ANCHOR: runs
// A run of global memory into shared memory, where `barrier` counts its bytes.
__device__ inline void copy_run(void *to, const void *from, unsigned bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// A run of shared memory into global memory; `stores_commit` and a wait for stores follow.
__device__ inline void store_run(void *to, const void *from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "r"(bytes)
                 : "memory");
}

// The same, but each word is added to the one in global memory, atomically.
__device__ inline void add_run(unsigned *to, const unsigned *from, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}
// ANCHOR_END: runs

// ANCHOR: words
// One value of global memory into shared memory; `copies_commit` and a wait for copies follow.
__device__ inline void copy_word(float *to, const float *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// Ends a group: the words that this thread asked for since the last one.
__device__ inline void copies_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the last LEFT groups of this thread are under way.
template <int LEFT>
__device__ inline void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
// ANCHOR_END: words

// ANCHOR: peer
// The value at the same place in the shared memory of another block of the cluster.
__device__ inline float peer_value(const float *value, unsigned block) {
    float there;
    asm volatile(
        "{\n"
        ".reg .b32 place;\n"
        "mapa.shared::cluster.u32 place, %1, %2;\n"
        "ld.shared::cluster.f32 %0, [place];\n"
        "}"
        : "=f"(there)
        : "r"(shared_address(value)), "r"(block)
        : "memory");
    return there;
}
// ANCHOR_END: peer
