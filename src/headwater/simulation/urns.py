r"""How many of n draws are of each kind, for n up to 10^12, from a counter-based stream. Compiled.

Binomial (with replacement) and hypergeometric (without) numbers. Where they spread little, by inversion from the mode;
else by the ratio of uniforms (Stadlober 1990): x = floor(a + h (v - 1/2) / u) is taken if u² is at most the probability of
x over that of the mode. Probabilities come from Loader's saddle-point form: differences of large logarithms of factorials
would lose all digits from n = 10^9 on; its deviances do not.

A ``stream`` is an int64 array: the next block, the replication, the key's two words, the place of the next uniform, and
uniforms drawn ahead, so that the generator vectorises.
"""

from __future__ import annotations

import math

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.policies.compile import compiled, inlined

__all__ = ["binomial", "hypergeometric", "multinomial", "open_stream", "rewind", "split", "take", "unit"]

BLOCK, REPLICATION, LOW, HIGH, PLACE, HEAD = range(6)
AHEAD = 64
STREAM = HEAD + 2 * AHEAD

NARROW = 36.0
"""Variance up to which inversion from the mode, a few steps of a recurrence, beats rejection."""

_HALF_LOG_2PI = 0.9189385332046727
_FEW = 16
# log n! less Stirling's formula, n = 0, 1, ... 15; the entry of 0 is not used
_ERROR = np.array([0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _HALF_LOG_2PI for n in range(1, _FEW)])
_WIDE, _WIDER = 2.0 * math.sqrt(2.0 / math.e), 3.0 - 2.0 * math.sqrt(3.0 / math.e)

TABLE = 2048
"""Populations below this take their chances from a table of log n!, and are inverted: they spread little."""
_LOG_FACTORIAL = np.array([math.lgamma(n + 1) for n in range(TABLE)])

_philox = inlined(streams.philox)
_counter = inlined(streams.counter_words)
_join = inlined(streams.join)
_open_unit = inlined(streams.to_open_unit)


def open_stream(seed: int) -> Ints:
    """A stream of a seed, for replication 0."""
    out = np.zeros(STREAM, dtype=np.int64)
    out[LOW], out[HIGH] = streams.seed_words(seed)
    rewind(out, 0)
    return out


@compiled
def rewind(stream: Ints, replication: int) -> None:
    """To the beginning of a replication's stream."""
    stream[BLOCK], stream[REPLICATION], stream[PLACE] = 0, replication, STREAM


@compiled
def _refill(stream: Ints) -> None:
    block, replication, k0, k1 = stream[BLOCK], stream[REPLICATION], stream[LOW], stream[HIGH]
    for i in range(AHEAD):
        c0, c1, c2, c3 = _counter(block + i, replication, streams.LEAP, 0)
        w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
        stream[HEAD + i] = _join(w0, w1)
        stream[HEAD + AHEAD + i] = _join(w2, w3)
    stream[BLOCK], stream[PLACE] = block + AHEAD, HEAD


@compiled
def unit(stream: Ints) -> float:
    """The next uniform in (0, 1)."""
    if stream[PLACE] == STREAM:
        _refill(stream)
    stream[PLACE] += 1
    return float(_open_unit(stream[stream[PLACE] - 1]))


@compiled
def _stirling(n: float) -> float:
    """log n! less Stirling's formula."""
    if n < _FEW:
        return float(_ERROR[int(n)])
    r = 1.0 / n
    s = r * r
    return r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0)))))


