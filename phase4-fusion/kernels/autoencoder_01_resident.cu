// The whole autoencoder in one launch: all weights lie in a block's shared memory while spectrograms pass through five stages there,
// so that only inputs and outputs touch global memory.
//
// Ten warps. At the ends of the network a warp has whole rows, which nobody else reads: a slice of a spectrogram is normalised,
// multiplied and written back in its place. In the middle a warp has 32 of the columns of the basis: of their products with it each
// warp has a part of a sum, and a barrier lies before and after that is added up.
//
// Limited by a launch for few spectrograms, by arithmetic for many. Compute capability 9.0 and up: the weights are on their way while the
// launch before still runs.
// nvrtc: --gpu-architecture=compute_90a // run: test autoencoder // trial: none, its check is a whole model with prepared weights
#include "cp_async.cuh"
#include "hopper.cuh"

// ANCHOR: sizes
constexpr int MELS = 64, FRAMES = 5, LATENT = 32, SLICE = 64;  // the configuration "original"
constexpr int COMBINED = FRAMES * SLICE;
constexpr int WARPS = COMBINED / 32, THREADS = 32 * WARPS;
// ANCHOR_END: sizes

// The weights, as the host packs them and shared memory holds them; indices of floats. Where lanes have neighbouring outputs, four
// inputs of each output lie together: 16 bytes a lane. A row of the basis is read along both of its sides, and its pitch keeps either
// way free of bank conflicts.
constexpr int BASIS_PITCH = LATENT + 4;
constexpr int ENCODER = 0, ENCODER_BIAS = ENCODER + MELS * SLICE;      // [M / 4][S][4], [S]
constexpr int BASIS = ENCODER_BIAS + SLICE;                            // [C][pitch]
constexpr int MIDDLE = BASIS + COMBINED * BASIS_PITCH;                 // [L / 4][L][4]
constexpr int MIDDLE_BIAS = MIDDLE + LATENT * LATENT;                  // [L]
constexpr int DECODER = MIDDLE_BIAS + LATENT;                          // [S / 4][M][4]
constexpr int DECODER_BIAS = DECODER + SLICE * MELS;                   // [M]
constexpr int WEIGHTS = DECODER_BIAS + MELS;

// Four floats of shared memory. In PTX, since the compiler takes such a load apart and puts it together anew, each time in another way.
__device__ inline float4 read4(const float *from) {
    float4 four;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"((unsigned)__cvta_generic_to_shared(from))
                 : "memory");
    return four;
}

__device__ inline float dot(float4 a, float4 b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ inline float gelu(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

// The sum over the warp, in every lane.
__device__ inline float sum_of_warp(float value) {
    for (int away = 16; away > 0; away /= 2) {
        value += __shfl_xor_sync(~0u, value, away);
    }
    return value;
}

// Starts the copy of a part of the weights.
__device__ inline void fetch(float *weights, const float *packed, int first, int end) {
    for (int i = first + threadIdx.x * 4; i < end; i += THREADS * 4) {
        copy16(weights + i, packed + i, true);
    }
    end_copy_group();
}

// LayerNorm of a row of 64, without scale and shift: those are in the weights that follow. A lane has two neighbours.
__device__ inline float2 normalised(float2 x) {
    float mean = sum_of_warp(x.x + x.y) * (1.0f / MELS);
    x.x -= mean;
    x.y -= mean;
    float scale = rsqrtf(sum_of_warp(x.x * x.x + x.y * x.y) * (1.0f / MELS) + 1e-5f);
    return make_float2(x.x * scale, x.y * scale);
}

// ANCHOR: linear
// ROWS rows of 64 in shared memory times a matrix: a lane has two columns of the result.
template <int ROWS>
__device__ inline void multiply(const float *rows, const float *matrix, const float *bias, float (&sums)[ROWS][2]) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        sums[row][0] = sums[row][1] = 0.0f;
    }
#pragma unroll 4
    for (int k = 0; k < 64; k += 4) {
        float4 left = read4(matrix + (k * 16 + lane) * 4), right = read4(matrix + (k * 16 + lane + 32) * 4);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            float4 x = read4(rows + row * 64 + k);
            sums[row][0] = dot(x, left, sums[row][0]);
            sums[row][1] = dot(x, right, sums[row][1]);
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        sums[row][0] += bias[lane];
        sums[row][1] += bias[lane + 32];
    }
}
// ANCHOR_END: linear

