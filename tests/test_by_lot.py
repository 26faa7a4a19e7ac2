"""Policies that choose by lot: `uniform`, the A/B test, and `epsilon-greedy`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

import headwater as hw
from headwater import native
from headwater.errors import ProblemError
from headwater.policies import Policy, Spec, from_state, make_spec, parse_spec, table
from headwater.policies.rules import EpsilonGreedy, Uniform
from oracle import drawn_atoms, uniform

FALSE_ALARM = 1e-6
LAW = np.array([0.2, 0.5, 0.3])
TABLE = {"a": [0, 1, 3], "b": [2, 0, 1], "c": [1, 1, 0], "d": [0, 2, 1], "e": [1, 0, 1]}
FIVE = hw.Problem(latent=hw.Discrete(["x", "y", "z"]), arms=TABLE, distribution=LAW.tolist())
LOTS = [make_spec("uniform"), make_spec("epsilon-greedy"), make_spec("epsilon-greedy", epsilon=0.4)]


def counts_of(chosen: list[str]) -> list[int]:
    return [chosen.count(name) for name in FIVE.names]


def lot(seed: int, replication: int, t: int, lane: int) -> float:
    """A uniform of the stream of lots."""
    return uniform(seed, replication, t, native.purposes["choice"], lane, 0) * 2.0**-53


def played(policy: Policy, rounds: int) -> list[str]:
    """Arms chosen along the policy's own stream of X."""
    chosen = []
    for j in drawn_atoms(LAW, policy.seed, policy.replication, rounds):
        arm = policy.select()
        policy.update(arm, TABLE[arm][j])
        chosen.append(arm)
    return chosen


# --- uniform ---------------------------------------------------------------------------------------------------------


