"""The families below Hopper's asynchronous half that compilers seldom emit: video instructions, vectors of atomics,
mbarriers, hints, vector registers, mixed carries, sparse products."""
import random

import exact
from corpus import FORMATS, SIZE, File, int_columns, literal, signed, text_of

MASK = 0xffffffff


def part(word, selector, sign):
    """The byte, half or word of `word` that a selector names, as a number."""
    if selector == '':
        width, at = 32, 0
    else:
        width = 8 if selector[1] == 'b' else 16
        at = int(selector[2]) * width
    value = word >> at & ((1 << width) - 1)
    return signed(value, width) if sign else value


def limits(width, sign):
    return (-(1 << width - 1), (1 << width - 1) - 1) if sign else (0, (1 << width) - 1)


def clamp(value, width, sign):
    low, high = limits(width, sign)
    return max(low, min(high, value))


COMPARE = {'eq': lambda x, y: x == y, 'ne': lambda x, y: x != y, 'lt': lambda x, y: x < y, 'le': lambda x, y: x <= y, 'gt': lambda x, y: x > y, 'ge': lambda x, y: x >= y}


def first(op, x, y):
    """What a video instruction computes first."""
    name, _, kind = op.partition('.')
    if name == 'vset':
        return int(COMPARE[kind](x, y))
    if name in ('vshl', 'vshr'):
        n = y & 31 if kind == 'wrap' else min(y, 32)
        return x << n if name == 'vshl' else x >> n
    return {'vadd': x + y, 'vsub': x - y, 'vabsdiff': abs(x - y), 'vmin': min(x, y), 'vmax': max(x, y),
            'vavrg': (x + y + (x + y >= 0)) >> 1}[name]


def words(seed):
    edges = [0, 1, MASK, 0x80000000, 0x7fffffff, 0x80808080, 0x7f7f7f7f, 0x00ff00ff, 0xff00ff00, 0x80007fff, 0x7fff8000, 0x0000ffff]
    rng = random.Random(seed)
    columns = []
    for place in range(3):
        column = [edges[(lane * (1, 5, 7)[place] + place) % len(edges)] for lane in range(16)]
        columns.append(column + [rng.getrandbits(32) for _ in range(16)])
    return columns


def video_case(f, name, instruction, result, seed):
    columns = words(seed)
    values = [str(result(*lane) & MASK) for lane in zip(*columns)]
    f.case(name, instruction, [('u32', column) for column in columns], [('u32', values)])


def scalar_video():
    f = File('video_scalar', 'Scalar video instructions: parts of registers, saturation, a second operation, and results that are a part of c.')
    rng = random.Random('video')
    selectors = ['', '.b0', '.b1', '.b2', '.b3', '.h0', '.h1']
    number = 0
    for op in ('vadd', 'vsub', 'vabsdiff', 'vmin', 'vmax', 'vset.lt', 'vset.ge', 'vset.eq', 'vset.ne', 'vset.le', 'vset.gt', 'vshl.clamp', 'vshl.wrap', 'vshr.clamp', 'vshr.wrap'):
        base, _, kind = op.partition('.')
        for second in ('', '.add', '.min', '.max', 'merge', 'merge'):
            d, a, b = (rng.choice('us') for _ in range(3))
            if base in ('vshl', 'vshr'):
                b = 'u'
            if base == 'vset':
                d = 'u'
            sat = rng.choice(['', '.sat']) if base != 'vset' else ''
            asel, bsel = rng.choice(selectors), rng.choice(selectors)
            dsel = rng.choice(selectors[1:]) if second == 'merge' else ''

            def result(x, y, c, op=op, d=d, a=a, b=b, sat=sat, asel=asel, bsel=bsel, dsel=dsel, second=second):
                t = first(op, part(x, asel, a == 's'), part(y, bsel, b == 's'))
                width = 32 if dsel == '' else 8 if dsel[1] == 'b' else 16
                if sat:
                    t = clamp(t, width, d == 's')
                if second == 'merge':
                    at = int(dsel[2]) * width
                    ones = ((1 << width) - 1) << at
                    return c & ~ones | (t << at) & ones
                t &= MASK
                number = lambda v: signed(v, 32) if (a if op.startswith('vset') else d) == 's' else v
                return {'': lambda: t, '.add': lambda: t + c, '.min': lambda: min(number(t), number(c)), '.max': lambda: max(number(t), number(c))}[second]()
            types = f'.{a}32.{b}32' if base == 'vset' else f'.{d}32.{a}32.{b}32'
            mode = f'.{kind}' if kind else ''
            tail = second if second != 'merge' else ''
            third = '' if second == '' else ', {c}'
            # PTX's order: vset.atype.btype.cmp, vshl.dtype.atype.u32{.sat}.mode, and the second operation last
            text = f'{base}{types}{sat}{mode}{tail} {{d}}{dsel}, {{a}}{asel}, {{b}}{bsel}{third};'
            # Where an H200 gives other results than PTX's definition, the simulator refuses the form.
            if not (sat or dsel == '.h1' or base in ('vshl', 'vshr') and second in ('.min', '.max')):
                video_case(f, f'{base}_{number}', text, result, number)
            number += 1
    for number, (a, b, sat, scale, negated, po) in enumerate((('u', 'u', '', 0, '', False), ('u', 'u', '.sat', 7, '', False), ('s', 's', '', 15, '', False), ('s', 's', '.sat', 0, 'ab', False),
                                                              ('s', 'u', '.sat', 7, 'c', False), ('u', 's', '', 0, 'c', False), ('u', 'u', '', 7, '', True), ('s', 's', '.sat', 15, '', True), ('u', 'u', '.sat', 0, 'ab', False))):
        asel, bsel = rng.choice(selectors), rng.choice(selectors)

        def result(x, y, c, a=a, b=b, sat=sat, scale=scale, negated=negated, po=po, asel=asel, bsel=bsel):
            sign = 's' in (a, b) or negated != ''
            product = part(x, asel, a == 's') * part(y, bsel, b == 's')
            if negated == 'ab':
                product = -product
            third = signed(~c & MASK, 32) + 1 if negated == 'c' else signed(c, 32) if sign else c
            t = (product + third + po) >> scale
            return clamp(t, 32, sign) if sat else t
        tail = '.po' if po else ''
        shift = f'.shr{scale}' if scale else ''
        minus_a, minus_c = ('-' if negated == 'ab' else ''), ('-' if negated == 'c' else '')
        d = 's' if 's' in (a, b) or negated else 'u'
        if not (sat or po):
            video_case(f, f'vmad_{number}', f'vmad.{d}32.{a}32.{b}32{tail}{sat}{shift} {{d}}, {minus_a}{{a}}{asel}, {{b}}{bsel}, {minus_c}{{c}};', result, 100 + number)
    f.write()


