// The sums of 8-bit floats whose blocks have scales: 128 values along K of a row of A, and 128 × 128 values of B. A block is a step of
// the main loop.
// run: gemm // trial: gemm
#pragma once
#include "gemm_shapes.cuh"

// A, with the scales of both. Those of A's rows come with each tile, at the same barrier.
struct ScaledRows : Rows {
    const TensorMap &of_a;  // [K / 128, M] of f32
    const float *of_b;      // [N / 128, K / 128]
    int steps;
};

__device__ inline float load_shared(unsigned from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
}

// ANCHOR: promote
template <>
struct Steps<ScaledRows> {
    template <class Shape, Layout LAYOUT, class At, class Release>
    static __device__ void add(Sums<Shape> &sums, const ScaledRows &source, const At &at, unsigned shared, int consumer,
                               Ring<Shape::STAGES> &ring, int, int steps, const Release &release) {
        using G = Geometry<Shape>;
        static_assert(128 % Shape::BN == 0, "the columns of a tile must have one scale");
        static_assert(Shape::COLUMNS == 1, "a cluster's tile beyond the last column would have none");
        int row = consumer * G::WM + threadIdx.x % GROUP_THREADS / 32 * 16 + threadIdx.x % 32 / 4;
        const float *of_b = source.of_b + at().y / 128 * source.steps;
        float next = of_b[0], products[1][Shape::BN / 2];
#pragma unroll
        for (int i = 0; i < G::PARTS * Shape::BN / 2; i++) {
            sums[i / (Shape::BN / 2)][i % (Shape::BN / 2)] = 0.0f;
        }
        for (int step = 0; step < steps; step++, ring.next()) {
            unsigned a_tile = shared + ring.stage * G::STAGE_BYTES, b_tile = a_tile + G::A_BYTES;
            unsigned of_a = shared + G::SCALES + ring.stage * G::SCALE_BYTES + row * 4;
            float of_columns = next;
            next = of_b[min(step + 1, steps - 1)];  // under way for a whole step
            barrier_wait(shared + G::BARRIERS + 8 * ring.stage, ring.parity);
#pragma unroll
            for (int part = 0; part < G::PARTS; part++) {
                float scales[2];
                wgmma_fence();
                multiply<Shape, LAYOUT>(products, a_tile + (consumer * G::WM + part * 64) * ROW_BYTES, b_tile, false);
                wgmma_commit();
#pragma unroll
                for (int i = 0; i < 2; i++) {  // a thread has sums of two rows, eight apart
                    scales[i] = load_shared(of_a + (part * 64 + i * 8) * 4) * of_columns;
                }
                __syncwarp();  // all lanes have read them
                wgmma_wait<0>();
                hold(products[0]);
                if (part + 1 == G::PARTS) {
                    release(ring.stage);
                }
#pragma unroll
                for (int i = 0; i < Shape::BN / 2; i++) {  // while the tensor cores have the other consumer's products
                    sums[part][i] = fmaf(scales[i / 2 % 2], products[0][i], sums[part][i]);
                }
            }
        }
    }
};
// ANCHOR_END: promote
