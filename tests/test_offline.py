"""Estimates from logs, against a truth that is known: unbiased, covered, and refused where there is too little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import headwater as hw
from headwater.errors import ProblemError
from headwater.evaluation.estimates import METHODS, estimate
from headwater.evaluation.events import Events, make_events, reward_range
from headwater.evaluation.rejection import _parts, replay_log
from headwater.intervals import ratio_interval

PROBLEM = hw.Problem(
    latent=hw.Discrete(["young", "old"]),
    arms={
        "banner": {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.3, 0.7]]},
        "video": {"outcomes": [0, 1, 2], "probabilities": [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]},
        "poster": {"outcomes": [0, 1], "probabilities": [[0.5, 0.5], [0.6, 0.4]]},
    },
)
WAVE = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "x", "b": "1 - x"})
MIX = np.array([0.35, 0.65])
TRUTH = PROBLEM.rewards @ MIX
SHOWN = np.array([[0.6, 0.3, 0.1], [0.15, 0.25, 0.6]])  # what the log showed whom: young people the banner, old ones the poster
BEST = float(MIX @ PROBLEM.rewards.max(axis=0))


def logged(number: int, count: int = 2000, shown: np.ndarray = SHOWN, **options: Any) -> Events:
    """A log of ``count`` events under ``shown`` (J, K)."""
    rng = np.random.default_rng([41, number])
    x = rng.choice(2, count, p=MIX)
    arm = (rng.random(count)[:, None] > np.cumsum(shown[x], axis=1)[:, :-1]).sum(axis=1)
    reward, u = np.zeros(count), rng.random(count)
    for k, table in enumerate(PROBLEM.arms.values()):
        mine = arm == k
        steps = np.cumsum(table.probabilities[x[mine]], axis=1)[:, :-1]  # type: ignore[union-attr]
        reward[mine] = (u[mine, None] > steps).sum(axis=1)
    keep: dict[str, Any] = {"propensity": shown[x, arm], "segment": [("young", "old")[j] for j in x]} | options
    return make_events(PROBLEM, [PROBLEM.names[k] for k in arm], reward, **keep)


@pytest.mark.parametrize("segments", [True, False])
def test_estimates_are_unbiased_and_covered(segments: bool) -> None:
    """400 logs: the mean within 4.5 standard errors (false alarm 1 in 100,000), and 95 % intervals that hold the truth in 91 %
    to 98.5 % of them: for a true coverage of 95 % either tail is below 1 in 1,000, and few events may cost a percent."""
    options: dict[str, Any] = {} if segments else {"segment": None}
    found = [estimate(logged(n, **options)).rows for n in range(400)]
    for i, row in enumerate(found[0]):
        truth = BEST if row.choice.startswith("each") else TRUTH[PROBLEM.index(row.choice.removeprefix("always "))]
        values = np.array([rows[i].value for rows in found])
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - truth) < 4.5 * error + (0.002 if row.method == "snips" else 0), row
        inside = np.mean([rows[i].low <= truth <= rows[i].high for rows in found])
        assert 0.91 <= inside <= 0.985, (row, inside)
    assert len(found[0]) == (4 if segments else 3) * len(METHODS)


def test_ignoring_propensities_would_be_biased_here() -> None:
    """What the weights are for: the plain mean of the banner's rewards is far off."""
    events = logged(0, count=20_000)
    plain = events.reward[events.arm == 0].mean()
    assert abs(plain - TRUTH[0]) > 0.1
    rows = [row for row in estimate(events).rows if row.choice == "always banner"]
    assert all(row.low - 0.02 < TRUTH[0] < row.high + 0.02 and row.effective > 1000 for row in rows)


def test_a_good_model_sharpens_the_doubly_robust_estimate() -> None:
    rows = {row.method: row for row in estimate(logged(1)).rows if row.choice == "always video"}
    assert rows["dr"].standard_error < 0.9 * rows["ips"].standard_error


