"""The course's models in plain PyTorch, with the same parameter names and order as on the Rust side.

    python models.py            counts parameters and operations, without allocating parameters
    python models.py --check    also compares the ResNet with torchvision's (which must be installed)
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional

import seeded

EPS = 1e-5


def shapes(model):
    """Pairs of name and shape of a model's tensors, in the order in which a forward pass uses them."""
    tensors = model.state_dict()
    names = getattr(model, "ORDER", None) or [name for name in tensors if not name.endswith("num_batches_tracked")]
    return [(name, tuple(tensors[name].shape)) for name in names]


def load_seeded(model, seed=None):
    """Sets a model's parameters from a seed, prepares it for inference, and returns the parameters as numpy arrays."""
    tensors = seeded.parameters(shapes(model), model.SEED if seed is None else seed, model.GAIN)
    model.load_state_dict({name: torch.from_numpy(values) for name, values in tensors.items()})
    model.eval().requires_grad_(False)
    return tensors


# ResNet of basic blocks (He et al., 2015), as in torchvision


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width, EPS)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width, EPS)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width, EPS)
            )

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Images [N, 3, H, W] to logits [N, classes]."""

    SEED, GAIN = 18, 6

    def __init__(self, widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2), classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0], EPS)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = widths[0]
        for layer, (width, count) in enumerate(zip(widths, blocks), 1):
            parts = []
            for block in range(count):
                parts.append(BasicBlock(inputs, width, 2 if layer > 1 and block == 0 else 1))
                inputs = width
            setattr(self, f"layer{layer}", nn.Sequential(*parts))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.maxpool(functional.relu(self.bn1(self.conv1(x))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


# SpectralShapeAutoencoder


class Autoencoder(nn.Module):
    """Frames [B, F·M] of a spectrogram to their reconstruction of the same shape."""

    SEED, GAIN = 5, 3
    # n_mels M, frames F, latent L, slice_latent S.
    CONFIGURATIONS = {
        "original": (64, 5, 32, 64),
        "medium": (128, 10, 128, 256),
        "large": (256, 10, 256, 512),
        "xlarge": (512, 10, 512, 1024),
    }
    # PyTorch would list `basis` first.
    ORDER = [
        "slice_norm.weight", "slice_norm.bias", "slice_encoder.weight", "slice_encoder.bias", "basis",
        "bottleneck_norm.weight", "bottleneck_norm.bias", "bottleneck.weight", "bottleneck.bias",
        "slice_decoder.weight", "slice_decoder.bias",
    ]  # fmt: skip

    def __init__(self, mels, frames, latent, slice_latent):
        super().__init__()
        self.frames = frames
        self.slice_norm = nn.LayerNorm(mels, EPS)
        self.slice_encoder = nn.Linear(mels, slice_latent)
        self.basis = nn.Parameter(torch.empty(latent, frames * slice_latent))
        self.bottleneck_norm = nn.LayerNorm(latent, EPS)
        self.bottleneck = nn.Linear(latent, latent)
        self.slice_decoder = nn.Linear(slice_latent, mels)

    def stages(self, x):
        """The outputs of the five stages: [B, F·S], [B, L], [B, L], [B, F·S], [B, F·M]."""
        batch = x.shape[0]
        slices = x.view(batch, self.frames, -1)
        encoded = functional.gelu(self.slice_encoder(self.slice_norm(slices))).reshape(batch, -1)
        basis = functional.normalize(self.basis, dim=1, eps=1e-12)
        projected = encoded @ basis.T
        narrowed = functional.gelu(self.bottleneck(self.bottleneck_norm(projected)))
        widened = narrowed @ basis
        decoded = self.slice_decoder(widened.view(batch, self.frames, -1)).reshape(batch, -1)
        return [encoded, projected, narrowed, widened, decoded]

    def forward(self, x):
        return self.stages(x)[-1]


# Video diffusion U-Net


def timestep_embedding(steps, size):
    """[cos, sin] of step · 10000^(−j / (size / 2)), [N, size]. In f64 and rounded once, since f32 represents the angle of a late
    step only to within 3e-5."""
    half = size // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=steps.device) / half)
    angles = steps.double()[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], 1)


def attention(qkv, heads, sdpa=False):
    """Multi-head attention over [N, tokens, 3C], whose columns are q, k, v; head h has columns h·d to (h + 1)·d of each."""
    images, tokens, columns = qkv.shape
    q, k, v = qkv.view(images, tokens, 3, heads, columns // 3 // heads).permute(2, 0, 3, 1, 4)
    if sdpa:
        y = functional.scaled_dot_product_attention(q, k, v)
    else:
        scores = (q @ k.transpose(-2, -1)).div_(math.sqrt(q.shape[-1]))
        y = scores.softmax(-1) @ v
    return y.transpose(1, 2).reshape(images, tokens, columns // 3)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, embedding):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs, EPS)
        self.time = nn.Linear(embedding, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, EPS)
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, embedding):
        y = functional.silu(self.norm1(self.conv1(x))) + self.time(embedding)[:, :, None, None]
        y = functional.silu(self.norm2(self.conv2(y)))
        return y + (self.shortcut(x) if hasattr(self, "shortcut") else x)


class Attention(nn.Module):
    def __init__(self, channels, heads, sdpa):
        super().__init__()
        self.heads, self.sdpa = heads, sdpa
        self.norm1 = nn.LayerNorm(channels, EPS)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels, EPS)
        self.fc1 = nn.Linear(channels, 4 * channels)
        self.fc2 = nn.Linear(4 * channels, channels)

    def forward(self, x):
        # A pixel's channels form a token.
        y = x.flatten(2).transpose(1, 2)
        y = y + self.proj(attention(self.qkv(self.norm1(y)), self.heads, self.sdpa))
        y = y + self.fc2(functional.gelu(self.fc1(self.norm2(y))))
        return y.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    """Latents and the previous frame [N, 8, H, W] and steps [N] to the predicted noise [N, 4, H, W]. Every convolution and linear
    layer has a bias, except the two of a residual block that are followed by a BatchNorm.

    `sdpa`: PyTorch's own attention, which stores no scores, instead of the formula."""

    SEED, GAIN = 8, 3
    HEADS = 8
    # c, and the number of trained parameters.
    CONFIGURATIONS = {"tiny": (16, 2_217_748), "small": (80, 55_008_084), "production": (320, 878_822_724)}

    def __init__(self, c, sdpa=False):
        super().__init__()
        self.c = c
        widths = [c, 2 * c, 4 * c, 4 * c]

        def pair(inputs, outputs):
            residual, attention = Residual(inputs, outputs, 4 * c), Attention(outputs, self.HEADS, sdpa)
            return nn.ModuleDict({"residual": residual, "attention": attention})

        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        self.input = nn.Conv2d(8, c, 3, padding=1)
        # Channels of the outputs on the way down, which are kept for the way up.
        now, kept = c, [c]
        self.down = nn.ModuleList()
        for i, width in enumerate(widths):
            level = nn.ModuleDict()
            for j in range(2):
                level[str(j)] = pair(now, width)
                now = width
                kept.append(now)
            if i < 3:
                level["downsample"] = nn.Conv2d(now, now, 3, 2, 1)
                kept.append(now)
            self.down.append(level)
        middle = [Attention(now, self.HEADS, sdpa) for _ in range(3)]
        self.middle = nn.ModuleList([Residual(now, now, 4 * c), *middle, Residual(now, now, 4 * c)])
        self.up = nn.ModuleList()
        for k, width in enumerate(reversed(widths)):
            level = nn.ModuleDict()
            for j in range(3):
                level[str(j)] = pair(now + kept.pop(), width)
                now = width
            if k < 3:
                level["upsample"] = nn.Conv2d(now, now, 3, padding=1)
            self.up.append(level)
        self.output_norm = nn.BatchNorm2d(now, EPS)
        self.output = nn.Conv2d(now, 4, 3, padding=1)

    def forward(self, x, steps):
        embedding = self.time(timestep_embedding(steps, self.c).to(x.dtype))
        x = self.input(x)
        kept = [x]
        for level in self.down:
            for j in "01":
                x = level[j]["attention"](level[j]["residual"](x, embedding))
                kept.append(x)
            if "downsample" in level:
                x = level["downsample"](x)
                kept.append(x)
        for block in self.middle:
            x = block(x, embedding) if isinstance(block, Residual) else block(x)
        for level in self.up:
            for j in "012":
                x = level[j]["residual"](torch.cat([x, kept.pop()], 1), embedding)
                x = level[j]["attention"](x)
            if "upsample" in level:
                x = level["upsample"](functional.interpolate(x, scale_factor=2, mode="nearest"))
        return self.output(functional.silu(self.output_norm(x)))


