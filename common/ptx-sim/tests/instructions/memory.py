"""The families of memory instructions: loads and stores of every type and space, atomics, asynchronous copies."""
import random

import exact
from corpus import FORMATS, SIZE, File, as_int, bits_of, float_pairs, int_columns, literal, text_of, wrap

TYPES = ['u8', 's8', 'b8', 'u16', 's16', 'b16', 'u32', 's32', 'b32', 'f32', 'u64', 's64', 'b64', 'f64']


def raw(ty):
    return f'b{bits_of(ty)}'


def loads_and_stores():
    f = File('ld_st_types', 'Every type through shared and local memory and through generic addresses of both; narrow loads extend to the register.')
    for ty in TYPES:
        values = int_columns(raw(ty), 1, seed=20)[0]
        size = SIZE[ty]
        texts = [literal(raw(ty), v) for v in values]
        # 256 threads would share one array; each thread here has its own element of `staged` and of `mine`.
        f.case(f'through_{ty}', f'''.shared .align 8 .b8 staged[{32 * size}];
            .local .align 8 .b8 mine[{2 * size}];
            .reg .u64 s, l, off;
            .reg .{raw(ty) if size > 1 else "b16"} t;
            mul.wide.u32 off, i, {size};
            mov.u64 s, staged;
            add.u64 s, s, off;
            st.shared.{ty} [s], {{a}};
            ld.shared.{ty} {{d}}, [s];
            st.local.{ty} [mine+{size}], {{d}};
            ld.local.{ty} {{e}}, [mine+{size}];
            cvta.shared.u64 s, s;
            ld.{ty} {{f}}, [s];
            mov.u64 l, mine;
            cvta.local.u64 l, l;
            st.{ty} [l], {{f}};
            ld.local.{ty} {{g}}, [mine];''', [(raw(ty), values)], [(raw(ty), texts)] * 4)
    for ty in TYPES[:9]:
        values = int_columns(raw(ty), 1, seed=21)[0]
        extended = [literal('b64', wrap('b64', as_int(ty, v))) for v in values]
        size = SIZE[ty]
        f.case(f'extend_{ty}', f'.reg .u64 q;\nld.param.u64 q, [pa];\nmad.wide.u32 q, i, {size}, q;\nld.global.{ty} {{d}}, [q];', [(raw(ty), values)], [('b64', extended)])
    f.write()

    f = File('ld_st_vector', 'Vectors of two and four, in global, shared and local memory; a vector is aligned to its size.')
    for ty in ('u8', 's8', 'u16', 'b16', 'u32', 'f32', 'b32', 'u64', 'f64'):
        size = SIZE[ty]
        for count in (2, 4):
            if size * count > 16:
                continue
            rng = random.Random(f'{ty}{count}')
            values = [rng.getrandbits(8 * size) for _ in range(32 * count)]
            # The output is each vector reversed, so that an element in the wrong place shows.
            reversed_ = [v for lane in range(32) for v in values[lane * count:(lane + 1) * count][::-1]]
            names = [f'v{k}' for k in range(count)]
            vector, backwards = '{' + ', '.join(names) + '}', '{' + ', '.join(names[::-1]) + '}'
            step = size * count
            name = f'v{count}_{ty}'
            f.raw('\n'.join([f'//! kernel: {name}', f'//! arg: in:{raw(ty)}:' + ','.join(map(hex, values)), f'//! arg: out:{raw(ty)}:{len(values)}',
                             f'//! expect: {raw(ty)}:' + ','.join(map(hex, reversed_)), f'.visible .entry {name}(.param .u64 pa, .param .u64 pd)', '{',
                             f'    .shared .align 16 .b8 staged[{32 * step}];', f'    .local .align 16 .b8 mine[{step}];', '    .reg .u32 i;  .reg .u64 p, s;',
                             f'    .reg .b{max(16, 8 * size)} {", ".join(names)};', '    mov.u32 i, %tid.x;', f'    ld.param.u64 p, [pa];  mad.wide.u32 p, i, {step}, p;',
                             f'    ld.global.v{count}.{ty} {vector}, [p];', f'    mov.u64 s, staged;  mad.wide.u32 s, i, {step}, s;', f'    st.shared.v{count}.{ty} [s], {backwards};',
                             f'    ld.shared.v{count}.{ty} {vector}, [s];', f'    st.local.v{count}.{ty} [mine], {vector};', f'    ld.local.v{count}.{ty} {vector}, [mine];',
                             f'    ld.param.u64 p, [pd];  mad.wide.u32 p, i, {step}, p;', f'    st.global.v{count}.{ty} [p], {vector};', '    ret;', '}']))
    f.write()

    f = File('ld_st_modifiers', 'Cache operators, eviction hints, volatile, relaxed, acquire, release and .nc change no value. Row k of the output is the k-th form.')
    values = int_columns('b32', 1, seed=22)[0]
    loads = ['.ca', '.cg', '.cs', '.lu', '.cv', '.weak', '.volatile', '.nc', '.ca.nc', '.cg.nc', '.cs.nc', '.L1::evict_normal', '.L1::evict_first', '.L1::evict_last', '.L1::no_allocate', '.L2::64B', '.L2::128B',
             *(f'{sem}.{scope}' for sem in ('.relaxed', '.acquire') for scope in ('cta', 'gpu', 'sys')), '.nc.L1::no_allocate', '.nc.L2::128B']
    stores = ['.wb', '.cg', '.cs', '.wt', '.weak', '.volatile', '.L1::evict_last', '.L1::no_allocate', *(f'{sem}.{scope}' for sem in ('.relaxed', '.release') for scope in ('cta', 'gpu', 'sys'))]
    lines = ','.join(map(hex, values))

    def load_form(m, space):
        for first in ('.volatile', '.relaxed', '.acquire', '.release', '.weak'):
            if m.startswith(first):
                return f'{m}{space}'
        return f'{space}{m}'

    def rows(name, kind, forms, space):
        body = ['.reg .u32 i, v;  .reg .u64 p, q;', 'mov.u32 i, %tid.x;', 'ld.param.u64 p, [pa];  mad.wide.u32 p, i, 4, p;', 'ld.param.u64 q, [pd];  mad.wide.u32 q, i, 4, q;']
        if kind == 'st':
            body.append('ld.global.u32 v, [p];')
        if space == '.shared':
            body += ['.shared .align 4 .b8 staged[128];', '.reg .u64 s;', 'mov.u64 s, staged;  mad.wide.u32 s, i, 4, s;', 'ld.global.u32 v, [p];', 'st.shared.u32 [s], v;']
        for k, form in enumerate(forms):
            if space == '.shared':
                body += [f'ld{load_form(form, space)}.u32 v, [s];', f'st.global.u32 [q+{128 * k}], v;'] if kind == 'ld' else \
                    [f'st{load_form(form, space)}.u32 [s], v;', f'ld.shared.u32 v, [s];', f'st.global.u32 [q+{128 * k}], v;']
            else:
                body += [f'ld{load_form(form, space)}.u32 v, [p];', f'st.global.u32 [q+{128 * k}], v;'] if kind == 'ld' else [f'st{load_form(form, space)}.u32 [q+{128 * k}], v;']
        f.raw('\n'.join([f'//! kernel: {name}', f'//! arg: in:b32:{lines}', f'//! arg: out:b32:{32 * len(forms)}', '//! expect: b32:' + ','.join([lines] * len(forms)),
                         f'.visible .entry {name}(.param .u64 pa, .param .u64 pd)', '{', *('    ' + line for line in body), '    ret;', '}']))
    rows('ld_global', 'ld', loads, '.global')
    rows('st_global', 'st', stores, '.global')
    plain = ['', '.volatile', '.weak', '.relaxed.cta', '.relaxed.gpu']
    rows('ld_generic', 'ld', [*plain, '.acquire.gpu', '.acquire.sys', '.ca', '.cg', '.cv'], '')
    rows('st_generic', 'st', [*plain, '.release.gpu', '.release.sys', '.wb', '.wt'], '')
    rows('ld_shared', 'ld', [*plain, '.acquire.cta'], '.shared')
    rows('st_shared', 'st', [*plain, '.release.cta'], '.shared')
    f.write()


