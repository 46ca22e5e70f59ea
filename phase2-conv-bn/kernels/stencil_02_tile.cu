// A step of heat: a block keeps its tile of the plane in shared memory, with the cells around it (the halo).
//
//       h h h h h h h h          h: halo, read by the threads at the edge
//     h c c c c c c c c h        c: a cell per thread, read once from memory and five times from here
//     h c c c c c c c c h
//       h h h h h h h h          the cells below and above still come from memory
//
// Limited by memory, and no nearer to its floor than the caches were: they kept the neighbours of the plane too.
// run: stencil // trial: stencil

#include "stencil_tile.cuh"

// The parameters and the grid: stencil_01_naive.cu.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE_X *TILE_Y) heat(const float *old, float *next, Box box) {
    __shared__ Tile tile;
    unsigned tiles_x = (box.x + TILE_X - 1) / TILE_X, tiles_y = (box.y + TILE_Y - 1) / TILE_Y;
    unsigned i = blockIdx.x % tiles_x * TILE_X + threadIdx.x;
    unsigned j = blockIdx.x / tiles_x % tiles_y * TILE_Y + threadIdx.y;
    unsigned k = blockIdx.x / tiles_x / tiles_y;
    bool inside = i < box.x && j < box.y;
    float c = 0.0f;
    if (inside) {
        c = old[box.at(i, j, k)];
        fill(tile, old, box, i, j, k, c);
    }
    __syncthreads();
    if (inside) {
        float below = old[box.at(i, j, before(k))], above = old[box.at(i, j, after(k, box.z))];
        next[box.at(i, j, k)] = update_in(tile, below, c, above);
    }
}
// ANCHOR_END: kernel