def test_a_wrong_model_leaves_it_unbiased() -> None:
    wrong = hw.Problem(
        latent=PROBLEM.latent,
        arms={name: {"outcomes": arm.outcomes, "probabilities": arm.probabilities[::-1]} for name, arm in PROBLEM.arms.items()},  # type: ignore[union-attr]
    )
    values = []
    for n in range(200):
        e = logged(n)
        e = make_events(
            wrong, [wrong.names[k] for k in e.arm], e.reward, propensity=e.propensity, segment=["young", "old"] * 1000
        )
        values.append(estimate(e, {"banner": [1, 0, 0]}, methods=["dr"]).rows[0].value)
    assert abs(np.mean(values) - TRUTH[0]) < 4.5 * np.std(values) / np.sqrt(200)


def test_too_little_is_refused_choice_by_choice() -> None:
    rare = np.array([[0.5, 0.49, 0.01], [0.5, 0.49, 0.01]])
    found = estimate(logged(2, shown=rare, count=1000))
    assert len(found.refused) == 1 and {row.choice for row in found.rows} >= {"always banner", "always video"}
    assert "always poster: the log holds the like of" in found.refused[0] and "expected at least 100" in found.refused[0]
    with pytest.raises(ProblemError, match=r"poster: the log holds the like of .* log more events"):
        estimate(logged(2, shown=rare, count=1000), {"poster": [0, 0, 1]})
    assert estimate(logged(2), {"mine": [0.2, 0.3, 0.5]}, least=0).refused == []


def test_wrong_propensities_are_noticed() -> None:
    good = logged(3, count=20_000)
    assert good.warnings() == []
    e = make_events(PROBLEM, [PROBLEM.names[k] for k in good.arm], good.reward, propensity=np.full(good.count, 1 / 3))
    assert any("poster: shown 1.2" in line or "poster: shown 1.3" in line for line in e.warnings())


def test_shares_stand_in_for_propensities_and_their_drift_is_noticed() -> None:
    even = np.full((2, 3), 1 / 3)
    fair = logged(4, shown=even, propensity=None)
    assert fair.warnings() == ["no propensities are logged: arms are taken to have been given out by lot, whoever came"]
    assert np.allclose(sorted(set(fair.propensity)), sorted(np.bincount(fair.arm) / fair.count))
    said = logged(4, propensity=None).warnings()
    assert any("the arms' shares differ between segments" in line for line in said)
    half = logged(5, shown=even, propensity=None)
    order = np.argsort(half.arm, kind="stable")
    sorted_log = make_events(PROBLEM, [PROBLEM.names[k] for k in half.arm[order]], half.reward[order])
    assert any("shares differ along the log" in line for line in sorted_log.warnings())


# --- intervals that hold ---------------------------------------------------------------------------------------------


def clicks(number: int, rate: float, count: int, arms: int, **options: Any) -> Events:
    """A log of clicks at one rate, arms given out by lot."""
    rng = np.random.default_rng([42, number])
    names = [f"ad {k}" for k in range(arms)]
    problem = hw.Problem(
        latent=hw.Discrete(["x", "y"]),
        arms={name: {"outcomes": [0, 1], "probabilities": [[1 - rate, rate]] * 2} for name in names},
    )
    arm = rng.integers(0, arms, count)
    return make_events(problem, [names[k] for k in arm], (rng.random(count) < rate).astype(float), **options)


def test_rare_clicks_are_covered() -> None:
    """34 arms, 10,000 events, 0.46 % of clicks: intervals said 95 % and held in 73 %. In 300 logs, one that holds in 95 % holds
    less often than this once in 10,000 times; none goes below 0."""
    found = [row for n in range(300) for row in estimate(clicks(n, 0.0046, 10_000, 34), {"ad 0": np.eye(34)[0]}).rows]
    for method in METHODS:
        rows = [row for row in found if row.method == method]
        assert sum(row.low <= 0.0046 <= row.high for row in rows) >= stats.binom.ppf(1e-4, 300, 0.95), method
        assert min(row.low for row in rows) == 0 and max(row.high for row in rows) < 0.05


