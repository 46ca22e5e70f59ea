// A sparse matrix times a vector, y = A·x, in CSR: equal shares of non-zeros and ends of rows, along the path that merges them.
//
//     the list to walk      a a a ▌ a ▌ ▌ a a a a a ▌ …        a: add a non-zero's product; ▌: store the row's sum
//     thread 0              [a a a ▌ a]
//     thread 1                        [▌ ▌ a a a]              a thread's share: ITEMS steps, whatever rows they belong to
//     thread 2                                   [a a ▌ …      its first row needs what the threads before it began
//
// The path has rows + non-zeros steps. Where its step d lies, a binary search says: r rows have ended before it and d − r non-zeros
// have been added, with starts[r] as the last start ≤ d − r. A block reads its non-zeros side by side, leaves their products in
// shared memory, and its threads walk there. A sum that a thread began and another one ends travels by a scan over the block's
// threads; from block to block, through `carry`, which a second kernel adds in a fixed order.
//
// Limited by memory, and by the scan's and the searches' instructions.
// run: spmv // trial: spmv

constexpr unsigned THREADS = 128;
constexpr unsigned WARPS = THREADS / 32;
// Steps of a thread; an odd number, so that the threads' walks begin in different banks.
constexpr unsigned ITEMS = 7;
constexpr unsigned TILE = THREADS * ITEMS;
// Warps of a block of the second kernel, which take a carry each.
constexpr unsigned CARRIES = 8;

// ANCHOR: search
// How many of `rows` rows have ended before step `diagonal` of the path: ends[r] is where the non-zeros of row r end, of `nonzeros`.
__device__ unsigned rows_before(unsigned diagonal, const unsigned *ends, unsigned rows, unsigned nonzeros) {
    unsigned low = diagonal > nonzeros ? diagonal - nonzeros : 0;
    unsigned high = min(diagonal, rows);
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (ends[middle] < diagonal - middle) {  // row `middle` ends before this step
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
// ANCHOR_END: search

// A sum that may go on: `ended` says whether a row ended on the way, after which `sum` began anew.
struct Open {
    float sum;
    bool ended;
};

// ANCHOR: scan
__device__ Open then(Open before, Open after) {
    return {after.ended ? after.sum : before.sum + after.sum, before.ended || after.ended};
}

// What is open before this thread's share, from the shares of the block's threads before it; and in `last` what the block leaves.
__device__ float open_before(Open own, Open &last) {
    __shared__ Open of_warps[WARPS];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        Open below = {__shfl_up_sync(0xffffffff, own.sum, distance),
                      static_cast<bool>(__shfl_up_sync(0xffffffff, own.ended, distance))};
        if (lane >= distance) {
            own = then(below, own);
        }
    }
    if (lane == 31) {
        of_warps[warp] = own;
    }
    Open before = {__shfl_up_sync(0xffffffff, own.sum, 1), static_cast<bool>(__shfl_up_sync(0xffffffff, own.ended, 1))};
    if (lane == 0) {
        before = {0.0f, false};
    }
    __syncthreads();
    Open of_block = {0.0f, false};
    for (unsigned w = 0; w < WARPS; w++) {
        if (w == warp) {
            before = then(of_block, before);
        }
        of_block = then(of_block, of_warps[w]);
    }
    last = of_block;
    return before.sum;
}
// ANCHOR_END: scan

// starts: [rows + 1]; columns and values: [nonzeros]; x: [columns of A]; y: [rows], of which every value is written once.
// carry_rows and carries: [blocks]: the row that a block leaves open (`rows` for none), and its sum so far. A block per TILE steps.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    spmv(const unsigned *starts, const unsigned *columns, const float *values, const float *x, float *y,
         unsigned *carry_rows, float *carries, unsigned rows, unsigned nonzeros) {
    __shared__ float products[TILE];
    __shared__ unsigned ends[TILE];
    __shared__ unsigned row_bounds[2];
    unsigned first = blockIdx.x * TILE;
    unsigned steps = min(TILE, rows + nonzeros - first);
    if (threadIdx.x < 2) {
        row_bounds[threadIdx.x] = rows_before(first + threadIdx.x * steps, starts + 1, rows, nonzeros);
    }
    __syncthreads();
    unsigned row = row_bounds[0], block_rows = row_bounds[1] - row;
    unsigned nonzero = first - row, block_nonzeros = steps - block_rows;
    for (unsigned i = threadIdx.x; i < block_nonzeros; i += THREADS) {
        products[i] = values[nonzero + i] * x[columns[nonzero + i]];
    }
    for (unsigned i = threadIdx.x; i < block_rows; i += THREADS) {
        ends[i] = starts[row + i + 1] - nonzero;
    }
    __syncthreads();

    // From here on all counts are within the block.
    unsigned step = min(threadIdx.x * ITEMS, steps), end = min(step + ITEMS, steps);
    unsigned r = rows_before(step, ends, block_rows, block_nonzeros);
    unsigned first_row = r;
    float first_sum = 0.0f;
    Open open = {0.0f, false};
    for (; step < end; step++) {
        unsigned i = step - r;
        if (r < block_rows && ends[r] <= i) {
            if (open.ended) {
                y[row + r] = open.sum;
            } else {
                first_sum = open.sum;  // what came before this share is missing
            }
            open = {0.0f, true};
            r++;
        } else {
            open.sum += products[i];
        }
    }
    Open last;
    float before = open_before(open, last);
    if (open.ended) {
        y[row + first_row] = before + first_sum;
    }
    if (threadIdx.x == 0) {
        carry_rows[blockIdx.x] = row + block_rows;
        carries[blockIdx.x] = last.sum;
    }
}
// ANCHOR_END: kernel

// Adds what blocks left open to the rows that later blocks ended. carry_rows is ascending. A warp per carry; the warp of a row's first
// carry adds all of that row.
// ANCHOR: carries
extern "C" __global__ void __launch_bounds__(32 * CARRIES)
    add_carries(const unsigned *carry_rows, const float *carries, float *y, unsigned rows, unsigned blocks) {
    unsigned carry = blockIdx.x * CARRIES + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (carry >= blocks) {
        return;  // the whole warp, as below
    }
    unsigned row = carry_rows[carry];
    if (row == rows || (carry > 0 && carry_rows[carry - 1] == row)) {
        return;
    }
    float sum = 0.0f;
    for (unsigned i = carry + lane; i < blocks && carry_rows[i] == row; i += 32) {
        sum += carries[i];
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (lane == 0) {
        y[row] += sum;
    }
}
// ANCHOR_END: carries
