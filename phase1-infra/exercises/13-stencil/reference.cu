// One step of heat, a cell after the other.

extern "C" __global__ void reference(const double *now, double *next, unsigned rows, unsigned columns) {
    for (unsigned y = 0; y < rows; ++y) {
        for (unsigned x = 0; x < columns; ++x) {
            const double *cell = now + y * columns + x;
            double c = *cell;
            double left = x > 0 ? cell[-1] : c, right = x + 1 < columns ? cell[1] : c;
            double above = y > 0 ? *(cell - columns) : c, below = y + 1 < rows ? cell[columns] : c;
            next[y * columns + x] = c + 0.1 * (left + right + above + below - 4.0 * c);
        }
    }
}
