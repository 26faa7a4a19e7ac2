r"""What the paper's proofs rest on, beside simulations: the lemma on :math:`E_1`, and Theorem 5 with gaps that shrink.

:math:`E_1(t)` is the event that the best arm is excluded in round t + 1. The lemma says

.. math:: P(E_1(t)) \le t\,e^{-t \Delta_{\min}^2 / 2K}, \qquad \Delta_{\min} \text{ in units of B;}

its proof takes a sum over the K - 1 other arms for their largest term, so that K - 1 is missing before it.

Theorem 5 is about gaps that may be as small as one likes: :math:`c B \sqrt{\log T / T}` here, at several T and c. Of a fixed c,
regret over :math:`B \sqrt{T \log T}` is then to be flat in T; the largest over c is the worst case as far as it is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.claims import Check
from headwater.latent import Discrete
from headwater.paper import CASES, INVERTIBLE, SEED, Case, Panel
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.simulation import simulate

OVERLAP, REVEAL = "overlap", "reveal X"
"""Two sets of arms: of the first, no arm's rewards tell which is best; of the second, any reward tells what all would pay."""
GAPS = (0.5, 1.0, 2.0, 4.0)
"""c: gaps in units of B sqrt(log T / T)."""
RUNS = {1_000: 200, 10_000: 100, 100_000: 32, 1_000_000: 8}
"""Runs at each horizon T."""
POLICIES = ("ucb1", "c-ucb")
FLAT = 0.25
"""How much the worst ratio may change, as a part of itself, from the last horizon but two to the last and be called flat."""


class Exclusion(NamedTuple):
    """How often C-UCB excluded the best arm of a case in rounds ``since`` to ``until``, and what the lemma allows.

    ``share`` of these rounds, with its standard error over runs; ``runs``: the share of runs in which that happened at all;
    ``printed`` and ``corrected`` are the means of the lemma's bound over these rounds, 1 at most, without and with the factor
    K - 1. ``says``: the round from which on the corrected one is below 1, so that it says something.
    """

    case: str
    since: int
    until: int
    share: float
    error: float
    runs: float
    printed: float
    corrected: float
    says: int


class Small(NamedTuple):
    """Mean regret over B sqrt(T log T), and its standard error, where all gaps are ``scale`` B sqrt(log T / T)."""

    arms: str
    horizon: int
    scale: float
    gap: float
    policy: str
    replications: int
    ratio: float
    error: float


@dataclass(frozen=True)
class Proofs:
    """Both, and the statements that they decide."""

    exclusions: tuple[Exclusion, ...]
    small: tuple[Small, ...]
    checks: tuple[Check, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "exclusions": [row._asdict() for row in self.exclusions],
            "shrinking_gaps": [row._asdict() for row in self.small],
            "checks": [check.to_dict() for check in self.checks],
        }


def look_at_proofs(
    panels: Sequence[Panel], *, scale: float = 1.0, progress: Callable[[str, float], None] | None = None
) -> Proofs:
    """Count exclusions in the cases that were simulated, and simulate gaps that shrink. ``scale`` shortens horizons."""
    exclusions: list[Exclusion] = []
    simulated = [panel for panel in panels if panel.simulation is not None]
    for n, panel in enumerate(simulated):
        if progress is not None:
            progress(f"{panel.case.title}: exclusions", 0.3 * n / len(simulated))
        exclusions += exclusions_of(panel)
    small = shrinking(scale, None if progress is None else lambda title, share: progress(title, 0.3 + 0.7 * share))
    return Proofs(tuple(exclusions), tuple(small), (*_lemma(exclusions), *_theorem5(small)))


