// A signal, smoothed: each value becomes the weighted mean of itself and its four neighbours on either side, with zeros beyond
// the ends. A block takes TILES_EACH tiles one after another, so that it can fetch one while it computes another.
//
//     stage    | 4 | 1024 values of the tile | 4 |        258 vectors of 16 bytes
// run: ptx
#pragma once

constexpr unsigned RADIUS = 4;
constexpr unsigned TILE = 1024;
constexpr unsigned TILES_EACH = 8;
constexpr unsigned THREADS = 256;
constexpr unsigned VECTORS = (TILE + 2 * RADIUS) / 4;

struct __align__(16) Stage {
    float values[TILE + 2 * RADIUS];
};

// The tile's values, smoothed, by 256 threads with these indices. The stage begins RADIUS values before the tile.
__device__ inline void smooth_tile(const Stage &stage, float *y, unsigned tile, unsigned n, unsigned thread) {
    // The binomial coefficients of order 8, which add up to 256.
    constexpr float WEIGHTS[2 * RADIUS + 1] = {1, 8, 28, 56, 70, 56, 28, 8, 1};
    for (unsigned i = thread; i < TILE; i += THREADS) {
        float sum = 0.0f;
        for (unsigned j = 0; j <= 2 * RADIUS; j++) {
            sum += WEIGHTS[j] / 256 * stage.values[i + j];
        }
        unsigned at = tile * TILE + i;
        if (at < n) {
            y[at] = sum;
        }
    }
}

// Bytes of the stage's vector `v` that lie inside the signal: 16, fewer at its end, none outside.
__device__ inline unsigned bytes_inside(unsigned tile, unsigned v, unsigned n) {
    unsigned end = tile * TILE + 4 * v;  // RADIUS values before it begins, one past the end of the vector before
    if (end < RADIUS || end - RADIUS >= n) {
        return 0;
    }
    return min(16, 4 * (n - (end - RADIUS)));
}

// Where the vector begins in the signal; a place inside it also for a vector that is outside.
__device__ inline const float *place(const float *x, unsigned tile, unsigned v, unsigned bytes) {
    return bytes == 0 ? x : x + (tile * TILE + 4 * v - RADIUS);
}
