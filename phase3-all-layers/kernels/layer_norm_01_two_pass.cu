// LayerNorm over the last dimension: one thread normalises one row, which it reads three times.
//
//     y = (x − mean) / √(variance + eps) · weight + bias        mean = Σ x / D        variance = Σ (x − mean)² / D
//
// The variance takes a second pass: Σ x² / D − mean² would subtract two large numbers if the mean is large.
//
// Limited by uncoalesced memory accesses: the lanes of a warp read values that are a row apart, 32 sectors for 32
// values. Also, a layer with few rows has few threads.
// run: test sequence // trial: layer_norm
// x, y: [rows, columns], weight, bias: [columns]
// ANCHOR: kernel
extern "C" __global__ void layer_norm(const float *__restrict__ x, const float *__restrict__ weight,
                                      const float *__restrict__ bias, float *__restrict__ y, unsigned rows,
                                      unsigned columns, float eps) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) {
        return;
    }
    const float *from = x + (size_t)row * columns;
    float *to = y + (size_t)row * columns;
    float sum = 0.0f;
    for (unsigned i = 0; i < columns; i++) {
        sum += from[i];
    }
    float mean = sum / columns;
    float squares = 0.0f;
    for (unsigned i = 0; i < columns; i++) {
        float distance = from[i] - mean;
        squares += distance * distance;
    }
    float scale = 1.0f / sqrtf(squares / columns + eps);
    for (unsigned i = 0; i < columns; i++) {
        to[i] = (from[i] - mean) * scale * weight[i] + bias[i];
    }
}
// ANCHOR_END: kernel
