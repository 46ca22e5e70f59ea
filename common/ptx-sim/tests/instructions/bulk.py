"""Bulk copies: linear ones, reductions, boxes of tensors whose maps the kernels make. What arrives where is worked out here
element by element, from the PTX ISA's words."""
import struct

from corpus import File


def words(count, seed):
    state, values = seed, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7fffffff
        values.append(state * 2 + (state >> 7 & 1) & 0xffffffff)
    return values


WAIT = '''
    again{n}: mbarrier.try_wait.parity.shared::cta.b64 done, [bar], {parity};
    @!done bra again{n};'''

HEAD = '''
    .shared .align 1024 .b8 tile[4096];  .shared .align 8 .b64 bar;
    .reg .u32 i, s, b, t;  .reg .u64 p, q, m;  .reg .pred first, done;
    mov.u32 i, %tid.x;  setp.eq.u32 first, i, 0;  mov.u32 s, tile;  mov.u32 b, bar;
    ld.param.u64 p, [pa];  ld.param.u64 q, [pd];
    @first mbarrier.init.shared::cta.b64 [bar], 1;
    @first fence.mbarrier_init.release.cluster;
    bar.sync 0;'''


def load(size, n=0, to='s', source='p'):
    return f'''
    @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};
    @first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{source}], {size}, [b];''' + WAIT.format(n=n, parity=n % 2)


def dump(size, source='s'):
    return f'''
    @first cp.async.bulk.global.shared::cta.bulk_group [q], [{source}], {size};
    @first cp.async.bulk.commit_group;
    @first cp.async.bulk.wait_group 0;'''


def kernel(f, name, heads, body, parameters='.param .u64 pa, .param .u64 pd'):
    # Copies within shared memory are for launches with clusters, be they of one block.
    cluster = ' .explicitcluster .reqnctapercluster 1, 1, 1' if 'shared::cluster.shared::cta' in body else ''
    f.raw('\n'.join([f'//! kernel: {name}', *('//! ' + head for head in heads), f'.visible .entry {name}({parameters}){cluster}', '{' + body, '    ret;', '}']))


def listed(values):
    return ','.join(str(value) for value in values)


def linear():
    f = File('bulk_copies', 'Bulk copies to and from shared memory, within it, and reductions.', sm=90, version='8.6')
    data = words(128, 7)
    kernel(f, 'there_and_back', [f'arg: in:u32:{listed(data)}', 'arg: out:u32:128', f'expect: u32:{listed(data)}'], HEAD + load(512) + dump(512))
    # Two halves by one phase, each announced by itself.
    kernel(f, 'two_in_a_phase', [f'arg: in:u32:{listed(data)}', 'arg: out:u32:128', f'expect: u32:{listed(data[64:] + data[:64])}'], HEAD + '''
    .reg .u32 s2;  .reg .u64 p2;  add.u32 s2, s, 256;  add.u64 p2, p, 256;
    @first mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 256;
    @first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s2], [p], 256, [b];
    @first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [p2], 256, [b];
    @first mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [bar], 256;''' + WAIT.format(n=0, parity=0) + dump(512))
    # Phases of one mbarrier, and copies within shared memory: what was in the second half goes to the first.
    kernel(f, 'within', [f'arg: in:u32:{listed(data)}', 'arg: out:u32:64', f'expect: u32:{listed(data[64:])}'], HEAD + load(512) + '''
    add.u32 t, s, 256;
    @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [t], 256, [b];''' + WAIT.format(n=1, parity=1) + dump(256))
    integers = {
        'add.u32': lambda x, y: (x + y) % 2 ** 32, 'add.s32': lambda x, y: (x + y) % 2 ** 32, 'add.u64': lambda x, y: (x + y) % 2 ** 64,
        'min.u32': min, 'max.u32': max, 'min.s32': lambda x, y: min(x, y, key=lambda v: v ^ 2 ** 31), 'max.s32': lambda x, y: max(x, y, key=lambda v: v ^ 2 ** 31),
        'min.u64': min, 'max.u64': max, 'min.s64': lambda x, y: min(x, y, key=lambda v: v ^ 2 ** 63), 'max.s64': lambda x, y: max(x, y, key=lambda v: v ^ 2 ** 63),
        'inc.u32': lambda x, y: 0 if x >= y else x + 1, 'dec.u32': lambda x, y: y if x == 0 or x > y else x - 1,
        'and.b32': lambda x, y: x & y, 'or.b32': lambda x, y: x | y, 'xor.b32': lambda x, y: x ^ y,
        'and.b64': lambda x, y: x & y, 'or.b64': lambda x, y: x | y, 'xor.b64': lambda x, y: x ^ y}
    for form, result in integers.items():
        wide = form.endswith('64')
        old, new = words(64, 99), data[:64]
        if form.startswith(('inc', 'dec')):
            old = [value % 16 for value in old]
            new = [value % 16 for value in new]
        pairs = [values[k] | values[k + 1] << 32 for values in (old, new) for k in range(0, 64, 2)] if wide else old + new
        half = len(pairs) // 2
        ty = 'b64' if wide else 'b32'
        expected = [hex(result(x, y)) for x, y in zip(pairs[:half], pairs[half:])]
        kernel(f, 'global_' + form.replace('.', '_'), [f'arg: in:{ty}:{listed(map(hex, pairs[half:]))}', f'arg: inout:{ty}:{listed(map(hex, pairs[:half]))}',
                                                       f'expect: {ty}:{listed(expected)}'], HEAD + load(256) + f'''
    @first cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [q], [s], 256;
    @first cp.async.bulk.commit_group;
    @first cp.async.bulk.wait_group 0;''')
    for form, ty, size in (('add.noftz.f16', 'f16', 2), ('min.f16', 'f16', 2), ('max.f16', 'f16', 2), ('add.noftz.bf16', 'bf16', 2), ('min.bf16', 'bf16', 2),
                           ('max.bf16', 'bf16', 2), ('add.f32', 'f32', 4), ('add.f64', 'f64', 8)):
        count = 256 // size
        old, new = [(k * 7) % 13 - 6 for k in range(count)], [(k * 5) % 11 - 5 for k in range(count)]
        op = form.split('.')[0]
        expected = [{'add': x + y, 'min': min(x, y), 'max': max(x, y)}[op] for x, y in zip(old, new)]
        kernel(f, 'global_' + form.replace('.', '_'), [f'arg: in:{ty}:{listed(new)}', f'arg: inout:{ty}:{listed(old)}', f'expect: {ty}:{listed(expected)}'],
               HEAD + load(256) + f'''
    @first cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [q], [s], 256;
    @first cp.async.bulk.commit_group;
    @first cp.async.bulk.wait_group 0;''')
    # Shared memory takes the sum of its two halves.
    sums = [(x + y) % 2 ** 32 for x, y in zip(data[:64], data[64:])]
    kernel(f, 'shared_add_u32', [f'arg: in:u32:{listed(data)}', 'arg: out:u32:64', f'expect: u32:{listed(sums)}'], HEAD + load(512) + '''
    add.u32 t, s, 256;
    @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
    @first cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [s], [t], 256, [b];''' + WAIT.format(n=1, parity=1) + dump(256))
    f.write()


