r"""What the law of one arm's rewards allows another arm: a linear programme over the laws of X that explain it.

Arm k is a channel A of shape (M, J) whose columns sum to 1; when X has law p, its rewards have law A p. Once they are known to
have law f, the most another arm can pay on average is

.. math::
    \phi = \max\{g \cdot p : p \ge 0,\ A p = f\}.

For a channel of zeros and ones each reward r leaves its own points to choose from, and the maximum is the paper's
:math:`\sum_r f(r) s(r)`. The dual certifies from above: as columns sum to 1, *any* multipliers :math:`\lambda` give

.. math::
    \phi \le \lambda \cdot f + \max_j \left(g_j - (A^\top \lambda)_j\right),

whatever the solver's tolerances, and :math:`\lambda_m = \max\{g_j : A_{mj} > 0\}` does without a solver.

Frequencies that were observed need not be explained by any p. The laws that explain them best, by likelihood, all agree on the
probability of every reward that was seen, and the programme runs over those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.arrays import Floats

MAX_ENTRIES = 1_000_000
"""Entries of a programme's matrix, alike columns merged; beyond it the multipliers that need no solver give a looser bound."""
STEPS = 200
HIGHS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def law_bound(channel: Floats, f: Floats, g: Floats) -> float:
    """The most a reward ``g`` (J,) can be on average when the arm ``channel`` (M, J) paid with frequencies ``f`` (M,).

    Of all laws of X, those with the largest likelihood count: the ones that explain ``f``, if any does. Every reward in ``f``
    must be possible at some point. Slow and sure: O(J³) a Newton step, then a linear programme.

    >>> coin = np.array([[0.9, 0.2, 0.2], [0.1, 0.8, 0.8]])
    >>> round(law_bound(coin, np.array([0.55, 0.45]), np.array([0.0, 1.0, 3.0])), 9)  # half of the X are the first
    1.5
    >>> law_bound(coin, np.array([1.0, 0.0]), np.array([0.0, 1.0, 3.0])) < 1e-6  # more than any X makes likely
    True
    """
    seen = f > 0
    h = channel[seen] @ most_likely(channel, f)
    return float(_bounds(channel[seen], h, g[None])[0])


def expected_bounds(channel: Floats, p: Floats, g: Floats) -> Floats:
    r""":math:`\phi` for every row of ``g`` (L, J), given that X has law ``p`` (J,): shape (L,). Never below the truth.

    Columns that are alike cannot be told apart: only the best of each kind counts, so that noise on a reward with few values
    makes a small programme, however many points X has.
    """
    f = channel @ p
    # a reward that is never paid rules out every point that could pay it
    open_ = ~np.any(channel[f == 0] > 0, axis=0)
    columns = np.ascontiguousarray(channel[np.ix_(f > 0, open_)].T)
    whole = columns.view(np.dtype((np.void, columns.itemsize * columns.shape[1]))).ravel()  # alike to the last bit
    _, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    starts = np.searchsorted(kind[order], np.arange(len(first)))
    tops = np.maximum.reduceat(g[:, open_][:, order], starts, axis=1)
    return np.maximum(_bounds(np.ascontiguousarray(columns[first].T), f[f > 0], tops), g @ p)


def _bounds(a: Floats, f: Floats, g: Floats) -> Floats:
    """The least certified bound for each row of ``g`` (L, J): ``a`` (M, J) columns summing to at most 1, ``f`` (M,)."""
    out = np.empty(len(g))
    possible = a > 0
    for i, row in enumerate(g):
        low, width = float(row.min()), float(np.ptp(row))
        if width == 0:
            out[i] = low
            continue
        unit = (row - low) / width
        simple = np.array([np.max(unit[line], initial=0.0) for line in possible])
        tries = [simple]
        if a.size <= MAX_ENTRIES:
            tries += _multipliers(a, f, unit)
        out[i] = low + width * min(_certified(a, f, unit, lam) for lam in tries)
    return out


def _certified(a: Floats, f: Floats, g: Floats, lam: Floats) -> float:
    """The bound that multipliers give, with what rounding may have taken from it."""
    top = float(np.max(g - lam @ a))
    # half an ulp for every addition, in sums of magnitudes that large multipliers (nearly alike columns) make visible
    size = float(abs(lam) @ f) + float(np.max(abs(lam) @ a))
    return float(lam @ f) + top + len(lam) * float(np.finfo(float).eps) * size


def _multipliers(a: Floats, f: Floats, g: Floats) -> list[Floats]:
    """The programme's multipliers (M,), or none where the solver gets nowhere."""
    from scipy.optimize import linprog

    rows, right = np.vstack([a, np.ones((1, a.shape[1]))]), np.append(f, 1.0)
    for presolve in (False, True):  # smooth noise makes rows nearly dependent, which presolving takes long to find
        result = linprog(-g, A_eq=rows, b_eq=right, method="highs-ds", options=HIGHS | {"presolve": presolve})
        if result.status == 0:
            return [-np.asarray(result.eqlin.marginals, dtype=float)[:-1]]
    return []


def most_likely(channel: Floats, f: Floats) -> Floats:
    r"""A law p (J,) of X that makes frequencies ``f`` (M,) of the arm's rewards as likely as any does.

    Maximises :math:`\sum_m f_m \log (A p)_m - \sum_j p_j`, whose maximum is a law, by a primal-dual interior-point method; z
    (J,) are the multipliers of p >= 0. :math:`v = A^\top (f / A p)` certifies: the log-likelihood is within max v - 1 of its
    maximum.
    """
    seen = f > 0
    a, f = channel[seen], f[seen] / f[seen].sum()
    p = np.full(a.shape[1], 1 / a.shape[1])
    z = np.ones_like(p)
    best, least = p, np.inf
    for _ in range(STEPS):
        pay = a @ p
        v = a.T @ (f / pay)
        if (miss := float(np.max(v)) - 1) < least:
            best, least = p, miss
        if miss <= 1e-15:
            break
        mu = min(0.1 * float(z @ p), 10 * max(miss, 0.0)) / len(p)
        # with d = dp / p the system stays well scaled as entries vanish
        x = a * p
        system = (x.T * (f / pay**2)) @ x + np.diag(z * p)
        try:
            d = np.linalg.solve(system, mu - p * (1 - v))
        except np.linalg.LinAlgError:
            break
        dz = mu / p - z * d - z
        primal, dual = (min(1.0, 0.95 / max(-float(np.min(r)), 1e-300)) for r in (d, dz / z))
        p, z = p * (1 + primal * d), z + dual * dz
        p = p / p.sum()
    return np.asarray(best / best.sum())
