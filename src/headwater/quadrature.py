"""Integrals over [0, 1] with an error estimate, for integrands with kinks at unknown and jumps at known places.

Each panel is integrated by ten-point Gauss-Legendre, whole and as two halves; the difference is its error. Panels that
carry too much of it are halved, all at once, so that the integrand is always called with large arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


class Estimate(NamedTuple):
    """``value`` (K,) and a bound on its error that one may expect to hold; 0 means exact up to rounding."""

    value: Floats
    error: float


def integrate(f: Callable[[Floats], Floats], breaks: Floats, *, tolerance: float, budget: int = 400_000) -> Estimate:
    """Integrate ``f`` over [0, 1]; ``f`` maps (n,) points to (K, n) values, smooth between ``breaks`` but for kinks.

    ``tolerance`` is absolute. When ``budget`` evaluations are spent first, the error says what was reached.

    >>> integrate(lambda u: np.abs(u - 0.3)[None], np.array([]), tolerance=1e-12).value.round(12)
    array([0.29])
    """
    edges = np.unique(np.concatenate([[0.0, 1.0], breaks[(breaks > 0) & (breaks < 1)]]))
    a, b = edges[:-1], edges[1:]
    whole = _panel(f, a, b)
    total, error, used = np.zeros(len(whole)), 0.0, 10 * len(a)
    while len(a):
        mid = (a + b) / 2
        halves = _panel(f, np.concatenate([a, mid]), np.concatenate([mid, b]))
        left, right = halves[:, : len(a)], halves[:, len(a) :]
        used += 20 * len(a)
        miss = np.max(abs(whole - left - right), axis=0)
        # a panel may carry error in proportion to its width, or very little however narrow it is, or its own rounding
        rounding = 8 * np.finfo(float).eps * np.max(abs(left) + abs(right), axis=0)
        fine = miss <= np.maximum.reduce([tolerance * (b - a), np.full(len(a), tolerance * 1e-3), rounding])
        fine |= (mid <= a) | (mid >= b)
        if used > budget:
            fine[:] = True
        total += (left + right)[:, fine].sum(axis=1)
        error += float(miss[fine].sum())
        a, b = np.concatenate([a[~fine], mid[~fine]]), np.concatenate([mid[~fine], b[~fine]])
        whole = np.concatenate([left[:, ~fine], right[:, ~fine]], axis=1)
    return Estimate(total, error)


def _panel(f: Callable[[Floats], Floats], a: Floats, b: Floats) -> Floats:
    """The integral over each panel, shape (K, panels)."""
    half = (b - a) / 2
    u = (a + b)[:, None] / 2 + half[:, None] * _NODES
    values = f(u.ravel()).reshape(-1, len(a), len(_NODES))
    return np.asarray((values @ _WEIGHTS) * half)