# The command


def count_all():
    """Prints each model's parameters and the floating-point operations of a pass, and checks them against the expected numbers."""
    from torch.utils.flop_counter import FlopCounterMode

    def count(name, model, expected, *inputs):
        trained = sum(parameter.numel() for parameter in model.parameters())
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model.eval()(*inputs)
        print(f"{name}: {trained:,} parameters, {counter.get_total_flops() / 1e9:,.2f} GFLOP")
        assert expected in (None, trained), f"not {expected:,}"

    with torch.device("meta"):
        count("resnet18, 1 image", ResNet(), 11_689_512, torch.empty(1, 3, 224, 224))
        for name, configuration in Autoencoder.CONFIGURATIONS.items():
            mels, frames, _, _ = configuration
            count(f"autoencoder {name}, batch 1", Autoencoder(*configuration), None, torch.empty(1, frames * mels))
        for name, (c, expected) in UNet.CONFIGURATIONS.items():
            count(f"unet {name}, batch 2", UNet(c), expected, torch.empty(2, 8, 64, 64), torch.empty(2))


def check():
    """Compares with other implementations."""
    import torchvision

    theirs = torchvision.models.resnet18(weights=None)
    theirs_too, ours = theirs.state_dict(), ResNet()
    assert [name for name, _ in shapes(ours)] == [name for name in theirs_too if not name.endswith("num_batches_tracked")]
    tensors = load_seeded(ours)
    theirs.load_state_dict({name: torch.from_numpy(values) for name, values in tensors.items()})
    theirs.eval()
    images = torch.from_numpy(seeded.random((1, 3, 224, 224), 1))
    with torch.no_grad():
        assert torch.equal(ours(images), theirs(images)), "torchvision's resnet18 gives other logits"
    print(f"resnet18: torchvision {torchvision.__version__} gives the same logits")

    qkv = torch.from_numpy(seeded.random((2, 11, 72), 1))
    torch.testing.assert_close(attention(qkv, 3), attention(qkv, 3, sdpa=True))
    print("attention: PyTorch's own gives the same within rounding")

    assert [name for name, _ in shapes(UNet(16))][:5] == [
        "time.0.weight", "time.0.bias", "time.2.weight", "time.2.bias", "input.weight",
    ]  # fmt: skip
    assert sorted(Autoencoder.ORDER) == sorted(Autoencoder(4, 2, 3, 5).state_dict())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with torchvision too")
    arguments = parser.parse_args()
    count_all()
    if arguments.check:
        check()
