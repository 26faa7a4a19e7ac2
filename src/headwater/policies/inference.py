"""What the counts say about X: its likeliest law, how likely each value may be, and what no number of these pulls can tell
apart.

An interval can be asked to hold in three ways, see :data:`HOLDS`. That each value's holds at this moment, or all of them do,
is ``profile``'s to say; that all hold at all times at once, ``anytime``'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from headwater import native
from headwater.arrays import Ints
from headwater.complaints import shown
from headwater.errors import ProblemError, SizeError
from headwater.policies.anytime import mixture_forecast
from headwater.policies.channel_view import channel_view
from headwater.policies.evidence import Evidence
from headwater.policies.profile import Profile

__all__ = ["HOLDS", "Holds", "LatentLaw", "Region", "Value", "check_holds", "latent_law"]

MAX_POINTS = 300
"""Values of X for which intervals are computed: a few solutions for each."""
Holds = Literal["each", "all", "always"]
HOLDS: dict[str, str] = {
    "each": "each value by itself, at this moment",
    "all": "all values at once, at this moment",
    "always": "all values at once, at all times",
}
"""What is to hold with the confidence stated."""
REFUTED = 1e-3
"""A misfit this improbable under every law of X contradicts the model: the guard's own default."""
STRANGE = 0.2
"""Learned laws may be as wrong of the public as laws learned from 1/STRANGE rewards; beyond, they contradict it."""


