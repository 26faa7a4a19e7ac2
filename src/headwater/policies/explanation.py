"""Why a policy would choose what it would choose, arm by arm, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.policies.kernel import PULLS, TOTAL
from headwater.policies.rules import Spec


@dataclass(frozen=True)
class ArmLine:
    """One arm. ``pseudo_reward`` is its empirical pseudo-reward from the arm in ``measured_by``; ``index`` what ranks it."""

    name: str
    pulls: int
    mean: float | None
    index: float | None
    pseudo_reward: float | None
    measured_by: str | None
    excluded_by: str | None
    chosen: bool
    sentence: str


@dataclass(frozen=True)
class Explanation:
    """Every arm's line, and the arm that would be chosen. ``str()`` is for people, ``to_dict()`` for machines."""

    policy: str
    rounds: int
    chosen: str
    arms: tuple[ArmLine, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"policy": self.policy, "rounds": self.rounds, "chosen": self.chosen, "arms": [asdict(a) for a in self.arms]}

    def __str__(self) -> str:
        head = f"{self.policy} after {self.rounds} rewards would pull {self.chosen}."
        return "\n".join([head, *(f"  {line.name}: {line.sentence}" for line in self.arms)])


def explain(
    spec: Spec, names: Sequence[str], counts: Ints, sums: Ints, unit: float, index: Floats, chosen: int, rounds: int
) -> Explanation:
    """Explain a decision from the state it was made from; ``index`` is -inf for excluded arms. O(K²) at worst."""
    n, total = counts[PULLS], counts[TOTAL]
    references = _references(spec, n, rounds)
    means = np.array([t * unit / p if p else math.inf for t, p in zip(total.tolist(), n.tolist(), strict=True)])
    best = max(references, key=lambda k: (means[k], -k), default=None)
    lines = []
    for ell, name in enumerate(names):
        phi = {k: (total[k] - sums[k, ell]) * unit / n[k] for k in references if k != ell and n[k]}
        by = min(phi, key=lambda k: phi[k], default=None)
        excluded = by is not None and bool(np.isneginf(index[ell]))
        lines.append(
            ArmLine(
                name=name,
                pulls=int(n[ell]),
                mean=float(means[ell]) if n[ell] else None,
                index=float(index[ell]) if math.isfinite(index[ell]) else None,
                pseudo_reward=None if by is None else float(phi[by]),
                measured_by=None if by is None else names[by],
                excluded_by=names[by] if excluded and by is not None else None,
                chosen=ell == chosen,
                sentence=_sentence(ell == chosen, int(n[ell]), float(means[ell]), float(index[ell]), excluded)
                if not excluded or by is None or best is None
                else _exclusion(names[by], int(n[by]), float(phi[by]), names[best], float(means[best])),
            )
        )
    return Explanation(spec.title, rounds, names[chosen], tuple(lines))


def _references(spec: Spec, n: Ints, rounds: int) -> list[int]:
    if spec.reference == "none" or rounds == 0:
        return []
    if spec.reference == "most-pulled":
        return [int(np.argmax(n))]
    return np.flatnonzero(n * len(n) >= rounds).tolist()


def _exclusion(by: str, pulls: int, phi: float, best: str, mean: float) -> str:
    times = "the one pull" if pulls == 1 else f"the {pulls:,} pulls"
    return (
        f"excluded: in {times} of {by} it could not have averaged more than {phi:.4g}, which is less than the mean "
        f"{mean:.4g} of {best}."
    )


def _sentence(chosen: bool, pulls: int, mean: float, index: float, excluded: bool) -> str:
    lead = "chosen next: " if chosen else "in the running: "
    if pulls == 0 and math.isinf(index):
        return lead + "never pulled, so nothing speaks against it."
    if pulls == 0:
        return lead + f"its first reward is still pending; until then its index is {index:.4g}."
    return lead + f"mean {mean:.4g} over {pulls:,} pull{'s' if pulls > 1 else ''}, index {index:.4g}."
