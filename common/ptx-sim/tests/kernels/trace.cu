// What the pictures and the debugger are tested with. `trace.ptx` is this file, compiled by `compile.py`.

extern "C" __global__ void copies(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}

extern "C" __global__ void copies_by_four(const float4* in, float4* out) { out[threadIdx.x] = in[threadIdx.x]; }

// Each lane reads a row of its own: a warp walks down a column.
extern "C" __global__ void sums_rows(const float* in, float* out, int width) {
    float sum = 0.0f;
    for (int column = 0; column < width; ++column) {
        sum += in[threadIdx.x * width + column];
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void transposes(const float* in, float* out) {
    __shared__ float tile[32][32];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void transposes_padded(const float* in, float* out) {
    __shared__ float tile[32][33];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void broadcasts(const float4* in, float4* out) {
    __shared__ float4 tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x / 16];
}

// D (16 × 8) = A (16 × 8) · B (8 × 8), both from shared memory.
extern "C" __global__ void multiplies(const unsigned* a, const unsigned* b, float* d) {
    __shared__ __align__(16) unsigned tiles[96];
    for (int i = threadIdx.x; i < 64; i += 32) tiles[i] = a[i];
    tiles[64 + threadIdx.x] = b[threadIdx.x];
    __syncwarp();
    unsigned at = __cvta_generic_to_shared(tiles + 4 * (threadIdx.x % 16));
    unsigned bt = __cvta_generic_to_shared(tiles + 64 + 4 * (threadIdx.x % 8));
    unsigned a0, a1, b0;
    float d0 = 0.0f, d1 = 0.0f, d2 = 0.0f, d3 = 0.0f;
    asm("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a0), "=r"(a1) : "r"(at) : "memory");
    asm("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(b0) : "r"(bt) : "memory");
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a0), "r"(a1), "r"(b0));
    int at_d = threadIdx.x / 4 * 8 + threadIdx.x % 4 * 2;
    d[at_d] = d0;
    d[at_d + 1] = d1;
    d[at_d + 64] = d2;
    d[at_d + 65] = d3;
}

// Lanes part in each round, and warp 0 has more to do before the barrier than the others.
extern "C" __global__ void rounds(int* out, int count) {
    __shared__ int found[128];
    int value = threadIdx.x;
    for (int round = 0; round < count; ++round) {
        if (threadIdx.x % 32 < 8) {
            value = value * 3 + 1;
            value ^= value >> 3;
        } else {
            value += round;
        }
        if (threadIdx.x < 32) {
            for (int i = 0; i < count; ++i) value = value * 5 + (value >> i);
        }
        found[threadIdx.x] = value;
        __syncthreads();
        value += found[(threadIdx.x + 32) % blockDim.x];
        __syncthreads();
    }
    out[threadIdx.x] = value;
}

__device__ __forceinline__ int twice(int value) {
    return value + value;
}

extern "C" __global__ void doubles(int* out, int count) {
    int value = threadIdx.x + 1;
    for (int i = 0; i < count; ++i) {
        value = twice(value) + count;
    }
    out[threadIdx.x] = value;
}
