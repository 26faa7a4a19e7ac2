"""What regret is guaranteed, by the paper's theorems as corrected, and what regret is possible, by the Graves-Lai programme."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from headwater.analysis import Analysis, analyze, read_distribution
from headwater.arrays import Bools, Floats
from headwater.errors import ProblemError, SizeError
from headwater.graves_lai import set_up, solve, theorem4
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.channels import channels_of
from headwater.pseudo.finite import FiniteModel

MAX_POINTS = 2_000
"""Points of a support: each Newton step solves a dense system of this size."""


class Guarantee(NamedTuple):
    """At most ``constant + log * log T``: pulls of an arm (Theorems 1 and 2), or regret (Theorem 3), under C-UCB.

    ``t0`` is the smallest whole number from 3 on that satisfies the theorem's condition, None where it has none.
    """

    theorem: int
    t0: int | None
    log: float
    constant: float


class WorstCase(NamedTuple):
    r"""Theorem 5: for given K and B, C-UCB's regret is of the ``order`` :math:`\sqrt{T \log T}` whatever the gaps.

    Also where gaps shrink as T grows. An order, and no constant: the paper's proof does not give one. It calls a gap large from
    ``large`` :math:`\sqrt{\log T / T}` on, which is :math:`3 K \sqrt K B`; here every gap is from round ``since`` on. From
    about there Theorem 3's log T says more.
    """

    theorem: int
    order: str
    large: float
    since: int
    scope: str = "given K and B, whatever the gaps, also gaps that shrink as T grows; no constant"
    proof: str = "the order holds; the paper's proof does not: its bound t^-2 fails for most t, and the sum of t^-2 is pi^2/6"


class Theorems(NamedTuple):
    """What the paper's Theorems 1, 2, 3 and 5 say of C-UCB, as corrected. ``pulls`` is empty and the rest None when best arms
    tie or a reward is random: they then say nothing."""

    pulls: dict[str, Guarantee]
    regret: Guarantee | None
    worst_case: WorstCase | None

    def to_dict(self) -> dict[str, Any]:
        """The theorems under their fixed JSON keys."""
        return {
            "pulls": {arm: guarantee._asdict() for arm, guarantee in self.pulls.items()},
            "regret": None if self.regret is None else self.regret._asdict(),
            "worst_case": None if self.worst_case is None else self.worst_case._asdict(),
        }


class Confusing(NamedTuple):
    """A law of X, ``q`` (J,), under which ``arm`` draws level with the best, and which pulls of the best arms cannot reveal.

    ``weight`` is its multiplier: the weights sum to the Graves-Lai constant.
    """

    arm: str
    weight: float
    q: Floats


@dataclass(frozen=True)
class Bounds:
    """What :func:`bounds` found, for rewards in the problem's own units.

    ``lower`` and ``upper`` are certified to enclose the Graves-Lai constant. ``exploration`` is feasible and costs ``upper``;
    the ``best`` arms are not in it: their pulls are free. ``theorem4`` is the paper's constant, for two arms only: with more
    it is not valid. ``theorem4_printed`` is what its formula gives for any number of arms. ``theorems`` are the others.
    """

    best: tuple[str, ...]
    lower: float
    upper: float
    exploration: dict[str, float]
    confusing: tuple[Confusing, ...]
    theorem4: float | None
    theorem4_printed: float
    theorems: Theorems

    @property
    def pulls(self) -> dict[str, Guarantee]:
        """Theorems 1 and 2, by arm."""
        return self.theorems.pulls

    @property
    def regret(self) -> Guarantee | None:
        """Theorem 3."""
        return self.theorems.regret

    @property
    def graves_lai(self) -> float:
        """The constant before log T that no policy's regret can beat: the lower of its certified ends."""
        return self.lower

    @property
    def gap(self) -> float:
        """How far the certified ends are apart, as a part of the upper."""
        return max(1 - self.lower / self.upper, 0.0) if self.upper else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The bounds under their fixed JSON keys."""
        return {
            "best": list(self.best),
            "unique": len(self.best) == 1,
            "graves_lai": self.graves_lai,
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "exploration": dict(self.exploration),
            "confusing": [{"arm": c.arm, "weight": c.weight, "distribution": c.q.tolist()} for c in self.confusing],
            "theorem4": self.theorem4,
            "theorem4_printed": self.theorem4_printed,
            "theorems": self.theorems.to_dict(),
        }


def bounds(problem: Problem, distribution: Any = None) -> Bounds:
    """The theorems' numbers and the Graves-Lai constant under ``distribution`` (default: the problem's own).

    For listed supports. A cutting-plane round costs O(K J³); 5 to 30 are usual. 20 arms on 100 points: a few seconds.

    >>> import headwater as hw
    >>> coins = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"safe": [1, 1, 1], "risky": [0, 1, 2]})
    >>> found = bounds(coins, [0.5, 0.25, 0.25])
    >>> round(found.graves_lai, 3), {arm: round(c, 2) for arm, c in found.exploration.items()}
    (5.886, {'risky': 23.54})
    """
    model = model_of(problem)
    if not isinstance(model, FiniteModel):
        raise ProblemError(f"latent: got {problem.latent.kind} X that is not listed; expected a listed support; quantise it")
    analysis = analyze(problem, distribution)
    law = problem.distribution if distribution is None else read_distribution(problem, distribution)
    if law is None or analysis.gap is None or analysis.mu is None:
        raise ProblemError("distribution: got none; expected the distribution of X, on which every bound depends")
    if (size := model.g.shape[1]) > MAX_POINTS:
        raise SizeError(f"bounds: got {size:,} latent values; expected at most {MAX_POINTS:,}. Merge values that pay alike")
    best = analysis.gap == 0
    channels = channels_of(problem)
    programme = set_up([channels.matrix(k) for k in range(model.count)], model.g, model.probabilities(law), best)
    with threadpool_limits(1):  # many small systems: threads that wait for each other made it a hundred times slower
        found = solve(programme)
    if not math.isfinite(found.upper):
        raise ProblemError("distribution: its probabilities are too extreme for certified bounds; drop what hardly occurs")
    others = [name for name, top in zip(problem.names, best, strict=True) if not top]
    printed = theorem4(programme)
    return Bounds(
        tuple(name for name, top in zip(problem.names, best, strict=True) if top),
        found.lower,
        found.upper,
        dict(zip(others, found.c.tolist(), strict=True)),
        tuple(Confusing(others[ell], weight, q) for ell, weight, q in found.confusing),
        printed if model.count == 2 else None,
        printed,
        theorems(problem, analysis),
    )


def theorems(problem: Problem, analysis: Analysis) -> Theorems:
    """What Theorems 1, 2, 3 and 5 say of C-UCB on a problem that was analysed under a distribution; for every kind of X.

    >>> import headwater as hw
    >>> coins = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"safe": [1, 1, 1], "risky": [0, 1, 2]})
    >>> found = theorems(coins, hw.analyze(coins, [0.5, 0.25, 0.25]))
    >>> found.pulls["risky"].theorem, found.pulls["risky"].log, found.worst_case.order
    (2, 512.0, 'sqrt(T log T)')
    """
    best = analysis.gap == 0 if analysis.gap is not None else np.zeros(0, dtype=bool)
    if not problem.deterministic or best.sum() != 1 or best.all():
        return Theorems({}, None, None)
    pulls, regret = _guarantees(analysis, best)
    return Theorems(pulls, regret, _worst_case(analysis, best))


def _worst_case(analysis: Analysis, best: Bools) -> WorstCase:
    r"""Theorem 5, whose order holds though its proof does not.

    The proof takes :math:`P(E_1, \dots, E_\ell) \le t e^{-t \delta^2 / 2K}` for at most :math:`t^{-2}` where
    :math:`\delta \ge 3 \sqrt{K \log T / T}`; it is more for most :math:`t \le T`. And :math:`\sum t^{-2}` is
    :math:`\pi^2/6`, not :math:`1 + \pi^2/3`.

    What holds, with gaps in units of B: let m be the most-pulled arm when arm k is pulled. If the best arm is a candidate, k's
    index is above its index. If not, k's is above m's, where :math:`\Delta_m \le \Delta_k / 2`; elsewhere m's rewards exclude
    the best arm against a pseudo-gap above :math:`\Delta_k / 2`, over at least t/K of them. The first two happen
    :math:`O(\log T / \Delta_k^2)` times. The last has at most the chance :math:`(K-1) e^{-t \Delta_k^2 / 8K}`, without the t,
    because averages of independent draws are a reversed martingale; over all rounds that is
    :math:`8 K (K-1) / \Delta_k^2`. So arm k costs at most :math:`\min(T \Delta_k, O(\log T / \Delta_k))`, which is
    :math:`O(\sqrt{T \log T})` whatever :math:`\Delta_k`.
    """
    assert analysis.gap is not None
    count, scale = len(best), max(analysis.reward_range, 1e-300)
    large = 3 * count**1.5
    least = min(float(np.min(analysis.gap[~best])) / scale, 1.0)
    return WorstCase(5, "sqrt(T log T)", large * analysis.reward_range, _first(large**2 / least**2))


def _guarantees(analysis: Analysis, best: Bools) -> tuple[dict[str, Guarantee], Guarantee | None]:
    r"""Theorems 1 to 3 for :math:`T \to \infty` in the terms that converge. With :math:`\Delta` the gaps divided by B:

    - 1, a non-competitive arm: :math:`K t_0 + 3 K (K-1) \sum_{t \ge K t_0} (K/t)^2 + \sum_t t^{-3}` pulls, given
      :math:`\tilde\Delta_k \ge 2\sqrt{2 K \log t_0 / t_0}` and :math:`\Delta_{\min} \ge 4\sqrt{K \log t_0 / t_0}`;
    - 2, a competitive arm: :math:`8 \log T / \Delta_k^2 + 1 + \pi^2/3 + (K-1) \sum_t t \exp(-t \Delta_{\min}^2 / 2K)` pulls.
      The paper lacks K-1. Theorem 1 does not need it: its condition makes that term :math:`(K-1) t^{-7} \le t^{-3}`;
    - 3, the regret: the sum of :math:`\Delta_k` (undivided) times these, with one :math:`t_0` for all non-competitive arms.
    """
    assert analysis.gap is not None and analysis.pseudo_gap is not None
    count, scale = len(best), max(analysis.reward_range, 1e-300)
    # in [0, 1] no gap is above 1; arms whose ranges lie apart may have larger ones, of which 1 is a true lower bound
    gap, pseudo_gap = (np.minimum(x, scale) / scale for x in (analysis.gap, analysis.pseudo_gap))
    least = float(np.min(gap[~best]))
    tail = (count - 1) / (4 * math.sinh(least**2 / (4 * count)) ** 2)  # sum of t exp(-a t) is 1 / (4 sinh(a/2)²)
    index = {name: k for k, name in enumerate(analysis.arms)}
    starts = {name: _first_round(count, least, float(pseudo_gap[index[name]])) for name in analysis.non_competitive}
    latest = max(starts.values(), default=None)
    pulls: dict[str, Guarantee] = {}
    log = constant = 0.0
    for name in (arm for arm, top in zip(analysis.arms, best, strict=True) if not top):
        k, t0 = index[name], starts.get(name)
        if t0 is None or latest is None:
            pull = worst = Guarantee(2, None, 8 / float(gap[k]) ** 2, 1 + math.pi**2 / 3 + tail)
        else:
            pull, worst = (Guarantee(1, t, 0.0, _bounded_pulls(count, t)) for t in (t0, latest))
        pulls[name] = pull
        log, constant = (
            total + float(analysis.gap[k]) * more for total, more in ((log, worst.log), (constant, worst.constant))
        )
    return pulls, Guarantee(3, latest, log, constant)


def _first_round(count: int, gap: float, pseudo_gap: float) -> int:
    """The smallest whole t0 >= 3 with t0 / log t0 at least 16 K / gap² and 8 K / pseudo_gap²: both grow from 3 on.

    >>> 3 * _first_round(3, 0.325 / 4, 0.325 / 4)
    246882
    """
    return _first(count * max(16 / gap**2, 8 / pseudo_gap**2))


def _first(need: float) -> int:
    """The smallest whole t >= 3 with t / log t at least ``need``."""
    low, high = 2, 3
    while high < need * math.log(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle < need * math.log(middle) else (low, middle)
    return high


def _bounded_pulls(count: int, t0: int) -> float:
    from scipy.special import zeta

    return count * t0 + 3 * count**3 * (count - 1) * float(zeta(2, count * t0)) + float(zeta(3))
