"""One contract that every policy keeps, and the scalar functions under them."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

import headwater as hw
from headwater import native
from headwater.errors import HeadwaterError, ProblemError, RewardError
from headwater.policies import Policy, Spec, from_state, make_spec, stored_spec
from headwater.policies.rules import EpsilonGreedy, Uniform
from headwater.policies.states import WORD, sums_of_squares
from headwater.streams import BINARISE
from oracle import bernoulli_index, empirical_index, uniform

SPECS = [
    make_spec("ucb1"),
    make_spec("kl-ucb"),
    make_spec("kl-ucb", form="empirical"),
    make_spec("ts"),
    make_spec("ts", sd=0.3),
    make_spec("ts", sd="estimated"),
    make_spec("ts", posterior="beta"),
    make_spec("uniform"),
    make_spec("epsilon-greedy"),
    make_spec("epsilon-greedy", epsilon=0.5),
    *(
        make_spec(name, reference=reference, **options)
        for reference in ("most-pulled", "well-pulled")
        for name, options in (
            ("c-ucb", {}),
            ("c-kl-ucb", {}),
            ("c-kl-ucb", {"form": "empirical"}),
            ("c-ts", {}),
            ("c-ts", {"sd": 0.3}),
            ("c-ts", {"sd": "estimated"}),
            ("c-ts", {"posterior": "beta"}),
        )
    ),
]
POINTS = ["x1", "x2", "x3", "x4", "x5"]
TABLE = {"a": [0, 1.5, 1.5, 4, 2], "b": [3.5, 1.5, 0, 0, 3.5], "c": [4, 3, 3, 0, 0]}
DISCRETE = hw.Problem(latent=hw.Discrete(POINTS), arms=TABLE)
CONTINUOUS = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "x", "b": "1 - x", "c": "abs(x - 0.3)", "d": "0.5"})
NEGATIVE = hw.Problem(latent=hw.Discrete(POINTS[:3]), arms={"p": [-3, -1, -2], "q": [-1, -3, -1], "r": [-2, -2, -1]})


def randomised(spec: Spec) -> bool:
    return isinstance(spec.rule, (hw.Thompson, Uniform, EpsilonGreedy))


def by_lot(spec: Spec) -> bool:
    """Whether not even the first arms come in their order."""
    return isinstance(spec.rule, Uniform)


def beta(spec: Spec) -> bool:
    return spec.rule == hw.Thompson("beta")


def empirical(spec: Spec) -> bool:
    return spec.rule == hw.KLUCB("empirical")


def unfit(spec: Spec, problem: hw.Problem) -> bool:
    """Whether the policy refuses the problem: it needs rewards, or a support, that can be listed."""
    return problem is CONTINUOUS and (empirical(spec) or spec.rule.name in ("latent-ts", "graves-lai"))


def sequential(spec: Spec) -> bool:
    """Whether the order in which rewards came matters too: coins, a chain, a plan."""
    return beta(spec) or spec.rule.name in ("latent-ts", "graves-lai")


def filtered(spec: Spec) -> bool:
    return spec.reference != "none"


def pays(problem: hw.Problem, arm: str | int, x: float) -> float:
    """What an arm pays at a uniform number: the functions are written once more, away from the package."""
    name = arm if isinstance(arm, str) else problem.names[arm]
    if problem is CONTINUOUS:
        return {"a": x, "b": 1 - x, "c": abs(x - 0.3), "d": 0.5}[name]
    row = problem.rewards[problem.index(name)]
    return float(row[int(x * len(row))])


def play(policy: Policy, rounds: int, seed: int) -> list[str]:
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        arm = policy.select()
        policy.update(arm, pays(policy.problem, arm, rng.random()))
        chosen.append(arm)
    return chosen


def learned(policy: Policy, *, coins: bool = True) -> dict[str, Any]:
    """The state, as JSON would keep it; without coins, chains and plans, which depend on the order, if asked."""
    state = json.loads(json.dumps(policy.state(), allow_nan=False))
    assert isinstance(state, dict)
    ordered = ("successes", "particle", "prepared", "planned", "held")
    return state if coins else {key: value for key, value in state.items() if key not in ordered}


class PolicyContract:
    """What holds for every policy; those that learn the law of X are in test_learners."""

    def make(self, spec: Spec, problem: hw.Problem = DISCRETE, **options: Any) -> Policy:
        return Policy(spec, problem, **options)

    # --- relabelling

    def test_relabelling_arms_relabels_decisions(self, spec: Spec) -> None:
        """Deterministic policies, where nothing ties; the filter of all of them."""
        order = ["c", "a", "b"]
        turned = hw.Problem(latent=hw.Discrete(POINTS), arms={name: TABLE[name] for name in order})
        one, other = self.make(spec), self.make(spec, turned)
        rng, compared = np.random.default_rng(4), 0
        for name, times in (("a", 2), ("b", 3), ("c", 5)):
            for _ in range(times):
                x = rng.random()
                one.update(name, pays(DISCRETE, name, x))
                other.update(name, pays(DISCRETE, name, x))
        for _ in range(150):
            mine, theirs = one.explain(), other.explain()
            pulls = sorted(one.pulls.values())
            if pulls[-1] > pulls[-2]:
                assert set(one.competitive()) == set(other.competitive())
                lines = {line.name: line for line in theirs.arms}
                if not randomised(spec):
                    index = sorted((-math.inf if a.index is None else a.index for a in mine.arms), reverse=True)
                    assert all(a.index == pytest.approx(lines[a.name].index, rel=1e-12) for a in mine.arms if a.index)
                    if index[0] - index[1] > 1e-9:
                        assert mine.chosen == theirs.chosen
                        compared += 1
            x = rng.random()
            one.update(mine.chosen, pays(DISCRETE, mine.chosen, x))
            other.update(mine.chosen, pays(DISCRETE, mine.chosen, x))
        assert randomised(spec) or compared > 100

    # --- restore

    @pytest.mark.parametrize("problem", [DISCRETE, CONTINUOUS, NEGATIVE], ids=["discrete", "continuous", "negative"])
    def test_a_restored_policy_continues_bit_for_bit(self, spec: Spec, problem: hw.Problem) -> None:
        if unfit(spec, problem):
            return
        policy = self.make(spec, problem, seed=2**63 + 5, replication=7, reward_range=2.5, tolerance=1e-6)
        play(policy, 60, seed=1)
        waiting = [policy.select() for _ in range(3)]
        again = from_state(json.loads(json.dumps(policy.state(), allow_nan=False)), problem)
        assert learned(again) == learned(policy)
        assert again.explain() == policy.explain()
        for arm in waiting:
            x = 0.99 if arm == "a" else 0.01
            policy.update(arm, pays(problem, arm, x))
            again.update(arm, pays(problem, arm, x))
        assert play(policy, 80, seed=2) == play(again, 80, seed=2)
        assert learned(again) == learned(policy)
        np.testing.assert_array_equal(policy.known.mean, again.known.mean)
        np.testing.assert_array_equal(policy.sums, again.sums)

    def test_a_fresh_policy_can_be_restored(self, spec: Spec) -> None:
        constant = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"u": [1, 1], "v": [1, 1]})  # B = 0
        for problem in (DISCRETE, NEGATIVE, constant):
            fresh = self.make(spec, problem)
            again = from_state(fresh.state(), problem)
            assert learned(again) == learned(fresh)
            assert again.select() == (fresh.select() if by_lot(spec) else problem.names[0])

    # --- merge

    @pytest.mark.parametrize("problem", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
    def test_two_replicas_merge_by_addition(self, spec: Spec, problem: hw.Problem) -> None:
        if unfit(spec, problem):
            return
        one, other, whole = (self.make(spec, problem, seed=3) for _ in range(3))
        rng = np.random.default_rng(8)
        for i in range(90):
            arm, x = problem.names[int(rng.integers(len(problem.names)))], rng.random()
            for policy in (whole, one if i % 3 else other):
                policy.update(arm, pays(problem, arm, x))
        before = learned(other)
        one.merge(other)
        assert learned(other) == before
        assert learned(one, coins=False) == learned(whole, coins=False)
        assert one.rounds == whole.rounds == 90
        assert one.competitive() == whole.competitive()
        np.testing.assert_array_equal(one.sums, whole.sums)
        if not sequential(spec):
            assert one.explain() == whole.explain()
            assert play(one, 40, seed=1) == play(whole, 40, seed=1)

    def test_pending_pulls_merge_too(self, spec: Spec) -> None:
        one, other = self.make(spec), self.make(spec, seed=1)
        first, second = one.select(), other.select()
        one.merge(other.state())
        assert one.waiting == 2
        one.update(first, pays(DISCRETE, first, 0.1))
        one.update(second, pays(DISCRETE, second, 0.1))
        assert one.waiting == 0 and set(learned(one)["pending"].values()) == {0} and one.rounds == 2

    # --- ties

    def test_an_exact_tie_keeps_the_arm(self, spec: Spec) -> None:
        """Rewards .1, .2, .3 against pseudo-rewards .3, .1, .2: equal means, though no float sum of them is exact."""
        problem = hw.Problem(latent=hw.Discrete(POINTS[:3]), arms={"k": [0.1, 0.2, 0.3], "ell": [0.3, 0.1, 0.2]})
        policy = self.make(spec, problem)
        rewards = np.random.default_rng(2).permutation([0.1, 0.2, 0.3] * 300)
        policy.update(["k"] * 900, rewards.tolist())
        assert policy.competitive() == ["k", "ell"]
        line = policy.explain().arms[1]
        assert line.excluded_by is None
        policy.update("k", 0.3)
        assert policy.competitive() == (["k"] if filtered(spec) else ["k", "ell"])
        policy.update("k", 0.1)
        assert policy.competitive() == ["k", "ell"], "0.3 and 0.1 against 0.2 and 0.3: ahead again"

    def test_equal_arms_go_to_the_lowest_number(self, spec: Spec) -> None:
        problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"u": [0, 1], "v": [0, 1], "w": [0, 1]})
        policy = self.make(spec, problem)
        for name in problem.names:
            assert policy.select() == name or by_lot(spec), "never pulled, none excluded: in their order"
            policy.update(name, 1)
        if not randomised(spec):
            assert policy.select() == "u"
        assert policy.competitive() == ["u", "v", "w"]

    # --- pending

    @pytest.mark.parametrize("problem", [DISCRETE, NEGATIVE, CONTINUOUS], ids=["discrete", "negative", "continuous"])
    def test_deterministic_policies_spread_pending_pulls(self, spec: Spec, problem: hw.Problem) -> None:
        if randomised(spec) or (problem is CONTINUOUS and empirical(spec)):
            return
        policy = self.make(spec, problem)
        count = len(problem.names)
        chosen = [policy.select() for _ in range(4 * count)]
        assert chosen[:count] == list(problem.names)
        assert {chosen.count(name) for name in problem.names} == {4}

    def test_pending_pulls_leave_what_was_learned_alone(self, spec: Spec) -> None:
        """Exclusions rest on rewards that came, whatever their sign; indices are numbers throughout."""
        for problem in (DISCRETE, NEGATIVE):
            policy = self.make(spec, problem)
            play(policy, 25, seed=6)
            before, competitive = learned(policy), policy.competitive()
            for _ in range(30):
                explained = policy.explain()
                assert explained.chosen == policy.select()
                assert explained.chosen in competitive
                assert policy.competitive() == competitive
                assert all(line.index is None or math.isfinite(line.index) for line in explained.arms)
            assert policy.waiting == 30
            assert {**learned(policy), "pending": before["pending"]} == before

    def test_late_rewards_out_of_order_give_the_same_state(self, spec: Spec) -> None:
        one, other = self.make(spec), self.make(spec)
        rng = np.random.default_rng(3)
        events = []
        for _ in range(40):
            arm = one.select()
            reward = pays(DISCRETE, arm, rng.random())
            one.update(arm, reward)
            events.append((arm, reward))
        for i in rng.permutation(40):
            other.update(*events[i])
        assert learned(one, coins=False) == learned(other, coins=False)
        assert one.competitive() == other.competitive()
        if not sequential(spec):
            assert one.explain() == other.explain()

    def test_cancelling_forgets_a_pending_pull(self, spec: Spec) -> None:
        policy = self.make(spec)
        play(policy, 20, seed=5)
        before, explained = learned(policy), policy.explain()
        arm = policy.select()
        assert learned(policy) != before
        policy.cancel(arm)
        assert learned(policy) == before
        assert policy.explain() == explained
        with pytest.raises(ProblemError, match=f'arm: got "{arm}"; expected an arm with a pending pull'):
            policy.cancel(arm)
        with pytest.raises(ProblemError, match=r'arm: got "zz"; expected one of a, b, c'):
            policy.cancel("zz")
        assert policy.select() == arm

    def test_an_unasked_reward_settles_nothing_else(self, spec: Spec) -> None:
        policy = self.make(spec)
        arm = policy.select()
        assert arm == "a" or by_lot(spec)
        other = "a" if arm == "b" else "b"
        policy.update(other, 1.5)
        assert learned(policy)["pending"] == {name: int(name == arm) for name in "abc"} and policy.waiting == 1
        policy.update(arm, 4 if arm != "b" else 3.5)
        assert policy.waiting == 0 and policy.rounds == 2

    # --- input

    @pytest.mark.parametrize(
        ("arm", "reward", "error", "text"),
        [
            ("zz", 1.5, ProblemError, 'arm: got "zz"; expected one of a, b, c'),
            (3, 1.5, ProblemError, "arm: got 3; expected one of a, b, c"),
            (-1, 1.5, ProblemError, "arm: got -1; expected one of a, b, c"),
            (True, 1.5, ProblemError, "arm: got true; expected one of a, b, c"),
            (None, 1.5, ProblemError, "arm: got null; expected one of a, b, c"),
            (0.0, 1.5, ProblemError, "arm: got 0.0; expected one of a, b, c"),
            ("a", math.nan, RewardError, "reward: got NaN; expected a finite number"),
            ("a", math.inf, RewardError, "reward: got Infinity; expected a finite number"),
            ("a", True, RewardError, "reward: got true; expected a finite number"),
            ("c", np.False_, RewardError, "expected a finite number"),
            ("a", "1.5", RewardError, 'reward: got "1.5"; expected a finite number'),
            ("a", None, RewardError, "reward: got null; expected a finite number"),
            ("a", [1.5], RewardError, r"reward: got \[1.5\]; expected a finite number"),
            ("a", 1j, RewardError, "expected a finite number"),
            ("a", np.complex128(0), RewardError, "expected a finite number"),
            ("a", 10**400, RewardError, "expected a finite number"),
            ("a", 1.25, RewardError, "reward: got 1.25; arm a can pay 0, 1.5, 2, or 4"),
            ("a", 1.5 + 1e-6, RewardError, "reward: got 1.500001; arm a can pay 0, 1.5, 2, or 4"),
            (["a", "b"], [1.5], RewardError, "reward: got 1 rewards for 2 arms; expected as many"),
            (["a", "b"], 1.5, RewardError, "reward: got 1 rewards for 2 arms; expected as many"),
            (["a", "zz"], [1.5, 1.5], ProblemError, 'arm: got "zz"'),
            (["a", "b"], [1.5, math.nan], RewardError, "expected a finite number"),
            (["a", "b"], [1.5, True], RewardError, "expected a finite number"),
            (["a", "b"], [1.5, 4], RewardError, "reward: got 4; arm b can pay 0, 1.5, or 3.5"),
        ],
    )
    def test_bad_input_changes_nothing(self, spec: Spec, arm: Any, reward: Any, error: Any, text: str) -> None:
        policy = self.make(spec)
        policy.update("c", 3)
        policy.select()
        before = learned(policy)
        with pytest.raises(error, match=text):
            policy.update(arm, reward)
        assert learned(policy) == before
        assert policy.rounds == 1

    def test_names_numbers_and_many_at_once(self, spec: Spec) -> None:
        by_name, by_number, many, arrays = (self.make(spec) for _ in range(4))
        events = [("a", 1.5), ("b", 0), ("c", 3), ("a", 4), ("c", 0)] * 4
        for name, reward in events:
            by_name.update(name, reward)
            by_number.update(DISCRETE.index(name), float(reward))
        names, rewards = [name for name, _ in events], [reward for _, reward in events]
        many.update(names, rewards)
        numbers: Any = np.array([DISCRETE.index(name) for name in names])
        arrays.update(numbers, np.array(rewards))  # type: ignore[arg-type]
        assert learned(by_name) == learned(by_number) == learned(many) == learned(arrays)
        many.update([], [])
        assert learned(by_name) == learned(many)

    def test_a_reward_within_tolerance_is_the_level(self, spec: Spec) -> None:
        one, other, loose = self.make(spec), self.make(spec), self.make(spec, tolerance=0.01)
        one.update("a", 1.5)
        other.update("a", 1.5 + 1e-12)
        loose.update("a", 1.53)
        assert learned(one) == learned(other)
        assert learned(loose)["counts"] == learned(one)["counts"]

    # --- one arm left

    def test_one_arm_left(self, spec: Spec) -> None:
        problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"best": [2, 3], "poor": [1, 1], "worse": [0, 1]})
        policy = self.make(spec, problem)
        policy.update("best", 2)
        if filtered(spec):
            assert policy.competitive() == ["best"]
            assert play(policy, 30, seed=1) == ["best"] * 30
            assert [policy.select() for _ in range(5)] == ["best"] * 5
        else:
            assert policy.competitive() == ["best", "poor", "worse"]
            assert set(play(policy, 30, seed=1)) == {"best", "poor", "worse"}

    # --- explanations

    def test_explanations_agree_with_decisions(self, spec: Spec) -> None:
        policy = self.make(spec, seed=12)
        rng = np.random.default_rng(7)
        for t in range(80):
            explained, competitive = policy.explain(), policy.competitive()
            assert explained == policy.explain(), "explaining changes nothing"
            assert (explained.policy, explained.rounds) == (spec.title, t)
            json.dumps(explained.to_dict(), allow_nan=False)
            assert str(explained).startswith(f"{spec.title} after {t} rewards would pull {explained.chosen}.")
            assert [line.name for line in explained.arms if line.chosen] == [explained.chosen]
            self.check_lines(policy, explained, competitive)
            arm = policy.select()
            assert arm == explained.chosen
            policy.update(arm, pays(DISCRETE, arm, rng.random()))

    def check_lines(self, policy: Policy, explained: Any, competitive: list[str]) -> None:
        best = max((line.index for line in explained.arms if line.index is not None), default=None)
        for line in explained.arms:
            assert (line.excluded_by is None) == (line.name in competitive)
            assert line.pulls == policy.pulls[line.name]
            assert (line.mean is None) == (line.pulls == 0)
            if line.excluded_by is not None:
                assert not line.chosen and line.index is None
                assert line.excluded_by != line.name and line.excluded_by == line.measured_by
                assert line.excluded_by in line.sentence and line.sentence.startswith("excluded: ")
                reference = max(a.mean for a in explained.arms if a.mean is not None and f"of {a.name}." in line.sentence)
                assert line.pseudo_reward < reference
            elif line.chosen:
                assert line.sentence.startswith("chosen next: ")
                assert line.index is None or line.index == best
            else:
                assert line.sentence.startswith("in the running: ")

    # --- stored states

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"format": "something"}, "state: expected a stored policy"),
            ({"version": 3}, "state.version: got 3; expected 1 or 2, which are what this release reads"),
            ({"version": None}, "state.version: got null"),
            ({"problem": "0" * 64}, 'state.problem: got "0+.*; expected .*, as of the policy it is added to'),
            ({"policy": {"name": "zz"}}, 'policy: got "zz"; expected one of ucb1'),
            ({"policy": {}}, "state.policy: got {}; expected the policy's name and options"),
            ({"policy": None}, "state.policy: got null; expected the policy's name and options"),
            ({"seed": -1}, r"state.seed: got -1; expected a whole number from 0 to"),
            ({"seed": True}, r"state.seed: got true"),
            ({"replication": 2**48}, r"state.replication: got \d+; expected a whole number"),
            ({"reward_range": -1}, "reward_range: got -1; expected a number above 0"),
            ({"reward_range": "wide"}, 'reward_range: got "wide"; expected a number above 0'),
            ({"tolerance": 2}, "tolerance: got 2; expected a number from 0 to below 1"),
            ({"successes": {"a": 0, "b": 0}}, "state.successes: got .*; expected one number for each of a, b, c"),
            ({"successes": {"a": 99, "b": 0, "c": 0}}, "state.successes.a: got 99; expected at most its 2 pulls"),
            ({"pending": {"a": -1, "b": 0, "c": 0}}, "state.a: got -1; expected a whole number"),
            ({"pending": None}, "state.pending: got null; expected one number for each of a, b, c"),
            ({"counts": None}, "state.counts: got null; expected a list for each arm"),
            ({"counts": {"a": [], "b": []}}, "state.counts: got .*; expected a list for each arm"),
            ({"counts": {"a": [[1.25, 1]], "b": [], "c": []}}, "reward: got 1.25; arm a can pay"),
            ({"counts": {"a": [[1.5, -1]], "b": [], "c": []}}, "state.counts: got -1; expected a whole number"),
            ({"counts": {"a": [[1.5, 0.5]], "b": [], "c": []}}, "state.counts: got 0.5; expected a whole number"),
            ({"counts": {"a": [1.5], "b": [], "c": []}}, "state.counts.a: got .*; expected pairs of a reward and a count"),
            ({"counts": {"a": 3, "b": [], "c": []}}, "state.counts.a: got 3; expected pairs of a reward and a count"),
        ],
    )
    def test_tampered_states_are_refused(self, spec: Spec, change: dict[str, Any], text: str) -> None:
        policy = self.make(spec)
        policy.update(["a", "a", "b"], [1.5, 4, 0])
        state = policy.state()
        with pytest.raises(HeadwaterError, match=text):
            from_state(state | change, DISCRETE)
        if set(change) & {"seed", "replication", "reward_range", "tolerance"} or change.get("policy") in ({}, None):
            return  # of no account when merging
        before = learned(policy)
        with pytest.raises(HeadwaterError):
            policy.merge(state | change)
        assert learned(policy) == before

    def test_states_of_another_policy_are_refused(self, spec: Spec) -> None:
        policy = self.make(spec)
        for other in SPECS:
            if other != spec:
                with pytest.raises(ProblemError, match=r"state.policy: got .*; expected .*as of the policy it is added to"):
                    policy.merge(Policy(other, DISCRETE))

    @pytest.mark.parametrize("bad", [None, [], "state", 3])
    def test_what_is_no_state_is_refused(self, spec: Spec, bad: Any) -> None:
        with pytest.raises(ProblemError, match="state: expected a stored policy"):
            from_state(bad, DISCRETE)
        with pytest.raises(ProblemError, match="state: expected a stored policy"):
            self.make(spec).merge(bad)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.title)
class TestPolicyContract(PolicyContract):
    """pytest collects classes named Test*."""


# --- scalars ---------------------------------------------------------------------------------------------------------


@given(st.floats(1e-300, 1 - 1e-16))
def test_normal_quantile(u: float) -> None:
    assert native.elementary("normal_quantile", np.array([u]))[0] == pytest.approx(special.ndtri(u), rel=4e-15, abs=1e-15)


def kl_ucb_index(mean: float, n: float, log_t: float, low: float, span: float) -> float:
    return float(native.kl_ucb_index(np.array([mean]), np.array([float(n)]), log_t, low, span)[0])


def kl_empirical_index(seen: Any, pays: Any, n: int, log_t: float) -> float:
    return native.kl_empirical_index(np.array(seen, dtype=np.int64), np.array(pays, dtype=float), n, log_t)


@given(st.floats(0, 1), st.integers(1, 10**6), st.floats(0, 20), st.floats(-5, 5), st.floats(0.1, 10))
def test_kl_ucb_index_against_bisection(p: float, n: int, log_t: float, low: float, scale: float) -> None:
    q = kl_ucb_index(p, n, log_t, 0.0, 1.0)
    assert p <= q <= min(1.0, p + math.sqrt(log_t / (2 * n)) + 1e-15)
    assert q == pytest.approx(bernoulli_index(p, n, log_t), abs=1e-7)
    # The same up to the conditioning of the root: what it spends is the budget.
    if 0 < p < q < 1 - 1e-9:
        spent = float(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q))
        assert spent == pytest.approx(log_t / n, rel=1e-6, abs=1e-14)
    moved = kl_ucb_index(low + scale * p, n, log_t, low, scale)
    assert moved == pytest.approx(low + scale * bernoulli_index(p, n, log_t), abs=1e-6 * scale)


def test_kl_ucb_index_at_the_edges() -> None:
    assert kl_ucb_index(math.inf, 0, 1.0, 0.0, 1.0) == math.inf
    assert kl_ucb_index(0.3, 5, 0.0, 0.0, 1.0) == pytest.approx(0.3)
    assert kl_ucb_index(2.0, 5, 1.0, 2.0, 0.0) == 2.0, "all rewards equal"
    assert kl_ucb_index(1.0, 5, 1.0, 0.0, 1.0) == 1.0
    assert kl_ucb_index(0.0, 2, math.log(4), 0.0, 1.0) == pytest.approx(0.5), "1 - t**(-1/n)"


@settings(max_examples=600)
@given(
    st.floats(0, 1),
    st.sampled_from([1, 2, 7, 100, 10**4, 10**6, 10**9, 10**12]),
    st.floats(0, 28),
    st.floats(-1e-7, 1e-7),
    st.sampled_from([(0.0, 1.0), (-3.0, 4.0), (0.1, 0.7), (1000.0, 1.0)]),
)
def test_kl_ucb_reaches_never_says_no_wrongly(p: float, n: int, log_t: float, nudge: float, where: tuple[float, float]) -> None:
    """Otherwise the order in which arms are ranked would decide, and a tie might not go to the lowest number."""
    low, scale = where
    mean = low + scale * p
    top = kl_ucb_index(mean, n, log_t, low, scale)
    for other in (top, top + scale * nudge, float(np.nextafter(top, low)), mean, mean + 0.5 * (top - mean)):
        if other <= top:
            assert native.kl_ucb_reaches(mean, float(n), other, log_t, low, scale)
    # and it is of use: far beyond the index it does say no
    if p > 0 and top + 0.05 * scale < low + scale and n >= 100:
        assert not native.kl_ucb_reaches(mean, float(n), top + 0.05 * scale, log_t, low, scale)


@st.composite
def samples(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    levels = draw(st.lists(st.integers(-50, 50), min_size=1, max_size=5, unique=True))
    counts = draw(st.lists(st.integers(0, 40), min_size=len(levels), max_size=len(levels)).filter(any))
    return counts, levels


@settings(max_examples=300)
@given(samples(), st.integers(2, 10**6))
def test_kl_empirical_index_against_the_dual(sample: tuple[list[int], list[int]], t: int) -> None:
    seen, pays_ = sample
    values = np.repeat(pays_, seen).astype(float)
    ours = kl_empirical_index(seen, pays_, sum(seen), math.log(t))
    width = max(pays_) - min(pays_) + 1
    assert ours == pytest.approx(empirical_index(values.tolist(), float(max(pays_)), math.log(t)), abs=1e-8 * width)
    assert values.mean() - 1e-9 * width <= ours <= max(pays_) + 1e-9 * width


@settings(max_examples=300)
@given(samples(), st.floats(0, 1.2), st.floats(0, 1.2))
def test_kl_needed_inverts_the_index_and_is_nowhere_below_its_tangent(
    sample: tuple[list[int], list[int]], first: float, second: float
) -> None:
    seen, pays_ = sample
    mean, top, width = float(np.average(pays_, weights=seen)), float(max(pays_)), max(pays_) - min(pays_) + 1
    one, other = (mean + part * (top - mean) for part in (first, second))
    times, paid = np.array(seen, dtype=np.int64), np.array(pays_, dtype=float)
    need, rate = native.kl_needed(times, paid, one)
    if one <= mean:
        assert (need, rate) == (0, 0)
    elif one >= top:
        assert (need, rate) == (math.inf, math.inf)
    else:
        assert kl_empirical_index(seen, pays_, sum(seen), need) == pytest.approx(one, abs=1e-6 * width)
        assert native.kl_needed(times, paid, other)[0] >= (need + rate * (other - one)) * (1 - 1e-9) - 1e-9


@pytest.mark.parametrize("case", range(12))
def test_kl_empirical_index_against_convex_optimisation(case: int) -> None:
    """Maximise the mean over laws q within the budget, by a general solver."""
    rng = np.random.default_rng(case)
    levels = np.sort(rng.choice(20, rng.integers(2, 5), replace=False))
    seen = rng.integers(0, 6, len(levels))
    seen[0] += 1
    n, log_t = int(seen.sum()), math.log(rng.integers(2, 50))
    p = seen / n
    solver: Any = optimize.minimize
    keep = (seen > 0) | (levels == levels[-1])  # an unseen level below the top gets nothing
    p, v = p[keep], (levels[keep] - levels[0]) / (levels[-1] - levels[0])
    within = {
        "type": "ineq",
        "fun": lambda q: log_t / n - special.rel_entr(p, q).sum(),
        "jac": lambda q: p / q,
    }
    whole = {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": np.ones_like}
    found = []
    for share in (0.1, 0.01, 0.001):
        start = (1 - share) * p + share / len(p)
        options: dict[str, Any] = {"ftol": 1e-15, "maxiter": 1000}
        bounds, limits = [(1e-9, 1.0)] * len(p), [within, whole]
        run = solver(lambda q: -(q @ v), start, jac=lambda q: -v, bounds=bounds, constraints=limits, options=options)
        if within["fun"](run.x) > -1e-9 and abs(whole["fun"](run.x)) < 1e-9:  # type: ignore[operator]
            found.append(-run.fun)
    ours = (kl_empirical_index(seen, levels, n, log_t) - levels[0]) / (levels[-1] - levels[0])
    assert ours == pytest.approx(max(found), abs=1e-6)


def drawn_indices(rule: str, pulls: int, wins: int, total: int = 0) -> list[float]:
    """What ranks a single arm in 4,000 replications, its counts given: rewards are hundredths of 0 to 1, sd is 0.5."""
    rewards = native.Rewards(np.array([[[0, 100]]]), 0.01, 0.0, 1.0)
    settings = native.Settings(rule=native.RULES[rule], seed=0, scale=1.0, sd=0.5)
    out = []
    for replication in range(4000):
        policy = native.Live(native.Model(rewards), settings, replication)
        known = policy.arrays(False)
        known["pulls"][0], known["successes"][0], known["total"][0] = pulls, wins, total
        policy.rebuild()
        policy.decide()
        out.append(float(known["index"][0]))
    return out


@pytest.mark.parametrize(("pulls", "wins"), [(10, 3), (1, 0), (1, 1), (400, 390)])
def test_beta_draws_have_the_right_law(pulls: int, wins: int) -> None:
    """Kolmogorov-Smirnov with a false-alarm probability of 1e-6; the seed is fixed."""
    drawn = drawn_indices("ts-beta", pulls, wins)
    assert stats.kstest(drawn, stats.beta(1 + wins, 1 + pulls - wins).cdf).pvalue > 1e-6


def test_normal_draws_have_the_right_law() -> None:
    """Kolmogorov-Smirnov with a false-alarm probability of 1e-6; the seed is fixed."""
    drawn = drawn_indices("ts", 25, 0, total=1750)
    assert stats.kstest(drawn, stats.norm(0.7, 0.1).cdf).pvalue > 1e-6


@st.composite
def many_units(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Rewards in units, near each other or far apart, near 0 or far from it; and how often each came."""
    middle, width = draw(st.sampled_from([0, 5, 2**30, -(2**30)])), draw(st.sampled_from([1, 3, 1000, 2**30]))
    rewards = draw(st.lists(st.integers(-width, width), min_size=1, max_size=6).map(lambda row: [middle + x for x in row]))
    times = st.sampled_from([1, 2, 7, 1000, 2**20, 2**28])
    return rewards, draw(st.lists(times, min_size=len(rewards), max_size=len(rewards)))