def atomics():
    def integer(ty, result):
        return lambda old, b: wrap(ty, result(as_int(ty, old), as_int(ty, b)))

    def operations():
        for ty in ('u32', 's32', 'u64'):
            yield 'add', ty, integer(ty, lambda x, y: x + y)
        for ty in ('u32', 's32', 'u64', 's64'):
            yield 'min', ty, integer(ty, min)
            yield 'max', ty, integer(ty, max)
        for ty in ('b32', 'b64'):
            yield 'and', ty, lambda x, y: x & y
            yield 'or', ty, lambda x, y: x | y
            yield 'xor', ty, lambda x, y: x ^ y
            yield 'exch', ty, lambda x, y: y
        yield 'inc', 'u32', lambda x, y: 0 if x >= y else x + 1
        yield 'dec', 'u32', lambda x, y: y if x == 0 or x > y else x - 1

    def body(ty, space, instruction):
        """`instruction` works on [p] (or [s], a shared copy that is written back)."""
        size = SIZE[ty.removesuffix('x2')] * (2 if ty.endswith('x2') else 1)
        move = f'b{8 * size}'
        lines = [f'.reg .u32 i;  .reg .u64 p, s;  .reg .{move} b, c, old, new;', 'mov.u32 i, %tid.x;']
        lines += [f'ld.param.u64 p, [pb];  mad.wide.u32 p, i, {size}, p;  ld.global.{move} b, [p];']
        if 'c;' in instruction:
            lines += [f'ld.param.u64 p, [pc];  mad.wide.u32 p, i, {size}, p;  ld.global.{move} c, [p];']
        lines += [f'ld.param.u64 p, [pm];  mad.wide.u32 p, i, {size}, p;']
        if space == 'shared':
            lines += [f'.shared .align 8 .b8 staged[{32 * size}];', f'mov.u64 s, staged;  mad.wide.u32 s, i, {size}, s;', f'ld.global.{move} new, [p];', f'st.shared.{move} [s], new;',
                      instruction.replace('[p]', '[s]'), f'ld.shared.{move} new, [s];', f'st.global.{move} [p], new;']
        else:
            lines += [instruction]
        if 'old' in instruction:
            lines += [f'ld.param.u64 p, [pd];  mad.wide.u32 p, i, {size}, p;  st.global.{move} [p], old;']
        return lines

    def case(f, name, ty, space, instruction, lists, new, old):
        element = ty.removesuffix('x2')
        block = 16 if ty.endswith('x2') else 32
        parameters = ['pm', 'pb'] + (['pc'] if 'c;' in instruction else []) + (['pd'] if old else [])
        head = [f'//! kernel: {name}'] + ([f'//! block: {block}'] if block != 32 else [])
        for k, values in enumerate(lists):
            head.append(f'//! arg: {"inout" if k == 0 else "in"}:{f.shared(element + ":" + ",".join(literal(element, v) for v in values))}')
        if old:
            head.append(f'//! arg: out:{element}:{len(old)}')
        head.append(f'//! expect: {element}:{",".join(new)}')
        if old:
            head.append(f'//! expect: {element}:{",".join(old)}')
        f.raw('\n'.join([*head, f'.visible .entry {name}({", ".join(".param .u64 " + p for p in parameters)})', '{', *('    ' + line for line in body(ty, space, instruction)), '    ret;', '}']))

    for space in ('global', 'shared', 'generic'):
        f = File(f'atom_{space}', f'Atomics in {space} memory, each lane on a word of its own: the old value comes back. red is the same without it.')
        where = '' if space == 'generic' else f'.{space}'
        for op, ty, result in operations():
            memory, b = int_columns(ty, 2, seed=23)
            if op in ('inc', 'dec'):
                b[:4] = memory[:4]
            new = [literal(ty, result(x, y)) for x, y in zip(memory, b)]
            case(f, f'atom_{op}_{ty}', ty, space, f'atom{where}.{op}.{ty} old, [p], b;', [memory, b], new, [literal(ty, v) for v in memory])
            if op != 'exch':
                case(f, f'red_{op}_{ty}', ty, space, f'red{where}.{op}.{ty} [p], b;', [memory, b], new, None)
        for ty in ('b16', 'b32', 'b64'):
            memory, b, c = int_columns(ty, 3, seed=24)
            b = [m if lane % 2 else v for lane, (m, v) in enumerate(zip(memory, b))]
            new = [literal(ty, z if x == y else x) for x, y, z in zip(memory, b, c)]
            case(f, f'atom_cas_{ty}', ty, space, f'atom{where}.cas.{ty} old, [p], b, c;', [memory, b, c], new, [literal(ty, v) for v in memory])
        f.write()

        for name, sm, types in ((f'atom_{space}_float', 75, ('f32', 'f64', 'f16', 'f16x2')), (f'atom_{space}_bf16', 90, ('bf16', 'bf16x2'))):
            f = File(name, f'Atomic sums of floats in {space} memory, rounded to nearest.', sm=sm)
            for ty in types:
                element = ty.removesuffix('x2')
                fmt = FORMATS[element]
                memory, b = float_pairs(fmt, seed=25)
                if ty == 'f32':  # whether subnormals survive depends on the memory: none here
                    memory, b = ([v if fmt.decode(v)[0] != 'fin' or fmt.decode(v)[2] == 0 or fmt.decode(v)[2] > 2 ** -100 else 0x3f800000 + lane for lane, v in enumerate(column)] for column in (memory, b))
                new = [text_of(element, fmt.round(exact.add(fmt.decode(x), fmt.decode(y)))) for x, y in zip(memory, b)]
                noftz = '.noftz' if 'f16' in ty else ''
                case(f, f'atom_add_{ty}', ty, space, f'atom{where}.add{noftz}.{ty} old, [p], b;', [memory, b], new, [literal(element, v) for v in memory])
                case(f, f'red_add_{ty}', ty, space, f'red{where}.add{noftz}.{ty} [p], b;', [memory, b], new, None)
            f.write()

    f = File('atom_order', 'The semantics and scopes of an atomic, one after the other on the same word.')
    forms = ['', *(f'{sem}.{scope}' for sem in ('.relaxed', '.acquire', '.release', '.acq_rel') for scope in ('cta', 'gpu', 'sys')), '.cta', '.gpu', '.sys']
    red_forms = ['', *(f'{sem}.{scope}' for sem in ('.relaxed', '.release') for scope in ('cta', 'gpu', 'sys')), '.cta', '.gpu', '.sys']
    total = sum(range(1, len(forms) + 1)) + sum(range(100, 100 + len(red_forms)))
    body = ['.reg .u32 i, old, sum;  .reg .u64 p;', 'mov.u32 i, %tid.x;', 'ld.param.u64 p, [pm];  mad.wide.u32 p, i, 4, p;', 'mov.u32 sum, 0;']
    value, olds = 0, 0
    for k, form in enumerate(forms):
        body += [f'atom{form}.global.add.u32 old, [p], {k + 1};', 'add.u32 sum, sum, old;']
        olds += value
        value += k + 1
    body += [f'red{form}.global.add.u32 [p], {100 + k};' for k, form in enumerate(red_forms)]
    body += ['ld.param.u64 p, [pd];  mad.wide.u32 p, i, 4, p;  st.global.u32 [p], sum;', 'ret;']
    f.raw('\n'.join(['//! kernel: forms', '//! arg: inout:u32:' + ','.join(str(1000 * lane) for lane in range(32)), '//! arg: out:u32:32',
                     '//! expect: u32:' + ','.join(str(1000 * lane + total) for lane in range(32)), '//! expect: u32:' + ','.join(str(1000 * lane * len(forms) + olds) for lane in range(32)),
                     '.visible .entry forms(.param .u64 pm, .param .u64 pd)', '{', *('    ' + line for line in body), '}']))
    f.write()

    f = File('atom_contended', 'Four blocks of 64 threads on the same few words: the totals do not depend on the order, nor does the sum of the tickets.')
    n = 256
    f.raw('\n'.join(['//! kernel: totals', '//! grid: 4', '//! block: 64', '//! arg: inout:u32:0,4294967295,0,0,0,4294967295,7,300', '//! arg: inout:f32:0,0', '//! arg: inout:u64:0,0',
                     # add, min, max, xor, or, and, inc (wraps at 99), tickets
                     f'//! expect: u32:{sum(range(n))},3,{3 + 5 * (n - 1)},{xor_of(range(n))},255,0,{(7 + n) % 100},{300 + n}', f'//! expect: f32:{sum(range(n))},{n * 0.25:g}',
                     f'//! expect: u64:{sum(t << 20 for t in range(n))},{sum(range(300, 300 + n))}', '''.visible .entry totals(.param .u64 pm, .param .u64 pf, .param .u64 pl)
{
    .reg .u32 t, v, old;  .reg .u64 m, f, l, w;  .reg .f32 x;
    mov.u32 t, %ctaid.x;  mov.u32 v, %tid.x;  mad.lo.u32 t, t, 64, v;
    ld.param.u64 m, [pm];  ld.param.u64 f, [pf];  ld.param.u64 l, [pl];
    red.global.add.u32 [m], t;
    mad.lo.u32 v, t, 5, 3;
    atom.global.min.u32 old, [m+4], v;
    atom.global.max.u32 old, [m+8], v;
    red.global.xor.b32 [m+12], t;
    atom.global.or.b32 old, [m+16], t;
    red.global.and.b32 [m+20], t;
    red.global.inc.u32 [m+24], 99;
    atom.global.add.u32 old, [m+28], 1;
    cvt.rn.f32.u32 x, t;
    red.global.add.f32 [f], x;
    atom.global.add.f32 x, [f+4], 0f3E800000;
    cvt.u64.u32 w, t;
    shl.b64 w, w, 20;
    red.global.add.u64 [l], w;
    cvt.u64.u32 w, old;
    red.global.add.u64 [l+8], w;
    ret;
}''']))
    f.write()


