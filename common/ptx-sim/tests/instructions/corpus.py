"""Writes `.ptx` instruction tests: a head of inputs and expected outputs, and a kernel in which thread i treats element i."""
import gzip
import random
from fractions import Fraction
from pathlib import Path

import numpy as np

from exact import BF16, F16, F32, F64, OPEN

HERE = Path(__file__).parent
FORMATS = {'f16': F16, 'bf16': BF16, 'f32': F32, 'f64': F64}
SIZE = {'u8': 1, 's8': 1, 'b8': 1, 'u16': 2, 's16': 2, 'b16': 2, 'f16': 2, 'bf16': 2,
        'u32': 4, 's32': 4, 'b32': 4, 'f32': 4, 'u64': 8, 's64': 8, 'b64': 8, 'f64': 8}
LANES = 32
LARGE = 40_000  # characters of a file that is kept compressed


class File:
    """One family: `case` adds a kernel, `write` makes the file."""

    def __init__(self, name, about, sm=75, version='8.0'):
        self.name, self.about, self.sm, self.version = name, about, sm, version
        self.lists, self.bodies = {}, []

    def shared(self, text):
        """The name of a list that cases of this file share."""
        if len(text) < 24:
            return text
        return self.lists.setdefault(text, f'list{len(self.lists)}')

    def case(self, name, code, inputs, outputs, block=LANES):
        """`code` has a line an instruction, with {a}… for the inputs and {d}, {e}… for the outputs.

        An input is `(type, bits)`, an output `(type, texts)` or `(type, texts, within)`; a type such as f16x2 takes two elements a thread.
        """
        head, loads, stores, registers = [f'//! kernel: {name}'], [], [], {}
        if block != 32:
            head.append(f'//! block: {block}')
        parameters, names = [], {}
        expects = []
        for kind, group, letters in (('in', inputs, 'abc'), ('out', outputs, 'defgh')):
            for letter, (ty, values, *within) in zip(letters, group):
                element, count = (ty[:-2], 2) if ty.endswith('x2') else (ty, 1)
                assert len(values) == count * block, (self.name, name, ty, len(values))
                width = SIZE[element] * count
                registers.setdefault(f'.b{max(16, 8 * width)}', []).append(letter)
                access = f'b{8 * width}'
                pointer = f'ld.param.u64 p, [p{letter}];  mad.wide.u32 p, i, {width}, p;'
                if kind == 'in':
                    loads.append(f'{pointer}  ld.global.{access} {letter}, [p];')
                    head.append(f'//! arg: in:{self.shared(element + ":" + ",".join(literal(element, v) for v in values))}')
                else:
                    stores.append(f'{pointer}  st.global.{access} [p], {letter};')
                    head.append(f'//! arg: out:{element}:{len(values)}')
                    expects.append(f'//! expect: {element}:{",".join(values)}')
                    expects += [f'//! within: {bound}' for bound in within]
                parameters.append(f'.param .u64 p{letter}')
                names[letter] = letter
        lines = [line.strip() for line in code.format(**names).strip().splitlines()]
        declared = '  '.join(f'.reg {cls} {", ".join(letters)};' for cls, letters in sorted(registers.items()))
        body = ['mov.u32 i, %tid.x;', *loads, *lines, *stores, 'ret;']
        self.bodies.append('\n'.join([*head, *expects, f'.visible .entry {name}({", ".join(parameters)})', '{',
                                      f'    .reg .u32 i;  .reg .u64 p;  {declared}', *('    ' + line for line in body), '}']))

    def raw(self, text):
        self.bodies.append(text.strip())

    def write(self):
        top = [f'// {self.about}', f'.version {self.version}', f'.target sm_{self.sm}', '.address_size 64',
               *(f'//! let: {name} = {text}' for text, name in self.lists.items())]
        text = '\n\n'.join(['\n'.join(top), *self.bodies]) + '\n'
        plain, compressed = HERE / f'{self.name}.ptx', HERE / f'{self.name}.ptx.gz'
        if len(text) > LARGE:
            compressed.write_bytes(gzip.compress(text.encode(), mtime=0))
            plain.unlink(missing_ok=True)
        else:
            plain.write_text(text, newline='\n')
            compressed.unlink(missing_ok=True)


def literal(ty, bits):
    """`bits` as the head writes them."""
    if ty in FORMATS:
        fmt = FORMATS[ty]
        x = fmt.decode(bits)
        if x[0] == 'nan':
            return 'nan' if bits in (0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000) else f'{bits:#x}'
        if x[0] == 'inf':
            return '-inf' if x[1] else 'inf'
        number = float(-x[2] if x[1] else x[2])
        if x[2] == 0:
            return '-0' if x[1] else '0'
        scalar = {'f16': np.float16, 'bf16': np.float32, 'f32': np.float32, 'f64': np.float64}[ty](number)
        text = str(scalar)
        return text[:-2] if text.endswith('.0') else text
    if ty[0] == 's':
        return str(signed(bits, 8 * SIZE[ty]))
    return f'{bits:#x}' if ty[0] == 'b' else str(bits)


def text_of(ty, x):
    """An expected number: rounded already, so that the format holds it."""
    if x == OPEN:
        return '_'
    return 'nan' if x[0] == 'nan' else literal(ty, FORMATS[ty].encode(x))


def signed(bits, width):
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def bits_of(ty):
    return 8 * SIZE[ty]


def as_int(ty, bits):
    return signed(bits, bits_of(ty)) if ty[0] == 's' else bits


