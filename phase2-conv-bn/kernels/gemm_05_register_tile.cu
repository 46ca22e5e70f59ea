// GEMM with a square of C per thread: TM × TN elements from TM values of A and TN of B, all in registers.
//
//           b₀ … b₇              For each i a thread loads TM + TN values and does TM · TN multiply-adds:
//     a₀  ┌─────────┐            16 loads for 64, a quarter for each.
//     …   │ 64 sums │            The sums alone take 64 registers, so fewer warps fit an SM;
//     a₇  └─────────┘            a thread's own independent multiply-adds now hide the latency.
//
// Limited by shared memory, still: loads of one word, and lanes that meet in one bank.
// run: gemm // trial: gemm
constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 8;      // rows and columns of C per thread
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int BLOCKS = 2;          // at a time on an SM: 128 registers per thread

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float a_tile[BM][BK];  // [row][i]
    __shared__ float b_tile[BK][BN];  // [i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int y = threadIdx.x / (BN / TN) * TM;  // this thread's rows and columns in the tile of C
    int x = threadIdx.x % (BN / TN) * TN;

    float sums[TM][TN] = {};
    for (int first = 0; first < k; first += BK) {
#pragma unroll  // so that all loads are asked for before the first is stored
        for (int s = 0; s < BM * BK / THREADS; s++) {
            int row = threadIdx.x / BK + s * (THREADS / BK), i = threadIdx.x % BK;
            bool inside = first_row + row < m && first + i < k;
            a_tile[row][i] = inside ? a[(size_t)(first_row + row) * k + first + i] : 0.0f;
        }
#pragma unroll
        for (int s = 0; s < BK * BN / THREADS; s++) {
            int i = threadIdx.x / BN + s * (THREADS / BN), column = threadIdx.x % BN;
            bool inside = first + i < k && first_column + column < n;
            b_tile[i][column] = inside ? b[(size_t)(first + i) * n + first_column + column] : 0.0f;
        }
        __syncthreads();  // the tiles are complete

#pragma unroll  // so that the loads of the next i begin during this one
        for (int i = 0; i < BK; i++) {
            float rows[TM], columns[TN];
            for (int r = 0; r < TM; r++) {
                rows[r] = a_tile[y + r][i];
            }
            for (int s = 0; s < TN; s++) {
                columns[s] = b_tile[i][x + s];
            }
            for (int r = 0; r < TM; r++) {
                for (int s = 0; s < TN; s++) {
                    sums[r][s] += rows[r] * columns[s];
                }
            }
        }
        __syncthreads();  // all threads are done with them
    }

#pragma unroll  // so that the sums are registers and no array in memory
    for (int r = 0; r < TM; r++) {
#pragma unroll
        for (int s = 0; s < TN; s++) {
            int row = first_row + y + r;
            int column = first_column + x + s;
            if (row < m && column < n) {
                c[(size_t)row * n + column] = sums[r][s];
            }
        }
    }
}
// ANCHOR_END: kernel