def xor_of(values):
    out = 0
    for v in values:
        out ^= v
    return out


def asynchronous_copies():
    f = File('cp_async', 'Copies of 4, 8 and 16 bytes into shared memory; bytes past the source size are zero; the data is there after the wait and a barrier.', sm=80)
    for cache, size in (('ca', 4), ('ca', 8), ('ca', 16), ('cg', 16)):
        for name, sizes in (('whole', None), ('part', [lane % (size + 1) for lane in range(32)])):
            rng = random.Random(f'{cache}{size}')
            values = [rng.randint(1, 255) for _ in range(32 * size)]
            kept = [v if sizes is None or k % size < sizes[k // size] else 0 for k, v in enumerate(values)]
            shifted = kept[size:] + kept[:size]  # each thread reads its neighbour's copy
            third = ', n' if sizes else ''
            kernel = f'{name}_{cache}_{size}'
            f.raw(f'''//! kernel: {kernel}
//! arg: in:u8:{','.join(map(str, values))}
//! arg: out:u8:{len(values)}
//! expect: u8:{','.join(map(str, shifted))}
.visible .entry {kernel}(.param .u64 pa, .param .u64 pd)
{{
    .shared .align 16 .b8 staged[{32 * size}];
    .reg .u32 i, s, t, n, k, v;  .reg .u64 p;  .reg .pred more;
    mov.u32 i, %tid.x;  mov.u32 s, staged;
    ld.param.u64 p, [pa];  mad.wide.u32 p, i, {size}, p;
    mad.lo.u32 t, i, {size}, s;
    rem.u32 n, i, {size + 1};
    cp.async.{cache}.shared.global [t], [p], {size}{third};
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    add.u32 t, i, 1;  and.b32 t, t, 31;  mad.lo.u32 t, t, {size}, s;
    ld.param.u64 p, [pd];  mad.wide.u32 p, i, {size}, p;
    mov.u32 k, 0;
word:
    ld.shared.u32 v, [t];  st.global.u32 [p], v;
    add.u32 t, t, 4;  add.u64 p, p, 4;  add.u32 k, k, 4;
    setp.lt.u32 more, k, {size};
    @more bra word;
    ret;
}}''')
    values = list(range(100, 196))
    first, second, third = ([v for v in values[k::3]] for k in range(3))
    f.raw(f'''//! kernel: groups
//! arg: in:u32:{','.join(map(str, first + second + third))}
//! arg: out:u32:96
//! expect: u32:{','.join(map(str, first[::-1] + second[::-1] + third[::-1]))}
.visible .entry groups(.param .u64 pa, .param .u64 pd)
{{
    .shared .align 16 .b8 staged[384];
    .reg .u32 i, s, t, r, v;  .reg .u64 p;
    mov.u32 i, %tid.x;  mov.u32 s, staged;
    ld.param.u64 p, [pa];  mad.wide.u32 p, i, 4, p;
    mad.lo.u32 t, i, 4, s;
    sub.u32 r, 31, i;  mad.lo.u32 r, r, 4, s;
    cp.async.ca.shared.global.L2::128B [t], [p], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [t+128], [p+128], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [t+256], [p+256], 4;
    cp.async.commit_group;
    cp.async.commit_group;
    ld.param.u64 p, [pd];  mad.wide.u32 p, i, 4, p;
    cp.async.wait_group 3;
    bar.sync 0;
    ld.shared.u32 v, [r];  st.global.u32 [p], v;
    cp.async.wait_group 2;
    bar.sync 0;
    ld.shared.u32 v, [r+128];  st.global.u32 [p+128], v;
    cp.async.wait_all;
    bar.sync 0;
    ld.shared.u32 v, [r+256];  st.global.u32 [p+256], v;
    ret;
}}''')
    f.write()


def write():
    loads_and_stores()
    atomics()
    asynchronous_copies()
