"""What the picture of an analysis shows: the reward functions over X, how likely each X is, and the pseudo-gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwater.analysis import Analysis
from headwater.arrays import Floats
from headwater.distributions import Distribution, Finite, Independent, Named, Sample
from headwater.latent import Continuous, Discrete, Vector, listed
from headwater.problem import FAR, Function, Problem, spread
from headwater.pseudo import model_of
from headwater.regret_bounds import Bounds
from headwater.report.limits import sentences

FEW = 24
"""Up to this many points a support is drawn as labelled positions; above it, as a heat map."""
MAX_SHOWN = 200


@dataclass(frozen=True)
class AnalysisFigure:
    """``curves[k, i]`` is arm k's (mean) reward at ``x[i]``; ``weight`` the distribution there, if any.

    ``style``: "lines" (continuous X), "points" (few labelled values), "heat" (many), "ranges" (intervals of a vector:
    ``curves`` then holds each arm's least and largest reward).
    """

    title: str
    style: str
    arms: tuple[str, ...]
    x: Floats
    labels: tuple[str, ...]
    x_name: str
    curves: Floats
    weight: Floats | None
    means: Floats | None
    pseudo_gaps: Floats | None
    verdicts: tuple[str, ...]
    hidden: int
    advice: str
    y_name: str = "reward"
    possible: tuple[str, ...] = ()


def analysis_figure(
    problem: Problem, analysis: Analysis, distribution: Distribution | None, limits: Bounds | None = None
) -> AnalysisFigure:
    """Compute everything the picture needs. Large problems are thinned: ``hidden`` arms are not shown.

    ``possible`` says in words what regret the ``limits`` allow.
    """
    keep = _shown_arms(analysis)
    style, x, labels, curves, weight = _curves(problem, distribution)
    names = problem.latent.names
    return AnalysisFigure(
        title=problem.name or "Analysis",
        style=style,
        arms=tuple(analysis.arms[k] for k in keep),
        x=x,
        labels=labels,
        x_name=names[0] if len(names) == 1 else f"({', '.join(names[:4])}{', …' if len(names) > 4 else ''})" if names else "x",
        curves=curves[keep],
        weight=weight,
        means=None if analysis.mu is None else analysis.mu[keep],
        pseudo_gaps=None if analysis.pseudo_gap is None else analysis.pseudo_gap[keep],
        verdicts=tuple(_verdict(analysis, k) for k in keep),
        hidden=len(analysis.arms) - len(keep),
        advice=analysis.advice,
        y_name="reward" if problem.deterministic else "mean reward",
        possible=() if limits is None else tuple(sentences(problem, limits)),
    )


def _shown_arms(analysis: Analysis, most: int = 12) -> list[int]:
    """All arms, or the twelve with the best means in the problem's order."""
    if len(analysis.arms) <= most:
        return list(range(len(analysis.arms)))
    if analysis.mu is None:
        return list(range(most))
    return sorted(np.argsort(-analysis.mu, kind="stable")[:most].tolist())


def _verdict(analysis: Analysis, k: int) -> str:
    name = analysis.arms[k]
    if name in analysis.tied:
        return "best" if len(analysis.tied) == 1 else "best (tied)"
    return "competitive" if name in analysis.competitive else "non-competitive"


_Curves = tuple[str, Floats, tuple[str, ...], Floats, Floats | None]


def _curves(problem: Problem, distribution: Distribution | None) -> _Curves:
    latent = problem.latent
    if isinstance(latent, Continuous):
        return _continuous(problem, latent, distribution)
    if not listed(latent):
        assert isinstance(latent, Vector)
        ranges = model_of(problem).ranges
        return "ranges", np.arange(2.0), ("least", "largest"), ranges, None
    weight = _listed_weight(latent, distribution)
    g, j = problem.rewards, latent.size
    if j <= FEW:
        return "points", np.arange(float(j)), tuple(latent.label(i) for i in range(j)), g, weight
    at = np.unique(np.linspace(0, j - 1, min(j, MAX_SHOWN)).astype(int))
    return (
        "heat",
        at.astype(float),
        tuple(latent.label(int(i)) for i in at),
        g[:, at],
        None if weight is None else weight[at],
    )


def _listed_weight(latent: Discrete | Vector, distribution: Distribution | None) -> Floats | None:
    if isinstance(distribution, Finite):
        return distribution.p
    if isinstance(distribution, Independent):
        return distribution.joint()
    if isinstance(distribution, Sample) and isinstance(latent, Vector):
        at = latent.number(distribution.points)
        return np.asarray(np.bincount(at, weights=distribution.weights, minlength=latent.size), dtype=float)
    return None


def _continuous(problem: Problem, latent: Continuous, distribution: Distribution | None) -> _Curves:
    low, high = latent.support
    if isinstance(distribution, Named) and (np.isinf(low) or np.isinf(high)):
        low, high = (float(v) for v in distribution.quantile(np.array([0.001, 0.999])))
    x = spread(low, high, np.linspace(0, 1, 801))
    x = x[abs(x) < FAR]
    if np.isinf(low) or np.isinf(high):
        x = x[(x > -20) & (x < 20)]
    arms = [arm if isinstance(arm, Function) else arm.expression for arm in problem.arms.values()]  # type: ignore[union-attr]
    curves = np.stack([arm(x) for arm in arms])
    # a jump is not a slope: the line breaks there
    curves[:, :-1][abs(np.diff(curves, axis=1)) > 0.2 * max(float(np.ptp(curves)), 1e-300)] = np.nan
    weight = None
    if isinstance(distribution, Named):
        weight = np.minimum(distribution.density(x), 1e6)
        weight[~np.isfinite(weight)] = np.max(weight[np.isfinite(weight)], initial=0.0)
    elif isinstance(distribution, Sample):
        counts, edges = np.histogram(distribution.points[0], bins=60, weights=distribution.weights, density=True)
        weight = counts[np.clip(np.searchsorted(edges, x, side="right") - 1, 0, 59)]
    return "lines", x, (), curves, weight
