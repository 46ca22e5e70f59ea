#!/usr/bin/env python3
"""Writes the repetitive families of the instruction tests; the unusual ones are written by hand, beside what this makes.

    python3 -m pip install numpy mpmath
    python3 common/ptx-sim/tests/instructions/generate.py

Expected values come from exact arithmetic (`exact.py`) and, for functions without a finite expansion, from mpmath at 200 bits: never from a
device or from the simulator. Where PTX leaves a result open, the expectation is `_`.
"""
import sys

sys.dont_write_bytecode = True

import mpmath

import exact
import forms
import matrix
import memory
import warp
import wgmma
import bulk
from corpus import *
from exact import E4M3, E5M2, NAN, NEG_INF, NEG_ZERO, INF, TF32, ZERO, fin

mpmath.mp.prec = 200
INTS = ['u16', 's16', 'u32', 's32', 'u64', 's64']
ALL_INTS = ['u8', 's8', *INTS]
ROUNDINGS = ['rn', 'rz', 'rm', 'rp']
INTEGER_ROUNDINGS = {'rni': 'rn', 'rzi': 'rz', 'rmi': 'rm', 'rpi': 'rp'}


def ident(form):
    return form.replace('.', '_')


# ---- integers ----

def int_case(file, form, ty, columns, result, out=None):
    """`form` is the whole opcode; `result` takes and gives Python integers."""
    out = out or ty
    values = [literal(out, wrap(out, result(*(as_int(ty, v) for v in lane)))) for lane in zip(*columns)]
    operands = ', '.join(['{d}', *('{' + letter + '}' for letter in 'abc'[:len(columns)])])
    file.case(ident(form), f'{form} {operands};', [(ty, column) for column in columns], [(out, values)])


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integers():
    f = File('int_add_sub', 'Integer addition and subtraction wrap; .sat.s32 clamps.')
    for ty in INTS:
        int_case(f, f'add.{ty}', ty, int_columns(ty, 2), lambda a, b: a + b)
        int_case(f, f'sub.{ty}', ty, int_columns(ty, 2), lambda a, b: a - b)
    int_case(f, 'add.sat.s32', 's32', int_columns('s32', 2), lambda a, b: clamp('s32', a + b))
    int_case(f, 'sub.sat.s32', 's32', int_columns('s32', 2), lambda a, b: clamp('s32', a - b))
    f.write()

    f = File('int_mul', 'Integer products: the low half, the high half, and all of it.')
    for ty in INTS:
        int_case(f, f'mul.lo.{ty}', ty, int_columns(ty, 2), lambda a, b: a * b)
        int_case(f, f'mul.hi.{ty}', ty, int_columns(ty, 2), lambda a, b: (a * b) >> bits_of(ty))
        if bits_of(ty) < 64:
            wide = f'{ty[0]}{2 * bits_of(ty)}'
            int_case(f, f'mul.wide.{ty}', ty, int_columns(ty, 2), lambda a, b: a * b, wide)
    f.write()

    f = File('int_mad', 'Multiply and add; the addend of .wide has twice the width, and .hi.sat.s32 clamps the sum.')
    for ty in INTS:
        columns = int_columns(ty, 3)
        int_case(f, f'mad.lo.{ty}', ty, columns, lambda a, b, c: a * b + c)
        int_case(f, f'mad.hi.{ty}', ty, columns, lambda a, b, c: ((a * b) >> bits_of(ty)) + c)
        if bits_of(ty) < 64:
            wide = f'{ty[0]}{2 * bits_of(ty)}'
            addend = int_columns(wide, 1)[0]
            values = [literal(wide, wrap(wide, as_int(ty, a) * as_int(ty, b) + c)) for a, b, c in zip(*columns[:2], addend)]
            f.case(f'mad_wide_{ty}', f'mad.wide.{ty} {{d}}, {{a}}, {{b}}, {{c}};', [(ty, columns[0]), (ty, columns[1]), (wide, addend)], [(wide, values)])
    int_case(f, 'mad.hi.sat.s32', 's32', int_columns('s32', 3), lambda a, b, c: clamp('s32', ((a * b) >> 32) + c))
    f.write()

    f = File('int_mul24', 'Products of the low 24 bits: the low word, or bits 16 to 47.')
    for ty in ('u32', 's32'):
        def low24(v):
            return signed(v & 0xffffff, 24) if ty == 's32' else v & 0xffffff
        for half, shift in (('lo', 0), ('hi', 16)):
            int_case(f, f'mul24.{half}.{ty}', ty, int_columns(ty, 2), lambda a, b: low24(a) * low24(b) >> shift)
            int_case(f, f'mad24.{half}.{ty}', ty, int_columns(ty, 3), lambda a, b, c: (low24(a) * low24(b) >> shift) + c)
    int_case(f, 'mad24.hi.sat.s32', 's32', int_columns('s32', 3), lambda a, b, c: clamp('s32', signed(wrap('s32', low24(a) * low24(b) >> 16), 32) + c))
    f.write()

    f = File('int_div_rem', 'Quotients truncate towards zero and the remainder has the sign of the dividend. No divisor is 0, and no quotient overflows.')
    for ty in INTS:
        columns = int_columns(ty, 2, nonzero=True)
        int_case(f, f'div.{ty}', ty, columns, truncated)
        int_case(f, f'rem.{ty}', ty, columns, lambda a, b: a - b * truncated(a, b))
    f.write()

    f = File('int_min_max_abs_neg_sad', 'Order, magnitude, sign, and the sum of absolute differences.')
    for ty in INTS:
        int_case(f, f'min.{ty}', ty, int_columns(ty, 2), min)
        int_case(f, f'max.{ty}', ty, int_columns(ty, 2), max)
        int_case(f, f'sad.{ty}', ty, int_columns(ty, 3), lambda a, b, c: c + abs(a - b))
        if ty[0] == 's':
            int_case(f, f'abs.{ty}', ty, int_columns(ty, 1), abs)
            int_case(f, f'neg.{ty}', ty, int_columns(ty, 1), lambda a: -a)
    f.write()

    f = File('int_packed_and_relu', 'Two 16-bit lanes in a register, and .relu of integers.', sm=90)
    for ty in ('u16', 's16'):
        for op, result in (('add', lambda a, b: a + b), ('min', min), ('max', max)):
            a, b = int_columns(ty, 2)
            values = [literal(ty, wrap(ty, result(as_int(ty, x), as_int(ty, y)))) for x, y in zip(a, b)]
            f.case(f'{op}_{ty}x2', f'{op}.{ty}x2 {{d}}, {{a}}, {{b}};', [(ty + 'x2', a), (ty + 'x2', b)], [(ty + 'x2', values)], block=16)
            if ty == 's16' and op != 'add':
                values = [literal(ty, wrap(ty, max(result(as_int(ty, x), as_int(ty, y)), 0))) for x, y in zip(a, b)]
                f.case(f'{op}_relu_s16x2', f'{op}.relu.s16x2 {{d}}, {{a}}, {{b}};', [('s16x2', a), ('s16x2', b)], [('s16x2', values)], block=16)
    int_case(f, 'min.relu.s32', 's32', int_columns('s32', 2), lambda a, b: max(min(a, b), 0))
    int_case(f, 'max.relu.s32', 's32', int_columns('s32', 2), lambda a, b: max(a, b, 0))
    f.write()


