// A sparse matrix times a vector: y[row] = Σ values[row][i] · x[columns[row][i]] over the row's non-zeros, of which there are
// lengths[row], from 0 to 70. A row has room for `room` of them: values and columns are [rows, room] row-major. Behind a row's last
// non-zero stand numbers that mean nothing. x has 128 elements.
//
//     room = 5        values   a b c · ·     lengths   3
//                              · · · · ·               0
//                              d e f g h               5
//
// Blocks have 256 threads, which are eight warps. There are enough blocks for one warp per row.

extern "C" __global__ void sparse_rows(const int *lengths, const int *columns, const float *values, const float *x, float *y,
                                       unsigned rows, unsigned room) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 8 + threadIdx.x / 32;
    // Your code: which non-zeros of the row does a lane take, so that neighbouring lanes read neighbours? Which lanes take part when the
    // sums meet, and what becomes of an empty row?
}
