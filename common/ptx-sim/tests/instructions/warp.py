"""The families of instructions in which the lanes of a warp see each other."""
import random

from corpus import File, int_columns, literal, signed

FULL = 0xffffffff


def shfl(mode, values, b, c, lane):
    """The value and the predicate that `lane` gets, by the pseudo-code of the PTX ISA."""
    segment = c >> 8 & 31
    bound = (lane & segment) | (c & 31 & ~segment)
    first = lane & segment
    b &= 31
    if mode == 'up':
        j, ok = lane - b, lane - b >= bound
    elif mode == 'down':
        j, ok = lane + b, lane + b <= bound
    elif mode == 'bfly':
        j, ok = lane ^ b, (lane ^ b) <= bound
    else:
        j = first | (b & ~segment)
        ok = j <= bound
    return (values[j] if ok else values[lane]), int(ok)


def shuffles():
    f = File('shfl', 'Every mode of shfl.sync in segments of 32, 16, 8 and 4 lanes: the value, and whether the source lane lay in range.')
    values = [1000 + 37 * lane for lane in range(32)]
    for mode in ('up', 'down', 'bfly', 'idx'):
        for width in (32, 16, 8, 4):
            c = (32 - width) << 8 | (0 if mode == 'up' else 31)
            uniform = {'up': 3, 'down': 5, 'bfly': width // 2, 'idx': width - 2}[mode]
            for name, b in (('uniform', [uniform] * 32), ('varying', [(lane * 7 + 3) % 32 for lane in range(32)])):
                if name == 'varying' and mode != 'idx' and width not in (32, 8):
                    continue
                got = [shfl(mode, values, b[lane], c, lane) for lane in range(32)]
                f.case(f'{mode}_{width}_{name}', f'.reg .pred q;\nshfl.sync.{mode}.b32 {{d}}|q, {{a}}, {{b}}, {c:#x}, 0xffffffff;\nselp.u32 {{e}}, 1, 0, q;',
                       [('u32', values), ('u32', b)], [('u32', [str(v) for v, _ in got]), ('u32', [str(ok) for _, ok in got])])
    # A clamp below the last lane of the segment, and no predicate.
    got = [shfl('idx', values, (lane * 5) % 32, 0x1807, lane) for lane in range(32)]
    f.case('idx_register_operands', '.reg .b32 c, m;\nmov.b32 c, 0x1807;\nmov.b32 m, -1;\nshfl.sync.idx.b32 {d}, {a}, {b}, c, m;',
           [('u32', values), ('u32', [(lane * 5) % 32 for lane in range(32)])], [('u32', [str(v) for v, _ in got])])
    # Each half of the warp shuffles alone in its own branch; sources stay within the half.
    got = [values[lane ^ 1] if lane < 16 else values[16 + (lane + 3) % 16] for lane in range(32)]
    f.case('divergent_halves', '''.reg .pred low;
        .reg .b32 source;
        setp.lt.u32 low, i, 16;
        @!low bra upper;
        shfl.sync.bfly.b32 {d}, {a}, 1, 0x1f, 0x0000ffff;
        bra join;
        upper:
        add.u32 source, i, 3;
        and.b32 source, source, 15;
        or.b32 source, source, 16;
        shfl.sync.idx.b32 {d}, {a}, source, 0x1f, 0xffff0000;
        join:
        bar.warp.sync 0xffffffff;''', [('u32', values)], [('u32', [str(v) for v in got])])
    # Without .sync's full mask: a block of 20 threads, with the mask of those that exist.
    got = [values[lane - 4] if lane >= 4 else values[lane] for lane in range(20)]
    f.case('partial_warp', 'shfl.sync.up.b32 {d}, {a}, 4, 0, 0x000fffff;', [('u32', values[:20])], [('u32', [str(v) for v in got])], block=20)
    f.write()


def votes():
    f = File('vote_match', 'Votes over predicates, and lanes with equal values.')
    patterns = {'none': 0, 'all': FULL, 'some': 0x8000_0f01, 'most': 0xffff_fffe}
    for name, pattern in patterns.items():
        bits = [pattern >> lane & 1 for lane in range(32)]
        code = '''.reg .pred q, r;
            .reg .b32 bit;
            setp.ne.u32 q, {a}, 0;
            vote.sync.all.pred r, q, 0xffffffff;
            selp.b32 {d}, 1, 0, r;
            vote.sync.any.pred r, q, 0xffffffff;
            selp.b32 bit, 2, 0, r;
            or.b32 {d}, {d}, bit;
            vote.sync.uni.pred r, q, 0xffffffff;
            selp.b32 bit, 4, 0, r;
            or.b32 {d}, {d}, bit;
            vote.sync.all.pred r, !q, 0xffffffff;
            selp.b32 bit, 8, 0, r;
            or.b32 {d}, {d}, bit;
            vote.sync.ballot.b32 {e}, q, 0xffffffff;
            vote.sync.ballot.b32 {f}, !q, 0xffffffff;'''
        every, some = pattern == FULL, pattern != 0
        flags = every | some << 1 | (every or not some) << 2 | (not some) << 3
        f.case(f'vote_{name}', code, [('u32', bits)], [('b32', [hex(flags)] * 32), ('b32', [hex(pattern)] * 32), ('b32', [hex(pattern ^ FULL)] * 32)])
    # Even lanes vote in one branch, odd lanes in the other.
    pattern = 0x1234_5678
    even, odd = pattern & 0x5555_5555, pattern & 0xaaaa_aaaa
    f.case('vote_divergent', '''.reg .pred q, r, odd;
        .reg .b32 low;
        setp.ne.u32 q, {a}, 0;
        and.b32 low, i, 1;
        setp.eq.u32 odd, low, 1;
        @odd bra others;
        vote.sync.ballot.b32 {d}, q, 0x55555555;
        bra join;
        others:
        vote.sync.ballot.b32 {d}, q, 0xaaaaaaaa;
        join:
        bar.warp.sync 0xffffffff;''', [('u32', [pattern >> lane & 1 for lane in range(32)])], [('b32', [hex(odd if lane % 2 else even) for lane in range(32)])])
    for ty, values in (('b32', [(lane * lane) % 7 for lane in range(32)]), ('b64', [((lane % 5) << 32) | (lane % 2) for lane in range(32)])):
        masks = [hex(sum(1 << other for other in range(32) if values[other] == v)) for v in values]
        f.case(f'match_any_{ty}', f'match.any.sync.{ty} {{d}}, {{a}}, 0xffffffff;', [(ty, values)], [('b32', masks)])
        for name, column in (('different', values), ('same', [values[3] | 1 << 31] * 32)):
            same = len(set(column)) == 1
            f.case(f'match_all_{ty}_{name}', f'.reg .pred q;\nmatch.all.sync.{ty} {{d}}|q, {{a}}, 0xffffffff;\nselp.u32 {{e}}, 1, 0, q;', [(ty, column)],
                   [('b32', [hex(FULL if same else 0)] * 32), ('u32', [str(int(same))] * 32)])
    f.case('activemask', 'activemask.b32 {d};\nadd.u32 {d}, {d}, {a};', [('u32', [0] * 32)], [('b32', [hex(FULL)] * 32)])
    f.case('activemask_partial', 'activemask.b32 {d};\nadd.u32 {d}, {d}, {a};', [('u32', [0] * 20)], [('b32', ['0xfffff'] * 20)], block=20)
    f.write()

    f = File('redux', 'Reductions over the lanes of a mask.', sm=80)
    reductions = {'add': sum, 'min': min, 'max': max}
    for ty in ('u32', 's32'):
        column = int_columns(ty, 1, seed=30)[0]
        numbers = [signed(v, 32) if ty == 's32' else v for v in column]
        for op, reduce in reductions.items():
            f.case(f'redux_{op}_{ty}', f'redux.sync.{op}.{ty} {{d}}, {{a}}, 0xffffffff;', [(ty, column)], [(ty, [literal(ty, reduce(numbers) & FULL)] * 32)])
    column = [0xf0f0_ff00 | 1 << lane for lane in range(32)]
    for op, reduce in (('and', lambda x, y: x & y), ('or', lambda x, y: x | y), ('xor', lambda x, y: x ^ y)):
        total = column[0]
        for v in column[1:]:
            total = reduce(total, v)
        f.case(f'redux_{op}_b32', f'redux.sync.{op}.b32 {{d}}, {{a}}, 0xffffffff;', [('b32', column)], [('b32', [hex(total)] * 32)])
    column = [3 * lane + 1 for lane in range(32)]
    halves = [sum(column[:8]) if lane < 8 else max(column[8:]) for lane in range(32)]
    f.case('redux_divergent', '''.reg .pred few;
        setp.lt.u32 few, i, 8;
        @few bra first;
        redux.sync.max.u32 {d}, {a}, 0xffffff00;
        bra join;
        first:
        redux.sync.add.u32 {d}, {a}, 0x000000ff;
        join:
        bar.warp.sync 0xffffffff;''', [('u32', column)], [('u32', [str(v) for v in halves])])
    f.write()

    f = File('elect', 'elect.sync chooses one lane of the mask, the same for all; which one, PTX leaves open.', sm=90)
    f.case('elect', '''.reg .pred q;
        .reg .b32 leader, mine, votes;
        elect.sync leader|q, 0xffffffff;
        selp.u32 mine, 1, 0, q;
        vote.sync.ballot.b32 votes, q, 0xffffffff;
        popc.b32 {d}, votes;
        shl.b32 mine, mine, leader;
        setp.eq.b32 q, mine, votes;
        vote.sync.any.pred q, q, 0xffffffff;
        selp.u32 {e}, 1, 0, q;
        add.u32 {d}, {d}, {a};''', [('u32', [0] * 32)], [('u32', ['1'] * 32), ('u32', ['1'] * 32)])
    f.write()


def write():
    shuffles()
    votes()