def extended_precision():
    f = File('int_carry', 'The carry flag: sums, differences and products of 128 bits from 32- and 64-bit instructions.')
    rng = random.Random('carry')
    edges = [0, 1, (1 << 128) - 1, 1 << 127, (1 << 64) - 1, 1 << 64, (1 << 32) - 1, 1 << 96]
    left = edges + [rng.getrandbits(128) for _ in range(24)]
    right = edges[::-1] + [rng.getrandbits(rng.randint(1, 128)) for _ in range(24)]
    mask64, mask128 = (1 << 64) - 1, (1 << 128) - 1

    def halves(values):
        return [v & mask64 for v in values], [v >> 64 & mask64 for v in values]

    def texts(values):
        return [str(v) for v in values]
    (al, ah), (bl, bh) = halves(left), halves(right)
    for op, result in (('add', lambda a, b: a + b), ('sub', lambda a, b: a - b)):
        low, high = halves([result(a, b) & mask128 for a, b in zip(left, right)])
        for ty in ('u64', 's64'):
            code = f'{op}.cc.{ty} {{d}}, {{a}}, {{b}};\n{op}c.{ty} {{e}}, {{c}}, {{b}};'
            carried = [((h + l + (a + l > mask64)) if op == 'add' else (h - l - (a < l))) & mask64 for a, l, h in zip(al, bl, ah)]
            f.case(f'{op}_cc_{ty}', code, [('u64', al), ('u64', bl), ('u64', ah)], [('u64', texts(low)), ('u64', texts(carried))])
    for op, result in (('add', lambda a, b: a + b), ('sub', lambda a, b: a - b)):
        for ty in ('u32', 's32'):
            # 64 bits from two words, then the carry (or borrow) of the last as a word of its own.
            sums = [result(a, b) for a, b in zip(al, bl)]
            last = [str((v >> 64) & 0xffffffff) for v in sums]
            code = f'''.reg .b32 al, ah, bl, bh;
                mov.b64 {{{{al, ah}}}}, {{a}};
                mov.b64 {{{{bl, bh}}}}, {{b}};
                {op}.cc.{ty} al, al, bl;
                {op}c.cc.{ty} ah, ah, bh;
                {op}c.{ty} {{e}}, 0, 0;
                mov.b64 {{d}}, {{{{al, ah}}}};'''
            f.case(f'{op}_words_{ty}', code, [('u64', al), ('u64', bl)], [('u64', texts(v & mask64 for v in sums)), ('u32', last)])
    products = [a * b for a, b in zip(al, bl)]
    low, high = halves(products)
    f.case('mad_words_u32', '''.reg .b32 al, ah, bl, bh, r0, r1, r2, r3;
        mov.b64 {{al, ah}}, {a};
        mov.b64 {{bl, bh}}, {b};
        mul.lo.u32 r0, al, bl;
        mul.hi.u32 r1, al, bl;
        mad.lo.cc.u32 r1, al, bh, r1;
        madc.hi.u32 r2, al, bh, 0;
        mad.lo.cc.u32 r1, ah, bl, r1;
        madc.hi.cc.u32 r2, ah, bl, r2;
        addc.u32 r3, 0, 0;
        mad.lo.cc.u32 r2, ah, bh, r2;
        madc.hi.u32 r3, ah, bh, r3;
        mov.b64 {d}, {{r0, r1}};
        mov.b64 {e}, {{r2, r3}};''', [('u64', al), ('u64', bl)], [('u64', texts(low)), ('u64', texts(high))])
    for ty in ('u64', 's64', 'u32', 's32'):
        a, b, c = int_columns(ty, 3)
        width = bits_of(ty)
        mask = (1 << width) - 1
        low = [(((as_int(ty, x) * as_int(ty, y)) & mask) + z) for x, y, z in zip(a, b, c)]
        high = [(((as_int(ty, x) * as_int(ty, y)) >> width) + z + (l >> width)) & mask for x, y, z, l in zip(a, b, c, low)]
        hi_cc = [((((as_int(ty, x) * as_int(ty, y)) >> width) & mask) + z) for x, y, z in zip(a, b, c)]
        lo_c = [(((as_int(ty, x) * as_int(ty, y)) & mask) + z + (h >> width)) & mask for x, y, z, h in zip(a, b, c, hi_cc)]
        f.case(f'mad_cc_{ty}', f'''mad.lo.cc.{ty} {{d}}, {{a}}, {{b}}, {{c}};
            madc.hi.{ty} {{e}}, {{a}}, {{b}}, {{c}};
            mad.hi.cc.{ty} {{f}}, {{a}}, {{b}}, {{c}};
            madc.lo.{ty} {{g}}, {{a}}, {{b}}, {{c}};''', [(ty, a), (ty, b), (ty, c)],
               [(ty, [literal(ty, v & mask) for v in column]) for column in (low, high, hi_cc, lo_c)])
    f.write()


# ---- bits ----

def lop3(a, b, c, table, width=32):
    return sum(((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1))) & 1) << k for k in range(width))


def prmt(a, b, selector, mode):
    data = [(a | b << 32) >> 8 * k & 255 for k in range(8)]
    s = selector & 3
    if mode == '':
        out = [(255 if data[n & 7] & 128 else 0) if n & 8 else data[n & 7] for n in (selector >> 4 * k & 15 for k in range(4))]
    elif mode == 'f4e':
        out = [data[s + k] for k in range(4)]
    elif mode == 'b4e':
        out = [data[(s - k) % 8] for k in range(4)]
    elif mode == 'rc8':
        out = [data[s]] * 4
    elif mode == 'ecl':
        out = [data[max(k, s)] for k in range(4)]
    elif mode == 'ecr':
        out = [data[min(k, s)] for k in range(4)]
    else:
        out = [data[2 * (s & 1) + k % 2] for k in range(4)]
    return sum(byte << 8 * k for k, byte in enumerate(out))


def bfind(ty, value):
    width = bits_of(ty)
    if ty[0] == 's' and value < 0:
        value = ~value
    return (value & ((1 << width) - 1)).bit_length() - 1  # -1 if there is none


def bfe(ty, value, start, length):
    width = bits_of(ty)
    start, length = start & 255, length & 255
    bits = value & ((1 << width) - 1)
    if ty[0] == 'u' or length == 0:
        sign = 0
    else:
        sign = bits >> min(start + length - 1, width - 1) & 1
    out = 0
    for k in range(width):
        out |= (bits >> start + k & 1 if k < length and start + k < width else sign) << k
    return out


def bfi(width, a, b, start, length):
    start, length = start & 255, length & 255
    for k in range(length):
        if start + k < width:
            b = b & ~(1 << start + k) | (a >> k & 1) << start + k
    return b


def fns(mask, base, offset):
    if offset == 0:
        return base if mask >> base & 1 else 0xffffffff
    positions, step = [], 1 if offset > 0 else -1
    position = base
    while 0 <= position < 32:
        if mask >> position & 1:
            positions.append(position)
        position += step
    return positions[abs(offset) - 1] if len(positions) >= abs(offset) else 0xffffffff


