// Integers: one row of `out` for each expression, so that a wrong one shows by name.

extern "C" __global__ void arithmetic(const int *x, const int *y, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = x[i], b = y[i], row = 0;
    unsigned ua = a, ub = b;
    auto put = [&](int value) { out[row++ * n + i] = value; };
    put(a + b);
    put(a * b);
    put(a / b);
    put(a % b);
    put(ua / ub);
    put(ua % ub);
    // Division by a constant becomes a multiplication.
    put(a / 7);
    put(a % 5);
    put(ua % 1000003u);
    put(__mulhi(a, b));
    put(__umulhi(a, b));
    put(__mul24(a, b));
    put(__umul24(a, b));
    put(min(a, b));
    put(max(a, b));
    put(min(ua, ub));
    put(max(ua, ub));
    put(abs(a));
    put(__sad(a, b, 3u));
    put(__usad(a, b, 3u));
    put(__hadd(a, b));
    put(__rhadd(a, b));
    put(__uhadd(a, b));
    put(__urhadd(a, b));
    put(a >> 3);
    put(ua >> 3);
    put(a << (b & 31));
    put(a >> (b & 31));
}

extern "C" __global__ void bits(const unsigned *x, const unsigned *y, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = y[i];
    int row = 0;
    auto put = [&](unsigned value) { out[row++ * n + i] = value; };
    put(__clz(a));
    put(__popc(a));
    put(__brev(a));
    put(__ffs(a));
    put(__byte_perm(a, b, 0x5140));
    put(__byte_perm(a, b, b & 0x7777));
    put(__funnelshift_l(a, b, 7));
    put(__funnelshift_r(a, b, a & 31));
    put(__funnelshift_lc(a, b, a & 63));
    put(__funnelshift_rc(a, b, a & 63));
    put((a << 11) | (a >> 21));
    put((a >> 5) & 0x3f);
    put((int)(a << 8) >> 20);
    put((a & b) | (b & ~a) | (a ^ 0x0f0f0f0fu));
    put((a & b) ^ (~b & 0x12345678u));
    put((int)(signed char)a);
    put((unsigned short)(a >> 9));
    put(__dp4a((int)a, (int)b, 3));
    put(__dp4a(a, b, 3u));
    put(__dp2a_lo((int)a, (int)b, 5));
    put(__dp2a_hi(a, b, 5u));
}

extern "C" __global__ void wide(const long long *x, const long long *y, long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long a = x[i], b = y[i];
    unsigned long long ua = a, ub = b;
    int row = 0;
    auto put = [&](long long value) { out[row++ * n + i] = value; };
    put(a + b);
    put(a - b);
    put(a * b);
    put(a / b);
    put(a % b);
    put(ua / ub);
    put(ua % ub);
    put(ua % 1000003u);
    put(a / 10);
    put(__mul64hi(a, b));
    put(__umul64hi(a, b));
    put(__clzll(a));
    put(__popcll(a));
    put(__brevll(a));
    put(__ffsll(a));
    put(min(a, b));
    put(max(ua, ub));
    put(llabs(a));
    put(a >> (b & 63));
    put(ua >> (b & 63));
    put(a << (b & 63));
    put((long long)(int)a * (int)b);
    put((unsigned long long)(unsigned)a * (unsigned)b + ub);
}

// SIMD in a word: four bytes or two halves.
extern "C" __global__ void packed(const unsigned *x, const unsigned *y, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = x[i], b = y[i];
    int row = 0;
    auto put = [&](unsigned value) { out[row++ * n + i] = value; };
    put(__vadd4(a, b));
    put(__vsub4(a, b));
    put(__vaddss4(a, b));
    put(__vaddus2(a, b));
    put(__vsubus4(a, b));
    put(__vavgu4(a, b));
    put(__vabsdiffu4(a, b));
    put(__vmaxs2(a, b));
    put(__vmins4(a, b));
    put(__vmaxu4(a, b));
    put(__vcmpeq4(a, b));
    put(__vcmpgts2(a, b));
    put(__vsetltu4(a, b));
    put(__vneg2(a));
    put(__vsadu4(a, b));
    put(__vsadu2(a, b));
    put(__vsads4(a, b));
    put(__vabsdiffs2(a, b));
    put(__viaddmax_s32(a, b, 4));
    put(__vimax3_s32(a, b, 77));
    put(__vimin_s32_relu(a, b));
    put(__vimax_s16x2_relu(a, b));
}

extern "C" __global__ void shorts(const short *x, const unsigned char *y, short *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short a = x[i], b = y[i];
    int row = 0;
    auto put = [&](short value) { out[row++ * n + i] = value; };
    put(a * b);
    put(a / b);
    put(a % b);
    put((unsigned short)a / (unsigned char)b);
    put(a > b ? a : -a);
    put((short)(a << 2) | (short)(a >> 1));
    put((signed char)(a + b));
}
