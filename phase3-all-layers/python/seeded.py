"""Seeded values, the same bits as in Rust: `Tensor::random` of common/src/tensor.rs and the `seeded` of each model's
`Config`. Needs only numpy.

    python seeded.py    prints a few values, for comparison by eye
"""

import numpy as np

MASK = (1 << 64) - 1
# Values per pass: their working set fits in a core's cache.
CHUNK = 1 << 16


def random(shape, seed):
    """f32 values in (-1, 1), evenly spaced, in an order that depends on the seed (`Tensor::random`)."""
    n = int(np.prod(shape, dtype=np.int64))
    keys = _keys(seed)
    half_bits = max(1, (max(n - 1, 0).bit_length() + 1) // 2)
    # An odd n would have a value at zero; half a step moves it.
    half = 1.0 if n % 2 == 0 else 1.5
    values = np.empty(n, np.float32)
    for first in range(0, n, CHUNK):
        index = np.arange(first, min(first + CHUNK, n), dtype=np.uint64)
        centre = 2.0 * _permuted(index, n, half_bits, keys).astype(np.float64) + half
        values[first : first + CHUNK] = (centre / n - 1.0).astype(np.float32)
    return values.reshape(shape)


def parameters(shapes, seed, gain):
    """A model's tensors by name. `shapes` are pairs of name and shape, in the model's order, which decides their seeds; `gain` is
    the variance of a weight times its inputs times 3: 6 before ReLU, 3 elsewhere."""
    tensors = {}
    for index, (name, shape) in enumerate(shapes):
        inputs = int(np.prod(shape[1:], dtype=np.int64))
        part = name.rsplit(".", 1)[-1]
        if part == "running_var":
            centre, spread = 1.0, 0.5
        elif part == "weight" and len(shape) == 1:
            centre, spread = 1.0, 0.25
        elif part in ("weight", "basis"):
            centre, spread = 0.0, np.sqrt(np.float32(gain) / np.float32(inputs))
        else:
            centre, spread = 0.0, 0.1
        # In f32 throughout, one rounding for the product and one for the sum.
        tensors[name] = np.float32(centre) + np.float32(spread) * random(shape, (seed * 1000 + index) & MASK)
    return tensors


def digest(tensors):
    """A checksum of the bits of all tensors, in the order of their names: Σ bits[i]·(2i + 1) mod 2⁶⁴, with i counting through all
    values. A changed value changes it, and so do two swapped ones."""
    total, first = 0, 0
    for _, values in sorted(tensors.items()):
        bits = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32).astype(np.uint64)
        place = np.arange(first, first + bits.size, dtype=np.uint64)
        total += int(np.sum(bits * (place * np.uint64(2) + np.uint64(1)), dtype=np.uint64))
        first += bits.size
    return total & MASK


def _keys(seed):
    """The keys of the four rounds: the first values of splitmix64."""
    keys = []
    for round in range(1, 5):
        z = (seed + round * 0x9E37_79B9_7F4A_7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB) & MASK
        keys.append(np.uint64(z ^ (z >> 31)))
    return keys


def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return z ^ (z >> np.uint64(31))


def _permuted(index, n, half_bits, keys):
    """The image of each index under a Feistel network on 2 · half_bits bits, applied until it is below n."""
    bits, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    result = np.empty_like(index)
    # Indices that are not below n yet.
    walking, x = np.arange(index.size), index
    while walking.size:
        left, right = x >> bits, x & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        x = left << bits | right
        landed = x < np.uint64(n)
        result[walking[landed]] = x[landed]
        walking, x = walking[~landed], x[~landed]
    return result


if __name__ == "__main__":
    for shape, seed in [((1,), 3), ((2,), 3), ((3, 3), 7), ((5,), (1 << 64) - 1)]:
        print(shape, seed, random(shape, seed).ravel().tolist())