def bits():
    f = File('bits_logic', 'Bitwise logic of every width, and of predicates.')
    for ty in ('b16', 'b32', 'b64'):
        ones = (1 << bits_of(ty)) - 1
        int_case(f, f'and.{ty}', ty, int_columns(ty, 2), lambda a, b: a & b)
        int_case(f, f'or.{ty}', ty, int_columns(ty, 2), lambda a, b: a | b)
        int_case(f, f'xor.{ty}', ty, int_columns(ty, 2), lambda a, b: a ^ b)
        int_case(f, f'not.{ty}', ty, int_columns(ty, 1), lambda a: a ^ ones)
        int_case(f, f'cnot.{ty}', ty, int_columns(ty, 1), lambda a: int(a == 0))
    a, b = [k & 1 for k in range(32)], [k >> 1 & 1 for k in range(32)]
    f.case('logic_pred', '''.reg .pred q, r, s;
        .reg .b32 bit;
        setp.ne.u32 q, {a}, 0;
        setp.ne.u32 r, {b}, 0;
        and.pred s, q, r;
        selp.u32 {d}, 1, 0, s;
        or.pred s, q, r;
        selp.u32 bit, 2, 0, s;
        or.b32 {d}, {d}, bit;
        xor.pred s, q, r;
        selp.u32 bit, 4, 0, s;
        or.b32 {d}, {d}, bit;
        not.pred s, q;
        selp.u32 bit, 8, 0, s;
        or.b32 {d}, {d}, bit;
        mov.pred s, r;
        selp.u32 bit, 16, 0, s;
        or.b32 {d}, {d}, bit;''', [('u32', a), ('u32', b)],
           [('u32', [str((x & y) | (x | y) << 1 | (x ^ y) << 2 | (1 - x) << 3 | y << 4) for x, y in zip(a, b)])])
    f.write()

    f = File('bits_shift', 'Shift counts clamp at the width; .s copies the sign.')
    counts = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x80000000, 0xffffffff, *range(2, 17)]
    for ty in ('b16', 'b32', 'b64', *INTS):
        values, width = int_columns(ty, 1)[0], bits_of(ty)
        values = values[5:] + values[:5]
        if ty[0] == 'b':
            shifted = [wrap(ty, v << min(c, width)) for v, c in zip(values, counts)]
            f.case(f'shl_{ty}', f'shl.{ty} {{d}}, {{a}}, {{b}};', [(ty, values), ('u32', counts)], [(ty, [literal(ty, v) for v in shifted])])
        shifted = [wrap(ty, as_int(ty, v) >> min(c, width)) for v, c in zip(values, counts)]
        f.case(f'shr_{ty}', f'shr.{ty} {{d}}, {{a}}, {{b}};', [(ty, values), ('u32', counts)], [(ty, [literal(ty, v) for v in shifted])])
    low, high = int_columns('b32', 2)
    for direction in 'lr':
        for mode in ('clamp', 'wrap'):
            n = [min(c, 32) if mode == 'clamp' else c & 31 for c in counts]
            out = [((h << 32 | l) << k >> 32 if direction == 'l' else (h << 32 | l) >> k) & 0xffffffff for l, h, k in zip(low, high, n)]
            f.case(f'shf_{direction}_{mode}', f'shf.{direction}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};',
                   [('b32', low), ('b32', high), ('u32', counts)], [('b32', [literal('b32', v) for v in out])])
    f.write()

    f = File('bits_lop3_prmt', 'Any function of three inputs, and any choice of bytes.')
    columns = int_columns('b32', 3)
    for table in (0x00, 0x01, 0x1e, 0x2d, 0x80, 0x96, 0xca, 0xe8, 0xf8, 0xff):
        values = [f'{lop3(a, b, c, table):#x}' for a, b, c in zip(*columns)]
        f.case(f'lop3_{table:02x}', f'lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};', [('b32', column) for column in columns], [('b32', values)])
    rng = random.Random('prmt')
    a, b = [[rng.getrandbits(32) for _ in range(32)] for _ in range(2)]
    selectors = [0x3210, 0x7654, 0x0123, 0xfedc, 0x8888, 0x9a0f, 0x4444, 0x5140, *(rng.getrandbits(16) for _ in range(24))]
    for mode in ('', 'f4e', 'b4e', 'rc8', 'ecl', 'ecr', 'rc16'):
        chosen = selectors if mode == '' else [k & 3 for k in range(32)]
        values = [f'{prmt(x, y, s, mode):#x}' for x, y, s in zip(a, b, chosen)]
        f.case(f'prmt_{mode or "index"}', f'prmt.b32{"." + mode if mode else ""} {{d}}, {{a}}, {{b}}, {{c}};',
               [('b32', a), ('b32', b), ('b32', chosen)], [('b32', values)])
    f.write()

    f = File('bits_fields', 'Fields of bits: extract, insert, mask and extend. Starts and lengths take 8 bits and clamp.')
    starts = [0, 0, 1, 4, 31, 31, 32, 33, 63, 0, 16, 28, 8, 255, 62, 30, *range(16)]
    lengths = [0, 1, 31, 8, 1, 2, 4, 1, 1, 255, 16, 8, 24, 255, 2, 2, *range(31, 63, 2)]
    for ty in ('u32', 's32', 'u64', 's64'):
        values = int_columns(ty, 1, seed=3)[0]
        values[:16] = [wrap(ty, 0x8421_f00f_c3a5_9669 * (k + 1) | 1 << 31) for k in range(16)]
        out = [literal(ty, bfe(ty, v, s, n)) for v, s, n in zip(values, starts, lengths)]
        f.case(f'bfe_{ty}', f'bfe.{ty} {{d}}, {{a}}, {{b}}, {{c}};', [(ty, values), ('u32', starts), ('u32', lengths)], [(ty, out)])
    for ty in ('b32', 'b64'):
        values = int_columns(ty, 1, seed=4)[0]
        background = wrap(ty, 0x0f1e_2d3c_4b5a_6978)
        out = [literal(ty, bfi(bits_of(ty), v, background, s, n)) for v, s, n in zip(values, starts, lengths)]
        f.case(f'bfi_{ty}', f'.reg .{ty} base;\nmov.{ty} base, {background:#x};\nbfi.{ty} {{d}}, {{a}}, base, {{b}}, {{c}};',
               [(ty, values), ('u32', starts), ('u32', lengths)], [(ty, out)])
    f.write()

    f = File('bits_mask_extend', 'bmsk makes a field of ones; szext extends from a width. Both clamp or wrap the width at 32.', version='8.0')
    starts = [0, 0, 1, 31, 31, 32, 33, 5, 0, 16, 0, 63, *range(20)]
    lengths = [0, 32, 31, 1, 2, 4, 1, 0, 33, 40, 64, 1, *range(20, 40)]
    for mode in ('clamp', 'wrap'):
        def cut(v):
            return min(v, 32) if mode == 'clamp' else v & 31
        out = [f'{(((1 << cut(n)) - 1) << cut(s)) & 0xffffffff:#x}' for s, n in zip(starts, lengths)]
        f.case(f'bmsk_{mode}', f'bmsk.{mode}.b32 {{d}}, {{a}}, {{b}};', [('u32', starts), ('u32', lengths)], [('b32', out)])
        widths = [1, 8, 16, 31, 32, 33, 40, 0, *range(2, 26)]
        values = int_columns('b32', 1, seed=5)[0]
        for ty in ('u32', 's32'):
            def extend(v, n):
                n = cut(n)
                if n == 0:
                    return 0
                field = v & ((1 << n) - 1)
                return field - (1 << n) if ty == 's32' and field >> (n - 1) else field
            out = [literal(ty, wrap(ty, extend(v, n))) for v, n in zip(values, widths)]
            f.case(f'szext_{mode}_{ty}', f'szext.{mode}.{ty} {{d}}, {{a}}, {{b}};', [('b32', values), ('u32', widths)], [(ty, out)])
    f.write()

    f = File('bits_count', 'Counting, finding and reversing bits.')
    for ty in ('b32', 'b64'):
        width = bits_of(ty)
        int_case(f, f'popc.{ty}', ty, int_columns(ty, 1), lambda a: a.bit_count(), 'u32')
        int_case(f, f'clz.{ty}', ty, int_columns(ty, 1), lambda a: width - a.bit_length(), 'u32')
        int_case(f, f'brev.{ty}', ty, int_columns(ty, 1), lambda a: int(f'{a:0{width}b}'[::-1], 2))
    for ty in ('u32', 's32', 'u64', 's64'):
        int_case(f, f'bfind.{ty}', ty, int_columns(ty, 1), lambda a: bfind(ty, a), 'u32')
        int_case(f, f'bfind.shiftamt.{ty}', ty, int_columns(ty, 1), lambda a: -1 if bfind(ty, a) < 0 else bits_of(ty) - 1 - bfind(ty, a), 'u32')
    masks = [0, 0xffffffff, 0x80000001, 0x00010000, *(random.Random('fns').getrandbits(32) for _ in range(28))]
    masks[4:8] = [0xf0f0f0f0] * 4
    bases = [5, 0, 31, 16, 4, 0, 31, 8, *(k * 7 % 32 for k in range(24))]
    offsets = [1, 32, -1, 0, 0, 5, -4, -5, *(k % 9 - 4 for k in range(24))]
    values = [str(fns(m, b, o)) for m, b, o in zip(masks, bases, offsets)]
    f.case('fns_b32', 'fns.b32 {d}, {a}, {b}, {c};', [('b32', masks), ('u32', bases), ('s32', [wrap('s32', o) for o in offsets])], [('u32', values)])
    f.write()

    f = File('int_dot', 'Dot products of bytes with bytes (dp4a) and of half-words with bytes (dp2a), added to a word.')
    a, b, c = int_columns('b32', 3, seed=6)
    for ta in ('u32', 's32'):
        for tb in ('u32', 's32'):
            def field(value, ty, width, place):
                part = value >> width * place & ((1 << width) - 1)
                return signed(part, width) if ty == 's32' else part
            sums = [z + sum(field(x, ta, 8, k) * field(y, tb, 8, k) for k in range(4)) for x, y, z in zip(a, b, c)]
            out = 'u32' if ta == tb == 'u32' else 's32'
            f.case(f'dp4a_{ta}_{tb}', f'dp4a.{ta}.{tb} {{d}}, {{a}}, {{b}}, {{c}};', [('b32', a), ('b32', b), ('b32', c)], [(out, [literal(out, wrap(out, v)) for v in sums])])
            for half in ('lo', 'hi'):
                sums = [z + sum(field(x, ta, 16, k) * field(y, tb, 8, k + 2 * (half == 'hi')) for k in range(2)) for x, y, z in zip(a, b, c)]
                f.case(f'dp2a_{half}_{ta}_{tb}', f'dp2a.{half}.{ta}.{tb} {{d}}, {{a}}, {{b}}, {{c}};', [('b32', a), ('b32', b), ('b32', c)],
                       [(out, [literal(out, wrap(out, v)) for v in sums])])
    f.write()


# ---- floats ----

def float_case(file, form, columns, result, types=None):
    """`result` takes numbers (flushed if the form has .ftz) and gives the exact one; the form says how it is rounded and clamped.

    `types` are those of the result and of each column, if they are not the form's last.
    """
    parts = form.split('.')
    ty, *sources = types or [parts[-1]] * (1 + len(columns))
    packed = ty.endswith('x2')
    element = ty[:-2] if packed else ty
    fmt = FORMATS[element]
    ftz = 'ftz' in parts
    mode = next((part for part in parts if part in ROUNDINGS), 'rn')
    texts = []
    for lane in zip(*columns):
        numbers = [FORMATS[of.removesuffix('x2')].decode(v) for of, v in zip(sources, lane)]
        numbers = [fmt.flush(x) for x in numbers] if ftz else numbers
        x = fmt.round(result(*numbers), mode, ftz)
        x = exact.saturate(x) if 'sat' in parts else exact.relu(x) if 'relu' in parts else x
        texts.append(text_of(element, x))
    operands = ', '.join(['{d}', *('{' + letter + '}' for letter in 'abc'[:len(columns)])])
    file.case(ident(form).replace('-', ''), f'{form} {operands};', list(zip(sources, columns)), [(ty, texts)], block=16 if packed else 32)


def modifiers(*groups):
    """Every choice of one of each group, joined."""
    out = ['']
    for group in groups:
        out = [have + choice for have in out for choice in group]
    return out


