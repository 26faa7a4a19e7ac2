"""Small vectors and triangles, compiled. What becomes of a vanishing pivot is each factoriser's business."""

from __future__ import annotations

import numpy as np

from headwater.arrays import Floats
from headwater.policies.compile import compiled


@compiled
def put(source: Floats, target: Floats) -> None:
    """Copy a vector. A slice on the left would do, but compiled, that makes a copy of the source first."""
    for i in range(target.size):
        target[i] = source[i]


@compiled
def largest(x: Floats) -> float:
    """The largest entry, NaN where one is, -inf where there is none. As numpy's, which makes an array."""
    out = -np.inf
    for i in range(x.size):
        if not x[i] <= out:
            out = x[i]
            if out != out:
                break
    return out


@compiled
def size(x: Floats) -> float:
    """The largest entry, signs aside: NaN where one is, 0 where there is none."""
    out = 0.0
    for i in range(x.size):
        if not abs(x[i]) <= out:
            out = abs(x[i])
            if out != out:
                break
    return out


@compiled
def dot(x: Floats, y: Floats, n: int) -> float:
    """The sum of the first n products. Four sums side by side: one alone would wait for each addition."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    i = 0
    while i + 3 < n:
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        i += 4
    while i < n:
        a += x[i] * y[i]
        i += 1
    return (a + b) + (c + d)


@compiled
def backsolve(a: Floats, n: int, x: Floats) -> None:
    """x (n,) becomes the solution of L L' y = x, L the lower half of a. Row by row, so that both sweeps vectorise. O(n²)."""
    for i in range(n):
        x[i] = (x[i] - dot(a[i], x, i)) / a[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= a[i, i]
        top = x[i]
        for m in range(i):
            x[m] -= a[i, m] * top
