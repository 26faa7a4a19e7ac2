"""Decisions while rewards are pending, many at once, among some of the arms; and with what probability."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import headwater as hw
from headwater import native
from headwater.errors import HeadwaterError, ModelWarning, ProblemError
from headwater.policies import Policy, Spec, from_state, make_spec
from test_learners import COINS, contradict
from test_learners import SPECS as LEARNERS
from test_many import POLICIES, twins
from test_policies import CONTINUOUS, DISCRETE, NEGATIVE, SPECS, learned, pays, play, randomised, unfit

EVERY = [
    *SPECS,
    *LEARNERS,
    make_spec("c-ucb", audit=1),
    make_spec("c-ts", audit=1, reference="well-pulled"),
]
RANDOM = hw.Problem(
    latent=hw.Discrete(["x", "y", "z"]),
    arms={
        "sure": [0, 1, 2],
        "coin": {"outcomes": [0, 2], "probabilities": [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]},
        "die": {"outcomes": [0, 1, 2], "probabilities": [[0.1, 0.1, 0.8], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2]]},
    },
)


def paid(problem: hw.Problem, arm: str, rng: np.random.Generator) -> float:
    if problem is not RANDOM:
        return pays(problem, arm, rng.random())
    row: Any = problem.arms[arm]
    j = rng.integers(3)
    return float(row.rewards[j]) if arm == "sure" else float(rng.choice(row.outcomes, p=row.probabilities[j]))


def again(policy: Policy) -> Policy:
    return from_state(json.loads(json.dumps(policy.state())), policy.problem)


def subsets(problem: hw.Problem) -> list[list[str]]:
    names = problem.names
    return [list(some) for size in range(1, len(names) + 1) for some in itertools.combinations(names, size)]


@pytest.mark.parametrize("spec", EVERY, ids=lambda spec: spec.title)
class TestWaiting:
    """What holds for every policy."""

    def policies(self, spec: Spec, rounds: int = 45) -> list[Policy]:
        """After some rewards, with and without pulls pending."""
        out = []
        for problem in (DISCRETE, NEGATIVE, CONTINUOUS, RANDOM):
            if unfit(spec, problem):
                continue
            for pending in (0, 3):
                policy, rng = Policy(spec, problem, seed=7), np.random.default_rng(2)
                for _ in range(rounds if pending else 8):
                    arm = policy.select()
                    policy.update(arm, paid(problem, arm, rng))
                for _ in range(pending):
                    policy.select()
                out.append(policy)
        return out

    def test_only_arms_that_are_on_are_chosen(self, spec: Spec) -> None:
        for policy in self.policies(spec):
            for among in subsets(policy.problem):
                explained = policy.explain(among)
                assert policy.select(among) == explained.chosen and explained.chosen in among
                policy.cancel(explained.chosen)
                for line in explained.arms:
                    off = line.name not in among
                    assert line.sentence.startswith("switched off: ") == off
                    assert not off or (line.index is None and line.excluded_by is None and not line.chosen)
                    assert line.excluded_by is None or line.excluded_by in among

    def test_all_arms_are_the_plain_choice(self, spec: Spec) -> None:
        for policy in self.policies(spec):
            other, rng = again(policy), np.random.default_rng(4)
            turned = list(reversed(policy.names))
            for t in range(12):
                arm = policy.select()
                assert other.select(turned) == arm
                if t % 3:
                    reward = paid(policy.problem, arm, rng)
                    policy.update(arm, reward)
                    other.update(arm, reward)
            assert policy.explain(turned) == policy.explain()

    @pytest.mark.parametrize("count", [0, 1, 2, 17])
    def test_many_at_once_are_one_after_the_other(self, spec: Spec, count: int) -> None:
        for policy in self.policies(spec):
            for among in (None, list(policy.names[1:])):
                one, other = again(policy), again(policy)
                assert one.select_many(count, among) == [other.select(among) for _ in range(count)]
                assert learned(one, coins=False) == learned(other, coins=False) and one.waiting == other.waiting
                assert one.select() == other.select()

    def test_a_look_ahead_changes_nothing(self, spec: Spec) -> None:
        for policy in self.policies(spec):
            quiet, rng = again(policy), np.random.default_rng(1)
            for t in range(10):
                policy.propensities(draws=3)
                policy.propensities(policy.names[:2], draws=3)
                policy.explain(policy.names[1:])
                assert learned(policy, coins=False) == learned(quiet, coins=False)
                arm = policy.select()
                assert quiet.select() == arm
                if t % 2:
                    reward = paid(policy.problem, arm, rng)
                    policy.update(arm, reward)
                    quiet.update(arm, reward)

    def test_propensities(self, spec: Spec) -> None:
        for policy in self.policies(spec):
            for among in (None, list(policy.names[:2]), [policy.names[-1]]):
                found = policy.propensities(among, draws=50)
                assert list(found) == list(policy.names) and sum(found.values()) == pytest.approx(1)
                assert all(found[name] == 0 for name in policy.names if among is not None and name not in among)
                if not policy.randomised:
                    arm = policy.select(among)
                    assert found[arm] == 1
                    policy.cancel(arm)

    def test_thousands_of_pending_pulls_are_stored(self, spec: Spec) -> None:
        problem = DISCRETE
        policy = Policy(spec, problem, seed=3)
        play(policy, 20, seed=1)
        count = 20 if spec.rule.name == "graves-lai" else 3000
        policy.select_many(count)
        other = again(policy)
        assert other.waiting == count and learned(other) == learned(policy)
        assert other.select_many(20) == policy.select_many(20)
        other.update("a", 4)
        policy.update("a", 4)
        assert other.select_many(5) == policy.select_many(5)

    def test_what_would_be_refused(self, spec: Spec) -> None:
        policy = Policy(spec, DISCRETE)
        play(policy, 10, seed=1)
        before = learned(policy)
        cases: list[tuple[Any, Any]] = [
            ("a", 0.777), ("zz", 1), (9, 1), ("a", math.nan), ("a", "1"), ("a", None), (["a", "b"], [1.5]),
            (["a", "b"], [1.5, 99]), (["a", "zz"], [1.5, 0]), (None, 1), ("a", True), ("a", 10**400),
        ]  # fmt: skip
        for arm, reward in cases:
            with pytest.raises(HeadwaterError) as one:
                policy.check(arm, reward)
            with pytest.raises(HeadwaterError) as other:
                policy.update(arm, reward)
            assert type(one.value) is type(other.value) and str(one.value) == str(other.value)
        policy.check("a", 4)
        policy.check(["a", 1], [4, 3.5])
        assert learned(policy) == before

    def test_bad_choices_of_arms(self, spec: Spec) -> None:
        policy = Policy(spec, DISCRETE)
        before = learned(policy)
        bad: Any
        for bad, message in [
            ([], "among: got no arm; expected at least one"),
            ("a", 'among: got "a"; expected a list of arms'),
            (3, "among: got 3; expected a list of arms"),
            (["a", "zz"], 'among: got "zz"; expected one of a, b, c'),
        ]:
            for ask in (policy.select, policy.explain, policy.propensities, lambda among: policy.select_many(2, among)):
                with pytest.raises(ProblemError, match=message):
                    ask(bad)
        for bad in (-1, 2.0, True, "3"):
            with pytest.raises(ProblemError, match=r"count: got .*; expected a whole number from 0"):
                policy.select_many(bad)
        for bad in (0, 2.0, True, "3"):
            with pytest.raises(ProblemError, match=r"draws: got .*; expected a whole number from 1"):
                policy.propensities(draws=bad)
        assert learned(policy) == before


# --- what is left of the problem -------------------------------------------------------------------------------------

WIDE = {"a": [0, 1, 0.5, 0.25], "b": [1, 0, 0.25, 0.5], "c": [0.25, 1, 0, 1], "d": [1, 0.5, 0.75, 0]}


@pytest.mark.parametrize(
    "spec",
    [spec for spec in SPECS if not randomised(spec)] + [make_spec("c-ucb", audit=2)],
    ids=lambda spec: spec.title,
)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_without_the_arms_that_are_off(spec: Spec, data: st.DataObject) -> None:
    """Policies of one arm's rewards, filtered or not, choose as on the problem of the other arms and their rewards."""
    points = ["p", "q", "r", "s"]
    among = data.draw(st.lists(st.sampled_from(list(WIDE)), min_size=2, max_size=3, unique=True).map(sorted))
    whole = hw.Problem(latent=hw.Discrete(points), arms=WIDE)
    part = hw.Problem(latent=hw.Discrete(points), arms={name: WIDE[name] for name in among})
    one, other = Policy(spec, whole, reward_range=1), Policy(spec, part, reward_range=1)
    weights = data.draw(st.lists(st.integers(0, 60), min_size=4, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for name, n in zip(WIDE, weights, strict=True):
        rewards = [float(WIDE[name][j]) for j in rng.integers(0, 4, n)]
        one.update([name] * n, rewards)
        if name in among:
            other.update([name] * n, rewards)
    assert one.select_many(8, among) == other.select_many(8)
    mine, theirs = one.explain(among), other.explain()
    assert [line for line in mine.arms if line.name in among] == list(theirs.arms)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 80), st.integers(0, 6))
