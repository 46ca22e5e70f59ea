// A Markov chain: 16 distributions over 16 states, in rows, take 16 steps. One step is a product of 16×16 matrices,
// X ← X·P, rounded to f16. A warp per chain, whose X never leaves the SM.
// run: ptx
#pragma once

#include <cuda_fp16.h>

constexpr unsigned STEPS = 16;
constexpr unsigned SIZE = 16 * 16;
constexpr unsigned THREADS = 128;
