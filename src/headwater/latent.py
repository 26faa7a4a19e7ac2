"""The kinds of latent X: what values it can take. How likely they are is a separate thing (``distributions``).

A support is either *listed* (``points`` gives every value) or described by intervals. Each kind knows the names its
values go by in expressions: ``x``, or a vector's component names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats, Ints
from headwater.complaints import Complaints, is_list, is_number, numbers
from headwater.expressions import check_name

MAX_POINTS = 4_000_000
"""A product support with more points than this is never listed."""
MAX_END = 1e50
"""The largest magnitude of an interval's finite end: widths, squares and cubes of it are still numbers."""


@dataclass(frozen=True)
class Interval:
    """A component that takes any value from ``low`` to ``high``; either may be infinite."""

    low: float
    high: float


@dataclass(frozen=True)
class Discrete:
    """X takes one of finitely many values, labels or numbers.

    >>> Discrete(["student", "worker"]).size
    2
    """

    values: tuple[str | float, ...]

    def __init__(self, values: Sequence[str | float] | NDArray[Any]) -> None:
        found = Complaints()
        object.__setattr__(self, "values", _check_values("latent.values", values, found))
        found.raise_if_any()

    kind = "discrete"

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        return not any(isinstance(v, str) for v in self.values)

    @property
    def names(self) -> tuple[str, ...]:
        """Expressions may use ``x`` when the values are numbers; labels take tables only."""
        return ("x",) if self.numeric else ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    @cached_property
    def points(self) -> Floats:
        """Shape (1, J): the values, or their numbers 0, 1, … when they are labels."""
        return _frozen(np.array([self.values if self.numeric else range(self.size)], dtype=float))

    def label(self, j: int) -> str:
        return str(self.values[j])


@dataclass(frozen=True)
class Continuous:
    """X takes any value of an interval; either end may be infinite."""

    support: tuple[float, float]

    def __init__(self, support: Sequence[float] | NDArray[Any]) -> None:
        found = Complaints()
        pair = _check_interval("latent.support", support, found)
        object.__setattr__(self, "support", pair)
        found.raise_if_any()

    kind = "continuous"
    names = ("x",)

    @property
    def low(self) -> Floats:
        """Lower ends, shape (1,)."""
        return np.array([self.support[0]])

    @property
    def high(self) -> Floats:
        return np.array([self.support[1]])


