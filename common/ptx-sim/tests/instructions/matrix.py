"""The families of matrix instructions. Small integers keep every product and sum exact, whatever the order of summation."""
import random
from fractions import Fraction

import numpy as np

from corpus import FORMATS, SIZE, File
from exact import E4M3, E5M2, TF32, fin, floor_log2

WIDTH = {'f16': 16, 'bf16': 16, 'tf32': 32, 'f64': 64, 's8': 8, 'u8': 8, 's4': 4, 'u4': 4, 'b1': 1, 'e4m3': 8, 'e5m2': 8}
FP8 = {'e4m3': E4M3, 'e5m2': E5M2}


def small(ty, rows, columns, rng):
    low, high = {'u8': (0, 255), 's8': (-128, 127), 'u4': (0, 15), 's4': (-8, 7), 'b1': (0, 1), 'e4m3': (-4, 4), 'e5m2': (-4, 4)}.get(ty, (-5, 5))
    return np.array([[rng.randint(low, high) for _ in range(columns)] for _ in range(rows)], dtype=object)


def uniform(ty, rows, columns, rng):
    fmt = TF32 if ty == 'tf32' else FORMATS[ty]
    def draw():
        x = fmt.round(fin(Fraction(rng.uniform(-1, 1))))
        return -x[2] if x[1] else x[2]
    return np.array([[draw() for _ in range(columns)] for _ in range(rows)], dtype=object)


def bits(ty, value):
    if ty == 'tf32':
        return FORMATS['f32'].encode(fin(Fraction(value)))
    if ty in FORMATS or ty in FP8:
        return (FORMATS | FP8)[ty].encode(fin(Fraction(value)))
    return int(value) & ((1 << WIDTH.get(ty, 32)) - 1)


