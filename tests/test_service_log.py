"""What is in memory is a function of the logs: whatever happens in whichever order, through however many processes."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from headwater.errors import HeadwaterError
from headwater.service import batch as batch_module
from headwater.service import campaign as campaign_module
from headwater.service import desk as desk_module
from headwater.service.batch import Batch, catch_up, load
from headwater.service.checks import check_database
from headwater.service.desk import Desk
from headwater.service.operations import Change, Create, Decide, Operation, SetStatus, Settle, SwitchArm
from headwater.service.store import Store
from headwater.service.tables import rewards
from headwater.service.wire import CampaignBody, CampaignChange
from service_tools import ADS, PATIENT

CURVES: dict[str, Any] = {"latent": {"kind": "continuous", "support": [0, 1]}, "arms": {"low": "x", "high": "1 - x"}}
PAIR: dict[str, Any] = {
    "latent": {"kind": "vector", "components": {"a": [0, 1], "b": {"low": 0, "high": 1}}},
    "arms": {"s": "a + b", "p": "a * b"},
}
COINS: dict[str, Any] = {
    "latent": {"kind": "discrete", "values": ["a", "b"]},
    "arms": {"x": [0, 1], "y": {"outcomes": [0, 1], "probabilities": [[0.3, 0.7], [0.9, 0.1]]}},
}


class Break(Operation):
    """Changes much in memory, and then breaks: nothing of it may stay."""

    def slugs(self) -> set[str]:
        return {"c"}

    def run(self, batch: Batch) -> None:
        Decide("c", [None, None]).run(batch)
        Settle([("c.1", 0.5)], many=True).run(batch)
        raise ZeroDivisionError


class Walk:
    """Two processes' desks on one database, and a random walk through everything that they can be asked."""

    def __init__(self, address: str, seed: int, problem: dict[str, Any], **settings: Any) -> None:
        self.address, self.rng, self.clock = address, random.Random(seed), 1e9
        self.arms = list(problem["arms"])
        self.problem = problem
        self.desks = [self.start(), self.start()]
        self.made: dict[str, str] = {}  # the arm of each decision
        self.paid: dict[str, float] = {}
        self.ask(Create(CampaignBody(id="c", name="c", problem=problem, **settings)))

    def start(self) -> Desk:
        store = Store(self.address)
        store.open()
        desk = Desk(store, clock=lambda: self.clock)
        desk.start()
        return desk

    def end(self, i: int) -> None:
        self.desks[i].stop()
        self.desks[i].store.close()

    def ask(self, operation: Operation) -> Any:
        try:
            return self.rng.choice(self.desks).submit(operation).result(timeout=PATIENT)
        except HeadwaterError:
            return None

    def value(self, arm: str) -> float:
        given = self.problem["arms"][arm]
        if isinstance(given, list):
            return float(self.rng.choice(given))
        return float(self.rng.choice(given["outcomes"])) if isinstance(given, dict) else self.rng.choice([0.25, 0.5, 0.75])

    def step(self) -> None:
        rng = self.rng
        what = rng.choices(
            ["decide", "settle", "late", "status", "arm", "restart", "break", "change"], [8, 8, 1, 1, 1, 0.6, 0.6, 0.5]
        )[0]
        if what == "decide":
            self.decide()
        elif what == "settle" and self.made:
            self.settle()
        elif what == "late":
            self.clock += rng.choice([-5, 1, 20, 100])
            time.sleep(2 * desk_module.TICK)
        elif what == "status":
            self.ask(SetStatus("c", "paused"))
            self.ask(SetStatus("c", "running"))
        elif what == "arm":
            self.ask(SwitchArm("c", rng.choice(self.arms), rng.random() < 0.6))
        elif what == "change":
            self.ask(Change("c", CampaignChange(holdout=rng.choice([0, 0.2]), reward_deadline=rng.choice([None, 3, 30]))))
        elif what == "break":
            self.ask(Break())
        elif what == "restart":
            i = rng.randrange(2)
            self.end(i)
            self.desks[i] = self.start()

    def decide(self) -> None:
        units: list[str | None] = [None] * self.rng.randrange(1, 6)
        if self.rng.random() < 0.3:
            units = [f"u{self.rng.randrange(20)}" for _ in units]
        made = self.ask(Decide("c", units, key=self.rng.choice([None, f"k{self.rng.randrange(30)}"])))
        for one in made or []:
            assert self.made.setdefault(one["id"], one["arm"]) == one["arm"]

    def settle(self) -> None:
        names = self.rng.sample(list(self.made), min(len(self.made), self.rng.randrange(1, 5)))
        some = [(name, self.value(self.made[name])) for name in names]
        told = self.ask(Settle(some, many=True))
        refused = {one["decision"] for one in told["refused"]}
        for decision, value in some:
            if decision not in refused:
                assert self.paid.setdefault(decision, value) == value

    def agree(self) -> None:
        """Every process knows the same, and so does one that starts from nothing."""
        now, self.clock = self.clock, 0.0  # nothing is due any more
        for desk in self.desks * 2:  # first each finishes what it is at, then each takes in what the other did
            desk.submit(desk_module.Look("c")).result(timeout=PATIENT)
        with self.desks[0].store.read() as connection:
            for slug, found in check_database(connection):
                assert not found, (slug, found)
            with self.desks[0].campaign("c") as mine:
                fresh = load(connection, mine.id)
                catch_up(connection, fresh, mine.counters)
            log = {f"c.{row.number}": row.value for row in connection.execute(select(rewards)) if row.kind == "paid"}
        for desk in self.desks:
            with desk.campaign("c") as campaign:
                assert campaign.counters == fresh.counters
                assert campaign.policy.state() == fresh.policy.state()
                assert campaign.config == fresh.config
        assert log == self.paid
        self.clock = now


WALKS = {
    "ads-c-ucb": (ADS, "c-ucb"),
    "ads-ucb1": (ADS, "ucb1"),
    "coins-beta": (COINS, "ts:posterior=beta"),
    "curves": (CURVES, "c-ucb"),
    "curves-estimated": (CURVES, "ts:sd=estimated"),
    "pair": (PAIR, "ucb1"),
}


@pytest.mark.parametrize(("problem", "policy"), WALKS.values(), ids=WALKS)
def test_memory_follows_the_logs(tmp_path: Path, problem: dict[str, Any], policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "SNAPSHOT_EVERY", 17)
    monkeypatch.setattr(desk_module, "TICK", 0.02)
    monkeypatch.setattr(campaign_module, "SWEEP", 0.0)
    monkeypatch.setattr(campaign_module, "CHUNK", 7)
    for seed in range(2):
        walk = Walk(str(tmp_path / f"{seed}.db"), seed, problem, policy=policy, reward_deadline=10, floor=0.1)
        try:
            for n in range(150):
                walk.step()
                if n % 25 == 24:
                    walk.agree()
        finally:
            for i in range(2):
                walk.end(i)
