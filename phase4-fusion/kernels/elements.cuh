// The types that tensor cores multiply, and those that results are stored as, with their conversions from and to f32.
//
// A matrix in memory is a pointer to `Value`. PTX ISA, "cvt": of a pair the second operand goes to the lower half.
// run: gemm
#pragma once

struct F16 {
    using Value = unsigned short;
    static __device__ void store_pair(Value *to, float low, float high) { *reinterpret_cast<unsigned *>(to) = pack(low, high); }
    static __device__ unsigned pack(float low, float high) {
        unsigned pair;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
    static __device__ float unpack(Value value) {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
        return wide;
    }
};

struct BF16 {
    using Value = unsigned short;
    static __device__ void store_pair(Value *to, float low, float high) { *reinterpret_cast<unsigned *>(to) = pack(low, high); }
    static __device__ unsigned pack(float low, float high) {
        unsigned pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
    static __device__ float unpack(Value value) { return __uint_as_float((unsigned)value << 16); }
};

// f32 in memory; the tensor cores use its upper 19 bits.
struct TF32 {
    using Value = float;
};

// Four bits of exponent, three of mantissa, no infinity.
struct E4M3 {
    using Value = unsigned char;
};

// The same, where blocks of values have scales.
struct ScaledE4M3 : E4M3 {};
template <class Element>
constexpr bool SCALED = false;
template <>
constexpr bool SCALED<ScaledE4M3> = true;

struct S8 {
    using Value = signed char;
};

struct F32 {
    using Value = float;
    static __device__ void store_pair(Value *to, float low, float high) { *reinterpret_cast<float2 *>(to) = make_float2(low, high); }
    static __device__ float unpack(Value value) { return value; }
};

struct I32 {
    using Value = int;
    static __device__ void store_pair(Value *to, int low, int high) { *reinterpret_cast<int2 *>(to) = make_int2(low, high); }
};

// What a product of each type is added up in, and stored as.
template <class Element>
struct Product {
    using Sum = float;
    using Out = Element;
};
template <>
struct Product<TF32> {
    using Sum = float;
    using Out = F32;
};
template <>
struct Product<E4M3> {
    using Sum = float;
    using Out = F16;
};
template <>
struct Product<ScaledE4M3> {
    using Sum = float;
    using Out = BF16;
};
template <>
struct Product<S8> {
    using Sum = int;
    using Out = I32;
};
