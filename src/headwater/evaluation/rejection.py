"""Policies that learn, replayed on a log with rejection (Li, Chu, Langford and Wang, 2011).

Events are first thinned until every arm is equally likely; an event that shows the arm the policy asks for is a round, others
are passed over. How many are passed over does not depend on the policy's past, so that runs on disjoint parts of the log are
independent runs of the policy; where the log names units, a unit's events are in one part. A policy counts rewards as the
levels they fall into, as it would live; what is reported are the real rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.evaluation.events import Events, reward_range
from headwater.evaluation.replay import named_specs
from headwater.intervals import ratio_intervals
from headwater.policies import Policy
from headwater.policies.rules import Spec
from headwater.pseudo.channels import channels_of
from headwater.simulation import check_number, check_rounds

__all__ = ["LEAST", "LogReplay", "replay_log"]

LEAST = 100
"""The fewest rounds that a replay is worth."""
SLACK = 2.0
"""A run's part of the log holds this many standard deviations more events than it needs on average."""


@dataclass(frozen=True)
class LogReplay:
    """Learning policies replayed on a log: ``rewards[name]`` (R, C) are means per round up to each of ``rounds``.

    Real rewards of R independent runs. ``events`` went in, ``kept`` were left after thinning, ``lot`` is the mean reward of
    arms drawn by lot. ``ends[name]`` (2, C) is the interval that as many independent rewards would give,
    ``range`` what a reward may be.
    """

    rounds: Ints
    rewards: dict[str, Floats]
    events: int
    kept: int
    lot: float
    ends: dict[str, Floats] = field(default_factory=dict)
    range: tuple[float, float] = (-np.inf, np.inf)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: for each policy the mean reward per round, its standard error and 95 % interval.

        The interval is Student's over runs, which allows for what their rounds share, but nowhere narrower than that of as
        many independent rewards: a few runs without a reward all agree, and say little.
        """
        runs = len(next(iter(self.rewards.values())))
        t = float(stats.t.ppf(0.975, max(runs - 1, 1)))
        out: dict[str, Any] = {"rounds": self.rounds.tolist(), "runs": runs, "events": self.events, "kept": self.kept}
        out |= {"mean_reward_by_lot": self.lot, "policies": {}}
        for name, table in self.rewards.items():
            mean, error = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(runs)
            low, high = self.ends.get(name, np.stack([mean, mean]))
            low, high = np.minimum(low, mean - t * error), np.maximum(high, mean + t * error)
            ends = {"low": np.maximum(low, self.range[0]).tolist(), "high": np.minimum(high, self.range[1]).tolist()}
            out["policies"][name] = {"mean_reward": mean.tolist(), "standard_error": error.tolist(), **ends}
        return out


def replay_log(
    events: Events,
    *,
    policies: Sequence[str | Spec],
    horizon: int | None = None,
    runs: int = 20,
    seed: int = 0,
    checkpoints: Any = None,
    least: int = LEAST,
    progress: Callable[[int, int], None] | None = None,
) -> LogReplay:
    """Replay learning policies with rejection, each run on its own part of the log, the same parts for every policy.

    ``horizon`` is the most that the log allows unless given. Runs whose part ends too soon are left out, which favours none.
    """
    specs = named_specs(policies, events.problem)
    check_number("runs", runs, 2, 10_000)
    check_number("seed", seed, 0, 2**64 - 1)
    if horizon is not None:
        check_number("horizon", horizon, 1, 10**9)
    kept = _thinned(events, seed)
    parts = _parts(events, kept, runs)
    possible = _possible(min(map(len, parts)), len(events.problem.names))
    if possible < least or (horizon or 0) > possible:
        raise ProblemError(
            f"log: {len(kept):,} of {events.count:,} events are left once every arm is as likely as the rarest (propensity "
            f"{events.propensity.min():.3g}); that is {possible:,} rounds for each of {runs} runs, and "
            f"{max(horizon or 0, least):,} are needed: ask for fewer runs or rounds, or log more events"
        )
    rounds = check_rounds(checkpoints, horizon or possible)
    found: dict[str, list[Floats]] = {name: [] for name in specs}
    for run in range(runs):
        part = parts[run]
        where = [np.flatnonzero(events.arm[part] == k) for k in range(len(events.problem.names))]
        for n, (name, spec) in enumerate(specs.items()):
            line = _follow(Policy(spec, events.problem, seed=seed, replication=run), events, part, where, int(rounds[-1]))
            found[name] += [] if line is None else [line]
            if progress is not None:
                progress(run * len(specs) + n + 1, runs * len(specs))
    short = [name for name, lines in found.items() if len(lines) < 2]
    if short:
        raise ProblemError(f"log: the runs of {short[0]} ended too soon; ask for fewer runs or rounds, or log more events")
    paid = {name: np.array(lines) for name, lines in found.items()}
    rewards = {name: np.cumsum(table, axis=1)[:, rounds - 1] / rounds for name, table in paid.items()}
    low, high = (float(pick(end)) for pick, end in zip((np.min, np.max), reward_range(events), strict=True))
    ends = {name: _as_if_independent(table, rounds, low, high) for name, table in paid.items()}
    return LogReplay(rounds, rewards, events.count, len(kept), float(events.reward[kept].mean()), ends, (low, high))


def _as_if_independent(paid: Floats, rounds: Ints, low: float, high: float) -> Floats:
    """The interval, (2, C), for the mean of the rewards ``paid`` (R, T) up to each of ``rounds``."""
    cell, value, count = [], [], []
    for c, last in enumerate(rounds.tolist()):
        values, times = np.unique(paid[:, :last], return_counts=True)
        cell.append(np.full(len(values), c))
        value.append(values)
        count.append(times.astype(float))
    size = np.ones(sum(map(len, value)))
    ends = ratio_intervals(
        np.concatenate(cell), np.concatenate(value), size, np.concatenate(count), cells=len(rounds), low=low, high=high
    )
    return np.stack(ends)


def _thinned(events: Events, seed: int) -> Ints:
    """The events that are left once every arm is as likely as the rarest is at its rarest."""
    absent = np.flatnonzero(np.bincount(events.arm, minlength=len(events.problem.names)) == 0)
    if absent.size:
        raise ProblemError(f"log: {events.problem.names[int(absent[0])]} was never shown; expected events of every arm")
    coin = np.random.default_rng([seed, 1]).random(events.count)
    return np.flatnonzero(coin < events.propensity.min() / events.propensity)


def _parts(events: Events, kept: Ints, runs: int) -> list[Ints]:
    """Each run's part of the events, in order: a stretch of the log, or all events of units of its own where it names them."""
    if events.unit is None:
        return np.array_split(kept, runs)
    size = np.bincount(events.unit[kept], minlength=int(events.unit.max()) + 1)
    run = np.empty(len(size), dtype=np.int64)
    run[np.argsort(-size, kind="stable")] = np.arange(len(size)) % runs  # parts of much the same size
    return [kept[run[events.unit[kept]] == r] for r in range(runs)]


def _possible(length: int, count: int) -> int:
    """The rounds that ``length`` events allow: each takes a geometric number of them, of mean and deviation about ``count``."""
    # T rounds take T K ± SLACK K sqrt(T) events
    root = -SLACK / 2 + np.sqrt(SLACK**2 / 4 + length / count)
    return int(root**2)


def _follow(policy: Policy, events: Events, part: Ints, where: list[Ints], horizon: int) -> Floats | None:
    """The real rewards (T,) of one run on one part of the log; None where it ends too soon."""
    values, names = channels_of(events.problem).values, policy.names
    places = {name: k for k, name in enumerate(names)}
    at, out = 0, np.empty(horizon)
    for t in range(horizon):
        name = policy.select()
        k = places[name]
        place = int(np.searchsorted(where[k], at))
        if place == len(where[k]):
            return None
        event = part[where[k][place]]
        at = int(where[k][place]) + 1
        policy.update(name, float(values[k][events.level[event]]))
        out[t] = events.reward[event]
    return out
