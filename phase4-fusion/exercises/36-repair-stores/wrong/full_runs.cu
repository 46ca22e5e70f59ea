// Copies 128 sums where fewer exist.

// Asks for a copy of `bytes` bytes of shared memory, a multiple of 16, to global memory, and goes on.
__device__ void store_run(float *to, const float *from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to),
                 "r"(static_cast<unsigned>(__cvta_generic_to_shared(from))), "r"(bytes)
                 : "memory");
}

// Waits until all copies that this thread asked for have read shared memory.
__device__ void stores_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Waits until they are complete.
__device__ void stores_done() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Shows what this thread has stored in shared memory to copies.
__device__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

extern "C" __global__ void running_sums(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ alignas(16) float run[128];
    unsigned thread = threadIdx.x, first = 128 * blockIdx.x, column = first + thread;
    float sum = 0.0f;
    for (unsigned row = 0; row < rows; ++row) {
        sum += column < columns ? x[row * columns + column] : 0.0f;
        if (thread == 0) {
            stores_read();
        }
        __syncthreads();
        run[thread] = sum;
        fence_async_proxy();
        __syncthreads();
        if (thread == 0) {
            store_run(y + row * columns + first, run, sizeof run);
        }
    }
    if (thread == 0) {
        stores_done();
    }
}
