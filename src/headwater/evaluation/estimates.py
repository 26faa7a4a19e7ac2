r"""What a log says of fixed choices that it did not make: always this arm; each segment its best arm.

With the logged propensity :math:`p_i` of the arm that event i shows, and :math:`w_i = \pi(a_i | x_i) / p_i`:

.. math::
    \text{ips} = \frac1n \sum_i w_i r_i, \qquad
    \text{snips} = \frac{\sum_i w_i r_i}{\sum_i w_i}, \qquad
    \text{dr} = \frac1n \sum_i \Bigl[\sum_a \pi(a | x_i)\, q(x_i, a) + w_i\,(r_i - q(x_i, a_i))\Bigr],

where q is what the learned problem expects. ips and dr are unbiased whatever q is, snips is so in the limit; dr is the sharper
the better q is. Where no propensities were logged, ips of one arm is the mean of its rewards, and so is its interval.

Intervals are :mod:`headwater.intervals`': each estimate is a ratio of sums of terms that are bounded, because rewards are, over
events or, where the log names units, over units. So they hold at tiny rates, never leave what can be paid, and say of an arm
without a reward how large its mean may yet be. What has fewer effective events :math:`(\sum w)^2 / \sum w^2` is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.complaints import is_number, shown
from headwater.errors import ProblemError
from headwater.evaluation.events import Events, reward_range
from headwater.intervals import ratio_intervals

__all__ = [
    "FEWEST_UNITS",
    "LEAST",
    "METHODS",
    "Asked",
    "Estimate",
    "Estimates",
    "Questions",
    "answer",
    "ask",
    "estimate",
    "standard_choices",
]

LEAST = 100
"""The least effective number of events that anything is said from."""
FEWEST_UNITS = 20
"""The least effective number of units, where the log names them."""
SEEN = 20
"""So many units that were paid anything but the least (or the most) show how far units can be."""
METHODS = ("ips", "snips", "dr")


class Estimate(NamedTuple):
    """The mean reward of a fixed choice, with a standard error, an interval, and the effective number of events behind it.

    ``units`` is the effective number of units, None where the log names none.
    """

    choice: str
    method: str
    value: float
    standard_error: float
    low: float
    high: float
    effective: float
    units: float | None = None


class Estimates(NamedTuple):
    """Estimates, a row per choice and method, and a sentence for each choice that the log says too little of."""

    rows: list[Estimate]
    refused: list[str]


class Asked(NamedTuple):
    """An estimate before its interval: sums of ``total`` by ``size`` over events or units, (G,), and what bounds them.

    ``least`` and ``most`` (G,) are what the totals would be if every reward that counts were the least or the greatest; the
    estimate itself lies within ``ends``.
    """

    row: Estimate
    total: Floats
    size: Floats
    least: Floats
    most: Floats
    ends: tuple[float, float]


class Questions(NamedTuple):
    """What can be estimated, a row per choice and method, and a sentence for each choice that the log says too little of."""

    asked: list[Asked]
    refused: list[str]


def estimate(
    events: Events,
    choices: Mapping[str, Any] | None = None,
    *,
    methods: Sequence[str] = METHODS,
    confidence: float = 0.95,
    least: float = LEAST,
) -> Estimates:
    """The mean reward of fixed choices, by each method; what the log says too little of is refused.

    ``choices`` → (K,) probabilities of arms, or (J, K), a row per segment, where segments are logged. Default: each arm always,
    and with segments also each segment's best arm, as the learned problem has it.
    """
    if not is_number(confidence) or not 0 < confidence < 1:
        raise ProblemError(f"confidence: got {shown(confidence)}; expected a number between 0 and 1")
    for method in methods:
        if method not in METHODS:
            raise ProblemError(f"method: got {shown(method)}; expected one of {', '.join(METHODS)}")
    questions = ask(events, choices, methods=methods, least=least)
    return Estimates(answer(questions.asked, confidence), questions.refused)


def ask(
    events: Events, choices: Mapping[str, Any] | None = None, *, methods: Sequence[str] = METHODS, least: float = LEAST
) -> Questions:
    """Every choice by every method, before its interval; a log that says too little of all of them is refused."""
    asked, refused = [], []
    for name, given in (standard_choices(events) if choices is None else choices).items():
        pi = _chosen(events, name, given)
        w = pi[np.arange(events.count), events.arm] / events.propensity
        few = _too_few(events, name, w, least)
        if few is not None:
            refused.append(few)
            continue
        asked += [_terms(events, name, pi, w, method) for method in methods]
    if not asked:
        raise ProblemError(refused)
    return Questions(asked, refused)


def standard_choices(events: Events) -> dict[str, Any]:
    """Each arm always; with segments, each segment its best arm as well."""
    eye, names = np.eye(len(events.problem.names)), events.problem.names
    out: dict[str, Any] = {f"always {name}": eye[k] for k, name in enumerate(names)}
    if events.segment is not None:
        out["each segment its best arm"] = eye[np.argmax(events.problem.rewards, axis=0)]
    return out


def _chosen(events: Events, name: str, given: Any) -> Floats:
    """``pi[i, k]``, the probability that the choice shows arm k at event i."""
    table, (count, points) = np.asarray(given, dtype=float), events.problem.rewards.shape
    if table.shape not in ((count,), (points, count)) or not np.allclose(table.sum(axis=-1), 1) or table.min() < 0:
        raise ProblemError(f"{name}: expected probabilities of {count} arms, or a row of them for each of {points} segments")
    if table.ndim == 2 and events.segment is None:
        raise ProblemError(f"{name}: chooses by segment, and the log has no segments; expected a column of them")
    return np.broadcast_to(table, (events.count, count)) if table.ndim == 1 else table[events.segment]


def _effective(weight: Floats) -> float:
    return float(weight.sum() ** 2 / np.sum(weight**2)) if weight.any() else 0.0


def _too_few(events: Events, name: str, w: Floats, least: float) -> str | None:
    """Why nothing is said of a choice, or None."""
    effective = _effective(w)
    if effective < least:
        return (
            f"{name}: the log holds the like of {effective:.0f} events that show it; expected at least {least:g}: log more "
            "events, or ask about a choice that the log made more often"
        )
    units = None if events.unit is None else _effective(np.asarray(np.bincount(events.unit, w), dtype=float))
    if units is not None and least > 0 and units < FEWEST_UNITS:
        return (
            f"{name}: the log holds the like of {units:.0f} units that were shown it; expected at least {FEWEST_UNITS}: log "
            "more units, or ask about a choice that the log made for more of them"
        )
    return None


def _terms(events: Events, name: str, pi: Floats, w: Floats, method: str) -> Asked:
    low, high = reward_range(events)
    base: Any = 0.0
    if method == "dr":
        q = events.expected
        base = np.sum(pi * q, axis=1) - w * q[np.arange(events.count), events.arm]
    fixed = not events.logged and bool(np.all(pi == pi[0]))  # weights are then one number, taken from the log itself
    size = w if method == "snips" or (method == "ips" and fixed) else np.ones(events.count)
    parts = [base + w * events.reward, size, base + w * low[events.arm], base + w * high[events.arm]]
    if events.unit is not None:
        parts = [np.bincount(events.unit, part) for part in parts]
    total, size, least, most = (part[parts[1] > 0] for part in parts)
    value = float(total.sum() / size.sum())
    unbiased = len(total) / max(len(total) - 1, 1) if method != "snips" else 1.0
    error = float(np.sqrt(unbiased * np.sum((total - value * size) ** 2)) / size.sum())
    units = None if events.unit is None else _effective(np.asarray(np.bincount(events.unit, w), dtype=float))
    row = Estimate(name, method, value, error, value, value, _effective(w), units)
    return Asked(row, total, size, least, most, (float((pi @ low).min()), float((pi @ high).max())))


def _worst(one: Asked, sign: int) -> tuple[float, float]:
    """The total and the size of what is added for the lower (-1) or the upper (1) end.

    It is the worst that a logged event or unit could have been; where ``SEEN`` units or more were paid anything beyond the
    other end, how far units can be is known, and it is the farthest of them.
    """
    end, other = (one.least, one.most) if sign < 0 else (one.most, one.least)
    if one.row.units is not None and np.sum(abs(one.total - other) > 1e-9 * abs(end - other)) >= SEEN:
        away = sign * (one.total - one.row.value * one.size)
        if away.max() > 0:
            i = int(np.argmax(away))
            return float(one.total[i]), float(one.size[i])
    i = int(np.argmax(sign * (end - one.row.value * one.size)))
    return float(end[i]), float(one.size[i])


def answer(asked: Sequence[Asked], confidence: float) -> list[Estimate]:
    """Every estimate with its interval; all of them are found in one go."""
    cell, total, size, count = [], [], [], []
    for c, one in enumerate(asked):
        pairs, times = np.unique(one.total + 1j * one.size, return_counts=True)
        cell.append(np.full(len(pairs), c))
        total.append(pairs.real)
        size.append(pairs.imag)
        count.append(times.astype(float))
    added = [[_worst(one, sign) for one in asked] for sign in (-1, 1)]
    worst = [tuple(np.array(part) for part in zip(*side, strict=True)) for side in added]
    ends = np.array([one.ends for one in asked])
    low, high = ratio_intervals(
        np.concatenate(cell), np.concatenate(total), np.concatenate(size), np.concatenate(count), cells=len(asked),
        low=ends[:, 0], high=ends[:, 1], worst=tuple(worst), confidence=confidence,
    )  # fmt: skip
    return [one.row._replace(low=float(a), high=float(b)) for one, a, b in zip(asked, low, high, strict=True)]