def simd_video():
    f = File('video_simd', 'SIMD video instructions on halves and bytes: saturation, masks, selections of elements, sums.')
    rng = random.Random('simd')
    number = 0
    for count, letter in ((2, 'h'), (4, 'b')):
        width = 32 // count
        for op in ('vadd', 'vsub', 'vavrg', 'vabsdiff', 'vmin', 'vmax', 'vset.lt', 'vset.ne', 'vset.ge'):
            base, _, kind = op.partition('.')
            for tail in ('', '.sat', '.add', 'mask', 'select'):
                if base == 'vset' and tail == '.sat':
                    continue
                d, a, b = (rng.choice('us') for _ in range(3))
                mask = sorted(rng.sample(range(count), rng.randint(1, count - 1)), reverse=True) if tail in ('mask',) else list(range(count))[::-1]
                pick_a = [rng.randrange(2 * count) for _ in range(count)] if tail == 'select' else list(range(count))
                pick_b = [rng.randrange(2 * count) for _ in range(count)] if tail == 'select' else list(range(count, 2 * count))

                def result(x, y, c, op=op, d=d, a=a, b=b, tail=tail, mask=mask, pick_a=pick_a, pick_b=pick_b, width=width, count=count):
                    both = y << 32 | x
                    take = lambda n, sign: part(both >> n * width & ((1 << width) - 1), f'.{"h" if width == 16 else "b"}0', sign)
                    t = [first(op, take(pick_a[i], a == 's'), take(pick_b[i], b == 's')) for i in range(count)]
                    if tail == '.sat':
                        t = [clamp(v, width, d == 's') for v in t]
                    if tail == '.add':
                        return c + sum(t[i] for i in mask)
                    ones = (1 << width) - 1
                    return sum(((t[i] if i in mask else c >> i * width) & ones) << i * width for i in range(count))
                types = f'.{a}32.{b}32' if base == 'vset' else f'.{d}32.{a}32.{b}32'
                mode = f'.{kind}' if kind else ''
                end = tail if tail in ('.sat', '.add') else ''
                written = f'.{letter}{"".join(map(str, mask))}' if tail == 'mask' else ''
                asel = f'.{letter}{"".join(map(str, pick_a[::-1]))}' if tail == 'select' else ''
                bsel = f'.{letter}{"".join(map(str, pick_b[::-1]))}' if tail == 'select' else ''
                video_case(f, f'{base}{count}_{number}', f'{base}{count}{types}{mode}{end} {{d}}{written}, {{a}}{asel}, {{b}}{bsel}, {{c}};', result, 1000 + number)
                number += 1
    f.write()