def exclusions_of(panel: Panel) -> list[Exclusion]:
    """Decade by decade of rounds: a shorter run is what the longer one was then."""
    run = panel.simulation
    assert run is not None
    problem, replications = panel.case.problem, len(run.regret("c-ucb"))
    count, gap = len(problem.names), min(float(np.min(run.gaps[run.gaps > 0])) / run.reward_range, 1.0)
    bound, says = lemma(np.arange(1, run.horizon + 1), gap, count), silent(gap, count) + 1
    before, since, rows = np.zeros(replications, dtype=np.int64), 1, []
    for until in [10**e for e in range(2, 12) if 10**e < run.horizon] + [run.horizon]:
        how: dict[str, Any] = {"horizon": until, "replications": replications, "seed": run.seed}
        found = run if until == run.horizon else simulate(problem, policies=["c-ucb"], **how)
        excluded = found.outcomes["c-ucb"].excluded[:, run.best]
        share = (excluded - before) / (until - since + 1)
        error = float(share.std(ddof=1)) / math.sqrt(replications) if replications > 1 else 0.0
        low, high = (float(np.minimum(factor * bound[since - 1 : until], 1).mean()) for factor in (1, count - 1))
        ever = float((share > 0).mean())
        rows.append(Exclusion(panel.case.id, since, until, float(share.mean()), error, ever, low, high, says))
        before, since = excluded, until + 1
    return rows


def lemma(t: Any, gap: float, count: int) -> Floats:
    """The lemma's bound on P(E1(t)) as printed; ``gap`` in units of B.

    >>> lemma([1, 10_000], 0.1, 3).round(6).tolist()
    [0.998335, 0.000578]
    """
    t = np.asarray(t, dtype=float)
    return np.asarray(t * np.exp(-t * gap**2 / (2 * count)))


def silent(gap: float, count: int) -> int:
    """The last round at which the lemma with its factor allows the best arm to be excluded for certain.

    >>> last = silent(0.1, 3)
    >>> last, bool(2 * lemma(last, 0.1, 3) >= 1), bool(2 * lemma(last + 1, 0.1, 3) >= 1)
    (5593, True, False)
    """
    low = math.ceil(2 * count / gap**2)  # from here on the bound falls
    high = 2 * low
    while (count - 1) * lemma(high, gap, count) >= 1:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (count - 1) * lemma(middle, gap, count) >= 1 else (low, middle)
    return low


