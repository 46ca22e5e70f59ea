"""The golden for the Rust side's audio module: log-mel spectra of a synthetic sound, in f64.

    pip install numpy
    python phase3-all-layers/python/log_mel.py > phase3-all-layers/tests/goldens/log_mel.json

The definition is that of torchaudio.transforms.MelSpectrogram(n_fft=1024, n_mels=..., otherwise the defaults: hop 512, periodic Hann
window, centred with reflection, power 2, HTK's mel scale from 0 Hz to 8 kHz, no normalisation), then log(mel + 1e-6). If
torchaudio is installed, the script compares with it too; its filters are in f32.
"""

import json
import sys

import numpy as np

RATE, WINDOW, HOP, FLOOR = 16000, 1024, 512, 1e-6


def sound(count):
    """Noise of rising and falling volume, exact in f32."""
    n = np.arange(count)
    return (n * n % 1009 - 504) / 1024 * (n % 4000 / 4096)


def filters(mels):
    """[bins, mels]: triangles that overlap by half, with corners evenly spaced on the mel scale."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, mels + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)[:, None]
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    return np.maximum(0, np.minimum((bins - left) / (middle - left), (right - bins) / (right - middle)))


def log_mel(samples, mels):
    """[columns, mels]."""
    padded = np.pad(samples, WINDOW // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    starts = range(0, len(padded) - WINDOW + 1, HOP)
    spectra = np.stack([np.fft.rfft(window * padded[start : start + WINDOW]) for start in starts])
    return np.log(np.abs(spectra) ** 2 @ filters(mels) + FLOOR)


goldens = []
for count, mels in [(8000, 64), (5632, 128), (4999, 512), (513, 5)]:
    columns = log_mel(sound(count), mels)
    try:
        import torch
        import torchaudio
    except ImportError:
        pass
    else:
        transform = torchaudio.transforms.MelSpectrogram(n_fft=WINDOW, n_mels=mels).double()
        theirs = torch.log(transform(torch.from_numpy(sound(count))) + FLOOR).numpy().T
        assert theirs.shape == columns.shape
        print(f"{mels} mels, torchaudio: within {np.abs(theirs - columns).max():.1e}", file=sys.stderr)
    goldens.append({
        "samples": count,
        "mels": mels,
        "columns": len(columns),
        "mean": columns.mean().round(9),
        # Every seventh value of every second column.
        "values": columns[::2, ::7].ravel().round(7).tolist(),
    })
    print(f"{mels} mels: {(filters(mels).sum(axis=0) == 0).sum()} filters without a bin", file=sys.stderr)
print(json.dumps(goldens))
