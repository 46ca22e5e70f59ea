// A step of heat in a box: what the versions have in common.
//
//     new(c) = old(c) + K · (old(left) + old(right) + old(front) + old(back) + old(below) + old(above) − 6 · old(c))
//
// The box is insulated: a neighbour outside it is as warm as the cell itself. Values lie in order of x, then y, then z.
// run: stencil // trial: stencil
#pragma once

// The part of a difference in temperature that crosses a face in one step. Above 1/6 the steps would not settle.
constexpr float K = 0.1f;

struct Box {
    unsigned x, y, z;

    // Where a cell is; the box has less than 2³¹.
    __device__ unsigned at(unsigned i, unsigned j, unsigned k) const { return (k * y + j) * x + i; }
};

// ANCHOR: update
__device__ inline float update(float c, float left, float right, float front, float back, float below, float above) {
    return c + K * (((left + right) + (front + back)) + (below + above) - 6.0f * c);
}
// ANCHOR_END: update

// The neighbour's index, or the cell's own at the box's faces.
__device__ inline unsigned before(unsigned i) { return i > 0 ? i - 1 : 0; }
__device__ inline unsigned after(unsigned i, unsigned length) { return i + 1 < length ? i + 1 : i; }
