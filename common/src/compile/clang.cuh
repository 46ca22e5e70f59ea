// What NVRTC knows without an `#include`, for clang: vectors, built-in variables, intrinsics, mathematics. Clang's own headers have
// most of it and expect the rest from CUDA's, which this text stands in for. The mathematics is NVIDIA's libdevice, as NVRTC's is.
// Not here: textures, and what CUDA has headers for.

#define __CUDACC__ 1
#define CUDA_VERSION 12000

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__ __attribute__((grid_constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
// Clang takes the keyword at the beginning of a declaration alone, NVRTC after `__shared__` too.
#define alignas(n) __attribute__((aligned(n)))

// In `__attribute__((device))`: of what is inlined from here, diagnostics name the line that calls it.
#define device device, nodebug

typedef __SIZE_TYPE__ size_t;
typedef unsigned cuuint32_t;
typedef unsigned uint;

#define FN static __device__ __forceinline__

// Clang copies a struct of 16 bytes in halves of 8. By members, all read before one is written, it takes one vector.
#define COPIED2(name) \
    __device__ __forceinline__ name &operator=(const name &from) { \
        auto a = from.x, b = from.y; \
        x = a, y = b; \
        return *this; \
    }
#define COPIED4(name) \
    __device__ __forceinline__ name &operator=(const name &from) { \
        auto a = from.x, b = from.y, c = from.z, d = from.w; \
        x = a, y = b, z = c, w = d; \
        return *this; \
    }

// int2, make_int2, …
#define VECTORS(name, type, align2, align4)                                                     \
    struct name##1 { type x; };                                                                 \
    struct __align__(align2) name##2 { type x, y; COPIED2(name##2) };                           \
    struct name##3 { type x, y, z; };                                                           \
    struct __align__(align4) name##4 { type x, y, z, w; COPIED4(name##4) };                     \
    FN name##1 make_##name##1(type x) { return {x}; }                                           \
    FN name##2 make_##name##2(type x, type y) { return {x, y}; }                                \
    FN name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                     \
    FN name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VECTORS(char, signed char, 2, 4)
VECTORS(uchar, unsigned char, 2, 4)
VECTORS(short, short, 4, 8)
VECTORS(ushort, unsigned short, 4, 8)
VECTORS(int, int, 8, 16)
VECTORS(uint, unsigned, 8, 16)
VECTORS(long, long, 16, 16)
VECTORS(ulong, unsigned long, 16, 16)
VECTORS(longlong, long long, 16, 16)
VECTORS(ulonglong, unsigned long long, 16, 16)
VECTORS(float, float, 8, 16)
VECTORS(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
    __host__ __device__ constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern "C" {
__device__ int vprintf(const char *, const char *);
__device__ int printf(const char *, ...);
__device__ void *malloc(size_t);
__device__ void free(void *);
__device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
}
#define assert(condition) \
    ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__, sizeof(char)))

#include <__clang_cuda_builtin_vars.h>
#define BUILTIN(name) \
    __device__ inline __cuda_builtin_##name##_t::operator dim3() const { return dim3(x, y, z); } \
    __device__ inline __cuda_builtin_##name##_t::operator uint3() const { return {x, y, z}; }
BUILTIN(threadIdx)
BUILTIN(blockIdx)
BUILTIN(blockDim)
BUILTIN(gridDim)

#include <__clang_cuda_libdevice_declares.h>
#include <__clang_cuda_device_functions.h>
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#include <__clang_cuda_math.h>
#undef INT_MAX
#undef INT_MIN
#undef HUGE_VAL
#undef HUGE_VALF

FN unsigned __isGlobal(const void *p) { return __nvvm_isspacep_global(p); }
FN unsigned __isShared(const void *p) { return __nvvm_isspacep_shared(p); }
FN unsigned __isConstant(const void *p) { return __nvvm_isspacep_const(p); }
FN unsigned __isLocal(const void *p) { return __nvvm_isspacep_local(p); }
extern "C" __device__ size_t __nv_cvta_generic_to_shared_impl(const void *);
FN size_t __cvta_generic_to_shared(const void *p) { return __nv_cvta_generic_to_shared_impl(p); }
#include <__clang_cuda_intrinsics.h>
FN size_t __cvta_generic_to_global(const void *p) { return __nv_cvta_generic_to_global_impl(p); }
FN void *__cvta_shared_to_generic(size_t p) { return __nv_cvta_shared_to_generic_impl(p); }
FN void *__cvta_global_to_generic(size_t p) { return __nv_cvta_global_to_generic_impl(p); }

// CUDA's overloads of C's functions.
#define UNARY(name) FN float name(float x) { return name##f(x); }
#define BINARY(name) FN float name(float x, float y) { return name##f(x, y); }
UNARY(acos) UNARY(acosh) UNARY(asin) UNARY(asinh) UNARY(atan) UNARY(atanh) UNARY(cbrt) UNARY(ceil) UNARY(cos) UNARY(cosh)
UNARY(erf) UNARY(erfc) UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(fabs) UNARY(floor) UNARY(lgamma) UNARY(log) UNARY(log10)
UNARY(log1p) UNARY(log2) UNARY(nearbyint) UNARY(rint) UNARY(round) UNARY(rsqrt) UNARY(sin) UNARY(sinh) UNARY(sqrt) UNARY(tan)
UNARY(tanh) UNARY(tgamma) UNARY(trunc)
BINARY(atan2) BINARY(copysign) BINARY(fdim) BINARY(fmax) BINARY(fmin) BINARY(fmod) BINARY(hypot) BINARY(pow) BINARY(remainder)
FN float fma(float x, float y, float z) { return fmaf(x, y, z); }
FN float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
FN float abs(float x) { return fabsf(x); }
FN double abs(double x) { return fabs(x); }
FN long abs(long x) { return labs(x); }
FN long long abs(long long x) { return llabs(x); }

#define CLASS(type)                                                                  \
    FN bool isnan(type x) { return __builtin_isnan(x); }                             \
    FN bool isinf(type x) { return __builtin_isinf(x); }                             \
    FN bool isfinite(type x) { return __builtin_isfinite(x); }                       \
    FN bool signbit(type x) { return __builtin_signbit(x); }
CLASS(float)
CLASS(double)

#define MIN_MAX(result, a, b)                                                        \
    FN result min(a x, b y) { return (result)x < (result)y ? (result)x : (result)y; } \
    FN result max(a x, b y) { return (result)x > (result)y ? (result)x : (result)y; }
#define INTEGERS(type)                     \
    MIN_MAX(unsigned type, unsigned type, unsigned type) \
    MIN_MAX(unsigned type, unsigned type, type) \
    MIN_MAX(unsigned type, type, unsigned type)
INTEGERS(int)
INTEGERS(long)
INTEGERS(long long)
MIN_MAX(long, long, long)
MIN_MAX(long long, long long, long long)
#define FLOATS(result, a, b, suffix)                                                 \
    FN result min(a x, b y) { return __nv_fmin##suffix(x, y); }                      \
    FN result max(a x, b y) { return __nv_fmax##suffix(x, y); }
FLOATS(float, float, float, f)
FLOATS(double, double, double, )
FLOATS(double, float, double, )
FLOATS(double, double, float, )

// By the clang function for that type, whose name has a letter.
#define ATOMIC(name, letter, type)                                                                             \
    FN type atomic##name(type *p, type v) { return __##letter##Atomic##name(p, v); }                           \
    FN type atomic##name##_block(type *p, type v) { return __##letter##Atomic##name##_block(p, v); }           \
    FN type atomic##name##_system(type *p, type v) { return __##letter##Atomic##name##_system(p, v); }
#define EXCHANGED(letter, type)                                                                                \
    ATOMIC(Exch, letter, type)                                                                                 \
    FN type atomicCAS(type *p, type old, type v) { return __##letter##AtomicCAS(p, old, v); }                  \
    FN type atomicCAS_block(type *p, type old, type v) { return __##letter##AtomicCAS_block(p, old, v); }      \
    FN type atomicCAS_system(type *p, type old, type v) { return __##letter##AtomicCAS_system(p, old, v); }
#define BITWISE(letter, type) ATOMIC(And, letter, type) ATOMIC(Or, letter, type) ATOMIC(Xor, letter, type)
#define ORDERED(letter, type) ATOMIC(Min, letter, type) ATOMIC(Max, letter, type)
#define SUMMED(letter, type)                                                                                   \
    ATOMIC(Add, letter, type)                                                                                  \
    FN type atomicSub(type *p, type v) { return __##letter##AtomicAdd(p, -v); }                                \
    FN type atomicSub_block(type *p, type v) { return __##letter##AtomicAdd_block(p, -v); }                    \
    FN type atomicSub_system(type *p, type v) { return __##letter##AtomicAdd_system(p, -v); }
EXCHANGED(i, int) BITWISE(i, int) ORDERED(i, int) SUMMED(i, int)
EXCHANGED(u, unsigned) BITWISE(u, unsigned) ORDERED(u, unsigned) SUMMED(u, unsigned)
ATOMIC(Inc, u, unsigned) ATOMIC(Dec, u, unsigned)
EXCHANGED(ull, unsigned long long) BITWISE(ull, unsigned long long) ORDERED(ull, unsigned long long)
ATOMIC(Add, ull, unsigned long long) ORDERED(ill, long long)
ATOMIC(Add, f, float) ATOMIC(Exch, f, float) ATOMIC(Add, d, double)

#define MATCH(bits, from, to)                                                                                  \
    FN unsigned __match_any_sync(unsigned mask, from value) {                                                  \
        return __match##bits##_any_sync(mask, __builtin_bit_cast(to, value));                                  \
    }                                                                                                          \
    FN unsigned __match_all_sync(unsigned mask, from value, int *all) {                                        \
        return __match##bits##_all_sync(mask, __builtin_bit_cast(to, value), all);                             \
    }
MATCH(32, int, unsigned) MATCH(32, unsigned, unsigned) MATCH(32, float, unsigned)
MATCH(64, long, unsigned long long) MATCH(64, unsigned long, unsigned long long)
MATCH(64, long long, unsigned long long) MATCH(64, unsigned long long, unsigned long long)
MATCH(64, double, unsigned long long)

FN void __nanosleep(unsigned ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
#define DOT(signed, ptx)                                                                                       \
    FN signed __dp4a(signed a, signed b, signed c) {                                                           \
        asm("dp4a." ptx "." ptx " %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));                                \
        return c;                                                                                              \
    }
DOT(int, "s32") DOT(unsigned, "u32")

// Loads and stores with an operator for the caches.
#define LOAD(function, operator, type, ptx, register)                                                          \
    FN type function(const type *p) {                                                                          \
        type v;                                                                                                \
        asm volatile("ld.global." operator "." ptx " %0, [%1];" : "=" register(v) : "l"(p) : "memory");        \
        return v;                                                                                              \
    }                                                                                                          \
    FN type##2 function(const type##2 *p) {                                                                    \
        type##2 v;                                                                                             \
        asm volatile("ld.global." operator ".v2." ptx " {%0, %1}, [%2];"                                       \
                     : "=" register(v.x), "=" register(v.y) : "l"(p) : "memory");                              \
        return v;                                                                                              \
    }                                                                                                          \
    FN type##4 function(const type##4 *p) {                                                                    \
        type##4 v;                                                                                             \
        asm volatile("ld.global." operator ".v4." ptx " {%0, %1, %2, %3}, [%4];"                               \
                     : "=" register(v.x), "=" register(v.y), "=" register(v.z), "=" register(v.w) : "l"(p)     \
                     : "memory");                                                                              \
        return v;                                                                                              \
    }
#define STORE(function, operator, type, ptx, register)                                                         \
    FN void function(type *p, type v) {                                                                        \
        asm volatile("st.global." operator "." ptx " [%0], %1;" ::"l"(p), register(v) : "memory");             \
    }                                                                                                          \
    FN void function(type##2 *p, type##2 v) {                                                                  \
        asm volatile("st.global." operator ".v2." ptx " [%0], {%1, %2};"                                       \
                     ::"l"(p), register(v.x), register(v.y) : "memory");                                       \
    }                                                                                                          \
    FN void function(type##4 *p, type##4 v) {                                                                  \
        asm volatile("st.global." operator ".v4." ptx " [%0], {%1, %2, %3, %4};"                               \
                     ::"l"(p), register(v.x), register(v.y), register(v.z), register(v.w) : "memory");         \
    }
#define CACHED(type, ptx, register)                                                                            \
    LOAD(__ldca, "ca", type, ptx, register) LOAD(__ldcg, "cg", type, ptx, register)                            \
    LOAD(__ldcs, "cs", type, ptx, register) LOAD(__ldlu, "lu", type, ptx, register)                            \
    LOAD(__ldcv, "cv", type, ptx, register) STORE(__stwb, "wb", type, ptx, register)                           \
    STORE(__stcg, "cg", type, ptx, register) STORE(__stcs, "cs", type, ptx, register)                          \
    STORE(__stwt, "wt", type, ptx, register)
CACHED(int, "s32", "r") CACHED(uint, "u32", "r") CACHED(float, "f32", "f")

#undef FN
#undef COPIED2
#undef COPIED4
#undef VECTORS
#undef BUILTIN
#undef UNARY
#undef BINARY
#undef CLASS
#undef MIN_MAX
#undef INTEGERS
#undef FLOATS
#undef ATOMIC
#undef EXCHANGED
#undef BITWISE
#undef ORDERED
#undef SUMMED
#undef MATCH
#undef DOT
#undef LOAD
#undef STORE
#undef CACHED
#undef device