def float_arithmetic():
    f32_forms = modifiers(['.rn', '.rz', '.rm', '.rp'], ['', '.ftz'], ['', '.sat'])
    for op in ('add', 'sub', 'mul'):
        f = File(f'f32_{op}', f'{op} of f32: every rounding, flushed and clamped or not.')
        for form in ['', '.ftz', '.sat', *f32_forms]:
            float_case(f, f'{op}{form}.f32', float_pairs(F32), binary(op, form))
        f.write()
        f = File(f'f64_{op}', f'{op} of f64 in every rounding.')
        for form in ['', '.rn', '.rz', '.rm', '.rp']:
            float_case(f, f'{op}{form}.f64', float_pairs(F64), binary(op, form))
        f.write()
    for ty, fmt, forms in (('f32', F32, f32_forms), ('f64', F64, ['.rn', '.rz', '.rm', '.rp'])):
        f = File(f'{ty}_fma', f'fma (and mad, the same thing) of {ty}: one rounding of the exact sum.')
        for form in forms:
            float_case(f, f'fma{form}.{ty}', float_triples(fmt), fused(form))
        float_case(f, f'mad.rn.{ty}', float_triples(fmt), fused('.rn'))
        float_case(f, f'mad.rp.{ty}', float_triples(fmt), fused('.rp'))
        f.write()
    for ty in ('f16', 'f16x2'):
        f = File(f'{ty}_arithmetic', f'add, sub, mul and fma of {ty}.')
        for op in ('add', 'sub', 'mul'):
            for form in modifiers(['', '.rn'], ['', '.ftz'], ['', '.sat']):
                float_case(f, f'{op}{form}.{ty}', float_pairs(F16), binary(op, form))
        for form in modifiers(['.rn'], ['', '.ftz'], ['', '.sat']):
            float_case(f, f'fma{form}.{ty}', float_triples(F16), fused(form))
        f.write()
    f = File('half_fma_relu', 'fma of bf16 and, with .relu, of f16.', sm=80)
    for ty, fmt in (('f16', F16), ('bf16', BF16)):
        for packed in ('', 'x2'):
            if ty == 'bf16':
                float_case(f, f'fma.rn.{ty}{packed}', float_triples(fmt), fused('.rn'))
            else:
                float_case(f, f'fma.rn.ftz.relu.{ty}{packed}', float_triples(fmt), fused('.rn'))
            float_case(f, f'fma.rn.relu.{ty}{packed}', float_triples(fmt), fused('.rn'))
    f.write()
    f = File('bf16_arithmetic', 'add, sub and mul of bf16.', sm=90)
    for op in ('add', 'sub', 'mul'):
        for ty in ('bf16', 'bf16x2'):
            for form in ('', '.rn'):
                float_case(f, f'{op}{form}.{ty}', float_pairs(BF16), binary(op, form))
    f.write()
    f = File('mixed_arithmetic', 'add, sub and fma of f16 or bf16 with an f32: converted without loss, rounded once.', sm=100, version='8.6')
    roundings = ['.rn', '.rz', '.rm', '.rp']
    for ty, fmt in (('f16', F16), ('bf16', BF16)):
        for op in ('add', 'sub'):
            for form in modifiers(['', *roundings], ['', '.sat']):
                float_case(f, f'{op}{form}.f32.{ty}', with_f32(fmt, float_pairs(fmt)), binary(op, form), ['f32', ty, 'f32'])
        for form in modifiers(roundings, ['', '.sat']):
            float_case(f, f'fma{form}.f32.{ty}', with_f32(fmt, float_triples(fmt)), fused(form), ['f32', ty, ty, 'f32'])
    f.write()

    for ty, fmt, flush in (('f32', F32, ['', '.ftz']), ('f64', F64, [''])):
        f = File(f'{ty}_div_rcp_sqrt', f'The quotient, reciprocal and square root of {ty}, correctly rounded.')
        for form in modifiers(['.rn', '.rz', '.rm', '.rp'], flush):
            float_case(f, f'div{form}.{ty}', float_pairs(fmt, seed=2), exact.div)
            float_case(f, f'rcp{form}.{ty}', [float_column(fmt)], lambda a: exact.div(fin(1), a))
            float_case(f, f'sqrt{form}.{ty}', [roots(fmt)], exact.sqrt)
        f.write()


def with_f32(fmt, columns):
    """The last column in f32: the same edges and what cancels, then numbers whose sum has to be rounded."""
    rng = random.Random(f'{fmt.name}with f32')
    *others, last = columns
    wide = [near_one(F32, rng, 12) if lane >= 20 and lane % 2 == 0 else F32.encode(fmt.decode(v)) for lane, v in enumerate(last)]
    return [*others, wide]


def roots(fmt):
    """Mostly positive."""
    return [v & ~(1 << (fmt.width - 1)) if lane > 13 else v for lane, v in enumerate(float_column(fmt, seed=7))]


def binary(op, form):
    mode = next((mode for mode in ROUNDINGS if mode in form), 'rn')
    if op == 'add':
        return lambda a, b: exact.add(a, b, mode)
    if op == 'sub':
        return lambda a, b: exact.add(a, exact.flip(b), mode)
    return exact.mul


def fused(form):
    mode = next((mode for mode in ROUNDINGS if mode in form), 'rn')
    return lambda a, b, c: exact.add(exact.mul(a, b), c, mode)


def float_select():
    def neg(a):
        return exact.flip(a)

    def magnitude(a):
        return a if a[0] == 'nan' else (a[0], 0, a[2])

    def xorsign(pick):
        def result(a, b):
            if 'nan' in (a[0], b[0]):
                return OPEN
            return pick(magnitude(a), magnitude(b))[0:1] + (a[1] ^ b[1],) + pick(magnitude(a), magnitude(b))[2:]
        return result
    families = [
        (File('f32_f64_neg_abs_min_max', 'Sign and order of f32 and f64: the operand that is a number wins, and -0 < +0.'),
         {'f32': ['', '.ftz'], 'f64': ['']}, {'f32': ['', '.ftz'], 'f64': ['']}),
        (File('f16_neg_abs', 'The sign of f16.'), {'f16': ['', '.ftz'], 'f16x2': ['', '.ftz']}, {}),
        (File('half_neg_abs_min_max', 'Sign and order with .NaN (which wins) and .xorsign.abs (which compares magnitudes).', sm=86),
         {'bf16': [''], 'bf16x2': ['']},
         {'f32': ['.NaN', '.ftz.NaN', '.xorsign.abs', '.ftz.xorsign.abs', '.NaN.xorsign.abs'],
          'f16': ['', '.ftz', '.NaN', '.ftz.NaN', '.xorsign.abs'], 'f16x2': ['', '.ftz', '.NaN', '.ftz.NaN', '.xorsign.abs'],
          'bf16': ['', '.NaN', '.xorsign.abs', '.NaN.xorsign.abs'], 'bf16x2': ['', '.NaN', '.xorsign.abs', '.NaN.xorsign.abs']}),
    ]
    for f, signs, orders in families:
        for ty, forms in signs.items():
            for form in forms:
                column = float_column(FORMATS[ty.removesuffix('x2')])
                float_case(f, f'neg{form}.{ty}', [column], neg)
                float_case(f, f'abs{form}.{ty}', [column], magnitude)
        for ty, forms in orders.items():
            fmt = FORMATS[ty.removesuffix('x2')]
            for form in forms:
                for op, pick in (('min', exact.minimum), ('max', exact.maximum)):
                    def result(a, b):
                        return pick(a, b, 'NaN' in form)
                    float_case(f, f'{op}{form}.{ty}', float_pairs(fmt, seed=3), xorsign(pick) if 'xorsign' in form else result)
        f.write()


