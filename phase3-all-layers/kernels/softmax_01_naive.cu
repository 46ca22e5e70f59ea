// Softmax over the last dimension: one thread per row, in three passes.
//
//     y[i] = e^(x[i] − max) / Σ e^(x[j] − max)        the largest exponent is 0, so no power overflows
//
// A row that contains NaN or +∞, or only −∞, becomes NaN throughout: either its sum is NaN or every difference is.
//
// Limited by uncoalesced memory accesses: lanes read values that are a row apart, and each value three times.
// run: test sequence // trial: softmax

// x, y: [rows, columns]; y may be x.
// ANCHOR: kernel
extern "C" __global__ void softmax(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    const float *from = x + (size_t)row * columns;
    float *to = y + (size_t)row * columns;
    float most = from[0];
    for (unsigned i = 1; i < columns; i++) {
        most = fmaxf(most, from[i]);  // ignores NaN, but the sum does not
    }
    float sum = 0.0f;
    for (unsigned i = 0; i < columns; i++) {
        sum += expf(from[i] - most);
    }
    for (unsigned i = 0; i < columns; i++) {
        to[i] = expf(from[i] - most) / sum;
    }
}
// ANCHOR_END: kernel
