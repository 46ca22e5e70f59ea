// A step of heat: a block walks up the box. Each thread keeps the cell below, the cell and the cell above in registers, and the plane
// between them is in shared memory (Micikevicius, 2009).
//
//     k + 1     above    ← the only load of a cell
//     k         c        → shared memory, for the neighbours in the plane
//     k − 1     below
//                 ↑ one plane up: below = c, c = above
//
// Limited by memory: a cell is read once for each block that it belongs to, and once more by neighbours that have it in their halo.
// run: stencil // trial: stencil

#include "stencil_tile.cuh"

// Planes that a block walks through. More reread fewer planes between blocks, and make fewer blocks.
constexpr unsigned PLANES = 32;

// old, next: [box.z, box.y, box.x]. A block per tile and PLANES planes; tiles along x, then y, then z.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE_X *TILE_Y) heat(const float *old, float *next, Box box) {
    __shared__ Tile tile;
    unsigned tiles_x = (box.x + TILE_X - 1) / TILE_X, tiles_y = (box.y + TILE_Y - 1) / TILE_Y;
    unsigned i = blockIdx.x % tiles_x * TILE_X + threadIdx.x;
    unsigned j = blockIdx.x / tiles_x % tiles_y * TILE_Y + threadIdx.y;
    unsigned first = blockIdx.x / tiles_x / tiles_y * PLANES;
    unsigned end = min(first + PLANES, box.z);
    bool inside = i < box.x && j < box.y;
    float below = 0.0f, c = 0.0f;
    if (inside) {
        below = old[box.at(i, j, before(first))];
        c = old[box.at(i, j, first)];
    }
    for (unsigned k = first; k < end; k++) {
        float above = 0.0f;
        if (inside) {
            above = old[box.at(i, j, after(k, box.z))];
            fill(tile, old, box, i, j, k, c);
        }
        __syncthreads();
        if (inside) {
            next[box.at(i, j, k)] = update_in(tile, below, c, above);
        }
        __syncthreads();  // all have read the plane before the next is written
        below = c;
        c = above;
    }
}
// ANCHOR_END: kernel
