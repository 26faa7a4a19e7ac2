"""A reward function of one variable as monotone pieces, its inverse, and its maximum over any stretch.

An expression is cut by interval arithmetic until, on each cell, its slope has one sign (a *monotone* cell), or it varies by
less than 1e-13 of its range (a *level* cell: the very top of a bump), or the cell is two neighbouring floating-point numbers
(a jump). Neighbouring monotone cells join. So the pieces are certain, not sampled. A Python function can only be sampled:
features narrower than its grid may be missed, and the documentation says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headwater.arrays import Bools, Floats, Ints, union
from headwater.enclosures import Enclosure, enclose
from headwater.errors import ProblemError
from headwater.expressions import Expression
from headwater.problem import FAR, spread

LEVEL = 1e-13
"""A cell on which a function varies by less than this part of its range needs no further cutting."""
MAX_CELLS = 60_000

_Function = Callable[[Floats], Floats]


class Cells(NamedTuple):
    """Closed intervals ``[lo, hi]`` in ascending order; every field has shape (P,).

    ``direction``: +1 or -1 when the function is (weakly) monotone there, 0 when only its bounds ``low, high`` are known.
    ``flat``: part of the cell may be constant. ``left, right``: the function at the ends.
    """

    lo: Floats
    hi: Floats
    left: Floats
    right: Floats
    low: Floats
    high: Floats
    direction: Ints
    flat: Bools


class Pieces:
    """One arm's reward function on an interval, cut into monotone pieces."""

    def __init__(self, function: _Function, cells: Cells) -> None:
        self.function = function
        self.cells = cells
        self.minimum, self.maximum = float(cells.low.min()), float(cells.high.max())
        self._peaks = _sparse_maxima(cells.high)

    @property
    def width(self) -> float:
        return self.maximum - self.minimum

    @property
    def invertible(self) -> bool:
        """Whether every reward has exactly one preimage."""
        c = self.cells
        tail = (c.direction == 0) & (c.lo == c.hi)  # beyond FAR: no finite x is there
        if ((c.direction == 0) & ~tail).any() or c.flat[~tail].any():
            return False
        order = np.flatnonzero(~tail)[np.argsort(c.low[~tail], kind="stable")]
        return bool(np.all(c.low[order][1:] > c.high[order][:-1]))

    def breaks(self) -> Floats:
        """Where pieces begin and end."""
        return np.unique(np.concatenate([self.cells.lo, self.cells.hi]))

    def payable(self) -> Floats:
        """The rewards the arm can pay, as disjoint intervals, shape (P, 2)."""
        return union(self.cells.low, self.cells.high)

    def preimage(self, rewards: Floats, pad: float) -> tuple[Ints, Floats, Floats]:
        """Brackets that together contain {x : \\|g(x) - r\\| <= pad} for every reward.

        Returns ``which, a, b``, each of shape (Q,): bracket ``[a, b]`` belongs to ``rewards[which]``. A bracket is a
        point to within rounding on a strict slope, and a whole plateau where the function is flat. Cost: about 60
        evaluations of the function on the Q brackets.
        """
        order = np.argsort(rewards, kind="stable")
        ordered = rewards[order]
        c = self.cells
        first = np.searchsorted(ordered, c.low - pad, side="left")
        last = np.searchsorted(ordered, c.high + pad, side="right")
        count = np.maximum(last - first, 0)
        piece = np.repeat(np.arange(len(c.lo)), count)
        offset = np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count)
        which = order[first[piece] + offset]
        a, b = c.lo[piece].copy(), c.hi[piece].copy()
        slope = np.flatnonzero(c.direction[piece] != 0)
        if len(slope):
            p, r = piece[slope], rewards[which[slope]]
            a[slope], b[slope] = self._invert(c.lo[p], c.hi[p], c.direction[p], r, pad)
        return which, a, b

    def _invert(self, lo: Floats, hi: Floats, sign: Ints, r: Floats, pad: float) -> tuple[Floats, Floats]:
        """On monotone pieces, the last point certainly before and the first certainly after the band r ± pad."""
        n = len(lo)
        # below: g < r - pad in the direction of ascent; above: g > r + pad. One bisection for both ends.
        target = np.concatenate([sign * r - pad, sign * r + pad])
        strict = np.concatenate([np.ones(n, bool), np.zeros(n, bool)])
        both = np.concatenate([sign, sign])

        def before(x: Floats) -> Bools:
            value = both * self.function(x)
            return np.where(strict, value < target, value <= target)

        a, b = np.concatenate([lo, lo]), np.concatenate([hi, hi])
        none, all_ = ~before(a), before(b)
        for _ in range(200):
            mid = _midpoint(a, b)
            if np.all((mid <= a) | (mid >= b) | none | all_):
                break
            left = before(mid)
            a, b = np.where(left, mid, a), np.where(left, b, mid)
        ends = np.concatenate([lo, lo]), np.concatenate([hi, hi])
        below = np.where(none[:n], ends[0][:n], np.where(all_[:n], ends[1][:n], a[:n]))
        above = np.where(none[n:], ends[0][n:], np.where(all_[n:], ends[1][n:], b[n:]))
        return below, above

    def largest(self, a: Floats, b: Floats) -> Floats:
        """The maximum over each stretch ``[a, b]``, never below the truth. O(1) beyond two evaluations."""
        c = self.cells
        i = np.clip(np.searchsorted(c.lo, a, side="right") - 1, 0, len(c.lo) - 1)
        j = np.clip(np.searchsorted(c.lo, b, side="right") - 1, 0, len(c.lo) - 1)
        best = np.maximum(self.function(a), self.function(b))
        for end in (i, j):
            best = np.where(c.direction[end] == 0, np.maximum(best, c.high[end]), best)
        across = j > i
        best = np.where(across, np.maximum(best, np.maximum(c.right[i], c.left[j])), best)
        inner = np.flatnonzero(j > i + 1)
        if len(inner):
            best[inner] = np.maximum(best[inner], _range_maximum(self._peaks, i[inner] + 1, j[inner] - 1))
        return best


