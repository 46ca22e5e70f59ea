"""Every layer on odd shapes: the cases of tests/goldens/layers.safetensors, which tests/it/goldens.rs repeats.

A case's inputs are `Tensor::random(shape, seed)` with the seeds 1, 2, 3, … in the listed order. If the list says so, an input is
then changed in f32, with one rounding per operation.
"""

import torch
from torch.nn import functional

import models
import seeded


def cases(device):
    """(name, shapes of the inputs, how they are changed first, layer); the layer is a function of the inputs on the device."""
    steps = torch.tensor([0, 1, 10, 321, 999], device=device)
    return [
        # Input, weight, bias.
        ("conv2d.plain", [[2, 3, 9, 11], [5, 3, 3, 3], [5]], None, conv2d(padding=1)),
        ("conv2d.strided", [[1, 4, 13, 10], [6, 4, 5, 3], [6]], None, conv2d(stride=(2, 3), padding=(2, 1))),
        ("conv2d.dilated", [[2, 3, 12, 9], [4, 3, 3, 3], [4]], None, conv2d(dilation=(2, 3), padding=(2, 3))),
        ("conv2d.grouped", [[2, 6, 7, 8], [9, 2, 3, 3], [9]], None, conv2d(groups=3, padding=1)),
        ("conv2d.pointwise", [[3, 7, 5, 4], [6, 7, 1, 1], [6]], None, conv2d()),
        ("conv2d.opening", [[1, 3, 31, 29], [8, 3, 7, 7], [8]], None, conv2d(stride=2, padding=3)),
        # Input, weight, bias, mean, variance = 1 + 0.5 · random.
        ("batch_norm", [[3, 5, 7, 9], [5], [5], [5], [5]], lambda t: [*t[:4], 1 + 0.5 * t[4]], batch_norm),
        ("relu", [[2, 3, 5, 7]], None, functional.relu),
        ("max_pool2d.resnet", [[2, 3, 7, 9]], None, max_pool2d(3, 2, 1)),
        ("max_pool2d.gaps", [[1, 5, 16, 12]], None, max_pool2d(2, 3, 1)),
        ("adaptive_avg_pool2d.2x3", [[2, 3, 7, 9]], None, adaptive_avg_pool2d(2, 3)),
        ("adaptive_avg_pool2d.5x1", [[2, 3, 7, 9]], None, adaptive_avg_pool2d(5, 1)),
        ("adaptive_avg_pool2d.9x7", [[1, 2, 7, 9]], None, adaptive_avg_pool2d(9, 7)),
        # Input, weight, bias.
        ("linear", [[5, 33], [10, 33], [10]], None, functional.linear),
        # Input, weight, bias; over the last dimension.
        ("layer_norm", [[7, 33], [33], [33]], None, lambda x, w, b: functional.layer_norm(x, [33], w, b, models.EPS)),
        # 6 · random, to include the tails.
        ("gelu", [[5, 77]], times(6), functional.gelu),
        ("silu", [[5, 77]], times(6), functional.silu),
        # 10 · random; over the last dimension.
        ("softmax", [[5, 37]], times(10), lambda x: x.softmax(-1)),
        # Row 1 times 0, and row 2 times 1e-14, which leaves its norm below the least divisor, 1e-12.
        ("normalise_rows", [[4, 29]], scaled_rows, lambda x: functional.normalize(x, dim=1, eps=1e-12)),
        # q, k, v as [N, tokens, 3C], times 3; 3 heads of 8 and 2 heads of 5.
        ("attention.3x8", [[2, 11, 72]], times(3), lambda qkv: models.attention(qkv, 3)),
        ("attention.2x5", [[1, 33, 30]], times(3), lambda qkv: models.attention(qkv, 2)),
        # The steps above, as 16 and as 6 values.
        ("timestep_embedding.16", [], None, lambda: models.timestep_embedding(steps, 16)),
        ("timestep_embedding.6", [], None, lambda: models.timestep_embedding(steps, 6)),
        ("upsample_nearest", [[2, 3, 5, 7]], None, lambda x: functional.interpolate(x, scale_factor=2, mode="nearest")),
        ("cat_channels", [[2, 3, 5, 7], [2, 4, 5, 7]], None, lambda *x: torch.cat(x, 1)),
        # x_t, noise, previous frame; ᾱ 0.25 and 0.8125, w 0.75, τ 0.5: numbers that f32 represents exactly.
        ("diffusion_step.early", [[2, 4, 5, 7]] * 3, None, diffusion_step(0.25, 0.75, 0.5)),
        ("diffusion_step.late", [[2, 4, 5, 7]] * 3, None, diffusion_step(0.8125, 0.75, 0.5)),
        # a, b, c.
        ("silu_add_mul", [[3, 5, 7]] * 3, times(3), lambda a, b, c: functional.silu(a + b * c)),
    ]


def inputs(shapes, change):
    """The inputs of a case, on the CPU."""
    tensors = [torch.from_numpy(seeded.random(shape, seed)) for seed, shape in enumerate(shapes, 1)]
    return tensors if change is None else change(tensors)


def times(factor):
    return lambda tensors: [factor * tensor for tensor in tensors]


def scaled_rows(tensors):
    return [tensors[0] * torch.tensor([1, 0, 1e-14, 1])[:, None]]


def conv2d(**geometry):
    return lambda x, weight, bias: functional.conv2d(x, weight, bias, **geometry)


def batch_norm(x, weight, bias, mean, variance):
    return functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, models.EPS)


def max_pool2d(window, stride, padding):
    return lambda x: functional.max_pool2d(x, window, stride, padding)


def adaptive_avg_pool2d(*size):
    return lambda x: functional.adaptive_avg_pool2d(x, size)


def diffusion_step(alpha, weight, threshold):
    """The clean image that the noise implies, blended with the previous frame where the two agree, clamped to [-1, 1]."""

    def step(x, noise, previous):
        clean = (x - (1 - alpha) ** 0.5 * noise) / alpha**0.5
        distance = (clean - previous).abs()
        # Where rounding could decide, a comparison would be meaningless.
        assert (distance - threshold).abs().min() > 1e-5
        blended = torch.where(distance <= threshold, weight * clean + (1 - weight) * previous, clean)
        return blended.clamp(-1, 1)

    return step
