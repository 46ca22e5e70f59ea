"""Floating point by exact rational arithmetic: what IEEE 754 and the PTX manual say, sharing nothing with the simulator.

A number is `(kind, sign, magnitude)`: kind 'nan', 'inf' or 'fin', sign 0 or 1 (zero has one), magnitude a Fraction.
"""
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

NAN = ('nan', 0, Fraction(0))
INF, NEG_INF = ('inf', 0, Fraction(0)), ('inf', 1, Fraction(0))
ZERO, NEG_ZERO = ('fin', 0, Fraction(0)), ('fin', 1, Fraction(0))
OPEN = 'open'  # PTX does not say: the expectation is `_`


def fin(value):
    value = Fraction(value)
    return ('fin', int(value < 0), abs(value))


def value_of(x):
    return -x[2] if x[1] else x[2]


def is_zero(x):
    return x[0] == 'fin' and x[2] == 0


def flip(x):
    return x if x[0] == 'nan' else (x[0], 1 - x[1], x[2])


@dataclass(frozen=True)
class Format:
    name: str
    exponent_bits: int
    mantissa_bits: int  # without the implicit one
    finite_only: bool = False  # e4m3: no infinities, one NaN

    @property
    def width(self):
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self):
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def least(self):  # the smallest subnormal
        return Fraction(2) ** (1 - self.bias - self.mantissa_bits)

    @property
    def normal(self):  # the smallest normal number
        return Fraction(2) ** (1 - self.bias)

    @property
    def ulp(self):  # of 1
        return Fraction(2) ** -self.mantissa_bits

    @property
    def largest(self):
        if self.finite_only:
            return (2 - 2 * self.ulp) * Fraction(2) ** (self.bias + 1)
        return (2 - self.ulp) * Fraction(2) ** self.bias

    def decode(self, bits):
        sign = bits >> (self.width - 1)
        exponent = (bits >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1)
        mantissa = bits & ((1 << self.mantissa_bits) - 1)
        top = (1 << self.exponent_bits) - 1
        if self.finite_only:
            if exponent == top and mantissa == (1 << self.mantissa_bits) - 1:
                return NAN
        elif exponent == top:
            return NAN if mantissa else ('inf', sign, Fraction(0))
        if exponent == 0:
            return ('fin', sign, mantissa * self.least)
        return ('fin', sign, (mantissa + (1 << self.mantissa_bits)) * self.least * 2 ** (exponent - 1))

    def encode(self, x):
        """The bits of a number that the format holds."""
        kind, sign, magnitude = x
        top = sign << (self.width - 1)
        ones = (1 << self.exponent_bits) - 1
        if kind == 'nan':
            return (ones << self.mantissa_bits) | ((1 << self.mantissa_bits) - 1)
        if kind == 'inf':
            return top | (ones << self.mantissa_bits)
        if magnitude < self.normal:
            count = magnitude / self.least
            assert count.denominator == 1
            return top | int(count)
        exponent = floor_log2(magnitude)
        count = magnitude / (self.ulp * Fraction(2) ** exponent)
        assert count.denominator == 1, (self.name, magnitude)
        return top | ((exponent + self.bias) << self.mantissa_bits) | (int(count) - (1 << self.mantissa_bits))

    def round(self, x, mode='rn', ftz=False):
        """`x` rounded to this format; the number, not the bits."""
        if x == OPEN or x[0] != 'fin' or x[2] == 0:
            return x
        _, sign, magnitude = x
        quantum = max(self.ulp * Fraction(2) ** floor_log2(magnitude), self.least)
        rounded = round_integer(magnitude / quantum, sign, mode) * quantum
        if rounded > self.largest:
            away = mode in ('rn', 'rna') or (mode == 'rp' and not sign) or (mode == 'rm' and sign)
            return ('inf', sign, Fraction(0)) if away else ('fin', sign, self.largest)
        if ftz and magnitude < self.normal:
            if rounded == self.normal:
                return OPEN  # tiny before rounding, not after: the manual does not say which counts
            return ('fin', sign, Fraction(0))
        return ('fin', sign, rounded)

    def flush(self, x):
        return ('fin', x[1], Fraction(0)) if x[0] == 'fin' and x[2] < self.normal else x