def test_joint_indices_among_some(seed: int, rounds: int, pending: int) -> None:
    """The largest of the full policy's indices: what an arm that is off said of X still counts."""
    rng = np.random.default_rng(seed)
    arms = {f"arm {k}": (rng.integers(0, 5, 6) / 4).tolist() for k in range(4)}
    problem = hw.Problem(latent=hw.Discrete([f"x{j}" for j in range(6)]), arms=arms)
    policy = hw.make_policy("joint-ucb", problem, audit=0)
    for x in rng.integers(0, 6, rounds).tolist():
        arm = problem.names[int(rng.integers(4))] if x % 2 else policy.select()
        policy.update(arm, arms[arm][x])
    policy.select_many(pending)
    index = {line.name: line.index or 0.0 for line in policy.explain().arms}
    for among in subsets(problem):
        best = max(index[name] for name in among)
        first = next(name for name in among if index[name] >= best - 1e-6)
        assert index[policy.select(among)] >= best - 1e-6
        if sum(index[name] >= best - 1e-6 for name in among) == 1:
            assert policy.explain(among).chosen == first or policy.waiting, "one more is pending"
        policy = again(policy)
        for name, n in policy.state()["pending"].items():
            for _ in range(n):
                policy.cancel(name)
        policy.select_many(pending)


