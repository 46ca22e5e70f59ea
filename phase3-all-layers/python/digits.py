"""Trains a narrow ResNet on handwritten digits, so that accuracy can be checked on real, labelled images:

    python digits.py ../assets --device cuda

writes digits.safetensors, the weights by torchvision's names, and digits-test.safetensors: `images` u8 [N, 8, 8] of 0 to 16,
`labels` u8 [N] and `logits` f32 [N, 10], computed by PyTorch from these images with these weights; and digits-train.safetensors,
`images` and `labels` of the first 320 that it was trained with, for calibrations.

The images are the UCI optical digits that scikit-learn ships, 1797 of 8×8. Every fifth, from the first, is used for testing and the
other 1437 for training; the test set chooses nothing. The network's input is values / 16, each pixel as 4×4, in three equal channels.
"""

import argparse
import os
import pathlib

# Must be set before cuBLAS's first product, for deterministic results.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import safetensors.numpy
import torch
from sklearn.datasets import load_digits
from torch.nn import functional

import models

WIDTHS = (8, 16, 32, 64)
EPOCHS = 40
BATCH = 64
# Images of the training set that are written.
CALIBRATION = 320
# Below this accuracy the files are not written.
LEAST_ACCURACY = 0.98


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    # A layer whose gradient is not deterministic on a GPU only gives a warning: the tests use the weights in the file.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)

    digits = load_digits()
    images = torch.from_numpy(digits.images.astype(np.uint8))
    labels = torch.from_numpy(digits.target.astype(np.int64))
    tested = torch.arange(len(images)) % 5 == 0
    model = models.ResNet(WIDTHS, (2, 2, 2, 2), 10).to(arguments.device)
    train(model, images[~tested].to(arguments.device), labels[~tested].to(arguments.device))

    model.eval()
    with torch.no_grad():
        logits = model(prepared(images[tested].to(arguments.device))).cpu()
    right = int((logits.argmax(1) == labels[tested]).sum())
    best = logits.topk(2).values
    print(f"{right} of {len(logits)} right: {right / len(logits):.4f}")
    print(f"closest decision: {float((best[:, 0] - best[:, 1]).min()):.4f} between logits; largest {float(logits.abs().max()):.2f}")
    if right < LEAST_ACCURACY * len(logits):
        raise SystemExit(f"less than {LEAST_ACCURACY}: not written")

    arguments.folder.mkdir(parents=True, exist_ok=True)
    tensors = model.state_dict()
    weights = {name: tensors[name].cpu().numpy() for name, _ in models.shapes(model)}
    test = {
        "images": images[tested].numpy(),
        "labels": labels[tested].numpy().astype(np.uint8),
        "logits": logits.numpy(),
    }
    training = {
        "images": images[~tested][:CALIBRATION].numpy(),
        "labels": labels[~tested][:CALIBRATION].numpy().astype(np.uint8),
    }
    for name, tensors in [("digits", weights), ("digits-test", test), ("digits-train", training)]:
        path = arguments.folder / f"{name}.safetensors"
        safetensors.numpy.save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, path)
        print(f"{path}: {path.stat().st_size:,} bytes")


def train(model, images, labels):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    # On the CPU, whose results are the same everywhere.
    random = torch.Generator().manual_seed(2)
    batches = len(images) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=EPOCHS * batches)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(images), generator=random)
        total = 0.0
        for batch in range(batches):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            shifts = torch.randint(3, (BATCH, 2), generator=random)
            x = prepared(shifted(images[chosen.to(images.device)], shifts.to(images.device)))
            loss = functional.cross_entropy(model(x), labels[chosen.to(images.device)], label_smoothing=0.1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {total / batches:.4f}", flush=True)


def shifted(images, shifts):
    """Shifts each image by -1, 0 or 1 pixel in y and x, filling with zeros; `shifts` [N, 2] of 0 to 2."""
    padded = functional.pad(images, (1, 1, 1, 1))
    side = torch.arange(images.shape[-1], device=images.device)
    rows, columns = ((shifts[:, axis, None] + side) for axis in (0, 1))
    image = torch.arange(len(images), device=images.device)[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]]


def prepared(images):
    """Converts u8 [N, 8, 8] to the network's input, [N, 3, 32, 32]."""
    pixels = (images.float() / 16).repeat_interleave(4, 1).repeat_interleave(4, 2)
    return pixels[:, None].repeat(1, 3, 1, 1)


if __name__ == "__main__":
    main()
