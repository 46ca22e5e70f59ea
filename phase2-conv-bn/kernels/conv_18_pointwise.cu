// Pointwise convolution (1×1, one group, no padding): a matrix product, with the input itself for its second matrix.
//
//     output [K, N·P·Q] = weight [K, C] · input [C, N·P·Q]        of the input every stride-th row and column
//
// A block makes 64 output channels × 64 pixels. The pixels of all images are numbered in one row, so small images fill
// the tiles as well as large ones, and where a pixel lies is worked out once, before the loop over the channels. The
// next 16 channels are on their way to registers while these are multiplied; a thread makes 8 channels × 4 pixels.
//
// Limited by arithmetic in large layers: 32 multiply-adds for three 16-byte reads of shared memory. In small ones there
// are fewer tiles than SMs can hold, and with a stride of 2 each 32-byte sector brings four values of use.
// run: conv // trial: conv
#include "conv.cuh"
#include "vectors.cuh"
constexpr int BM = 64, BN = 64, BK = 16;  // output channels and pixels per block, input channels per step
constexpr int TM = 8, TN = 4;             // output channels and pixels per thread
constexpr int THREADS = BM / TM * (BN / TN);
constexpr int W_ROW = BM + 4;             // so that 16 lanes, writing 16 rows, meet 8 banks
constexpr int W_LOADS = BM * BK / THREADS, X_LOADS = BN * BK / THREADS;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    conv_pointwise(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,
                   float *__restrict__ output, Conv2d conv) {
    __shared__ __align__(16) float weights[BK][W_ROW];  // [channel][output channel]
    __shared__ __align__(16) float values[BK][BN];      // [channel][pixel]
    int tiles = (conv.pixels + BN - 1) / BN;
    int first_k = blockIdx.x / tiles * BM;
    int first_pixel = blockIdx.x % tiles * BN;

    // The pixel whose values this thread fetches, of every other channel.
    const int plane_in = conv.height * conv.width;
    int of_pixels = conv.pixels - first_pixel;  // that are left
    int along = threadIdx.x % BN, x_first = threadIdx.x / BN;
    bool pixel_inside = along < of_pixels;
    int pixel = pixel_inside ? first_pixel + along : 0;
    int in_plane = pixel % conv.plane;
    const float *x_from = input + (pixel / conv.plane * conv.channels) * plane_in +
                          in_plane / conv.out_width * conv.stride_y * conv.width +
                          in_plane % conv.out_width * conv.stride_x;
    int w_c = threadIdx.x % BK, w_first = threadIdx.x / BK;

    const unsigned channels = conv.channels;
    float w_next[W_LOADS], x_next[X_LOADS];
    auto fetch = [&](unsigned first) {  // channel `first` and the next 15, zeros beyond the last
#pragma unroll
        for (int j = 0; j < W_LOADS; j++) {
            int k = first_k + w_first + j * (THREADS / BK);
            unsigned c = first + w_c;
            w_next[j] = k < conv.out_channels && c < channels ? weight[k * channels + c] : 0.0f;
        }
#pragma unroll
        for (int j = 0; j < X_LOADS; j++) {
            unsigned c = first + x_first + j * (THREADS / BN);
            x_next[j] = pixel_inside && c < channels ? x_from[c * plane_in] : 0.0f;
        }
    };

    int row = threadIdx.x / (BN / TN) * TM, column = threadIdx.x % (BN / TN) * TN;  // of the tile
    float sums[TM][TN] = {};
    fetch(0);
    for (unsigned first = 0; first < channels; first += BK) {
#pragma unroll
        for (int j = 0; j < W_LOADS; j++) {
            weights[w_c][w_first + j * (THREADS / BK)] = w_next[j];
        }
#pragma unroll
        for (int j = 0; j < X_LOADS; j++) {
            values[x_first + j * (THREADS / BN)][along] = x_next[j];
        }
        __syncthreads();  // the tiles are complete
        fetch(first + BK);
#pragma unroll
        for (int i = 0; i < BK; i++) {
            float w[TM], x[TN];
            read4(w, &weights[i][row]);
            read4(w + 4, &weights[i][row + 4]);
            read4(x, &values[i][column]);
#pragma unroll
            for (int r = 0; r < TM; r++) {
#pragma unroll
                for (int s = 0; s < TN; s++) {
                    sums[r][s] = fmaf(w[r], x[s], sums[r][s]);
                }
            }
        }
        __syncthreads();  // all threads are done with them
    }

    float *out[TN];  // the thread's pixels, of output channel 0
#pragma unroll
    for (int s = 0; s < TN; s++) {
        int at = first_pixel + min(column + s, of_pixels - 1);
        out[s] = output + at / conv.plane * conv.out_channels * conv.plane + at % conv.plane;
    }
    // Four pixels then lie in one image, at a multiple of 16 bytes.
    bool by_16 = conv.plane % 4 == 0;
#pragma unroll
    for (int r = 0; r < TM; r++) {
        int k = first_k + row + r;
        if (k >= conv.out_channels) {
            break;
        }
        float b = bias_at(bias, k);
        if (by_16) {
            if (column < of_pixels) {
                *reinterpret_cast<float4 *>(out[0] + k * conv.plane) =
                    make_float4(sums[r][0] + b, sums[r][1] + b, sums[r][2] + b, sums[r][3] + b);
            }
            continue;
        }
#pragma unroll
        for (int s = 0; s < TN; s++) {
            if (column + s < of_pixels) {
                out[s][k * conv.plane] = sums[r][s] + b;
            }
        }
    }
}
// ANCHOR_END: kernel