def vector_atomics():
    f = File('atom_vector', 'Vectors of atomics in global memory: every element on its own, the old values come back.', sm=90, version='8.1')
    for element, counts, ops in (('f32', (2, 4), ('add',)), ('f16', (2, 4, 8), ('add', 'min', 'max')), ('bf16', (2, 4, 8), ('add', 'min', 'max')),
                                 ('f16x2', (2, 4), ('add', 'min', 'max')), ('bf16x2', (2, 4), ('add', 'max'))):
        scalar = element.removesuffix('x2')
        pairs = 2 if element.endswith('x2') else 1
        fmt = FORMATS[scalar]
        for count in counts:
            for op in ops:
                rng = random.Random(f'{element}{count}{op}')
                width = fmt.width
                n = 32 * count * pairs

                def value():
                    exponent = fmt.bias + rng.randint(-3, 3)
                    return rng.getrandbits(1) << width - 1 | exponent << fmt.mantissa_bits | rng.getrandbits(fmt.mantissa_bits)
                memory, b = [value() for _ in range(n)], [value() for _ in range(n)]

                def combine(x, y):
                    x, y = fmt.decode(x), fmt.decode(y)
                    if op == 'add':
                        return fmt.round(exact.add(x, y))
                    number = lambda v: -v[2] if v[1] else v[2]
                    return (min if op == 'min' else max)(x, y, key=number)
                new = [text_of(scalar, combine(x, y)) for x, y in zip(memory, b)]
                size = SIZE[scalar] * pairs
                bits = f'b{8 * size}'
                noftz = '' if scalar == 'f32' else '.noftz'
                olds, adds = [f'o{i}' for i in range(count)], [f'v{i}' for i in range(count)]
                step = size * count
                load = [f'ld.global.{bits} {v}, [p+{i * size}];' for i, v in enumerate(adds)]
                store = [f'st.global.{bits} [p+{i * size}], {o};' for i, o in enumerate(olds)]
                for kind in ('atom', 'red'):
                    name = f'{kind}_{op}_v{count}_{element}'
                    head = [f'//! kernel: {name}', f'//! arg: inout:{f.shared(scalar + ":" + ",".join(literal(scalar, v) for v in memory))}',
                            f'//! arg: in:{f.shared(scalar + ":" + ",".join(literal(scalar, v) for v in b))}']
                    head += [f'//! arg: out:{scalar}:{n}'] if kind == 'atom' else []
                    head += [f'//! expect: {f.shared(scalar + ":" + ",".join(new))}']
                    head += [f'//! expect: {f.shared(scalar + ":" + ",".join(literal(scalar, v) for v in memory))}'] if kind == 'atom' else []
                    vector, old = '{' + ', '.join(adds) + '}', '{' + ', '.join(olds) + '}'
                    register = '.f32' if scalar == 'f32' else f'.{bits}'
                    body = [f'.reg .u32 i;  .reg .u64 p;  .reg {register} {", ".join(olds + adds)};', 'mov.u32 i, %tid.x;',
                            f'ld.param.u64 p, [pb];  mad.wide.u32 p, i, {step}, p;', *load, f'ld.param.u64 p, [pm];  mad.wide.u32 p, i, {step}, p;',
                            f'atom.global.v{count}.{element}.{op}{noftz} {old}, [p], {vector};' if kind == 'atom' else f'red.relaxed.gpu.global.v{count}.{element}.{op}{noftz} [p], {vector};']
                    body += [f'ld.param.u64 p, [pd];  mad.wide.u32 p, i, {step}, p;', *store] if kind == 'atom' else []
                    parameters = ', '.join(f'.param .u64 {p}' for p in (['pm', 'pb'] + (['pd'] if kind == 'atom' else [])))
                    f.raw('\n'.join([*head, f'.visible .entry {name}({parameters})', '{', *('    ' + line for line in body), '    ret;', '}']))
    f.write()


def hints():
    f = File('hints', 'Cache policies, prefetch sizes and priorities change no value.', sm=80)
    values = int_columns('u32', 1, seed=40)[0]
    doubled = [str(2 * v & MASK) for v in values]
    policies = {'fractional': 'createpolicy.fractional.L2::evict_first.b64 policy, 0.5;', 'whole': 'createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 policy;',
                'range': 'createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 policy, [q], 128, 128;', 'default': 'createpolicy.fractional.L2::evict_normal.b64 policy;'}
    for name, policy in policies.items():
        f.case(f'policy_{name}', f'''.reg .u64 q, policy;  .reg .u32 t, u;
            ld.param.u64 q, [pd];
            {policy}
            mad.wide.u32 q, i, 4, q;
            st.global.L2::cache_hint.u32 [q], {{a}}, policy;
            ld.global.L2::cache_hint.u32 t, [q], policy;
            ld.global.L1::evict_last.L2::cache_hint.u32 u, [q], policy;
            prefetch.global.L2::evict_last [q];
            prefetch.global.L2::evict_normal [q];
            prefetch.global.L1 [q];
            add.u32 {{d}}, t, u;
            atom.global.add.L2::cache_hint.u32 t, [q], 0, policy;
            red.global.add.L2::cache_hint.u32 [q], 0, policy;''', [('u32', values)], [('u32', doubled)])
    f.case('async_copy', '''.reg .u64 q, policy;  .reg .u32 s;
        .shared .align 16 .b8 staged[512];
        createpolicy.fractional.L2::evict_first.b64 policy, 1.0;
        ld.param.u64 q, [pa];  mad.wide.u32 q, i, 4, q;
        mov.u32 s, staged;  mad.lo.u32 s, i, 4, s;
        cp.async.ca.shared.global.L2::cache_hint.L2::128B [s], [q], 4, policy;
        cp.async.wait_all;
        ld.shared.u32 {d}, [s];
        add.u32 {d}, {d}, {a};''', [('u32', values)], [('u32', doubled)])
    f.case('vectors_and_priorities', '''.reg .u64 q;  .reg .u32 t, u, v, w;
        .reg .u32 line;
        ld.param.u64 q, [pa];
        applypriority.global.L2::evict_normal [q], 128;
        shr.u32 line, i, 2;  mad.wide.u32 q, line, 16, q;
        ld.global.L1::no_allocate.L2::256B.v4.u32 {{t, u, v, w}}, [q];
        and.b32 line, i, 3;
        setp.eq.u32 one, line, 1;  selp.u32 t, u, t, one;
        setp.eq.u32 one, line, 2;  selp.u32 t, v, t, one;
        setp.eq.u32 one, line, 3;  selp.u32 t, w, t, one;
        add.u32 {d}, t, {a};'''.replace('.reg .u32 line;', '.reg .u32 line;  .reg .pred one;', 1), [('u32', values)], [('u32', doubled)])
    f.write()