def from_expression(place: str, expression: Expression, low: float, high: float) -> Pieces:
    """Cut an expression in one variable into certain monotone pieces; refuse one that is not finite on the support."""
    edges = np.unique(spread(low, high, np.linspace(0, 1, 65)))
    scale = float(np.ptp(expression(edges))) or float(np.max(abs(expression(edges)))) or 1.0
    cells = _cut(place, expression, edges[:-1], edges[1:], scale)
    cells += _tails(place, expression, low, high, scale)
    return Pieces(expression, _join(expression, sorted(set(cells))))


# lo, hi, direction, flat, low, high; the bounds matter only when direction is 0
_Cell = tuple[float, float, int, bool, float, float]


def _cut(place: str, f: Expression, lo: Floats, hi: Floats, scale: float) -> list[_Cell]:
    done: list[_Cell] = []
    while len(lo):
        e = enclose(f, lo[None], hi[None])
        low, high = _bounds(f, e, lo, hi)
        up, down = e.defined & (e.dlo[0] >= 0), e.defined & (e.dhi[0] <= 0)
        level = e.defined & (high - low <= LEVEL * scale)
        mid = _midpoint(lo, hi)
        atom = (mid <= lo) | (mid >= hi)
        spent = np.full(len(lo), len(done) + len(lo) > MAX_CELLS)
        ready = up | down | level | spent
        if (spent & ~(up | down) & ~(np.isfinite(high - low) & e.defined)).any():
            i = int(np.argmax(spent & ~(np.isfinite(high - low) & e.defined)))
            raise ProblemError(
                f"{place}: the reward could not be bounded near x = {lo[i]:g}; simplify it or shrink the support"
            )
        for i in np.flatnonzero(ready).tolist():
            sign = 1 if up[i] else -1 if down[i] else 0
            done.append((float(lo[i]), float(hi[i]), sign, bool(up[i] and down[i]), float(low[i]), float(high[i])))
        for i in np.flatnonzero(atom & ~ready).tolist():
            done += _atom(place, f, float(lo[i]), float(hi[i]), bool(e.defined[i]), scale)
        rest = ~ready & ~atom
        lo, mid, hi = lo[rest], mid[rest], hi[rest]
        lo, hi = np.concatenate([lo, mid]), np.concatenate([mid, hi])
    return done


