"""Things the paper says of a problem, and what comes out: each with the criterion by which it is checked.

Claims about curves and pulls are judged over the last half of the rounds (one doubling):

- regret is *flat* where C-UCB adds less than a tenth of what UCB1 adds there; it *flattens* if that is less than half;
- an arm is *explored* by a policy if it is not best and is pulled there at least once a run on average, and at least a tenth as
  often as by UCB1;
- *below*: the paired 95 % interval of C-UCB's regret less UCB1's lies under 0;
- *similar*: the means differ by less than a tenth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headwater.analysis import Analysis
from headwater.arrays import Floats
from headwater.latent import Continuous
from headwater.problem import Problem
from headwater.pseudo import model_of, pseudo_reward
from headwater.pseudo.finite import FiniteModel
from headwater.simulation import Simulation

Static = Literal["best", "competitive", "non_competitive", "gap", "sum", "samples", "exceeds", "identifies", "programme"]
Simulated = Literal["flat", "flattens", "grows", "below", "similar", "settles", "scales", "explores", "exploits"]


@dataclass(frozen=True)
class Claim:
    """One thing the paper says of a case: ``about`` names what is looked at, ``value`` what it should be."""

    says: str
    about: Static | Simulated
    value: Any = None


@dataclass(frozen=True)
class Check:
    """A claim beside what came out."""

    claim: str
    computed: str
    agrees: bool

    def to_dict(self) -> dict[str, Any]:
        return {"paper": self.claim, "computed": self.computed, "agrees": self.agrees}


def check(claim: Claim, problem: Problem, analysis: Analysis, run: Simulation | None) -> Check | None:
    """What comes out; None where that takes a simulation and there is none."""
    if claim.about in _STATIC:
        return _STATIC[claim.about](claim, problem, analysis)
    return None if run is None else _SIMULATED[claim.about](claim, run)


def _best(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    assert analysis.mu is not None
    means = ", ".join(f"{m:.4f}" for m in analysis.mu)
    return Check(claim.says, f"{analysis.best} (means {means})", analysis.best == claim.value)


def _gap(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    assert analysis.gap is not None
    arm, value = claim.value
    gap = float(analysis.gap[problem.index(arm)])
    return Check(claim.says, f"{gap:.4f}", abs(gap - value) < 1e-9)


def _sum(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    return Check(claim.says, f"{claim.value:.4f}", abs(claim.value - 1) < 1e-9)


def _standing(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    assert analysis.pseudo_gap is not None
    actual = analysis.competitive if claim.about == "competitive" else analysis.non_competitive
    gaps = ", ".join(f"{arm}: {analysis.pseudo_gap[problem.index(arm)]:+.4f}" for arm in claim.value)
    return Check(claim.says, f"pseudo-gap of {gaps}", set(claim.value) <= set(actual))


def _samples(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    """Pseudo-rewards are what the other arm would have paid, at every value of X and for every pair of arms."""
    off = 0.0
    for k in range(len(problem.names)):
        for ell in range(len(problem.names)):
            s = pseudo_reward(problem, target=ell, observed=k, reward=problem.rewards[k])
            off = max(off, float(np.max(abs(s - problem.rewards[ell]))))
    return Check(claim.says, f"pseudo-rewards and rewards differ by at most {off:.1g}, at every value of X", off < 1e-12)


def _exceeds(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    """At which rewards r of the observed arm the pseudo-reward s of the target is above r."""
    target, observed, reward = claim.value
    r = np.unique(problem.rewards[problem.index(observed)])
    s = np.asarray(pseudo_reward(problem, target=target, observed=observed, reward=r))
    words = [
        f"{word} {', '.join(f'{value:g}' for value in r[where])}"
        for word, where in (("above r at", s > r), ("equal at", s == r), ("below only at", s < r))
        if where.any()
    ]
    return Check(claim.says, f"s(r) is {', '.join(words)}", r[s > r].tolist() == [reward])


def _identifies(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    """Which values of X an arm pays a reward at."""
    observed, reward, label = claim.value
    latent = problem.latent
    assert not isinstance(latent, Continuous)
    points = [latent.label(int(j)) for j in np.flatnonzero(problem.rewards[problem.index(observed)] == reward)]
    return Check(claim.says, f"{observed} pays {reward:g} at {' and '.join(points)}", points == [label])


def _programme(claim: Claim, problem: Problem, analysis: Analysis) -> Check:
    """The pseudo-reward of linear arms on a box beside scipy's linear programme, at rewards from the least to the largest."""
    from scipy.optimize import linprog

    target, observed, slope = claim.value
    k, ell = problem.index(observed), problem.index(target)
    low, high = model_of(problem).ranges[k]
    rewards = np.linspace(low, high, 101)
    s = np.asarray(pseudo_reward(problem, target=target, observed=observed, reward=rewards))
    weights = np.asarray(slope, dtype=float)
    solved = [linprog(-weights[ell], A_eq=weights[k][None], b_eq=[r], bounds=(0, 1), method="highs").fun for r in rewards]
    off = float(np.max(abs(s + np.array(solved))))
    return Check(claim.says, f"at 101 rewards it is within {off:.1g} of the optimum that HiGHS finds", off < 1e-7)


_STATIC: dict[str, Callable[[Claim, Problem, Analysis], Check]] = {
    "best": _best,
    "competitive": _standing,
    "non_competitive": _standing,
    "gap": _gap,
    "sum": _sum,
    "samples": _samples,
    "exceeds": _exceeds,
    "identifies": _identifies,
    "programme": _programme,
}


