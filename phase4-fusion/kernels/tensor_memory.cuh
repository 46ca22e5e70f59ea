// Blackwell's tensor memory, 128 lanes × 512 columns of 32 bits beside each SM's tensor cores, and the product whose sums lie there.
//
// PTX ISA, "TensorCore 5th Generation Family Instructions" (tcgen05). An address has its lane in the upper 16 bits, and its column in
// the lower ones. By the manual: no such GPU was there to compare with.
// run: blackwell
#pragma once
#include "swizzled.cuh"

// ANCHOR: memory
// Takes columns, a power of two from 32 on, for the whole block, and stores their address in shared memory. A whole warp asks.
__device__ inline void take_columns(unsigned to, unsigned columns) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "r"(columns) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}

__device__ inline void give_columns_back(unsigned address, unsigned columns) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns));
}

// 16 lanes × 64 columns into the registers of a warp, as `SumPlace` says. Warp w of four reaches lanes 32w to 32w + 31 alone.
#define LOADED(i) "=f"(i)
__device__ inline void load_sums(float (&d)[32], unsigned address) {
    asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 {" WGMMA_REGISTERS_32 "}, [%32];\n"
                 "tcgen05.wait::ld.sync.aligned;"
                 : WGMMA_OPERANDS_32(LOADED)
                 : "r"(address)
                 : "memory");
}

// Beside a barrier of threads: orders tensor memory's work before it and after it.
__device__ inline void tensor_fence_before() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ inline void tensor_fence_after() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}
// ANCHOR_END: memory

// ANCHOR: product
// What a product is, for all of its kind (PTX ISA, "Instruction descriptor"): sums in f32; 0 for f16 or 1 for bf16; whether B lies row
// by row, [K, N]; N and M.
template <class Element>
constexpr unsigned FORMAT = 0;
template <>
constexpr unsigned FORMAT<BF16> = 1;
template <class Element, Layout LAYOUT, int M, int N>
constexpr unsigned INSTRUCTION = 1 << 4 | FORMAT<Element> << 7 | FORMAT<Element> << 10 | (LAYOUT == ROW_MAJOR) << 16 | N / 8 << 17 | M / 16 << 24;

// D = A · B + D, or A · B alone, for 16 values of i: asked for by one thread. Descriptors of tiles are wgmma's, with bit 46.
__device__ inline void tensor_product(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d),
                 "l"(a | 1ull << 46), "l"(b | 1ull << 46), "r"(instruction), "r"((int)add)
                 : "memory");
}

// Lets this thread's products so far arrive at the barrier, once they are complete: their sums are there, and their tiles are read.
__device__ inline void tensor_commit(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
// ANCHOR_END: product
