// The shapes of tile that the last step chooses from, largest first; the host side reads them from the compiled kernels.
// run: gemm
#pragma once

template <class Type>
struct Large {
    using Element = Type;
    static constexpr int BM = 128, BN = 256;       // rows and columns of C per block
    static constexpr int CONSUMERS = 2;
    static constexpr int STAGES = 3, OUT_BOXES = 4;
    static constexpr int ROWS = 2, COLUMNS = 1, SLICES = 1;  // of a cluster
};
template <class Type>
struct Square {
    using Element = Type;
    static constexpr int BM = 128, BN = 128;
    static constexpr int CONSUMERS = 2;
    static constexpr int STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;  // for few tiles a cluster's start costs more than its multicast gains
};
template <class Type>
struct Medium {
    using Element = Type;
    static constexpr int BM = 64, BN = 128;
    static constexpr int CONSUMERS = 1;
    static constexpr int STAGES = 7, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
template <class Type>
struct Small {
    using Element = Type;
    static constexpr int BM = 64, BN = 64;
    static constexpr int CONSUMERS = 1;
    static constexpr int STAGES = 8, OUT_BOXES = 1;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