def _half(run: Simulation) -> int:
    return int(np.searchsorted(run.rounds, run.horizon // 2))


def _since(run: Simulation) -> str:
    return f"from round {run.rounds[_half(run)]:,} to {run.horizon:,}"


def _growth(claim: Claim, run: Simulation) -> Check:
    half = _half(run)
    added = {name: float((run.regret(name)[:, -1] - run.regret(name)[:, half]).mean()) for name in ("ucb1", "c-ucb")}
    said = f"{_since(run)} C-UCB adds {added['c-ucb']:,.1f}, UCB1 {added['ucb1']:,.1f}"
    share = added["c-ucb"] / added["ucb1"]
    return Check(claim.says, said, {"flat": share < 0.1, "flattens": share < 0.5, "grows": share >= 0.1}[claim.about])


def _ends(run: Simulation) -> tuple[str, float, float]:
    mean, base = (float(run.regret(name)[:, -1].mean()) for name in ("c-ucb", "ucb1"))
    return f"C-UCB {mean:,.1f}, UCB1 {base:,.1f} after {run.horizon:,} rounds", mean, base


def _below(claim: Claim, run: Simulation) -> Check:
    found = run.compare("c-ucb", "ucb1")
    interval = f"difference {found.difference:,.1f} ({found.low:,.1f} to {found.high:,.1f}, 95 %)"
    return Check(claim.says, f"{_ends(run)[0]}; {interval}", found.high < 0)


def _similar(claim: Claim, run: Simulation) -> Check:
    said, mean, base = _ends(run)
    return Check(claim.says, f"{said}: {mean / base:.2f} times", 0.9 < mean / base < 1.1)


def _added_pulls(run: Simulation, policy: str) -> Floats:
    """How often each arm is pulled over the last half of the rounds, on average: (K,)."""
    pulls = run.outcomes[policy].pulls
    return np.asarray((pulls[:, -1] - pulls[:, _half(run)]).mean(axis=0))


def _explored(run: Simulation, policy: str) -> list[str]:
    mine, base = _added_pulls(run, policy), _added_pulls(run, "ucb1")
    found = (run.gaps > 0) & (mine >= 1) & (mine >= 0.1 * base)
    return [arm for arm, yes in zip(run.problem.names, found, strict=True) if yes]


def _pulls(claim: Claim, run: Simulation) -> Check:
    """Whether C-UCB goes on pulling an arm."""
    k = run.problem.index(claim.value)
    mine, base = (float(_added_pulls(run, policy)[k]) for policy in ("c-ucb", "ucb1"))
    said = f"{_since(run)} C-UCB pulls it {mine:,.1f} times, UCB1 {base:,.1f}"
    return Check(claim.says, said, (claim.value in _explored(run, "c-ucb")) == (claim.about == "scales"))


def _explores(claim: Claim, run: Simulation) -> Check:
    """Which arms a policy goes on exploring."""
    policy, arms = claim.value
    found, added = _explored(run, policy), _added_pulls(run, policy)
    parts = [f"{arm} {added[run.problem.index(arm)]:,.1f} times" for arm in run.problem.names if arm != _top(run)]
    said = f"it explores {' and '.join(found) or 'none'}: {_since(run)} it pulls {', '.join(parts)}; {_top(run)} is best"
    return Check(claim.says, said, set(found) == set(arms))


def _top(run: Simulation) -> str:
    return run.problem.names[run.best]


def _exploits(claim: Claim, run: Simulation) -> Check:
    """Pure exploitation of what every reward tells of every arm, where it tells all, beside UCB1."""
    regret = exploitation(run.problem, run.horizon, run.replications, run.seed)
    half = len(regret[0]) // 2
    added = float((regret[:, -1] - regret[:, half - 1]).mean())
    error = float(regret[:, -1].std(ddof=1)) / len(regret) ** 0.5
    base = float((run.regret("ucb1")[:, -1] - run.regret("ucb1")[:, _half(run)]).mean())
    said = f"{regret[:, -1].mean():.2f} ± {error:.2g} after {run.horizon:,} rounds, of which the last half adds {added:.2g}"
    return Check(claim.says, said, added < 0.1 * base)


def exploitation(problem: Problem, horizon: int, replications: int, seed: int) -> Floats:
    """Regret (N, T) of always pulling the arm that would have paid most so far, where any reward reveals X.

    >>> from headwater.latent import Discrete
    >>> coin = Problem(latent=Discrete([0, 1]), arms={"a": [0, 1], "b": [3, 2]}, distribution=[0.5, 0.5])
    >>> exploitation(coin, 4, 1, seed=1).tolist()
    [[2.0, 2.0, 2.0, 2.0]]
    """
    model, law, rng = model_of(problem), problem.distribution, np.random.default_rng(seed)
    assert isinstance(model, FiniteModel) and law is not None
    p = model.probabilities(law)
    gap = np.max(model.g @ p) - model.g @ p
    out = np.empty((replications, horizon))
    for n in range(replications):
        would = np.cumsum(model.g[:, rng.choice(len(p), size=horizon, p=p)], axis=1)
        chosen = np.append(0, np.argmax(would[:, :-1], axis=0))  # nothing is known before the first round
        out[n] = np.cumsum(gap[chosen])
    return out


_SIMULATED: dict[str, Callable[[Claim, Simulation], Check]] = {
    "flat": _growth,
    "flattens": _growth,
    "grows": _growth,
    "below": _below,
    "similar": _similar,
    "settles": _pulls,
    "scales": _pulls,
    "explores": _explores,
    "exploits": _exploits,
}