NUMBERS = {'u8': (0, 1), 'u16': (1, 2), 'u32': (2, 4), 's32': (3, 4), 'u64': (4, 8), 'f16': (6, 2), 'f32': (7, 4), 'f64': (9, 8), 'bf16': (10, 2)}


def make_map(element, extents, strides, box, steps, swizzle, nan):
    """The map is made in shared memory, of zeros, and copied to `map`."""
    number, _ = NUMBERS[element]
    prefix = '@first tensormap.replace.tile'
    lines = ['.shared .align 128 .b8 made[128];  .reg .u32 z;  mov.u32 z, made;  mad.lo.u32 t, i, 4, z;  st.shared.u32 [t], 0;  bar.warp.sync -1;',
             'ld.param.u64 m, [pm];', f'{prefix}.global_address.shared::cta.b1024.b64 [z], p;', f'{prefix}.rank.shared::cta.b1024.b32 [z], {len(extents) - 1};']
    for at, extent in enumerate(extents):
        lines += [f'mov.u32 t, {extent};', f'{prefix}.global_dim.shared::cta.b1024.b32 [z], {at}, t;', f'mov.u32 t, {box[at]};',
                  f'{prefix}.box_dim.shared::cta.b1024.b32 [z], {at}, t;', f'mov.u32 t, {steps[at]};', f'{prefix}.element_stride.shared::cta.b1024.b32 [z], {at}, t;']
    for at, stride in enumerate(strides):
        lines += [f'.reg .u64 w{at};  mov.u64 w{at}, {stride};', f'{prefix}.global_stride.shared::cta.b1024.b64 [z], {at}, w{at};']
    lines += [f'{prefix}.elemtype.shared::cta.b1024.b32 [z], {number};', f'{prefix}.interleave_layout.shared::cta.b1024.b32 [z], 0;',
              f'{prefix}.swizzle_mode.shared::cta.b1024.b32 [z], {swizzle};', f'{prefix}.fill_mode.shared::cta.b1024.b32 [z], {int(nan)};', 'bar.warp.sync -1;',
              'tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [m], [z], 128;',
              'fence.proxy.tensormap::generic.acquire.gpu [m], 128;', 'bar.sync 0;']
    return ''.join('\n    ' + line for line in lines)


