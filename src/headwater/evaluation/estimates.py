r"""What a log says of fixed choices that it did not make: always this arm; each segment its best arm.

With the logged propensity :math:`p_i` of the arm that event i shows, and :math:`w_i = \pi(a_i | x_i) / p_i`:

.. math::
    \text{ips} = \frac1n \sum_i w_i r_i, \qquad
    \text{snips} = \frac{\sum_i w_i r_i}{\sum_i w_i}, \qquad
    \text{dr} = \frac1n \sum_i \Bigl[\sum_a \pi(a | x_i)\, q(x_i, a) + w_i\,(r_i - q(x_i, a_i))\Bigr],

where q is what the learned problem expects. ips and dr are unbiased whatever q is, snips is so in the limit; dr is the sharper
the better q is. Intervals are normal, and refused where the effective number of events :math:`(\sum w)^2 / \sum w^2` is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from headwater.arrays import Floats
from headwater.complaints import is_number, shown
from headwater.errors import ProblemError
from headwater.evaluation.events import Events

__all__ = ["LEAST", "METHODS", "Estimate", "Estimates", "estimate", "standard_choices"]

LEAST = 100
"""The least effective number of events that anything is said from: normal intervals are then right to a percent or two."""
METHODS = ("ips", "snips", "dr")


class Estimate(NamedTuple):
    """The mean reward of a fixed choice, with a standard error, an interval, and the effective number of events behind it."""

    choice: str
    method: str
    value: float
    standard_error: float
    low: float
    high: float
    effective: float


class Estimates(NamedTuple):
    """Estimates, a row per choice and method, and a sentence for each choice that the log says too little of."""

    rows: list[Estimate]
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
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    out, refused = [], []
    for name, given in (standard_choices(events) if choices is None else choices).items():
        pi = _chosen(events, name, given)
        w = pi[np.arange(events.count), events.arm] / events.propensity
        effective = float(w.sum() ** 2 / np.sum(w**2)) if w.any() else 0.0
        if effective < least:
            refused.append(
                f"{name}: the log holds the like of {effective:.0f} events that show it; expected at least {least:g}: log more "
                "events, or ask about a choice that the log made more often"
            )
            continue
        for method in methods:
            value, error = _value(events, pi, w, method)
            out.append(Estimate(name, method, value, error, value - z * error, value + z * error, effective))
    if not out:
        raise ProblemError(refused)
    return Estimates(out, refused)


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


def _value(events: Events, pi: Floats, w: Floats, method: str) -> tuple[float, float]:
    """The estimate and its standard error."""
    n, r = events.count, events.reward
    if method == "snips":
        value = float(w @ r / w.sum())
        return value, float(np.sqrt(np.sum((w * (r - value)) ** 2)) / w.sum())
    terms = w * r
    if method == "dr":
        q = events.expected
        terms = np.sum(pi * q, axis=1) + w * (r - q[np.arange(n), events.arm])
    return float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(n))