@pytest.mark.parametrize("name", ["latent-ts", "graves-lai", "joint-ucb"])
def test_an_arm_that_is_off_is_still_evidence(name: str) -> None:
    """It says which value X has, which the others' rewards do not."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"tell": [0, 1], "left": [1, 0], "right": [0, 1]})
    policy = hw.make_policy(name, problem)
    policy.update(["tell"] * 60, [1.0] * 60)
    assert policy.select_many(20, ["left", "right"]).count("right") >= 19


# --- pending pulls ---------------------------------------------------------------------------------------------------


def test_joint_ucb_spreads_before_the_first_reward() -> None:
    policy = hw.make_policy("joint-ucb", DISCRETE)
    chosen = policy.select_many(30)
    assert set(chosen) == set(DISCRETE.names) and min(map(chosen.count, DISCRETE.names)) >= 5


def test_pending_pulls_narrow_only_their_own_joint_index() -> None:
    policy = hw.make_policy("joint-ucb", DISCRETE, audit=0, discount=0)
    policy.update(["a", "b", "c"] * 20, [1.5, 1.5, 3.0] * 20)
    policy.update(["a", "b", "c"] * 5, [4.0, 0.0, 0.0] * 5)
    free = {line.name: line.index or 0.0 for line in policy.explain().arms}
    for _ in range(40):
        policy.select(["c"])
    index = {line.name: line.index or 0.0 for line in policy.explain().arms}
    likely = {line.name: line.pseudo_reward or 0.0 for line in policy.explain().arms}
    assert likely["c"] <= index["c"] < free["c"]
    assert index["a"] >= free["a"] and index["b"] >= free["b"], "a pending pull is a round, but no evidence"
    # n KL <= delta n / (n + m) is (n + m) KL <= delta
    assert math.isclose((index["c"] - likely["c"]) / (free["c"] - likely["c"]), math.sqrt(25 / 65), rel_tol=0.15)


POSTERIORS = [make_spec("ts", **options) for options in ({}, {"sd": "estimated"}, {"posterior": "beta"})]


@pytest.mark.parametrize("spec", [*POSTERIORS, make_spec("latent-ts", audit=0)], ids=str)
def test_posteriors_do_not_narrow(spec: Spec) -> None:
    """The chances stay what they were however many pulls are pending: 4,000 draws, a false alarm below 1e-6."""
    policy = Policy(spec, DISCRETE)
    policy.update(["a", "b", "c"] * 4, [1.5, 1.5, 3.0, 4.0, 0.0, 0.0] * 2)
    before = policy.propensities(draws=4000)
    policy.select_many(500)
    after = policy.propensities(draws=4000)
    assert policy.randomised and 0.02 < max(before.values()) < 0.98
    slack = 5.2 * math.sqrt(2 * 0.25 / 4000) * (3 if spec.learns else 1)  # a chain's draws are worth a ninth at worst
    assert all(abs(before[name] - after[name]) < slack for name in before)


@pytest.mark.parametrize("name", ["ts", "c-ts", "latent-ts"])
@pytest.mark.parametrize("posterior", ["normal", "beta"])
def test_randomised_batches_spread(name: str, posterior: str) -> None:
    spec = make_spec(name) if name == "latent-ts" else make_spec(name, posterior=posterior)
    policy = Policy(spec, DISCRETE)
    chosen = policy.select_many(60)
    assert set(chosen) == {"a", "b", "c"} and len(set(itertools.pairwise(chosen))) > 3
    assert all(math.isfinite(line.index or math.nan) for line in policy.explain().arms)


@pytest.mark.parametrize("spec", EVERY, ids=lambda spec: spec.title)
def test_randomised(spec: Spec) -> None:
    assert Policy(spec, DISCRETE).randomised == (spec.rule.name in ("ts", "latent-ts", "uniform", "epsilon-greedy"))


# --- chances ---------------------------------------------------------------------------------------------------------


def test_chances_of_normal_draws() -> None:
    """Against the normal law; 20,000 draws, a false alarm below 1e-6."""
    policy = hw.make_policy("ts", hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"one": [0, 1], "two": [1, 0]}))
    policy.update(["one"] * 10 + ["two"] * 5, [1] * 6 + [0] * 4 + [1] * 2 + [0] * 3)
    truth = float(stats.norm.cdf((0.6 - 0.4) / math.sqrt(0.25 / 10 + 0.25 / 5)))
    assert policy.propensities(draws=20_000)["one"] == pytest.approx(truth, abs=5 * math.sqrt(0.25 / 20_000))


def test_chances_of_estimated_draws() -> None:
    """As above. An arm whose first pull is pending has paid the middle, give or take B/2."""
    policy = hw.make_policy("ts", DISCRETE, sd="estimated")
    policy.update(["a"] * 8, [1.5] * 6 + [4.0] * 2)
    policy.expect("b")
    spread = 8 * 0.25 * 0.75 * 2.5**2 + 2.0**2
    errors = spread / 8 / 8, 2.0**2
    truth = float(stats.norm.cdf((2.125 - 2.0) / math.sqrt(sum(errors))))
    assert policy.propensities(["a", "b"], draws=20_000)["a"] == pytest.approx(truth, abs=5 * math.sqrt(0.25 / 20_000))


def test_chances_of_a_law() -> None:
    """One arm is X itself, so that its mean has a beta posterior; draws of the chain are worth a quarter at least."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"coin": [0, 1], "half": [0.5, 0.5]})
    policy = hw.make_policy("latent-ts", problem, prior=1, audit=0)
    policy.update(["coin"] * 8, [1.0] * 3 + [0.0] * 5)
    truth = float(stats.beta.sf(0.5, 4, 6))
    assert policy.propensities(draws=20_000)["coin"] == pytest.approx(truth, abs=5 * math.sqrt(0.25 / 5_000))