def _bounds(f: Expression, e: Enclosure, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """The better of the interval bound and the mean value form, which is far tighter near an extremum."""
    mid = _midpoint(lo, hi)
    centre = enclose(f, mid[None], mid[None])
    with np.errstate(all="ignore"):
        ends = [s * (x - mid) for s in (e.dlo[0], e.dhi[0]) for x in (lo, hi)]
        low = np.nextafter(centre.lo + np.minimum.reduce(ends), -np.inf)
        high = np.nextafter(centre.hi + np.maximum.reduce(ends), np.inf)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return np.maximum(e.lo, low), np.minimum(e.hi, high)


def _atom(place: str, f: Expression, lo: float, hi: float, defined: bool, scale: float) -> list[_Cell]:
    """Two neighbouring floats with a jump between them: each is a point of its own.

    Where the expression may be undefined between them, as sqrt(1 - x) seems to be at 1 for interval arithmetic, there is
    no jump but the edge of its domain, or a pole.
    """
    values = f(np.array([lo, hi]))
    far = not defined and (np.max(abs(values)) > 1e6 * scale or _diverges(f, lo, hi))
    if not np.isfinite(values).all() or far:
        raise ProblemError(
            f"{place}: the reward is not finite near x = {lo:g}; expected a finite number everywhere on the support"
        )
    if not defined:
        return [(lo, hi, 1 if values[1] >= values[0] else -1, False, 0.0, 0.0)]
    return [(x, x, 1, False, 0.0, 0.0) for x in (lo, hi)]


def _diverges(f: Expression, lo: float, hi: float) -> bool:
    """Whether f, on the way to a point, still changes by as much with each quarter of the distance.

    So do log(d) and d**-0.1, which stay small for every float d; sqrt(d) and whatever else has a limit do not.
    """
    distance = np.spacing(max(abs(lo), abs(hi))) * 4.0 ** np.arange(4, 21)
    for values in (f(lo - distance), f(hi + distance)):
        step = np.diff(values)
        if (
            np.isfinite(step).all()
            and ((step > 0).all() or (step < 0).all())
            and abs(step[:4]).sum() >= abs(step[-4:]).sum() / 2
        ):
            return True
    return False


def _tails(place: str, f: Expression, low: float, high: float, scale: float) -> list[_Cell]:
    """An infinite end, beyond ``FAR``: one cell whose bounds hold all the way.

    Interval arithmetic cannot bound a product such as x*exp(-x) there; then the function is taken to have settled if it
    is the same, within ``LEVEL``, over thirty orders of magnitude.
    """
    out: list[_Cell] = []
    for sign, infinite in ((-1.0, math.isinf(low)), (1.0, math.isinf(high))):
        if infinite:
            ends = np.sort([sign * FAR, sign * math.inf])
            e = enclose(f, ends[None, :1], ends[None, 1:])
            far = f(sign * FAR * np.logspace(0, 30, 31))
            lo, hi = float(e.lo[0]), float(e.hi[0])
            if not (e.defined[0] and math.isfinite(hi - lo)):
                lo, hi = float(far.min()), float(far.max())
                if not hi - lo <= LEVEL * scale:
                    where = "-inf" if sign < 0 else "inf"
                    raise ProblemError(f"{place}: the reward could not be shown to stay finite as x goes to {where}")
            out.append((sign * FAR, sign * FAR, 0, True, lo, hi))
    return out


def _join(function: _Function, ordered: list[_Cell]) -> Cells:
    """Join neighbours that are monotone in one direction; drop points that a neighbour contains."""
    kept: list[_Cell] = []
    for cell, following in zip(ordered, [*ordered[1:], None], strict=True):
        point = cell[0] == cell[1] and cell[2] != 0
        before, after = bool(kept) and kept[-1][1] >= cell[0], following is not None and following[0] <= cell[0]
        if not (point and (before or after)):
            kept.append(cell)
    runs: list[list[_Cell]] = []
    way = 0  # the direction of the current run; 0 while it is flat throughout
    for cell in kept:
        sign = 0 if cell[3] or cell[0] == cell[1] else cell[2]
        joins = bool(runs) and cell[2] != 0 and runs[-1][-1][2] != 0 and runs[-1][-1][1] == cell[0]
        if joins and (way == 0 or sign in (0, way)) and cell[0] < cell[1] and runs[-1][-1][0] < runs[-1][-1][1]:
            runs[-1].append(cell)
            way = way or sign
        else:
            runs.append([cell])
            way = sign
    return _tabulate(function, runs)


def _tabulate(function: _Function, runs: list[list[_Cell]]) -> Cells:
    lo, hi = np.array([run[0][0] for run in runs]), np.array([run[-1][1] for run in runs])
    left, right = function(lo), function(hi)
    known = np.array([run[0][2] != 0 for run in runs])
    low = np.where(known, np.minimum(left, right), [run[0][4] for run in runs])
    high = np.where(known, np.maximum(left, right), [run[0][5] for run in runs])
    direction = np.where(known, np.where(right >= left, 1, -1), 0)
    flat = np.array([any(cell[3] for cell in run) for run in runs])
    return Cells(lo, hi, left, right, low, high, direction.astype(np.int64), flat)


def from_function(place: str, function: _Function, low: float, high: float, points: int = 4097) -> Pieces:
    """Cut a Python function into monotone pieces by sampling it, sharpening turning points and jumps by bisection."""
    x = np.unique(spread(low, high, np.linspace(0, 1, points)))
    y = function(x)
    if not np.isfinite(y).all():
        raise ProblemError(f"{place}: the reward at x = {x[np.argmax(~np.isfinite(y))]:g} is not finite")
    scale = float(np.ptp(y)) or 1.0
    jumps = _sampled_jumps(function, x, y, scale)
    x = np.unique(np.concatenate([x, jumps]))
    turns = _sampled_turns(function, x, jumps)
    x = np.unique(np.concatenate([x, turns]))
    y = function(x)
    step = np.where(abs(np.diff(y)) <= LEVEL * scale, 0, np.sign(np.diff(y)))
    torn = np.isin(x[:-1], jumps) & np.isin(x[1:], jumps) & (np.nextafter(x[:-1], np.inf) >= x[1:])
    cells: list[_Cell] = []
    for i in range(len(x) - 1):
        if torn[i]:
            cells += [(x[i], x[i], 1, False, 0.0, 0.0), (x[i + 1], x[i + 1], 1, False, 0.0, 0.0)]
        else:
            cells.append((x[i], x[i + 1], int(step[i]) or 1, step[i] == 0, 0.0, 0.0))
    return Pieces(function, _join(function, cells))


def _sampled_jumps(function: _Function, x: Floats, y: Floats, scale: float) -> Floats:
    """Both neighbouring floats of every jump larger than 1e-9 of the range between two samples."""
    steep = np.flatnonzero(abs(np.diff(y)) > 1e-3 * scale)
    a, b, fa, fb = x[steep], x[steep + 1], y[steep], y[steep + 1]
    for _ in range(200):
        mid = _midpoint(a, b)
        if not len(a) or np.all((mid <= a) | (mid >= b)):
            break
        fm = function(mid)
        left = abs(fm - fa) >= abs(fb - fm)
        a, fa, b, fb = np.where(left, a, mid), np.where(left, fa, fm), np.where(left, mid, b), np.where(left, fm, fb)
    torn = abs(fb - fa) > 1e-9 * scale
    return np.concatenate([a[torn], b[torn]])


def _sampled_turns(function: _Function, x: Floats, jumps: Floats) -> Floats:
    """Turning points between samples, by golden section towards each local extremum."""
    y = function(x)
    middle = np.flatnonzero(np.sign(y[1:-1] - y[:-2]) * np.sign(y[2:] - y[1:-1]) < 0) + 1
    middle = middle[~np.isin(x[middle], jumps)]
    a, b = x[middle - 1], x[middle + 1]
    sign = np.sign(y[middle] - y[middle - 1])
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        left = sign * function(c) >= sign * function(d)
        a, b = np.where(left, a, c), np.where(left, d, b)
    return np.asarray((a + b) / 2)


def _midpoint(a: Floats, b: Floats) -> Floats:
    """A point between: half way, or half way in magnitude when the ends differ by orders of it; ±1 on the way to 0."""
    with np.errstate(all="ignore"):
        plain = a + (b - a) / 2
        far = (a > 0) & (b > 16 * a) | (b < 0) & (a < 16 * b)
        plain = np.where((a <= 0) & (b > 16 * np.maximum(-a, 1)), 1.0, plain)
        plain = np.where((b >= 0) & (-a > 16 * np.maximum(b, 1)), -1.0, plain)
        return np.where(far, np.sign(a) * np.sqrt(abs(a)) * np.sqrt(abs(b)), plain)


def _sparse_maxima(values: Floats) -> list[Floats]:
    """``out[e][i]`` is the maximum of ``values[i : i + 2**e]``."""
    out = [values]
    while (1 << len(out)) <= len(values):
        half = 1 << (len(out) - 1)
        out.append(np.maximum(out[-1][:-half], out[-1][half:]))
    return out


def _range_maximum(peaks: list[Floats], first: Ints, last: Ints) -> Floats:
    level = np.frexp((last - first + 1).astype(float))[1] - 1
    out = np.empty(len(first))
    for e in np.unique(level):
        here = level == e
        out[here] = np.maximum(peaks[e][first[here]], peaks[e][last[here] - (1 << int(e)) + 1])
    return out
