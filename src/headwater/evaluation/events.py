"""A log of who was shown what, one event a row, and what is odd about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.evaluation.people import check_listed, label_places, levels_of
from headwater.policies.channel_view import channel_view
from headwater.policies.evidence import evidence_of
from headwater.problem import Problem, Random
from headwater.pseudo.channels import channels_of

__all__ = ["Events", "make_events", "reward_range"]


@dataclass(frozen=True)
class Events:
    """n logged events: ``arm`` (n,), real ``reward`` and its ``level``, ``propensity`` of the arm that was shown.

    ``logged`` says whether propensities came with the log; otherwise they are the arms' shares, which is right only where arms
    were given out without regard to who came. ``segment`` (n,) numbers values of X where the log has them. ``unit`` (n,)
    numbers the people whose events these are, where the log names them: the events of one are not independent.
    """

    problem: Problem
    arm: Ints
    reward: Floats
    level: Ints
    propensity: Floats
    logged: bool
    segment: Ints | None
    unit: Ints | None = None

    @property
    def count(self) -> int:
        return len(self.arm)

    @cached_property
    def expected(self) -> Floats:
        """``q[i, k]``: what the learned problem expects of arm k at event i, shape (n, K).

        By the event's segment where it is known. Otherwise under the likeliest law of X, fitted to the other half of the
        events, or of the units, so that none is judged by itself.
        """
        g = self.problem.rewards
        if self.segment is not None:
            return np.asarray(g.T[self.segment])
        half = (np.arange(self.count) if self.unit is None else self.unit) % 2
        laws = [_likeliest_law(self, half != part) for part in (0, 1)]
        return np.stack([g @ law for law in laws])[half]

    def warnings(self) -> list[str]:
        """What is odd about the propensities, in sentences; each is a false alarm with probability below 1 in 10,000."""
        out, names = [], self.problem.names
        if not self.logged:
            out.append("no propensities are logged: arms are taken to have been given out by lot, whoever came")
            return [*out, *_drift(self)]
        for k, name in enumerate(names):
            weight = (self.arm == k) / self.propensity
            error = weight.std() / np.sqrt(self.count)
            if abs(weight.mean() - 1) > 4.5 * error + 1e-9:  # of 1,000 arms, too
                out.append(f"{name}: shown {weight.mean():.2f} times as often as the logged propensities say")
        return out


def make_events(
    problem: Problem,
    arm: Sequence[Any],
    reward: Any,
    *,
    propensity: Any = None,
    segment: Sequence[Any] | None = None,
    unit: Any = None,
) -> Events:
    """Events from columns of equal length, in the order in which they happened."""
    check_listed(problem)
    places = {name: k for k, name in enumerate(problem.names)}
    labels = [str(label) for label in arm]
    for label in labels:
        if label not in places:
            raise ProblemError(f"arm: got {shown(label)}; expected one of {', '.join(problem.names[:20])}")
    k = np.array([places[label] for label in labels], dtype=np.int64)
    rewards = _numbers("reward", reward, len(k))
    level = np.zeros(len(k), dtype=np.int64)
    for a in range(len(places)):
        level[k == a] = levels_of(problem, a, rewards[k == a])
    if propensity is None:
        share = np.bincount(k, minlength=len(places)) / max(len(k), 1)
        p = share[k]
    else:
        p = _numbers("propensity", propensity, len(k))
        if len(p) and not (p.min() > 0 and p.max() <= 1):
            worst = p[np.argmax((p <= 0) | (p > 1))]
            raise ProblemError(
                f"propensity: got {worst:g}; expected the probability of the arm that was shown, above 0, at most 1"
            )
    if not len(k):
        raise ProblemError("log: got no events; expected some")
    j = None if segment is None else label_places(problem, segment, len(k))
    who = None if unit is None else np.unique(np.asarray(unit), return_inverse=True)[1].astype(np.int64)
    if who is not None and who.shape != k.shape:
        raise ProblemError(f"unit: got {who.size} values; expected {len(k)}, one per event")
    return Events(problem, k, rewards, level, p, propensity is not None, j, who)


def reward_range(events: Events) -> tuple[Floats, Floats]:
    """The least and the most that each arm can pay, (K,) each: what bounds an interval.

    As the problem has it, or as the log shows it where that is more. What an arm can pay is not known where it was learned
    (it may never have paid what others did) or where its rewards were cut into levels: there all arms' rewards count.
    """
    arms, values = list(events.problem.arms.values()), channels_of(events.problem).values
    mine = [events.reward[events.arm == k] for k in range(len(arms))]
    low = np.array([min(v.min(), r.min(initial=np.inf)) for v, r in zip(values, mine, strict=True)])
    high = np.array([max(v.max(), r.max(initial=-np.inf)) for v, r in zip(values, mine, strict=True)])
    shared = np.array([isinstance(arm, Random) and (arm.observations is not None or arm.edges is not None) for arm in arms])
    return np.where(shared, low.min(), low), np.where(shared, high.max(), high)


def _likeliest_law(events: Events, mine: Any) -> Floats:
    """The likeliest law of X (J,) by the counts of some events."""
    known = evidence_of(events.problem)
    fit = native.FitState(channel_view(known.channels, known.low, known.span or 1.0))
    offset = known.channels.offset
    counts = np.bincount(offset[events.arm[mine]] + events.level[mine], minlength=int(offset[-1])).astype(float)
    fit.recall(counts, np.zeros(len(offset) - 1, dtype=bool))
    law = np.maximum(fit.likeliest(), 0.0)
    return np.asarray(law / law.sum())


def _drift(events: Events) -> list[str]:
    """Whether the arms' shares change along the log, or differ between segments: then they are no propensities."""
    count = len(events.problem.names)
    parts: list[tuple[str, Ints]] = [("along the log", np.arange(events.count) * 10 // events.count)]
    if events.segment is not None:
        parts.append(("between segments", events.segment))
    out = []
    for words, group in parts:
        table = np.zeros((int(group.max()) + 1, count))
        np.add.at(table, (group, events.arm), 1)
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        if min(table.shape) > 1 and stats.chi2_contingency(table).pvalue < 1e-4:
            out.append(f"the arms' shares differ {words}: without logged propensities, estimates are then biased")
    return out


def _numbers(field: str, values: Any, count: int) -> Floats:
    try:
        out = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"{field}: got {shown(values)}; expected numbers") from None
    if out.shape != (count,):
        raise ProblemError(f"{field}: got {out.size} values; expected {count}, one per event")
    if not np.isfinite(out).all():
        raise ProblemError(f"{field}: got {shown(float(out[np.argmin(np.isfinite(out))]))}; expected finite numbers")
    return out
