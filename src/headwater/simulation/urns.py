r"""How many of n draws are of each kind, for n up to 10^12, from a counter-based stream. Compiled.

Binomial (with replacement) and hypergeometric (without) numbers. Where they spread little, by inversion from the mode;
else by the ratio of uniforms (Stadlober 1990): x = floor(a + h (v - 1/2) / u) is taken if u² is at most the probability of
x over that of the mode. Probabilities come from Loader's saddle-point form: differences of large logarithms of factorials
would lose all digits from n = 10^9 on; its deviances do not.

A ``stream`` is six int64: the next block, the replication, the key's two words, whether a uniform is left over, and that
uniform.
"""

from __future__ import annotations

import math

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.policies import kernel
from headwater.policies.compile import compiled

__all__ = ["binomial", "hypergeometric", "multinomial", "open_stream", "split", "take", "unit"]

BLOCK, REPLICATION, LOW, HIGH, LEFT, SPARE, STREAM = range(7)

NARROW = 36.0
"""Variance up to which inversion from the mode, a few steps of a recurrence, beats rejection."""

_HALF_LOG_2PI = 0.9189385332046727
_FEW = 16
# log n! less Stirling's formula, n = 0, 1, ... 15; the entry of 0 is not used
_ERROR = np.array([0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_2PI for n in range(1, _FEW)])
_WIDE, _WIDER = 2.0 * math.sqrt(2.0 / math.e), 3.0 - 2.0 * math.sqrt(3.0 / math.e)

_open_unit = compiled(streams.to_open_unit)


def open_stream(seed: int) -> Ints:
    """A stream of a seed, for replication 0."""
    out = np.zeros(STREAM, dtype=np.int64)
    out[LOW], out[HIGH] = streams.seed_words(seed)
    return out


@compiled
def unit(stream: Ints) -> float:
    """The next uniform in (0, 1)."""
    if stream[LEFT]:
        stream[LEFT] = 0
        return float(_open_unit(stream[SPARE]))
    u, v = kernel.uniforms(stream[BLOCK], stream[REPLICATION], streams.LEAP, 0, stream[LOW], stream[HIGH])
    stream[BLOCK] += 1
    stream[LEFT], stream[SPARE] = 1, v
    return float(_open_unit(u))


@compiled
def _stirling(n: float) -> float:
    """log n! less Stirling's formula."""
    if n < _FEW:
        return float(_ERROR[int(n)])
    s = 1.0 / (n * n)
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / n


@compiled
def _deviance(x: float, m: float) -> float:
    """x log(x/m) + m - x, without cancellation where x is near m."""
    d = x - m
    if abs(d) < 0.1 * (x + m):
        v = d / (x + m)
        s, power = d * v, 2.0 * x * v
        for j in range(3, 101, 2):
            power *= v * v
            more = s + power / j
            if more == s:
                break
            s = more
        return s
    return x * math.log(x / m) + m - x


@compiled
def _log_binomial(x: float, n: float, p: float, q: float) -> float:
    """The logarithm of the chance of x successes in n trials, q = 1 - p."""
    if x == 0.0:
        return n * math.log1p(-p) if p < 0.5 else n * math.log(q) if n > 0.0 else 0.0
    if x == n:
        return n * math.log(p) if p < 0.5 else n * math.log1p(-q)
    y = n - x
    error = _stirling(n) - _stirling(x) - _stirling(y)
    return error - _deviance(x, n * p) - _deviance(y, n * q) + 0.5 * math.log(n / (x * y)) - _HALF_LOG_2PI


@compiled
def _log_chance(x: float, good: float, bad: float, taken: float, p: float, q: float) -> float:
    """Of x successes in ``taken`` trials; without replacement where ``good + bad`` is positive, p = taken / (good + bad)."""
    if good + bad <= 0.0:
        return _log_binomial(x, taken, p, q)
    whole = _log_binomial(taken, good + bad, p, q)
    return _log_binomial(x, good, p, q) + _log_binomial(taken - x, bad, p, q) - whole


