// How a warp's lanes are dealt out over its tile, as in step 8 of the GEMM ladder and step 11 of the convolutions.
//
// Loads of 16 bytes are served for eight lanes at a time, and for sixteen if every lane wants what lane ^ 1 wants, or every lane
// what lane ^ 2 wants. So bit 0 of the lane chooses a column (lane ^ 1 has the same rows) and bit 1 a row (lane ^ 2 has the same
// columns); the bits above fill first the columns, then the rows.
// run: gemm // trial: gemm
#pragma once

// LANES_Y · LANES_X = 32: lanes down and across; both are at least 2.
template <int LANES_Y, int LANES_X> struct Lanes {
    static_assert(LANES_Y * LANES_X == 32 && LANES_Y >= 2 && LANES_X >= 2, "a warp has 32 lanes, in at least two rows and columns");
    __device__ static int row(int lane) { return (lane >> 1 & 1) | (lane / LANES_X & (LANES_Y - 2)); }        // [0, LANES_Y)
    __device__ static int column(int lane) { return (lane & 1) | (lane >> 1 & (LANES_X - 2)); }               // [0, LANES_X)
};