def comparisons():
    """Every comparison of a type in one kernel; result bit k is the k-th comparison."""
    ordered = {'eq': lambda a, b: a == b, 'ne': lambda a, b: a != b, 'lt': lambda a, b: a < b, 'le': lambda a, b: a <= b,
               'gt': lambda a, b: a > b, 'ge': lambda a, b: a >= b}

    def compare(op, a, b):  # of numbers
        unordered = 'nan' in (a[0], b[0])
        if op in ('num', 'nan'):
            return unordered == (op == 'nan')
        if unordered:
            return op.endswith('u') and op in ('equ', 'neu', 'ltu', 'leu', 'gtu', 'geu')
        base = op[:2]
        same = a == b or (exact.is_zero(a) and exact.is_zero(b))
        less = not same and exact.smaller(a, b)
        return {'eq': same, 'ne': not same, 'lt': less, 'le': less or same, 'gt': not less and not same, 'ge': not less}[base]

    def kernel(f, name, ty, suffix, columns, ops, results):
        code = ['.reg .pred q;', '.reg .b32 bit;', 'mov.b32 {d}, 0;']
        for k, op in enumerate(ops):
            code += [f'setp.{op}{suffix} q, {{a}}, {{b}};', f'selp.b32 bit, {1 << k}, 0, q;', 'or.b32 {d}, {d}, bit;']
        f.case(name, '\n'.join(code), [(ty, column) for column in columns], [('b32', results)])

    f = File('setp_int', 'Integer comparisons, one bit of the result each. The types b16, b32 and b64 compare for equality only; lo, ls, hi and hs are the unsigned names.')
    for ty in ('b16', 'b32', 'b64', *INTS):
        ops = ['eq', 'ne'] if ty[0] == 'b' else list(ordered) + (['lo', 'ls', 'hi', 'hs'] if ty[0] == 'u' else [])
        alias = {'lo': 'lt', 'ls': 'le', 'hi': 'gt', 'hs': 'ge'}
        columns = int_columns(ty, 2, seed=8)
        columns[1][20:26] = columns[0][20:26]
        results = [hex(sum(ordered[alias.get(op, op)](as_int(ty, a), as_int(ty, b)) << k for k, op in enumerate(ops))) for a, b in zip(*columns)]
        kernel(f, f'setp_{ty}', ty, f'.{ty}', columns, ops, results)
    f.write()

    float_ops = [*ordered, 'equ', 'neu', 'ltu', 'leu', 'gtu', 'geu', 'num', 'nan']
    for f, types in ((File('setp_float', 'The fourteen comparisons of floats: ordered, unordered, num and nan; one bit of the result each.'),
                      (('f32', ''), ('f32', '.ftz'), ('f64', ''), ('f16', ''), ('f16', '.ftz'))),
                     (File('setp_bf16', 'The fourteen comparisons of bf16, one bit of the result each.', sm=90), (('bf16', ''),))):
        for ty, ftz in types:
            fmt = FORMATS[ty]
            columns = float_pairs(fmt, seed=4)
            columns[1][24:28] = columns[0][24:28]
            def number(v):
                return fmt.flush(fmt.decode(v)) if ftz else fmt.decode(v)
            results = [hex(sum(compare(op, number(a), number(b)) << k for k, op in enumerate(float_ops))) for a, b in zip(*columns)]
            kernel(f, f'setp{ident(ftz)}_{ty}', ty, f'{ftz}.{ty}', columns, float_ops, results)
            if 'f16' in ty and not ftz:
                packed = [compare('lt', number(a), number(b)) for a, b in zip(*columns)]
                results = [hex(packed[2 * k] | packed[2 * k + 1] << 1) for k in range(16)]
                f.case(f'setp_{ty}x2', f'''.reg .pred q, r;
                    .reg .b32 bit;
                    setp.lt.{ty}x2 q|r, {{a}}, {{b}};
                    selp.b32 {{d}}, 1, 0, q;
                    selp.b32 bit, 2, 0, r;
                    or.b32 {{d}}, {{d}}, bit;''', [(ty + 'x2', columns[0]), (ty + 'x2', columns[1])], [('b32', results)], block=16)
        f.write()

    f = File('setp_combined', 'A comparison combined with a predicate, p|q (the second from the complement of the comparison), and a negated predicate.')
    a, b = int_columns('s32', 2, seed=9)
    c = [k & 1 for k in range(32)]
    combine = {'and': lambda x, y: x & y, 'or': lambda x, y: x | y, 'xor': lambda x, y: x ^ y}
    code, results = ['.reg .pred q, r, s;', '.reg .b32 bit;', 'setp.ne.u32 s, {c}, 0;', 'mov.b32 {d}, 0;'], [0] * 32
    place = 0
    for op in combine:
        for negate in ('', '!'):
            code += [f'setp.lt.{op}.s32 q|r, {{a}}, {{b}}, {negate}s;', f'selp.b32 bit, {1 << place}, 0, q;', 'or.b32 {d}, {d}, bit;',
                     f'selp.b32 bit, {2 << place}, 0, r;', 'or.b32 {d}, {d}, bit;']
            for lane in range(32):
                less = int(as_int('s32', a[lane]) < as_int('s32', b[lane]))
                third = c[lane] ^ (negate == '!')
                results[lane] |= combine[op](less, third) << place | combine[op](1 - less, third) << place + 1
            place += 2
    f.case('combined_s32', '\n'.join(code), [('s32', a), ('s32', b), ('u32', c)], [('b32', [hex(v) for v in results])])
    fa, fb = float_pairs(F32, seed=5)
    less = [compare('lt', F32.decode(x), F32.decode(y)) for x, y in zip(fa, fb)]
    results = [int(l or p) | int((not l) or p) << 1 for l, p in zip(less, c)]
    f.case('complement_f32', '''.reg .pred q, r, s;
        .reg .b32 bit;
        setp.ne.u32 s, {c}, 0;
        setp.lt.or.f32 q|r, {a}, {b}, s;
        selp.b32 {d}, 1, 0, q;
        selp.b32 bit, 2, 0, r;
        or.b32 {d}, {d}, bit;''', [('f32', fa), ('f32', fb), ('u32', c)], [('b32', [hex(v) for v in results])])
    f.write()

    f = File('set', 'set writes all ones, or 1.0, where the comparison (with a predicate, if there is one) holds.')
    truth = {'u32': ('4294967295', '0'), 's32': ('-1', '0'), 'f32': ('1', '0'), 'f16': ('1', '0'), 'bf16': ('1', '0'), 'u16': ('65535', '0'), 's16': ('-1', '0')}
    pairs = {ty: int_columns(ty, 2, seed=8) for ty in ('b16', 'b32', 'b64', *INTS)} | {ty: float_pairs(FORMATS[ty], seed=4) for ty in FORMATS}

    def holds(ty, op, a, b):
        return compare(op, FORMATS[ty].decode(a), FORMATS[ty].decode(b)) if ty in FORMATS else ordered[op](as_int(ty, a), as_int(ty, b))

    def set_case(file, op, dtype, stype, ftz=''):
        a, b = pairs[stype]
        values = [truth[dtype][0 if holds(stype, op, x, y) else 1] for x, y in zip(a, b)]
        file.case(f'set_{op}{ident(ftz)}_{dtype}_{stype}', f'set.{op}{ftz}.{dtype}.{stype} {{d}}, {{a}}, {{b}};', [(stype, a), (stype, b)], [(dtype, values)])

    def set_pair_case(file, op, dtype, stype, ftz=''):
        """Each half of the result is all ones or zero, as `__heq2_mask` of cuda_fp16.h wants it."""
        a, b = pairs[stype]
        fmt = FORMATS[stype]

        def number(bits):
            return fmt.flush(fmt.decode(bits)) if ftz else fmt.decode(bits)
        values = ['0xffff' if compare(op, number(x), number(y)) else '0x0' for x, y in zip(a, b)]
        file.case(f'set_{op}{ident(ftz)}_{dtype}_{stype}x2', f'set.{op}{ftz}.{dtype}.{stype}x2 {{d}}, {{a}}, {{b}};',
                  [(f'{stype}x2', a), (f'{stype}x2', b)], [('b16x2', values)], block=16)
    for dtype in ('u32', 's32', 'f32'):
        for stype, op in (('b16', 'eq'), ('b32', 'ne'), ('b64', 'eq'), ('u16', 'lt'), ('s16', 'ge'), ('u32', 'le'), ('s32', 'gt'), ('u64', 'ge'),
                          ('s64', 'lt'), ('f32', 'ltu'), ('f64', 'nan')):
            set_case(f, op, dtype, stype)
    for dtype in ('f16', 'u16', 's16', 'u32', 's32', 'f32'):
        for op in ('le', 'neu'):
            if dtype != 'f32':
                set_case(f, op, dtype, 'f16')
    a, b = pairs['s32']
    values = [truth['u32'][0 if (ordered['lt'](as_int('s32', x), as_int('s32', y)) and k % 2) else 1] for k, (x, y) in enumerate(zip(a, b))]
    f.case('set_lt_and_u32_s32', '.reg .pred s;\n.reg .b32 odd;\nand.b32 odd, i, 1;\nsetp.eq.u32 s, odd, 0;\nset.lt.and.u32.s32 {d}, {a}, {b}, !s;',
           [('s32', a), ('s32', b)], [('u32', values)])
    for dtype, of_true in (('f16x2', '1'), ):
        a, b = pairs['f16']
        values = [of_true if holds('f16', 'ge', x, y) else '0' for x, y in zip(a, b)]
        f.case('set_ge_f16x2_f16x2', 'set.ge.f16x2.f16x2 {d}, {a}, {b};', [('f16x2', a), ('f16x2', b)], [('f16x2', values)], block=16)
    for dtype in ('u32', 's32'):
        for op, ftz in (('eq', ''), ('ltu', ''), ('gt', '.ftz'), ('nan', '')):
            set_pair_case(f, op, dtype, 'f16', ftz)
    f.write()
    f = File('set_bf16', 'set of bf16.', sm=90)
    for dtype in ('bf16', 'u16', 's16', 'u32', 's32'):
        set_case(f, 'lt', dtype, 'bf16')
    for dtype, op in (('u32', 'ne'), ('s32', 'geu')):
        set_pair_case(f, op, dtype, 'bf16')
    f.write()

    f = File('selp_slct', 'Selection by a predicate, and by the sign of a number (-0 counts as not negative; a NaN chooses the second).')
    for ty in ('b16', 'b32', 'b64', *INTS, 'f32', 'f64'):
        columns = float_pairs(FORMATS[ty], seed=6) if ty in FORMATS else int_columns(ty, 2, seed=10)
        columns = [[v if literal(ty, v) != 'nan' else 0 for v in column] for column in columns]
        chosen = [literal(ty, a if k % 3 else b) for k, (a, b) in enumerate(zip(*columns))]
        f.case(f'selp_{ty}', f'.reg .pred s;\n.reg .b32 third;\nrem.u32 third, i, 3;\nsetp.ne.u32 s, third, 0;\nselp.{ty} {{d}}, {{a}}, {{b}}, s;',
               [(ty, column) for column in columns], [(ty, chosen)])
        if ty[0] in 'bus' or ty in FORMATS:
            selector = int_columns('s32', 1, seed=11)[0]
            chosen = [literal(ty, a if as_int('s32', s) >= 0 else b) for a, b, s in zip(*columns, selector)]
            f.case(f'slct_{ty}_s32', f'slct.{ty}.s32 {{d}}, {{a}}, {{b}}, {{c}};', [(ty, columns[0]), (ty, columns[1]), ('s32', selector)], [(ty, chosen)])
            for ftz in ('', '.ftz'):
                selector = float_column(F32)
                def positive(v):
                    x = F32.flush(F32.decode(v)) if ftz else F32.decode(v)
                    return x[0] != 'nan' and (exact.is_zero(x) or not x[1])
                chosen = [literal(ty, a if positive(s) else b) for a, b, s in zip(*columns, selector)]
                f.case(f'slct{ident(ftz)}_{ty}_f32', f'slct{ftz}.{ty}.f32 {{d}}, {{a}}, {{b}}, {{c}};', [(ty, columns[0]), (ty, columns[1]), ('f32', selector)], [(ty, chosen)])
    f.write()

    f = File('testp_copysign', 'The class of a float, one bit each (finite, infinite, number, notanumber, normal, subnormal), and the sign of one on another.')
    for ty in ('f32', 'f64'):
        fmt = FORMATS[ty]
        column = float_column(fmt)
        def classes(x):
            finite, tiny = x[0] == 'fin', x[0] == 'fin' and 0 < x[2] < fmt.normal
            flags = [finite, x[0] == 'inf', x[0] != 'nan', x[0] == 'nan', finite and not tiny, tiny]  # a zero counts as normal
            return sum(flag << k for k, flag in enumerate(flags))
        code = ['.reg .pred s;', '.reg .b32 bit;', 'mov.b32 {d}, 0;']
        for k, name in enumerate(('finite', 'infinite', 'number', 'notanumber', 'normal', 'subnormal')):
            code += [f'testp.{name}.{ty} s, {{a}};', f'selp.b32 bit, {1 << k}, 0, s;', 'or.b32 {d}, {d}, bit;']
        f.case(f'testp_{ty}', '\n'.join(code), [(ty, column)], [('b32', [hex(classes(fmt.decode(v))) for v in column])])
        other = float_column(fmt, seed=12)[::-1]
        top = 1 << (fmt.width - 1)
        raw = f'b{fmt.width}'
        f.case(f'copysign_{ty}', f'copysign.{ty} {{d}}, {{a}}, {{b}};', [(ty, column), (ty, other)], [(raw, [hex((a & top) | (b & ~top)) for a, b in zip(column, other)])])
    f.write()