F16, BF16, F32, F64 = Format('f16', 5, 10), Format('bf16', 8, 7), Format('f32', 8, 23), Format('f64', 11, 52)
TF32, E4M3, E5M2 = Format('tf32', 8, 10), Format('e4m3', 4, 3, True), Format('e5m2', 5, 2)


def floor_log2(magnitude):
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= magnitude else exponent - 1


def round_integer(magnitude, sign, mode):
    whole = magnitude.numerator // magnitude.denominator
    rest = magnitude - whole
    if mode == 'rn':
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    elif mode == 'rna':
        up = rest >= Fraction(1, 2)
    else:
        up = rest > 0 and ((mode == 'rp' and not sign) or (mode == 'rm' and sign))
    return whole + up


def add(a, b, mode='rn'):
    """Exact; the mode decides only the sign of an exact zero."""
    if 'nan' in (a[0], b[0]) or (a[0] == b[0] == 'inf' and a[1] != b[1]):
        return NAN
    if 'inf' in (a[0], b[0]):
        return a if a[0] == 'inf' else b
    total = value_of(a) + value_of(b)
    if total == 0:
        both = a[1] if a[1] == b[1] else int(mode == 'rm')
        return ('fin', both, Fraction(0))
    return fin(total)


def mul(a, b):
    if 'nan' in (a[0], b[0]) or ('inf' in (a[0], b[0]) and (is_zero(a) or is_zero(b))):
        return NAN
    sign = a[1] ^ b[1]
    if 'inf' in (a[0], b[0]):
        return ('inf', sign, Fraction(0))
    return ('fin', sign, a[2] * b[2])


def div(a, b):
    if 'nan' in (a[0], b[0]) or (a[0] == b[0] == 'inf') or (is_zero(a) and is_zero(b)):
        return NAN
    sign = a[1] ^ b[1]
    if a[0] == 'inf' or is_zero(b):
        return ('inf', sign, Fraction(0))
    if b[0] == 'inf':
        return ('fin', sign, Fraction(0))
    return ('fin', sign, a[2] / b[2])


def sqrt(a):
    """Exact where the root is rational; otherwise a number on the same side of every float and midpoint."""
    if a[0] == 'nan' or (a[1] and not is_zero(a)):
        return NAN
    if a[0] == 'inf' or is_zero(a):
        return a
    shift = 160 - (floor_log2(a[2]) // 2)
    scaled = a[2] * Fraction(4) ** shift
    whole = scaled.numerator // scaled.denominator
    root = isqrt(whole)
    sticky = Fraction(0) if root * root == scaled else Fraction(1, 2)
    return ('fin', 0, (root + sticky) / Fraction(2) ** shift)


def saturate(x):
    if x == OPEN:
        return OPEN
    if x[0] == 'nan':
        return ZERO
    if is_zero(x) and x[1]:
        return OPEN  # the sign of a zero clamped to [+0, 1] is not said
    if x[1]:
        return ZERO
    return fin(1) if x[0] == 'inf' or x[2] > 1 else x


def relu(x):
    if x == OPEN or x[0] == 'nan':
        return x
    if is_zero(x) and x[1]:
        return OPEN  # as for saturate
    return ZERO if x[1] else x


def smaller(a, b):
    """-inf < … < -0 < +0 < … < +inf"""
    def key(x):
        rank = {'fin': 0, 'inf': 1}[x[0]]
        return (-rank if x[1] else rank, value_of(x), -x[1])
    return key(a) < key(b)


def minimum(a, b, propagate=False):
    if 'nan' in (a[0], b[0]):
        return NAN if propagate or a[0] == b[0] else (a if b[0] == 'nan' else b)
    return a if smaller(a, b) else b


def maximum(a, b, propagate=False):
    if 'nan' in (a[0], b[0]):
        return NAN if propagate or a[0] == b[0] else (a if b[0] == 'nan' else b)
    return b if smaller(a, b) else a
