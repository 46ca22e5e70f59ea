// Timestep embedding: one thread computes one pair, cos and sin of a step times a frequency.
//
//     output[b]: cos(step·f₀) … cos(step·f_last)  sin(step·f₀) … sin(step·f_last)        f_j = 10000^(−j / half)
//
// In double precision until the last rounding: in f32 the angle of step 999 would be off by up to 6·10⁻⁵, and so would
// the embedding.
//
// Limited by its launch: a batch of steps has a few hundred values.
// run: test elementwise // trial: timestep

// steps: [batch]; output: [batch, 2·half]. pairs = batch·half.
// ANCHOR: kernel
extern "C" __global__ void timestep_embedding(const float *__restrict__ steps, float *__restrict__ output,
                                              unsigned half, unsigned pairs) {
    const double RATE = -9.210340371976184;  // −ln(10000)
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) {
        return;
    }
    unsigned row = i / half, j = i % half;
    double angle = steps[row] * exp(RATE * j / half);
    float *of_row = output + (size_t)row * 2 * half;
    of_row[j] = (float)cos(angle);
    of_row[half + j] = (float)sin(angle);
}
// ANCHOR_END: kernel
