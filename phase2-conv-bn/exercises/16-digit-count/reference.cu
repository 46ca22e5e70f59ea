// Expected values: counts[digit][tile], and for each key how many keys before it in its tile have the same digit.
extern "C" __global__ void reference(const double *keys, double *counts, double *ranks, unsigned n, unsigned shift) {
    unsigned tiles = (n + 511) / 512;
    for (unsigned tile = 0; tile < tiles; ++tile) {
        for (unsigned digit = 0; digit < 64; ++digit) {
            counts[digit * tiles + tile] = 0.0;
        }
        for (unsigned i = tile * 512; i < n && i < (tile + 1) * 512; ++i) {
            unsigned digit = (unsigned)keys[i] >> shift & 63;
            ranks[i] = counts[digit * tiles + tile];
            counts[digit * tiles + tile] += 1.0;
        }
    }
}
