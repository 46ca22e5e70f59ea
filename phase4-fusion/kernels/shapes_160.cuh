// Tiles for multiples of 320 columns, the channels of a U-Net: 160 leave none over, and 8192 × 320, 2048 × 1280 and so on are 128 tiles
// of one of these shapes, for 132 SMs.
// run: gemm
#pragma once

// ANCHOR: shapes
// Many rows and columns.
template <class Type>
struct Large160 {
    using Element = Type;
    static constexpr int BM = 256, BN = 160, CONSUMERS = 2, STAGES = 3, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Fewer.
template <class Type>
struct Square160 {
    using Element = Type;
    static constexpr int BM = 128, BN = 160, CONSUMERS = 2, STAGES = 4, OUT_BOXES = 5;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Few rows.
template <class Type>
struct Wide160 {
    using Element = Type;
    static constexpr int BM = 64, BN = 160, CONSUMERS = 1, STAGES = 6, OUT_BOXES = 5;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// ANCHOR_END: shapes
