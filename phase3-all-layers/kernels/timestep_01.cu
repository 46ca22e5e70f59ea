// Timestep embedding: one thread computes one pair, cos and sin of a step times a frequency.
//
//     output[b]: cos(step·f₀) … cos(step·f_last)  sin(step·f₀) … sin(step·f_last)
//
// The frequencies come from the host: one table a model, in which an exponential that is off by a bit would be off by
// step · 2⁻²⁴ in every embedding. The product is rounded as the host rounds it.
//
// Limited by its launch: a batch of steps has a few hundred values.

// steps: [batch]; frequencies: [half]; output: [batch, 2·half]. pairs = batch·half.
// ANCHOR: kernel
extern "C" __global__ void timestep_embedding(const float *__restrict__ steps, const float *__restrict__ frequencies,
                                              float *__restrict__ output, unsigned half, unsigned pairs) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) {
        return;
    }
    unsigned row = i / half, j = i % half;
    float angle = __fmul_rn(steps[row], frequencies[j]);
    float *of_row = output + (size_t)row * 2 * half;
    of_row[j] = cosf(angle);
    of_row[half + j] = sinf(angle);
}
// ANCHOR_END: kernel
