// Copies from global to shared memory that no register sees and no thread waits for (PTX ISA, "cp.async"; compute
// capability 8.0 and up). What was copied is there after `copy_groups_arrived` for the thread that asked, and for the others of
// the block after a barrier that follows.
// run: gemm
#pragma once

// 16 bytes between multiples of 16, past the L1 cache; zeros, and nothing is read, unless `inside`.
__device__ inline void copy16(void *to, const void *from, bool inside) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
}

// Ends a group: the copies that this thread asked for since the last one.
__device__ inline void end_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the last PENDING groups of this thread are on their way.
template <int PENDING> __device__ void copy_groups_arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
