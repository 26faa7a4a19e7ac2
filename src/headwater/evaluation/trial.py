"""The whole way on a table of ratings: learn from half of the people, then replay policies on the other half in new markets.

Segments and channels are learned from everything the control group rated. Each draw takes some of the arms at random and a
random mix of segments, so that the best arm differs from draw to draw and the mix from the control group's. Nothing of the
held-out half is used in learning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.errors import ProblemError
from headwater.evaluation.people import People, at_random, levels_of, make_people
from headwater.evaluation.replay import THOMPSON, YARDSTICK, Market, named_specs, replay, replay_started
from headwater.fitting import Fit, fit
from headwater.policies.rules import Spec, parse_spec
from headwater.simulation import Simulation, check_number, load_simulation, log_checkpoints

__all__ = ["POLICIES", "SINCE", "STARTED", "Aim", "Draw", "Trial", "run_trial"]

POLICIES = ("ucb1", "ts", YARDSTICK, "c-ucb", "c-ts:sd=estimated", "joint-ucb", "latent-ts", "auto")
STARTED = "ts (started)"
"""The yardstick, started from everything that the control group paid."""
SINCE = 4
"""Growth is counted over the rounds after the first quarter of them."""
MOST_DRAWS = 0.9
"""An aim is met if it is on the mean over draws and in this share of them."""


class Draw(NamedTuple):
    """Some of the arms, and a market of the held-out people."""

    number: int
    arms: tuple[str, ...]
    market: Market


class Aim(NamedTuple):
    """What was aimed at: ``values`` per draw and ``overall`` that should be at most ``limit``."""

    words: str
    limit: float
    values: list[float]
    overall: float

    @property
    def draws_met(self) -> int:
        return sum(value <= self.limit for value in self.values)

    @property
    def met(self) -> bool:
        return self.overall <= self.limit and self.draws_met >= MOST_DRAWS * len(self.values)

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "draws_met": self.draws_met, "met": self.met}


@dataclass(frozen=True)
class Trial:
    """What came out: the fit of ``control`` people, and draws on the held-out ``people``."""

    fit: Fit
    control: int
    people: People
    draws: list[Draw]

    @property
    def held_out(self) -> int:
        return self.people.count

    @property
    def policies(self) -> list[str]:
        return list(self.draws[0].market.simulation.outcomes)

    @property
    def yardstick(self) -> str | None:
        """The Thompson sampling that aims are about."""
        return next((title for title in THOMPSON if title in self.policies), None)

    @property
    def judged(self) -> bool:
        """Whether the policies that aims are about have all played."""
        return {"auto", "ucb1"} <= set(self.policies) and self.yardstick is not None

    @property
    def horizon(self) -> int:
        return self.draws[0].market.simulation.horizon

    @property
    def since(self) -> int:
        return self.horizon // SINCE

    def regret(self, policy: str) -> Floats:
        """Mean regret at the horizon in each draw."""
        return np.array([float(draw.market.simulation.regret(policy)[:, -1].mean()) for draw in self.draws])

    def growth(self, policy: str) -> Floats:
        """Mean regret after the first quarter of the rounds, in each draw."""
        return np.array([draw.market.growth(policy, self.since) for draw in self.draws])

    def aims(self, policy: str = "auto") -> list[Aim]:
        """At most a quarter of UCB1's regret and half of Thompson sampling's; in the end growing no faster than the latter."""
        mine, since, ts = self.regret(policy), f"{self.since:,}", self.yardstick
        assert ts is not None
        other = f"over Thompson sampling's{THOMPSON[ts]}"
        parts = [
            (f"regret of {policy} over UCB1's", 0.25, mine, self.regret("ucb1")),
            (f"regret of {policy} {other}", 0.5, mine, self.regret(ts)),
            (f"regret of {policy} after round {since} {other}", 1.0, self.growth(policy), self.growth(ts)),
        ]
        return [
            Aim(words, limit, _over(top, base).tolist(), float(_over(top.sum(keepdims=True), base.sum(keepdims=True))[0]))
            for words, limit, top, base in parts
        ]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: a row per draw, and the aims."""
        return {
            "control": self.control,
            "held_out": self.held_out,
            "segments": len(self.fit.segments),
            "levels": self.fit.levels.size,
            "horizon": self.horizon,
            "draws": [{"draw": d.number, "arms": list(d.arms), **d.market.to_dict()} for d in self.draws],
            "aims": [aim.to_dict() for aim in self.aims()] if self.judged else [],
        }