// ANCHOR: pass
// `x` and `y` are [batch · F, M]. A block takes TOGETHER spectrograms at once, and then others.
template <int TOGETHER>
__device__ inline void pass(const float *x, const float *packed, float *y, int batch) {
    constexpr int ROWS = TOGETHER * FRAMES / WARPS;  // of a warp
    static_assert(ROWS * WARPS == TOGETHER * FRAMES);
    extern __shared__ __align__(16) float shared[];
    float *weights = shared, *slices = weights + WEIGHTS;                                // [TOGETHER · F][64]
    float *parts = slices + TOGETHER * COMBINED, *latents = parts + WARPS * TOGETHER * LATENT;  // [WARPS][TOGETHER][L], [TOGETHER][L]
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = threadIdx.x;

    launch_dependents();
    fetch(weights, packed, ENCODER, BASIS);
    fetch(weights, packed, BASIS, MIDDLE);
    fetch(weights, packed, MIDDLE, WEIGHTS);
    wait_for_launches_before();

    for (int first = blockIdx.x * TOGETHER; first < batch; first += gridDim.x * TOGETHER) {
        float *own = slices + warp * ROWS * 64;
        int row_of_x = first * FRAMES + warp * ROWS, rows_of_x = batch * FRAMES;
        float2 values[ROWS];
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int read = min(row_of_x + row, rows_of_x - 1);  // past the end: anything, it is not written
            values[row] = reinterpret_cast<const float2 *>(x + (size_t)read * MELS)[lane];
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            reinterpret_cast<float2 *>(own + row * 64)[lane] = normalised(values[row]);
        }
        copy_groups_arrived<2>();
        __syncthreads();  // the encoder's weights are there

        float sums[ROWS][2];
        multiply(own, weights + ENCODER, weights + ENCODER_BIAS, sums);
        __syncwarp();
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            own[row * 64 + lane] = gelu(sums[row][0]);
            own[row * 64 + lane + 32] = gelu(sums[row][1]);
        }
        copy_groups_arrived<1>();
        __syncthreads();  // all slices are encoded, and the basis is there

        // Projection: of 32 columns, for the latent value `lane`.
        float part[TOGETHER] = {};
#pragma unroll 2
        for (int k = warp * 32; k < warp * 32 + 32; k += 4) {
            const float *basis = weights + BASIS + k * BASIS_PITCH + lane;
            float4 along = make_float4(basis[0], basis[BASIS_PITCH], basis[2 * BASIS_PITCH], basis[3 * BASIS_PITCH]);
#pragma unroll
            for (int s = 0; s < TOGETHER; s++) {
                part[s] = dot(read4(slices + s * COMBINED + k), along, part[s]);
            }
        }
#pragma unroll
        for (int s = 0; s < TOGETHER; s++) {
            parts[(warp * TOGETHER + s) * LATENT + lane] = part[s];
        }
        copy_groups_arrived<0>();
        __syncthreads();  // all parts are there, and all weights

        // Bottleneck: a warp per spectrogram, a lane per latent value.
        for (int s = warp; s < TOGETHER; s += WARPS) {
            float z = 0.0f;
#pragma unroll
            for (int from = 0; from < WARPS; from++) {
                z += parts[(from * TOGETHER + s) * LATENT + lane];
            }
            z -= sum_of_warp(z) * (1.0f / LATENT);
            z *= rsqrtf(sum_of_warp(z * z) * (1.0f / LATENT) + 1e-5f);
            latents[s * LATENT + lane] = z;
            __syncwarp();
            float sum = weights[MIDDLE_BIAS + lane];
#pragma unroll
            for (int k = 0; k < LATENT; k += 4) {
                sum = dot(read4(latents + s * LATENT + k), read4(weights + MIDDLE + (k * (LATENT / 4) + lane) * 4), sum);
            }
            __syncwarp();
            latents[s * LATENT + lane] = gelu(sum);
        }
        __syncthreads();  // all latent values are there

        // Reconstruction: a column per thread.
        float back[TOGETHER] = {};
#pragma unroll 2
        for (int l = 0; l < LATENT; l += 4) {
            float4 along = read4(weights + BASIS + column * BASIS_PITCH + l);
#pragma unroll
            for (int s = 0; s < TOGETHER; s++) {
                back[s] = dot(read4(latents + s * LATENT + l), along, back[s]);
            }
        }
#pragma unroll
        for (int s = 0; s < TOGETHER; s++) {
            slices[s * COMBINED + column] = back[s];
        }
        __syncthreads();  // all slices are there

        multiply(own, weights + DECODER, weights + DECODER_BIAS, sums);
        __syncwarp();  // before the next input takes the place of these rows
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (row_of_x + row < rows_of_x) {
                y[(size_t)(row_of_x + row) * MELS + lane] = sums[row][0];
                y[(size_t)(row_of_x + row) * MELS + lane + 32] = sums[row][1];
            }
        }
    }
    copy_groups_arrived<0>();
}
// ANCHOR_END: pass

// A kernel, and the bytes of shared memory that it needs.
#define RESIDENT(TOGETHER)                                                                                              \
    constexpr int autoencoder_##TOGETHER##_shared =                                                                      \
        (WEIGHTS + TOGETHER * (COMBINED + WARPS * LATENT + LATENT)) * (int)sizeof(float);                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        autoencoder_##TOGETHER(const float *x, const float *packed, float *y, int batch) {                             \
        pass<TOGETHER>(x, packed, y, batch);                                                                           \
    }

RESIDENT(2)
RESIDENT(4)
RESIDENT(8)
RESIDENT(16)