@compiled
def _deviance(x: float, m: float) -> float:
    """x log(x/m) + m - x, without cancellation where x is near m."""
    d = x - m
    v = d / (x + m)
    if abs(v) < 0.03:
        s = v * v
        return d * v + 2.0 * x * v * s * (1.0 / 3.0 + s * (0.2 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0))))
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
def _reject(good: float, bad: float, taken: float, mean: float, variance: float, stream: Ints) -> int:
    """A wide number by the ratio of uniforms. With replacement where ``good`` is 0; its chances relative to those at the mean.

    At the mode they are larger by a factor of at most exp(1 / (8 variance)), which ``peak`` makes up for. The ends, where
    some kind is exhausted, have a chance below exp(-variance) < 3e-16 (such numbers are sums of independent coins) and are
    left out.
    """
    least, most = (max(0.0, taken - bad), min(taken, good)) if good > 0.0 else (0.0, taken)
    width, peak = _WIDE * math.sqrt(variance + 0.5) + _WIDER, 0.25 / variance
    rest = taken - mean  # the failures taken; then the successes and failures left
    kept, left = good - mean, bad - rest
    scale, error = 1.0 / (mean * rest), _stirling(mean) + _stirling(rest)
    if good > 0.0:
        scale, error = scale / (kept * left), error + _stirling(kept) + _stirling(left)
    while True:
        u = unit(stream)
        x = float(np.floor(mean + 0.5 + width * (unit(stream) - 0.5) / u))
        if x <= least or x >= most:
            continue
        y = taken - x
        chance = error - _stirling(x) - _stirling(y) - _deviance(x, mean) - _deviance(y, rest)
        shape = x * y
        if good > 0.0:
            v, w = good - x, bad - y
            chance -= _stirling(v) + _stirling(w) + _deviance(v, kept) + _deviance(w, left)
            shape *= v * w
        if 2.0 * math.log(u) + 0.5 * math.log(shape * scale) <= chance - peak:
            return int(x)


@compiled
def _invert(good: float, bad: float, taken: float, mode: float, chance: float, stream: Ints) -> int:
    """A narrow number without replacement, outwards from the mode, whose chance is given."""
    least, most = max(0.0, taken - bad), min(taken, good)
    u, x, y = unit(stream), mode, mode
    up = down = chance
    u -= chance
    while u > 0.0 and (x < most or y > least):
        if x < most:
            up *= (good - x) * (taken - x) / ((x + 1.0) * (bad - taken + x + 1.0))
            x += 1.0
            u -= up
            if u <= 0.0:
                return int(x)
        if y > least:
            down *= y * (bad - taken + y) / ((good - y + 1.0) * (taken - y + 1.0))
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
    q, trials = 1.0 - p, float(n)
    if trials * p * q > NARROW:
        return _reject(0.0, 0.0, trials, trials * p, trials * p * q, stream)
    mode, odds = min(float(np.floor((trials + 1.0) * p)), trials), p / q
    u, x, y = unit(stream), mode, mode
    up = down = math.exp(_log_binomial(mode, trials, p, q))
    u -= up
    while u > 0.0 and (x < trials or y > 0.0):
        if x < trials:
            up *= (trials - x) * odds / (x + 1.0)
            x += 1.0
            u -= up
            if u <= 0.0:
                return int(x)
        if y > 0.0:
            down *= y / ((trials - y + 1.0) * odds)
            y -= 1.0
            u -= down
            if u <= 0.0:
                return int(y)
    return int(mode)


@compiled
def hypergeometric(good: int, bad: int, taken: int, stream: Ints) -> int:
    """How many of ``taken`` balls are good, drawn without replacement from ``good + bad``."""
    if good == 0 or taken == 0:
        return 0
    if bad == 0 or taken == good + bad:
        return min(good, taken)
    whole, g, b, s = good + bad, float(good), float(bad), float(taken)
    mode = (taken + 1) * (good + 1) // (whole + 2) if whole < TABLE else int((s + 1.0) * ((g + 1.0) / (whole + 2.0)))
    mode = min(max(mode, taken - bad, 0), taken, good)
    if whole < TABLE:
        f, rest = _LOG_FACTORIAL, taken - mode
        chance = f[good] - f[mode] - f[good - mode] + f[bad] - f[rest] - f[bad - rest] - f[whole] + f[taken] + f[whole - taken]
        return _invert(g, b, s, float(mode), math.exp(chance), stream)
    p, q = s / whole, (whole - s) / whole
    variance = g * p * (b / whole) * ((whole - s) / (whole - 1.0))
    if variance > NARROW:
        return _reject(g, b, s, g * p, variance, stream)
    x = float(mode)
    chance = _log_binomial(x, g, p, q) + _log_binomial(s - x, b, p, q) - _log_binomial(s, float(whole), p, q)
    return _invert(g, b, s, x, math.exp(chance), stream)


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
