// One mistake a kernel: what the simulator must notice. `faults.ptx` is this file, compiled by `compile.py`.

extern "C" __global__ void read_past_the_end(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i % n] = in[i] * 2.0f;
}

extern "C" __global__ void write_past_the_end(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 1.0f;
}

extern "C" __global__ void write_through_null(float* out) {
    out[threadIdx.x] = 1.0f;
}

extern "C" __global__ void shared_past_the_end(float* out) {
    __shared__ float tile[32];
    tile[threadIdx.x + 1] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void shared_read_past_the_end(float* out) {
    extern __shared__ float staged[];
    out[threadIdx.x] = staged[threadIdx.x];
}

extern "C" __global__ void local_past_the_end(int* out, int n) {
    int values[8];
    for (int i = 0; i < n; ++i) values[i] = i * threadIdx.x;
    out[threadIdx.x] = values[n - 1];
}

extern "C" __global__ void misaligned_vector(const float* in, float4* out) {
    out[threadIdx.x] = *reinterpret_cast<const float4*>(in + threadIdx.x);
}

extern "C" __global__ void reads_freed(const float* in, float* out) {
    out[threadIdx.x] = in[threadIdx.x];
}

__constant__ float weights[4] = {1.0f, 2.0f, 3.0f, 4.0f};

extern "C" __global__ void write_to_constant(int at) {
    // Written as C++, the compiler would see the mistake and put a trap here.
    asm volatile("st.f32 [%0], %1;" ::"l"(weights + at), "f"(0.0f));
}

extern "C" __global__ void divergent_barrier(float* data) {
    if (threadIdx.x < 40) {
        data[threadIdx.x] = 1.0f;
        __syncthreads();
    }
    data[threadIdx.x] += 1.0f;
    __syncthreads();
}

extern "C" __global__ void half_warp_barrier(float* data) {
    if (threadIdx.x < 16) {
        data[threadIdx.x] += 1.0f;
        __syncthreads();
        data[threadIdx.x] *= 2.0f;
    } else {
        asm volatile("bar.sync 1;");
    }
}

extern "C" __global__ void shuffle_outside_its_mask(int* data) {
    data[threadIdx.x] = __shfl_down_sync(0x0000ffff, data[threadIdx.x], 1);
}

extern "C" __global__ void shuffle_that_some_never_reach(int* data) {
    if (threadIdx.x % 2 == 0) {
        data[threadIdx.x] = __shfl_xor_sync(0xffffffff, data[threadIdx.x], 2);
    } else {
        __syncthreads();
    }
}

extern "C" __global__ void endless(volatile int* flag) {
    while (*flag == 0) {
    }
}

extern "C" __global__ void traps(const int* sizes) {
    if (sizes[threadIdx.x] < 0) __trap();
}

#define assert(condition) \
    if (!(condition)) __assertfail(#condition, "faults.cu", __LINE__, __func__, 1)
extern "C" __device__ __noinline__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);

extern "C" __global__ void asserts(const int* sizes) {
    assert(sizes[threadIdx.x] >= 0);
}

__device__ __forceinline__ float at(const float* data, int index) {
    return data[index];
}

extern "C" __global__ void inlined(const float* in, float* out) {
    out[threadIdx.x] = at(in, threadIdx.x * 2);
}

// Two calls that are not in tail position, and an end that never comes: the compiler can make no loop of it.
__device__ __noinline__ int up(volatile int* data, int depth) {
    if (data[0] != 0) return depth;
    return up(data, depth + 1) * up(data, depth + 2) + 1;
}

extern "C" __global__ void endless_recursion(int* out) {
    out[threadIdx.x] = up(out, 1);
}

extern "C" __global__ void calls_nothing(void (*callee)(int*), int* out) {
    callee(out);
}
