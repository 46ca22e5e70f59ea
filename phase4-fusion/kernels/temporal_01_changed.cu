// Which tiles of an image have changed since their results were made: each is compared with the copy of its surroundings that was kept
// then, and the changed ones go on a list, so that later kernels work on those alone.
//
//     ┌───────────────┐  window: the tile and HALO pixels around it, all that three convolutions of 3 × 3 see of it
//     │   ┌───────┐   │  kept   [tiles, channels, WINDOW, WINDOW], one copy per tile: windows overlap, and a tile that was
//     │   │ tile  │   │         not listed keeps its neighbours as they were when it was
//     │   └───────┘   │  list   numbers of changed tiles, in any order; counts: how many now, and how many ever
//     └───────────────┘
//
// Limited by memory, and small: nearly all of its time is the launch.
// nvrtc: --gpu-architecture=compute_80 // run: test temporal // trial: none, only its test prepares the inputs that it takes

// ANCHOR: sizes
constexpr int TILE = 8;
constexpr int HALO = 3;  // a convolution of 3 × 3 before the first residual block, and two in it
constexpr int WINDOW = TILE + 2 * HALO;
constexpr int THREADS = 128;
// ANCHOR_END: sizes

// ANCHOR: kernel
// The window around a tile, and the image that it is part of.
struct Surroundings {
    const float *image;
    float *kept;
    int channels, height, width, top, left;

    // Compares all values with those that were kept, or keeps them.
    template <bool KEEP>
    __device__ bool pass(float threshold) const {
        bool changed = false;
        for (int i = threadIdx.x; i < channels * WINDOW * WINDOW; i += THREADS) {
            int channel = i / (WINDOW * WINDOW), y = top + i / WINDOW % WINDOW, x = left + i % WINDOW;
            if (y < 0 || y >= height || x < 0 || x >= width) {
                continue;
            }
            float now = image[((size_t)channel * height + y) * width + x];
            if (KEEP) {
                kept[i] = now;
            } else {
                changed |= !(fabsf(now - kept[i]) <= threshold);  // NaN has changed
            }
        }
        return changed;
    }
};

// One block per tile of the image [channels, height, width] that blockIdx.y names.
extern "C" __global__ void __launch_bounds__(THREADS)
    list_changed(const float *x, float *kept, float threshold, unsigned *list, unsigned *counts, int channels, int height, int width) {
    int across = (width + TILE - 1) / TILE, tile = blockIdx.y * gridDim.x + blockIdx.x;
    int top = (int)blockIdx.x / across * TILE - HALO, left = (int)blockIdx.x % across * TILE - HALO;
    Surroundings around{x + (size_t)blockIdx.y * channels * height * width, kept + (size_t)tile * channels * WINDOW * WINDOW,
                        channels, height, width, top, left};
    if (!__syncthreads_or(around.pass<false>(threshold))) {
        return;
    }
    around.pass<true>(threshold);
    if (threadIdx.x == 0) {
        list[atomicAdd(&counts[0], 1)] = tile;
        atomicAdd(&counts[1], 1);
    }
}
// ANCHOR_END: kernel