@dataclass(frozen=True)
class Vector:
    """X is a vector; each component takes finitely many numbers, or any value of an interval.

    >>> Vector({"x1": [-1, 0, 1], "x2": [-1, 0, 1]}).size
    9
    """

    components: tuple[tuple[str, tuple[float, ...] | Interval], ...]

    def __init__(self, components: Mapping[str, Any]) -> None:
        found = Complaints()
        object.__setattr__(self, "components", _check_components(components, found))
        found.raise_if_any()

    kind = "vector"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.components)

    @property
    def parts(self) -> tuple[tuple[float, ...] | Interval, ...]:
        return tuple(part for _, part in self.components)

    @property
    def finite(self) -> bool:
        return not any(isinstance(part, Interval) for part in self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each finite component takes; intervals are left out."""
        return tuple(len(part) for part in self.parts if not isinstance(part, Interval))

    @property
    def size(self) -> int:
        """The number of points of the product of the finite components."""
        return math.prod(self.shape)

    @cached_property
    def points(self) -> Floats:
        """Shape (d, J): every point of a finite support, the last component changing fastest. O(d J)."""
        return _frozen(grid([np.array(part) for part in self.parts if not isinstance(part, Interval)]))

    def number(self, points: Floats) -> Ints:
        """Which listed point each column of ``points`` (d, n) is, shape (n,)."""
        at = []
        for part, x in zip(self.parts, points, strict=True):
            assert not isinstance(part, Interval)
            order = np.argsort(part)
            at.append(order[np.searchsorted(np.array(part)[order], x)])
        return np.asarray(np.ravel_multi_index(tuple(at), self.shape), dtype=np.int64)

    def label(self, j: int) -> str:
        values = (self.parts[i][c] for i, c in enumerate(np.unravel_index(j, self.shape)))  # type: ignore[index]
        return "(" + ", ".join(f"{v:g}" for v in values) + ")"


Latent = Discrete | Continuous | Vector


def grid(axes: Sequence[Floats]) -> Floats:
    """Every combination of the axes' values, shape (d, J), the last axis changing fastest.

    >>> grid([np.array([0.0, 1.0]), np.array([5.0, 6.0])])
    array([[0., 0., 1., 1.],
           [5., 6., 5., 6.]])
    """
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")]) if axes else np.zeros((0, 1))


def _frozen(points: Floats) -> Floats:
    """Points are shared by every arm: a function that changes its argument in place must not change the others'."""
    points.setflags(write=False)
    return points


def listed(latent: Latent) -> bool:
    """Whether every value of X can be written down, one after the other, within ``MAX_POINTS``."""
    if isinstance(latent, Vector):
        return latent.finite and latent.size <= MAX_POINTS
    return isinstance(latent, Discrete)


def _check_values(place: str, values: Any, found: Complaints) -> tuple[str | float, ...]:
    if not is_list(values):
        found.add(place, values, "a list of labels or numbers")
        return ()
    if len(values) == 0:
        found.add(place, values, "at least one value")
    if any(isinstance(v, str) for v in values):
        for i, v in enumerate(values):
            if not isinstance(v, str):
                found.add(f"{place}[{i}]", v, "a label like the others (all labels, or all numbers)")
            elif not v.isprintable():
                found.add(f"{place}[{i}]", v, "a label of printable characters")
        out: list[Any] = [str(v) for v in values]
    else:
        out = [float(v) for v in numbers(place, values, found, count=len(values))]
    seen: dict[Any, int] = {}
    for i, v in enumerate(out):
        if v in seen:
            found.add(f"{place}[{i}]", values[i], f"a value that is not already at {place}[{seen[v]}]")
        seen.setdefault(v, i)
    return tuple(out)


def _check_interval(place: str, value: Any, found: Complaints) -> tuple[float, float]:
    wanted = f"two numbers within ±{MAX_END:g}, the lower end first (inf and -inf are allowed)"
    words = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}  # JSON has no infinity
    if not is_list(value) or len(value) != 2:
        found.add(place, value, wanted)
        return 0.0, 1.0
    ends = [words.get(v, v) if isinstance(v, str) else v for v in value]
    if not all(is_number(v) for v in ends):
        found.add(place, value, wanted)
        return 0.0, 1.0
    try:
        low, high = float(ends[0]), float(ends[1])
    except OverflowError:
        low = high = math.nan
    far = any(MAX_END < abs(end) < math.inf for end in (low, high))
    if not low < high or low == math.inf or high == -math.inf or far:
        found.add(place, value, wanted)
        return 0.0, 1.0
    return low, high


def _check_components(components: Any, found: Complaints) -> tuple[tuple[str, tuple[float, ...] | Interval], ...]:
    place = "latent.components"
    if not isinstance(components, Mapping) or not components:
        found.add(place, components, "at least one component: a name, then its values or {low = …, high = …}")
        return ()
    out: list[tuple[str, tuple[float, ...] | Interval]] = []
    for name, part in components.items():
        here = f"{place}.{name}"
        if not isinstance(name, str) or (why := check_name(name)):
            found.add(place, name, "a component name: " + (why if isinstance(name, str) and why else "a word"))
        elif isinstance(part, Interval):
            out.append((name, Interval(*_check_interval(here, [part.low, part.high], found))))
        elif isinstance(part, Mapping):
            if set(part) != {"low", "high"}:
                found.add(here, dict(part), "{low = …, high = …}")
            else:
                out.append((name, Interval(*_check_interval(here, [part["low"], part["high"]], found))))
        else:
            values = _check_values(here, part, found)
            if any(isinstance(v, str) for v in values):
                found.add(here, part, "numbers (a component of a vector has no labels)")
            out.append((name, tuple(v for v in values if not isinstance(v, str))))
    return tuple(out)