def test_an_arm_without_a_click_has_an_honest_upper_end() -> None:
    events = make_events(clicks(0, 0.01, 1, 2).problem, ["ad 0"] * 302 + ["ad 1"] * 302, [0.0] * 302 + [0, 1] * 151)
    rows = {row.method: row for row in estimate(events, {"ad 0": [1, 0]}).rows}
    exact = stats.beta.ppf(0.975, 1, 302)
    assert all(row.value == pytest.approx(0, abs=1e-12) and row.low == 0 for row in rows.values() if row.method != "dr")
    assert rows["ips"].high == rows["snips"].high == pytest.approx(exact, rel=1e-9) and round(exact, 3) == 0.012
    assert rows["dr"].low <= 1e-6 and 0.5 * exact < rows["dr"].high < 2 * exact
    logged = make_events(events.problem, ["ad 0"] * 302 + ["ad 1"] * 302, events.reward, propensity=np.full(604, 0.5))
    rows = {row.method: row for row in estimate(logged, {"ad 0": [1, 0]}).rows}
    assert rows["snips"].high == pytest.approx(exact, rel=1e-9) and exact < rows["ips"].high < 1.1 * exact


def test_what_arms_can_pay_bounds_what_is_said() -> None:
    """As the problem has it, arm by arm; of learned arms, all that any pays, and what the log shows beyond."""
    events = logged(0)
    low, high = reward_range(events)
    assert low.tolist() == [0, 0, 0] and high.tolist() == [1, 2, 1]
    body = PROBLEM.to_dict()["arms"]
    arms = {name: arm | {"observations": [50, 60]} for name, arm in body.items()}
    learned = hw.Problem(latent=PROBLEM.latent, arms=arms)
    few = make_events(learned, ["banner", "video"], [0, 2.5])
    assert [end.tolist() for end in reward_range(few)] == [[0, 0, 0], [2.5, 2.5, 2.5]]


def test_people_with_many_events_are_counted_once() -> None:
    """100 people with 30 events each and a rate of their own: over events 95 % intervals hold in fewer than 60 %, over people
    as often as they should, but for one false alarm in 10,000."""
    hits = {"events": 0, "people": 0}
    problem = clicks(0, 0.3, 1, 2).problem
    for n in range(200):
        rng = np.random.default_rng([43, n])
        who = np.repeat(np.arange(100), 30)
        arm = rng.integers(0, 2, 3000)
        paid = (rng.random(3000) < rng.beta(0.6, 1.4, 100)[who]).astype(float)
        for key, unit in (("events", None), ("people", who)):
            events = make_events(problem, [f"ad {k}" for k in arm], paid, unit=unit)
            for row in estimate(events, {"ad 0": [1, 0]}, methods=["snips"]).rows:
                hits[key] += row.low <= 0.3 <= row.high
                assert (row.units is None) == (key == "events")
    assert hits["people"] >= stats.binom.ppf(1e-4, 200, 0.95) and hits["events"] < 120


