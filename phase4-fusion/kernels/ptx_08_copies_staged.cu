// Smoothing with copies by hand: the next tile is loaded into registers, this one computed, then the registers are stored into
// the other stage.
//
// Limited by memory. What travels occupies registers, and passes the units of loads and stores twice.
// run: ptx

#include "ptx_smooth.cuh"

// ANCHOR: fetch
// Vector v of a tile, with zeros outside the signal.
__device__ float4 fetch(const float *x, unsigned tile, unsigned v, unsigned n) {
    unsigned bytes = bytes_inside(tile, v, n);
    const float *from = place(x, tile, v, bytes);
    if (bytes == 16) {
        return *reinterpret_cast<const float4 *>(from);
    }
    return make_float4(bytes > 0 ? from[0] : 0.0f, bytes > 4 ? from[1] : 0.0f, bytes > 8 ? from[2] : 0.0f, 0.0f);
}
// ANCHOR_END: fetch

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) smooth(const float *x, float *y, unsigned n) {
    __shared__ Stage stages[2];
    constexpr unsigned EACH = (VECTORS + THREADS - 1) / THREADS;
    float4 staged[EACH];
    auto load = [&](unsigned tile) {
        for (unsigned k = 0; k < EACH; k++) {
            unsigned v = threadIdx.x + k * THREADS;
            if (v < VECTORS) {
                staged[k] = fetch(x, tile, v, n);
            }
        }
    };
    auto store = [&](Stage &stage) {
        for (unsigned k = 0; k < EACH; k++) {
            unsigned v = threadIdx.x + k * THREADS;
            if (v < VECTORS) {
                reinterpret_cast<float4 *>(stage.values)[v] = staged[k];
            }
        }
    };
    unsigned first = blockIdx.x * TILES_EACH;
    load(first);
    store(stages[0]);
    for (unsigned k = 0; k < TILES_EACH; k++) {
        __syncthreads();  // this stage is full, and the other one read to the end
        if (k + 1 < TILES_EACH) {
            load(first + k + 1);
        }
        smooth_tile(stages[k % 2], y, first + k, n, threadIdx.x);
        if (k + 1 < TILES_EACH) {
            store(stages[(k + 1) % 2]);
        }
    }
}
// ANCHOR_END: kernel