@compiled
def _draw(good: float, bad: float, taken: float, p: float, q: float, stream: Ints) -> int:
    """As in ``_log_chance``. The parameters are whole numbers, in floats that hold them exactly."""
    without = good + bad > 0.0
    if without:
        mean, spread = good * p, (good + bad - taken) / max(good + bad - 1.0, 1.0)
        variance = mean * (bad / (good + bad)) * spread
        mode = math.floor((taken + 1.0) * (good + 1.0) / (good + bad + 2.0))
        least, most = max(0.0, taken - bad), min(taken, good)
    else:
        mean = taken * p
        variance, mode, least, most = mean * q, math.floor((taken + 1.0) * p), 0.0, taken
    mode = min(max(mode, least), most)
    peak = _log_chance(mode, good, bad, taken, p, q)
    if variance > NARROW:
        width = _WIDE * math.sqrt(variance + 0.5) + _WIDER
        while True:
            u = unit(stream)
            x = math.floor(mean + 0.5 + width * (unit(stream) - 0.5) / u)
            if least <= x <= most and 2.0 * math.log(u) <= _log_chance(x, good, bad, taken, p, q) - peak:
                return int(x)
    ratio = q / p if p > 0.0 else np.inf
    u, x, y = unit(stream), mode, mode
    up = down = math.exp(peak)
    u -= up
    while u > 0.0 and (x < most or y > least):
        if x < most:  # the chance of x + 1 over that of x
            up *= (
                (good - x) * (taken - x) / ((x + 1.0) * (bad - taken + x + 1.0))
                if without
                else (taken - x) / ((x + 1.0) * ratio)
            )
            x += 1.0
            u -= up
            if u <= 0.0:
                return int(x)
        if y > least:
            down *= y * (bad - taken + y) / ((good - y + 1.0) * (taken - y + 1.0)) if without else y * ratio / (taken - y + 1.0)
            y -= 1.0
            u -= down
            if u <= 0.0:
                return int(y)
    return int(mode)


@compiled
def binomial(n: int, p: float, stream: Ints) -> int:
    """How many of n trials succeed."""
    if n == 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    return _draw(0.0, 0.0, float(n), p, 1.0 - p, stream)


@compiled
def hypergeometric(good: int, bad: int, taken: int, stream: Ints) -> int:
    """How many of ``taken`` balls are good, drawn without replacement from ``good + bad``."""
    if good == 0 or taken == 0:
        return 0
    if bad == 0 or taken == good + bad:
        return min(good, taken)
    p = taken / (good + bad)
    return _draw(float(good), float(bad), float(taken), p, (good + bad - taken) / (good + bad), stream)


@compiled
def multinomial(n: int, chance: Floats, stream: Ints, out: Ints) -> None:
    """How often each kind comes in n draws; ``chance[m]`` (M,) is that of kind m given that it is none before it. O(M)."""
    for m in range(out.size):
        out[m] = binomial(n, chance[m], stream)
        n -= out[m]


@compiled
def split(whole: Ints, n: int, taken: int, stream: Ints, out: Ints) -> None:
    """How many of each kind are among the first ``taken`` of n draws that hold ``whole`` (M,) in all. O(M)."""
    for m in range(out.size):
        out[m] = hypergeometric(whole[m], n - whole[m], taken, stream)
        n -= whole[m]
        taken -= out[m]


@compiled
def take(left: Ints, n: int, stream: Ints) -> int:
    """The kind of the next of n draws that hold ``left`` (M,) in all; it is taken out. O(M)."""
    place, m = unit(stream) * n, 0
    while m < left.size - 1 and (left[m] == 0 or place >= left[m]):
        place -= left[m]
        m += 1
    while left[m] == 0:  # rounding at the upper end
        m -= 1
    left[m] -= 1
    return m
