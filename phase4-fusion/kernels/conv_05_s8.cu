// A convolution of 8-bit integers: tensor cores add up products of bytes exactly, in i32, and the epilogue makes bytes of the sums again.
//
//     x [N, H, W, C]  s8        y = activation(scale[k] · sum + shift[k] + residual_scale · residual), rounded to the nearest even
//     w [K, R, S, C]  s8            and cut off at −128 and 127; or f16, for a layer that takes no bytes
//
// As a product: a row of A is a pixel of the output, and its K values are [R, S, C], what the filter meets. A step along K is 128 bytes
// of a row: eight pieces of 16, and a piece is 16 channels of one tap, since C is a multiple of 16. So each thread copies one piece of
// several rows (`cp.async`), and puts zeros where the window leaves the image. In shared memory piece p of row r lies at p ^ (r % 8):
// eight rows of `ldmatrix` then meet all banks once.
//
// Limited by the copies, for which all threads compute addresses, and by mma.sync, which has half of wgmma's rate.
// nvrtc: --gpu-architecture=compute_90a // run: test conv_s8 // trial: none, only its test prepares the inputs that it takes
#include "cp_async.cuh"
#include "hopper.cuh"

// As the host has it: `src/conv/s8.rs`.
struct Layer {
    int height, width, channels;   // of x
    int outputs_y, outputs_x;      // P, Q
    int filter_x;                  // S
    int stride, padding;
    int pixels, filters, depth;    // M = N · P · Q, K, R · S · C
    int relu;
    float residual_scale;
};

constexpr int ROW_BYTES = 128;           // of a step along K
constexpr int PIECES = ROW_BYTES / 16;

// Rows and columns of a block's sums, and of a warp's; steps in shared memory.
struct Large {
    static constexpr int BM = 128, BN = 128, WM = 64, WN = 32, STAGES = 3;
};
struct Small {
    static constexpr int BM = 64, BN = 64, WM = 32, WN = 32, STAGES = 4;
};

template <class Shape>
struct Geometry : Shape {
    static constexpr int THREADS = Shape::BM / Shape::WM * (Shape::BN / Shape::WN) * 32;
    static constexpr int STAGE_BYTES = (Shape::BM + Shape::BN) * ROW_BYTES;
    static constexpr int SHARED = Shape::STAGES * STAGE_BYTES;
    static constexpr int STEP = THREADS / PIECES;           // rows that all threads copy at once
    static_assert(Shape::BM % STEP == 0 && Shape::BN % STEP == 0 && STEP % 8 == 0, "threads must copy whole rounds of rows");
    static_assert(Shape::BM * (Shape::BN * 2 + 16) <= SHARED, "the results must fit where the tiles were");
    static_assert(Shape::WN % 16 == 0 && Shape::WM % 16 == 0, "a warp has whole products");
};

// ANCHOR: fragments
// Four matrices of 8 rows of 16 bytes; `row` is where this lane's row begins.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// sums += A · B for 16 rows, 8 columns and 32 bytes along K.
__device__ inline void mma(int (&d)[4], const unsigned (&a)[4], const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// ANCHOR_END: fragments

// ANCHOR: epilogue
// The nearest of −128 … 127, ties to even.
__device__ inline unsigned byte_of(float value) {
    int nearest;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(nearest) : "f"(value));
    return nearest & 0xff;
}

// Two results next to each other, in the memory of the block.
__device__ inline void put(signed char *to, float left, float right) {
    *reinterpret_cast<unsigned short *>(to) = byte_of(left) | byte_of(right) << 8;
}
__device__ inline void put(unsigned short *to, float left, float right) { F16::store_pair(to, left, right); }
// ANCHOR_END: epilogue

// Where a thread's copies of A come from.
struct Pixel {
    int first;  // of x, where the window begins; outside the image if the padding is there
    int y, x;   // of the window
};