@settings(max_examples=500)
@given(many_units(), st.sampled_from([1.0, 0.01, 2.0**-30]), st.sampled_from([0.5, 100.0]))
def test_the_estimated_error_is_exact_but_for_rounding(found: tuple[list[int], list[int]], unit: float, sd: float) -> None:
    """Against fractions, where a sum of squares less a square of sums in floats would lose every digit."""
    rewards, times = found
    n, total = sum(times), sum(r * t for r, t in zip(rewards, times, strict=True))
    squares = sum(r * r * t for r, t in zip(rewards, times, strict=True))
    spread = (squares - Fraction(total * total, n)) * Fraction(unit) ** 2
    high, low = squares >> WORD, squares & (2**WORD - 1)
    expected = math.sqrt((spread + Fraction(sd) ** 2) / n**2)
    found_error = native.estimated_error(n, total, high, low, unit, sd)
    assert found_error == pytest.approx(expected, rel=1e-13)
    known = estimating([0], unit, sd, {"pulls": n, "total": total, "squares": high, "rest": low})
    assert known["root"][0] == found_error


def estimating(rewards: list[int], unit: float, sd: float, counts: dict[str, int]) -> dict[str, Any]:
    """What Thompson sampling that estimates its deviation knows of one arm: these counts, then rewards in units one by one."""
    settings = native.Settings(rule=native.RULES["ts-estimated"], seed=0, scale=2 * sd, sd=sd)
    table = np.array([[[0, r] for r in rewards]])
    policy = native.Live(native.Model(native.Rewards(table, unit, 0.0, 1.0)), settings, 0)
    known: dict[str, Any] = policy.arrays(False)
    for name, count in counts.items():
        known[name][0] = count
    policy.rebuild()
    for level in range(0 if counts else len(rewards)):
        policy.pay(0, level)
        assert 0 <= known["rest"][0] < 2**WORD
    return known


