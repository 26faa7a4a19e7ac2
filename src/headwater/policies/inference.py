"""What the counts say about X: its likeliest law, how likely each value may be, and what no number of these pulls can tell
apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.errors import SizeError
from headwater.policies.evidence import Evidence
from headwater.policies.joint import lift
from headwater.policies.lens import Lens, make_lens
from headwater.policies.mind import BEST, FORECAST, Mind, likeliest, make_mind, relearn

MAX_POINTS = 300
"""Values of X for which intervals are computed: two solutions for each."""


@dataclass(frozen=True)
class Value:
    """One value of X: its probability under the likeliest law, and the interval that the evidence allows."""

    name: str
    likeliest: float
    low: float
    high: float


@dataclass(frozen=True)
class LatentLaw:
    """What is known of the law of X at ``confidence``, which holds at all times at once, however the arms were chosen.

    ``alike`` lists values that look the same to every arm pulled so far: only their sum can be known. ``contradicted`` says
    that no law of X fits the rewards; the intervals then mean nothing and are 0 to 1.
    """

    confidence: float
    values: tuple[Value, ...]
    alike: tuple[Value, ...]
    groups: tuple[tuple[str, ...], ...]
    contradicted: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: ``values`` and ``alike`` → name → likeliest, low, high."""

        def table(rows: Sequence[Value]) -> dict[str, Any]:
            return {v.name: {"likeliest": v.likeliest, "low": v.low, "high": v.high} for v in rows}

        return {
            "confidence": self.confidence,
            "values": table(self.values),
            "alike": [{"values": list(group), **table([v])[v.name]} for group, v in zip(self.groups, self.alike, strict=True)],
            "contradicted": self.contradicted,
        }

    def __str__(self) -> str:
        head = f"The law of X ({100 * self.confidence:g} % confidence, at all times at once):"
        if self.contradicted:
            head = "No law of X fits these rewards: the model is wrong about some arm."
        lines = [f"  {v.name}: {v.likeliest:.3f} ({v.low:.3f} to {v.high:.3f})" for v in self.values]
        for group, v in zip(self.groups, self.alike, strict=True):
            together = f"together {v.likeliest:.3f} ({v.low:.3f} to {v.high:.3f})"
            lines.append(f"  {_names(group)} look the same to every arm pulled so far: {together}")
        return "\n".join([head, *lines])


def _names(group: Sequence[str]) -> str:
    shown = list(group) if len(group) <= 6 else [*group[:5], f"{len(group) - 5} more"]
    return ", ".join(shown[:-1]) + " and " + shown[-1]


def latent_law(evidence: Evidence, seen: Ints, labels: Sequence[str], doubted: Ints, confidence: float) -> LatentLaw:
    """What counts ``seen`` (K, M) say of the law of X; rewards of ``doubted`` arms (K,) are left out.

    Intervals by tilting the likeliest law towards and away from each value: about 2 J solutions of O(J³) at worst.
    """
    points = evidence.channels.g.shape[1]
    if points > MAX_POINTS:
        raise SizeError(f"latent: got {points:,} values of X; expected at most {MAX_POINTS}, for each has an interval to find")
    lens = make_lens(evidence.channels, evidence.low, evidence.span)
    mind = make_mind(lens)
    for k in range(len(seen)):
        low, high = lens.offset[k : k + 2]
        mind.n[low:high] = seen[k, : high - low]
    mind.doubted[:] = doubted
    relearn(lens, mind)
    p = likeliest(lens, mind).copy()
    # the forecast has not refuted the laws whose likelihood is above its own less log(1/alpha)
    delta = float(mind.whole[BEST] - mind.whole[FORECAST] - math.log1p(-confidence)) if mind.pulls.any() else math.inf
    groups = [g for g in _alike(lens, mind) if len(g) > 1]

    def value(name: str, atoms: list[int]) -> Value:
        low, high = _interval(lens, mind, p, atoms, delta)
        mean = float(p[atoms].sum())
        return Value(name, mean, min(low, mean), max(high, mean))

    return LatentLaw(
        confidence,
        tuple(value(name, [j]) for j, name in enumerate(labels)),
        tuple(value(_names([labels[j] for j in group]), group) for group in groups),
        tuple(tuple(labels[j] for j in group) for group in groups),
        delta < 0,
    )


def _interval(lens: Lens, mind: Mind, p: Floats, atoms: list[int], delta: float) -> tuple[float, float]:
    if not 0 < delta < math.inf:
        return 0.0, 1.0
    ends = []
    for sign in (1.0, -1.0):
        g = np.zeros(len(p))
        g[atoms] = sign
        law, z = p.copy(), np.zeros(len(mind.n))
        total, best = float(mind.pulls.sum()), float(mind.whole[BEST])
        theta = lift(lens, mind.n, total, g, delta, best, law, z)
        grad = lens.atoms[0]
        # the certified bound of the joint index, see its module
        drop = best - float(np.sum(np.where(mind.n > 0, mind.n * np.log(np.where(mind.n > 0, z, 1.0)), 0.0)))
        ends.append((float(grad.max()) - total - drop + delta) / theta)
    return max(-ends[1], 0.0), min(ends[0], 1.0)


def _alike(lens: Lens, mind: Mind) -> list[list[int]]:
    """The values of X by their columns over the arms pulled so far."""
    arm = np.searchsorted(lens.offset, lens.row, side="right") - 1
    used = mind.pulls[arm] > 0
    found: dict[bytes, list[int]] = {}
    for j in range(lens.g.shape[1]):
        entries = slice(lens.start[j], lens.start[j + 1])
        mine = used[entries]
        key = lens.row[entries][mine].tobytes() + lens.weight[entries][mine].tobytes()
        found.setdefault(key, []).append(j)
    return list(found.values())