def wrap(ty, value):
    return value & ((1 << bits_of(ty)) - 1)


def clamp(ty, value):
    """`value` within the range of an integer type."""
    width = bits_of(ty)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if ty[0] == 's' else (0, (1 << width) - 1)
    return min(max(value, low), high)


def int_edges(ty):
    width = bits_of(ty)
    top, ones = 1 << (width - 1), (1 << width) - 1
    return [0, 1, 2, ones, top, top - 1, top + 1, ones - 1, ones // 3, ones // 3 * 2, 0x7f, 0x80, 1 << (width // 2), (1 << (width // 2)) - 1]


def int_columns(ty, count, seed=1, nonzero=False):
    """`count` columns of edge values against each other, then random ones of every length."""
    rng = random.Random(f'{ty}{count}{seed}')
    edges, width = int_edges(ty), bits_of(ty)
    columns = [[] for _ in range(count)]
    for lane in range(LANES):
        for place, column in enumerate(columns):
            if lane < 20:
                value = edges[(lane * (1, 5, 3)[place] + place * 3 + lane // len(edges)) % len(edges)]
            else:
                value = rng.getrandbits(rng.randint(1, width))
            if nonzero and place == 1 and (value == 0 or (ty[0] == 's' and value == (1 << width) - 1)):
                value = 3 + lane
            column.append(value)
    return columns


def float_edges(fmt):
    m = fmt.mantissa_bits
    one, inf = fmt.bias << m, ((1 << fmt.exponent_bits) - 1) << m
    sign = 1 << (fmt.width - 1)
    half_up = one + 1
    return [0, sign, one, sign | one, 1, sign | 1, (1 << m) - 1, sign | ((1 << m) - 1), 1 << m, sign | (1 << m), inf - 1, sign | (inf - 1),
            inf, sign | inf, inf | (1 << (m - 1)), half_up, one - 1, one - (1 << m), one + (1 << (m - 1)), sign | (one + (1 << m) + (1 << (m - 2)))]


def float_column(fmt, seed=1, count=LANES):
    rng = random.Random(f'{fmt.name}{seed}')
    edges = float_edges(fmt)[:count]
    return edges + [near_one(fmt, rng) if place % 2 else anywhere(fmt, rng) for place in range(count - len(edges))]


def near_one(fmt, rng, spread=4):
    exponent = fmt.bias + rng.randint(-spread, spread)
    return (rng.getrandbits(1) << (fmt.width - 1)) | (exponent << fmt.mantissa_bits) | rng.getrandbits(fmt.mantissa_bits)


def anywhere(fmt, rng):
    exponent = rng.randint(0, (1 << fmt.exponent_bits) - 2)
    return (rng.getrandbits(1) << (fmt.width - 1)) | (exponent << fmt.mantissa_bits) | rng.getrandbits(fmt.mantissa_bits)


def float_pairs(fmt, seed=1):
    """Pairs at which rounding, flushing, cancelling and the signs of zero show, then random ones of like size."""
    rng = random.Random(f'{fmt.name}pairs{seed}')
    m = fmt.mantissa_bits
    sign, one, inf = 1 << (fmt.width - 1), fmt.bias << m, ((1 << fmt.exponent_bits) - 1) << m
    nan, most, sub, norm = inf | (1 << (m - 1)), inf - 1, 1, 1 << m
    def two(exponent):
        return (fmt.bias + exponent) << m
    pairs = [(0, sign), (sign, sign), (sign, 0), (one, sign | one), (inf, sign | inf), (inf, 0), (nan, one), (sign | one, nan), (nan, nan),
             (most, most), (sign | most, two(fmt.bias - m - 1)), (sub, sub), (norm, sign | sub), (norm + 1, sign | norm), (one, two(-m - 1)),
             (one + 1, two(-m - 1)), (sign | one, sign | two(-m - 1)), (one, two(-m - 1) + 1), (one, sign | two(-m - 2)), (one + 1, one + 1),
             (two(-fmt.bias // 2 - 3), two(-fmt.bias // 2 - 2) + 1), (sign | two(-fmt.bias // 2), two(-fmt.bias // 2 - 2) + 3)]
    while len(pairs) < LANES:
        pairs.append((near_one(fmt, rng), near_one(fmt, rng)))
    return [list(column) for column in zip(*pairs)]


def float_triples(fmt, seed=1):
    """The third operand cancels the product, is just under half its last place, or is small change."""
    rng = random.Random(f'{fmt.name}triples{seed}')
    a, b = float_pairs(fmt, seed)
    m = fmt.mantissa_bits
    sign, one, inf = 1 << (fmt.width - 1), fmt.bias << m, ((1 << fmt.exponent_bits) - 1) << m
    c = [0, sign, sign | 0, one, one, 0, 0, one, one, sign | inf, inf, 1, sign | 1, 0, sign | one, sign | (one + 1), one, sign | one, sign | (one - 1), sign | (one + 2)]
    while len(c) < LANES:
        lane = len(c)
        if lane % 2:
            product = fmt.round(fin_product(fmt, a[lane], b[lane]))
            c.append(fmt.encode(product) ^ sign if product[0] == 'fin' else one)
        else:
            c.append(near_one(fmt, rng, fmt.mantissa_bits))
    return [a, b, c]


def fin_product(fmt, a, b):
    from exact import mul
    return mul(fmt.decode(a), fmt.decode(b))


def fraction_text(value):
    """A real number for a bounded comparison: more digits than any type holds."""
    return repr(float(value))


__all__ = [name for name in dir() if not name.startswith('_')] + ['Fraction']
