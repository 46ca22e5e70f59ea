// Reads the answer before it has come.

// y = A · x: a block per row of A, [rows][columns] row-major. A block that begins copies x to its shared memory first. Then it does its row, and
// goes on with rows of blocks that have not begun. `columns` is at most 1024.

constexpr unsigned LARGEST = 1024;

// What a block is told of another: an answer of 16 bytes, and the mbarrier at which it arrives.
struct Next {
    unsigned long long answer[2], arrived;
};

__device__ unsigned shared_address(const void *at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// One arrival ends a phase of the mbarrier.
__device__ void prepare(Next &next) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(&next.arrived)) : "memory");
}

// Arrives, and announces the 16 bytes of an answer.
__device__ void expect(Next &next) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" ::"r"(shared_address(&next.arrived)) : "memory");
}

// Asks for a block that has not begun. The thread goes on; the answer comes later.
__device__ void ask(Next &next) {
    asm volatile("fence.proxy.async.shared::cta;\n"
                 "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(shared_address(next.answer)),
                 "r"(shared_address(&next.arrived))
                 : "memory");
}

// Waits until the phase of that parity is over.
__device__ void wait(Next &next, unsigned parity) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra again;\n"
                 "}" ::"r"(shared_address(&next.arrived)),
                 "r"(parity)
                 : "memory");
}

// `blockIdx.x` of the block that the answer names, which does not begin any more; -1: all have begun.
__device__ int block_of(const Next &next) {
    int block = -1;
    asm volatile("{\n"
                 ".reg .b128 answer;\n"
                 ".reg .pred found;\n"
                 "ld.shared::cta.b128 answer, [%1];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 found, answer;\n"
                 "@found clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n"
                 "}"
                 : "+r"(block)
                 : "r"(shared_address(next.answer))
                 : "memory");
    return block;
}

// Row `row` of the product, by a warp.
__device__ void multiply_row(const float *a, const float *x, float *y, int row, unsigned columns) {
    float sum = 0.0f;
    for (unsigned column = threadIdx.x; column < columns; column += 32) {
        sum += a[static_cast<size_t>(row) * columns + column] * x[column];
    }
    for (unsigned lanes = 16; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, lanes);
    }
    if (threadIdx.x == 0) {
        y[row] = sum;
    }
}

// A block is one warp.
extern "C" __global__ void multiply(const float *a, const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ float kept[LARGEST];
    __shared__ alignas(16) Next next;
    for (unsigned column = threadIdx.x; column < columns; column += 32) {
        kept[column] = x[column];
    }
    if (threadIdx.x == 0) {
        prepare(next);
    }
    __syncwarp();
    int row = blockIdx.x;
    for (unsigned round = 0; row >= 0; ++round) {
        if (threadIdx.x == 0) {
            expect(next);
            ask(next);
        }
        multiply_row(a, kept, y, row, columns);
        row = block_of(next);
        __syncwarp(); // all have read the answer before the next one may come
    }
}