template <class Shape, class Out>
__device__ inline void convolve(const signed char *x, const signed char *w, Out *y, const float *scale, const float *shift,
                                const signed char *residual, Layer layer) {
    using G = Geometry<Shape>;
    constexpr int A_ROWS = Shape::BM / G::STEP, B_ROWS = Shape::BN / G::STEP;
    extern __shared__ __align__(128) unsigned char memory[];
    int thread = threadIdx.x, piece = thread % PIECES, row = thread / PIECES;
    int first_row = blockIdx.x * Shape::BM, first_column = blockIdx.y * Shape::BN;
    launch_dependents();

    Pixel pixels[A_ROWS];
#pragma unroll
    for (int i = 0; i < A_ROWS; i++) {
        int pixel = first_row + row + i * G::STEP;
        int line = pixel / layer.outputs_x, image = line / layer.outputs_y;
        int top = (line - image * layer.outputs_y) * layer.stride - layer.padding;
        int left = (pixel - line * layer.outputs_x) * layer.stride - layer.padding;
        // Beyond the last pixel no line of the image is met.
        pixels[i] = {((image * layer.height + top) * layer.width + left) * layer.channels, pixel < layer.pixels ? top : -(1 << 20), left};
    }
    // What this thread's piece of the next step is: a tap and its channels.
    int channel = piece * 16, right = 0, down = 0, along = piece * 16;
    auto settle = [&]() {
        while (channel >= layer.channels) {
            channel -= layer.channels;
            if (++right == layer.filter_x) {
                right = 0;
                down++;
            }
        }
    };
    settle();
    wait_for_launches_before();

    // ANCHOR: copy
    int steps = (layer.depth + ROW_BYTES - 1) / ROW_BYTES;
    int slot = (piece ^ row % 8) * 16;  // STEP is a multiple of 8, so for all rows
    auto copy = [&](int step) {
        if (step < steps) {
            unsigned char *a = memory + step % Shape::STAGES * G::STAGE_BYTES, *b = a + Shape::BM * ROW_BYTES;
            bool whole = along < layer.depth;
            int tap = (down * layer.width + right) * layer.channels + channel;
#pragma unroll
            for (int i = 0; i < A_ROWS; i++) {
                Pixel at = pixels[i];
                bool inside = whole && (unsigned)(at.y + down) < (unsigned)layer.height && (unsigned)(at.x + right) < (unsigned)layer.width;
                copy16(a + (row + i * G::STEP) * ROW_BYTES + slot, x + (inside ? at.first + tap : 0), inside);
            }
#pragma unroll
            for (int i = 0; i < B_ROWS; i++) {
                int filter = first_column + row + i * G::STEP;
                bool inside = whole && filter < layer.filters;
                copy16(b + (row + i * G::STEP) * ROW_BYTES + slot, w + (inside ? (size_t)filter * layer.depth + along : 0), inside);
            }
            along += ROW_BYTES;
            channel += ROW_BYTES;
            settle();
        }
        end_copy_group();  // an empty one counts too
    };
    // ANCHOR_END: copy

    // ANCHOR: main_loop
    constexpr int MS = Shape::WM / 16, NS = Shape::WN / 8;
    int warp = thread / 32, lane = thread % 32;
    int warp_row = warp / (Shape::BN / Shape::WN) * Shape::WM, warp_column = warp % (Shape::BN / Shape::WN) * Shape::WN;
    int sums[MS][NS][4] = {};
#pragma unroll
    for (int step = 0; step < Shape::STAGES - 1; step++) {
        copy(step);
    }
    for (int step = 0; step < steps; step++) {
        copy_groups_arrived<Shape::STAGES - 2>();
        __syncthreads();  // this step is there, and nobody reads the one before it any more
        copy(step + Shape::STAGES - 1);
        unsigned a_tile = shared_address(memory) + step % Shape::STAGES * G::STAGE_BYTES, b_tile = a_tile + Shape::BM * ROW_BYTES;
#pragma unroll
        for (int k = 0; k < ROW_BYTES / 32; k++) {
            unsigned a[MS][4], b[NS / 2][4];
#pragma unroll
            for (int i = 0; i < MS; i++) {  // rows 0 … 7 and 8 … 15 of the first 16 bytes, then of the others
                int at = warp_row + i * 16 + lane % 16;
                load_matrices(a[i], a_tile + at * ROW_BYTES + ((k * 2 + lane / 16) ^ at % 8) * 16);
            }
#pragma unroll
            for (int j = 0; j < NS / 2; j++) {  // both 16 bytes of columns 0 … 7, then of 8 … 15
                int at = warp_column + j * 16 + lane / 16 * 8 + lane % 8;
                load_matrices(b[j], b_tile + at * ROW_BYTES + ((k * 2 + lane / 8 % 2) ^ at % 8) * 16);
            }
#pragma unroll
            for (int i = 0; i < MS; i++) {
#pragma unroll
                for (int j = 0; j < NS; j++) {
                    mma(sums[i][j], a[i], &b[j / 2][j % 2 * 2]);
                }
            }
        }
    }
    // ANCHOR_END: main_loop

    // ANCHOR: finish
    copy_groups_arrived<0>();
    __syncthreads();  // the results lie where the tiles were, with 16 bytes between rows
    constexpr int PITCH = Shape::BN + 16 / (int)sizeof(Out);
    Out *results = reinterpret_cast<Out *>(memory);
#pragma unroll
    for (int j = 0; j < NS; j++) {
        int column = warp_column + j * 8 + lane % 4 * 2, filter = min(first_column + column, layer.filters - 2);
        float2 times = *reinterpret_cast<const float2 *>(scale + filter), plus = *reinterpret_cast<const float2 *>(shift + filter);
#pragma unroll
        for (int i = 0; i < MS * 2; i++) {
            int at = warp_row + i * 8 + lane / 4;
            const int *sum = &sums[i / 2][j][i % 2 * 2];
            float left = fmaf((float)sum[0], times.x, plus.x), next = fmaf((float)sum[1], times.y, plus.y);
            if (residual) {
                size_t pixel = min(first_row + at, layer.pixels - 1);
                char2 two = *reinterpret_cast<const char2 *>(residual + pixel * layer.filters + filter);
                left = fmaf((float)two.x, layer.residual_scale, left);
                next = fmaf((float)two.y, layer.residual_scale, next);
            }
            if (layer.relu) {
                left = fmaxf(left, 0.0f);
                next = fmaxf(next, 0.0f);
            }
            put(results + at * PITCH + column, left, next);
        }
    }
    __syncthreads();
    constexpr int EACH = 16 / sizeof(Out), WIDE = Shape::BN / EACH;  // values of 16 bytes, and vectors of a row
    for (int i = thread; i < Shape::BM * WIDE; i += G::THREADS) {
        int at = i / WIDE, column = i % WIDE * EACH;
        if (first_row + at < layer.pixels && first_column + column < layer.filters) {
            *reinterpret_cast<uint4 *>(y + (size_t)(first_row + at) * layer.filters + first_column + column) =
                *reinterpret_cast<const uint4 *>(results + at * PITCH + column);
        }
    }
    // ANCHOR_END: finish
}

