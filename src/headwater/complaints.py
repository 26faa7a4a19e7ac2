"""Collecting everything that is wrong with an input before refusing it, each with its place.

A complaint reads ``arms.video[1]: got "n/a"; expected a number``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.arrays import Floats
from headwater.errors import ProblemError

MAX_SHOWN = 50


class Complaints:
    """A list of what is wrong, raised as one :class:`ProblemError`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, place: str, got: Any, expected: str) -> None:
        self.say(f"{place}: got {shown(got)}; expected {expected}")

    def say(self, line: str) -> None:
        self.lines.append(line)

    def __bool__(self) -> bool:
        return bool(self.lines)

    def raise_if_any(self) -> None:
        if self.lines:
            more = len(self.lines) - MAX_SHOWN
            tail = [f"… and {more} more"] if more > 0 else []
            raise ProblemError(self.lines[:MAX_SHOWN] + tail)


def shown(value: Any) -> str:
    """A value as an error message shows it: as JSON, one line, not too long.

    >>> shown("n/a"), shown([1, 2]), shown("a" * 99)[-4:]
    ('"n/a"', '[1, 2]', 'aaa…')
    """
    try:
        text = json.dumps(value.tolist() if isinstance(value, np.ndarray) and value.size < 100 else value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:59] + "…"


def is_list(value: Any) -> bool:
    """Whether this is a list as a file could hold it: a sequence or an array, neither text nor a lone number."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def is_number(value: Any) -> bool:
    """Whether this is a real number as a file could hold it. Booleans and numeric strings are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def is_frozen(array: NDArray[Any]) -> bool:
    """Whether this is a contiguous array of float64 that is read-only, as is the array that it is a part of."""
    owner: Any = array.base if array.base is not None else array
    shared = isinstance(owner, np.ndarray) and not owner.flags.writeable and not array.flags.writeable
    return shared and array.dtype == np.float64 and array.flags.c_contiguous


def number(place: str, value: Any, found: Complaints, expected: str = "a finite number") -> float | None:
    """``value`` as a float, or a complaint."""
    if is_number(value):
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
        if math.isfinite(result):
            return result
    found.add(place, value, expected)
    return None


def numbers(place: str, values: Any, found: Complaints, *, count: int | None = None, of: str = "numbers") -> Floats:
    """``values`` as a flat array, complaining about each element that is not a finite number.

    Where there is a complaint the element stands as 0, so that later checks can go on. An array that nobody can change is not
    copied: a large problem need not stand in memory twice.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf":
        if is_frozen(values) and count in (None, len(values)) and np.isfinite(values).all():
            return values
        out = values.astype(float)
        bad = ~np.isfinite(out)
        for i in np.flatnonzero(bad)[: MAX_SHOWN + 1]:
            found.add(f"{place}[{i}]", float(values[i]), "a finite number")
        out[bad] = 0.0
    elif not is_list(values):
        found.add(place, values, f"a list of {of}")
        return np.zeros(count or 0)
    else:
        out = np.array([number(f"{place}[{i}]", v, found) or 0.0 for i, v in enumerate(values)], dtype=float)
    if count is not None and len(out) != count:
        found.add(place, values, f"{count} {of}, not {len(out)}")
        return np.zeros(count)
    return out


def table(place: str, values: Any, shape: tuple[int, ...], found: Complaints, *, of: str = "numbers") -> Floats:
    """Nested lists of the given shape as a flat array, complaining about every misshapen or wrong part."""
    if len(shape) <= 1:
        return numbers(place, values, found, count=shape[0] if shape else None, of=of)
    if isinstance(values, np.ndarray) and values.shape == shape and values.dtype.kind in "iuf":
        return numbers(place, values.ravel(), found)
    if not is_list(values):
        found.add(place, values, f"nested lists of {of}, {' × '.join(map(str, shape))}")
        return np.zeros(math.prod(shape))
    if len(values) != shape[0]:
        found.add(place, values, f"{shape[0]} rows, not {len(values)}")
        return np.zeros(math.prod(shape))
    return np.concatenate([table(f"{place}[{i}]", row, shape[1:], found, of=of) for i, row in enumerate(values)])


def probabilities(place: str, p: Floats, found: Complaints) -> Floats:
    """Complain about negative entries and a sum that is off by more than 1e-9; else return ``p`` scaled to sum to one."""
    for i in np.flatnonzero(p < 0)[: MAX_SHOWN + 1]:
        found.add(f"{place}[{i}]", float(p[i]), "a probability, 0 or more")
    total = total_of(p)
    if abs(total - 1) > 1e-9:
        found.say(f"{place}: the probabilities sum to {total:.12g}; expected 1 (within 1e-9)")
        return p
    return normalised(p)


def normalised(weights: Floats) -> Floats:
    """``weights`` (0 or more, not all 0) scaled to sum to one. What does so already stays exactly as it is.

    >>> normalised(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    total = total_of(weights)
    if math.isinf(total):
        weights, total = weights / np.max(weights), total_of(weights / np.max(weights))
    # a scaled vector sums to one but for two roundings; scaling it again would give a written problem another identity
    return weights if abs(total - 1) <= 4e-16 else weights / total


def total_of(p: Floats) -> float:
    """The sum, rounded once; infinite when it overflows."""
    try:
        return math.fsum(p)
    except OverflowError:
        return math.inf
