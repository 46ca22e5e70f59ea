"""The families of `wgmma`: products of a warpgroup, from tiles whose bytes are laid out here, by the PTX ISA's own words ("Shared Memory
Matrix Layout", "Matrix Descriptor Format") and not by what the simulator does."""
import random
from fractions import Fraction

import numpy as np

from corpus import File
from exact import fin
from matrix import FP8, SPARSE, WIDTH, bits, halves, on_h200, show, small, spread, starts

MODE = {0: 0, 128: 1, 64: 2, 32: 3}


def tile_image(ty, x, mn_major, swizzle, base, pad=0):
    """Bytes of shared memory from `base` on with the rows (of B, the columns) of `x`, [mn, k], and the descriptor's two offsets.

    The canonical layouts: K-major has 8 rows of one line (16 bytes, or the swizzle's width) beneath each other; MN-major has 8 steps of k
    beneath each other, each a line of 8 elements or of the swizzle's width. Blocks follow each other densely, `pad` bytes apart."""
    size = WIDTH[ty] / 8
    line = swizzle or 16
    rows, depth = x.shape
    per_chunk = int(16 / size)
    block = 8 * line + pad
    image = {}
    if not mn_major:
        chunks = depth // per_chunk
        wide = -(-chunks * 16 // line)  # lines that a row has
        leading, stride = block, block * wide
        for row in range(rows):
            for chunk in range(chunks):
                at = row // 8 * stride + row % 8 * line + chunk * 16 % line + chunk * 16 // line * leading
                image[at] = list(x[row, chunk * per_chunk:(chunk + 1) * per_chunk])
    else:
        panels = -(-rows * 2 // line)  # lines along mn
        across, along = block, block * panels
        leading, stride = (along, across) if swizzle == 0 else (across, along)
        for k in range(depth):
            for chunk in range(rows // 8):
                at = k // 8 * along + k % 8 * line + chunk * 16 % line + chunk * 16 // line * across
                image[at] = list(x[chunk * 8:chunk * 8 + 8, k])
    length = max(image) + 16
    length += -length % 1024
    memory = bytearray(length)
    for at, values in image.items():
        word = sum(bits(ty, v) << WIDTH[ty] * k for k, v in enumerate(values))
        address = base + at
        address ^= (address >> 7 & (line // 16 - 1)) << 4
        memory[address - base:address - base + 16] = word.to_bytes(16, 'little')
    return bytes(memory), leading, stride


def descriptor(base, leading, stride, swizzle):
    return base >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | MODE[swizzle] << 62


def thinned(ty, drawn, rng):
    """2 of 4 (tf32: 1 of 2) of each row: the dense matrix, the kept elements, and a row's nibbles of metadata."""
    _, kept, places = SPARSE.get(ty, (1, 2, 4))
    dense, packed, nibbles = np.zeros(drawn.shape, dtype=object), [], []
    for row in range(drawn.shape[0]):
        kept_row, metadata = [], []
        for chunk in range(0, drawn.shape[1], places):
            chosen = sorted(rng.sample(range(places), kept))
            for place in chosen:
                dense[row][chunk + place] = drawn[row][chunk + place]
                kept_row.append(drawn[row][chunk + place])
            metadata.append({0: 0b0100, 1: 0b1110}[chosen[0]] if ty == 'tf32' else chosen[0] | chosen[1] << 2)
        packed.append(kept_row)
        nibbles.append(metadata)
    return dense, np.array(packed, dtype=object), nibbles


def metadata_words(ty, nibbles, selector, rng):
    """A word for each of 128 threads: each warp as `mma.sp` has it for its 16 rows."""
    words = []
    for warp in range(4):
        held = {}
        for row in range(16):
            group, high = row % 8, row // 8
            mine = nibbles[16 * warp + row]
            for chunk, nibble in enumerate(mine):
                if WIDTH[ty] >= 16:
                    lane, shift = 4 * group + selector * len(mine) // 4 + chunk // 4, 16 * high + 4 * (chunk % 4)
                else:
                    lane, shift = 4 * group + 2 * selector + 2 * (chunk // 8) + high, 4 * (chunk % 8)
                held[lane] = held.get(lane, 0) | nibble << shift
        words += [held.get(lane, rng.getrandbits(32)) for lane in range(32)]
    return words


def wgmma_case(f, n, types, columns, a_in='shared', swizzles=(128, 128), trans=(0, 0), scale_d=1, scales=(1, 1), values=small, clamped=False,
               sparse=None, pads=(0, 0), steps=1, rule=None):
    """`types`: of d, a and b. `sparse`: the selector. `steps`: products on one accumulator, the same each time."""
    dt, at, bt = types
    rng = random.Random(n)
    depth = 256 // WIDTH[at] * (1 if sparse is None else 2)
    a, b = values(at, 64, depth, rng), values(bt, columns, depth, rng)
    c = starts(values, 64, columns, rng)
    if clamped:
        a[:32, :], a[32:, :] = 127, -128
        b[:, :] = 127
        c[::2, :], c[1::2, :] = 2**31 - 100, -2**31 + 5
    kept, metadata = a, None
    if sparse is not None:
        a, kept, nibbles = thinned(at, a, rng)
        metadata = metadata_words(at, nibbles, sparse, rng)
    sign = scales[0] * scales[1]
    d = c
    for _ in range(steps):
        before = d if scale_d else np.zeros_like(d)
        d = rule(a * sign, b.T, before, at) if rule else (a * sign).dot(b.T) + before
    if clamped:
        d = np.minimum(np.maximum(d, -2**31), 2**31 - 1)
    width = 2 if dt == 'f16' else 1
    def fragment(x):
        return [x[16 * (t // 32) + t % 32 // 4 + 8 * (e // 2 % 2)][8 * (e // 4) + 2 * (t % 4) + e % 2] for t in range(128) for e in range(columns // 2)]
    registers = columns // 2 // width
    images, starts_at, base = [], [], 0
    for x, ty, inside, swizzle, transposed, pad in ((kept, at, a_in == 'shared', swizzles[0], trans[0], pads[0]), (b, bt, True, swizzles[1], trans[1], pads[1])):
        if inside:
            image, leading, stride = tile_image(ty, x, transposed, swizzle, base, pad)
            images.append(image)
            starts_at.append(descriptor(base, leading, stride, swizzle))
            base += len(image)
    image = b''.join(images)
    words = [int.from_bytes(image[k:k + 4], 'little') for k in range(0, len(image), 4)]
    head = [f'//! kernel: {n}', '//! block: 128', '//! arg: in:b32:' + runs(words)]
    parameters = ['pt']
    body = ['.reg .u32 i, s, k;  .reg .u64 p, q;  .reg .pred more;  .reg .b32 w;', 'mov.u32 i, %tid.x;',
            f'.shared .align 1024 .b8 tiles[{len(image)}];',
            'ld.param.u64 p, [pt];  mad.wide.u32 p, i, 4, p;  mov.u32 s, tiles;  mad.lo.u32 s, i, 4, s;', 'mov.u32 k, 0;', 'fill:',
            'ld.global.b32 w, [p];  st.shared.b32 [s], w;', 'add.u64 p, p, 512;  add.u32 s, s, 512;  add.u32 k, k, 512;',
            f'setp.lt.u32 more, k, {len(image)};', '@more bra fill;', 'fence.proxy.async;', 'bar.sync 0;']
    if a_in == 'registers':
        per_word = 32 // WIDTH[at]
        lists = []
        for t in range(128):
            group, place = divmod(t % 32, 4)
            for r in range(4):
                row = 16 * (t // 32) + group + 8 * (r % 2)
                lists.append(sum(bits(at, kept[row][(place + 4 * (r // 2)) * per_word + e]) << WIDTH[at] * e for e in range(per_word)))
        head.append('//! arg: in:b32:' + ','.join(hex(word) for word in lists))
        parameters.append('pa')
        body += ['.reg .b32 a0, a1, a2, a3;', 'ld.param.u64 p, [pa];  mad.wide.u32 p, i, 16, p;  ld.global.v4.b32 {a0, a1, a2, a3}, [p];']
    if metadata is not None:
        head.append('//! arg: in:b32:' + ','.join(hex(word) for word in metadata))
        parameters.append('pm')
        body += ['.reg .b32 m;', 'ld.param.u64 p, [pm];  mad.wide.u32 p, i, 4, p;  ld.global.b32 m, [p];']
    head += [f'//! arg: in:{show(dt, fragment(c))}', f'//! arg: out:{dt}:{64 * columns}', f'//! expect: {show(dt, fragment(d))}']
    parameters += ['pc', 'pd']
    names = [f'd{k}' for k in range(registers)]
    body += [f'.reg .b32 {", ".join(names)};', f'ld.param.u64 p, [pc];  mad.wide.u32 p, i, {4 * registers}, p;',
             *(f'ld.global.b32 {name}, [p+{4 * k}];' for k, name in enumerate(names)),
             '.reg .b64 ' + ', '.join(f'desc{k}' for k in range(len(starts_at))) + ', offset;  .reg .pred keep;',
             # the tiles begin where the block's shared memory does, whatever address that has
             'mov.u32 s, tiles;  and.b32 s, s, 0x3ffff;  shr.u32 s, s, 4;  cvt.u64.u32 offset, s;',
             *(f'add.u64 desc{k}, offset, {start:#x};' for k, start in enumerate(starts_at)),
             f'setp.{"lt" if scale_d else "gt"}.u32 keep, i, 1024;']
    first = '{a0, a1, a2, a3}' if a_in == 'registers' else 'desc0'
    operands = [first, f'desc{len(starts_at) - 1}']
    operands += ['m', str(sparse)] if sparse is not None else []
    operands.append('keep')
    if dt != 's32':
        operands += [str(scale) for scale in scales]
        if WIDTH[at] == 16:
            operands += [str(t) for t in (trans if a_in == 'shared' else trans[1:])]
    shape = f'm64n{columns}k{depth}'
    suffix = '.and.popc' if at == 'b1' else '.satfinite' if clamped else ''
    form = f'wgmma.mma_async{".sp" if sparse is not None else ""}.sync.aligned.{shape}.{dt}.{at}.{bt}{suffix}'
    product = [form, f'    {{{", ".join(names)}}},', f'    {", ".join(operands)};']
    body += ['wgmma.fence.sync.aligned;', *(product * steps), 'wgmma.commit_group.sync.aligned;', 'wgmma.wait_group.sync.aligned 0;',
             f'ld.param.u64 p, [pd];  mad.wide.u32 p, i, {4 * registers}, p;', *(f'st.global.b32 [p+{4 * k}], {name};' for k, name in enumerate(names)), 'ret;']
    signature = ', '.join(f'.param .u64 {name}' for name in parameters)
    f.raw('\n'.join([*head, f'.visible .entry {n}({signature})', '{', *('    ' + line for line in body), '}']))


def runs(words):
    """A list in which neighbours that are equal stand once, as `V*N`."""
    out, k = [], 0
    while k < len(words):
        end = k
        while end < len(words) and words[end] == words[k]:
            end += 1
        out.append(f'{words[k]:#x}*{end - k}' if end - k > 1 else hex(words[k]))
        k = end
    return ','.join(out)


def fp8_spread(ty, rows, columns, rng):
    """Numbers of every size, a zero here and there; C has few bits, as sums have."""
    fmt = FP8.get(ty)
    def draw():
        if rng.random() < 0.1:
            return Fraction(0)
        if fmt is None:
            return Fraction(rng.randint(-2**13, 2**13), 2**rng.randint(0, 16))
        x = fmt.round(fin(Fraction(rng.choice((-1, 1)) * rng.uniform(1, 2)) * Fraction(2) ** rng.randint(-8, 6)))
        return -x[2] if x[1] else x[2]
    return np.array([[draw() for _ in range(columns)] for _ in range(rows)], dtype=object)


def in_8_bits(a, b, c, at):
    """A · B + C of 8-bit floats by wgmma on an H200, found from the results of kernels: as `on_h200`, with 13 bits and not 25, and 13
    bits of the sum's fraction."""
    return on_h200(a, b, c, at, kept=13, fraction=13)


def write():
    f = File('wgmma_f16', 'wgmma of f16: both places of A, every swizzle, both orders, signs, scale-d; N of 8 to 256.', sm='90a', version='8.4')
    for swizzle in (0, 32, 64, 128):
        for trans in (0, 1):
            wgmma_case(f, f'n16_swizzle{swizzle}_trans{trans}', ('f32', 'f16', 'f16'), 16, swizzles=(swizzle, swizzle), trans=(trans, trans))
        wgmma_case(f, f'n72_registers_swizzle{swizzle}', ('f32', 'f16', 'f16'), 72, a_in='registers', swizzles=(0, swizzle), trans=(0, swizzle // 32 % 2))
    wgmma_case(f, 'n8', ('f32', 'f16', 'f16'), 8, swizzles=(0, 32), pads=(128, 256))
    wgmma_case(f, 'n64', ('f32', 'f16', 'f16'), 64, swizzles=(128, 0))
    wgmma_case(f, 'n96', ('f32', 'f16', 'f16'), 96, swizzles=(64, 128), trans=(0, 1))
    wgmma_case(f, 'n136_trans', ('f32', 'f16', 'f16'), 136, swizzles=(128, 64), trans=(1, 1))
    wgmma_case(f, 'n256', ('f32', 'f16', 'f16'), 256, steps=3)
    wgmma_case(f, 'n24_scale_d_0', ('f32', 'f16', 'f16'), 24, scale_d=0)
    for scales in ((-1, 1), (1, -1), (-1, -1)):
        wgmma_case(f, f'n8_signs_{scales[0] + 1}{scales[1] + 1}', ('f32', 'f16', 'f16'), 8, scales=scales)
    wgmma_case(f, 'n32_into_f16', ('f16', 'f16', 'f16'), 32)
    wgmma_case(f, 'n8_registers_into_f16', ('f16', 'f16', 'f16'), 8, a_in='registers', scales=(-1, 1))
    f.write()

    f = File('wgmma_bf16_tf32', 'wgmma of bf16 and tf32.', sm='90a', version='8.4')
    for at in ('bf16', 'tf32'):
        for a_in in ('shared', 'registers'):
            wgmma_case(f, f'n40_{at}_{a_in}', ('f32', at, at), 40, a_in=a_in, swizzles=(32, 64))
        wgmma_case(f, f'n128_{at}', ('f32', at, at), 128, scale_d=0)
    wgmma_case(f, 'n64_bf16_trans', ('f32', 'bf16', 'bf16'), 64, trans=(1, 1))
    f.write()

    f = File('wgmma_fp8', 'wgmma of 8-bit floats, of every pair of types.', sm='90a', version='8.4')
    for at in FP8:
        for bt in FP8:
            wgmma_case(f, f'n16_{at}_{bt}', ('f32', at, bt), 16, swizzles=(64, 0))
            wgmma_case(f, f'n8_{at}_{bt}_registers_into_f16', ('f16', at, bt), 8, a_in='registers')
    f.write()

    f = File('wgmma_integers', 'wgmma of bytes and bits; .satfinite clamps the sum.', sm='90a', version='8.4')
    for at in ('s8', 'u8'):
        for bt in ('s8', 'u8'):
            wgmma_case(f, f'n24_{at}_{bt}', ('s32', at, bt), 24, swizzles=(128, 32))
    wgmma_case(f, 'n112_s8_registers', ('s32', 's8', 's8'), 112, a_in='registers')
    wgmma_case(f, 'n8_s8_satfinite', ('s32', 's8', 's8'), 8, clamped=True)
    for a_in in ('shared', 'registers'):
        wgmma_case(f, f'n48_b1_{a_in}', ('s32', 'b1', 'b1'), 48, a_in=a_in, swizzles=(0, 64))
    f.write()

    f = File('wgmma_sums', 'How sums of wgmma are made on compute capability 9.0: to the bit.', sm='90a', version='8.4')
    for at in ('f16', 'bf16', 'tf32'):
        wgmma_case(f, f'n16_{at}', ('f32', at, at), 16, values=spread, rule=on_h200)
    wgmma_case(f, 'n16_f16_in_f16', ('f16', 'f16', 'f16'), 16, values=halves, rule=lambda *all: on_h200(*all, to='f16'))
    for at in FP8:
        wgmma_case(f, f'n16_{at}', ('f32', at, at), 16, values=fp8_spread, rule=in_8_bits)
    f.write()

    f = File('wgmma_sparse', 'wgmma.mma_async.sp: 2 of 4 kept, of tf32 1 of 2.', sm='90a', version='8.4')
    for at, dt in (('f16', 'f32'), ('bf16', 'f32'), ('tf32', 'f32'), ('f16', 'f16')):
        for selector in (0, 1):
            wgmma_case(f, f'n16_{at}_{dt}_{selector}', (dt, at, at), 16, sparse=selector, swizzles=(64, 128), a_in=('shared', 'registers')[selector])
    for dt, at, bt in (('f32', 'e4m3', 'e5m2'), ('s32', 's8', 'u8')):
        for a_in in ('shared', 'registers'):
            wgmma_case(f, f'n32_{at}_{bt}_{a_in}', (dt, at, bt), 32, sparse=0, a_in=a_in)
    wgmma_case(f, 'n16_f16_trans', ('f32', 'f16', 'f16'), 16, sparse=0, trans=(0, 1), swizzles=(128, 32))
    f.write()