# ---- functions with an error bound ----

def real(x):
    return mpmath.mpf(x.numerator) / x.denominator


def approximations():
    """The bounds are those of the PTX manual; special values are exact."""
    def finite(function):
        return lambda x: function(real(exact.value_of(x)))

    def rcp(x):
        if exact.is_zero(x):
            return ('inf', x[1], Fraction(0))
        return ('fin', x[1], Fraction(0)) if x[0] == 'inf' else finite(lambda v: 1 / v)(x)

    def root(x):
        if exact.is_zero(x) or x == INF:
            return x
        return NAN if x[1] else finite(mpmath.sqrt)(x)

    def rsqrt(x):
        if exact.is_zero(x):
            return ('inf', x[1], Fraction(0))
        if x == INF:
            return ZERO
        return NAN if x[1] else finite(lambda v: 1 / mpmath.sqrt(v))(x)

    def sine(x):
        if x[0] == 'inf':
            return NAN
        return x if exact.is_zero(x) else finite(mpmath.sin)(x)

    def cosine(x):
        return NAN if x[0] == 'inf' else finite(mpmath.cos)(x)

    def lg2(x):
        if exact.is_zero(x):
            return NEG_INF
        if x == INF:
            return INF
        return NAN if x[1] else finite(lambda v: mpmath.log(v, 2))(x)

    def ex2(x):
        if x[0] == 'inf':
            return ZERO if x[1] else INF
        return fin(1) if exact.is_zero(x) else finite(lambda v: mpmath.mpf(2) ** v)(x)

    def tanh(x):
        if x[0] == 'inf':
            return ('fin', x[1], Fraction(1))
        return x if exact.is_zero(x) else finite(mpmath.tanh)(x)

    def approximation(f, form, column, function, bound):
        ty = form.split('.')[-1]
        element, packed = ty.removesuffix('x2'), ty.endswith('x2')
        fmt = FORMATS[element]
        texts = []
        for bits in column:
            x = fmt.decode(bits)
            if 'ftz' in form:
                x = fmt.flush(x)
            y = NAN if x[0] == 'nan' else function(x)
            if isinstance(y, tuple):
                texts.append(text_of(element, y))
            else:
                size = abs(y)
                if 'ftz' in form and size < real(fmt.normal):
                    texts.append('-0' if y < 0 else '0')
                elif size > real(fmt.largest):
                    texts.append('-inf' if y < 0 else 'inf')
                else:
                    texts.append(mpmath.nstr(y, 17))
        f.case(ident(form), f'{form} {{d}}, {{a}};', [(ty, column)], [(ty, texts, bound)], block=16 if packed else 32)

    def encoded(fmt, values):
        out = []
        for v in values:
            x = {'inf': INF, '-inf': NEG_INF, 'nan': NAN, '-0': NEG_ZERO}.get(v) if isinstance(v, str) else fin(Fraction(v))
            bits = fmt.encode(fmt.round(x))
            out.append(bits if x != NAN else {'f32': 0x7fc00000, 'f16': 0x7e00, 'bf16': 0x7fc0, 'f64': 0x7ff8 << 48}[fmt.name])
        return out
    rng = random.Random('approximations')
    special = ['inf', '-inf', 'nan', '-0', 0]
    def spread(low, high, count):
        return [rng.uniform(low, high) for _ in range(count)]
    f = File('f32_approximate', 'Fast functions of f32, each within the error that the PTX manual gives.')
    powers = [2.0 ** e for e in (-120, -100, -63, -2, -1, 0, 1, 2, 63, 100, 120)]
    positive = encoded(F32, special + powers + [2.0 ** -130, 2.0 ** -149] + [rng.uniform(1, 2) * 2.0 ** rng.randint(-100, 100) for _ in range(14)])
    any_sign = encoded(F32, special + [-3, 7, 1 / 3, -1e-20, 1e20, 2.0 ** -127] + [-p for p in powers[:8]] + [rng.uniform(1, 2) * 2.0 ** rng.randint(-100, 100) for _ in range(13)])
    turns = encoded(F32, special + [1, -1, 0.5, 3.14159274, -3.14159274, 1.57079637, 2.0 ** -20, -2.0 ** -30] + spread(-6.28, 6.28, 19))
    exponents = encoded(F32, special + [1, -1, 0.5, 127, -126, 128, -150.5, -130.25, 1e-10] + spread(-100, 100, 18))
    for ftz in ('', '.ftz'):
        approximation(f, f'rcp.approx{ftz}.f32', any_sign, rcp, '1.5 ulp')
        approximation(f, f'sqrt.approx{ftz}.f32', positive, root, 'rel 2^-22.9')
        approximation(f, f'rsqrt.approx{ftz}.f32', positive, rsqrt, 'rel 2^-22.9')
        approximation(f, f'lg2.approx{ftz}.f32', positive, lg2, 'rel 2^-22 | abs 2^-22')
        approximation(f, f'ex2.approx{ftz}.f32', exponents, ex2, '2.5 ulp')
        approximation(f, f'sin.approx{ftz}.f32', turns, sine, 'abs 2^-20.5')
        approximation(f, f'cos.approx{ftz}.f32', turns, cosine, 'abs 2^-20.5')
    a = encoded(F32, [1, -1, 3, 1e20, 1e-20, 0.1, 7, -22] + [rng.uniform(1, 2) * 2.0 ** rng.randint(-40, 40) for _ in range(24)])
    b = encoded(F32, [3, 7, -10, 1e-10, 1e10, 0.3, 2.0 ** 100, 2.0 ** -100] + [rng.uniform(1, 2) * 2.0 ** rng.randint(-40, 40) for _ in range(24)])
    quotients = [mpmath.nstr(real(exact.value_of(F32.decode(x))) / real(exact.value_of(F32.decode(y))), 17) for x, y in zip(a, b)]
    for form in ('approx', 'approx.ftz', 'full', 'full.ftz'):
        f.case(f'div_{ident(form)}_f32', f'div.{form}.f32 {{d}}, {{a}}, {{b}};', [('f32', a), ('f32', b)], [('f32', quotients, '2.5 ulp')])
    small = encoded(F32, special + [1, -1, 0.5, 2.0 ** -10, 20, -20, 9.5] + spread(-4, 4, 20))
    approximation(f, 'tanh.approx.f32', small, tanh, 'rel 2^-10.98')
    f.write()

    f = File('f64_approximate', 'The coarse reciprocal and reciprocal root of f64: 20 good bits to start an iteration from.')
    doubles = encoded(F64, special + powers + [rng.uniform(1, 2) * 2.0 ** rng.randint(-200, 200) for _ in range(16)])
    approximation(f, 'rcp.approx.ftz.f64', doubles, rcp, 'rel 2^-19')
    approximation(f, 'rsqrt.approx.f64', doubles, rsqrt, 'rel 2^-19')
    approximation(f, 'rsqrt.approx.ftz.f64', doubles, rsqrt, 'rel 2^-19')
    f.write()

    f = File('f16_approximate', 'ex2 and tanh of f16.')
    halves = encoded(F16, special + [1, -1, 0.5, 15, 16, -14, -20, -26] + spread(-10, 10, 19))
    for ty in ('f16', 'f16x2'):
        approximation(f, f'ex2.approx.{ty}', halves, ex2, 'rel 2^-9.9 | abs 2^-24')
        approximation(f, f'tanh.approx.{ty}', encoded(F16, special + spread(-4, 4, 27)), tanh, 'abs 2^-10.987')
    f.write()
    f = File('bf16_approximate', 'ex2 and tanh of bf16.', sm=90)
    brains = encoded(BF16, special + [1, -1, 0.5, 127, 128, -126, -20, 20] + spread(-60, 60, 19))
    for ty in ('bf16', 'bf16x2'):
        approximation(f, f'ex2.approx.ftz.{ty}', brains, ex2, 'rel 2^-7')
        approximation(f, f'tanh.approx.{ty}', encoded(BF16, special + spread(-4, 4, 27)), tanh, 'abs 2^-8')
    f.write()


