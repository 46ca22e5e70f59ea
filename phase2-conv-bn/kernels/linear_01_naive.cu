// A linear layer with ReLU, y = relu(x·Wᵀ + bias), fused and naive: one thread computes one output.
//
//     x [batch, in]      W [out, in]      bias [out]      y [batch, out]
//
//     thread i → row i / out, column i % out: the 32 lanes of a warp are neighbours in a row of y
//
//            in                          in
//          ┌──────────┐                ┌──────────┐  lane 0
//     row  │▪▪▪▪▪▪▪▪▪▪│  one row of x, │▪         │
//          │          │  the same for  │▪         │  32 rows of W: at each step 32 values, `in` apart,
//          └──────────┘  all lanes     │▪         │  32 sectors for 128 bytes
//                                      └──────────┘  lane 31
//
// One launch, no intermediate tensor, bias and ReLU for free. But each output fetches two rows by itself: 8 bytes for
// one multiply-add, and the half of them in the most expensive way there is.
//
// Limited by the L1 cache's sectors: 33 for 32 multiply-adds.
// run: linear // trial: linear
// ANCHOR: kernel
extern "C" __global__ void linear_relu_naive(const float *x, const float *weight, const float *bias, float *y,
                                             unsigned outputs,  // batch · out
                                             unsigned in, unsigned out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    const float *x_row = x + (size_t)(i / out) * in;
    const float *weight_row = weight + (size_t)(i % out) * in;
    float sum = bias[i % out];
    for (unsigned k = 0; k < in; k++) {
        sum += x_row[k] * weight_row[k];
    }
    y[i] = sum < 0.0f ? 0.0f : sum;
}
// ANCHOR_END: kernel
