// Multiplies each row of a row-major matrix by its own factor: y[row][column] = factors[row] · x[row][column].
//
// One thread per element. Blocks have 32 × 8 threads (x along a row), and there are enough of them for all rows and columns, whose numbers
// are arbitrary.

extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    // Your code: which threads have an element, and what do they do with it?
}