def test_the_error_of_no_reward_is_that_of_the_pseudo_observation() -> None:
    assert native.estimated_error(0, 0, 0, 0, 0.5, 3.0) == 3.0
    assert native.estimated_error(1, 7, 0, 49, 0.5, 3.0) == 3.0
    assert native.estimated_error(5, 0, 0, 0, 1.0, 0.0) == 0.0, "all rewards equal, and B = 0"


def test_squares_are_counted_in_two_words() -> None:
    rewards = [2**31, -(2**31), 1, 3, 2**16, 65_537, 2**31 - 1] * 3
    known = estimating(rewards, 1.0, 1.0, {})
    assert sums_of_squares(known["squares"], known["rest"]) == [sum(r * r for r in rewards)]


def test_estimated_draws_have_the_right_law() -> None:
    """N(mean, var/n), var = (sum of squared deviations + (B/2)²)/n. Kolmogorov-Smirnov, false alarm 1e-6, fixed seed."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": [0, 4], "b": [1, 1]})
    drawn = []
    for i in range(4000):
        policy = Policy(make_spec("ts", sd="estimated"), problem, reward_range=6, replication=i)
        policy.update(["a"] * 8, [0, 4, 4, 0, 0, 0, 0, 0])
        policy._native.decide()
        drawn.append(float(policy.known.ranks[0]))
    spread = 2 * 9 + 6 * 1  # about the mean 1
    assert stats.kstest(drawn, stats.norm(1, math.sqrt((spread + 9) / 8 / 8)).cdf).pvalue > 1e-6


@pytest.mark.parametrize(
    ("squares", "text"),
    [
        (None, "state.squares: got null; expected one number for each of a, b, c, d"),
        ({"a": 0}, "state.squares: got .*; expected one number for each of a, b, c, d"),
        ({"a": -1}, "state.a: got -1; expected a whole number from 0 to"),
        ({"a": 0.5}, "state.a: got 0.5; expected a whole number from 0 to"),
        ({"a": 5}, "state.squares.a: got 5; expected what 2 rewards that sum to .* can have"),
        ({"a": 2**70}, r"state.squares.a: got \d+; expected what 2 rewards that sum to .* can have"),
        ({"b": 1}, "state.squares.b: got 1; expected what 0 rewards that sum to 0 can have"),
    ],
)
def test_squares_that_no_rewards_have_are_refused(squares: Any, text: str) -> None:
    policy = Policy(make_spec("ts", sd="estimated"), CONTINUOUS)
    policy.update(["a", "a", "c"], [0.25, 0.5, 0.1])
    state = policy.state()
    change = squares if squares in (None, {"a": 0}) else {**state["squares"], **squares}
    with pytest.raises(ProblemError, match=text):
        from_state(state | {"squares": change}, CONTINUOUS)


@pytest.mark.parametrize("problem", [DISCRETE, NEGATIVE, CONTINUOUS])
def test_an_estimated_deviation_is_that_of_the_rewards(problem: hw.Problem) -> None:
    """The state restored and merged, too: each arm's standard error from its rewards by numpy."""
    whole, parts = (Policy(make_spec("ts", sd="estimated"), problem) for _ in range(2))
    rng, other = np.random.default_rng(3), Policy(make_spec("ts", sd="estimated"), problem)
    paid: dict[str, list[float]] = {name: [] for name in problem.names}
    for t in range(90):
        name = problem.names[t % len(problem.names)]
        reward = pays(problem, name, rng.random())
        paid[name].append(reward)
        whole.update(name, reward)
        (parts if t % 3 else other).update(name, reward)
    parts.merge(json.loads(json.dumps(other.state())))
    for name in ("pulls", "total", "successes", "squares", "rest", "pending", "shift", "mean", "root"):
        np.testing.assert_array_equal(getattr(parts.known, name), getattr(whole.known, name))
    again = from_state(json.loads(json.dumps(whole.state())), problem)
    assert np.array_equal(again.known.root, whole.known.root)
    for k, values in enumerate(paid.values()):
        variance = (np.var(values) * len(values) + (whole.scale / 2) ** 2) / len(values)
        assert whole.known.root[k] == pytest.approx(math.sqrt(variance / len(values)), rel=1e-6)