def _over(top: Floats, base: Floats) -> Floats:
    """top / base, where nothing over nothing is 0."""
    return np.divide(top, base, out=np.where(top > 0, np.inf, 0.0), where=base > 0)


def _place(folder: str | Path, n: int) -> Path:
    return Path(folder) / f"draw-{n + 1:02d}"


def _kept(folder: str | Path | None, n: int, again: Sequence[str]) -> Simulation | None:
    """What an earlier run left of a draw, without the policies to run again."""
    if folder is None or not (_place(folder, n) / "manifest.json").exists():
        return None
    found = load_simulation(_place(folder, n))
    return replace(found, outcomes={name: outcome for name, outcome in found.outcomes.items() if name not in again})


def run_trial(
    ratings: Floats,
    names: Sequence[str],
    *,
    arms: int = 10,
    draws: int = 10,
    concentration: float = 0.5,
    policies: Sequence[str | Spec] = POLICIES,
    horizon: int = 20_000,
    replications: int = 40,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[str, float], None] | None = None,
    folder: str | Path | None = None,
    again: Sequence[str] = (),
    started: bool = False,
    **options: Any,
) -> Trial:
    """Split people by lot, fit one half, replay policies on the other half.

    ``ratings`` (U, K) lacks none; ``options`` are those of the fit. ``seed`` decides who is in the control group. What a
    ``folder`` holds of an earlier run is not done again, except for policies named in ``again``; it keeps what this run does.
    ``started`` adds Thompson sampling that has counted everything the control group paid before it begins.
    """
    table, tell = np.asarray(ratings, dtype=float), progress or (lambda *_: None)
    if table.ndim != 2 or table.shape[1] != len(names) or len(table) < 4 or not np.isfinite(table).all():
        raise ProblemError(f"ratings: got shape {table.shape}; expected a whole table of (people, {len(names)} arms)")
    check_number("arms", arms, 2, len(names))
    check_number("draws", draws, 1, 10_000)
    check_number("horizon", horizon, SINCE, 10**9)
    order = np.random.default_rng([seed, 1]).permutation(len(table))
    control, rest = table[order[: len(table) // 2]], table[order[len(table) // 2 :]]

    def reading(words: str, share: float) -> None:
        tell(words, 0.1 * share)

    learned = fit({name: control[:, k] for k, name in enumerate(names)}, wide=True, seed=seed, progress=reading, **options)
    named_specs(policies, learned.problem)
    people = make_people(learned.problem, rest[:, [list(names).index(name) for name in learned.arms]])
    markets, out = at_random(people, count=draws, concentration=concentration, seed=seed), []
    rounds = np.union1d(log_checkpoints(horizon), [horizon // SINCE])
    for n in range(draws):
        chosen = np.random.default_rng([seed, 2, n]).choice(len(learned.arms), arms, replace=False)
        part = people.of_arms([learned.arms[k] for k in np.sort(chosen)])

        def step(done: int, total: int, n: int = n) -> None:
            tell(f"draw {n + 1} of {draws}", 0.1 + 0.9 * (n + done / total) / draws)

        market = replay(
            part,
            markets[n],
            policies=policies,
            horizon=horizon,
            replications=replications,
            seed=seed + n,
            checkpoints=rounds,
            threads=threads,
            progress=step,
            known=_kept(folder, n, again),
        )
        if started:
            seen = control[:, [list(names).index(name) for name in part.problem.names]]
            levels = np.stack([levels_of(part.problem, k, row) for k, row in enumerate(seen.T)])
            market = replay_started(part, market, parse_spec(YARDSTICK), levels, title=STARTED)
        if folder is not None:
            market.simulation.save(_place(folder, n), command="run_trial", overwrite=True)
        out.append(Draw(n + 1, part.problem.names, market))
    return Trial(learned, len(control), people, out)
