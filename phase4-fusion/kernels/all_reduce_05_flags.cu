// As one shot, but the devices wait for each other inside the kernel, by flags in memory: no events and no host between.
//
//     raise my flag at all others ─▶ wait for theirs ─▶ read and add up ─▶ raise, wait ─▶ end
//
// The first meeting says that the values can be read, the second that nobody reads them any more.
// Limit: N − 1 times the values, as before.
// run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: flags_one_shot
extern "C" __global__ void __launch_bounds__(THREADS)
    one_shot_flags(const __grid_constant__ Peers<const uint4> values, uint4 *sums, unsigned long long vectors,
                   const __grid_constant__ Peers<unsigned> flags, State *state, unsigned rank, unsigned ranks) {
    unsigned meeting = 2 * state->launches;
    meet(flags, meeting + 1, rank, ranks);
    auto from = [&](unsigned peer) { return values.at[peer]; };
    auto to = [&](unsigned long long i, uint4 sum) { sums[i] = sum; };
    sum_vectors<F32, 4>(0, vectors, ranks, from, to);
    meet(flags, meeting + 2, rank, ranks);
    end_launch(state);
}
// ANCHOR_END: flags_one_shot
