// The kernels of the benchmarks. `kernels.ptx` is this file, compiled by `../tests/kernels/compile.py`.

#define TILE 32

// C = A · B, square, n a multiple of TILE: each block stages tiles of A and B in shared memory.
extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; k += TILE) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// C = A · B straight from global memory.
extern "C" __global__ void naive(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// C = A · B: a block of 256 threads computes 64 × 64, a thread 4 × 4 in registers.
extern "C" __global__ void registers(const float* a, const float* b, float* c, int n) {
    __shared__ float tile_a[16][64]; // [k, row]
    __shared__ float tile_b[16][64]; // [k, column]
    int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    const float* from_a = a + (blockIdx.y * 64 + threadIdx.x / 4) * n + threadIdx.x % 4 * 4;
    const float* from_b = b + threadIdx.x / 16 * n + blockIdx.x * 64 + column;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        float4 four = *(const float4*)(from_a + k);
        float* to = &tile_a[threadIdx.x % 4 * 4][threadIdx.x / 4];
        to[0] = four.x, to[64] = four.y, to[128] = four.z, to[192] = four.w;
        *(float4*)&tile_b[threadIdx.x / 16][column] = *(const float4*)(from_b + k * n);
        __syncthreads();
        for (int i = 0; i < 16; ++i) {
            float4 p = *(float4*)&tile_a[i][row], q = *(float4*)&tile_b[i][column];
            float left[4] = {p.x, p.y, p.z, p.w}, right[4] = {q.x, q.y, q.z, q.w};
            for (int y = 0; y < 4; ++y)
                for (int x = 0; x < 4; ++x) sum[y][x] += left[y] * right[x];
        }
        __syncthreads();
    }
    for (int y = 0; y < 4; ++y) {
        float4 four = {sum[y][0], sum[y][1], sum[y][2], sum[y][3]};
        *(float4*)(c + (blockIdx.y * 64 + row + y) * n + blockIdx.x * 64 + column) = four;
    }
}

__device__ float warp_sum(float x) {
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

// Softmax of rows of n elements, a warp a row: reductions by shuffles.
extern "C" __global__ void softmax(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float largest = -__int_as_float(0x7f800000);
    for (int i = lane; i < n; i += 32) largest = fmaxf(largest, a[row * n + i] + b[i]);
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, offset));
    float sum = 0.0f;
    for (int i = lane; i < n; i += 32) sum += __expf(a[row * n + i] + b[i] - largest);
    float scale = 1.0f / warp_sum(sum);
    for (int i = lane; i < n; i += 32) c[row * n + i] = __expf(a[row * n + i] + b[i] - largest) * scale;
}

// y = a · x + y over pairs of halves.
extern "C" __global__ void halves(const unsigned* a, const unsigned* b, unsigned* c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned x = a[i], y = b[i];
        for (int k = 0; k < 8; ++k) asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(y) : "r"(x), "r"(0x2c002c00));
        c[i] = y;
    }
}

// A chain of matrix products in a warp.
extern "C" __global__ void tensor(const unsigned* a, const unsigned* b, float* c, int n) {
    int lane = threadIdx.x % 32;
    float d[4] = {};
    for (int k = 0; k < n; k += 8) {
        unsigned p = a[k * 8 + lane], q = a[k * 8 + 32 + lane], r = b[k * 4 + lane];
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(p), "r"(q), "r"(r));
    }
    c[blockIdx.x * 32 + lane] = d[0] + d[1] + d[2] + d[3];
}
