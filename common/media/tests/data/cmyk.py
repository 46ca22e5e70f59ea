"""JPEGs of four colour components, which the encoder that the tests have does not write.

    pip install pillow
    python cmyk.py            # writes cmyk.jpg and ycck.jpg here, and prints what Pillow reads from them

Each is four squares of 16 x 16 in a row. Pillow marks a CMYK file as Adobe's, components inverted. It writes no YCCK, so that file
is made of components that were converted by hand, and Adobe's mark is changed from "no transform" (0) to "YCCK" (2).
"""

from pathlib import Path

from PIL import Image

# Cyan, magenta, yellow, black: a red, a pale blue, a dark green, white.
INKS = [(0, 230, 230, 10), (120, 40, 0, 20), (200, 0, 200, 120), (0, 0, 0, 0)]
HERE = Path(__file__).parent
MARK = b"Adobe\x00\x64\x00\x00\x00\x00"


def write(name, colours, transform):
    image = Image.new("CMYK", (16 * len(colours), 16))
    for i, colour in enumerate(colours):
        image.paste(colour, (16 * i, 0, 16 * (i + 1), 16))
    path = HERE / name
    image.save(path, quality=95, subsampling=0)
    data = path.read_bytes()
    at = data.index(MARK) + len(MARK)
    assert data[at] == 0
    path.write_bytes(data[:at] + bytes([transform]) + data[at + 1 :])
    read = Image.open(path).convert("RGB")
    print(name, len(data), "bytes:", [read.getpixel((16 * i + 8, 8)) for i in range(len(colours))])


def ycck(inks):
    # As red, green and blue become YCbCr, so cyan, magenta and yellow here. Pillow inverts what it writes, which undoes the 255 -.
    red, green, blue, black = inks
    y = 0.299 * red + 0.587 * green + 0.114 * blue
    cb, cr = 128 + 0.564 * (blue - y), 128 + 0.713 * (red - y)
    return tuple(255 - round(min(max(value, 0), 255)) for value in (y, cb, cr)) + (black,)


write("cmyk.jpg", INKS, 0)
write("ycck.jpg", [ycck(inks) for inks in INKS], 2)
