"""Certain bounds on an expression over boxes: interval arithmetic with derivatives, rounded outward.

``enclose`` runs a tape on N boxes at once and returns, for each, an interval that contains every value the expression
takes there, and one per variable that contains every slope. The slopes obey the mean value theorem across kinks
(``abs``, ``min``, ``max`` give the hull of both sides); a possible *jump* (an undecided ``where``, comparison or
``floor``) gives the slope [-inf, inf]. So "every slope is >= 0" proves that the expression rises, jumps included.

Where a value may not exist (the log of a number that may be negative, a division by what may be zero), ``defined`` is
false; the bounds then hold for the values that do exist. Nothing is ever NaN. Where every variable that a comparison or
``floor`` reads is a single number, it is decided as the arrays would decide it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from headwater.arrays import Bools, Floats
from headwater.expressions import COMPARISONS, Expression, Operation

# numpy's transcendental functions are within 4 units in the last place; the four basic operations within a half.
_ULPS = 4.0


class Interval(NamedTuple):
    """``lo[..., i] <= value <= hi[..., i]`` on box i."""

    lo: Floats
    hi: Floats


class Enclosure(NamedTuple):
    """Bounds on N boxes in d variables: values ``lo, hi`` (N,), slopes ``dlo, dhi`` (d, N), certainly defined (N,)."""

    lo: Floats
    hi: Floats
    dlo: Floats
    dhi: Floats
    defined: Bools


# A slope that is identically zero is None: constants then cost nothing, and "flat" is known exactly.
_Slope = Interval | None


def enclose(expression: Expression, lo: Floats, hi: Floats) -> Enclosure:
    """Bound an expression and its slopes on the boxes ``lo[:, i] <= x <= hi[:, i]``, both of shape (d, N).

    >>> e = enclose(__import__("headwater").expressions.parse("x*x", ["x"]), np.array([[-1.0]]), np.array([[2.0]]))
    >>> bool(e.lo[0] == 0), bool(e.hi[0] >= 4), bool(e.dlo[0, 0] <= -2)
    (True, True, True)
    """
    d, n = lo.shape
    values: list[Interval] = []
    slopes: list[_Slope] = []
    defined: list[Bools] = []
    jumps = _Jumps(expression, lo, hi)
    with np.errstate(all="ignore"):
        for i, op in enumerate(expression.tape):
            if op.code == "const":
                full = np.full(n, op.value)
                value, slope = Interval(full, full), None
            elif op.code == "var":
                variable = int(op.value)
                unit = np.zeros((d, n))
                unit[variable] = 1.0
                value, slope = Interval(lo[variable], hi[variable]), Interval(unit, unit)
            elif op.code == "floor" or op.code in COMPARISONS:
                value = jumps.decide(i, _steps(op.code, [values[j] for j in op.args]))
                slope = _jump(value.lo != value.hi, None, (d, n))
            else:
                value, slope = _apply(op, [values[j] for j in op.args], [slopes[j] for j in op.args], (d, n))
            defined.append(_defined(op, [values[j] for j in op.args], [defined[j] for j in op.args], n))
            values.append(_sane(value))
            slopes.append(None if slope is None else _sane(slope))
    value, slope = values[-1], slopes[-1]
    zero = np.zeros((d, n))
    dlo, dhi = slope or (zero, zero)
    return Enclosure(value.lo, value.hi, dlo, dhi, defined[-1])


class _Jumps:
    """Decides comparisons and floors on boxes that are a single point as far as they can see."""

    def __init__(self, expression: Expression, lo: Floats, hi: Floats) -> None:
        self.expression, self.lo, self.point = expression, lo, lo == hi

    def decide(self, root: int, value: Interval) -> Interval:
        unsure = value.lo != value.hi
        fixed = np.all(self.point[sorted(self.expression.scope(root))], axis=0)
        if not (unsure & fixed).any():
            return value
        number = np.broadcast_to(self.expression.run(root, list(self.lo)), unsure.shape)
        return Interval(np.where(fixed, number, value.lo), np.where(fixed, number, value.hi))


def _steps(code: str, v: list[Interval]) -> Interval:
    if code == "floor":
        return Interval(np.floor(v[0].lo), np.floor(v[0].hi))
    return _compare(code, v[0], v[1])


def _defined(op: Operation, v: list[Interval], known: list[Bools], n: int) -> Bools:
    """Where an operation certainly has a value, given where its arguments have."""
    sure = np.ones(n, dtype=bool)
    if op.code == "where":
        true, false = _decided(v[0])
        return known[0] & (known[1] | false) & (known[2] | true)
    for arg in known:
        sure &= arg
    if op.code == "log":
        sure &= v[0].lo > 0
    elif op.code == "sqrt":
        sure &= v[0].lo >= 0
    elif op.code == "div":
        sure &= (v[1].lo > 0) | (v[1].hi < 0)
    elif op.code == "pow":
        base, exponent = v
        whole = (exponent.lo == exponent.hi) & (np.floor(exponent.lo) == exponent.lo)
        apart = (base.lo > 0) | ((base.hi < 0) & whole)
        sure &= apart | ((whole | (base.lo >= 0)) & (exponent.lo >= 0))
    return sure


def _apply(op: Operation, v: list[Interval], s: list[_Slope], shape: tuple[int, int]) -> tuple[Interval, _Slope]:
    """One operation on intervals, with the chain rule."""
    match op.code:
        case "add":
            return add(v[0], v[1]), _add(s[0], s[1])
        case "sub":
            return add(v[0], negate(v[1])), _add(s[0], _negate(s[1]))
        case "neg":
            return negate(v[0]), _negate(s[0])
        case "mul":
            return _multiply(op, v, s)
        case "div":
            inverse = _reciprocal(v[1])
            quotient = multiply(v[0], inverse)
            return quotient, _scale(_add(s[0], _negate(_scale(s[1], quotient))), inverse)
        case "pow":
            return _power(v, s, shape)
        case "where":
            return _where(v, s, shape)
        case "min" | "max":
            return _extremum(op.code, v, s)
        case code:
            return _unary(code, v[0], s[0])


def _multiply(op: Operation, v: list[Interval], s: list[_Slope]) -> tuple[Interval, _Slope]:
    if op.args[0] == op.args[1]:  # a square: [-1, 2]² is [0, 4], which the product of two intervals cannot know
        return _integer_power(v[0], 2), _scale(s[0], multiply(v[0], Interval(np.asarray(2.0), np.asarray(2.0))))
    return multiply(v[0], v[1]), _add(_scale(s[0], v[1]), _scale(s[1], v[0]))


def _unary(code: str, a: Interval, slope: _Slope) -> tuple[Interval, _Slope]:
    match code:
        case "exp":
            value = _at_least(_widen(np.exp(a.lo), np.exp(a.hi)), 0.0)
            return value, _scale(slope, value)
        case "log":
            # below zero the logarithm does not exist: the bound -inf tells
            value = _widen(np.where(a.lo > 0, np.log(a.lo), -np.inf), np.where(a.hi > 0, np.log(a.hi), np.inf))
            return value, _scale(slope, _reciprocal(a))
        case "sqrt":
            value = _at_least(_widen(np.sqrt(np.maximum(a.lo, 0)), np.sqrt(np.maximum(a.hi, 0))), 0.0)
            value = Interval(np.where(a.lo < 0, -np.inf, value.lo), np.where(a.hi < 0, np.inf, value.hi))
            rate = _reciprocal(multiply(value, Interval(np.asarray(2.0), np.asarray(2.0))))
            return value, _scale(slope, rate)
        case "abs":
            straddles = (a.lo < 0) & (a.hi > 0)
            value = Interval(np.where(straddles, 0.0, np.minimum(abs(a.lo), abs(a.hi))), np.maximum(abs(a.lo), abs(a.hi)))
            one = np.ones_like(a.lo)
            return value, _scale(slope, Interval(np.where(a.lo >= 0, one, -one), np.where(a.hi <= 0, -one, one)))
        case "sin" | "cos":
            shift = 0.0 if code == "sin" else math.pi / 2
            return _sine(a, shift), _scale(slope, _sine(a, shift + math.pi / 2))
        case _:  # tanh
            value = _at_least(_widen(np.tanh(a.lo), np.tanh(a.hi)), -1.0, 1.0)
            square = _integer_power(value, 2)
            return value, _scale(slope, _at_least(add(Interval(np.ones(1), np.ones(1)), negate(square)), 0.0, 1.0))


def _where(v: list[Interval], s: list[_Slope], shape: tuple[int, int]) -> tuple[Interval, _Slope]:
    test, yes, no = v
    true, false = _decided(test)
    lo = np.where(true, yes.lo, np.where(false, no.lo, np.minimum(yes.lo, no.lo)))
    hi = np.where(true, yes.hi, np.where(false, no.hi, np.maximum(yes.hi, no.hi)))
    return Interval(lo, hi), _jump(~true & ~false, _choose(true, s[1], s[2]), shape)


def _decided(test: Interval) -> tuple[Bools, Bools]:
    """Where a condition certainly holds, and where it certainly does not."""
    return (test.lo > 0) | (test.hi < 0), (test.lo == 0) & (test.hi == 0)


def _extremum(code: str, v: list[Interval], s: list[_Slope]) -> tuple[Interval, _Slope]:
    a, b = v
    pick = np.minimum if code == "min" else np.maximum
    first = (a.hi <= b.lo) if code == "min" else (a.lo >= b.hi)
    second = (b.hi <= a.lo) if code == "min" else (b.lo >= a.hi)
    value = Interval(pick(a.lo, b.lo), pick(a.hi, b.hi))
    if s[0] is None and s[1] is None:
        return value, None
    zero = Interval(np.zeros(1), np.zeros(1))
    p, q = s[0] or zero, s[1] or zero
    hull = Interval(np.minimum(p.lo, q.lo), np.maximum(p.hi, q.hi))
    lo = np.where(first, p.lo, np.where(second, q.lo, hull.lo))
    hi = np.where(first, p.hi, np.where(second, q.hi, hull.hi))
    return value, Interval(lo, hi)


def _compare(code: str, a: Interval, b: Interval) -> Interval:
    """A comparison as a number: 1 where certain, 0 where impossible, [0, 1] between."""
    if code in ("gt", "ge"):
        return _compare("lt" if code == "gt" else "le", b, a)
    if code in ("eq", "ne"):
        apart = (a.hi < b.lo) | (b.hi < a.lo)
        same = (a.lo == a.hi) & (b.lo == b.hi) & (a.lo == b.lo)
        yes, no = (same, apart) if code == "eq" else (apart, same)
    elif code == "lt":
        yes, no = a.hi < b.lo, a.lo >= b.hi
    else:
        yes, no = a.hi <= b.lo, a.lo > b.hi
    return Interval(np.where(yes, 1.0, 0.0), np.where(no, 0.0, 1.0))


def _power(v: list[Interval], s: list[_Slope], shape: tuple[int, int]) -> tuple[Interval, _Slope]:
    a, b = v
    exponent = float(b.lo[0]) if b.lo.size else 0.0
    if s[1] is None and np.all(b.lo == exponent) and np.all(b.hi == exponent):
        if abs(exponent) < 2**53 and exponent == int(exponent):
            n = int(exponent)
            rate = multiply(_integer_power(a, n - 1), Interval(np.asarray(exponent), np.asarray(exponent)))
            return _integer_power(a, n), None if n == 0 else _scale(s[0], rate)
        value = _real_power(a, exponent)
        rate = multiply(_real_power(a, exponent - 1), Interval(np.asarray(exponent), np.asarray(exponent)))
        return value, _scale(s[0], rate)
    # a^b = exp(b log a); where a may be 0 or negative nothing is certain
    log = _widen(np.log(np.maximum(a.lo, 0)), np.log(np.maximum(a.hi, 0)))
    product = multiply(b, log)
    value = _at_least(_widen(np.exp(product.lo), np.exp(product.hi)), 0.0)
    slope = _scale(_add(_scale(s[1], log), _scale(s[0], multiply(b, _reciprocal(a)))), value)
    unsure = a.lo <= 0
    value = Interval(np.where(unsure, -np.inf, value.lo), np.where(unsure, np.inf, value.hi))
    return value, _jump(unsure, slope, shape)


def _integer_power(a: Interval, n: int) -> Interval:
    if n < 0:
        return _reciprocal(_integer_power(a, -n))
    if n == 0:
        one = np.ones_like(a.lo)
        return Interval(one, one)
    if n == 1:
        return a
    low, high = np.power(a.lo, n), np.power(a.hi, n)
    if n % 2:
        return _widen(low, high)
    straddles = (a.lo < 0) & (a.hi > 0)
    return _at_least(_widen(np.where(straddles, 0.0, np.minimum(low, high)), np.maximum(low, high)), 0.0)


def _real_power(a: Interval, p: float) -> Interval:
    low, high = np.power(np.maximum(a.lo, 0), p), np.power(np.maximum(a.hi, 0), p)
    value = _at_least(_widen(np.minimum(low, high), np.maximum(low, high)), 0.0)
    return Interval(np.where(a.lo < 0, -np.inf, value.lo), np.where(a.lo < 0, np.inf, value.hi))


def _sine(a: Interval, shift: float) -> Interval:
    """Bounds on sin(x + shift). The phase is widened by its own rounding; very large arguments give [-1, 1]."""
    slack = 4e-16 * (np.maximum(abs(a.lo), abs(a.hi)) + 2.0)
    lo, hi = a.lo + shift - slack, a.hi + shift + slack
    value = _widen(np.minimum(np.sin(lo), np.sin(hi)), np.maximum(np.sin(lo), np.sin(hi)))
    # a crest pi/2 + 2 pi j lies inside when the counts of crests up to hi and up to lo differ
    turn = 2 * math.pi
    crest = np.floor((hi - math.pi / 2) / turn) > np.floor((lo - math.pi / 2) / turn) - (lo == hi)
    trough = np.floor((hi + math.pi / 2) / turn) > np.floor((lo + math.pi / 2) / turn) - (lo == hi)
    wide = ~(np.maximum(abs(lo), abs(hi)) < 1e8)
    return Interval(
        np.where(trough | wide, -1.0, np.maximum(value.lo, -1.0)),
        np.where(crest | wide, 1.0, np.minimum(value.hi, 1.0)),
    )


def add(a: Interval, b: Interval) -> Interval:
    """The sum. Adding an exact zero is exact, so flat pieces stay flat."""
    lo, hi = a.lo + b.lo, a.hi + b.hi
    lo = np.where((a.lo == 0) | (b.lo == 0), lo, np.nextafter(lo, -np.inf))
    hi = np.where((a.hi == 0) | (b.hi == 0), hi, np.nextafter(hi, np.inf))
    return Interval(lo, hi)


def negate(a: Interval) -> Interval:
    return Interval(-a.hi, -a.lo)


def multiply(a: Interval, b: Interval) -> Interval:
    """The product, with 0 * inf = 0: the factors are finite numbers, however large."""
    lo: Floats | None = None
    hi: Floats | None = None
    for p in a:
        for q in b:
            product = p * q
            exact = (p == 0) | (q == 0)
            below = np.where(exact, 0.0, np.nextafter(product, -np.inf))
            above = np.where(exact, 0.0, np.nextafter(product, np.inf))
            lo = below if lo is None else np.minimum(lo, below)
            hi = above if hi is None else np.maximum(hi, above)
    assert lo is not None and hi is not None
    return Interval(lo, hi)


def _reciprocal(a: Interval) -> Interval:
    """1/a. An interval that touches zero at one end gives one infinite end; one that straddles it gives both."""
    lo, hi = np.nextafter(1.0 / a.hi, -np.inf), np.nextafter(1.0 / a.lo, np.inf)
    lo = np.where(a.hi == 0, -np.inf, lo)
    hi = np.where(a.lo == 0, np.inf, hi)
    straddles = ((a.lo < 0) & (a.hi > 0)) | ((a.lo == 0) & (a.hi == 0))
    return Interval(np.where(straddles, -np.inf, lo), np.where(straddles, np.inf, hi))


def _add(a: _Slope, b: _Slope) -> _Slope:
    if a is None or b is None:
        return b if a is None else a
    return add(a, b)


def _negate(a: _Slope) -> _Slope:
    return None if a is None else negate(a)


def _scale(slope: _Slope, factor: Interval) -> _Slope:
    return None if slope is None else multiply(slope, factor)


def _choose(first: Bools, a: _Slope, b: _Slope) -> _Slope:
    if a is None and b is None:
        return None
    zero = Interval(np.zeros(1), np.zeros(1))
    a, b = a or zero, b or zero
    return Interval(np.where(first, a.lo, b.lo), np.where(first, a.hi, b.hi))


def _jump(maybe: Bools, otherwise: _Slope, shape: tuple[int, int]) -> _Slope:
    """The slope where a jump may lie: anything."""
    if not maybe.any():
        return otherwise
    zero = np.zeros(shape)
    lo, hi = otherwise or (zero, zero)
    return Interval(np.where(maybe, -np.inf, lo), np.where(maybe, np.inf, hi))


def _widen(lo: Floats, hi: Floats) -> Interval:
    pad_lo, pad_hi = _ULPS * np.spacing(abs(lo)), _ULPS * np.spacing(abs(hi))
    return Interval(np.where(np.isfinite(lo), lo - pad_lo, lo), np.where(np.isfinite(hi), hi + pad_hi, hi))


def _at_least(a: Interval, floor: float, ceiling: float = math.inf) -> Interval:
    return Interval(np.clip(a.lo, floor, ceiling), np.clip(a.hi, floor, ceiling))


def _sane(a: Interval) -> Interval:
    """NaN (inf - inf, say) means that nothing is known."""
    return Interval(np.where(np.isnan(a.lo), -np.inf, a.lo), np.where(np.isnan(a.hi), np.inf, a.hi))