def shrinking(scale: float = 1.0, progress: Callable[[str, float], None] | None = None) -> list[Small]:
    """Regret where gaps are c B sqrt(log T / T): on the arms of the discrete cases and on those of Example 1."""
    overlap = next(case for case in CASES if case.id == "discrete-3")
    horizons = {max(int(horizon * scale), 100): runs for horizon, runs in RUNS.items()}
    out = []
    steps = len(horizons) * 2
    for n, (horizon, runs) in enumerate((h, r) for _ in range(2) for h, r in horizons.items()):
        arms, case = ((OVERLAP, overlap), (REVEAL, INVERTIBLE))[n // len(horizons)]
        if progress is not None:
            progress(f"Gaps that shrink, arms that {arms}: {horizon:,} rounds", n / steps)
        for c in GAPS:
            out += _at(arms, case, horizon, runs, c)
    return out


def _at(arms: str, case: Case, horizon: int, runs: int, c: float) -> list[Small]:
    """Both policies at one T and c; nothing where no law of X makes the gaps so large."""
    width = model_of(case.problem).reward_range
    unit = math.sqrt(math.log(horizon) / horizon)
    law = law_with_gaps(case.problem.rewards, c * width * unit)
    if law is None:
        return []
    problem = Problem(latent=Discrete(list(range(len(law)))), arms=dict(case.problem.arms), distribution=law)
    how: dict[str, Any] = {"horizon": horizon, "replications": runs, "seed": SEED, "checkpoints": [horizon]}
    # on one thread: a few runs in lockstep cost hardly more than one, and would be parted between two
    found = simulate(problem, policies=POLICIES, engine="step", threads=1, **how)
    rows = []
    for policy in POLICIES:
        ratio = found.regret(policy)[:, -1] / (width * horizon * unit)
        error = float(ratio.std(ddof=1)) / math.sqrt(runs)
        rows.append(Small(arms, horizon, c, c * width * unit, policy, runs, float(ratio.mean()), error))
    return rows


def law_with_gaps(g: Floats, gap: float) -> Floats | None:
    """A law of X under which the last arm's mean is ``gap`` above every other's; None if there is none this way.

    It lies on the line through the law under which all arms tie that is farthest from the edge, in the shortest direction.

    >>> g = np.array([[0.0, 1, 2], [2, 0, 1], [1, 2, 0]])
    >>> (g @ law_with_gaps(g, 0.3)).round(6).tolist()
    [0.9, 0.9, 1.2]
    """
    from scipy.optimize import linprog

    j = g.shape[1]
    apart = np.vstack([g[-1] - g[:-1], np.ones(j)])
    level = np.append(np.zeros(len(g) - 1), 1.0)
    edge = linprog(
        np.append(np.zeros(j), -1.0),
        A_ub=np.hstack([-np.eye(j), np.ones((j, 1))]),
        b_ub=np.zeros(j),
        A_eq=np.hstack([apart, np.zeros((len(apart), 1))]),
        b_eq=level,
    )
    assert edge.x is not None, edge.message
    law = edge.x[:j] + gap * np.linalg.lstsq(apart, 1 - level)[0]
    return None if law.min() < 0 else np.asarray(law / law.sum())


def _lemma(rows: Sequence[Exclusion]) -> list[Check]:
    """Whether any share lies above the lemma's bound by more than chance allows."""
    if not rows:
        return []
    over = [row for row in rows if row.share - 4 * row.error > row.printed]
    late = max((row for row in rows if row.since >= row.says), key=lambda row: row.share, default=None)
    first = max(rows, key=lambda row: row.share)
    said = (
        f"in {'no case' if not over else ', '.join(row.case for row in over)} is the share of rounds above the bound's mean; "
    )
    said += f"it is {first.share:.0%} at most, in rounds {first.since:,} to {first.until:,} of {first.case}"
    said += "" if late is None else f"; where the bound is below 1 throughout it is at most {late.share:.2g}"
    return [Check("P(E1(t)), that the best arm is excluded, is at most t exp(-t Δmin²/2K)", said, not over)]


def worst(rows: Sequence[Small], arms: str, policy: str) -> dict[int, Small]:
    """The largest ratio over c at each horizon."""
    out: dict[int, Small] = {}
    for row in rows:
        if (row.arms, row.policy) == (arms, policy) and (row.horizon not in out or row.ratio > out[row.horizon].ratio):
            out[row.horizon] = row
    return out


def false_share(horizon: int) -> float:
    """For which share of t from 1 to T the proof of Theorem 5 takes t exp(-9 t log T / 2T) for at most t⁻² though it is more.

    >>> round(false_share(1000), 3)
    0.619
    """
    t = np.arange(1.0, horizon + 1)
    return float(np.mean(3 * np.log(t) > 4.5 * t * math.log(horizon) / horizon))


def _theorem5(rows: Sequence[Small]) -> list[Check]:
    found = worst(rows, OVERLAP, "c-ucb")
    ratios = [row.ratio for row in found.values()]
    horizons = list(found)
    change = abs(ratios[-1] / ratios[max(len(ratios) - 3, 0)] - 1)
    listed = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    flat = f"largest regret / B √(T log T) at T = {', '.join(f'{t:,}' for t in horizons)}: {listed}"
    share = false_share(horizons[-1])
    return [
        Check("Theorem 5: in the worst case C-UCB's regret is of the order √(T log T)", flat, change < FLAT),
        Check(
            "in its proof, t exp(-t δ²/2K) is at most t⁻² where δ is 3 √(K log T / T)",
            f"it is more for {share:.0%} of the t from 1 to T = {horizons[-1]:,}",
            share == 0,
        ),
        Check("in its proof, the sum of t⁻² is 1 + π²/3", f"π²/6 = {math.pi**2 / 6:.4f}, not {1 + math.pi**2 / 3:.4f}", False),
    ]