@dataclass(frozen=True)
class Value:
    """One value of X: its probability under the likeliest law, and the interval, nan where the model is contradicted."""

    name: str
    likeliest: float
    low: float
    high: float

    @property
    def stated(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    @property
    def open(self) -> bool:
        """Whether nothing can be said of it."""
        return self.high - self.low > 0.999


@dataclass(frozen=True)
class LatentLaw:
    """What is known of the law of X at ``confidence``, which ``holds`` for what :data:`HOLDS` says, however arms were chosen.

    ``alike`` lists values that look the same to every arm pulled so far: only their sum can be known. ``contradicted`` says
    that no law of X fits the rewards; then no intervals are stated. ``fit`` is how likely so large a misfit is where the model
    is right, at most; ``heterogeneity`` by how much arms pay otherwise than their learned laws say, beyond what these were
    known to be wrong by: as much as laws learned from 1/heterogeneity rewards. ``notes`` are sentences on all that.
    """

    confidence: float
    values: tuple[Value, ...]
    alike: tuple[Value, ...]
    groups: tuple[tuple[str, ...], ...]
    contradicted: bool
    holds: str = "each"
    fit: float = 1.0
    heterogeneity: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What the intervals are, in words."""
        return f"{100 * self.confidence:g} % confidence, {HOLDS[self.holds]}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: ``values`` and ``alike`` → name → likeliest, low, high; the ends are null where none are stated."""

        def table(rows: Sequence[Value]) -> dict[str, Any]:
            ends = [(v.low, v.high) if v.stated else (None, None) for v in rows]
            return {
                v.name: {"likeliest": v.likeliest, "low": low, "high": high} for v, (low, high) in zip(rows, ends, strict=True)
            }

        return {
            "confidence": self.confidence,
            "holds": self.holds,
            "kind": self.kind,
            "values": table(self.values),
            "alike": [{"values": list(group), **table([v])[v.name]} for group, v in zip(self.groups, self.alike, strict=True)],
            "contradicted": self.contradicted,
            "fit": self.fit,
            "heterogeneity": self.heterogeneity,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"The law of X ({self.kind}):"]
        if self.contradicted:
            lines = [self.notes[0], "The likeliest law all the same:"]
        lines += [f"  {v.name}: {_said(v)}" for v in self.values]
        for group, v in zip(self.groups, self.alike, strict=True):
            lines.append(f"  {_names(group)} look the same to every arm pulled so far: together {_said(v)}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes[self.contradicted :])])


def _said(value: Value) -> str:
    return f"{value.likeliest:.3f}" + (f" ({value.low:.3f} to {value.high:.3f})" if value.stated else "")


def _names(group: Sequence[str]) -> str:
    if len(group) == 1:
        return group[0]
    shown = list(group) if len(group) <= 6 else [*group[:5], f"{len(group) - 5} more"]
    return ", ".join(shown[:-1]) + " and " + shown[-1]


def check_holds(holds: object) -> None:
    """Refuse what is no way to hold."""
    if holds not in get_args(Holds):
        raise ProblemError(f'holds: got {shown(holds)}; expected "each", "all" or "always"')


def latent_law(
    evidence: Evidence,
    seen: Ints,
    labels: Sequence[str],
    doubted: Ints,
    confidence: float,
    holds: Holds = "each",
    *,
    arms: Sequence[str] = (),
) -> LatentLaw:
    """What counts ``seen`` (K, M) say of the law of X; rewards of ``doubted`` arms (K,) are left out.

    ``arms`` (K,) are their names, for sentences. A few solutions of O(J³) at worst for each value.
    """
    channels = evidence.channels
    points = channels.g.shape[1]
    if points > MAX_POINTS:
        raise SizeError(f"latent: got {points:,} values of X; expected at most {MAX_POINTS}, for each has an interval to find")
    counts = np.zeros(int(channels.offset[-1]))
    for k in range(len(seen)):
        low, high = channels.offset[k : k + 2]
        counts[low:high] = 0 if doubted[k] else seen[k, : high - low]
    profile = Profile(channels, counts)
    if holds == "always" and profile.learned:
        raise ProblemError(
            'holds: got "always"; expected "each" or "all", for the channels were learned: what a control group leaves open '
            "stays so however many rewards come, and no interval that holds at all times is known for it"
        )
    groups = _alike(profile)
    asked = [[j] for j in range(points)] + [group for group in groups if len(group) > 1]
    region = Region(profile) if holds == "always" and profile.arms else None
    contradicted = _contradicted(profile) or (region is not None and region.slack(confidence) < 0)
    # Bonferroni; two values have one share
    sure = 1 - (1 - confidence) / max(len(asked) - (points == 2), 1) if holds == "all" else confidence
    found: dict[tuple[int, ...], Value] = {}
    for atoms in asked:
        name, mean = _names([labels[j] for j in atoms]), float(profile.p[atoms].sum())
        low, high = math.nan, math.nan
        if not contradicted:
            low, high = profile.interval(atoms, sure) if region is None else region.interval(atoms, confidence)
        found[tuple(atoms)] = Value(name, mean, min(low, mean), max(high, mean))
    values = [found[(j,)] for j in range(points)]
    alike = [group for group in groups if len(group) > 1]
    law = LatentLaw(
        confidence,
        tuple(values),
        tuple(found[tuple(group)] for group in alike),
        tuple(tuple(labels[j] for j in group) for group in alike),
        contradicted,
        holds,
        profile.fit,
        profile.heterogeneity,
    )
    names = [arms[k] for k in np.flatnonzero(doubted).tolist()] if len(arms) else []
    notes = _notes(law, names, pulled=bool(profile.arms))
    return replace(law, notes=tuple(notes))


def _contradicted(profile: Profile) -> bool:
    """Whether no law of X fits. Learned laws may be wrong; then it is how wrong that counts."""
    return profile.fit < REFUTED and (not profile.learned or profile.heterogeneity > STRANGE)


def _notes(law: LatentLaw, doubted: Sequence[str], *, pulled: bool) -> list[str]:
    """Sentences on what the intervals do not say."""
    if not pulled:
        return ["Nothing is known yet." if not doubted else "Nothing is known but from arms that contradict the model."]
    out = []
    rest = "the other rewards" if doubted else "these rewards"
    if law.contradicted:
        chance = "below 1 in 10,000" if law.fit < 1e-4 else f"{law.fit:.2g}"
        out.append(
            f"No law of X fits {rest}: the model is wrong about some arm. No intervals are stated. (Where the model is right, "
            f"the probability of such a misfit is {chance}.)"
        )
        if not doubted:
            out.append(
                "That no arm is doubted is no contradiction: a guard must be right at all times, allows for more where "
                "channels were learned, and some policies have none. This is a look at one moment."
            )
    elif law.heterogeneity > 0 and law.fit < 0.05:
        out.append(
            "Arms pay otherwise than their learned laws say, by as much as laws learned from "
            f"{1 / law.heterogeneity:,.0f} rewards are wrong. The intervals allow for that."
        )
    if doubted:
        rest = "" if law.contradicted else "; the others fit it"
        out.append(f"The rewards of {_names(doubted)} contradict the model and are left out{rest}.")
    unknown = [value.name for value in law.values if value.open]
    if unknown:
        out.append(f"Of {_names(unknown)} nothing can be said yet.")
    return out


def _alike(profile: Profile) -> list[list[int]]:
    """The values of X by their columns over the arms pulled so far."""
    points = len(profile.p)
    if not profile.arms:
        return [list(range(points))]
    found: dict[bytes, list[int]] = {}
    for j in range(points):
        found.setdefault(np.ascontiguousarray(profile.rows[:, j]).tobytes(), []).append(j)
    return list(found.values())


class Region:
    """The laws that hold at all times: those that forecasts have not refuted, see ``anytime``."""

    def __init__(self, profile: Profile) -> None:
        self.p, self.likelihood = profile.p, profile.likelihood
        self.counts, self.total = profile.counts, float(profile.counts.sum())
        fit = native.FitState(channel_view(profile.channels))
        fit.recall(profile.counts, np.zeros(len(profile.pulls), dtype=bool))
        used = np.isin(profile.arm, profile.arms)
        self.own = fit.forecast
        mixture = mixture_forecast(profile.rows, profile.counts[used], profile.p)
        self.forecast = float(np.logaddexp(self.own, mixture) - math.log(2))
        self.best = float(np.sum(np.where(self.counts > 0, self.counts * np.log(np.maximum(profile.z, 1e-300)), 0.0)))

    def slack(self, confidence: float) -> float:
        """How much less likely than the best a law may be; below 0 if forecasts have refuted every law."""
        return self.best - self.forecast - math.log1p(-confidence)

    def interval(self, atoms: list[int], confidence: float) -> tuple[float, float]:
        """By tilting the likeliest law towards and away from some values."""
        delta, ends = self.slack(confidence), []
        for sign in (1.0, -1.0):
            g = np.zeros(len(self.p))
            g[atoms] = sign
            z, theta, peak = self.likelihood.lift(self.counts, g, delta, self.best, self.p.copy())
            # the certified bound of the joint index, see its module
            drop = self.best - float(np.sum(np.where(self.counts > 0, self.counts * np.log(np.where(z > 0, z, 1.0)), 0.0)))
            ends.append((peak - self.total - drop + delta) / theta)
        return max(-ends[1], 0.0), min(ends[0], 1.0)
