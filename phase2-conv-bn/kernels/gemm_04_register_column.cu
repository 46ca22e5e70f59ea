// GEMM with a column of C per thread: TM elements, so that a value of B, once in a register, is used TM times.
//
//        b                       For each i a thread loads one value of B's tile and TM of A's,
//     a₀ · C₀                    and does TM multiply-adds: 1 + 1/TM loads for each instead of 2.
//     a₁ · C₁                    All lanes of a warp want the same values of A: one wavefront serves them.
//     …
//     a₇ · C₇
//
// Limited by shared memory: 9 loads for 8 multiply-adds.
// run: gemm // trial: gemm
constexpr int BM = 64, BN = 64;  // rows and columns of C per block
constexpr int BK = 8;            // step along K
constexpr int TM = 8;            // rows of C per thread
constexpr int THREADS = BM * BN / TM;
static_assert(BM * BK == THREADS && BN * BK == THREADS, "each thread must fetch exactly one value of each tile");

// ANCHOR: kernel
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float a_tile[BM][BK];  // [row][i]
    __shared__ float b_tile[BK][BN];  // [i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int y = threadIdx.x / BN * TM;  // this thread's rows and its column in the tile of C
    int x = threadIdx.x % BN;
    int a_row = threadIdx.x / BK, a_i = threadIdx.x % BK;  // what it fetches of A's tile and of B's
    int b_i = threadIdx.x / BN, b_column = threadIdx.x % BN;

    float sums[TM] = {};
    for (int first = 0; first < k; first += BK) {
        bool in_a = first_row + a_row < m && first + a_i < k;
        bool in_b = first + b_i < k && first_column + b_column < n;
        a_tile[a_row][a_i] = in_a ? a[(size_t)(first_row + a_row) * k + first + a_i] : 0.0f;
        b_tile[b_i][b_column] = in_b ? b[(size_t)(first + b_i) * n + first_column + b_column] : 0.0f;
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < BK; i++) {
            float value = b_tile[i][x];
            for (int r = 0; r < TM; r++) {
                sums[r] += a_tile[y + r][i] * value;
            }
        }
        __syncthreads();  // all threads are done with them
    }

    int column = first_column + x;
    for (int r = 0; r < TM; r++) {
        int row = first_row + y + r;
        if (row < m && column < n) {
            c[(size_t)row * n + column] = sums[r];
        }
    }
}
// ANCHOR_END: kernel
