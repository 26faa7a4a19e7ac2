"""Why a policy would choose what it would choose, arm by arm, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater import native
from headwater.arrays import Ints
from headwater.policies.evidence import Evidence
from headwater.policies.inference import LatentLaw
from headwater.policies.rules import EpsilonGreedy, JointUCB, LatentThompson, Spec, Uniform

if TYPE_CHECKING:
    from headwater.policies.live import Counts

SHOWN = 40
"""Arms up to which an explanation in words has a line for each."""


@dataclass(frozen=True)
class ArmLine:
    """One arm. ``pseudo_reward`` is its empirical pseudo-reward from the arm in ``measured_by``; ``index`` what ranks it,
    None where it is excluded, or where a lot decides.

    An arm that is excluded and chosen all the same is audited. Where a policy learns the law of X, ``pseudo_reward`` is the
    arm's mean under the likeliest one, and ``excluded_by`` the arm that is best under it.
    """

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
    """Every arm's line, and the arm that would be chosen. ``str()`` is for people, ``to_dict()`` for machines.

    ``doubted`` are the arms that fit worst where rewards contradict the model, ``suspects`` all that it may be wrong about;
    ``latent`` is what a policy that learns it knows of the law of X.
    """

    policy: str
    rounds: int
    chosen: str
    arms: tuple[ArmLine, ...]
    doubted: tuple[str, ...] = ()
    latent: LatentLaw | None = None
    suspects: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "rounds": self.rounds,
            "chosen": self.chosen,
            "arms": [asdict(a) for a in self.arms],
            "doubted": list(self.doubted),
            "suspects": list(self.suspects),
            "latent": None if self.latent is None else self.latent.to_dict(),
        }

    def __str__(self) -> str:
        head = f"{self.policy} after {self.rounds} rewards would pull {self.chosen}."
        # of many arms, those that matter most: the chosen one, then by how often they were pulled
        some = {line.name for line in sorted(self.arms, key=lambda line: (not line.chosen, -line.pulls))[:SHOWN]}
        lines = [head, *(f"  {line.name}: {line.sentence}" for line in self.arms if line.name in some)]
        lines += [f"  … {len(self.arms) - SHOWN:,} more arms; to_dict() has them all."] if len(self.arms) > SHOWN else []
        return "\n".join(lines if self.latent is None else [*lines, str(self.latent)])


def explain(
    spec: Spec,
    names: Sequence[str],
    known: Counts,
    sums: Ints | Mapping[int, Ints],
    unit: float,
    ahead: Counts,
    chosen: int,
    rounds: int,
    off: Ints,
) -> Explanation:
    """Explain a decision from the state it was made from; ``ahead.ranks`` is -inf for excluded arms. O(K²) at worst.

    ``off`` (K,) is 1 for arms that are switched off.

    ``sums[k]`` is needed of the arms that may exclude others.
    An arm is judged by the mean of its likeliest law: what it paid on average, unless no law of X explains its rewards.
    """
    n, fitted, by_lot = known.pulls, known.total + known.shift, _is_by_lot(spec, ahead, chosen, off)
    index = ahead.mean if isinstance(spec.rule, EpsilonGreedy) else ahead.ranks
    references = _references(spec, np.where(off > 0, -1, n), len(off) - int(off.sum()))
    paid, means = (
        np.array([t * unit / p if p else math.inf for t, p in zip(row.tolist(), n.tolist(), strict=True)])
        for row in (known.total, fitted)
    )
    best = max(references, key=lambda k: (means[k], -k), default=None)
    lines = []
    for ell, name in enumerate(names):
        phi = {k: (fitted[k] - sums[k][ell]) * unit / n[k] for k in references if k != ell and n[k]}
        by = min(phi, key=lambda k: phi[k], default=None)
        excluded = by is not None and bool(np.isneginf(index[ell]))
        if off[ell]:
            by, excluded, sentence = None, False, _switched_off(int(n[ell]), float(paid[ell]) if n[ell] else None)
        elif by_lot:
            sentence = _lot(spec, ell == chosen, int(n[ell]), float(paid[ell]) if n[ell] else None)
        elif not excluded or by is None or best is None:
            sentence = _sentence(spec, ell == chosen, int(n[ell]), float(paid[ell]), float(index[ell]))
        else:
            judged = (names[best], float(means[best]), bool(known.shift[best]))
            sentence = _exclusion(names[by], int(n[by]), float(phi[by]), *judged)
            sentence = _audit(int(n[ell] + ahead.pending[ell]), sentence) if ell == chosen else sentence
        lines.append(
            ArmLine(
                name=name,
                pulls=int(n[ell]),
                mean=float(paid[ell]) if n[ell] else None,
                index=float(index[ell]) if math.isfinite(index[ell]) and not (off[ell] or by_lot) else None,
                pseudo_reward=None if by is None else float(phi[by]),
                measured_by=None if by is None else names[by],
                excluded_by=names[by] if excluded and by is not None else None,
                chosen=ell == chosen,
                sentence=sentence,
            )
        )
    return Explanation(spec.title, rounds, names[chosen], tuple(lines))


def _is_by_lot(spec: Spec, ahead: Counts, chosen: int, off: Ints) -> bool:
    """Whether the arm was chosen by lot, so that what ranks the arms says nothing of them."""
    if isinstance(spec.rule, EpsilonGreedy) and math.isfinite(ahead.mean[chosen]):
        return not np.array_equal(ahead.ranks[off == 0], ahead.mean[off == 0])
    return isinstance(spec.rule, Uniform)


def _references(spec: Spec, n: Ints, arms: int) -> list[int]:
    """The arms that may exclude others: ``n`` (K,) pulls, -1 for those that are switched off; ``arms`` are not."""
    rounds = int(n[n > 0].sum())
    if spec.reference == "none" or rounds == 0:
        return []
    if spec.reference == "most-pulled":
        return [int(np.argmax(n))]
    return np.flatnonzero(n * arms >= rounds).tolist()


def _switched_off(pulls: int, mean: float | None) -> str:
    return f"switched off: {_own(pulls, mean)}."


def _own(pulls: int, mean: float | None) -> str:
    return "never pulled" if mean is None else f"mean {mean:.4g} over {pulls:,} pull{'s' if pulls > 1 else ''}"


def _exclusion(by: str, pulls: int, phi: float, best: str, mean: float, shifted: bool) -> str:
    times = "the one pull" if pulls == 1 else f"the {pulls:,} pulls"
    which = "the likeliest mean" if shifted else "the mean"
    return (
        f"excluded: in {times} of {by} it could not have averaged more than {phi:.4g}, which is less than {which} "
        f"{mean:.4g} of {best}."
    )


def _audit(pulls: int, exclusion: str) -> str:
    own = "it was never pulled" if pulls == 0 else f"its own {pulls:,} pull{'s' if pulls > 1 else ''} cannot rule it out yet"
    return f"chosen next as an audit, because {own}; otherwise {exclusion}"


def _sentence(spec: Spec, chosen: bool, pulls: int, mean: float, index: float) -> str:
    lead = "chosen next: " if chosen else "in the running: "
    greedy = isinstance(spec.rule, EpsilonGreedy)
    if pulls == 0 and math.isinf(index):
        return lead + "never pulled, so nothing speaks against it."
    if pulls == 0:
        what = "mean" if greedy else "index"
        return lead + f"its first reward is still pending; until then its {what} is {index:.4g}."
    own = lead + _own(pulls, mean)
    if greedy:
        return own + (", the largest." if chosen else ".")
    return own + f", index {index:.4g}."


def _lot(spec: Spec, chosen: bool, pulls: int, mean: float | None) -> str:
    share = f", as {100 * spec.rule.epsilon:.3g} % of the rounds are" if isinstance(spec.rule, EpsilonGreedy) else ""
    lead = f"chosen next: by lot{share}, every arm having the same chance" if chosen else "in the running: with the same chance"
    return f"{lead}; {_own(pulls, mean)}."


def explain_learner(
    spec: Spec,
    names: Sequence[str],
    ahead: Counts,
    learner: native.Live,
    evidence: Evidence,
    chosen: int,
    rounds: int,
    latent: LatentLaw | None,
    off: Ints,
) -> Explanation:
    """Explain a decision of a policy that learns the law of X, from the state it was made from. O(K).

    ``off`` (K,) is 1 for arms that are switched off.
    """
    n, g = ahead.pulls, evidence.channels.g
    distrusted = np.isin(np.arange(len(names)), learner.doubted())
    likely = evidence.low + (g - evidence.low) @ learner.likeliest()
    best = int(np.argmax(np.where(distrusted | (off > 0), -np.inf, likely))) if n.any() else chosen
    errors = ""  # what the index of joint-ucb includes
    if isinstance(spec.rule, JointUCB) and spec.rule.tolerance > 0 and evidence.channels.error.size:
        errors = f", {spec.rule.tolerance:g} standard errors of the learned means included"
    lines = []
    for k, name in enumerate(names):
        mean = float(ahead.mean[k]) if n[k] else None
        if off[k]:
            lines.append(
                ArmLine(name, int(n[k]), mean, None, float(likely[k]), None, None, False, _switched_off(int(n[k]), mean))
            )
            continue
        bounded = isinstance(spec.rule, JointUCB) and not distrusted[k] and n.any()
        excluded = bounded and k != best and float(ahead.ranks[k]) < likely[best]
        told = (int(n[k]), mean, float(ahead.ranks[k]), float(likely[k]))
        sentence = _learned(spec, k == chosen, *told, errors, bool(distrusted[k]))
        if excluded:
            sentence = (
                f"ruled out: under no law of X that the rewards allow does it average more than {ahead.ranks[k]:.4g}{errors}, "
                f"which is less than the {likely[best]:.4g} of {names[best]} under the likeliest."
            )
            sentence = _audit(int(n[k] + ahead.pending[k]), sentence) if k == chosen else sentence
        by = names[best] if excluded else None
        index = float(ahead.ranks[k])
        lines.append(ArmLine(name, int(n[k]), mean, index, float(likely[k]), None, by, k == chosen, sentence))
    doubted = tuple(names[k] for k in np.flatnonzero(distrusted).tolist())
    return Explanation(spec.title, rounds, names[chosen], tuple(lines), doubted, latent)


def _learned(
    spec: Spec, chosen: bool, pulls: int, mean: float | None, index: float, likely: float, errors: str, doubted: bool
) -> str:
    lead = "chosen next: " if chosen else "in the running: "
    own = _own(pulls, mean)
    if doubted:
        return f"{lead}rewards contradict the model, which it fits worst, so only its own count: {own}."
    if isinstance(spec.rule, JointUCB):
        most = f"at most {index:.4g} under any that the rewards allow{errors}"
        return f"{lead}{own}; {likely:.4g} under the likeliest law of X, {most}."
    if isinstance(spec.rule, LatentThompson):
        return f"{lead}{own}; {likely:.4g} under the likeliest law of X, {index:.4g} under the law drawn."
    return f"{lead}{own}; {likely:.4g} under the likeliest law of X."
