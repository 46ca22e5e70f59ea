"""Writes the goldens for the Rust side's tests, as small .safetensors files:

    python goldens.py ../tests/goldens --device cuda

- layers.safetensors: the output of each case of layers.py, by its name;
- resnet18.safetensors: `logits`; `layer1.0` … `layer4.1`: the summary of a block's output;
- autoencoder.safetensors: `original.1` … `xlarge.5`: the output of a stage, batch 3; if it has more than 4096 values, the first
  64 as `….first` and the summary as `….summary`;
- unet-tiny.safetensors: `output`; `input`, `down.0.0.residual` … `up.3.2.attention`: the summary of a block's output.

A summary is mean and L2 norm, f64 [2], summed in f64. Parameters and inputs are seeded (seeded.py), so they are not stored.
Everything is computed in f32 without TF32. goldens.json records the machine and versions, the difference from f64 (relative to the
largest magnitude, or absolute if that is below 1), and the digest of each model's parameters.
"""

import argparse
import json
import os
import pathlib
import platform

# Must be set before cuBLAS's first product, for deterministic results.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import safetensors.numpy
import torch

import layers
import models
import seeded

WHOLE = 4096
FIRST = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    arguments.folder.mkdir(parents=True, exist_ok=True)

    makers = {"layers": every_layer, "resnet18": resnet18, "autoencoder": autoencoder, "unet-tiny": unet}
    differences, digests = {}, {}
    for name, make in makers.items():
        golden, parameters = make(arguments.device, torch.float32)
        exact, _ = make("cpu", torch.float64)
        differences[name] = {key: f"{difference(golden[key], exact[key]):.1e}" for key in golden}
        digests |= parameters
        kept = stored(golden)
        path = arguments.folder / f"{name}.safetensors"
        safetensors.numpy.save_file(kept, path)
        worst = max(differences[name], key=lambda key: float(differences[name][key]))
        print(f"{path}: {path.stat().st_size:,} bytes; furthest from f64: {worst}, {differences[name][worst]}")
    about = {
        "device": torch.cuda.get_device_name() if arguments.device == "cuda" else f"CPU, {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "digests": digests,
        "from_f64": differences,
    }
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    (arguments.folder / "goldens.json").write_text(text, encoding="utf-8")


def every_layer(device, dtype):
    golden = {}
    for name, shapes, change, layer in layers.cases(device):
        tensors = [tensor.to(device, dtype) for tensor in layers.inputs(shapes, change)]
        golden[name] = layer(*tensors).to(dtype)
    samples = [((1,), 3), ((2,), 3), ((3, 3), 7), ((65537,), 0), ((5,), (1 << 64) - 1)]
    values = {str(i): seeded.random(shape, seed) for i, (shape, seed) in enumerate(samples)}
    return golden, {"random": f"{seeded.digest(values):016x}"}


def resnet18(device, dtype):
    model = models.ResNet()
    digest = seeded.digest(models.load_seeded(model))
    blocks = {name: part for name, part in model.named_modules() if isinstance(part, models.BasicBlock)}
    images = random([1, 3, 224, 224], 1, device, dtype)
    logits, golden = watched(model.to(device, dtype), blocks, images)
    return {"logits": logits} | golden, {"resnet18": f"{digest:016x}"}


def autoencoder(device, dtype):
    golden, digests = {}, {}
    for name, configuration in models.Autoencoder.CONFIGURATIONS.items():
        model = models.Autoencoder(*configuration)
        digest = seeded.digest(models.load_seeded(model))
        mels, frames, _, _ = configuration
        stages = model.to(device, dtype).stages(random([3, frames * mels], 1, device, dtype))
        golden |= {f"{name}.{stage}": values for stage, values in enumerate(stages, 1)}
        digests[f"autoencoder {name}"] = f"{digest:016x}"
    return golden, digests


def unet(device, dtype):
    model = models.UNet(models.UNet.CONFIGURATIONS["tiny"][0])
    digest = seeded.digest(models.load_seeded(model))
    kinds = (models.Residual, models.Attention)
    blocks = {"input": model.input}
    for name, part in model.named_modules():
        if isinstance(part, kinds) or name.endswith(("downsample", "upsample")):
            blocks[name] = part
    # The first four channels are latents, the last four the previous frame.
    latents = random([2, 8, 64, 64], 1, device, dtype)
    output, golden = watched(model.to(device, dtype), blocks, latents, torch.tensor([10, 700], device=device))
    return {"output": output} | golden, {"unet tiny": f"{digest:016x}"}


def random(shape, seed, device, dtype):
    return torch.from_numpy(seeded.random(shape, seed)).to(device, dtype)


def watched(model, blocks, *inputs):
    """The model's output, and the blocks' outputs by name."""
    seen = {}
    for name, block in blocks.items():
        block.register_forward_hook(lambda _block, _inputs, output, name=name: seen.update({name: output}))
    return model(*inputs), seen


def stored(golden):
    """What is stored for f32 outputs: the values, or a summary."""
    kept = {}
    blocks = "output" in golden or "logits" in golden
    for name, values in golden.items():
        values = values.cpu().numpy()
        if blocks and name not in ("output", "logits"):
            kept[name] = summary(values)
        elif not blocks and values.size > WHOLE:
            kept[f"{name}.first"], kept[f"{name}.summary"] = values.ravel()[:FIRST].copy(), summary(values)
        else:
            kept[name] = np.ascontiguousarray(values, np.float32)
    return kept


def summary(values):
    values = values.astype(np.float64)
    return np.array([values.mean(), np.sqrt((values * values).sum())])


def difference(values, exact):
    """The largest difference relative to the largest magnitude, or absolute if that is below 1; NaN if any value is NaN."""
    values, exact = values.double().cpu(), exact.double()
    return float((values - exact).abs().max() / exact.abs().max().clamp(min=1))


if __name__ == "__main__":
    main()