def test_every_arm_has_the_same_chance() -> None:
    """Chi-squared with a false-alarm probability of 1e-6; the seed is fixed."""
    chosen = played(Policy(make_spec("uniform"), FIVE, seed=11), 5000)
    assert stats.chisquare(counts_of(chosen)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("among", [["a", "b"], ["a", "c", "e"], ["b", "c", "d", "e"], ["d"]])
@pytest.mark.parametrize("many", [False, True])
def test_every_arm_that_is_on_has_the_same_chance(among: list[str], many: bool) -> None:
    """As above, pending pulls or not: the lots of arms that are off do not go to their neighbours."""
    policy = Policy(make_spec("uniform"), FIVE, seed=12)
    if many:
        chosen = policy.select_many(4000, among)
    else:
        chosen = []
        for _ in range(4000):
            chosen.append(policy.select(among))
            policy.update(chosen[-1], TABLE[chosen[-1]][0])
    assert set(chosen) == set(among)
    if len(among) > 1:
        assert stats.chisquare([chosen.count(name) for name in among]).pvalue > FALSE_ALARM


def test_the_lots_are_those_of_the_stream() -> None:
    policy = Policy(make_spec("uniform"), FIVE, seed=2**40 + 3, replication=6)
    for t, arm in enumerate(played(policy, 200), start=1):
        assert arm == FIVE.names[int(5 * lot(2**40 + 3, 6, t, 0))]
    policy.update("a", 0)
    assert policy.select(["b", "e"]) in ("b", "e")


def test_rewards_are_of_no_account_to_it() -> None:
    one, other = (Policy(make_spec("uniform"), FIVE, seed=5) for _ in range(2))
    for _ in range(100):
        arm = one.select()
        assert other.select() == arm
        one.update(arm, max(TABLE[arm]))
        other.update(arm, min(TABLE[arm]))


# --- epsilon-greedy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_every_arm_once_first(epsilon: float) -> None:
    for seed in range(20):
        policy = Policy(make_spec("epsilon-greedy", epsilon=epsilon), FIVE, seed=seed)
        assert played(policy, 5) == list(FIVE.names)
        other = Policy(make_spec("epsilon-greedy", epsilon=epsilon), FIVE, seed=seed)
        assert other.select_many(5) == list(FIVE.names), "also while all of them are pending"


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_the_part_of_rounds_that_explore(epsilon: float) -> None:
    """Rounds that are not greedy: epsilon (1 - 1/K) of them, by a binomial test with a false-alarm probability of 1e-6; and
    what they pull is uniform over the other arms."""
    policy, rounds, others = Policy(make_spec("epsilon-greedy", epsilon=epsilon), FIVE, seed=21), 4000, []
    policy.update(list(FIVE.names), [3, 0, 0, 0, 0])
    for _ in range(rounds):
        arm = policy.select()
        others += [arm] if arm != "a" else []
        policy.update(arm, 3 if arm == "a" else 0)
    share = epsilon * 0.8
    assert stats.binomtest(len(others), rounds, share).pvalue > FALSE_ALARM
    assert epsilon == 0 or stats.chisquare(counts_of(others)[1:]).pvalue > FALSE_ALARM


def test_its_choices_are_those_of_its_description() -> None:
    """The stream's second lot says whether a round explores, the first one which arm; ties go to the lowest number."""
    policy, seed = Policy(make_spec("epsilon-greedy", epsilon=0.3), FIVE, seed=77, replication=2), 77
    paid: dict[str, list[float]] = {name: [] for name in FIVE.names}
    for t, j in enumerate(drawn_atoms(LAW, seed, 2, 400), start=1):
        arm = policy.select()
        fresh = [name for name in FIVE.names if not paid[name]]
        if fresh:
            assert arm == fresh[0]
        elif lot(seed, 2, t, 1) < 0.3:
            assert arm == FIVE.names[int(5 * lot(seed, 2, t, 0))]
        else:
            assert arm == max(FIVE.names, key=lambda name: (np.mean(paid[name]), -FIVE.index(name)))
        paid[arm].append(TABLE[arm][j])
        policy.update(arm, TABLE[arm][j])


def test_exploring_among_some() -> None:
    """The chances of the best of two arms that are on: 1 - epsilon/2; 20,000 draws, a false alarm below 1e-6."""
    policy = Policy(make_spec("epsilon-greedy", epsilon=0.4), FIVE, seed=3)
    policy.update(list(FIVE.names), [3, 1, 0, 2, 1])
    found = policy.propensities(["c", "d"], draws=20_000)
    assert found["d"] == pytest.approx(0.8, abs=5 * (0.25 / 20_000) ** 0.5)
    assert found["a"] == found["b"] == found["e"] == 0


# --- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", LOTS, ids=lambda spec: spec.title)
def test_the_same_seed_decides_the_same(spec: Spec) -> None:
    one, same, other = (played(Policy(spec, FIVE, seed=seed), 200) for seed in (4, 4, 5))
    assert one == same != other


@pytest.mark.parametrize("spec", LOTS, ids=lambda spec: spec.title)
@pytest.mark.parametrize("replication", [0, 9])
def test_live_is_simulated(spec: Spec, replication: int) -> None:
    run = hw.simulate(
        FIVE, policies=[spec], horizon=150, replications=10, seed=8, checkpoints=list(range(1, 151)), engine="step"
    )
    arms = np.diff(run.outcomes[spec.title].pulls[replication], axis=0, prepend=0).argmax(axis=1)
    chosen = played(Policy(spec, FIVE, seed=8, replication=replication), 150)
    assert [FIVE.names[k] for k in arms] == chosen
    assert not run.outcomes[spec.title].excluded.any()


@pytest.mark.parametrize("spec", LOTS, ids=lambda spec: spec.title)
def test_a_stored_one_goes_on(spec: Spec) -> None:
    policy = Policy(spec, FIVE, seed=3)
    played(policy, 60)
    waiting = policy.select_many(3)
    state = json.loads(json.dumps(policy.state(), allow_nan=False))
    again = from_state(state, FIVE)
    assert state["policy"] == spec.to_dict() and again.spec == spec and again.state() == policy.state()
    for arm in waiting:
        for one in (policy, again):
            one.update(arm, TABLE[arm][1])
    assert played(policy, 50) == played(again, 50)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uniform:reference=most-pulled", 'reference: got "most-pulled"; expected one of none for uniform'),
        ("uniform:audit=1", "audit: not an option of uniform; expected none, it has no options"),
        ("uniform:epsilon=0.5", "epsilon: not an option of uniform; expected none, it has no options"),
        ("epsilon-greedy:reference=well-pulled", 'reference: got "well-pulled"; expected one of none for epsilon-greedy'),
        ("epsilon-greedy:audit=1", "audit: not an option of epsilon-greedy; expected epsilon"),
        ("epsilon-greedy:epsilon=1.5", "epsilon: got 1.5; expected a number from 0 to 1"),
        ("epsilon-greedy:epsilon=-0.1", "epsilon: got -0.1; expected a number from 0 to 1"),
        ("epsilon-greedy:epsilon=nan", "epsilon: got NaN; expected a number from 0 to 1"),
        ("epsilon-greedy:epsilon=often", 'epsilon: got "often"; expected a number from 0 to 1'),
    ],
)
def test_options_that_they_do_not_have(text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        parse_spec(text)


@pytest.mark.parametrize("rule", [Uniform(), EpsilonGreedy()])
def test_they_have_no_filter(rule: Any) -> None:
    message = f'reference: got "most-pulled"; expected none, {rule.name} has no filter'
    with pytest.raises(ProblemError, match=message):
        Spec(rule, "most-pulled")
    with pytest.raises(ProblemError, match=message):
        hw.Correlated(rule, FIVE)
    with pytest.raises(ProblemError, match=r"audit: got 0\.5; expected 0, because nothing is excluded without a filter"):
        Spec(rule, audit=0.5)


def test_the_share_in_the_title() -> None:
    assert make_spec("epsilon-greedy", epsilon=0.25).title == "epsilon-greedy (epsilon=0.25)"
    assert parse_spec("epsilon-greedy:epsilon=0.1").title == "epsilon-greedy"


def test_lots_in_words() -> None:
    policy = Policy(make_spec("uniform"), FIVE, seed=1)
    policy.update(["a", "b"], [1, 2])
    for _ in range(10):
        explained = policy.explain(["a", "b", "c"])
        for line in explained.arms:
            own = {"a": "mean 1 over 1 pull.", "b": "mean 2 over 1 pull."}.get(line.name, "never pulled.")
            if line.name in ("d", "e"):
                assert line.sentence == "switched off: never pulled."
            elif line.chosen:
                assert line.sentence == f"chosen next: by lot, every arm having the same chance; {own}"
            else:
                assert line.sentence == f"in the running: with the same chance; {own}"
            assert line.index is None and line.excluded_by is None
        assert policy.select(["a", "b", "c"]) == explained.chosen


def test_greed_in_words() -> None:
    policy = Policy(make_spec("epsilon-greedy", epsilon=0.25), FIVE, seed=1)
    first = policy.explain().arms
    assert first[0].sentence == "chosen next: never pulled, so nothing speaks against it."
    policy.update(["a", "b", "c", "d"], [3, 1, 1, 0])
    policy.expect("e")
    seen = set()
    for _ in range(60):
        explained = policy.explain()
        told = {line.name: line for line in explained.arms}
        line = told[explained.chosen]
        lots = "by lot" in line.sentence
        seen.add(lots)
        if lots:
            lead = "chosen next: by lot, as 25 % of the rounds are, every arm having the same chance; "
            assert line.sentence.startswith(lead)
            assert all(one.index is None for one in explained.arms)
            assert line.name == "b" or told["b"].sentence == "in the running: with the same chance; mean 1 over 1 pull."
        else:
            assert line.sentence == "chosen next: mean 3 over 1 pull, the largest."
            assert told["b"].sentence == "in the running: mean 1 over 1 pull." and told["b"].index == 1
            assert told["e"].sentence == "in the running: its first reward is still pending; until then its mean is 1.5."
        assert policy.select() == explained.chosen
    assert seen == {False, True}


@pytest.mark.parametrize("spec", LOTS, ids=lambda spec: spec.title)
def test_among_very_many_arms_too(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the table of all pairs: the same lots."""
    chosen = played(Policy(spec, FIVE, seed=6), 80)
    monkeypatch.setattr(table, "MAX_CELLS", 0)
    problem = hw.Problem(latent=FIVE.latent, arms=TABLE, distribution=LAW.tolist())
    run = hw.simulate(problem, policies=[spec], horizon=80, replications=1, seed=6, checkpoints=list(range(1, 81)))
    arms = np.diff(run.outcomes[spec.title].pulls[0], axis=0, prepend=0).argmax(axis=1)
    assert [FIVE.names[k] for k in arms] == chosen
    policy = Policy(spec, problem, seed=6)
    assert policy.many is not None
    assert played(policy, 80) == chosen
    assert from_state(policy.state(), problem).select_many(5) == policy.select_many(5)
