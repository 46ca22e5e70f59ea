// Two blocks that multiply as one (cta_group::2), and blocks that take the place of others that have not begun.
//
// PTX ISA, "TensorCore 5th Generation Family Instructions" and "clusterlaunchcontrol". By the manual: no such GPU was there to compare with.
// run: blackwell
#pragma once
#include "tensor_memory.cuh"

// ANCHOR: pair
// Columns of both blocks: a whole warp of each asks.
__device__ inline void take_columns_of_pair(unsigned to, unsigned columns) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "r"(columns) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
}

__device__ inline void give_columns_of_pair_back(unsigned address, unsigned columns) {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns));
}

// A box into this block's shared memory, whose bytes arrive at the barrier of the pair's first block.
__device__ inline void copy_box_for_pair(unsigned to, const TensorMap &map, int x, int y, unsigned barrier) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %4, 0;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%2, %3}], [there];\n"
        "}" ::"r"(to),
        "l"(&map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}

// `tensor_product` of a pair, asked for by a thread of its first block: each block has half of A's rows, of B's columns and of D's rows.
__device__ inline void tensor_product_of_pair(unsigned d, unsigned long long a, unsigned long long b, unsigned instruction, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(d),
                 "l"(a | 1ull << 46), "l"(b | 1ull << 46), "r"(instruction), "r"((int)add)
                 : "memory");
}

// `tensor_commit`, to the barriers of both blocks.
__device__ inline void tensor_commit_to_pair(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(barrier),
                 "h"((unsigned short)3)
                 : "memory");
}
// ANCHOR_END: pair

// ANCHOR: next
constexpr int ANSWER_BYTES = 16;

// Asks for a cluster of the grid that has not begun. The answer arrives at `barrier`, in each block of this one.
__device__ inline void ask_for_cluster(unsigned answer, unsigned barrier) {
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];" ::"r"(answer),
        "r"(barrier)
        : "memory");
}

// `blockIdx.x` of the first block of that cluster, which does not begin any more; -1: none is left.
__device__ inline int first_block(unsigned answer) {
    int block = -1;
    asm volatile(
        "{\n"
        ".reg .b128 answer;\n"
        ".reg .pred found;\n"
        "ld.shared::cta.b128 answer, [%1];\n"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 found, answer;\n"
        "@found clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n"
        "}"
        : "+r"(block)
        : "r"(answer)
        : "memory");
    return block;
}
// ANCHOR_END: next
