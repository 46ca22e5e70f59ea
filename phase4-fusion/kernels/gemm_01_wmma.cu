// GEMM on the tensor cores, as simply as it goes: a warp computes 16 × 16 elements of C, straight from global memory.
//
//                 B [16 of K][16 columns]      One instruction of a warp is a product of 16 × 16 × 16: 4096 multiply-adds,
//                 ┌────┐                       where 32 lanes with an fma each take 128 instructions for them.
//                 └────┘
//        ┌────┐   ┌────┐
//        └────┘   └────┘  C, a warp each
//        A [16 rows][16 of K]
//
// M, N and K are multiples of 16, since a fragment has no edge. Limited by memory: each value that is loaded serves 16 multiply-adds,
// and the tensor cores, which could do thousands in the time that a sector takes to come, wait.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "wmma.cuh"

constexpr int BM = 16, BN = 64;  // rows and columns of C per block: its warps stand next to each other
constexpr int BK = 16;           // of K per instruction
constexpr int THREADS = BN / 16 * 32;

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const typename Element::Value *a, const typename Element::Value *b, typename Element::Value *c, int m, int n,
                     int k, const Epilogue &epilogue) {
    __shared__ __align__(32) float places[THREADS / 32][16 * 16];  // for the sums of each warp
    int tiles = (n + BN - 1) / BN, warp = threadIdx.x / 32;
    int row = blockIdx.x / tiles * BM;
    int column = blockIdx.x % tiles * BN + warp * 16;
    if (column >= n) {
        return;
    }
    float sums[8] = {};
    for (int i = 0; i < k; i += BK) {
        Fragment<Element> rows, columns;
        load_a(rows, a + (size_t)row * k + i, k);
        load_b<LAYOUT>(columns, LAYOUT == ROW_MAJOR ? b + (size_t)i * n + column : b + (size_t)column * k + i,
                       LAYOUT == ROW_MAJOR ? n : k);
        multiply<LAYOUT>(sums, rows, columns);
    }
    finish_fragment<Element>(places[warp], sums, epilogue, c, row, column, m, n);
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_KERNEL, (THREADS), gemm)
