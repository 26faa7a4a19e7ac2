"""What the page about a fit shows, as data: who likes what, what tells segments apart, and what to expect in new markets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from headwater.analysis import analyze
from headwater.arrays import Floats, Ints
from headwater.evaluation.replay import YARDSTICK
from headwater.fitting import Fit
from headwater.policies.rules import parse_spec
from headwater.simulation import Simulation, simulate

Progress = Callable[[str, float], None]

HORIZON = 5000
POLICIES = ("ucb1", parse_spec(YARDSTICK), "auto")
_WORK = 4000
"""Arms × levels × segments up to which 20 runs of each policy are simulated under each of 12 mixes; beyond, fewer."""


@dataclass(frozen=True)
class Telling:
    """What one reward tells about the segment.

    ``bits`` (K,): information between the segment, mixed as in the control group, and a reward of each arm; ``of``: the
    most there is to know. ``rewards[i, j]``: how many rewards of the most telling arm ``by[i, j]`` tell segments i and j apart
    with an error of 5 % (infinite where no arm does), both (J, J).
    """

    bits: Floats
    of: float
    rewards: Floats
    by: Ints


def tell_apart(fit: Fit) -> Telling:
    """How well each arm tells segments apart.

    >>> import headwater as hw
    >>> log = {"ad": ["a", "b"] * 100, "won": [1, 0, 0, 0] * 50, "who": ["x", "x", "y", "y"] * 50}
    >>> telling = tell_apart(hw.fit(log, arm="ad", reward="won", segment="who"))
    >>> telling.bits.round(1), float(telling.of), int(telling.by[0, 1])
    (array([1., 0.]), 1.0, 0)
    """
    p = fit.shares
    bits, closest = [], np.zeros((len(p), len(p)))
    closest[:], by = np.inf, np.zeros((len(p), len(p)), dtype=np.int64)
    for k, channel in enumerate(fit.channels):
        a = channel.probabilities
        law = p @ a
        bits.append(float(p @ xlogy(a, a / np.maximum(law, 1e-300)).sum(axis=1)) / np.log(2))
        root = np.sqrt(a)
        with np.errstate(divide="ignore"):
            needed = np.log(20) / abs(np.log(np.minimum(root @ root.T, 1.0)))  # Bhattacharyya's bound on the error
        better = needed < closest
        closest, by = np.where(better, needed, closest), np.where(better, k, by)
    entropy = float(-xlogy(p, p).sum() / np.log(2))
    return Telling(np.maximum(bits, 0), entropy, closest, by)


@dataclass(frozen=True)
class Market:
    """A mix of segments, (J,), and what to expect there: the best arm, those its rewards alone cannot rule out, and the mean
    regret of each policy at the horizon with its standard error.
    """

    title: str
    mix: Floats
    best: str
    competitive: list[str]
    regret: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Outlook:
    """Simulated markets; the first has the control group's own mix, and ``run`` is its simulation."""

    markets: list[Market]
    run: Simulation
    chosen: str

    @property
    def saving(self) -> Floats:
        """The share of UCB1's regret that remains in each market, (markets,); 1 where UCB1 has none."""
        pairs = [(market.regret["ucb1"][0], market.regret["auto"][0]) for market in self.markets]
        return np.array([auto / ucb1 if ucb1 > 0 else 1.0 for ucb1, auto in pairs])

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {
                "mix": [round(float(x), 6) for x in market.mix],
                "best": market.best,
                "competitive": market.competitive,
                "regret": {name: {"mean": mean, "se": se} for name, (mean, se) in market.regret.items()},
            }
            for market in self.markets
        ]
        return {"horizon": self.run.horizon, "replications": self.run.replications, "auto": self.chosen, "markets": rows}


def foresee(fit: Fit, *, seed: int = 0, progress: Progress | None = None) -> Outlook:
    """Simulate policies on the learned problem, in the control group's mix and in mixes drawn at random (Dirichlet, 0.5).

    All of it is what holds if the learned channels are right.
    """
    problem = fit.problem
    work = sum(channel.probabilities.size for channel in fit.channels)
    runs, count = (20, 12) if work <= _WORK else (6, 6)
    rng = np.random.default_rng(seed)
    mixes = [fit.shares, *rng.dirichlet(np.full(len(fit.segments), 0.5), count - 1)]
    markets: list[Market] = []
    first: Simulation | None = None
    for n, mix in enumerate(mixes):
        if progress is not None:
            progress(f"simulating market {n + 1} of {count}", n / count)
        law = (mix / mix.sum()).tolist()
        analysis = analyze(problem, law)
        run = simulate(problem, law, policies=list(POLICIES), horizon=HORIZON, replications=runs, seed=seed)
        first = first or run
        regret = {}
        titles = list(run.outcomes)
        for name, title in zip([*titles[:-1], "auto"], titles, strict=True):
            last = run.regret(title)[:, -1]
            regret[name] = (float(last.mean()), float(last.std(ddof=1) / len(last) ** 0.5))
        title = "as in the control group" if n == 0 else f"market {n}"
        assert analysis.best is not None
        markets.append(Market(title, mix, analysis.best, analysis.competitive, regret))
    assert first is not None
    return Outlook(markets, first, list(first.outcomes)[-1])
