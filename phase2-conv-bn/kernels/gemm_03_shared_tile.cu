// GEMM through shared memory: a block fetches a tile of A and a tile of B once, and all its threads use them.
//
//              B tile [32 of K][32 columns]     Each value fetched serves the 32 threads of its row or column,
//                 ┌────┐                         so the global loads of a block fall by a factor of 32.
//                 └────┘                         The tiles walk along K together.
//       ┌────┐    ┌────┐
//       └────┘    └────┘ C tile, an element per thread
//     A tile [32 rows][32 of K]
//
// Limited by shared memory: still two loads for each multiply-add, only from nearer by.
// run: gemm // trial: gemm
constexpr int BM = 32, BN = 32;  // rows and columns of C per block, which has as many threads
constexpr int BK = 32;           // step along K
static_assert(BM == BN && BN == BK, "a thread must fetch one value of each tile, at its own place");

// ANCHOR: kernel
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float a_tile[BM][BK];  // [row][i]
    __shared__ float b_tile[BK][BN];  // [i][column]
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * BM + y;
    int column = blockIdx.x * BN + x;

    float sum = 0.0f;
    for (int first = 0; first < k; first += BK) {
        // Zeros beyond the edges add nothing.
        a_tile[y][x] = row < m && first + x < k ? a[(size_t)row * k + first + x] : 0.0f;
        b_tile[y][x] = first + y < k && column < n ? b[(size_t)(first + y) * n + column] : 0.0f;
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < BK; i++) {
            sum += a_tile[y][i] * b_tile[i][x];
        }
        __syncthreads();  // all threads are done with them
    }
    if (row < m && column < n) {
        c[(size_t)row * n + column] = sum;
    }
}
// ANCHOR_END: kernel
