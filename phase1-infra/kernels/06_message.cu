// One block hands a value to another within a launch: the value goes into `box`, then a flag says that it is there.
//
//     the block `writer`        the other block
//       *box = *x;                wait until *flag is 1
//       …                         …
//       *flag = 1;                *out = *box;
//
// The five kernels differ in what stands at the two places marked …, and in how the flag is accessed. Only the last two are
// right. A grid has two blocks of one thread.
//
// Limited by nothing: one value is moved.
// run: test memory_model // trial: memory_model
// ANCHOR: plain
// Plain accesses: the compiler may read the flag once and keep it.
extern "C" __global__ void message_plain(const float *x, float *box, unsigned *flag, float *out, unsigned writer) {
    if (blockIdx.x == writer) {
        *box = *x;
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        *out = *box;
    }
}
// ANCHOR_END: plain

// ANCHOR: volatile
// Every turn reads the flag from memory. Nothing orders the flag and the value.
extern "C" __global__ void message_volatile(const float *x, float *box, volatile unsigned *flag, float *out,
                                            unsigned writer) {
    if (blockIdx.x == writer) {
        *box = *x;
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        *out = *box;
    }
}
// ANCHOR_END: volatile

// ANCHOR: block
// An order, but one that only threads of the same block may rely on.
extern "C" __global__ void message_block(const float *x, float *box, volatile unsigned *flag, float *out,
                                         unsigned writer) {
    if (blockIdx.x == writer) {
        *box = *x;
        __threadfence_block();
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        __threadfence_block();
        *out = *box;
    }
}
// ANCHOR_END: block

// ANCHOR: fenced
// The same order for all threads of the GPU.
extern "C" __global__ void message_fenced(const float *x, float *box, volatile unsigned *flag, float *out,
                                          unsigned writer) {
    if (blockIdx.x == writer) {
        *box = *x;
        __threadfence();  // the value before the flag
        *flag = 1;
    } else {
        while (*flag == 0) {
        }
        __threadfence();  // the flag before the value
        *out = *box;
    }
}
// ANCHOR_END: fenced

// ANCHOR: released
// The accesses to the flag carry the order themselves: the store releases what came before it, the load acquires it.
extern "C" __global__ void message_released(const float *x, float *box, unsigned *flag, float *out, unsigned writer) {
    if (blockIdx.x == writer) {
        *box = *x;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
    } else {
        unsigned seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        } while (seen == 0);
        *out = *box;
    }
}
// ANCHOR_END: released