@pytest.mark.parametrize("paid", [10, 30])
def test_how_far_people_can_be_is_taken_from_those_who_were_paid(paid: int) -> None:
    """60 people with 1 to 10 events, ``paid`` of whom clicked once: from ten it is not known that nobody clicks always."""
    size = 1 + np.arange(60) % 10
    who = np.repeat(np.arange(60), size)
    first = np.append(0, np.cumsum(size)[:-1])
    reward = np.zeros(len(who))
    reward[first[np.arange(paid) * 60 // paid]] = 1
    total = np.bincount(who, reward)
    events = make_events(clicks(0, 0.3, 1, 2).problem, ["ad 0"] * len(who), reward, propensity=np.ones(len(who)), unit=who)
    (row,) = estimate(events, {"ad 0": [1, 0]}, methods=["snips"]).rows
    value = total.sum() / size.sum()
    farthest = int(np.argmax(total - value * size))
    most = (total[farthest], size[farthest]) if paid >= 20 else (10.0, 10.0)
    wide = ratio_interval(total, size, low=0, high=1, worst=((0.0, 10.0), most))
    assert (row.low, row.high) == pytest.approx(wide, rel=1e-6)


def test_few_people_are_refused() -> None:
    events = logged(2, unit=np.arange(2000) % 15)
    with pytest.raises(ProblemError, match=r"always banner: the log holds the like of 15 units .* expected at least 20"):
        estimate(events)
    assert estimate(events, least=0).rows[0].units == pytest.approx(15, rel=0.1)


def test_a_replay_of_rare_clicks_says_how_little_it_knows() -> None:
    """Runs without a click agree with one another; as many independent rewards would leave more open."""
    paid = clicks(1, 0.01, 8000, 4)
    events = make_events(paid.problem, [paid.problem.names[k] for k in paid.arm], np.zeros(8000))
    told = replay_log(events, policies=["ucb1"], runs=10).to_dict()
    row, rounds = told["policies"]["ucb1"], told["rounds"][-1] * told["runs"]
    assert row["mean_reward"][-1] == row["low"][-1] == 0
    assert row["high"][-1] == pytest.approx(stats.beta.ppf(0.975, 1, rounds), rel=1e-6)


def test_replays_are_over_people_too() -> None:
    """150 people with 30 events each and a rate of their own: were they in many runs, these would agree too well. A policy's
    mean reward is 0.3, whatever it does; 150 logs, one false alarm in 10,000."""
    problem, hits = clicks(0, 0.3, 1, 2).problem, {"events": 0, "people": 0}
    for n in range(150):
        rng = np.random.default_rng([44, n])
        who = rng.permutation(np.repeat(np.arange(150), 30))
        arm = rng.integers(0, 2, 4500)
        paid = (rng.random(4500) < rng.beta(0.6, 1.4, 150)[who]).astype(float)
        for key, unit in (("events", None), ("people", who)):
            events = make_events(problem, [f"ad {k}" for k in arm], paid, unit=unit)
            row = replay_log(events, policies=["ucb1"], runs=10).to_dict()["policies"]["ucb1"]
            hits[key] += row["low"][-1] <= 0.3 <= row["high"][-1]
    assert hits["people"] >= stats.binom.ppf(1e-4, 150, 0.95) and hits["events"] < 120


def test_a_run_has_its_own_people() -> None:
    """Whole people, each in one run, in the order of the log; fewer of them than runs are refused."""
    events = logged(10, count=3000, shown=np.full((2, 3), 1 / 3), unit=np.arange(3000) // 20)
    parts = _parts(events, np.arange(3000), 7)
    assert sorted(np.concatenate(parts).tolist()) == list(range(3000))
    assert events.unit is not None and sum(len(set(events.unit[part].tolist())) for part in parts) == 150
    assert all(np.all(np.diff(part) > 0) for part in parts) and max(map(len, parts)) - min(map(len, parts)) <= 20
    with pytest.raises(ProblemError, match=r"that is 0 rounds for each of 20 runs"):
        replay_log(logged(10, unit=np.arange(2000) % 15), policies=["ucb1"], runs=20)


# --- replay with rejection -------------------------------------------------------------------------------------------


def test_a_replay_has_the_law_of_a_run_in_the_world() -> None:
    """The mean reward of policies replayed on a log that depends on segments, against a simulation: 4.5 standard errors."""
    events = logged(6, count=260_000)
    policies = ["ucb1", "ts", "joint-ucb"]
    found = replay_log(events, policies=policies, horizon=150, runs=60, checkpoints=[50])
    run = hw.simulate(PROBLEM, MIX, policies=policies, horizon=150, replications=4000, seed=3, checkpoints=[50])
    for name in policies:
        regret = run.regret(name) / run.rounds
        mine = found.rewards[name]
        error = np.sqrt(mine.var(axis=0, ddof=1) / len(mine) + regret.var(axis=0) / len(regret))
        assert np.all(abs(mine.mean(axis=0) - (TRUTH.max() - regret.mean(axis=0))) < 4.5 * error), name
    assert abs(found.lot - TRUTH.mean()) < 4.5 * events.reward.std() / np.sqrt(found.kept)
    told = found.to_dict()
    assert told["runs"] == 60 and told["rounds"] == [50, 150] and set(told["policies"]) == set(policies)
    assert told["policies"]["ts"]["low"][0] < told["policies"]["ts"]["mean_reward"][0] < told["policies"]["ts"]["high"][0]


def test_the_horizon_is_what_the_log_allows() -> None:
    events = logged(7, count=30_000, shown=np.full((2, 3), 1 / 3))
    found = replay_log(events, policies=["ucb1"], runs=10)
    assert 800 < found.rounds[-1] <= 1000 and len(found.rewards["ucb1"]) >= 9
    told: list[tuple[int, int]] = []
    again = replay_log(events, policies=["ucb1"], runs=10, horizon=int(found.rounds[-1]), progress=lambda *x: told.append(x))
    assert np.array_equal(found.rewards["ucb1"], again.rewards["ucb1"]) and told[-1] == (10, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": 1}, "runs: got 1; expected a whole number from 2 to 10,000"),
        ({"seed": -1}, "seed: got -1"),
        ({"horizon": 0}, "horizon: got 0"),
        ({"horizon": 5000}, r"events are left once every arm is as likely as the rarest \(propensity 0.1\); that is .* rounds"),
        ({"runs": 40}, "and 100 are needed: ask for fewer runs or rounds, or log more events"),
        ({"policies": []}, "policies: got"),
    ],
)
def test_replays_that_are_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"policies": ["ucb1"], "runs": 2}
    with pytest.raises(ProblemError, match=message):
        replay_log(logged(8), **(good | change))


def test_an_arm_that_was_never_shown_is_refused() -> None:
    events = make_events(PROBLEM, ["banner", "video"] * 500, [1] * 1000)
    with pytest.raises(ProblemError, match="log: poster was never shown; expected events of every arm"):
        replay_log(events, policies=["ucb1"])


def test_runs_that_end_too_soon_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.evaluation.rejection.SLACK", -40.0)
    with pytest.raises(ProblemError, match="log: the runs of ucb1 ended too soon"):
        replay_log(logged(9), policies=["ucb1"], runs=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_events(PROBLEM, ["radio"], [1]), 'arm: got "radio"; expected one of banner, video, poster'),
        (lambda: make_events(PROBLEM, ["banner"], ["n/a"]), "reward: got .*; expected numbers"),
        (lambda: make_events(PROBLEM, ["banner"], [1, 2]), "reward: got 2 values; expected 1, one per event"),
        (lambda: make_events(PROBLEM, ["banner"], [np.inf]), "reward: got Infinity; expected finite numbers"),
        (
            lambda: make_events(PROBLEM, ["banner"], [1], propensity=[0]),
            "propensity: got 0; expected the probability of the arm",
        ),
        (lambda: make_events(PROBLEM, ["banner"], [1], propensity=[1.5]), "propensity: got 1.5; expected"),
        (lambda: make_events(WAVE, ["a"], [1]), "problem: got continuous X; expected one whose values are listed"),
        (lambda: make_events(PROBLEM, ["banner"], [1], unit=[1, 2]), "unit: got 2 values; expected 1, one per event"),
        (lambda: make_events(PROBLEM, [], []), "log: got no events; expected some"),
        (lambda: make_events(PROBLEM, ["banner"], [1], segment=["tall"]), 'segments: got "tall"; expected one of young, old'),
        (lambda: estimate(logged(0), confidence=1), "confidence: got 1; expected a number between 0 and 1"),
        (lambda: estimate(logged(0), methods=["magic"]), 'method: got "magic"; expected one of ips, snips, dr'),
        (
            lambda: estimate(logged(0), {"mine": [1, 1, 1]}),
            "mine: expected probabilities of 3 arms, or a row of them for each of 2",
        ),
        (
            lambda: estimate(logged(0, segment=None), {"mine": np.eye(3)[:2]}),
            "mine: chooses by segment, and the log has no segments",
        ),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        call()
