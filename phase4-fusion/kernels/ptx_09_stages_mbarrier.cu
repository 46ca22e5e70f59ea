// nvrtc: --gpu-architecture=compute_90 // run: ptx
// Smoothing in four stages with mbarriers: one lane of a warp of its own asks for a whole tile with one instruction, and the
// copy itself reports its bytes to the stage's barrier. Warps that compute wait for a stage, not for one another.
//
//     producer    wait until empty[s] ── expect bytes ── cp.async.bulk ──┐
//     copy                                                              └── bytes ──> full[s]
//     consumers   wait until full[s] ── compute ── arrive at empty[s]
//
// Limited by memory.

#include "ptx_smooth.cuh"

constexpr unsigned STAGES = 4;

// ANCHOR: barriers
__device__ unsigned address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}

__device__ void init(unsigned long long &barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(&barrier)), "r"(arrivals) : "memory");
}

__device__ void arrive(unsigned long long &barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(&barrier)) : "memory");
}

// Arrives, and says how many bytes are still to come before the phase is over.
__device__ void arrive_and_expect(unsigned long long &barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(&barrier)), "r"(bytes) : "memory");
}

// Until the phase of this parity is over: the first has parity 0.
__device__ void wait(unsigned long long &barrier, unsigned parity) {
    asm volatile("{\n\t"
                 ".reg .pred over;\n"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n\t"
                 "@!over bra again;\n\t"
                 "}" ::"r"(address(&barrier)),
                 "r"(parity)
                 : "memory");
}
// ANCHOR_END: barriers

// A whole tile, by one lane. The bulk copy takes whole vectors inside the signal; what is outside, and the last n % 4 values,
// the lane writes itself.
// ANCHOR: fetch
__device__ void fetch(Stage &stage, unsigned long long &full, const float *x, unsigned tile, unsigned n) {
    unsigned begin = tile == 0 ? RADIUS : 0;  // the first value of the stage inside the signal
    unsigned start = tile * TILE + begin - RADIUS;
    unsigned inside = start < n ? min(TILE + 2 * RADIUS - begin, n - start) : 0;
    unsigned whole = inside / 4 * 4;
    if (begin > 0 || whole < TILE + 2 * RADIUS - begin) {
        for (unsigned i = 0; i < begin; i++) {
            stage.values[i] = 0.0f;
        }
        for (unsigned i = begin + whole; i < TILE + 2 * RADIUS; i++) {
            stage.values[i] = i < begin + inside ? x[start + (i - begin)] : 0.0f;
        }
        // Before later copies write where this lane wrote.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    arrive_and_expect(full, 4 * whole);
    if (whole > 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         address(&stage.values[begin])),
                     "l"(x + start), "r"(4 * whole), "r"(address(&full))
                     : "memory");
    }
}
// ANCHOR_END: fetch

// 256 threads that compute, and a warp that fetches.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS + 32) smooth(const float *x, float *y, unsigned n) {
    __shared__ Stage stages[STAGES];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    unsigned first = blockIdx.x * TILES_EACH;
    if (threadIdx.x == 0) {
        for (unsigned s = 0; s < STAGES; s++) {
            init(full[s], 1);
            init(empty[s], THREADS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == THREADS) {
        for (unsigned k = 0; k < TILES_EACH; k++) {
            unsigned s = k % STAGES;
            if (k >= STAGES) {
                wait(empty[s], (k / STAGES - 1) % 2);
            }
            fetch(stages[s], full[s], x, first + k, n);
        }
    } else if (threadIdx.x < THREADS) {
        for (unsigned k = 0; k < TILES_EACH; k++) {
            unsigned s = k % STAGES;
            wait(full[s], k / STAGES % 2);
            smooth_tile(stages[s], y, first + k, n, threadIdx.x);
            arrive(empty[s]);
        }
    }
}
// ANCHOR_END: kernel
