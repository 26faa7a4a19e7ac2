"""What a campaign's evidence says: which arm is best and how sure that is, what X is, what UCB1 would have cost, alarms.

Everything here is computed from a copy, so that it takes its time while decisions go on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Column, Connection, Table, func, select

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.errors import HeadwaterError
from headwater.policies import Policy, from_state
from headwater.policies.evidence import evidence_of
from headwater.policies.inference import Holds
from headwater.policies.posterior import posterior_draws
from headwater.policies.suspects import blame
from headwater.policies.table import bounds as reward_bounds
from headwater.problem import Problem
from headwater.pseudo.finite import FiniteModel
from headwater.service.campaign import DEFAULT, FORGOTTEN, Campaign, Config, Counters, moment
from headwater.service.tables import decisions, events, refusals, rewards
from headwater.simulation import simulate

CONFIDENCE = 0.95
DRAWS = 400
"""Laws of X drawn from their posterior."""
RACES = 20
"""Of them, those for which UCB1 is simulated."""
MOST_POINTS = 300
"""Values of X up to which laws are drawn."""
LONGEST = 200_000
"""Rounds of UCB1 that are simulated one by one; beyond, it leaps."""
DRIFT = 1e-3
"""The chance that some arm's rewards are said to drift while they do not, at one look."""
SILENT = 100
"""Decisions in a row without a reward, and seconds since the last one, from which on it is an alarm."""
SILENT_SECONDS = 300.0


@dataclass(frozen=True)
class Glimpse:
    """A campaign at one moment: what it knows as data, and a policy made from it when somebody reads it."""

    id: int
    slug: str
    config: Config
    problem: Problem
    counters: Counters
    state: dict[str, Any]
    enabled: list[str]

    @property
    def among(self) -> list[str] | None:
        return self.enabled if self.config.disabled else None

    @cached_property
    def policy(self) -> Policy:
        """A copy."""
        policy = from_state(self.state, self.problem)
        policy.quiet = True
        return policy


def glimpse(campaign: Campaign) -> Glimpse:
    """What a campaign knows, for somebody who holds its lock."""
    counters = campaign.counters._replace(decided=campaign.decided, settled=campaign.settled)
    state, enabled = campaign.policy.state(), campaign.enabled
    return Glimpse(campaign.id, campaign.slug, campaign.config, campaign.problem, counters, state, enabled)


def state_of(seen: Glimpse) -> dict[str, Any]:
    """What the policy has counted."""
    known, unit = seen.policy.known, seen.policy.units.unit
    return {
        "rounds": seen.policy.rounds,
        "pulls": seen.policy.pulls,
        "pending": dict(zip(seen.policy.names, map(int, seen.policy.pending), strict=True)),
        "means": {
            name: None if n == 0 else float(total) * unit / int(n)
            for name, n, total in zip(seen.policy.names, known.pulls, known.total, strict=True)
        },
        "state": seen.state,
    }


def explanation_of(seen: Glimpse) -> dict[str, Any]:
    """What the policy would show next, and where every arm stands, in words."""
    told = seen.policy.explain(seen.among)
    return {**told.to_dict(), "text": str(told), "disabled": seen.config.disabled}


def latent_of(seen: Glimpse, confidence: float = CONFIDENCE, holds: Holds = "each") -> dict[str, Any]:
    """What is known of X."""
    law = seen.policy.latent(confidence, holds)
    return {**law.to_dict(), "text": str(law), "rounds": seen.policy.rounds}


