"""Writes the names of ImageNet's 1000 classes, in the order in which torchvision's networks number them, one per line.

    pip install torch==2.11.0 torchvision==0.26.0
    python phase3-all-layers/python/class_names.py > phase3-all-layers/assets/imagenet-classes.txt
"""

from torchvision.models import ResNet18_Weights

names = ResNet18_Weights.IMAGENET1K_V1.meta["categories"]
assert len(names) == len(set(names)) == 1000
print("\n".join(names))
