// A step of heat: a thread per cell, which reads the cell and its six neighbours from memory.
//
//              above
//                | back              each value is read by seven threads: left and right come from the same warp,
//       left --- c --- right         front and back from the same block or its neighbour, below and above from other blocks.
//          front |                   The caches see most of it.
//              below
//
// Limited by requests: seven loads for one store, and what the caches do not hold any more comes from memory again.
// run: stencil // trial: stencil

#include "stencil.cuh"

// A block's cells: one plane of them.
constexpr unsigned TILE_X = 32, TILE_Y = 8;

// old, next: [box.z, box.y, box.x]. A block per tile of a plane; tiles along x, then y, then z.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE_X *TILE_Y) heat(const float *old, float *next, Box box) {
    unsigned tiles_x = (box.x + TILE_X - 1) / TILE_X, tiles_y = (box.y + TILE_Y - 1) / TILE_Y;
    unsigned i = blockIdx.x % tiles_x * TILE_X + threadIdx.x;
    unsigned j = blockIdx.x / tiles_x % tiles_y * TILE_Y + threadIdx.y;
    unsigned k = blockIdx.x / tiles_x / tiles_y;
    if (i >= box.x || j >= box.y) {
        return;
    }
    float c = old[box.at(i, j, k)];
    float left = old[box.at(before(i), j, k)], right = old[box.at(after(i, box.x), j, k)];
    float front = old[box.at(i, before(j), k)], back = old[box.at(i, after(j, box.y), k)];
    float below = old[box.at(i, j, before(k))], above = old[box.at(i, j, after(k, box.z))];
    next[box.at(i, j, k)] = update(c, left, right, front, back, below, above);
}
// ANCHOR_END: kernel