def mean_interval(mean: float, n: int, low: float, span: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Where an arm's true mean lies, from ``n`` rewards in [low, low + span], by Chernoff's bound: right at any ``n``.

    >>> [round(x, 3) for x in mean_interval(0.5, 100, 0.0, 1.0)]
    [0.367, 0.633]
    """
    if n == 0 or span <= 0:
        return low, low + max(span, 0.0)
    budget = math.log(2 / (1 - confidence))
    both = np.array([mean, 2 * low + span - mean])
    high, mirrored = native.kl_ucb_index(both, np.full(2, float(n)), budget, low, span).tolist()
    return max(low, 2 * low + span - mirrored), min(low + span, high)


# The law of X, drawn.


class Laws(NamedTuple):
    """Laws of X drawn from their posterior, ``p`` (draws, J), and every arm's mean under each, ``means`` (draws, K)."""

    p: Floats
    means: Floats


def draw_laws(seen: Glimpse, draws: int = DRAWS) -> Laws | None:
    """None where X is not a list of a few hundred values at most. The rewards of doubted arms are left out."""
    policy = seen.policy
    if policy.table is None or policy.many is not None or not isinstance(policy.model, FiniteModel):
        return None
    try:
        channels = evidence_of(seen.problem).channels
    except HeadwaterError:
        return None
    if channels.g.shape[1] > MOST_POINTS:
        return None
    doubted = set(policy.doubted)
    counts = np.concatenate(
        [
            policy.seen[k, : high - low] * (name not in doubted)
            for k, (name, low, high) in enumerate(zip(policy.names, channels.offset[:-1], channels.offset[1:], strict=True))
        ]
    )
    p = posterior_draws(channels, counts, alpha=0.5, draws=draws, seed=seen.counters.settled)
    return Laws(p, p @ channels.g.T)


def best_of(seen: Glimpse, laws: Laws | None) -> dict[str, Any]:
    """How likely each enabled arm is to be the best of them."""
    policy = seen.policy
    on = np.array([name in seen.enabled for name in policy.names])
    n = policy.known.pulls
    if laws is not None:
        means, how = laws.means.copy(), "all rewards, through the model"
        for k, name in enumerate(policy.names):
            if name in policy.doubted:
                means[:, k] = _own_draws(policy, k, len(means))
    else:
        means, how = np.stack([_own_draws(policy, k, DRAWS) for k in range(len(n))], axis=1), "each arm's own rewards"
    means[:, ~on] = -np.inf
    chance = np.bincount(np.argmax(means, axis=1), minlength=len(n)) / len(means)
    best = int(np.argmax(chance))
    sure = float(chance[best])
    words = "certainly" if sure >= 0.995 else "almost certainly" if sure >= 0.95 else "probably" if sure >= 0.6 else "perhaps"
    sentence = f"{policy.names[best]} is {words} the best ({sure:.0%}), judged by {how}."
    if not n.any():
        sentence = "Nothing is known yet: any arm may be the best."
    return {
        "arm": policy.names[best],
        "probability": sure,
        "probabilities": dict(zip(policy.names, chance.tolist(), strict=True)),
        "from": how,
        "sentence": sentence,
    }


def _own_draws(policy: Policy, k: int, draws: int) -> Floats:
    """An arm's mean, drawn from a normal around its own rewards."""
    low, span = reward_bounds(policy.model)
    n, rng = int(policy.known.pulls[k]), np.random.default_rng([policy.rounds, k])
    mean = low + span / 2 if n == 0 else float(policy.known.total[k]) * policy.units.unit / n
    return rng.normal(mean, span / 2 / math.sqrt(max(n, 1)), draws)


def regret_avoided(seen: Glimpse, laws: Laws | None) -> dict[str, Any]:
    """What UCB1 would have lost more than this campaign did in as many rounds, under laws that fit what was seen."""
    rounds = seen.policy.rounds
    if laws is None:
        return {"estimate": None, "reason": "X is not a short list of values"}
    if rounds < 10:
        return {"estimate": None, "reason": "too few rewards yet"}
    if seen.policy.doubted:
        return {"estimate": None, "reason": "the model is contradicted"}
    pulls = seen.policy.known.pulls.astype(float)
    saved, lost = [], []
    for p, means in zip(laws.p[:: max(len(laws.p) // RACES, 1)], laws.means[:: max(len(laws.p) // RACES, 1)], strict=True):
        law = np.maximum(p, 0) / np.maximum(p, 0).sum()
        run = simulate(
            seen.problem, law, policies=["ucb1"], horizon=rounds, replications=8, seed=seen.counters.settled,
            checkpoints=[rounds], threads=1, engine="leap" if rounds > LONGEST else "step",
        )  # fmt: skip
        mine = float(pulls @ (means.max() - means))
        lost.append(mine)
        saved += (run.regret("ucb1")[:, -1] - mine).tolist()
    low, high = np.quantile(saved, [0.025, 0.975])
    return {
        "estimate": float(np.mean(saved)),
        "low": float(low),
        "high": float(high),
        "confidence": CONFIDENCE,
        "own_regret": float(np.mean(lost)),
        "rounds": rounds,
        "reason": None,
    }


# Alarms.


class Facts(NamedTuple):
    """What the database counts of a campaign at one moment; O(rows) to read."""

    shown: dict[int, int]
    """Decisions by arm."""
    kinds: dict[str, int]
    """Rewards by kind."""
    refused: dict[str, int]
    """Refused rewards by the reason."""
    held: list[tuple[int, int, float]]
    """Arm, rewards and mean of the holdout."""
    halves: list[dict[int, tuple[int, float, float]]]
    """Rewards, their mean and mean square by arm, in the first and the second half."""
    unpaid: tuple[int, float | None]
    """Decisions since the last reward, and when the first of them was made."""


def facts_of(connection: Connection, seen: Glimpse) -> Facts:
    """Everything that a report needs of the database."""
    value, mine = rewards.c.value, (rewards.c.campaign == seen.id) & rewards.c.value.is_not(None)
    by_arm = select(rewards.c.arm, func.count(), func.avg(value), func.avg(value * value)).group_by(rewards.c.arm)
    half, halves = seen.counters.settled // 2, []
    for part in (rewards.c.seq <= half, rewards.c.seq > half):
        found = connection.execute(by_arm.where(mine, rewards.c.kind == "paid", part))
        halves.append({int(arm): (int(n), float(mean), float(square)) for arm, n, mean, square in found})
    held = connection.execute(by_arm.where(mine, rewards.c.learned.is_(False)))
    last = select(func.max(rewards.c.at)).where(rewards.c.campaign == seen.id, rewards.c.kind == "paid")
    since = decisions.c.at > (connection.execute(last).scalar() or 0.0)
    made, first = connection.execute(
        select(func.count(), func.min(decisions.c.at)).where(decisions.c.campaign == seen.id, since)
    ).one()
    return Facts(
        _tally(connection, decisions, decisions.c.arm, seen.id),
        _tally(connection, rewards, rewards.c.kind, seen.id),
        _tally(connection, refusals, refusals.c.code, seen.id),
        [(int(arm), int(n), float(mean)) for arm, n, mean, _ in held],
        halves,
        (int(made), first),
    )


def drift(facts: Facts, seen: Glimpse) -> list[dict[str, Any]]:
    """Arms whose rewards in the first and in the second half of their time differ by more than chance."""
    found = []
    for k in sorted(set(facts.halves[0]) & set(facts.halves[1])):
        (n, mean, square), (m, other, squares) = facts.halves[0][k], facts.halves[1][k]
        if min(n, m) < 30:
            continue
        error = math.sqrt(max(square - mean * mean, 0) / n + max(squares - other * other, 0) / m)
        z = abs(mean - other) / error if error > 0 else (0.0 if mean == other else math.inf)
        if math.erfc(z / math.sqrt(2)) * len(seen.problem.names) < DRIFT:  # two-sided, over all arms
            arm = seen.policy.names[k]
            message = f"{arm}: its mean reward moved from {mean:.4g} in the first half to {other:.4g} in the second."
            found.append({"kind": "drift", "arm": arm, "message": message})
    return found


def silence(facts: Facts, now: float) -> list[dict[str, Any]]:
    """Whether decisions are made and no rewards come."""
    made, first = facts.unpaid
    if made >= SILENT and first is not None and now - first >= SILENT_SECONDS:
        return [{"kind": "silent", "arm": None, "message": f"{made:,} decisions since the last reward."}]
    return []


def alarms_of(facts: Facts, seen: Glimpse, now: float | None = None) -> list[dict[str, Any]]:
    """What somebody should look at."""
    found: list[dict[str, Any]] = [
        {
            "kind": "contradicted",
            "arm": name,
            "suspects": suspects,
            "message": f"The rewards contradict the model, whatever the mix: it is wrong about {blame([name], suspects)}.",
        }
        for suspects in [seen.policy.suspects]
        for name in seen.policy.doubted
    ]
    found += drift(facts, seen)
    found += silence(facts, time.time() if now is None else now)
    words = {
        "unpayable": "not what the arm can pay",
        "deadline_passed": "after the deadline",
        "conflict": "another was counted already",
    }
    for code, count in facts.refused.items():
        were = "reward was" if count == 1 else "rewards were"
        found.append({"kind": code, "arm": None, "message": f"{count:,} {were} refused: {words.get(code, code)}."})
    return found


# The report.


def report_of(facts: Facts, seen: Glimpse) -> dict[str, Any]:
    """Which arm is best and how sure that is, every arm's mean with its interval, what was avoided, what is wrong."""
    laws = draw_laws(seen)
    low, span = reward_bounds(seen.policy.model)
    told = {line.name: line for line in seen.policy.explain(seen.among).arms}
    held, shown = _held_out(facts, seen), facts.shown
    arms, total = [], max(seen.counters.decided, 1)
    for k, name in enumerate(seen.policy.names):
        n = int(seen.policy.known.pulls[k])
        mean = None if n == 0 else float(seen.policy.known.total[k]) * seen.policy.units.unit / n
        interval = mean_interval(mean, n, low, span) if mean is not None else (low, low + span)
        line = told[name]
        arms.append(
            {
                "arm": name,
                "enabled": name in seen.enabled,
                "decisions": int(shown.get(k, 0)),
                "share": int(shown.get(k, 0)) / total,
                "rewards": n,
                "mean": mean,
                "low": float(interval[0]),
                "high": float(interval[1]),
                "model_mean": None if laws is None else float(laws.means[:, k].mean()),
                "model_low": None if laws is None else float(np.quantile(laws.means[:, k], 0.025)),
                "model_high": None if laws is None else float(np.quantile(laws.means[:, k], 0.975)),
                "excluded_by": line.excluded_by,
                "doubted": name in seen.policy.doubted,
                "sentence": line.sentence,
                "holdout": held.get(k),
            }
        )
    kinds, latent = facts.kinds, _latent_or_reason(seen)
    alarms = alarms_of(facts, seen)
    if latent.get("contradicted") and not seen.policy.doubted:
        alarms.append({"kind": "contradicted", "arm": None, "message": latent["notes"][0]})
    return {
        "campaign": seen.slug,
        "at": moment(time.time()),
        "decisions": seen.counters.decided,
        "rewards": seen.policy.rounds,
        "confidence": CONFIDENCE,
        "best": best_of(seen, laws),
        "arms": arms,
        "avoided": regret_avoided(seen, laws),
        "settled": {"paid": kinds.get("paid", 0), "default": kinds.get(DEFAULT, 0), "forgotten": kinds.get(FORGOTTEN, 0)},
        "alarms": alarms,
        "latent": latent,
    }


def _tally(connection: Connection, table: Table, column: Column[Any], campaign: int) -> dict[Any, int]:
    """How many rows of a campaign have each value of a column."""
    query = select(column, func.count()).where(table.c.campaign == campaign).group_by(column)
    return {row[0]: row[1] for row in connection.execute(query)}


def _latent_or_reason(seen: Glimpse) -> dict[str, Any]:
    try:
        return latent_of(seen)
    except HeadwaterError as error:
        return {"reason": str(error)}


def _held_out(facts: Facts, seen: Glimpse) -> Mapping[int, dict[str, Any]]:
    """Means of the holdout, by arm: nothing chose these by what they had paid."""
    low, span = reward_bounds(seen.policy.model)
    out = {}
    for arm, n, mean in facts.held:
        interval = mean_interval(min(max(mean, low), low + span), n, low, span)
        out[arm] = {"rewards": n, "mean": mean, "low": float(interval[0]), "high": float(interval[1])}
    return out


def events_of(connection: Connection, campaign: int, most: int = 50) -> list[dict[str, Any]]:
    """What happened to a campaign, latest first."""
    query = select(events).where(events.c.campaign == campaign).order_by(events.c.id.desc()).limit(most)
    return [{"at": moment(row.at), "kind": row.kind, "message": row.message} for row in connection.execute(query)]


def refusals_of(connection: Connection, seen_id: int, slug: str, most: int = 50) -> list[dict[str, Any]]:
    """Rewards that were refused, latest first."""
    query = select(refusals).where(refusals.c.campaign == seen_id).order_by(refusals.c.seq.desc()).limit(most)
    return [
        {"at": moment(row.at), "decision": f"{slug}.{row.number}", "code": row.code, "message": row.message}
        for row in connection.execute(query)
    ]


class Series:
    """Decisions by arm over time, in at most ``most`` equal spans, kept up with the log as it grows. O(new rows)."""

    def __init__(self, arms: int, most: int = 120) -> None:
        self.arms, self.most = arms, most
        self.seen, self.start, self.width = 0, 0.0, 1.0
        self.counts: Ints = np.zeros((0, arms), dtype=np.int64)

    def advance(self, connection: Connection, campaign: int, decided: int) -> None:
        if decided <= self.seen:
            return
        mine = (decisions.c.campaign == campaign) & decisions.c.number.between(self.seen + 1, decided)
        first, last = connection.execute(select(func.min(decisions.c.at), func.max(decisions.c.at)).where(mine)).one()
        if self.seen == 0:
            self.start = float(first)
        while (last - self.start) / self.width >= self.most:
            self._widen()
        span = func.floor((decisions.c.at - self.start) / self.width)
        rows = connection.execute(select(span, decisions.c.arm, func.count()).where(mine).group_by(span, decisions.c.arm)).all()
        size = max([len(self.counts), *(int(row[0]) + 1 for row in rows)])
        grown = np.zeros((min(size, self.most), self.arms), dtype=np.int64)
        grown[: len(self.counts)] = self.counts
        for place, arm, count in rows:
            grown[min(max(int(place), 0), len(grown) - 1), arm] += count  # a clock that jumped back counts at the start
        self.counts, self.seen = grown, decided

    def _widen(self) -> None:
        even = np.concatenate([self.counts, np.zeros((len(self.counts) % 2, self.arms), dtype=np.int64)])
        self.counts, self.width = even.reshape(-1, 2, self.arms).sum(axis=1), 2 * self.width

    def to_dict(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {
            "start": moment(self.start),
            "seconds": self.width,
            "decisions": {name: self.counts[:, k].tolist() for k, name in enumerate(names)},
        }
