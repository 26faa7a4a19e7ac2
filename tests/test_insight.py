"""What the service says of a campaign: intervals that hold, alarms that speak when they should and not otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

import headwater as hw
from headwater.paper import CASES
from headwater.service.insight import Series, alarms_of, best_of, draw_laws, facts_of, glimpse, mean_interval, regret_avoided
from headwater.service.operations import Decide, Settle
from service_tools import Running

COINS: dict[str, Any] = {"latent": {"kind": "discrete", "values": ["x", "y"]}, "arms": {"a": [0, 1], "b": [0, 1]}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(str(tmp_path_factory.mktemp("insight") / "service.db")) as running:
        yield running


def alarms(service: Running, campaign: str, now: float | None = None) -> list[dict[str, Any]]:
    with service.desk.campaign(campaign) as known:
        seen = glimpse(known)
    with service.store.read() as connection:
        return alarms_of(facts_of(connection, seen), seen, now)


@pytest.mark.parametrize("n", [1, 5, 40, 300])
def test_mean_intervals_hold_as_often_as_they_say(n: int) -> None:
    """Exactly, over all that n coins can show: 95 % is never missed."""
    wins = np.arange(n + 1)
    ends = np.array([mean_interval(k / n, n, 0.0, 1.0) for k in wins])
    for p in np.linspace(0.01, 0.99, 99):
        holds = (ends[:, 0] <= p) & (p <= ends[:, 1])
        assert stats.binom(n, p).pmf(wins)[holds].sum() >= 0.95
    low, high = mean_interval(-3.0 + 2.0 * 0.25, n, -3.0, 2.0)  # any scale
    assert (low, high) == pytest.approx(tuple(-3 + 2 * np.array(mean_interval(0.25, n, 0.0, 1.0))), abs=1e-7)
    assert mean_interval(0.5, 0, 0.0, 1.0) == (0.0, 1.0)


def play(service: Running, campaign: str, values: list[float]) -> None:
    made = service.decide(campaign, {"count": len(values)})["decisions"]
    rewards = [{"decision": one["id"], "value": value} for one, value in zip(made, values, strict=True)]
    told = service.post("/v1/rewards", {"rewards": rewards})
    assert told["counted"] == len(values)


def test_rewards_that_move_are_drift_and_others_are_not(service: Running) -> None:
    moved, same = (service.campaign(id=name, problem=COINS, policy="ucb1") for name in ("moved", "same"))
    play(service, moved, [float(i % 10 == 0) for i in range(300)] + [float(i % 10 > 0) for i in range(300)])
    play(service, same, [float(i % 3 == 0) for i in range(600)])
    found = [alarm for alarm in alarms(service, moved) if alarm["kind"] == "drift"]
    assert {alarm["arm"] for alarm in found} == {"a", "b"}
    assert found[0]["message"] == "a: its mean reward moved from 0.2 in the first half to 0.8 in the second."
    assert alarms(service, same) == []


def test_silence_is_an_alarm_after_a_while(service: Running) -> None:
    campaign = service.campaign(id="quiet", problem=COINS, policy="ucb1")
    now = service.desk.clock()
    service.decide(campaign, {"count": 150})
    assert alarms(service, campaign, now + 10) == []
    assert [alarm["kind"] for alarm in alarms(service, campaign, now + 1000)] == ["silent"]
    assert alarms(service, campaign, now + 1000)[0]["message"] == "150 decisions since the last reward."


def test_rewards_that_no_mix_explains_are_said_once(service: Running) -> None:
    campaign = service.campaign(id="wrong", problem=COINS, policy="joint-ucb")  # both arms pay the same, whoever comes
    for _ in range(10):
        made = service.decide(campaign, {"count": 60})["decisions"]
        rewards = [{"decision": one["id"], "value": float(one["arm"] == "a")} for one in made]
        service.post("/v1/rewards", {"rewards": rewards})
    service.decide(campaign)
    kinds = [event["kind"] for event in service.get(f"/v1/campaigns/{campaign}/events")["events"]]
    assert kinds == ["contradicted", "created"]
    report = service.get(f"/v1/campaigns/{campaign}/report")
    assert [alarm["kind"] for alarm in report["alarms"]] == ["contradicted"]
    assert report["avoided"] == {"estimate": None, "reason": "the model is contradicted"}
    assert f'headwater_contradicted_arms{{campaign="{campaign}"}} 1.0' in service.http.get("/metrics").text


def test_what_is_best_and_what_was_avoided(service: Running) -> None:
    """Discrete case 1 over 2,000 rounds: UCB1 loses about 320 (its own simulation says), and C-UCB next to nothing."""
    case = next(case for case in CASES if case.id == "discrete-1")
    law, rng = np.array([0.1, 0.2, 0.25, 0.25, 0.2]), np.random.default_rng(5)
    campaign = service.campaign(id="case", problem=case.problem.to_dict(), policy="c-ucb")
    for _ in range(2000):
        one = service.desk.submit(Decide(campaign, [None])).result()[0]
        value = float(case.problem.rewards[case.problem.index(one["arm"]), rng.choice(5, p=law)])
        service.desk.submit(Settle([(one["id"], value)])).result()
    with service.desk.campaign(campaign) as known:
        seen = glimpse(known)
    laws = draw_laws(seen)
    assert laws is not None
    best = best_of(seen, laws)
    assert best["arm"] == "arm 1"
    assert best["probability"] > 0.99
    run = hw.simulate(case.problem, law, policies=["ucb1"], horizon=2000, replications=100, seed=2)
    other = float(run.regret("ucb1")[:, -1].mean())
    mine = float(seen.policy.known.pulls @ [0.0, 0.725, 0.325])
    avoided = regret_avoided(seen, laws)
    assert avoided["low"] < other - mine < avoided["high"]
    assert avoided["rounds"] == 2000


def test_series_keep_every_decision_in_few_spans(service: Running) -> None:
    campaign = service.campaign(id="spans", problem=COINS, policy="ucb1")
    clock, now = service.desk.clock, [service.desk.clock()]
    service.desk.clock = lambda: now[0]
    try:
        series = Series(2, most=16)
        for step in (0.0, 3.0, 700.0, 5.0, -400.0, 90_000.0):
            now[0] += step
            service.decide(campaign, {"count": 7})
            with service.desk.campaign(campaign) as known, service.store.read() as connection:
                series.advance(connection, known.id, known.counters.decided)
            assert series.counts.sum() == series.seen
            assert len(series.counts) <= 16
        assert series.seen == 42
        told = series.to_dict(("a", "b"))
        assert sum(map(sum, told["decisions"].values())) == 42
        assert told["seconds"] == 8192.0  # sixteen of them hold 90,000 seconds
    finally:
        service.desk.clock = clock
