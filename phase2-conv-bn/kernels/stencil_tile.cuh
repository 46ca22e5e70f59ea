// A tile of a plane in shared memory, with a halo of one cell on each side.
// run: stencil // trial: stencil
#pragma once

#include "stencil.cuh"

constexpr unsigned TILE_X = 32, TILE_Y = 8;

// Row 0, the last row, column 0 and the last column are the halo. Its corners are never read.
struct Tile {
    float v[TILE_Y + 2][TILE_X + 2];
};

// ANCHOR: fill
// Writes this thread's cell, whose value is c, and, at the tile's edge, the neighbours outside it. A thread whose cell is outside the
// box writes nothing: no neighbour of its asks for it. The caller's barrier follows.
__device__ inline void fill(Tile &tile, const float *old, const Box &box, unsigned i, unsigned j, unsigned k, float c) {
    unsigned s = threadIdx.x + 1, t = threadIdx.y + 1;
    tile.v[t][s] = c;
    if (threadIdx.x == 0) {
        tile.v[t][0] = old[box.at(before(i), j, k)];
    }
    if (threadIdx.x == TILE_X - 1 || i == box.x - 1) {
        tile.v[t][s + 1] = old[box.at(after(i, box.x), j, k)];
    }
    if (threadIdx.y == 0) {
        tile.v[0][s] = old[box.at(i, before(j), k)];
    }
    if (threadIdx.y == TILE_Y - 1 || j == box.y - 1) {
        tile.v[t + 1][s] = old[box.at(i, after(j, box.y), k)];
    }
}

// The cell's new value, given those below and above it.
__device__ inline float update_in(const Tile &tile, float below, float c, float above) {
    unsigned s = threadIdx.x + 1, t = threadIdx.y + 1;
    return update(c, tile.v[t][s - 1], tile.v[t][s + 1], tile.v[t - 1][s], tile.v[t + 1][s], below, above);
}
// ANCHOR_END: fill
