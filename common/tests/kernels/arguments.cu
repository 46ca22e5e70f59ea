// One parameter of each kind and size, so that a host side that packs them wrongly is found out.
struct Mixed {
    int a;         // at 0
    float b;       // at 4
    double c;      // at 8
    signed char d; // at 16
};

extern "C" __global__ void arguments(double *out, signed char small, unsigned short middle, int word, long long large,
                                     float single, double twice, Mixed mixed) {
    out[0] = small;
    out[1] = middle;
    out[2] = word;
    out[3] = (double)large;
    out[4] = single;
    out[5] = twice;
    out[6] = mixed.a;
    out[7] = mixed.b;
    out[8] = mixed.c;
    out[9] = mixed.d;
}
