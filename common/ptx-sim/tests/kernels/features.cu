// What a simulator may get wrong although no rule is broken. `features.ptx` is this file, compiled by `compile.py`.

extern "C" __device__ int printf(const char*, ...);

extern "C" __global__ void prints(int n) {
    printf("%d|%5d|%-5d|%05d|%+d|% d|%i\n", n, n, n, n, n, n, -n);
    printf("%u %x %X %o %#x %#o %c %s %%\n", n, n, n, n, n, n, 'c', "text");
    printf("%lld %llu %lx %hd\n", -1234567890123ll, 1234567890123ull, 0xabcdef0123l, (short)n);
    printf("%f %.2f %10.3f %-10.1f| %e %.3E %g %g %G %a\n", 1.5, 2.345, 3.14159, 2.5, 12345.678, 0.00012, 0.0001, 1e10, 1e-10, 1.0);
    printf("%*d %.*f %8s|%-8s|%.2s\n", 6, n, 1, 2.55, "right", "left", "cut");
    printf("%f %f %f %5.1f\n", 1.0 / 0.0, -1.0 / 0.0, __longlong_as_double(0x7ff8000000000000), -0.0);
    printf("no arguments\n");
}

extern "C" __global__ void prints_by_thread(int* counts) {
    if (threadIdx.x % 16 == 0) counts[threadIdx.x / 16] = printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
}

__device__ __noinline__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

// Each lane recurses to a depth of its own.
extern "C" __global__ void recurses(int* out) {
    out[threadIdx.x] = fibonacci(threadIdx.x % 12);
}

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negated(int x) { return -x; }
__device__ int (*const operations[3])(int) = {twice, square, negated};

// Lanes of one warp call different functions through one pointer.
extern "C" __global__ void calls_indirectly(int* out) {
    out[threadIdx.x] = operations[threadIdx.x % 3](threadIdx.x);
}

// Each block waits for the one before it: more blocks than cores must all make progress, whatever order they start in.
extern "C" __global__ void chain(volatile int* turn, int* out) {
    if (threadIdx.x == 0) {
        while (*turn != (int)(gridDim.x - 1 - blockIdx.x)) {
        }
        out[blockIdx.x] = *turn;
        __threadfence();
        *turn = *turn + 1;
    }
}

// A lock that lanes of one warp take from each other: needs each lane to make progress by itself.
extern "C" __global__ void lock(int* mutex, int* count) {
    bool done = false;
    while (!done) {
        if (atomicCAS(mutex, 0, 1) == 0) {
            *(volatile int*)count = *(volatile int*)count + 1;
            __threadfence();
            atomicExch(mutex, 0);
            done = true;
        }
    }
}

// The waiting lane spins until another lane of its warp has set the flag.
extern "C" __global__ void lane_waits_for_lane(volatile int* flag, int* out) {
    if (threadIdx.x == 0) {
        while (*flag == 0) {
        }
        out[0] = 7;
    } else {
        *flag = 1;
    }
}

// Threads that have exited no longer count at a barrier.
extern "C" __global__ void early_exit(int* out, int live) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (threadIdx.x >= live) return;
    atomicAdd(&sum, 1);
    __syncthreads();
    out[threadIdx.x] = sum;
    if (threadIdx.x % 2) return;
    __syncthreads();
    if (threadIdx.x == 0) out[0] = 100 + sum;
}

struct Point {
    float x;
    double y;
    char tag;
};

extern "C" __global__ void __launch_bounds__(64) takes_a_struct(Point point, unsigned char scale, double* out) {
    __shared__ double staged[64];
    staged[threadIdx.x] = point.x * scale + point.y + point.tag;
    __syncthreads();
    out[threadIdx.x] = staged[63 - threadIdx.x];
}

// All blocks are wrong, the first one long after the others.
extern "C" __global__ void first_block_fails_last(int* out, int slow) {
    int waited = 0;
    if (blockIdx.x == 0) {
        for (int i = 0; i < slow; ++i) waited += *(volatile int*)out;
    }
    out[1000 + blockIdx.x + waited] = 1;
}

extern "C" __global__ void adds(const float* a, const float* b, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

extern "C" __global__ void sums_dynamic_shared(const unsigned* in, unsigned* out) {
    extern __shared__ unsigned staged[];
    staged[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) staged[threadIdx.x] += staged[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = staged[0];
}