def test_options_of_a_stored_policy_say_which_deviation() -> None:
    assert Policy(make_spec("ts"), DISCRETE).state()["policy"]["sd"] is None, "0.1's, which left it out"
    assert stored_spec({"name": "ts"}) == make_spec("ts") != make_spec("ts", sd="estimated")
    assert Policy(make_spec("ts", sd="estimated"), DISCRETE).state()["policy"]["sd"] == "estimated"
    assert "squares" not in Policy(make_spec("ts"), CONTINUOUS).state()


@settings(max_examples=50)
@given(st.integers(-300, 300), st.integers(1, 500), st.integers(0, 2**64 - 1))
def test_binarising_keeps_the_ends(low: int, width: int, seed: int) -> None:
    """The least reward is a 0, the largest a 1, one in the middle a fair coin: the one that its round and arm have."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y", "z"]), arms={"a": [low, low + width, low + 2 * width], "b": [low] * 3})
    policy = Policy(make_spec("ts", posterior="beta"), problem, seed=seed, replication=4)
    expected = 0
    for t, part in enumerate([0, 2, 1, 1, 2, 0, 1], start=1):
        policy.update("a", low + part * width)
        u = (uniform(seed, 4, t, BINARISE, 0, 0) + 0.5) * 2.0**-53
        expected += part == 2 or (part == 1 and u * 2 * width < width)
        assert policy.known.successes[0] == expected