def boxes():
    f = File('bulk_tensor', 'Boxes of tensors, to shared memory and back; the maps are made by tensormap.replace.', sm='90a', version='8.6')

    # A GPU wants maps that its driver has made; `common/tests/it/tensor_maps.rs` has those.
    simulator = 'device: simulator'

    def case(name, element, extents, box, start, steps=None, swizzle=0, nan=False):
        _, size = NUMBERS[element]
        steps = steps or [1] * len(extents)
        strides = [size]
        for extent in extents:
            strides.append((strides[-1] * extent + 15) // 16 * 16)
        data = b''.join(struct.pack('<I', word) for word in words(strides[len(extents)] // 4, 5))
        counts = [(width + step - 1) // step if at else width for at, (width, step) in enumerate(zip(box, steps))]
        total = size
        for count in counts:
            total *= count
        dense, back = bytearray(total), bytearray(b'\xaa' * len(data))
        load_of = bytes((k * 11 + 5) % 251 for k in range(total))
        was_inside = -1  # the 16 bytes of the box that an element inside the tensor was last in
        for number in range(total // size):
            rest, inside, offset, beyond = number, True, 0, False
            for at, count in enumerate(counts):
                place = start[at] + rest % count * (steps[at] if at else 1)
                rest //= count
                inside &= 0 <= place < extents[at]
                beyond |= at == 0 and place >= extents[0]
                offset += place * strides[at]
            filled = (b'\xf7\x7f' * size)[:size] if nan else bytes(size)
            dense[number * size:(number + 1) * size] = data[offset:offset + size] if inside else filled
            if inside:
                was_inside = number * size // 16
            if inside or beyond and was_inside == number * size // 16 and offset + size <= len(data):  # the last 16 bytes of a row are written whole
                back[offset:offset + size] = b''.join(load_of[swizzled(number * size + k, swizzle)].to_bytes(1, 'little') for k in range(size))
        there = bytearray(total)
        for k in range(total):
            there[swizzled(k, swizzle)] = dense[k]
        dim, coordinates = f'{len(extents)}d', '{' + ', '.join(map(str, start)) + '}'
        made = make_map(element, extents, strides[1:len(extents)], box, steps, swizzle, nan)
        parameters = '.param .u64 pa, .param .u64 pm, .param .u64 pd'
        kernel(f, name, [simulator, f'arg: in:u8:{listed(data)}', 'arg: inout:u8:' + listed([0] * 128), f'arg: out:u8:{total}', 'expect: u8:_*128', f'expect: u8:{listed(there)}'],
               HEAD + made + f'''
    @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};
    @first cp.async.bulk.tensor.{dim}.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [m, {coordinates}], [b];''' + WAIT.format(n=0, parity=0) + dump(total),
               parameters)
        if nan or min(start) < 0:  # a box that is stored does not start before its tensor
            return
        kernel(f, name + '_back', [simulator, f'arg: in:u8:{listed(load_of)}', 'arg: inout:u8:' + listed([0] * 128), f'arg: inout:u8:{listed([0xaa] * len(data))}', 'expect: u8:_*128',
                                   f'expect: u8:{listed(back)}'], HEAD + load(total) + made.replace('global_address.shared::cta.b1024.b64 [z], p', 'global_address.shared::cta.b1024.b64 [z], q') + f'''
    @first cp.async.bulk.tensor.{dim}.global.shared::cta.tile.bulk_group [m, {coordinates}], [s];
    @first cp.async.bulk.commit_group;
    @first cp.async.bulk.wait_group 0;''', parameters)

    def swizzled(at, mode):
        row, chunk, rest = at // 128, at // 16 % 8, at % 16
        return row * 128 + (chunk ^ row % (1 << mode) if mode else chunk) * 16 + rest

    case('one', 'f32', [40], [16], [32])
    case('two', 'f32', [13, 9], [8, 4], [4, 2])
    case('ragged', 'f16', [21, 7], [16, 4], [8, 5])
    case('before', 'f16', [21, 7], [16, 4], [-8, -2])
    case('outside', 'u16', [16, 4], [8, 4], [40, 9])
    case('three', 'u8', [20, 5, 3], [16, 2, 2], [16, 4, 1])
    case('four', 'f64', [3, 3, 3, 2], [2, 2, 2, 2], [2, 1, 1, 1])
    case('five', 'u64', [3, 2, 2, 2, 2], [2, 2, 2, 2, 1], [2, 1, 0, 1, 1])
    case('steps', 's32', [12, 11, 5], [4, 5, 4], [8, 1, 0], [1, 2, 3])
    case('steps_before', 's32', [12, 11, 5], [4, 5, 4], [8, -1, -2], [1, 2, 3])
    for mode, size in ((1, 32), (2, 64), (3, 128)):
        case(f'swizzle_{size}', 'bf16', [70, 18], [size // 2, 12], [8, 1], swizzle=mode)
    case('swizzle_narrow', 'f32', [40, 40], [8, 16], [0, 0], swizzle=3)
    f.write()


def write():
    linear()
    boxes()
