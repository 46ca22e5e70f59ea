// Attention with roles: a producer copies, and consumers of 64 queries take turns, so that one's softmax runs under another's products.
//
//     tensor cores     S 1 O 0 (consumer 0) │ S 1 O 0 (consumer 1) │ S 2 O 1 (consumer 0) │ …
//     exponentials     weigh 0 (consumer 1) │ weigh 1 (consumer 0) │ weigh 1 (consumer 1) │ …
//
// The loop stands in attention_roles.cuh, the grid, which stays, in attention_stays.cuh.
// Limited by the exponentials where heads are small: 16 per SM and cycle, beside 2048 multiply-adds.
// nvrtc: --gpu-architecture=compute_90a // run: attention // trial: attention
#include "attention_stays.cuh"

// Registers are per thread; an SM has 65536.
template <class OF_ELEMENT, int OF_HEAD>
struct Shape {
    using Element = OF_ELEMENT;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 2, KEYS = HEAD > 80 ? 176 : 128, STAGES = HEAD <= 64 ? 4 : 2;
    static constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS, PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
};

// A head of up to 64 values leaves registers for a third consumer, so that more exponentials run under the products.
template <class OF_ELEMENT, int OF_HEAD>
struct Wide {
    using Element = OF_ELEMENT;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 3, KEYS = 128, STAGES = 2;
    static constexpr int THREADS = (1 + CONSUMERS) * GROUP_THREADS, PRODUCER_REGISTERS = 32, CONSUMER_REGISTERS = 160;
};

#define ROLES_KERNELS(ELEMENT, TYPE)                                       \
    ROLES_KERNEL(attention_40##TYPE, Shape<ELEMENT, 40>)                  \
    ROLES_KERNEL(attention_64##TYPE, Shape<ELEMENT, 64>)                  \
    ROLES_KERNEL(attention_80##TYPE, Shape<ELEMENT, 80>)                  \
    ROLES_KERNEL(attention_128##TYPE, Shape<ELEMENT, 128>)                \
    ROLES_KERNEL(attention_40##TYPE##_wide, Wide<ELEMENT, 40>)            \
    ROLES_KERNEL(attention_64##TYPE##_wide, Wide<ELEMENT, 64>)
ROLES_KERNELS(F16, )
ROLES_KERNELS(BF16, _bf16)