def packed(ty, values):
    """Words of 32 bits, the first element lowest."""
    width = WIDTH.get(ty, 32)
    per_word = max(1, 32 // width)
    return [sum(bits(ty, v) << width * k for k, v in enumerate(values[n:n + per_word])) for n in range(0, len(values), per_word)]


def show(ty, values):
    return f'{ty}:' + ','.join(str(v) if isinstance(v, (int, np.integer)) else repr(float(v)) for v in values)


def words(ty, values):
    """Elements where the head has their type, else words of them."""
    if ty == 'tf32':
        return show('f32', values)
    return show(ty, values) if ty in SIZE else 'b32:' + ','.join(hex(v) for v in packed(ty, list(values)))


def operand(ty, count, prefix):
    cls = 'b64' if ty == 'f64' else 'b32'
    names = [f'{prefix}{k}' for k in range(count)]
    return f'.reg .{cls} {", ".join(names)};', '{' + ', '.join(names) + '}', names, 8 if cls == 'b64' else 4


def spread(ty, rows, columns, rng):
    """Exponents far apart, a zero here and there, and f16 below its smallest normal value."""
    fmt = TF32 if ty == 'tf32' else FP8[ty] if ty in FP8 else FORMATS['f32' if ty == 'c' else ty]
    reach = 14 if ty == 'f16' else 18
    def draw():
        if rng.random() < 0.1:
            return Fraction(0)
        if ty in FP8:
            return rng.choice((-1, 1)) * Fraction(rng.randint(4, 7) if ty == 'e5m2' else rng.randint(8, 15), 8) * Fraction(2) ** rng.randint(*((-5, 7) if ty == 'e4m3' else (-12, 13)))
        if ty == 'f16' and rng.random() < 0.1:
            return fmt.least * rng.randint(-1000, 1000)
        x = fmt.round(fin(Fraction(rng.choice((-1, 1)) * rng.uniform(1, 2)) * Fraction(2) ** rng.randint(-reach, reach)))
        return -x[2] if x[1] else x[2]
    return np.array([[draw() for _ in range(columns)] for _ in range(rows)], dtype=object)


def halves(ty, rows, columns, rng):
    """f16 whose sums of products stay in range, and now and then are nearly halfway between two f16."""
    def draw():
        x = FORMATS['f16'].round(fin(Fraction(rng.choice((-1, 1)) * rng.uniform(1, 2)) * Fraction(2) ** rng.choice((-12, -10, -3, 0, 1))))
        return Fraction(0) if rng.random() < 0.2 else -x[2] if x[1] else x[2]
    return np.array([[draw() for _ in range(columns)] for _ in range(rows)], dtype=object)


def on_h200(a, b, c, at, kept=25, fraction=23, to='f32'):
    """A · B + C in f32 as tensor cores of compute capability 9.0 add, found by experiment on an H200: all products and C at once, each cut
    to 25 bits below the largest exponent among them, which of a product is the sum of its factors'; added exactly; cut to an f32."""
    least = {'f16': -14, 'e4m3': -6, 'e5m2': -14}.get(at, -126)
    def exponent(x, least):
        return max(floor_log2(abs(x)), least)
    def element(row, column, start):
        terms = [(x * y, exponent(x, least) + exponent(y, least)) for x, y in zip(row, column) if x and y]
        terms += [(start, exponent(start, -126))] if start else []
        if not terms:
            return Fraction(0)
        unit = Fraction(2) ** (max(e for _, e in terms) - kept)
        total = sum(int(value / unit) for value, _ in terms) * unit
        if fraction < 23 and total:
            last = Fraction(2) ** (floor_log2(abs(total)) - fraction)
            total = int(total / last) * last
        x = FORMATS['f16'].round(fin(total)) if to == 'f16' else FORMATS['f32'].round(fin(total), 'rz')
        return -x[2] if x[1] else x[2]
    return np.array([[element(row, column, start) for column, start in zip(b.T, starts)] for row, starts in zip(a, c)], dtype=object)


def in_pairs(a, b, c):
    """The same of 8-bit floats by mma.sync, found by experiment too: the products of the first two of each four elements of k as f16,
    those of the others on top of their sum, and C added in f32, rounded to nearest."""
    total = np.zeros(c.shape, dtype=object) + Fraction(0)
    for pair in range(2):
        at = [k for k in range(a.shape[1]) if k // 2 % 2 == pair]
        total = on_h200(a[:, at], b[at, :], total, 'f16')
    def add(x, y):
        x = FORMATS['f32'].round(fin(x + y))
        return -x[2] if x[1] else x[2]
    return np.array([[add(x, y) for x, y in zip(row, of)] for row, of in zip(total, c)], dtype=object)


def starts(values, rows, columns, rng):
    return (small if values in (small, uniform) else values)('c', rows, columns, rng)


def product(a, b, c, kind=''):
    if kind == 'xor':
        return np.array([[sum(int(x) ^ int(y) for x, y in zip(row, column)) for column in b.T] for row in a], dtype=object) + c
    return a.dot(b) + c  # of bits, `and` is the product


def mma_case(f, n, form, at, bt, ct, shape, k_bits=None, kind='', values=small, within=None, clamped=False):
    """The fragment layouts of the PTX ISA: words of a lane run along k, then (of A and C) eight rows down, then along k again."""
    m, columns, k = shape
    rng = random.Random(f'{form}{values.__name__}')
    a, b, c = values(at, m, k, rng), values(bt, k, columns, rng), starts(values, m, columns, rng)
    if clamped:
        a[:, :] = 127
        b[:, :] = 127
        c[:4, :] = 2**31 - 100
        c[4:, :] = -2**31 + 5
        a[8:, :] = -128
    d = on_h200(a, b, c, at, to=ct) if values is halves else product(a, b, c, kind) if values is not spread else in_pairs(a, b, c) if at in FP8 else on_h200(a, b, c, at)
    if clamped:
        d = np.minimum(np.maximum(d, -2**31), 2**31 - 1)
    per_word = max(1, 32 // WIDTH[at])
    def fragment_a(lane):
        group, place = divmod(lane, 4)
        count = m * k // 32 // per_word
        down = m // 8
        return [a[group + 8 * (r % down)][place * per_word + e + 4 * per_word * (r // down)] for r in range(count) for e in range(per_word)]
    def fragment_b(lane):
        group, place = divmod(lane, 4)
        return [b[place * per_word + e + 4 * per_word * r][group] for r in range(columns * k // 32 // per_word) for e in range(per_word)]
    def fragment_c(x, lane):
        group, place = divmod(lane, 4)
        return [x[group + 8 * (e // 2)][2 * place + e % 2] for e in range(m * columns // 32)]
    lists = [sum((make(lane) for lane in range(32)), []) for make in (fragment_a, fragment_b, lambda lane: fragment_c(c, lane), lambda lane: fragment_c(d, lane))]
    counts = [len(values_) // 32 // max(1, 32 // WIDTH.get(ty, 32)) for ty, values_ in zip((at, bt, ct, ct), lists)]
    head = [f'//! kernel: {n}', f'//! arg: in:{words(at, lists[0])}', f'//! arg: in:{words(bt, lists[1])}', f'//! arg: in:{show(ct, lists[2])}',
            f'//! arg: out:{ct}:{len(lists[3])}', f'//! expect: {show(ct, lists[3])}'] + ([f'//! within: {within}'] if within else [])
    body = ['.reg .u32 i;  .reg .u64 p;', 'mov.u32 i, %tid.x;']
    texts = []
    for ty, count, prefix in zip((at, bt, ct), counts, 'abc'):
        declare, text, names, size = operand(ty, count, prefix)
        texts.append(text)
        body += [declare, f'ld.param.u64 p, [p{prefix}];  mad.wide.u32 p, i, {size * count}, p;',
                 *(f'ld.global.b{8 * size} {name}, [p+{size * k}];' for k, name in enumerate(names))]
    declare, text, names, size = operand(ct, counts[3], 'd')
    body += [declare, f'{form}', f'    {text}, {texts[0]}, {texts[1]}, {texts[2]};',
             f'ld.param.u64 p, [pd];  mad.wide.u32 p, i, {size * counts[3]}, p;',
             *(f'st.global.b{8 * size} [p+{size * k}], {name};' for k, name in enumerate(names)), 'ret;']
    f.raw('\n'.join([*head, f'.visible .entry {n}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)', '{', *('    ' + line for line in body), '}']))


def mma():
    f = File('mma_sm75', 'mma.sync of the first shapes: f16, bytes, nibbles and bits.')
    for ct in ('f16', 'f32'):
        mma_case(f, f'm16n8k8_f16_{ct}', f'mma.sync.aligned.m16n8k8.row.col.{ct}.f16.f16.{ct}', 'f16', 'f16', ct, (16, 8, 8))
    for at in ('s8', 'u8'):
        for bt in ('s8', 'u8'):
            mma_case(f, f'm8n8k16_{at}_{bt}', f'mma.sync.aligned.m8n8k16.row.col.s32.{at}.{bt}.s32', at, bt, 's32', (8, 8, 16))
    for at, bt in (('s4', 's4'), ('u4', 's4'), ('u4', 'u4')):
        mma_case(f, f'm8n8k32_{at}_{bt}', f'mma.sync.aligned.m8n8k32.row.col.s32.{at}.{bt}.s32', at, bt, 's32', (8, 8, 32))
    mma_case(f, 'm8n8k128_b1_xor', 'mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc', 'b1', 'b1', 's32', (8, 8, 128), kind='xor')
    f.write()

    f = File('mma_f16', 'mma.sync m16n8k16 of f16, with sums in f16 and f32; the last case has fractions, and a bound.', sm=80)
    for ct in ('f16', 'f32'):
        mma_case(f, f'm16n8k16_f16_{ct}', f'mma.sync.aligned.m16n8k16.row.col.{ct}.f16.f16.{ct}', 'f16', 'f16', ct, (16, 8, 16))
    mma_case(f, 'm16n8k16_f16_fractions', 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32', 'f16', 'f16', 'f32', (16, 8, 16), values=uniform, within='abs 2^-18')
    f.write()
    f = File('mma_bf16_tf32', 'mma.sync of bf16 and tf32.', sm=80)
    for k in (8, 16):
        mma_case(f, f'm16n8k{k}_bf16', f'mma.sync.aligned.m16n8k{k}.row.col.f32.bf16.bf16.f32', 'bf16', 'bf16', 'f32', (16, 8, k))
    for k in (4, 8):
        mma_case(f, f'm16n8k{k}_tf32', f'mma.sync.aligned.m16n8k{k}.row.col.f32.tf32.tf32.f32', 'tf32', 'tf32', 'f32', (16, 8, k))
    mma_case(f, 'm16n8k16_bf16_fractions', 'mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32', 'bf16', 'bf16', 'f32', (16, 8, 16), values=uniform, within='abs 2^-18')
    mma_case(f, 'm16n8k8_tf32_fractions', 'mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32', 'tf32', 'tf32', 'f32', (16, 8, 8), values=uniform, within='abs 2^-18')
    f.write()
    f = File('mma_sums', 'How sums of mma.sync, mma.sp and wmma are made on compute capability 9.0: to the bit.', sm=90, version='8.4')
    for at, ks in (('f16', (8, 16)), ('bf16', (8, 16)), ('tf32', (4, 8))):
        for k in ks:
            mma_case(f, f'm16n8k{k}_{at}', f'mma.sync.aligned.m16n8k{k}.row.col.f32.{at}.{at}.f32', at, at, 'f32', (16, 8, k), values=spread)
        sparse_case(f, f'm16n8k{2 * k}_{at}_sparse', f'mma.sp.sync.aligned.m16n8k{2 * k}.row.col.f32.{at}.{at}.f32', at, at, 'f32', 2 * k, 0, values=spread)
    for k in (8, 16):
        mma_case(f, f'm16n8k{k}_f16_in_f16', f'mma.sync.aligned.m16n8k{k}.row.col.f16.f16.f16.f16', 'f16', 'f16', 'f16', (16, 8, k), values=halves)
    for at in FP8:
        for bt in FP8:
            mma_case(f, f'm16n8k32_{at}_{bt}', f'mma.sync.aligned.m16n8k32.row.col.f32.{at}.{bt}.f32', at, bt, 'f32', (16, 8, 32), values=spread)
    wmma_case(f, 'wmma_f16', SQUARE, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), values=spread)
    f.write()
    f = File('mma_int8', 'mma.sync of bytes, of every pair of signs; .satfinite clamps the sum.', sm=80)
    for k in (16, 32):
        for at in ('s8', 'u8'):
            for bt in ('s8', 'u8'):
                mma_case(f, f'm16n8k{k}_{at}_{bt}', f'mma.sync.aligned.m16n8k{k}.row.col.s32.{at}.{bt}.s32', at, bt, 's32', (16, 8, k))
        mma_case(f, f'm16n8k{k}_satfinite', f'mma.sync.aligned.m16n8k{k}.row.col.satfinite.s32.s8.s8.s32', 's8', 's8', 's32', (16, 8, k), clamped=True)
    f.write()
    f = File('mma_sub_byte', 'mma.sync of nibbles and of bits (xor or and, then popc).', sm=80)
    for k in (32, 64):
        for at, bt in (('s4', 's4'), ('s4', 'u4'), ('u4', 'u4')):
            mma_case(f, f'm16n8k{k}_{at}_{bt}', f'mma.sync.aligned.m16n8k{k}.row.col.s32.{at}.{bt}.s32', at, bt, 's32', (16, 8, k))
    for k in (128, 256):
        for kind in ('xor', 'and'):
            mma_case(f, f'm16n8k{k}_b1_{kind}', f'mma.sync.aligned.m16n8k{k}.row.col.s32.b1.b1.s32.{kind}.popc', 'b1', 'b1', 's32', (16, 8, k), kind=kind)
    mma_case(f, 'm8n8k128_b1_and', 'mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc', 'b1', 'b1', 's32', (8, 8, 128), kind='and')
    f.write()
    f = File('mma_fp8', 'mma.sync of 8-bit floats.', sm=89, version='8.4')
    for at in FP8:
        for bt in FP8:
            mma_case(f, f'm16n8k32_{at}_{bt}', f'mma.sync.aligned.m16n8k32.row.col.f32.{at}.{bt}.f32', at, bt, 'f32', (16, 8, 32))
    f.write()
    f = File('mma_f64', 'mma.sync of f64.', sm=80)
    mma_case(f, 'm8n8k4_f64', 'mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64', 'f64', 'f64', 'f64', (8, 8, 4))
    f.write()
    f = File('mma_f64_sm90', 'mma.sync of f64 in the larger shapes.', sm=90)
    for k in (4, 8, 16):
        mma_case(f, f'm16n8k{k}_f64', f'mma.sync.aligned.m16n8k{k}.row.col.f64.f64.f64.f64', 'f64', 'f64', 'f64', (16, 8, k))
    f.write()


# How many elements of A form a place, and how many of a chunk's places are kept.
SPARSE = {'tf32': (1, 1, 2), 's4': (2, 2, 4), 'u4': (2, 2, 4)}


def sparse_case(f, n, form, at, bt, ct, k, selector, values=small, within=None, swapped=False, clamped=False):
    """A is drawn dense and thinned out; its fragment is that of a dense A of k / 2, B and C as ever. Metadata: PTX ISA, "Matrix
    fragments for multiply-accumulate operation with sparse matrix A". Lanes that hold none have noise. `swapped`: indices descend."""
    rng = random.Random(f'{form}{selector}{swapped}')
    width = WIDTH[at]
    together, kept, places = SPARSE.get(at, (1, 2, 4))
    b, c = values(bt, k, 8, rng), starts(values, 16, 8, rng)
    drawn = values(at, 16, k, rng)
    if clamped:
        drawn[:, :] = [[127]] * 8 + [[-128]] * 8
        b[:, :] = 127
        c[:4, :] = 2**31 - 100
        c[4:, :] = -2**31 + 5
    dense, packed_a, nibbles = np.zeros((16, k), dtype=object), [], []
    for row in range(16):
        packed_row, metadata = [], []
        for chunk in range(0, k, together * places):
            chosen = rng.sample(range(places), kept)
            chosen.sort(reverse=swapped and chunk % 8 == 0)
            for place in chosen:
                for at_column in range(chunk + place * together, chunk + (place + 1) * together):
                    dense[row][at_column] = drawn[row][at_column]
                    packed_row.append(drawn[row][at_column])
            metadata.append({0: 0b0100, 1: 0b1110}[chosen[0]] if at == 'tf32' else chosen[0] | chosen[1] << 2)
        packed_a.append(packed_row)
        nibbles.append(metadata)
    held = {}
    for row in range(16):
        group, high = row % 8, row // 8
        for chunk, nibble in enumerate(nibbles[row]):
            if width >= 16:
                lane, shift = 4 * group + selector * len(nibbles[0]) // 4 + chunk // 4, 16 * high + 4 * (chunk % 4)
            else:
                lane, shift = 4 * group + 2 * selector + 2 * (chunk // 8) + high, 4 * (chunk % 8)
            held[lane] = held.get(lane, 0) | nibble << shift
    metadata = [held.get(lane, rng.getrandbits(32)) for lane in range(32)]
    d = on_h200(dense, b, c, at) if values is spread else dense.dot(b) + c
    if clamped:
        d = np.minimum(np.maximum(d, -2**31), 2**31 - 1)
    per_word = 32 // width
    lists = [[], [], [], []]
    for lane in range(32):
        group, place = divmod(lane, 4)
        for r in range(k // 2 * 16 // 32 // per_word):
            lists[0] += [packed_a[group + 8 * (r % 2)][(place + 4 * (r // 2)) * per_word + e] for e in range(per_word)]
        for r in range(k * 8 // 32 // per_word):
            lists[1] += [b[(place + 4 * r) * per_word + e][group] for e in range(per_word)]
        for x, target in ((c, lists[2]), (d, lists[3])):
            target += [x[group + 8 * (e // 2)][2 * place + e % 2] for e in range(4)]
    counts = [len(values_) // 32 // max(1, 32 // WIDTH.get(ty, 32)) for ty, values_ in zip((at, bt, ct, ct), lists)]
    head = [f'//! kernel: {n}', f'//! arg: in:{words(at, lists[0])}', f'//! arg: in:{words(bt, lists[1])}', f'//! arg: in:{show(ct, lists[2])}',
            '//! arg: in:b32:' + ','.join(hex(word) for word in metadata),
            f'//! arg: out:{ct}:{len(lists[3])}', f'//! expect: {show(ct, lists[3])}'] + ([f'//! within: {within}'] if within else [])
    body = ['.reg .u32 i;  .reg .u64 p;', 'mov.u32 i, %tid.x;']
    texts = []
    for ty, count, prefix in ((at, counts[0], 'a'), (bt, counts[1], 'b'), (ct, counts[2], 'c'), ('b32', 1, 'm')):
        declare, text, names, size = operand(ty, count, prefix)
        texts.append(text)
        body += [declare, f'ld.param.u64 p, [p{prefix}];  mad.wide.u32 p, i, {size * count}, p;',
                 *(f'ld.global.b32 {name}, [p+{size * at_word}];' for at_word, name in enumerate(names))]
    declare, text, names, size = operand(ct, counts[3], 'd')
    body += [declare, form, f'    {text}, {texts[0]}, {texts[1]}, {texts[2]}, m0, {selector};', f'ld.param.u64 p, [pd];  mad.wide.u32 p, i, {size * counts[3]}, p;',
             *(f'st.global.b32 [p+{size * at_word}], {name};' for at_word, name in enumerate(names)), 'ret;']
    f.raw('\n'.join([*head, f'.visible .entry {n}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pm, .param .u64 pd)', '{',
                     *('    ' + line for line in body), '}']))


def mma_sparse():
    """`mma.sp` of every shape, with each lane that may hold the metadata."""
    def form(k, types, order=''):
        return f'mma.sp{order}.sync.aligned.m16n8k{k}.row.col.{types}'
    f = File('mma_sparse_float', 'mma.sp of f16, bf16 and tf32: 2 of 4 kept, of tf32 1 of 2. Every sparsity selector.', sm=80)
    for selector in range(4):
        sparse_case(f, f'm16n8k16_f16_{selector}', form(16, 'f32.f16.f16.f32'), 'f16', 'f16', 'f32', 16, selector, swapped=selector % 2 == 1)
        sparse_case(f, f'm16n8k8_tf32_{selector}', form(8, 'f32.tf32.tf32.f32'), 'tf32', 'tf32', 'f32', 8, selector)
    for selector in range(2):
        sparse_case(f, f'm16n8k32_f16_{selector}', form(32, 'f32.f16.f16.f32'), 'f16', 'f16', 'f32', 32, selector)
        sparse_case(f, f'm16n8k32_bf16_{selector}', form(32, 'f32.bf16.bf16.f32'), 'bf16', 'bf16', 'f32', 32, selector, swapped=True)
        sparse_case(f, f'm16n8k16_tf32_{selector}', form(16, 'f32.tf32.tf32.f32'), 'tf32', 'tf32', 'f32', 16, selector)
    sparse_case(f, 'm16n8k16_bf16', form(16, 'f32.bf16.bf16.f32'), 'bf16', 'bf16', 'f32', 16, 0)
    for k in (16, 32):
        sparse_case(f, f'm16n8k{k}_f16_f16', form(k, 'f16.f16.f16.f16'), 'f16', 'f16', 'f16', k, 1)
    sparse_case(f, 'm16n8k32_f16_fractions', form(32, 'f32.f16.f16.f32'), 'f16', 'f16', 'f32', 32, 0, values=uniform, within='abs 2^-18')
    f.write()
    f = File('mma_sparse_int', 'mma.sp of bytes (2 of 4 kept) and nibbles (2 of 4 pairs). Every sparsity selector; .satfinite clamps the sum.', sm=80)
    for a, b, ks in (('s', 's', (0, 1)), ('u', 's', (0, 1)), ('s', 'u', (1,)), ('u', 'u', (0,))):
        for width, k in ((8, 32), (4, 64)):
            at, bt = f'{a}{width}', f'{b}{width}'
            for selector in ks:
                sparse_case(f, f'm16n8k{k}_{at}_{bt}_{selector}', form(k, f's32.{at}.{bt}.s32'), at, bt, 's32', k, selector, swapped=selector == 1)
            sparse_case(f, f'm16n8k{2 * k}_{at}_{bt}', form(2 * k, f's32.{at}.{bt}.s32'), at, bt, 's32', 2 * k, 0, swapped=a == 'u')
    for k in (32, 64):
        sparse_case(f, f'm16n8k{k}_satfinite', form(k, 's32.s8.s8.s32.satfinite'), 's8', 's8', 's32', k, 0, clamped=True)
    f.write()
    f = File('mma_sparse_fp8', 'mma.sp of 8-bit floats: 2 of 4 kept.', sm=89, version='8.4')
    for at in FP8:
        for bt in FP8:
            sparse_case(f, f'm16n8k64_{at}_{bt}', form(64, f'f32.{at}.{bt}.f32'), at, bt, 'f32', 64, 0)
    f.write()
    f = File('mma_sparse_ordered', 'mma.sp::ordered_metadata: the indices ascend.', sm=80, version='8.5')
    for ty, ct, k in (('f16', 'f32', 32), ('tf32', 'f32', 16), ('s8', 's32', 64), ('s4', 's32', 128)):
        sparse_case(f, f'm16n8k{k}_{ty}', form(k, f'{ct}.{ty}.{ty}.{ct}', '::ordered_metadata'), ty, ty, ct, k, 0)
    f.write()


def mma_m8n8k4():
    """Four products at once: lanes 4q to 4q+3 and 16 further hold the q-th."""
    f = File('mma_m8n8k4', 'mma.sync m8n8k4 of f16: four products of 8 by 4 by 8, each in eight lanes.')
    for la, lb, dt, ct in (('row', 'col', 'f32', 'f32'), ('col', 'row', 'f32', 'f32'), ('row', 'row', 'f16', 'f16'), ('col', 'col', 'f16', 'f16'), ('row', 'col', 'f32', 'f16')):
        rng = random.Random(f'{la}{lb}{dt}{ct}')
        a, b, c = ([small('f16', rows, columns, rng) for _ in range(4)] for rows, columns in ((8, 4), (4, 8), (8, 8)))
        d = [x.dot(y) + z for x, y, z in zip(a, b, c)]
        def quad(lane):
            return lane % 16 // 4, lane % 4, 4 * (lane // 16)
        def fragment_a(lane):
            q, place, half = quad(lane)
            return [a[q][place + half][i] if la == 'row' else a[q][i + half][place] for i in range(4)]
        def fragment_b(lane):
            q, place, half = quad(lane)
            return [b[q][place][i + half] if lb == 'row' else b[q][i][place + half] for i in range(4)]
        def fragment_c(x, ty, lane):
            q, place, half = quad(lane)
            if ty == 'f16':
                return [x[q][place + half][i] for i in range(8)]
            return [x[q][(lane & 1) + (i & 2) + half][(i & 4) + (lane & 2) + (i & 1)] for i in range(8)]
        lists = [sum((make(lane) for lane in range(32)), []) for make in
                 (fragment_a, fragment_b, lambda lane: fragment_c(c, ct, lane), lambda lane: fragment_c(d, dt, lane))]
        n = f'{la}_{lb}_{dt}_{ct}'
        counts = {'f16': 4, 'f32': 8}
        head = [f'//! kernel: {n}', f'//! arg: in:{words("f16", lists[0])}', f'//! arg: in:{words("f16", lists[1])}', f'//! arg: in:{show(ct, lists[2])}', f'//! arg: out:{dt}:256', f'//! expect: {show(dt, lists[3])}']
        body, texts = ['.reg .u32 i;  .reg .u64 p;', 'mov.u32 i, %tid.x;'], []
        for count, prefix in ((2, 'a'), (2, 'b'), (counts[ct], 'c')):
            declare, text, names, size = operand('f16', count, prefix)
            texts.append(text)
            body += [declare, f'ld.param.u64 p, [p{prefix}];  mad.wide.u32 p, i, {size * count}, p;', *(f'ld.global.b32 {name}, [p+{4 * k}];' for k, name in enumerate(names))]
        declare, text, names, size = operand('f16', counts[dt], 'd')
        body += [declare, f'mma.sync.aligned.m8n8k4.{la}.{lb}.{dt}.f16.f16.{ct}', f'    {text}, {texts[0]}, {texts[1]}, {texts[2]};',
                 f'ld.param.u64 p, [pd];  mad.wide.u32 p, i, {size * counts[dt]}, p;', *(f'st.global.b32 [p+{4 * k}], {name};' for k, name in enumerate(names)), 'ret;']
        f.raw('\n'.join([*head, f'.visible .entry {n}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)', '{', *('    ' + line for line in body), '}']))
    f.write()


def flat(x, layout, pad=0):
    """Row-major or column-major, each line followed by `pad` elements that must not matter."""
    lines = x if layout == 'row' else x.T
    return [v for line in lines for v in [*line, *([1] * pad)]]


def wmma_case(f, n, shape, at, bt, ct, dt, registers, layouts=('row', 'col', 'row', 'row'), kind='', pad=0, values=small, within=None, satfinite='', space='global'):
    m, columns, k = shape
    rng = random.Random(f'{n}{at}{bt}')
    a, b, c = values(at, m, k, rng), values(bt, k, columns, rng), starts(values, m, columns, rng)
    if satfinite:
        a[:, :], b[:, :], c[:, :] = 127, 127, 2**31 - 1000
        a[m // 2:, :] = -128
        c[m // 2:, :] = -2**31 + 1000
    d = on_h200(a, b, c, at) if values is spread else product(a, b, c, kind)
    if satfinite:
        d = np.minimum(np.maximum(d, -2**31), 2**31 - 1)
    la, lb, lc, ld = layouts
    size = f'm{m}n{columns}k{k}'
    memory = [words(at, flat(a, la, pad)), words(bt, flat(b, lb, pad)), show(ct, flat(c, lc))]
    strides = [(k if la == 'row' else m) + pad, (columns if lb == 'row' else k) + pad, columns if lc == 'row' else m, columns if ld == 'row' else m]
    head = [f'//! kernel: {n}', *(f'//! arg: in:{text}' for text in memory), f'//! arg: out:{dt}:{m * columns}', f'//! expect: {show(dt, flat(d, ld))}']
    head += [f'//! within: {within}'] if within else []
    body, texts = ['.reg .u64 p;'], []
    shared = []
    if space == 'shared':
        count = len(packed(at, flat(a, la, pad)))
        shared = [f'.shared .align 128 .b32 staged[{count}];', '.reg .u32 i, s, v;  .reg .u64 q;  .reg .pred more;', 'mov.u32 i, %tid.x;', 'mov.u32 s, staged;',
                  'mad.lo.u32 s, i, 4, s;', 'ld.param.u64 p, [pa];  mad.wide.u32 p, i, 4, p;', 'copy:', 'ld.global.u32 v, [p];  st.shared.u32 [s], v;',
                  'add.u64 p, p, 128;  add.u32 s, s, 128;  add.u32 i, i, 32;', f'setp.lt.u32 more, i, {count};', '@more bra copy;', 'bar.sync 0;']
    body += shared
    for ty, letter, layout, count, stride in zip((at, bt, ct), 'abc', layouts, registers, strides):
        declare, text, _, _ = operand(ty, count, letter)
        if ty == 'f32' or ty == 's32':
            declare = declare.replace('.b32', f'.{ty}') if ty == 'f32' else declare
        texts.append(text)
        if letter == 'a' and space == 'shared':
            body += [declare, 'mov.u32 s, staged;', f'wmma.load.a.sync.aligned.{layout}.{size}.shared.{ty} {text}, [s], {stride};']
        else:
            where = '' if space == 'generic' else '.global'
            body += [declare, f'ld.param.u64 p, [p{letter}];', f'wmma.load.{letter}.sync.aligned.{layout}.{size}{where}.{ty} {text}, [p], {stride};']
    declare, text, _, _ = operand(dt, registers[3], 'd')
    operation = {'': '', 'xor': 'xor.popc.', 'and': 'and.popc.'}[kind]
    types = f'{dt}.{ct}' if at == 'f16' else f'{dt}.{at}.{bt}.{ct}'
    body += [declare, f'wmma.mma.{operation}sync.aligned.{la}.{lb}.{size}.{types}{satfinite}', f'    {text}, {texts[0]}, {texts[1]}, {texts[2]};',
             'ld.param.u64 p, [pd];', f'wmma.store.d.sync.aligned.{ld}.{size}{"" if space == "generic" else ".global"}.{dt} [p], {text}, {strides[3]};', 'ret;']
    f.raw('\n'.join([*head, f'.visible .entry {n}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)', '{', *('    ' + line for line in body), '}']))


SQUARE, TALL, WIDE = (16, 16, 16), (32, 8, 16), (8, 32, 16)


def name_of(shape, *rest):
    return '_'.join(['m{}n{}k{}'.format(*shape), *rest])


def wmma():
    f = File('wmma_f16', 'wmma of f16: shapes, layouts of A, B, C and D, types of C and D, padded lines, and shared and generic memory.')
    halves = {'f16': 4, 'f32': 8}
    for shape in (SQUARE, TALL, WIDE):
        for ct, dt in (('f32', 'f32'), ('f16', 'f16')):
            wmma_case(f, name_of(shape, 'f16', ct), shape, 'f16', 'f16', ct, dt, (8, 8, halves[ct], halves[dt]))
    wmma_case(f, name_of(SQUARE, 'f16_to_f32'), SQUARE, 'f16', 'f16', 'f16', 'f32', (8, 8, 4, 8))
    wmma_case(f, name_of(SQUARE, 'f32_to_f16'), SQUARE, 'f16', 'f16', 'f32', 'f16', (8, 8, 8, 4))
    for la, lb, lc, ld in (('row', 'row', 'col', 'row'), ('col', 'row', 'row', 'col'), ('col', 'col', 'col', 'col')):
        wmma_case(f, name_of(SQUARE, la, lb, lc, ld), SQUARE, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), (la, lb, lc, ld), pad=8)
    wmma_case(f, name_of(TALL, 'col_row'), TALL, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), ('col', 'row', 'col', 'col'))
    wmma_case(f, name_of(WIDE, 'col_row'), WIDE, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), ('col', 'row', 'col', 'col'))
    wmma_case(f, name_of(SQUARE, 'shared'), SQUARE, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), space='shared')
    wmma_case(f, name_of(SQUARE, 'generic'), SQUARE, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), space='generic')
    wmma_case(f, name_of(SQUARE, 'fractions'), SQUARE, 'f16', 'f16', 'f32', 'f32', (8, 8, 8, 8), values=uniform, within='abs 2^-18')
    f.write()
    f = File('wmma_bf16_tf32_f64', 'wmma of bf16, tf32 and f64.', sm=80)
    for shape, counts in ((SQUARE, (4, 4)), (TALL, (8, 2)), (WIDE, (2, 8))):
        wmma_case(f, name_of(shape, 'bf16'), shape, 'bf16', 'bf16', 'f32', 'f32', (*counts, 8, 8))
    wmma_case(f, name_of(SQUARE, 'bf16_col_row'), SQUARE, 'bf16', 'bf16', 'f32', 'f32', (4, 4, 8, 8), ('col', 'row', 'col', 'row'))
    for la, lb in (('row', 'col'), ('col', 'row')):
        wmma_case(f, name_of((16, 16, 8), 'tf32', la, lb), (16, 16, 8), 'tf32', 'tf32', 'f32', 'f32', (4, 4, 8, 8), (la, lb, 'row', 'row'), pad=4)
        wmma_case(f, name_of((8, 8, 4), 'f64', la, lb), (8, 8, 4), 'f64', 'f64', 'f64', 'f64', (1, 1, 2, 2), (la, lb, 'row', 'row'))
    f.write()
    f = File('wmma_int', 'wmma of bytes, nibbles and bits.')
    for shape, counts in ((SQUARE, (2, 2)), (TALL, (4, 1)), (WIDE, (1, 4))):
        for ty in ('s8', 'u8'):
            wmma_case(f, name_of(shape, ty), shape, ty, ty, 's32', 's32', (*counts, 8, 8))
    wmma_case(f, name_of(SQUARE, 's8_col_row'), SQUARE, 's8', 's8', 's32', 's32', (2, 2, 8, 8), ('col', 'row', 'col', 'row'), pad=16)
    wmma_case(f, name_of(SQUARE, 's8_satfinite'), SQUARE, 's8', 's8', 's32', 's32', (2, 2, 8, 8), satfinite='.satfinite')
    for ty in ('s4', 'u4'):
        wmma_case(f, name_of((8, 8, 32), ty), (8, 8, 32), ty, ty, 's32', 's32', (1, 1, 2, 2))
    wmma_case(f, name_of((8, 8, 128), 'b1_xor'), (8, 8, 128), 'b1', 'b1', 's32', 's32', (1, 1, 2, 2), kind='xor')
    f.write()
    f = File('wmma_int_sm80', 'wmma of bits, by and.', sm=80)
    wmma_case(f, name_of((8, 8, 128), 'b1_and'), (8, 8, 128), 'b1', 'b1', 's32', 's32', (1, 1, 2, 2), kind='and')
    f.write()


def rows():
    """ldmatrix and stmatrix with rows in an order that is no stride: row r of the tile lies at (5 r + 3) mod 32."""
    def place(row):
        return (5 * row + 3) % 32
    source = [[row * 256 + column for column in range(8)] for row in range(32)]
    f = File('ldmatrix', 'Lanes 8m to 8m+7 give the rows of matrix m; a lane receives two neighbours of a row, or of a column (.trans).')
    for count in (1, 2, 4):
        for trans in ('', '.trans'):
            want = []
            for lane in range(32):
                for m in range(count):
                    for e in range(2):
                        row, column = (2 * (lane % 4) + e, lane // 4) if trans else (lane // 4, 2 * (lane % 4) + e)
                        want.append(source[place(8 * m + row)][column])
            names = [f'v{m}' for m in range(count)]
            f.raw('\n'.join([f'//! kernel: x{count}{trans.replace(".", "_")}', '//! arg: in:' + f.shared('u16:' + ','.join(str(v) for row in source for v in row)),
                             f'//! arg: out:u16:{len(want)}', '//! expect: u16:' + ','.join(map(str, want)),
                             f'.visible .entry x{count}{trans.replace(".", "_")}(.param .u64 pa, .param .u64 pd)', '{',
                             '    .reg .u32 i, s, t;  .reg .u64 p;', f'    .reg .b32 w0, w1, w2, w3, {", ".join(names)};', '    .shared .align 16 .b8 tile[512];',
                             '    mov.u32 i, %tid.x;', '    mov.u32 s, tile;',
                             '    ld.param.u64 p, [pa];  mad.wide.u32 p, i, 16, p;  ld.global.v4.b32 {w0, w1, w2, w3}, [p];',
                             '    mad.lo.u32 t, i, 16, s;  st.shared.v4.b32 [t], {w0, w1, w2, w3};', '    bar.sync 0;',
                             '    mad.lo.u32 t, i, 5, 3;  and.b32 t, t, 31;  mad.lo.u32 t, t, 16, s;',
                             f'    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{", ".join(names)}}}, [t];',
                             f'    ld.param.u64 p, [pd];  mad.wide.u32 p, i, {4 * count}, p;', *(f'    st.global.b32 [p+{4 * k}], {name};' for k, name in enumerate(names)), '    ret;', '}']))
    f.write()
    f = File('stmatrix', 'The inverse of ldmatrix.', sm=90)
    for count in (1, 2, 4):
        for trans in ('', '.trans'):
            tile = [[0] * 8 for _ in range(32)]
            values = []
            for lane in range(32):
                for m in range(count):
                    for e in range(2):
                        row, column = (2 * (lane % 4) + e, lane // 4) if trans else (lane // 4, 2 * (lane % 4) + e)
                        values.append(1000 * m + 2 * lane + e + 1)
                        tile[place(8 * m + row)][column] = values[-1]
            names = [f'v{m}' for m in range(count)]
            want = [v for row in tile for v in row]
            f.raw('\n'.join([f'//! kernel: x{count}{trans.replace(".", "_")}', '//! arg: in:u16:' + ','.join(map(str, values)), '//! arg: out:u16:256', '//! expect: u16:' + ','.join(map(str, want)),
                             f'.visible .entry x{count}{trans.replace(".", "_")}(.param .u64 pa, .param .u64 pd)', '{',
                             '    .reg .u32 i, s, t, zero;  .reg .u64 p;', f'    .reg .b32 w0, w1, w2, w3, {", ".join(names)};', '    .shared .align 16 .b8 tile[512];',
                             '    mov.u32 i, %tid.x;', '    mov.u32 s, tile;', '    mov.u32 zero, 0;', '    mad.lo.u32 t, i, 16, s;  st.shared.v4.b32 [t], {zero, zero, zero, zero};', '    bar.sync 0;',
                             f'    ld.param.u64 p, [pa];  mad.wide.u32 p, i, {4 * count}, p;', *(f'    ld.global.b32 {name}, [p+{4 * k}];' for k, name in enumerate(names)),
                             '    mad.lo.u32 t, i, 5, 3;  and.b32 t, t, 31;  mad.lo.u32 t, t, 16, s;',
                             f'    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [t], {{{", ".join(names)}}};', '    bar.sync 0;',
                             '    mad.lo.u32 t, i, 16, s;  ld.shared.v4.b32 {w0, w1, w2, w3}, [t];',
                             '    ld.param.u64 p, [pd];  mad.wide.u32 p, i, 16, p;  st.global.v4.b32 [p], {w0, w1, w2, w3};', '    ret;', '}']))
    f.write()


def write():
    mma()
    mma_sparse()
    mma_m8n8k4()
    wmma()
    rows()