def predicates_and_moves():
    f = File('lop3_predicate', 'lop3 with a predicate: whether the result is not zero, combined with another predicate.', sm=70, version='8.2')
    columns = int_columns('b32', 3, seed=41)
    columns[2][::3] = [0] * len(columns[2][::3])
    for op, combine in (('or', lambda x, y: x or y), ('and', lambda x, y: x and y)):
        for table in (0xc0, 0x3c):
            def lop(a, b, c):
                return sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k for k in range(32))
            got = [lop(*lane) for lane in zip(*columns)]
            odd = [lane % 2 == 1 for lane in range(32)]
            flags = [str(int(combine(v != 0, q))) for v, q in zip(got, odd)]
            f.case(f'{op}_{table:x}', f'''.reg .pred r, q;  .reg .b32 t;
                and.b32 t, i, 1;  setp.ne.u32 q, t, 0;
                lop3.{op}.b32 {{d}}|r, {{a}}, {{b}}, {{c}}, {table:#x}, q;
                selp.u32 {{e}}, 1, 0, r;
                lop3.{op}.b32 _|r, {{a}}, {{b}}, {{c}}, {table:#x}, q;
                @r add.u32 {{e}}, {{e}}, 2;''', [('b32', c) for c in columns], [('b32', [literal('b32', v) for v in got]), ('u32', [str(3 * int(v)) for v in flags])])
    f.write()

    f = File('vector_registers', 'Registers of .v2 and .v4: their elements as operands, packed and unpacked by mov, passed to functions.', sm=75)
    left, right = int_columns('b32', 2, seed=42)
    f.raw('''.func (.reg .v2 .b32 r) swapped(.reg .v2 .b32 a)
{
    mov.b32 r.x, a.y;  mov.b32 r.y, a.x;
    ret;
}''')
    both = [b << 32 | a for a, b in zip(left, right)]
    f.case('packed', '''.reg .v2 .b32 v;  .reg .v4 .b16 h;  .reg .v2 .b32 w;
        mov.b32 v.x, {a};  mov.b32 v.y, {b};
        mov.b64 {d}, v;
        mov.b64 h, {d};
        mov.b16 h.x, h.y;
        mov.b64 {e}, h;
        call (w), swapped, (v);
        mov.b64 {f}, w;''', [('b32', left), ('b32', right)],
           [('b64', [literal('b64', v) for v in both]), ('b64', [literal('b64', v & ~0xffff | v >> 16 & 0xffff) for v in both]), ('b64', [literal('b64', a << 32 | b) for a, b in zip(left, right)])])
    f.case('special', '''.reg .v4 .u32 t;
        mov.v4.u32 t, %ntid;
        mad.lo.u32 {d}, t.x, 100, t.y;
        mov.v4.u32 {t.x, t.y, t.z, t.w}, %tid;
        add.u32 {d}, {d}, t.x;'''.replace('{t.x', '{{t.x').replace('t.w}', 't.w}}'), [('u32', list(range(32)))], [('u32', [str(3201 + lane) for lane in range(32)])])
    f.write()

    f = File('element_addresses', 'Constant expressions as operands and offsets; an index counts elements, constant or not. An address of 32 bits wraps.', sm=75)
    f.raw('.global .align 16 .u32 table[8] = {10, 11, 12, 13, 14, 15, 16, 17};')
    f.case('indexed', '''.reg .u32 t, k;  .reg .u64 p2, k2;
        ld.global.u32 {d}, table[3];
        and.b32 k, i, 7;
        ld.global.u32 t, table[k];
        mad.lo.u32 {d}, t, 100, {d};
        mov.u64 p2, table[2];
        ld.global.u32 t, [p2+4*2];
        mad.lo.u32 {d}, t, 10000, {d};
        ld.param.u64 p2, [pe];  mad.wide.u32 p2, i, 4, p2;
        ld.global.u32 t, [table+(1<<2)];
        st.global.u32 [p2], 3*4+(1<<4);
        ld.global.u32 {e}, [p2];''', [('u32', list(range(32)))], [('u32', [str(13 + 100 * (10 + lane % 8) + 140000) for lane in range(32)]), ('u32', ['28'] * 32)])
    f.case('shared_wraps', '''.shared .align 4 .b32 cells[32];  .reg .u32 t, s, w;
        mov.u32 s, cells;
        shl.b32 t, i, 2;
        add.u32 s, s, t;
        sub.u32 w, s, 4096;
        mad.lo.u32 t, {a}, 7, 5;
        st.shared.u32 [w+4096], t;
        bar.sync 0;
        ld.shared.u32 {d}, [s];
        mov.u32 s, cells;
        xor.b32 t, i, 1;
        shl.b32 t, t, 2;
        add.u32 s, s, t;
        sub.u32 w, s, 4096;
        ld.shared.u32 {e}, [w+4096];''', [('u32', list(range(32)))], [('u32', [str(7 * lane + 5) for lane in range(32)]), ('u32', [str(7 * (lane ^ 1) + 5) for lane in range(32)])])
    f.write()

    f = File('movmatrix', 'An 8 by 8 matrix of 16-bit elements, transposed in registers.', sm=75)
    rng = random.Random('movmatrix')
    matrix = [[rng.getrandbits(16) for _ in range(8)] for _ in range(8)]
    pair = lambda m, lane: m[lane // 4][lane % 4 * 2] | m[lane // 4][lane % 4 * 2 + 1] << 16
    turned = [list(column) for column in zip(*matrix)]
    f.case('transposed', 'movmatrix.sync.aligned.m8n8.trans.b16 {d}, {a};', [('b32', [pair(matrix, lane) for lane in range(32)])], [('b32', [literal('b32', pair(turned, lane)) for lane in range(32)])])
    f.write()


def carries():
    f = File('carry_mixed', 'The carry of a sum read by a difference and the other way round: that of a difference says that nothing was borrowed.', sm=75)
    a, b = int_columns('u32', 2, seed=43)
    b[:4] = a[:4]
    carry = [int(x + y > MASK) for x, y in zip(a, b)]
    fits = [int(x >= y) for x, y in zip(a, b)]
    f.case('addc_after_sub', '.reg .u32 t;\nsub.cc.u32 t, {a}, {b};\naddc.u32 {d}, 100, 0;', [('u32', a), ('u32', b)], [('u32', [str(100 + v) for v in fits])])
    f.case('subc_after_add', '.reg .u32 t;\nadd.cc.u32 t, {a}, {b};\nsubc.u32 {d}, 100, 0;', [('u32', a), ('u32', b)], [('u32', [str(100 - (1 - v)) for v in carry])])
    f.case('addc_after_subc', '.reg .u32 t;\nsub.cc.u32 t, {a}, {b};\nsubc.cc.u32 t, 0, 0;\naddc.u32 {d}, 100, 0;', [('u32', a), ('u32', b)], [('u32', [str(100 + v) for v in fits])])
    f.case('madc_after_sub', '.reg .u32 t;\nsub.cc.u32 t, {a}, {b};\nmadc.lo.u32 {d}, 3, 5, 100;', [('u32', a), ('u32', b)], [('u32', [str(115 + v) for v in fits])])
    f.write()


def redux():
    f = File('redux_float', 'redux.sync of f32: the smallest and largest, of magnitudes, with NaN ignored or kept.', sm='100a', version='8.6')
    rng = random.Random('redux')
    fmt = FORMATS['f32']
    sets = {'plain': [rng.getrandbits(1) << 31 | (fmt.bias + rng.randint(-4, 4)) << 23 | rng.getrandbits(23) for _ in range(32)]}
    sets['zeros'] = [0x80000000 if lane % 3 else 0 for lane in range(32)]
    sets['a_nan'] = [0x7fc00000 if lane == 5 else v for lane, v in enumerate(sets['plain'])]
    sets['all_nan'] = [0x7fc00001 + lane for lane in range(32)]
    number = lambda v: (-v[2] if v[1] else v[2], -v[1]) if v[0] == 'fin' else (0, 0)
    for name, values in sets.items():
        for op in ('min', 'max'):
            for tail in ('', '.abs', '.NaN', '.abs.NaN'):
                taken = [fmt.decode(v & 0x7fffffff if 'abs' in tail else v) for v in values]
                numbers = [v for v in taken if v[0] != 'nan']
                nan = 'NaN' in tail and len(numbers) < 32 or not numbers
                text = 'nan' if nan else text_of('f32', (min if op == 'min' else max)(numbers, key=number))
                f.case(f'{op}{tail.replace(".", "_")}_{name}', f'redux.sync.{op}{tail}.f32 {{d}}, {{a}}, 0xffffffff;', [('f32', values)], [('f32', [text] * 32)])
    f.write()


def mbarriers():
    f = File('mbarrier', 'Barriers in shared memory: phases, counts, parities, states; copies that arrive when they are there.', sm=80, version='7.8')
    f.case('handover', '''.shared .align 8 .b64 bar;
        .shared .align 4 .b32 tile[32];
        .reg .pred first, done;  .reg .u32 s, t;  .reg .b64 state;
        setp.eq.u32 first, i, 0;
        @first mbarrier.init.shared.b64 [bar], 32;
        bar.sync 0;
        mov.u32 s, tile;  mad.lo.u32 s, i, 4, s;
        st.shared.u32 [s], {a};
        mbarrier.arrive.shared.b64 state, [bar];
        again:
        mbarrier.test_wait.shared.b64 done, [bar], state;
        @!done bra again;
        add.u32 t, i, 1;  and.b32 t, t, 31;  mov.u32 s, tile;  mad.lo.u32 s, t, 4, s;
        ld.shared.u32 {d}, [s];''', [('u32', [7 * lane + 3 for lane in range(32)])], [('u32', [str(7 * ((lane + 1) % 32) + 3) for lane in range(32)])])
    f.case('pending', '''.shared .align 8 .b64 bars[32];
        .reg .u32 s, n;  .reg .b64 state;
        mov.u32 s, bars;  mad.lo.u32 s, i, 8, s;
        add.u32 n, {a}, 5;
        mbarrier.init.shared.b64 [s], n;
        mbarrier.arrive.shared.b64 state, [s];
        mbarrier.pending_count.b64 {d}, state;
        mbarrier.arrive.noComplete.shared.b64 state, [s], 2;
        mbarrier.pending_count.b64 {e}, state;
        mbarrier.arrive.shared.b64 state, [s];
        mbarrier.pending_count.b64 {f}, state;
        mbarrier.inval.shared.b64 [s];''', [('u32', [3 * lane for lane in range(32)])],
           [('u32', [str(3 * lane + 5) for lane in range(32)]), ('u32', [str(3 * lane + 4) for lane in range(32)]), ('u32', [str(3 * lane + 2) for lane in range(32)])])
    # An mbarrier for each thread: two arrivals a phase, then one after a drop.
    f.case('phases', '''.shared .align 8 .b64 bars[32];
        .reg .u32 s;  .reg .b64 one, two;  .reg .pred p0, p1, p2, p3, p4, p5, p6;
        mov.u32 s, bars;  mad.lo.u32 s, i, 8, s;
        mbarrier.init.shared.b64 [s], 2;
        mbarrier.test_wait.parity.shared.b64 p0, [s], 0;
        mbarrier.test_wait.parity.shared.b64 p1, [s], 1;
        mbarrier.arrive.shared.b64 one, [s];
        mbarrier.test_wait.shared.b64 p2, [s], one;
        mbarrier.arrive_drop.shared.b64 _, [s];
        mbarrier.test_wait.shared.b64 p3, [s], one;
        mbarrier.test_wait.parity.shared.b64 p4, [s], 0;
        mbarrier.arrive.shared.b64 two, [s];
        mbarrier.test_wait.shared.b64 p5, [s], two;
        mbarrier.test_wait.parity.shared.b64 p6, [s], 1;
        mbarrier.pending_count.b64 {d}, two;
        selp.u32 {e}, 1, 0, p0;  @p1 add.u32 {e}, {e}, 2;  @p2 add.u32 {e}, {e}, 4;  @p3 add.u32 {e}, {e}, 8;
        @p4 add.u32 {e}, {e}, 16;  @p5 add.u32 {e}, {e}, 32;  @p6 add.u32 {e}, {e}, 64;''', [('u32', list(range(32)))], [('u32', ['1'] * 32), ('u32', [str(2 + 8 + 16 + 32 + 64)] * 32)])
    values = [11 * lane + 5 for lane in range(64)]
    for name, count, noinc in (('noinc', 64, '.noinc'), ('inc', 1, '')):
        wait = '' if noinc else '''bar.sync 0;
            @first mbarrier.arrive.shared.b64 _, [bar];
            '''
        f.case(f'copies_{name}', f'''.shared .align 8 .b64 bar;
            .shared .align 4 .b32 tile[64];
            .reg .pred first, done;  .reg .u32 s, t;  .reg .u64 q;
            setp.eq.u32 first, i, 0;
            @first mbarrier.init.shared.b64 [bar], {count};
            bar.sync 0;
            mov.u32 s, tile;  mad.lo.u32 s, i, 4, s;
            ld.param.u64 q, [pa];  mad.wide.u32 q, i, 4, q;
            cp.async.ca.shared.global [s], [q], 4;
            cp.async.mbarrier.arrive{noinc}.shared.b64 [bar];
            {wait}again:
            mbarrier.test_wait.parity.shared.b64 done, [bar], 0;
            @!done bra again;
            add.u32 t, i, 33;  and.b32 t, t, 63;  mov.u32 s, tile;  mad.lo.u32 s, t, 4, s;
            ld.shared.u32 {{d}}, [s];''', [('u32', values)], [('u32', [str(values[(lane + 33) % 64]) for lane in range(64)])], block=64)
    f.write()
    f = File('mbarrier_sm90', 'Barriers in shared memory: arrivals of several at once, waits that suspend, scopes.', sm=90, version='8.0')
    f.case('counts_and_parity', '''.shared .align 8 .b64 bar;
        .shared .align 4 .b32 tile[128];
        .reg .pred first, done, low;  .reg .u32 s, t, k, phase;  .reg .u64 g;
        setp.eq.u32 first, i, 0;
        mov.u64 g, bar;  cvta.shared.u64 g, g;
        @first mbarrier.init.b64 [g], 256;
        @first fence.mbarrier_init.release.cluster;
        bar.sync 0;
        mov.u32 k, 0;  mov.u32 {d}, 0;
        round:
        mov.u32 s, tile;  mad.lo.u32 s, i, 4, s;
        mad.lo.u32 t, k, 1000, {a};
        st.shared.u32 [s], t;
        mbarrier.arrive.release.cta.shared::cta.b64 _, [bar], 2;
        and.b32 phase, k, 1;
        again:
        mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [bar], phase, 1000;
        @!done bra again;
        add.u32 t, i, 41;  and.b32 t, t, 127;  mov.u32 s, tile;  mad.lo.u32 s, t, 4, s;
        ld.shared.u32 t, [s];
        add.u32 {d}, {d}, t;
        bar.sync 0;
        add.u32 k, k, 1;
        setp.lt.u32 low, k, 5;
        @low bra round;''', [('u32', [3 * lane for lane in range(128)])], [('u32', [str(10000 + 5 * 3 * ((lane + 41) % 128)) for lane in range(128)])], block=128)
    f.write()


def clusters():
    f = File('cluster_of_one', 'What a cluster of one block reads of itself.', sm=90, version='8.0')
    f.case('registers', '''.reg .pred r;  .reg .u32 t;
        mov.u32 {d}, %cluster_ctarank;
        mov.u32 t, %cluster_nctarank;  mad.lo.u32 {d}, t, 10, {d};
        mov.u32 t, %cluster_nctaid.x;  mad.lo.u32 {d}, t, 100, {d};
        mov.u32 t, %cluster_ctaid.y;  mad.lo.u32 {d}, t, 1000, {d};
        mov.u32 t, %nclusterid.x;  mad.lo.u32 {d}, t, 10000, {d};
        mov.pred r, %is_explicit_cluster;  selp.u32 {e}, 1, 0, r;
        add.u32 {d}, {d}, {a};''', [('u32', list(range(32)))], [('u32', [str(10110 + lane) for lane in range(32)]), ('u32', ['0'] * 32)])
    f.raw('''//! kernel: explicit
//! arg: out:u32:64
//! block: 64
//! expect: u32:''' + ','.join(str(1 + 2 * ((lane + 5) % 64)) for lane in range(64)) + '''
.visible .entry explicit(.param .u64 pd) .explicitcluster .reqnctapercluster 1, 1, 1
{
    .reg .u32 i, s, t, v;  .reg .u64 p;  .reg .pred q;
    .shared .align 4 .b32 tile[64];
    mov.u32 i, %tid.x;
    mov.u32 s, tile;  mad.lo.u32 t, i, 4, s;
    shl.b32 v, i, 1;
    st.shared.u32 [t], v;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    add.u32 t, i, 5;  and.b32 t, t, 63;  mad.lo.u32 t, t, 4, s;
    mapa.shared::cluster.u32 t, t, 0;
    ld.shared::cluster.u32 v, [t];
    mov.pred q, %is_explicit_cluster;
    @q add.u32 v, v, 1;
    ld.param.u64 p, [pd];  mad.wide.u32 p, i, 4, p;  st.global.u32 [p], v;
    ret;
}''')
    f.write()
    f = File('cluster_blocks', 'Blocks of a cluster: where they are, and how they reach into each other.', sm=90, version='8.0')

    def kernel(name, grid, cluster, block, expected, body):
        """A kernel of u32 results, one a thread of the launch in block order; `v` is what it stores."""
        text = '\n'.join('    ' + line.strip() for line in body.strip().split('\n'))
        f.raw(f'''//! kernel: {name}
//! arg: out:u32:{len(expected)}
//! grid: {','.join(map(str, grid))}
//! block: {block}
//! expect: u32:{','.join(map(str, expected))}
.visible .entry {name}(.param .u64 pd) .explicitcluster .reqnctapercluster {', '.join(map(str, cluster))}
{{
    .reg .u32 i, at, r, n, s, t, u, v, w;  .reg .u64 p, g, h;  .reg .pred q, z;
    .shared .align 16 .b32 tile[64];
    mov.u32 i, %tid.x;  mov.u32 r, %cluster_ctarank;  mov.u32 n, %cluster_nctarank;
    mov.u32 t, %ctaid.z;  mov.u32 u, %nctaid.y;  mov.u32 v, %ctaid.y;  mad.lo.u32 t, t, u, v;
    mov.u32 u, %nctaid.x;  mov.u32 v, %ctaid.x;  mad.lo.u32 t, t, u, v;  mov.u32 u, %ntid.x;  mad.lo.u32 at, t, u, i;
    mov.u32 s, tile;  mad.lo.u32 s, i, 4, s;
{text}
    ld.param.u64 p, [pd];  mad.wide.u32 p, at, 4, p;  st.global.u32 [p], v;
    ret;
}}''')

    sync = 'barrier.cluster.arrive.release.aligned;  barrier.cluster.wait.acquire.aligned;'
    # Grid (4, 2, 2) in clusters of (2, 1, 2): rank x + 2 z, cluster (x / 2, y, 0).
    blocks = [(x, y, z) for z in range(2) for y in range(2) for x in range(4)]
    rank = lambda x, y, z: x % 2 + 2 * z
    kernel('shape', (4, 2, 2), (2, 1, 2), 1, [rank(x, y, z) + 10 * (x % 2) + 100 * z + 1000 * (x // 2) + 10000 * y + 100000 * 4 + 1000000 * 2 + 10000000 * 2 for x, y, z in blocks], '''
        mov.u32 v, r;
        mov.u32 t, %cluster_ctaid.x;  mad.lo.u32 v, t, 10, v;
        mov.u32 t, %cluster_ctaid.z;  mad.lo.u32 v, t, 100, v;
        mov.u32 t, %clusterid.x;  mad.lo.u32 v, t, 1000, v;
        mov.u32 t, %clusterid.y;  mad.lo.u32 v, t, 10000, v;
        mad.lo.u32 v, n, 100000, v;
        mov.u32 t, %nclusterid.x;  mad.lo.u32 v, t, 1000000, v;
        mov.u32 t, %cluster_nctaid.z;  mad.lo.u32 v, t, 10000000, v;''')
    # Clusters of 4: what rank r's thread i wrote is 1000 block + i; the neighbour is rank (r + 1) % 4.
    def neighbour(step, thread=lambda i: i):
        return [1000 * (b // 4 * 4 + (b + step) % 4) + thread(i) for b in range(8) for i in range(64)]
    fill = '''mov.u32 t, %ctaid.x;  mad.lo.u32 v, t, 1000, i;  st.shared.u32 [s], v;
        ''' + sync
    for name, code in [('load_32', '''mapa.shared::cluster.u32 s, s, t;  ld.shared::cluster.u32 v, [s];'''),
                       ('load_64', '''cvt.u64.u32 g, s;  mapa.shared::cluster.u64 g, g, t;  ld.shared::cluster.u32 v, [g];'''),
                       ('load_generic', '''cvt.u64.u32 g, s;  cvta.shared.u64 g, g;  mapa.u64 g, g, t;  ld.u32 v, [g];'''),
                       ('load_converted', '''mapa.shared::cluster.u32 s, s, t;  cvt.u64.u32 g, s;  cvta.shared::cluster.u64 g, g;  ld.u32 v, [g];'''),
                       ('load_back', '''cvt.u64.u32 g, s;  cvta.shared.u64 g, g;  mapa.u64 g, g, t;  cvta.to.shared::cluster.u64 g, g;  cvt.u32.u64 s, g;  ld.shared::cluster.u32 v, [s];''')]:
        kernel(name, (8, 1, 1), (4, 1, 1), 64, neighbour(1), fill + '''
        add.u32 t, r, 1;  rem.u32 t, t, n;
        ''' + code + '''
        ''' + sync)
    kernel('own_address', (8, 1, 1), (4, 1, 1), 64, neighbour(0, lambda i: i ^ 1), fill + '''
        xor.b32 s, s, 4;  ld.shared::cluster.u32 v, [s];''')
    kernel('own_rank', (8, 1, 1), (4, 1, 1), 64, neighbour(0), fill + '''
        mapa.shared::cluster.u32 s, s, r;  ld.shared::cluster.u32 v, [s];''')
    kernel('vector', (8, 1, 1), (4, 1, 1), 64, [sum(1000 * (b // 4 * 4 + (b + 2) % 4) + i // 4 * 4 + k for k in range(4)) for b in range(8) for i in range(64)], fill + '''
        add.u32 t, r, 2;  rem.u32 t, t, n;
        and.b32 s, s, 0xfffffff0;
        mapa.shared::cluster.u32 s, s, t;
        ld.shared::cluster.v4.u32 {t, u, v, w}, [s];
        add.u32 v, v, t;  add.u32 v, v, u;  add.u32 v, v, w;
        ''' + sync)
    kernel('store', (8, 1, 1), (4, 1, 1), 64, neighbour(3), '''
        ''' + sync + '''
        add.u32 t, r, 1;  rem.u32 t, t, n;
        mapa.shared::cluster.u32 u, s, t;
        mov.u32 t, %ctaid.x;  mad.lo.u32 v, t, 1000, i;
        st.shared::cluster.u32 [u], v;
        ''' + sync + '''
        ld.shared.u32 v, [s];''')
    # Each thread adds rank + 1 to the word of its number in each block of the cluster.
    kernel('atomics', (8, 1, 1), (4, 1, 1), 64, [i + 20 for b in range(8) for i in range(64)], '''
        st.shared.u32 [s], i;
        ''' + sync + '''
        add.u32 v, r, 1;  mov.u32 t, 0;
        again:
        mapa.shared::cluster.u32 u, s, t;
        red.relaxed.cluster.shared::cluster.add.u32 [u], v;
        atom.relaxed.cluster.shared::cluster.add.u32 w, [u], v;
        add.u32 t, t, 1;  setp.lt.u32 q, t, n;  @q bra again;
        ''' + sync + '''
        ld.shared.u32 v, [s];''')
    kernel('ranks', (8, 1, 1), (4, 1, 1), 32, [b % 4 * 1000 + (b + 3) % 4 * 100 + (b + 3) % 4 * 10 + 3 for b in range(8) for i in range(32)], '''
        add.u32 t, r, 3;  rem.u32 t, t, n;
        mapa.shared::cluster.u32 u, s, t;
        getctarank.shared::cluster.u32 v, s;  mul.lo.u32 v, v, 1000;
        getctarank.shared::cluster.u32 w, u;  mad.lo.u32 v, w, 100, v;
        cvt.u64.u32 g, s;  cvta.shared.u64 g, g;  mapa.u64 h, g, t;
        getctarank.u64 w, h;  mad.lo.u32 v, w, 10, v;
        isspacep.shared q, g;  isspacep.shared::cluster z, h;
        selp.u32 w, 1, 0, q;  add.u32 v, v, w;
        selp.u32 w, 2, 0, z;  add.u32 v, v, w;
        isspacep.shared::cta q, h;
        selp.u32 w, 4, 0, q;  add.u32 v, v, w;''')
    # A value goes round: in each of five phases to the next rank, between an arrival and a wait.
    kernel('phases', (8, 1, 1), (4, 1, 1), 64, [sum((k + 1) * (1000 * (b // 4 * 4 + (b - k) % 4) + i) for k in range(5)) for b in range(8) for i in range(64)], '''
        .shared .align 4 .b32 box[128];
        mov.u32 t, %ctaid.x;  mad.lo.u32 v, t, 1000, i;
        add.u32 t, r, 1;  rem.u32 t, t, n;
        mov.u32 s, box;  mad.lo.u32 s, i, 4, s;
        mov.u32 w, 0;  mov.u32 u, 0;
        ''' + sync + '''
        again:
        .reg .u32 to, own, flip;
        and.b32 flip, u, 1;  mad.lo.u32 own, flip, 256, s;
        mapa.shared::cluster.u32 to, own, t;
        st.shared::cluster.u32 [to], v;
        barrier.cluster.arrive;
        add.u32 u, u, 1;
        mad.lo.u32 w, v, u, w;
        barrier.cluster.wait;
        ld.shared.u32 v, [own];
        setp.lt.u32 q, u, 5;  @q bra again;
        mov.u32 v, w;''')
    f.write()


def write():
    scalar_video()
    simd_video()
    vector_atomics()
    hints()
    predicates_and_moves()
    carries()
    redux()
    mbarriers()
    clusters()
    tensor_probes()


def tensor_probes():
    """What is known of how tensor cores read and add, as far as the answer does not depend on an order."""
    f = File('mma_tf32_low_bits', 'tf32 operands lose the 13 bits below their significand: they are cut off, not rounded.', sm=80)
    low = [0, 0x1000, 0x1fff, 0x0fff, 0x1001, 1, 0x1800, 0x1555]
    one = 0x3f800000
    head = ['//! kernel: m16n8k8', '//! arg: in:b32:' + ','.join(hex(one + (low[lane % 8] if k == 0 else low[(lane + 3) % 8])) for lane in range(32) for k in range(4)),
            '//! arg: in:b32:' + ','.join(hex(one + low[(lane * 5 + k) % 8]) for lane in range(32) for k in range(2)), '//! arg: out:f32:128', '//! expect: f32:' + ','.join(['8'] * 128)]
    body = ['.reg .u32 i;  .reg .u64 p;  .reg .b32 a0, a1, a2, a3, b0, b1;  .reg .f32 c, d0, d1, d2, d3;', 'mov.u32 i, %tid.x;', 'mov.f32 c, 0f00000000;',
            'ld.param.u64 p, [pa];  mad.wide.u32 p, i, 16, p;  ld.global.v4.b32 {a0, a1, a2, a3}, [p];', 'ld.param.u64 p, [pb];  mad.wide.u32 p, i, 8, p;  ld.global.v2.b32 {b0, b1}, [p];',
            'mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {d0, d1, d2, d3}, {a0, a1, a2, a3}, {b0, b1}, {c, c, c, c};',
            'ld.param.u64 p, [pd];  mad.wide.u32 p, i, 16, p;  st.global.v4.f32 [p], {d0, d1, d2, d3};', 'ret;']
    f.raw('\n'.join([*head, '.visible .entry m16n8k8(.param .u64 pa, .param .u64 pb, .param .u64 pd)', '{', *('    ' + line for line in body), '}']))
    f.write()
