"""A live policy's life as a list of events: making one at random, and going through it again.

Events are lists that JSON can hold, arms being numbers:

    ["select", among, arm]   ["many", count, among, arms]   ["update", arm, reward]   ["updates", arms, rewards]
    ["cancel", arm, text]   ["refused", arm, reward, error, text]   ["merge", state]   ["restore"]
    ["propensities", among, draws, shares]   ["explain", among, explanation]   ["state", state, doubted]
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import headwater as hw
from golden_problems import Case, Generator

Event = list[Any]
ODD: tuple[Any, ...] = (math.nan, math.inf, "1", None, True, 1e9, 0.123456789, [1.0, 2.0])
"""Rewards that an arm can hardly have paid."""


def names_of(problem: hw.Problem, arms: Sequence[int] | None) -> list[str] | None:
    return None if arms is None else [problem.names[k] for k in arms]


def learns(policy: str) -> bool:
    """Whether a policy, by its text, learns the law of X; ``auto`` mostly does."""
    return policy.split(":")[0] in ("joint-ucb", "latent-ts", "graves-lai", "auto")


def make(policy: str, problem: hw.Problem, options: dict[str, Any]) -> hw.Policy:
    """A policy from a text such as ``c-ts:posterior=beta,audit=1``, as every release makes it."""
    name, _, tail = policy.partition(":")
    said: dict[str, Any] = {}
    for part in filter(None, tail.split(",")):
        key, _, value = part.partition("=")
        said[key] = float(value) if value[0].isdigit() else value
    return hw.make_policy(name, problem, **said, **options)


class Plan(NamedTuple):
    """How a life is to be: rounds, decisions between two stored states, and between two explanations."""

    rounds: int
    stored: int
    explained: int


class Life:
    """One policy on one problem, told what to do by a generator; ``events`` is what happened."""

    def __init__(self, case: Case, policy: str, options: dict[str, Any], rng: Generator) -> None:
        self.case, self.rng = case, rng
        self.policy = make(policy, case.problem, options)
        self.events: list[Event] = []
        self.owed: list[tuple[int, float]] = []
        self.decided = 0

    def numbers(self, names: Sequence[str]) -> list[int]:
        return [self.case.problem.index(name) for name in names]

    def among(self) -> list[int] | None:
        count = len(self.case.problem.names)
        return sorted(self.rng.choice(count, int(self.rng.integers(1, count + 1)), replace=False).tolist())

    def select(self, among: list[int] | None = None) -> None:
        [arm] = self.numbers([self.policy.select(names_of(self.case.problem, among))])
        self.events.append(["select", among, arm])
        self.owe([arm])

    def many(self, count: int, among: list[int] | None = None) -> None:
        arms = self.numbers(self.policy.select_many(count, names_of(self.case.problem, among)))
        self.events.append(["many", count, among, arms])
        self.owe(arms)

    def owe(self, arms: Sequence[int]) -> None:
        self.decided += len(arms)
        self.owed += [(arm, self.case.pays(self.rng)[arm]) for arm in arms]

    def pay(self, at: int) -> None:
        arm, reward = self.owed.pop(at)
        self.policy.update(self.case.problem.names[arm], reward)
        self.events.append(["update", arm, reward])

    def pay_all(self) -> None:
        """All that is owed, in one call and out of order."""
        self.rng.shuffle(self.owed)
        arms, rewards = [arm for arm, _ in self.owed], [reward for _, reward in self.owed]
        self.owed.clear()
        if arms:
            self.policy.update(names_of(self.case.problem, arms) or [], rewards)
            self.events.append(["updates", arms, rewards])

    def odd(self) -> None:
        """A reward that the policy should refuse, which some arms may well pay."""
        arm, reward = int(self.rng.integers(len(self.case.problem.names))), ODD[int(self.rng.integers(len(ODD)))]
        self.events.append(["refused", arm, reward, *told(self.policy, arm, reward)])

    def cancel(self) -> None:
        arm, reward = self.owed.pop(int(self.rng.integers(len(self.owed))))
        self.events.append(["cancel", arm, cancelled(self.policy, arm)])
        if self.rng.random() < 0.5:  # it comes all the same
            self.policy.update(arm, reward)
            self.events.append(["update", arm, reward])

    def store(self) -> None:
        self.events.append(["state", self.policy.state(), self.policy.doubted])

    def explain(self) -> None:
        among = self.among() if self.rng.random() < 0.3 else None
        told = self.policy.explain(names_of(self.case.problem, among)).to_dict()
        self.events.append(["explain", among, told])

    def propensities(self) -> None:
        among = self.among() if self.rng.random() < 0.3 else None
        shares = self.policy.propensities(names_of(self.case.problem, among), draws=50)
        self.events.append(["propensities", among, 50, list(shares.values())])

    def restore(self) -> None:
        self.policy = hw.from_state(json.loads(json.dumps(self.policy.state())), self.case.problem)
        self.events.append(["restore"])

    def step(self, prompt: bool) -> None:
        """A decision or a few, and some rewards; ``prompt`` where each reward comes before the next decision."""
        if prompt:
            if self.owed:
                self.pay_all()
            # every arm now and then where the model is wrong: only then do rewards contradict it
            one = self.case.family.startswith("wrong") and self.rng.random() < 0.5
            self.select([int(self.rng.integers(len(self.case.problem.names)))] if one else None)
            self.pay(0)
            return
        lot = self.rng.random()
        if lot < 0.12:
            self.many(int(self.rng.integers(0, 6)), self.among() if lot < 0.04 else None)
        elif lot < 0.27:
            self.select(self.among())
        else:
            self.select()
        while self.owed and self.rng.random() < 0.45 + 0.05 * len(self.owed):
            if self.rng.random() < 0.08:
                self.pay_all()
            elif self.rng.random() < 0.05:
                self.cancel()
            else:
                self.pay(int(self.rng.integers(len(self.owed))))


def told(policy: hw.Policy, arm: int, reward: Any) -> tuple[str, str]:
    """The error of a reward, or nothing."""
    try:
        policy.update(arm, reward)
    except hw.HeadwaterError as error:
        return type(error).__name__, str(error)
    return "", ""


def cancelled(policy: hw.Policy, arm: int) -> str:
    """The error of a cancelled pull, if any: another reward may have come for it."""
    try:
        policy.cancel(arm)
    except hw.ProblemError as error:
        return str(error)
    return ""


def live(case: Case, policy: str, plan: Plan, seed: int, other: dict[str, Any] | None = None) -> dict[str, Any]:
    """The record of one life, at random; ``other`` is a replica's state that is merged into it on the way."""
    rng = np.random.default_rng([seed, case.number])
    options: dict[str, Any] = {"seed": seed}
    if rng.random() < 0.2:
        options["reward_range"] = float(rng.integers(1, 9))
    if other is not None:  # 0 where no reward varies, which nobody may ask for
        options |= {"reward_range": other["reward_range"] or None}
    found: dict[str, Any] = {"policy": policy, "options": options}
    try:
        life = Life(case, policy, options, rng)
    except hw.HeadwaterError as error:
        return found | {"error": type(error).__name__, "text": str(error)}
    marks = {"merge": plan.rounds // 3 if other else -1, "restore": int(rng.integers(plan.rounds // 2, plan.rounds))}
    said = dict.fromkeys(("store", "explain"), 0)
    while life.decided < plan.rounds:
        prompt = (life.decided // max(plan.rounds // 5, 1)) % 2 == 0  # in turn
        life.step(prompt)
        for what, every in (("store", plan.stored), ("explain", plan.explained)):
            if life.decided >= said[what] + every:
                said[what] = life.decided
                getattr(life, what)()
        if 0 <= marks["merge"] <= life.decided and other is not None:
            life.policy.merge(other)
            life.events.append(["merge", other])
            marks["merge"] = -1
        if 0 <= marks["restore"] <= life.decided:
            life.restore()
            marks["restore"] = -1
        if rng.random() < 0.03:
            life.odd()
        if rng.random() < 0.01:
            life.propensities()
    life.store()
    life.explain()
    return found | {"events": life.events}


def stored(case: Case, policy: str, rounds: int, seed: int) -> dict[str, Any]:
    """A policy's state after so many rounds, and what it decided in as many more: for another release to go on from."""
    life = Life(case, policy, {"seed": seed}, np.random.default_rng([seed, case.number]))
    while life.decided < rounds:
        life.step(prompt=life.decided < rounds // 2)
    state, life.events = life.policy.state(), []
    while life.decided < 2 * rounds:
        life.step(prompt=life.decided < rounds * 3 // 2)
    return {"policy": policy, "options": {"seed": seed}, "state": state, "events": life.events}
