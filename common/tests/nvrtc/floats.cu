// float and double: one row of `out` for each function. The first three kernels are IEEE: every bit is determined.

extern "C" __global__ void f32_exact(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i], whole;
    int row = 0, exponent;
    auto put = [&](float value) { out[row++ * n + i] = value; };
    put(a + b);
    put(a - b);
    put(a * b);
    put(fmaf(a, b, 0.3f));
    put(fminf(a, b));
    put(fmaxf(a, b));
    put(fabsf(a));
    put(copysignf(b, a));
    put(floorf(a));
    put(ceilf(a));
    put(truncf(a));
    put(rintf(a));
    put(roundf(a));
    put(ldexpf(a, 3));
    put(frexpf(a, &exponent));
    put(exponent);
    put(modff(a, &whole));
    put(whole);
    put(fdimf(a, b));
    put(a < b ? 1 : 2);
    put(signbit(a) ? 1 : 2);
    put(__saturatef(a));
    put(__fadd_rz(a, b));
    put(__fadd_ru(a, b));
    put(__fsub_rd(a, b));
    put(__fmul_rz(a, b));
    put(__fmul_ru(a, b));
    put(__fmul_rd(a, b));
    put(__int_as_float(__float_as_int(a) ^ 0x00400000));
}

// Functions that --use_fast_math replaces by approximations, and values that it flushes to zero.
extern "C" __global__ void f32_precise(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i];
    int row = 0;
    auto put = [&](float value) { out[row++ * n + i] = value; };
    put(a / b);
    put(1.0f / a);
    put(sqrtf(fabsf(a)));
    put(a / 3.0f);
    put(fmodf(a, 0.3f));
    put(remainderf(a, 0.3f));
    put(a * 1e-40f);
    put(a * 1e-30f / 1e10f);
    put(__frcp_rn(a));
    put(__fsqrt_rn(fabsf(b)));
    put(__fdiv_rn(b, a));
}

extern "C" __global__ void f64_exact(const double *x, const double *y, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], b = y[i];
    int row = 0, exponent;
    auto put = [&](double value) { out[row++ * n + i] = value; };
    put(a + b);
    put(a * b);
    put(fma(a, b, 0.3));
    put(a / b);
    put(a / 3.0);
    put(1.0 / a);
    put(__drcp_rn(b));
    put(sqrt(fabs(a)));
    put(fmin(a, b));
    put(fmax(a, b));
    put(floor(a));
    put(ceil(a));
    put(trunc(a));
    put(rint(a));
    put(round(a));
    put(fmod(a, 0.3));
    put(copysign(b, a));
    put(frexp(a, &exponent));
    put(exponent);
    put(ldexp(a, -3));
    put((float)a);
    put((double)(float)b + 1.0);
}

extern "C" __global__ void conversions(const float *x, const double *y, const long long *z, long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i];
    double b = y[i];
    long long c = z[i];
    int row = 0;
    auto put = [&](long long value) { out[row++ * n + i] = value; };
    put(__float2int_rn(a));
    put(__float2int_rz(a));
    put(__float2int_ru(a));
    put(__float2int_rd(a));
    put(__float2uint_rz(a));
    put(__float2ll_rn(a));
    put(__double2int_rz(b));
    put(__double2ll_rd(b));
    put(__double2uint_rn(b));
    put(__double_as_longlong(b));
    put(__float_as_int(__ll2float_rn(c)));
    put(__float_as_int(__int2float_rn((int)c)));
    put(__float_as_int(__uint2float_rn((unsigned)c)));
    put(__double_as_longlong(__ll2double_rn(c)));
    put(__double_as_longlong((double)(unsigned long long)c));
    put(__double2hiint(b));
    put(__double2loint(b));
    put(__double_as_longlong(__hiloint2double((int)c, 7)));
    put(__float_as_int(__double2float_rz(b)));
    put(isnan(a) + 2 * isinf(b) + 4 * isfinite(a));
    put((short)fminf(fmaxf(a, -30000.0f), 30000.0f));
    put((unsigned char)__float2uint_rz(fminf(fabsf(a), 255.0f)));
}

extern "C" __global__ void f32_functions(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], positive = y[i], sine, cosine;
    int row = 0;
    auto put = [&](float value) { out[row++ * n + i] = value; };
    sincosf(a, &sine, &cosine);
    put(expf(a));
    put(exp2f(a));
    put(exp10f(a));
    put(expm1f(a));
    put(logf(positive));
    put(log2f(positive));
    put(log10f(positive));
    put(log1pf(positive));
    put(powf(positive, 1.7f));
    put(sinf(a));
    put(cosf(a));
    put(sine);
    put(cosine);
    put(sinpif(a));
    put(tanf(a * 0.25f));
    put(asinf(a * 0.125f));
    put(acosf(a * 0.125f));
    put(atanf(a));
    put(atan2f(a, positive));
    put(sinhf(a));
    put(coshf(a));
    put(tanhf(a));
    put(asinhf(a));
    put(erff(a));
    put(erfcf(a));
    put(normcdff(a));
    put(erfinvf(a * 0.125f));
    put(lgammaf(positive));
    put(tgammaf(positive));
    put(j0f(positive));
    put(cbrtf(a));
    put(hypotf(a, positive));
    put(rsqrtf(positive));
    put(rhypotf(a, positive));
}

// Intrinsics used by hand for speed; --use_fast_math changes them only by flushing subnormals.
extern "C" __global__ void f32_intrinsics(const float *x, const float *y, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], positive = y[i];
    int row = 0;
    auto put = [&](float value) { out[row++ * n + i] = value; };
    put(__expf(a));
    put(__exp10f(a));
    put(__logf(positive));
    put(__log2f(positive));
    put(__log10f(positive));
    put(__powf(positive, 1.7f));
    put(__sinf(a * 0.375f));
    put(__cosf(a * 0.375f));
    put(__fdividef(a, positive));
    put(__frsqrt_rn(positive));
    put(1.0f / (1.0f + __expf(-a)));
}

extern "C" __global__ void f64_functions(const double *x, const double *y, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], positive = y[i];
    int row = 0;
    auto put = [&](double value) { out[row++ * n + i] = value; };
    put(exp(a));
    put(exp2(a));
    put(expm1(a));
    put(log(positive));
    put(log2(positive));
    put(log10(positive));
    put(log1p(positive));
    put(pow(positive, 1.7));
    put(sin(a));
    put(cos(a));
    put(tan(a * 0.25));
    put(asin(a * 0.125));
    put(acos(a * 0.125));
    put(atan(a));
    put(atan2(a, positive));
    put(sinh(a));
    put(cosh(a));
    put(tanh(a));
    put(erf(a));
    put(erfc(a));
    put(lgamma(positive));
    put(cbrt(a));
    put(hypot(a, positive));
    put(rsqrt(positive));
}