# ---- conversions ----

def conversions():
    f = File('cvt_int', 'Between integers: truncate or extend; .sat clamps to the destination.')
    for source in ALL_INTS:
        column = int_columns(source, 1, seed=13)[0]
        if bits_of(source) > 8:
            column[20:28] = [wrap(source, v) for v in (127, 128, 255, 256, 32767, 65535, -128, -129)]
        for target in ALL_INTS:
            plain = [literal(target, wrap(target, as_int(source, v))) for v in column]
            f.case(f'cvt_{target}_{source}', f'cvt.{target}.{source} {{d}}, {{a}};', [(source, column)], [(target, plain)])
            if source[0] != target[0] == 'u' or bits_of(source) + (source[0] != target[0]) > bits_of(target):  # where there is something to clamp
                clamped = [literal(target, wrap(target, clamp(target, as_int(source, v)))) for v in column]
                f.case(f'cvt_sat_{target}_{source}', f'cvt.sat.{target}.{source} {{d}}, {{a}};', [(source, column)], [(target, clamped)])
    a, b = int_columns('s32', 2, seed=14)
    for target in ('u16', 's16'):
        halves = [literal(target, wrap(target, clamp(target, as_int('s32', v)))) for pair in zip(b, a) for v in pair]
        f.case(f'cvt_pack_sat_{target}_s32', f'cvt.pack.sat.{target}.s32 {{d}}, {{a}}, {{b}};', [('s32', a), ('s32', b)], [(target + 'x2', halves)])
    f.write()

    def int_to_float(f, targets):
        for target in targets:
            fmt = FORMATS[target]
            for source in INTS if target == 'bf16' else ALL_INTS:
                column = int_columns(source, 1, seed=15)[0]
                if bits_of(source) >= 32:
                    column[20:28] = [wrap(source, v) for v in ((1 << 24) + 1, (1 << 25) + 2, -(1 << 24) - 1, (1 << 24) + 3, 65519, 65520, 2049, 257)]
                outputs = [(target, [text_of(target, fmt.round(fin(as_int(source, v)), mode)) for v in column]) for mode in ROUNDINGS]
                code = '\n'.join(f'cvt.{mode}.{target}.{source} {{{letter}}}, {{a}};' for mode, letter in zip(ROUNDINGS, 'defg'))
                f.case(f'cvt_{target}_{source}', code, [(source, column)], outputs)

    def float_to_int(f, sources):
        for source, ftz in sources:
            fmt = FORMATS[source]
            for target in INTS if source == 'bf16' else ALL_INTS:
                width = bits_of(target)
                values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.75, -0.25, 126.5, 127.5, 128.5, 254.5, 255.5, -128.5, -129, 32767.5, 65535.5, -32768.5,
                          2.0 ** (width - 1), -2.0 ** (width - 1), 2.0 ** width, 2.0 ** (width - 1) * 0.999, 100.49]
                column = [fmt.encode(fmt.round(fin(Fraction(v)))) for v in values][:LANES]
                column += [v for v in float_edges(fmt) if fmt.decode(v)[0] != 'fin' or fmt.decode(v)[2] < 2 * fmt.normal or fmt.decode(v)[2] == fmt.largest]
                column = column[-LANES:] if len(column) > LANES else column + float_column(fmt, 16)[len(column):]
                def convert(bits, mode):
                    x = fmt.flush(fmt.decode(bits)) if ftz else fmt.decode(bits)
                    if x[0] == 'nan':
                        if source == 'f64' and width < 32:
                            return '_'  # the manual says 1 << (width - 1), compilers go by way of 32 bits
                        return literal(target, 1 << (width - 1) if source == 'f64' or width == 64 else 0)
                    if x[0] == 'inf':
                        return literal(target, wrap(target, clamp(target, -(1 << 70) if x[1] else 1 << 70)))
                    whole = exact.round_integer(x[2], x[1], mode)
                    return literal(target, wrap(target, clamp(target, -whole if x[1] else whole)))
                outputs = [(target, [convert(v, mode) for v in column]) for mode in INTEGER_ROUNDINGS.values()]
                code = '\n'.join(f'cvt.{mode}{ftz}.{target}.{source} {{{letter}}}, {{a}};' for mode, letter in zip(INTEGER_ROUNDINGS, 'defg'))
                f.case(f'cvt{ident(ftz)}_{target}_{source}', code, [(source, column)], outputs)

    f = File('cvt_int_to_float', 'Integers to floats in the four roundings (rn, rz, rm, rp: one output each).')
    int_to_float(f, ['f16', 'f32', 'f64'])
    f.write()
    f = File('cvt_float_to_int', 'Floats to integers in the four roundings (rni, rzi, rmi, rpi: one output each). Out of range clamps.')
    float_to_int(f, [('f16', ''), ('f32', ''), ('f32', '.ftz'), ('f64', '')])
    f.write()
    f = File('cvt_bf16_int', 'bf16 from and to integers.', sm=90)
    int_to_float(f, ['bf16'])
    float_to_int(f, [('bf16', '')])
    f.write()

    def to_float(f, form, column):
        parts = form.split('.')
        target, source = parts[-2:]
        there, here = FORMATS[target], FORMATS[source]
        ftz = 'ftz' in parts
        mode = next((part for part in parts if part in ROUNDINGS), 'rn')
        whole = next((INTEGER_ROUNDINGS[part] for part in parts if part in INTEGER_ROUNDINGS), None)
        texts = []
        for bits in column:
            x = here.decode(bits)
            if ftz and source == 'f32' and target != 'f16':  # as sm_90 does it
                x = here.flush(x)
            if whole and x[0] == 'fin':
                x = ('fin', x[1], Fraction(exact.round_integer(x[2], x[1], whole)))
            x = there.round(x, mode, ftz and target == 'f32')
            x = exact.saturate(x) if 'sat' in parts else exact.relu(x) if 'relu' in parts else x
            texts.append(text_of(target, x))
        f.case(ident(form), f'{form} {{d}}, {{a}};', [(source, column)], [(target, texts)])

    def narrowing(source, target):
        """Edges of both formats, and numbers at and beside the midpoints of the narrower one."""
        here, there = FORMATS[source], FORMATS[target]
        rng = random.Random(source + target)
        column = float_edges(here)[:16]
        for x in (there.largest, there.largest * (1 + there.ulp / 4), there.largest * (1 + there.ulp / 4) + there.largest * there.ulp / 64, there.least, there.least / 2,
                  there.least * Fraction(3, 2), 1 + there.ulp / 2, 1 + there.ulp * Fraction(3, 2), -(1 + there.ulp / 2), 1 + there.ulp / 2 + there.ulp / 8):
            column.append(here.encode(here.round(fin(x))))
        while len(column) < LANES:
            column.append(near_one(here, rng, 6))
        return column
    f = File('cvt_float', 'Between f16, f32 and f64: widening is exact, narrowing rounds; to integral values; flushed and clamped.')
    for target, source in (('f16', 'f32'), ('f16', 'f64'), ('f32', 'f64')):
        column = narrowing(source, target)
        for mode in ROUNDINGS:
            to_float(f, f'cvt.{mode}.{target}.{source}', column)
        if 'f32' in (target, source):
            to_float(f, f'cvt.rn.ftz.{target}.{source}', column)
            to_float(f, f'cvt.rp.ftz.{target}.{source}', column)
        to_float(f, f'cvt.rn.sat.{target}.{source}', column)
    for target, source in (('f32', 'f16'), ('f64', 'f16'), ('f64', 'f32')):
        column = float_column(FORMATS[source])
        to_float(f, f'cvt.{target}.{source}', column)
        to_float(f, f'cvt.sat.{target}.{source}', column)
        if 'f32' in (target, source):
            to_float(f, f'cvt.ftz.{target}.{source}', column)
    for ty in ('f16', 'f32', 'f64'):
        fmt = FORMATS[ty]
        column = [fmt.encode(fmt.round(fin(Fraction(v)))) for v in (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, 0.75, -0.75, 1000.5, 1001.5)]
        column += float_edges(fmt) + [near_one(fmt, random.Random('last'))]
        for mode in INTEGER_ROUNDINGS:
            to_float(f, f'cvt.{mode}.{ty}.{ty}', column)
        to_float(f, f'cvt.rni.sat.{ty}.{ty}', column)
        to_float(f, f'cvt.sat.{ty}.{ty}', column)
        if ty == 'f32':
            to_float(f, 'cvt.ftz.f32.f32', column)
            to_float(f, 'cvt.ftz.sat.f32.f32', column)
            to_float(f, 'cvt.rpi.ftz.f32.f32', column)
    f.write()

    f = File('cvt_bf16', 'f32 to bf16 and, with .relu, to f16; and back, where a rounding changes nothing.', sm=80)
    for target in ('bf16', 'f16'):
        column = narrowing('f32', target)
        for form in ('.rn', '.rz', '.rn.relu', '.rz.relu') if target == 'bf16' else ('.rn.relu', '.rz.relu'):
            to_float(f, f'cvt{form}.{target}.f32', column)
    for mode in ROUNDINGS:
        to_float(f, f'cvt.{mode}.f32.bf16', float_column(BF16, seed=3))
    f.write()
    f = File('cvt_bf16_sm90', 'bf16 to and from the other floats.', sm=90)
    to_float(f, 'cvt.f32.bf16', float_column(BF16))
    to_float(f, 'cvt.f64.bf16', float_column(BF16))
    for mode in ROUNDINGS:
        to_float(f, f'cvt.{mode}.bf16.f64', narrowing('f64', 'bf16'))
        to_float(f, f'cvt.{mode}.bf16.f16', float_column(F16, seed=17))
        to_float(f, f'cvt.{mode}.f16.bf16', float_column(BF16, seed=17))
        to_float(f, f'cvt.{mode}.f64.bf16', float_column(BF16, seed=17))
    for mode in ('rm', 'rp'):
        to_float(f, f'cvt.{mode}.bf16.f32', narrowing('f32', 'bf16'))
    for mode in INTEGER_ROUNDINGS:
        to_float(f, f'cvt.{mode}.bf16.bf16', [BF16.encode(BF16.round(fin(Fraction(k, 2)))) for k in range(-12, 0)] + float_edges(BF16))
    f.write()

    f = File('cvt_packed', 'Two f32 to a packed pair: the first operand becomes the upper half.', sm=80)
    for target in ('f16', 'bf16'):
        fmt = FORMATS[target]
        a = narrowing('f32', target)
        b = a[7:] + a[:7]
        for form in ('.rn', '.rz', '.rn.relu', '.rz.relu'):
            def convert(bits):
                x = fmt.round(F32.decode(bits), form[1:3])
                return text_of(target, exact.relu(x) if 'relu' in form else x)
            pairs = [convert(v) for pair in zip(b, a) for v in pair]
            f.case(ident(f'cvt{form}.{target}x2.f32'), f'cvt{form}.{target}x2.f32 {{d}}, {{a}}, {{b}};', [('f32', a), ('f32', b)], [(target + 'x2', pairs)])
    column = narrowing('f32', 'bf16')[:20] + float_column(F32, seed=18)[20:]
    def tf32(bits, mode):
        x = F32.decode(bits)
        if x[0] != 'fin' or x[2] > TF32.largest or 0 < x[2] < F32.normal:
            return '_'  # a NaN's payload, and ranges of which the manual does not speak
        return hex(F32.encode(TF32.round(x, mode)))
    f.case('cvt_rna_tf32_f32', 'cvt.rna.tf32.f32 {d}, {a};\nand.b32 {d}, {d}, 0xffffe000; // the lowest 13 bits say nothing', [('f32', column)], [('b32', [tf32(v, 'rna') for v in column])])
    f.write()
    f = File('cvt_tf32_sm90', 'f32 to tf32 in the IEEE roundings.', sm=90)
    for mode in ('rn', 'rz'):
        for relu in ('', '.relu'):
            def clamped(bits):
                return tf32(bits, mode) if not relu or not bits >> 31 or tf32(bits, mode) == '_' else '_' if bits == 1 << 31 else '0x0'
            f.case(f'cvt_{mode}{ident(relu)}_tf32_f32', f'cvt.{mode}{relu}.tf32.f32 {{d}}, {{a}};\nand.b32 {{d}}, {{d}}, 0xffffe000;',
                   [('f32', column)], [('b32', [clamped(v) for v in column])])
    f.write()

    f = File('cvt_fp8', 'Pairs of 8-bit floats: narrowing clamps to the largest finite number.', sm=89, version='8.1')
    rng = random.Random('fp8')
    for name, fmt in (('e4m3', E4M3), ('e5m2', E5M2)):
        def narrow(x, relu):
            if x[0] == 'nan':
                return 0x7f
            if x[0] == 'inf' or x[2] > fmt.largest:
                x = ('fin', x[1], fmt.largest)
            else:
                x = fmt.round(x)
                x = x if x[0] == 'fin' else ('fin', x[1], fmt.largest)
            if relu and x[1]:
                return None if exact.is_zero(x) else 0
            return fmt.encode(x)
        values = [fin(v) for v in (1, -1, fmt.largest, fmt.largest * 2, -fmt.largest * 2, fmt.least, fmt.least / 2, fmt.least * Fraction(3, 4), 1 + fmt.ulp / 2,
                                   1 + fmt.ulp * Fraction(3, 2), -fmt.normal, Fraction(1, 3))] + [ZERO, NEG_ZERO, NAN, INF, NEG_INF]
        singles = [F32.encode(F32.round(v)) if v != NAN else 0x7fc00000 for v in values] + [near_one(F32, rng, 8) for _ in range(15)]
        others = singles[5:] + singles[:5]
        for relu in ('', '.relu'):
            def byte(bits):
                out = narrow(F32.decode(bits), relu)
                return '_' if out is None else hex(out)
            pairs = [byte(v) for pair in zip(others, singles) for v in pair]
            f.case(f'cvt{ident(relu)}_{name}x2_f32', f'cvt.rn.satfinite{relu}.{name}x2.f32 {{d}}, {{a}}, {{b}};', [('f32', singles), ('f32', others)], [('b8x2', pairs)])
        halves = [F16.encode(F16.round(v)) if v != NAN else 0x7e00 for v in values] + [near_one(F16, rng, 8) for _ in range(15)]
        f.case(f'cvt_{name}x2_f16x2', f'cvt.rn.satfinite.{name}x2.f16x2 {{d}}, {{a}};', [('f16x2', halves)], [('b8x2', [hex(narrow(F16.decode(v), '')) for v in halves])], block=16)
        patterns = [k * 8 + k % 8 for k in range(32)] if name == 'e4m3' else [k * 8 + 3 - k % 4 for k in range(32)]
        patterns = [v if fmt.decode(v)[0] != 'nan' or v == 0x7f else 0x7f for v in patterns]
        for relu in ('', '.relu'):
            wide = [text_of('f16', exact.relu(fmt.decode(v)) if relu else fmt.decode(v)) for v in patterns]
            f.case(f'cvt{ident(relu)}_f16x2_{name}x2', f'cvt.rn{relu}.f16x2.{name}x2 {{d}}, {{a}};', [('b8x2', patterns)], [('f16x2', wide)], block=16)
    f.write()

    f = File('nan_canonical', 'A NaN result is 0x7fffffff for f32, 0x7fff for f16 and bf16, whatever NaN came in.', sm=90)
    singles = [0x7fc00001, 0xffc00000, 0x7f800001, 0xff812345, 0x7fffffff, 0xffffffff, 0x7fa00000, 0x7fd00000] * 4
    halves = [0x7e01, 0xfe00, 0x7c01, 0xfc12, 0x7fff, 0xffff, 0x7d00, 0x7e80] * 4
    brains = [0x7fc1, 0xffc0, 0x7f81, 0xff92, 0x7fff, 0xffff, 0x7fa0, 0x7fd0] * 4
    ones = {'f32': (singles, 0x3f800000, 0x7fffffff), 'f16': (halves, 0x3c00, 0x7fff), 'bf16': (brains, 0x3f80, 0x7fff)}
    for ty, (column, one, nan) in ones.items():
        raw = f'b{bits_of(ty)}'
        for form in ('add.rn', 'mul.rn', 'max.NaN'):
            f.case(f'{ident(form)}_{ty}', f'{form}.{ty} {{d}}, {{a}}, {{b}};', [(raw, column), (raw, [one] * 32)], [(raw, [hex(nan)] * 32)])
        f.case(f'fma_rn_{ty}', f'fma.rn.{ty} {{d}}, {{b}}, {{b}}, {{a}};', [(raw, column), (raw, [one] * 32)], [(raw, [hex(nan)] * 32)])
        f.case(f'min_{ty}_both', f'min.{ty} {{d}}, {{a}}, {{b}};', [(raw, column), (raw, column[1:] + column[:1])], [(raw, [hex(nan)] * 32)])
    f.case('cvt_rn_f16_f32', 'cvt.rn.f16.f32 {d}, {a};', [('b32', singles)], [('b16', ['0x7fff'] * 32)])
    f.case('cvt_rn_bf16_f32', 'cvt.rn.bf16.f32 {d}, {a};', [('b32', singles)], [('b16', ['0x7fff'] * 32)])
    f.case('sqrt_rn_f32', 'sqrt.rn.f32 {d}, {a};', [('b32', [0xbf800000] * 32)], [('b32', ['0x7fffffff'] * 32)])
    f.write()


def main():
    integers()
    extended_precision()
    bits()
    float_arithmetic()
    float_select()
    comparisons()
    approximations()
    conversions()
    memory.write()
    warp.write()
    matrix.write()
    wgmma.write()
    bulk.write()
    forms.write()


if __name__ == '__main__':
    main()
