"""Which arms matter: means, gaps, pseudo-gaps and competitive arms under a distribution; what holds under every one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.arrays import Floats
from headwater.complaints import Complaints
from headwater.distributions import Distribution, as_distribution
from headwater.dominance import Dominance, dominance
from headwater.errors import SizeError
from headwater.problem import Problem
from headwater.pseudo import Model, model_of

EDGE = 1e-12
"""Means and pseudo-gaps closer than this part of B are equal: then the best arm is not unique, the other arm competitive."""

MAX_FULL = 5000
"""Arms up to which what each says of each other is computed: 0.2 GB."""


@dataclass(frozen=True)
class Analysis:
    """What is known about a problem. Arrays are over arms, in the problem's order; NaN never stands in them.

    ``phi[ell, k]`` is NaN-free only when it was asked for in full; otherwise only column ``best`` is there (K, 1).
    Without a distribution everything up to ``error`` is ``None``, and ``dominance`` says what holds for every one.
    """

    arms: tuple[str, ...]
    reward_range: float
    invertible: tuple[str, ...]
    mu: Floats | None = None
    k_star: int | None = None
    unique: bool | None = None
    gap: Floats | None = None
    phi: Floats | None = None
    observed: tuple[int, ...] = ()
    pseudo_gap: Floats | None = None
    error: float | None = None
    dominance: Dominance | None = None

    @property
    def best(self) -> str | None:
        return None if self.k_star is None else self.arms[self.k_star]

    @property
    def tied(self) -> list[str]:
        """All arms whose mean is the best one, rounding aside."""
        return [] if self.gap is None else [name for name, gap in zip(self.arms, self.gap, strict=True) if gap == 0]

    @property
    def competitive(self) -> list[str]:
        """Arms that pulls of the best arm alone cannot rule out; the best arm itself is not counted."""
        return self._split(True)

    @property
    def non_competitive(self) -> list[str]:
        return self._split(False)

    def _split(self, wanted: bool) -> list[str]:
        if self.pseudo_gap is None:
            return []
        assert self.mu is not None
        edge = _edge(self.mu, self.reward_range, self.error or 0.0)
        return [name for ell, name in enumerate(self.arms) if ell != self.k_star and (self.pseudo_gap[ell] <= edge) == wanted]

    @property
    def advice(self) -> str:
        """One sentence that says what to expect."""
        if self.k_star is None:
            return _advice_without(self)
        others, out = len(self.arms) - 1, len(self.non_competitive)
        if self.unique is False:
            return "Two or more arms tie for the best: pulling either costs nothing, and the gaps say how much the others cost."
        if out == others:
            return f"{_all(others)} non-competitive: C-UCB's regret stays bounded, however long it runs."
        names = ", ".join(self.competitive[:5]) + (", …" if len(self.competitive) > 5 else "")
        if out == 0:
            return f"{_all(others)} competitive: C-UCB's regret grows like UCB1's, with log T."
        return (
            f"{out} of {others} other arms {'is' if out == 1 else 'are'} non-competitive and soon left alone; "
            f"C-UCB keeps exploring {names}: its regret grows with log T, but slower than UCB1's."
        )

    def to_dict(self) -> dict[str, Any]:
        """The analysis under its fixed JSON keys."""
        out: dict[str, Any] = {
            "arms": list(self.arms),
            "reward_range": self.reward_range,
            "reveal_x": list(self.invertible),
        }
        if self.mu is not None and self.gap is not None and self.phi is not None and self.pseudo_gap is not None:
            out |= {
                "best": self.best,
                "unique": self.unique,
                "means": self._named(self.mu),
                "gaps": self._named(self.gap),
                "pseudo_gaps": self._named(self.pseudo_gap),
                "expected_pseudo_rewards": {
                    target: {self.arms[k]: float(self.phi[ell, i]) for i, k in enumerate(self.observed)}
                    for ell, target in enumerate(self.arms)
                },
                "competitive": self.competitive,
                "non_competitive": self.non_competitive,
                "C": len(self.competitive),
                "error": self.error,
            }
        if self.dominance is not None:
            out["always_best"] = [self.arms[k] for k in self.dominance.always]
            out["never_best"] = {
                self.arms[ell]: {self.arms[k]: w for k, w in mixture.items()} for ell, mixture in self.dominance.never.items()
            }
            out["undecided"] = [self.arms[ell] for ell in self.dominance.undecided]
        return out | {"advice": self.advice}

    def _named(self, values: Floats) -> dict[str, float]:
        return dict(zip(self.arms, values.tolist(), strict=True))


def _edge(mu: Floats, reward_range: float, error: float) -> float:
    """Differences of means up to this are none: see ``EDGE``; a large mean also carries its own rounding."""
    return EDGE * reward_range + error + 16 * float(np.spacing(np.max(abs(mu))))


def _all(others: int) -> str:
    return {1: "The other arm is", 2: "Both other arms are"}.get(others, f"All {others} other arms are")


def _advice_without(analysis: Analysis) -> str:
    assert analysis.dominance is not None
    never, always = analysis.dominance.never, analysis.dominance.always
    if always:
        return f"{analysis.arms[always[0]]} is best whatever the distribution of X: there is nothing to learn."
    if never:
        names = ", ".join(analysis.arms[ell] for ell in list(never)[:5])
        return f"{names} can never be best, whatever the distribution of X: worth pulling only for what it tells about X."
    return "Which arm is best depends on the distribution of X; give one to see gaps and competitive arms."


def analyze(problem: Problem, distribution: Any = None, *, full: bool = False) -> Analysis:
    """Analyse a problem under ``distribution`` (default: the problem's own); without any, say what holds for every one.

    ``full`` computes φ for every observed arm, not only the best: O(K² J) instead of O(K J) on a listed support. An observed
    arm with a random reward takes a linear programme for each other arm. Noise kept in bins moves means by up to ``error``.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker", "retiree"]),
    ...                  arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> hw.analyze(ads, distribution=[.3, .4, .3]).non_competitive
    ['video']
    """
    model = model_of(problem)
    law = problem.distribution if distribution is None else read_distribution(problem, distribution)
    if full and model.count > MAX_FULL:
        raise SizeError(
            f"full: got {model.count:,} arms, which make {model.count**2:,} expected pseudo-rewards; expected at most "
            f"{MAX_FULL:,} arms. Leave full out: what the best arm says of the others is computed in any case."
        )
    reveal = tuple(name for name, yes in zip(problem.names, model.invertible(), strict=True) if yes)
    if law is None:
        return Analysis(problem.names, model.reward_range, reveal, dominance=dominance(problem))
    return _under(problem, model, law, reveal, full)


def read_distribution(problem: Problem, distribution: Any) -> Distribution:
    """What a user gave as the distribution, checked against the problem's support."""
    found = Complaints()
    law = as_distribution(problem.latent, distribution, found)
    found.raise_if_any()
    assert law is not None
    return law


def _clean(differences: Floats, rounding: float) -> Floats:
    """Differences that are nothing but rounding become exactly 0."""
    return np.where(abs(differences) <= rounding, 0.0, differences)


def gaps(problem: Problem, law: Distribution) -> tuple[Floats, int]:
    """How far below the best arm's mean each arm's is, and the best arm, the first of those that tie. O(K J) on listed X."""
    _, gap, k_star, _ = _gaps(model_of(problem), law)
    return gap, k_star


def _gaps(model: Model, law: Distribution) -> tuple[Floats, Floats, int, float]:
    mu, error = model.means(law)
    rounding = _edge(mu, model.reward_range, 0.0)
    k_star = int(np.argmax(mu >= mu.max() - rounding))
    return mu, _clean(mu[k_star] - mu, rounding), k_star, error


def _under(problem: Problem, model: Model, law: Distribution, reveal: tuple[str, ...], full: bool) -> Analysis:
    mu, gap, k_star, error = _gaps(model, law)
    rounding = _edge(mu, model.reward_range, 0.0)
    observed = tuple(range(model.count)) if full else (k_star,)
    phi = np.empty((model.count, len(observed)))
    for i, k in enumerate(observed):
        phi[:, i], miss = model.phi(k, law)
        phi[k, i] = mu[k]
        error = max(error, miss)
    pseudo_gap = _clean(mu[k_star] - phi[:, observed.index(k_star)], rounding)
    ties = np.sum(gap <= _edge(mu, model.reward_range, error))
    return Analysis(
        problem.names,
        model.reward_range,
        reveal,
        mu=mu,
        k_star=k_star,
        unique=bool(ties == 1),
        gap=gap,
        phi=phi,
        observed=observed,
        pseudo_gap=pseudo_gap,
        error=error,
    )
