"""The service as its users meet it, over real HTTP, on SQLite and on PostgreSQL: every test runs on both."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import headwater as hw
from headwater.service.checks import check_database
from service_tools import ADS, Running, pays, until


@pytest.fixture
def service(database: str) -> Iterator[Running]:
    with Running(database) as running:
        yield running
        with running.store.read() as connection:  # whatever a test did, the stored counts are those of the log
            for slug, found in check_database(connection):
                assert not found, (slug, found)


def test_from_a_problem_to_counted_rewards(service: Running) -> None:
    made = service.post("/v1/campaigns", {"name": "Two ads!", "problem": ADS, "policy": "c-ucb", "seed": 7}, 201)
    assert (made["id"], made["status"], made["policy"], made["seed"]) == ("two-ads", "running", "c-ucb", 7)
    decision = service.decide("two-ads")
    assert decision["id"] == "two-ads.1"
    assert (decision["arm"], decision["propensity"], decision["source"]) == ("banner", 1.0, "policy")
    assert decision["reason"] == "c-ucb chose it, knowing 0 rewards."
    told = service.reward(decision["id"], 2)
    assert told == {"decision": "two-ads.1", "arm": "banner", "value": 2.0, "status": "counted"}
    view = service.get("/v1/campaigns/two-ads")
    assert (view["decisions"], view["rewards"], view["pending"]) == (1, 1, 0)
    assert [one["id"] for one in service.get("/v1/campaigns")["campaigns"]] == ["two-ads"]
    assert service.get("/v1/decisions/two-ads.1")["reward"]["value"] == 2.0


def test_decisions_are_those_of_the_policy_in_python(service: Running) -> None:
    problem = hw.load_problem(Path(__file__).parent.parent / "examples" / "paper" / "discrete-2.toml")
    for name in ("c-ucb", "joint-ucb", "ucb1"):
        campaign = service.campaign(problem=problem.to_dict(), policy=name, seed=3, id=name)
        policy = hw.make_policy(name, problem, seed=3)
        for t in range(60):
            arm = service.decide(campaign)["arm"]
            assert arm == policy.select()
            value = float(problem.rewards[problem.index(arm), t % 5])
            policy.update(arm, value)
            service.reward(f"{campaign}.{t + 1}", value)
        assert service.get(f"/v1/campaigns/{campaign}/state")["pulls"] == policy.pulls


def test_rewards_are_counted_once(service: Running) -> None:
    campaign = service.campaign()
    (first, arm), (second, other) = ((one["id"], one["arm"]) for one in service.decide(campaign, {"count": 2})["decisions"])
    paid = pays(other, 2)
    assert service.reward(second, paid)["status"] == "counted"  # out of order
    assert service.reward(second, paid)["status"] == "repeated"
    assert service.reward(second, 1, 409)["error"] == {
        "code": "conflict",
        "message": f"{second}: the reward {paid:g} was counted already; a second one, 1, is refused",
        "details": [],
    }
    told = service.reward(first, 7, 422)["error"]
    assert told["code"] == "unpayable"
    assert told["message"].startswith(f"{first}: reward: got 7; arm {arm} can pay")
    assert service.reward("ads.99", 1, 404)["error"]["message"] == 'there is no decision "ads.99"'
    assert service.reward("nothing", 1, 404)["error"]["code"] == "not_found"
    assert service.reward("ads." + "9" * 30, 1, 404)["error"]["code"] == "not_found"
    for wrong in ("1", None, True, [1]):
        assert service.reward(first, wrong, 422)["error"]["code"] == "invalid"
    refused = service.get(f"/v1/campaigns/{campaign}/events")["refusals"]
    assert [one["code"] for one in refused] == ["unpayable", "conflict"]
    assert service.get(f"/v1/campaigns/{campaign}")["refused"] == 2
    kinds = {alarm["kind"] for alarm in service.get(f"/v1/campaigns/{campaign}/report")["alarms"]}
    assert kinds == {"unpayable", "conflict"}


def test_batches_of_rewards_count_each_for_itself(service: Running) -> None:
    one, other = service.campaign(id="one"), service.campaign(id="other")
    made = [*service.decide(one, {"count": 3})["decisions"], service.decide(other)]
    ids = [d["id"] for d in made]
    items = [{"decision": d["id"], "value": pays(d["arm"], 2)} for d in [*made, made[0]]]
    items += [{"decision": d, "value": 2} for d in ("one.77", "x", "gone.1")] + [{"decision": ids[1], "value": 1}]
    told = service.post("/v1/rewards", {"rewards": items})
    assert (told["counted"], told["repeated"]) == (4, 1)
    assert [(r["decision"], r["code"]) for r in told["refused"]] == [
        ("one.77", "not_found"), ("x", "not_found"), ("gone.1", "not_found"), (ids[1], "conflict"),
    ]  # fmt: skip
    assert service.get("/v1/campaigns/one")["rewards"] == 3


def test_an_idempotency_key_makes_retries_safe(service: Running) -> None:
    campaign = service.campaign()
    first = service.decide(campaign, {"count": 3}, Idempotency_Key="abc")
    again = service.decide(campaign, {"count": 3}, Idempotency_Key="abc")
    assert [one["id"] for one in again["decisions"]] == [one["id"] for one in first["decisions"]]
    assert all(one["repeated"] for one in again["decisions"])
    told = service.decide(campaign, {"count": 4}, 409, Idempotency_Key="abc")["error"]
    assert told["code"] == "key_reused"
    service.post(f"/v1/campaigns/{campaign}/pause")
    assert len(service.decide(campaign, {"count": 3}, Idempotency_Key="abc")["decisions"]) == 3  # a retry, also now
    assert service.get(f"/v1/campaigns/{campaign}")["decisions"] == 3


def test_a_unit_sticks_to_its_decision(service: Running) -> None:
    campaign = service.campaign()
    first = service.decide(campaign, {"unit": "ann"})
    again = service.decide(campaign, {"unit": "ann"})
    assert (again["id"], again["repeated"]) == (first["id"], True)
    many = service.decide(campaign, {"units": ["bob", "ann", "bob", "eve"]})["decisions"]
    assert [one["unit"] for one in many] == ["bob", "ann", "bob", "eve"]
    assert many[0]["id"] == many[2]["id"]
    assert many[1]["id"] == first["id"]
    assert service.get(f"/v1/campaigns/{campaign}")["decisions"] == 3
    service.post(f"/v1/campaigns/{campaign}/arms", {"arm": first["arm"], "enabled": False})
    fresh = service.decide(campaign, {"unit": "ann"})  # its arm is off: a new decision, which sticks from now on
    assert fresh["arm"] != first["arm"]
    assert service.decide(campaign, {"unit": "ann"})["id"] == fresh["id"]


def test_pause_resume_archive(service: Running) -> None:
    campaign = service.campaign()
    first = service.decide(campaign)
    assert service.post(f"/v1/campaigns/{campaign}/pause")["status"] == "paused"
    told = service.decide(campaign, None, 409)["error"]
    assert (told["code"], told["message"]) == ("paused", "ads: the campaign is paused; resume it first")
    assert service.reward(first["id"], pays(first["arm"], 1))["status"] == "counted"  # nothing that comes is lost
    assert service.post(f"/v1/campaigns/{campaign}/resume")["status"] == "running"
    late = service.decide(campaign)
    assert service.post(f"/v1/campaigns/{campaign}/archive")["status"] == "archived"
    assert service.post(f"/v1/campaigns/{campaign}/resume", None, 409)["error"]["code"] == "archived"
    assert service.decide(campaign, None, 409)["error"]["code"] == "archived"
    assert service.reward(late["id"], pays(late["arm"], 1))["status"] == "counted"
    kinds = [event["kind"] for event in service.get(f"/v1/campaigns/{campaign}/events")["events"]]
    assert kinds == ["archived", "running", "paused", "created"]
    assert service.get("/v1/campaigns?status=running")["campaigns"] == []


def test_an_arm_that_is_off_is_not_shown(service: Running) -> None:
    campaign = service.campaign(policy="joint-ucb")
    view = service.post(f"/v1/campaigns/{campaign}/arms", {"arm": "banner", "enabled": False})
    assert view["arms"] == {"banner": False, "video": True, "poster": True}
    assert view["version"] == 2
    made = service.decide(campaign, {"count": 50})["decisions"]
    assert {one["arm"] for one in made} <= {"video", "poster"}
    assert {one["version"] for one in made} == {2}
    service.post(f"/v1/campaigns/{campaign}/arms", {"arm": "video", "enabled": False})
    assert service.decide(campaign)["arm"] == "poster"
    told = service.post(f"/v1/campaigns/{campaign}/arms", {"arm": "poster", "enabled": False}, 422)["error"]
    assert told["message"] == "arms: got none enabled; expected at least one"
    service.post(f"/v1/campaigns/{campaign}/arms", {"arm": "none", "enabled": False}, 422)
    assert service.post(f"/v1/campaigns/{campaign}/arms", {"arm": "banner", "enabled": True})["arms"]["banner"]


def test_shares_and_propensities_are_what_they_say(service: Running) -> None:
    """Floor 5 %, control 10 %, holdout 20 %: of 3,000 decisions each source has its share within five standard errors."""
    campaign = service.campaign(floor=0.05, control={"arm": "poster", "share": 0.1}, holdout=0.2)
    made: list[Any] = []
    for _ in range(3):
        made += service.decide(campaign, {"count": 1000})["decisions"]
    shares = Counter(one["source"] for one in made)
    for source, share in (("holdout", 0.2), ("control", 0.1), ("floor", 0.15), ("policy", 0.55)):
        assert abs(shares[source] / 3000 - share) < 5 * (share * (1 - share) / 3000) ** 0.5, (source, shares)
    for one in made:
        chosen = 0.55 if one["arm"] == one["choice"] else 0.0
        wanted = 0.2 / 3 + (0.1 if one["arm"] == "poster" else 0.0) + 0.05 + chosen
        assert one["propensity"] == pytest.approx(wanted)
    # inverse propensities weigh every arm's decisions to their number: the mean weight of an arm is 1
    for arm in ADS["arms"]:
        weights = [1 / one["propensity"] if one["arm"] == arm else 0.0 for one in made]
        mean = sum(weights) / len(weights)
        error = (sum(w * w for w in weights) / len(weights) / len(weights)) ** 0.5
        assert abs(mean - 1) < 5 * error, (arm, mean, error)
    held = [one for one in made if one["source"] == "holdout"][:50]
    before = service.get(f"/v1/campaigns/{campaign}/state")["rounds"]
    rewards = [{"decision": one["id"], "value": pays(one["arm"], 0)} for one in held]
    assert service.post("/v1/rewards", {"rewards": rewards})["counted"] == len(held)
    assert service.get(f"/v1/campaigns/{campaign}/state")["rounds"] == before  # the policy does not learn from them
    report = service.get(f"/v1/campaigns/{campaign}/report")
    assert sum(arm["holdout"]["rewards"] for arm in report["arms"] if arm["holdout"]) == len(held)


@pytest.mark.parametrize("policy", ["ts", "c-ts", "latent-ts"])
def test_propensities_of_randomised_policies_are_estimates_of_what_they_do(service: Running, policy: str) -> None:
    campaign = service.campaign(policy=policy, seed=5)
    for arm, x in (("banner", 0), ("video", 0), ("poster", 2)):
        for other in ADS["arms"]:
            service.post(f"/v1/campaigns/{campaign}/arms", {"arm": other, "enabled": True})
        for other in ADS["arms"]:
            if other != arm:
                service.post(f"/v1/campaigns/{campaign}/arms", {"arm": other, "enabled": False})
        for one in service.decide(campaign, {"count": 3})["decisions"]:
            service.reward(one["id"], pays(arm, x))
    for other in ADS["arms"]:
        service.post(f"/v1/campaigns/{campaign}/arms", {"arm": other, "enabled": True})
    # 909 rounds: audits, which would change the chances, begin after 1,000
    made = [one for _ in range(2) for one in service.decide(campaign, {"count": 450})["decisions"]]
    stated = {one["arm"]: one["propensity"] for one in made}
    shares = Counter(one["arm"] for one in made)
    assert sum(stated.values()) == pytest.approx(1, abs=0.02)
    for arm, share in stated.items():  # 200 draws estimate it: within five standard errors of both
        error = (share * (1 - share) * (1 / 200 + 1 / 900)) ** 0.5 + 0.005
        assert abs(shares[arm] / 900 - share) < 5 * error, (arm, share, shares)


def test_shadow_campaigns_decide_and_do_not_steer(service: Running) -> None:
    campaign = service.campaign(mode="shadow")
    told = service.decide(campaign, None, 422)["error"]["message"]
    assert told == "shown: missing; expected the arm that you show, because this campaign is a shadow"
    service.decide(campaign, {"shown": "none"}, 422)
    made = service.decide(campaign, {"shown": "poster"})
    assert (made["arm"], made["choice"], made["source"], made["propensity"]) == ("poster", "banner", "shadow", None)
    assert made["reason"] == "Shown by you; c-ucb would have shown banner, knowing 0 rewards."
    service.reward(made["id"], 3)
    assert service.get(f"/v1/campaigns/{campaign}/state")["pulls"] == {"banner": 0, "video": 0, "poster": 1}
    assert service.http.patch(f"/v1/campaigns/{campaign}", json={"mode": "live"}).json()["mode"] == "live"
    assert "is live" in service.decide(campaign, {"shown": "poster"}, 422)["error"]["message"]


def test_deadlines_default_and_forget(service: Running) -> None:
    clock = [time.time()]
    service.desk.clock = lambda: clock[0]
    default = service.campaign(id="default", reward_deadline=60, default_reward=1.5, problem=_payable(1.5))
    forget = service.campaign(id="forget", reward_deadline=60)
    both = [service.decide(campaign, {"count": 4})["decisions"] for campaign in (default, forget)]
    for made in both:
        service.reward(made[0]["id"], 1.5 if made is both[0] else pays(made[0]["arm"], 1))
    clock[0] += 61
    until(lambda: all(service.get(f"/v1/campaigns/{c}")["pending"] == 0 for c in (default, forget)))
    state = service.get("/v1/campaigns/default/state")
    assert (state["rounds"], sum(state["pending"].values())) == (4, 0)
    state = service.get("/v1/campaigns/forget/state")
    assert (state["rounds"], sum(state["pending"].values())) == (1, 0)
    told = service.reward(both[0][1]["id"], 1.5, 409)["error"]
    assert told["code"] == "deadline_passed"
    assert "1.5 was counted" in told["message"]
    late = both[1][1]
    assert "it was given up" in service.reward(late["id"], pays(late["arm"], 1), 409)["error"]["message"]
    clock[0] -= 500  # a clock that jumps back harms nobody
    fresh = service.decide(default)["id"]
    assert service.reward(fresh, 1.5)["status"] == "counted"
    report = service.get("/v1/campaigns/default/report")
    assert report["settled"] == {"paid": 2, "default": 3, "forgotten": 0}


def _payable(value: float) -> dict[str, Any]:
    return {**ADS, "arms": {name: [*row[:2], value] for name, row in ADS["arms"].items()}}


def test_settings_change_while_it_runs(service: Running) -> None:
    campaign = service.campaign(reward_deadline=60)
    changed = service.http.patch(f"/v1/campaigns/{campaign}", json={"holdout": 1.0, "name": "renamed", "reward_deadline": None})
    assert changed.status_code == 200
    assert (changed.json()["name"], changed.json()["holdout"], changed.json()["reward_deadline"]) == ("renamed", 1.0, None)
    assert {one["source"] for one in service.decide(campaign, {"count": 20})["decisions"]} == {"holdout"}
    for wrong, text in (
        ({"floor": 0.4, "holdout": 0.5}, "floor × 3 arms + control + holdout: got 1.7; expected at most 1"),
        ({"floor": None}, "floor: got null; expected a value, or leave it out"),
        ({"control": {"arm": "x", "share": 0.1}, "holdout": 0}, 'control.arm: got "x"; expected one of banner, video, poster'),
        ({"default_reward": 1}, "default_reward: got no reward_deadline; expected one, for when the default is to count"),
        ({"seed": 3}, "seed: unknown key"),
    ):
        answer = service.http.patch(f"/v1/campaigns/{campaign}", json=wrong)
        assert answer.status_code == 422
        assert answer.json()["error"]["message"] == text
    assert service.get(f"/v1/campaigns/{campaign}")["version"] == 2


def test_campaigns_that_cannot_be_made(service: Running) -> None:
    service.campaign(id="taken")
    for body, status, text in (
        ({"name": "x", "problem": ADS, "id": "taken"}, 409, "expected one that no other campaign has"),
        ({"name": "x", "problem": ADS, "id": "No Slug"}, 422, "id: got"),
        ({"name": "x", "problem": {**ADS, "arms": {"a": [1, 2]}}}, 422, "arms: got 1; expected at least two"),
        ({"name": "x", "problem": ADS, "policy": "best"}, 422, "policy"),
        ({"name": "x", "problem": ADS, "policy": "ts:posterior=odd"}, 422, "posterior"),
        ({"name": "x"}, 422, "problem: missing"),
        ({"name": "", "problem": ADS}, 422, "name: got"),
        ({"name": "x", "problem": ADS, "default_reward": 9, "reward_deadline": 5}, 422, "banner cannot pay it"),
        ({"name": "x", "problem": ADS, "seed": -1}, 422, "seed: got -1"),
        ([], 422, "the body: got []"),
    ):
        assert text in service.post("/v1/campaigns", body, status)["error"]["message"], body
    problem = {**ADS, "arms": {"a": ["n/a", 1, 2], "b": [1]}}
    assert len(service.post("/v1/campaigns", {"name": "x", "problem": problem}, 422)["error"]["details"]) > 1
    assert len(service.get("/v1/campaigns")["campaigns"]) == 1
    assert service.campaign() == "ads"
    assert service.campaign() == "ads-2"


def test_the_log_in_pages_and_as_files(service: Running, tmp_path: Path) -> None:
    problem = {**ADS, "arms": {"=banner": [1, 2, 2], "video": [1.5, 0, 1.5]}}
    campaign = service.campaign(problem=problem)
    made = service.decide(campaign, {"count": 25})["decisions"]
    service.reward(made[3]["id"], 2 if made[3]["arm"] == "=banner" else 1.5)
    pages, after = [], 0
    while after is not None:
        page = service.get(f"/v1/campaigns/{campaign}/decisions?after={after}&limit=10")
        pages.append(page["decisions"])
        after = page["next"]
    assert [len(page) for page in pages] == [10, 10, 5]
    flat = [one for page in pages for one in page]
    assert [{k: v for k, v in one.items() if k != "reward"} for one in flat] == made
    assert [one["reward"] is not None for one in flat] == [i == 3 for i in range(25)]
    rows = list(csv.DictReader(io.StringIO(service.http.get(f"/v1/campaigns/{campaign}/export").text)))
    assert [row["decision"] for row in rows] == [one["id"] for one in made]
    assert {row["arm"] for row in rows} <= {"'=banner", "video"}  # no spreadsheet takes it for a formula
    (tmp_path / "log.parquet").write_bytes(service.http.get(f"/v1/campaigns/{campaign}/export?format=parquet").content)
    table = pyarrow.parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["arm"] for row in table] == [one["arm"] for one in made]
    assert [row["reward"] is not None for row in table] == [i == 3 for i in range(25)]
    assert service.get(f"/v1/campaigns/{campaign}/export?format=xml", 422)["error"]["code"] == "invalid"


def test_what_is_known(service: Running) -> None:
    campaign = service.campaign(policy="auto")
    for t in range(80):
        one = service.decide(campaign)
        service.reward(one["id"], pays(one["arm"], (0, 1, 2, 2)[t % 4]))
    told = service.get(f"/v1/campaigns/{campaign}/explanation")
    assert told["rounds"] == 80
    assert told["chosen"] in told["text"]
    law = service.get(f"/v1/campaigns/{campaign}/latent?confidence=0.9")
    assert (
        law["confidence"] == 0.9
        and law["holds"] == "each"
        and law["kind"] == "90 % confidence, each value by itself, at this moment"
    )
    always = service.get(f"/v1/campaigns/{campaign}/latent?confidence=0.9&holds=always")
    assert always["kind"] == "90 % confidence, all values at once, at all times"
    assert all(always["values"][name]["low"] <= one["low"] + 1e-6 for name, one in law["values"].items())
    assert service.get(f"/v1/campaigns/{campaign}/latent?holds=never", 422)["error"]["code"] == "invalid"
    assert sum(value["likeliest"] for value in law["values"].values()) == pytest.approx(1)
    assert service.get(f"/v1/campaigns/{campaign}/latent?confidence=2", 422)["error"]["code"] == "invalid"
    report = service.get(f"/v1/campaigns/{campaign}/report")
    assert report["best"]["arm"] in ("banner", "poster")  # 1.75 each
    assert sum(report["best"]["probabilities"].values()) == pytest.approx(1)
    for arm in report["arms"]:
        assert arm["low"] <= (arm["mean"] if arm["mean"] is not None else arm["low"]) <= arm["high"]
    assert report["avoided"]["rounds"] == 80
    assert report["avoided"]["low"] <= report["avoided"]["estimate"] <= report["avoided"]["high"]
    series = service.get(f"/v1/campaigns/{campaign}/series")
    assert sum(map(sum, series["decisions"].values())) == 80
    state = service.get(f"/v1/campaigns/{campaign}/state")["state"]
    policy = hw.from_state(json.loads(json.dumps(state)), hw.Problem(
        latent=hw.Discrete(ADS["latent"]["values"]), arms=ADS["arms"]))  # fmt: skip
    assert policy.rounds == 80
    assert service.get(f"/v1/campaigns/{campaign}/problem")["arms"] == ADS["arms"]


def test_continuous_and_vector_problems_have_campaigns(service: Running) -> None:
    curves = {"latent": {"kind": "continuous", "support": [0, 1]}, "arms": {"low": "x", "high": "1 - x"}}
    campaign = service.campaign(problem=curves, policy="auto", id="curves")
    for _ in range(5):
        service.reward(service.decide(campaign)["id"], 0.25)
    assert service.get("/v1/campaigns/curves/state")["rounds"] == 5
    assert service.get("/v1/campaigns/curves/latent", 422)["error"]["message"].startswith("latent: got continuous X")
    report = service.get("/v1/campaigns/curves/report")
    assert report["avoided"] == {"estimate": None, "reason": "X is not a short list of values"}
    pair = {
        "latent": {"kind": "vector", "components": {"a": [0, 1], "b": {"low": 0, "high": 1}}},
        "arms": {"s": "a + b", "p": "a * b"},
    }
    campaign = service.campaign(problem=pair, policy="c-ucb", id="pair")
    service.reward(service.decide(campaign)["id"], 0.5)


def test_nothing_is_forgotten_by_a_restart(database: str) -> None:
    problem = hw.load_problem(Path(__file__).parent.parent / "examples" / "paper" / "discrete-3.toml")
    policy = hw.make_policy("joint-ucb", problem)
    for part in range(3):
        with Running(database) as service:
            if part == 0:
                service.campaign(problem=problem.to_dict(), policy="joint-ucb", id="kept")
            for t in range(20):
                one = service.decide("kept")
                assert one["arm"] == policy.select()
                value = float(problem.rewards[problem.index(one["arm"]), t % 5])
                policy.update(one["arm"], value)
                service.reward(one["id"], value)
            service.decide("kept", {"count": 2})
            for name in policy.select_many(2):
                assert name in problem.names
            assert service.get("/v1/campaigns/kept/state")["pending"] == dict(zip(policy.names, policy.pending, strict=True))


def test_health_readiness_metrics(service: Running) -> None:
    assert service.get("/healthz")["status"] == "ok"
    assert service.get("/readyz") == {"status": "ready"}
    campaign = service.campaign()
    one = service.decide(campaign)
    service.reward(one["id"], pays(one["arm"], 1))
    text = service.http.get("/metrics").text
    assert 'headwater_decisions_total{campaign="ads"} 1.0' in text
    assert 'headwater_rewards_total{campaign="ads",status="counted"} 1.0' in text
    assert 'route="/v1/campaigns/{id}/decisions"' in text
    assert service.get("/v1/nothing", 404)["error"]["code"] == "not_found"
    assert service.http.delete("/v1/campaigns").json()["error"]["code"] == "method_not_allowed"
    answer = service.http.post("/v1/campaigns", content=b'{"a":', headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["message"].startswith("the body: is not JSON")
    deep = b"[" * 100_000 + b"]" * 100_000
    answer = service.http.post("/v1/campaigns", content=deep, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]