def test_an_audit_is_part_of_the_chances() -> None:
    """poor is never drawn best: only an audit looks at it."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y", "z"]), arms={"best": [2, 3, 9], "poor": [1, 0, 8]})
    policy = hw.make_policy("latent-ts", problem, audit=20, audited="all-arms")
    policy.update(["best"] * 60, [2.0, 3.0] * 30)
    assert policy.propensities() == {"best": 0.0, "poor": 1.0}
    assert policy.propensities(["best"]) == {"best": 1.0, "poor": 0.0}
    assert policy.select_many(3) == ["poor", "best", "best"], "one audit is on its way"


def test_other_replications_are_never_the_same() -> None:
    assert len({native.elsewhere(r, i) for r in (0, 5) for i in range(100)} | {0, 5}) == 107
    assert all(0 <= native.elsewhere(2**48 - 1, i) < 2**48 for i in range(3))


# --- the rest --------------------------------------------------------------------------------------------------------


def test_a_warning_made_an_error_changes_nothing() -> None:
    for pending, among in ((0, None), (2, None), (0, ["odd", "steady"])):
        policy = hw.make_policy("joint-ucb", COINS)
        policy.select_many(pending)
        contradict(policy)
        before = policy.waiting
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ModelWarning):
                policy.select_many(3, among)
        assert policy.waiting == before
        assert len(policy.select_many(3, among)) == 3 and policy.waiting == before + 3


def test_a_warning_names_the_line_that_asked() -> None:
    for pending in (0, 2):
        for ask in ("select", "select_many"):
            policy = hw.make_policy("joint-ucb", COINS)
            policy.select_many(pending)
            contradict(policy)
            with pytest.warns(ModelWarning) as said:
                policy.select() if ask == "select" else policy.select_many(2)
            assert said[0].filename == __file__


@pytest.mark.parametrize("name", POLICIES)
def test_very_many_arms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the table of all pairs: the same decisions, chances and words."""
    dense, sparse = twins(name, monkeypatch)
    rng = np.random.default_rng(2)
    for t in range(12):
        among = sorted(rng.choice(dense.names, int(rng.integers(1, 6)), replace=False).tolist())
        assert sparse.select_many(t % 4, among) == dense.select_many(t % 4, among)
        assert sparse.explain(among) == dense.explain(among)
        assert sparse.propensities(among, draws=20) == dense.propensities(among, draws=20)
        arm = dense.select()
        assert sparse.select() == arm
        for policy in (dense, sparse):
            policy.update(arm, float(policy.problem.rewards[policy.problem.index(arm), t]))
    assert sparse.explain() == dense.explain()
