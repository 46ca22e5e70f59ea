// Control flow: calls of every kind, tables, locks, early exits, and printf.

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

// The array lives in the caller's frame while it recurses.
__device__ int quicksort(int *values, int low, int high) {
    if (low >= high) return 0;
    int pivot = values[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (values[i] < pivot) i++;
        while (values[j] > pivot) j--;
        if (i <= j) {
            int other = values[i];
            values[i++] = values[j];
            values[j--] = other;
        }
    }
    return 1 + quicksort(values, low, j) + quicksort(values, i, high);
}

extern "C" __global__ void recursion(const int *x, unsigned *numbers, int *sorted) {
    int t = threadIdx.x, values[8];
    numbers[t] = ackermann(t % 3, t % 4);
    for (int i = 0; i < 8; i++) values[i] = x[(t * 8 + i * 5) % 64];
    quicksort(values, 0, 7);
    for (int i = 0; i < 8; i++) sorted[t * 8 + i] = values[i];
}

struct Activation {
    __device__ virtual int apply(int x) const = 0;
};
struct Add : Activation {
    int amount;
    __device__ Add(int amount) : amount(amount) {}
    __device__ int apply(int x) const override { return x + amount; }
};
struct Square : Activation {
    __device__ int apply(int x) const override { return x * x; }
};

extern "C" __global__ void virtual_calls(int *out) {
    Add add(blockDim.x);
    Square square;
    const Activation *all[2] = {&add, &square};
    int t = threadIdx.x;
    out[t] = all[t % 2]->apply(t) + all[(t / 2) % 2]->apply(3);
}

typedef int (*Operation)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ Operation operations[3] = {plus, times, minus};

extern "C" __global__ void function_pointers(int *out) {
    int t = threadIdx.x;
    out[t] = operations[t % 3](t, 7);
}

extern "C" __global__ void switches(const int *x, int *out, int n) {
    int t = threadIdx.x, r;
    switch (x[t]) {
    case 0: r = n; break;
    case 1: r = n * n; break;
    case 2: r = n + 7; // falls through
    case 3: r = n / 3; break;
    case 4: r = n % 3; break;
    case 5: r = n << 2; break;
    case 6: r = ~n; break;
    case 100: r = 1; break;
    default: r = -1;
    }
    out[t] = r;
}

// A lock that every lane of every warp takes: lanes must make progress independently.
extern "C" __global__ void spin_lock(int *lock, int *count) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int *)count += threadIdx.x;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// Threads that leave early no longer count at a barrier.
extern "C" __global__ void __launch_bounds__(128, 2) early_exit(int *out, int live) {
    __shared__ int values[128];
    int t = threadIdx.x;
    if (t >= live) return;
    values[t] = t * t;
    __syncthreads();
    out[t] = values[live - 1 - t];
}

extern "C" __global__ void prints(const float *x) {
    if (threadIdx.x == 1)
        printf("%s %d %5.2f %x %c %lld %u%% %e\n", "block", blockIdx.x, x[0], 255, 'z', 1ll << 40, 7u, 0.5);
}

extern "C" __global__ void assertion_holds(const int *x, int *out) {
    assert(x[threadIdx.x] >= 0);
    out[threadIdx.x] = x[threadIdx.x] + 1;
}

// Three dimensions of grid and block.
extern "C" __global__ void geometry(int *out) {
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] =
        blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x + 10000 * threadIdx.y + 100000 * threadIdx.z;
}

template <int N, typename F>
__device__ int fold(const int *x, F f) {
    int value = 0;
#pragma unroll
    for (int i = 0; i < N; i++) value = f(value, x[i]);
    return value;
}

extern "C" __global__ void lambdas(const int *x, int *out) {
    int t = threadIdx.x, factor = t + 1;
    out[t] = fold<5>(x + t, [=](int a, int b) { return a * factor + b; });
}

extern "C" __global__ void clocks(int *out) {
    long long start = clock64();
    unsigned ticks = clock();
    __nanosleep(20);
    out[threadIdx.x] = (clock64() >= start) + 2 * ((unsigned)clock() - ticks < 1u << 30);
}

extern "C" __global__ void inline_ptx(const unsigned *x, const float *f, unsigned *out, float *sums) {
    int t = threadIdx.x, n = blockDim.x, row = 0;
    unsigned a = x[t], b = x[(t + 1) % n], r, s;
    auto put = [&](unsigned value) { out[row++ * n + t] = value; };
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p add.u32 %0, %1, 1; @!p mov.u32 %0, 7; }" : "=r"(r) : "r"(a & 1));
    put(r);
    // The majority of three bits.
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(r) : "r"(a), "r"(b), "r"(0x00ffff00u));
    put(r);
    asm("bfe.u32 %0, %1, 4, 9;" : "=r"(r) : "r"(a));
    put(r);
    asm("bfi.b32 %0, %1, %2, 8, 12;" : "=r"(r) : "r"(a), "r"(b));
    put(r);
    asm("add.cc.u32 %0, %2, %3;\n\taddc.u32 %1, 0, 0;" : "=r"(r), "=r"(s) : "r"(a), "r"(b));
    put(r);
    put(s);
    asm("mov.u32 %0, %%laneid;" : "=r"(r));
    put(r);
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r));
    put(r);
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(f + t * 4));
    sums[t] = (v.x + v.y) + (v.z + v.w);
}
