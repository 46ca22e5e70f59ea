// The shapes of tile whose K is cut: the blocks of a cluster share a tile of C, each for a part of K.
// run: gemm
#pragma once

// ANCHOR: shapes
// Two slices of a large tile, where K is long.
template <class Type>
struct Halves {
    using Element = Type;
    static constexpr int BM = 128, BN = 128, CONSUMERS = 2, STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 2;
};
// Two slices of a wider one.
template <class Type>
struct Halves160 {
    using Element = Type;
    static constexpr int BM = 128, BN = 160, CONSUMERS = 2, STAGES = 5, OUT_BOXES = 1;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 2;
};
// Three slices of a taller one.
template <class Type>
struct Thirds {
    using Element = Type;
    static constexpr int BM = 192, BN = 128, CONSUMERS = 3, STAGES = 4, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 3;
};
// Four slices.
template <class Type>
struct Fourths {
    using Element = Type;
    static constexpr int BM = 128, BN = 128, CONSUMERS = 2, STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 4;
};
// Six: clusters of six leave fewer SMs over than those of eight.
template <class Type>
struct Sixths {
    using Element = Type;
    static constexpr int BM = 128, BN = 128, CONSUMERS = 2, STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 6;
};
// Eight slices: few tiles, and K of more than a hundred steps.
template <class Type>
struct LargeEighths {
    using Element = Type;
    static constexpr int BM = 128, BN = 128, CONSUMERS = 2, STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 8;
};
// Four slices of a small tile.
template <class Type>
struct Quarters {
    using Element = Type;
    static constexpr int BM = 64, BN = 64, CONSUMERS = 1, STAGES = 8, OUT_BOXES = 1;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 4;
};
// Eight slices.
template <class Type>
struct Eighths {
    using Element = Type;
    static constexpr int BM = 64, BN = 64, CONSUMERS = 1, STAGES = 8, OUT_BOXES = 1;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 8;
};
// ANCHOR_END: shapes
