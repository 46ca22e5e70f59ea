// Copies from global to shared memory that no register sees and no thread waits for (PTX ISA, "cp.async"; compute
// capability 8.0 and up). What was copied is there after `copies_arrived` for the thread that asked, and for the others of
// the block after a barrier that follows.
// run: gemm // trial: gemm
#pragma once

// 16 bytes between multiples of 16, past the L1 cache; zeros, and nothing is read, unless `inside`.
__device__ inline void copy16(float *to, const float *from, bool inside) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
}

// 4 bytes between multiples of 4.
__device__ inline void copy4(float *to, const float *from, bool inside) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    int bytes = inside ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
}

// The same for what is inside anyway.
__device__ inline void copy16(float *to, const float *from) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}
__device__ inline void copy4(float *to, const float *from) {
    unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from) : "memory");
}

// Ends a group: the copies that this thread asked for since the last one.
__device__ inline void end_copy_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the last PENDING groups of this thread are on their way.
template <int PENDING> __device__ void copy_groups_arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Waits for all copies of this thread.
__device__ inline void copies_arrived() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
