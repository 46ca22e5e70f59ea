// Right values, but each piece of 16 bytes has a copy of its own.

__device__ unsigned shared_address(const void *at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// A phase ends when that many threads have arrived and all bytes are in.
__device__ void init(unsigned long long *barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and tells how many bytes the phase has to wait for.
__device__ void expect(unsigned long long *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Asks the engine for `bytes` neighbouring bytes, and goes on. Both addresses and `bytes` are multiples of 16.
__device__ void copy(float *to, const float *from, unsigned bytes, unsigned long long *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Waits until the phase of that parity is over.
__device__ void wait(unsigned long long *barrier, unsigned parity) {
    unsigned done = 0;
    while (!done) {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    }
}

extern "C" __global__ void add_rows(const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ alignas(16) float tile[10][64]; // line l is row top + l - 1
    __shared__ unsigned long long arrived;
    unsigned left = 64 * blockIdx.x, top = 8 * blockIdx.y, thread = threadIdx.x;
    if (thread == 0) {
        init(&arrived, 1);
    }
    __syncthreads();
    unsigned first = top == 0 ? 1 : 0, end = min(10, rows - top + 1);
    if (thread == 0) {
        unsigned bytes = 4 * min(64, columns - left);
        expect(&arrived, (end - first) * bytes);
        for (unsigned line = first; line < end; ++line) {
            for (unsigned i = 0; i < bytes / 4; i += 4) {
                copy(&tile[line][i], x + (top + line - 1) * columns + left + i, 16, &arrived);
            }
        }
    }
    wait(&arrived, 0);
    unsigned column = left + thread;
    for (unsigned line = 1; line <= 8; ++line) {
        unsigned row = top + line - 1;
        if (row < rows && column < columns) {
            float sum = tile[line][thread];
            if (row > 0) {
                sum += tile[line - 1][thread];
            }
            if (row + 1 < rows) {
                sum += tile[line + 1][thread];
            }
            y[row * columns + column] = sum;
        }
    }
}
