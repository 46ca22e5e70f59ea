// Blocks that take the place of others: `clusterlaunchcontrol` (PTX ISA 8.6, sm_100). Each adds 1 for every block of the grid whose work it
// does, its own first; together that is 1 for each.

struct Control {
    unsigned long long response[2], answered;
};

__device__ unsigned shared_address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void prepare(Control &control) {
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address(&control.answered)) : "memory");
    }
}

__device__ void expect(Control &control) {
    asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 s, [%0], 16;\n}" ::"r"(shared_address(&control.answered)) : "memory");
}

__device__ void ask(Control &control) {
    asm volatile("fence.proxy.async.shared::cta;\nclusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(
                     shared_address(control.response)),
                 "r"(shared_address(&control.answered))
                 : "memory");
}

__device__ void ask_for_all(Control &control) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];" ::"r"(
                     shared_address(control.response)),
                 "r"(shared_address(&control.answered))
                 : "memory");
}

__device__ void wait(Control &control, unsigned round) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(shared_address(&control.answered)),
                 "r"(round & 1)
                 : "memory");
}

// Whether a cluster was cancelled, and `blockIdx` of its first block.
__device__ bool answer(const Control &control, uint3 &first) {
    unsigned is_one;
    asm volatile("{\n.reg .b128 answer;\n.reg .pred p;\nld.shared.b128 answer, [%4];\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;\nselp.u32 %3, 1, 0, p;\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, answer;\n}"
                 : "+r"(first.x), "+r"(first.y), "+r"(first.z), "=r"(is_one)
                 : "r"(shared_address(control.response))
                 : "memory");
    return is_one != 0;
}

__device__ unsigned first_x(const Control &control) {
    unsigned x;
    asm volatile("{\n.reg .b128 answer;\nld.shared.b128 answer, [%1];\nclusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, answer;\n}"
                 : "=r"(x)
                 : "r"(shared_address(control.response))
                 : "memory");
    return x;
}

__device__ void work(unsigned *out, uint3 block) {
    if (threadIdx.x == 0) {
        atomicAdd(&out[(block.z * gridDim.y + block.y) * gridDim.x + block.x], 1);
    }
}

// `begun` counts the blocks that begin.
extern "C" __global__ void each_once(unsigned *out, unsigned *begun) {
    __shared__ alignas(16) Control control;
    prepare(control);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(begun, 1);
    }
    uint3 block = blockIdx;
    for (unsigned round = 0;; round++) {
        if (threadIdx.x == 0) {
            expect(control);
            ask(control);
        }
        work(out, block);
        wait(control, round);
        bool more = answer(control, block);
        __syncthreads();  // all have read the answer
        if (!more) {
            return;
        }
    }
}

// A cluster of two asks together: its first block asks, and each takes the place of the block of its rank.
extern "C" __global__ void each_once_in_pairs(unsigned *out) {
    __shared__ alignas(16) Control control;
    unsigned rank = blockIdx.x % 2;
    prepare(control);
    uint3 block = blockIdx;
    for (unsigned round = 0;; round++) {
        if (threadIdx.x == 0) {
            expect(control);
        }
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");  // answers are expected, and the last ones read
        if (rank == 0 && threadIdx.x == 0) {
            asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
            ask_for_all(control);
        }
        work(out, block);
        wait(control, round);
        bool more = answer(control, block);
        block.x += rank;
        if (!more) {
            return;
        }
    }
}

// Mistakes.
extern "C" __global__ void asks_again(unsigned *out) {
    __shared__ alignas(16) Control control;
    prepare(control);
    __syncthreads();
    uint3 block = blockIdx;
    for (unsigned round = 0; round < gridDim.x + 1; round++) {
        if (threadIdx.x == 0) {
            expect(control);
            ask(control);
        }
        wait(control, round);
        if (answer(control, block)) {
            work(out, block);
        }
        __syncthreads();
    }
}

extern "C" __global__ void takes_any(unsigned *out) {
    __shared__ alignas(16) Control control;
    prepare(control);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(control);
        ask(control);
    }
    wait(control, 0);
    work(out, make_uint3(first_x(control), 0, 0));
}

extern "C" __global__ void reads_early(unsigned *out) {
    __shared__ alignas(16) Control control;
    prepare(control);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(control);
        ask(control);
        work(out, make_uint3(first_x(control), 0, 0));
    }
    wait(control, 0);
}
