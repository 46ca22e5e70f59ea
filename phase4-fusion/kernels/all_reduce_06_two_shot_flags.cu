// As two shots, in one kernel: each device adds up its part and writes the sums into the memory of all. Reading and writing use the two
// directions of the links at the same time, and the last meeting is the only one after the first.
//
//     wait for all ─▶ read my part of all, add up, write it to all ─▶ wait for all ─▶ end
//
// Limit: the links, in both directions.
// run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: flags_two_shot
extern "C" __global__ void __launch_bounds__(THREADS)
    two_shot_flags(const __grid_constant__ Peers<const uint4> values, const __grid_constant__ Peers<uint4> sums,
                   unsigned long long vectors, unsigned long long part, const __grid_constant__ Peers<unsigned> flags, State *state,
                   unsigned rank, unsigned ranks) {
    unsigned meeting = 2 * state->launches;
    meet(flags, meeting + 1, rank, ranks);
    auto from = [&](unsigned peer) { return values.at[peer]; };
    auto to = [&](unsigned long long i, uint4 sum) {
        for (unsigned k = 0; k < ranks; ++k) {
            sums.at[(rank + k) % ranks][i] = sum;
        }
    };
    unsigned long long end = (rank + 1) * part < vectors ? (rank + 1) * part : vectors;
    sum_vectors<F32, 4>(rank * part, end, ranks, from, to);
    meet(flags, meeting + 2, rank, ranks);
    end_launch(state);
}
// ANCHOR_END: flags_two_shot