#define CONV_KERNEL(name, SHAPE, Out)                                                                                 \
    extern "C" __global__ void __launch_bounds__(Geometry<SHAPE>::THREADS)                                            \
        name(const signed char *x, const signed char *w, Out *y, const float *scale, const float *shift,              \
             const signed char *residual, Layer layer) {                                                              \
        convolve<SHAPE, Out>(x, w, y, scale, shift, residual, layer);                                                 \
    }

CONV_KERNEL(conv_s8_128x128, Large, signed char)
CONV_KERNEL(conv_s8_64x64, Small, signed char)
CONV_KERNEL(conv_s8_f16_128x128, Large, unsigned short)
CONV_KERNEL(conv_s8_f16_64x64, Small, unsigned short)

// ANCHOR: quantize
// Bytes of f16, 16 at a time: times 1 / step, to the nearest.
extern "C" __global__ void __launch_bounds__(256) quantize_f16(const unsigned short *x, signed char *y, float times, unsigned vectors) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= vectors) {
        return;
    }
    union {
        uint4 vectors[2];
        unsigned short values[16];
    } from;
    union {
        uint4 vector;
        signed char values[16];
    } to;
    from.vectors[0] = reinterpret_cast<const uint4 *>(x)[i * 2];
    from.vectors[1] = reinterpret_cast<const uint4 *>(x)[i * 2 + 1];
#pragma unroll
    for (int k = 0; k < 16; k++) {
        to.values[k] = byte_of(F16::unpack(from.values[k]) * times);
    }
    reinterpret_cast<uint4 *>(y)[i] = to.vector;
}
// ANCHOR_END: quantize
