"""What src/photo.rs is compared with: a pattern and the photo in assets, prepared as torchvision's ResNet18 transforms do it for a
PIL image.

    pip install pillow numpy
    python photo.py > photo.json

torchvision resizes a PIL image with Image.resize(BILINEAR), the shorter side to 256 and the longer to int(256 * longer / shorter),
and crops at int(round((side - 224) / 2)). Each 16th value of each 16th row is kept, channel by channel, and the means of all.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

MEAN = np.array([0.485, 0.456, 0.406])
STANDARD_DEVIATION = np.array([0.229, 0.224, 0.225])


def pattern(width, height):
    y, x = np.mgrid[0:height, 0:width]
    channels = [(7 * x + 3 * y) % 256, (x * y // 5) % 256, (x * x + 11 * y) // 9 % 256]
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def prepare(image):
    width, height = image.size
    shorter = min(width, height)
    image = image.resize((int(256 * width / shorter), int(256 * height / shorter)), Image.BILINEAR)
    left, top = (int(round((side - 224) / 2)) for side in image.size)
    image = image.crop((left, top, left + 224, top + 224))
    return ((np.asarray(image) / 255 - MEAN) / STANDARD_DEVIATION).transpose(2, 0, 1)


def golden(image):
    values = prepare(image)
    return {
        "width": image.width,
        "height": image.height,
        "means": values.mean(axis=(1, 2)).round(6).tolist(),
        "samples": values[:, ::16, ::16].round(5).ravel().tolist(),
    }


SIZES = [(640, 427), (300, 411), (100, 90), (256, 256), (1500, 1000), (1, 3)]
china = Image.open(Path(__file__).parents[2] / "assets" / "china.jpg").convert("RGB")
print(json.dumps({"patterns": [golden(pattern(*size)) for size in SIZES], "china": golden(china)}))
