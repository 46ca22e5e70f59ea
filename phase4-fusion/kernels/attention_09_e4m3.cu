// Attention over e4m3: products of bytes have twice the rate of f16's, and half of the bytes to bring.
//
// They take B only as it lies along K, so V's tiles are turned in shared memory (`turn` in attention_roles.cuh). In which order keys are
// summed up is free: it is the one in which lanes have the weights.
//
//     place in A and B     0  1  2  3 │ 4  5  6  7 │ 8  9 10 11 │ 12 13 14 15
//     key                  0  1  8  9 │ 2  3 10 11 │ 4  5 12 13 │  6  7 14 15      lanes 0, 1, 2 and 3 of a row
//
// A number of e4m3 has four bits down to 2⁻⁶, and nothing is left below 2⁻¹⁰. Weights of up to 1 would leave the range above, so they are up
// to 2⁸ (`LIFT`; the largest number is 448), and the sum of a row is 2⁸ times as much too.
// Limited by what is done for each score beside the products: a maximum, an exponential, a sum, a conversion.
// nvrtc: --gpu-architecture=compute_90a // run: attention // trial: attention
#include "attention_stays.cuh"

// Three consumers for both sizes of head: with 96 keys per step there are registers for them, and more exponentials run under the products.
template <int OF_HEAD>
struct Shape {
    using Element = E4M3;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 3, KEYS = HEAD <= 64 ? 128 : 96, STAGES = 4;
    static constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS, PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 152;
};

ROLES_KERNEL(attention_64, Shape<64>)
ROLES_KERNEL(attention_128, Shape<128>)
