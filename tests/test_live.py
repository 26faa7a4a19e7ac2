"""Making policies, and what a live one says of itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import pytest

import headwater as hw
from headwater import native
from headwater.errors import ProblemError, RewardError
from headwater.policies import NAMES, Policy, Spec, from_state, make_spec, parse_spec
from headwater.policies.rules import Rule
from headwater.policies.table import choose_units
from headwater.simulation.atoms import atoms_of

ADS = hw.Problem(
    latent=hw.Discrete(["student", "worker", "retiree"]), arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]}, name="ads"
)
WHOLE = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"up": [0, 1], "down": [1, 0]})
LINE = hw.Problem(latent=hw.Continuous([0, 1]), arms={"up": "x", "down": "1 - x"})


# --- names and options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_its_policy(name: str) -> None:
    policy = hw.make_policy(name, ADS)
    assert isinstance(policy, Policy)
    assert policy.spec.name == name
    assert repr(policy) == f"<Policy {name} on ads: 0 rewards>"
    assert policy.spec.reference == ("most-pulled" if name.startswith("c-") else "none")
    assert policy.pulls == {"banner": 0, "video": 0}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("ucb1", "ucb1"),
        (" c-ucb ", "c-ucb"),
        ("c-ucb:reference=most-pulled", "c-ucb"),
        ("c-ucb:reference=well-pulled", "c-ucb (well-pulled)"),
        ("kl-ucb:form=empirical", "kl-ucb (empirical)"),
        ("c-kl-ucb: form = empirical , reference = well-pulled", "c-kl-ucb (well-pulled, empirical)"),
        ("ts:sd=0.25", "ts (sd=0.25)"),
        ("ts:sd=estimated", "ts (estimated)"),
        ("c-ts:sd=estimated,audit=1", "c-ts (estimated, audit=1)"),
        ("c-ts:posterior=beta,", "c-ts (beta)"),
        ("c-ucb:audit=0", "c-ucb"),
        ("c-ucb:audit=0.25", "c-ucb (audit=0.25)"),
        ("c-ts:posterior=beta,reference=well-pulled,audit=2", "c-ts (well-pulled, beta, audit=2)"),
    ],
)
def test_policies_from_text(text: str, title: str) -> None:
    spec = parse_spec(text)
    assert spec.title == title
    options = spec.to_dict()
    assert make_spec(str(options.pop("name")), **options) == spec, "to_dict is what make_spec reads"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ucb2",
            'policy: got "ucb2"; expected one of ucb1, kl-ucb, ts, uniform, epsilon-greedy, c-ucb, c-kl-ucb, c-ts, joint-ucb',
        ),
        ("", 'policy: got ""; expected one of'),
        ("ucb1:sd=1", "sd: not an option of ucb1"),
        ("ts:name=x", "name: not an option of ts"),
        ("ts:sd", 'policy: got "sd" after ts; expected option=value'),
        ("ts:sd=0", "sd: got 0.0; expected a number above 0"),
        ("ts:sd=-1", "sd: got -1.0; expected a number above 0"),
        ("ts:sd=nan", "sd: got NaN; expected a number above 0"),
        ("ts:sd=inf", "sd: got Infinity; expected a number above 0"),
        ("ts:sd=wide", 'sd: got "wide"; expected a number above 0'),
        ("ts:sd=true", 'sd: got "true"; expected a number above 0, or "estimated"'),
        ("ts:sd=Estimated", 'sd: got "Estimated"; expected a number above 0, or "estimated"'),
        ("ts:posterior=beta,sd=estimated", 'sd: got "estimated" with a Beta posterior, which has none; expected posterior="n'),
        ("ts:posterior=gamma", 'posterior: got "gamma"; expected "normal" or "beta"'),
        ("kl-ucb:form=gauss", 'form: got "gauss"; expected "bernoulli" or "empirical"'),
        ("ucb1:audit=1", "audit: not an option of ucb1; expected none, it has no options"),
        ("c-ucb:sd=1", "sd: not an option of c-ucb; expected reference, audit"),
        ("c-ucb:audit=-1", "audit: got -1.0; expected a number from 0"),
        ("c-ucb:audit=inf", "audit: got Infinity; expected a number from 0"),
        ("c-ucb:audit=nan", "audit: got NaN; expected a number from 0"),
        ("c-ucb:audit=often", 'audit: got "often"; expected a number from 0'),
        ("ucb1:reference=most-pulled", 'reference: got "most-pulled"; expected one of none for ucb1'),
        ("c-ucb:reference=none", 'reference: got "none"; expected one of most-pulled, well-pulled for c-ucb'),
    ],
)
def test_bad_policies(text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        parse_spec(text)


def test_bad_specs() -> None:
    bad: Any = "best"
    with pytest.raises(ProblemError, match='reference: got "best"; expected one of none, most-pulled, well-pulled'):
        Spec(hw.UCB1(), bad)
    with pytest.raises(ProblemError, match='reference: got "best"'):
        hw.Correlated(hw.UCB1(), ADS, reference=bad)
    with pytest.raises(ProblemError, match=r"audit: got 0\.5; expected 0, because nothing is excluded without a filter"):
        Spec(hw.UCB1(), audit=0.5)


class MyThompson(hw.Thompson):
    @property
    def code(self) -> str:
        return "ucb1"


@pytest.mark.parametrize("rule", get_args(Rule))
def test_a_subclass_of_a_rule_is_refused(rule: type[Any]) -> None:
    mine = type("Mine", (rule,), {})()
    name = rule.__name__
    message = f"rule: got a Mine, a subclass of {name}, whose overrides would be ignored; expected {name} itself"
    with pytest.raises(ProblemError, match=message):
        Spec(mine)
    with pytest.raises(ProblemError, match=message):
        hw.Correlated(mine, ADS)


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(ProblemError, match="rule: got a MyThompson, a subclass of Thompson"):
        hw.Correlated(MyThompson(), ADS)
    others: list[Any] = ["ucb1", hw.UCB1, None]
    for bad in others:
        message = r"rule: got .*; expected one of UCB1, KLUCB, Thompson, Uniform, EpsilonGreedy, JointUCB, .*UCB1\(\)"
        with pytest.raises(ProblemError, match=message):
            hw.Correlated(bad, ADS)


def test_what_is_no_spec_is_refused() -> None:
    others: list[Any] = [type("Mine", (Spec,), {"title": "mine"})(hw.UCB1()), "ucb1"]
    for bad in others:
        with pytest.raises(ProblemError, match=r"spec: got .*; expected a Spec itself, as make_spec makes it"):
            Policy(bad, ADS)


class Chooser(Policy):
    def select(self, among: Sequence[str] | None = None) -> str:
        return "video"


class Counter(hw.Correlated):
    def update(self, arm: Any, reward: Any) -> None:
        super().update(arm, 1)


def test_overridden_verbs_are_never_passed_over() -> None:
    chooser, counter, policy = Chooser(make_spec("ts"), ADS), Counter(hw.UCB1(), ADS), hw.make_policy("c-ucb", ADS)
    counter.update("banner", 2)
    assert chooser.select() == "video" and counter.pulls["banner"] == 1
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("select_many: Chooser has its own select", lambda: chooser.select_many(2)),
        ("propensities: Chooser has its own select", chooser.propensities),
        ("explain: Chooser has its own select", chooser.explain),
        ("explain: Chooser has its own select", chooser.competitive),
        ("state: Chooser has its own select", chooser.state),
        ("check: Counter has its own update", lambda: counter.check("banner", 1)),
        ("merge: Counter has its own update", lambda: counter.merge(policy)),
        ("state: Counter has its own update", lambda: policy.merge(counter)),
    ]
    for message, call in calls:
        with pytest.raises(ProblemError, match=message + ", which .* would ignore; expected a Policy as it is"):
            call()
    policy.__dict__["update"] = print
    with pytest.raises(ProblemError, match="state: Policy has its own update"):
        policy.state()


def test_classes_and_policies_are_not_simulated() -> None:
    for bad in (Chooser, Chooser(make_spec("ts"), ADS), hw.UCB1()):
        policies: Any = [bad]
        with pytest.raises(ProblemError, match=r"policy: got a \w+; expected one of ucb1, "):
            hw.simulate(ADS, [0.3, 0.4, 0.3], policies=policies, horizon=5, replications=1)


def test_correlated_is_the_named_policy() -> None:
    assert hw.Correlated(hw.UCB1(), ADS).spec == make_spec("c-ucb")
    assert hw.Correlated(hw.KLUCB(), ADS, reference="well-pulled").spec == make_spec("c-kl-ucb", reference="well-pulled")
    assert hw.Correlated(hw.UCB1(), ADS, audit=0.5).spec == make_spec("c-ucb", audit=0.5)
    assert hw.Correlated(hw.Thompson("beta"), ADS, seed=3).spec == make_spec("c-ts", posterior="beta")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_range": 0}, "reward_range: got 0; expected a number above 0"),
        ({"reward_range": math.nan}, "reward_range: got NaN; expected a number above 0"),
        ({"reward_range": math.inf}, "reward_range: got Infinity; expected a number above 0"),
        ({"reward_range": "2"}, 'reward_range: got "2"; expected a number above 0'),
        ({"reward_range": True}, "reward_range: got true; expected a number above 0"),
        ({"seed": -1}, "seed: got -1; expected a whole number"),
        ({"seed": 0.5}, "seed: got 0.5; expected a whole number"),
        ({"tolerance": 1}, "tolerance: got 1; expected a number from 0 to below 1"),
        ({"tolerance": -0.1}, "tolerance: got -0.1; expected a number from 0 to below 1"),
        ({"tolerance": math.nan}, "tolerance: got NaN; expected a number from 0 to below 1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Policy(make_spec("c-ucb"), ADS, **options)


def test_what_cannot_be_decided_is_refused() -> None:
    bad: Any = "ads.toml"
    with pytest.raises(ProblemError, match=r'problem: got "ads.toml"; expected a Problem'):
        hw.make_policy("c-ucb", bad)
    with pytest.raises(ProblemError, match='form: got "empirical"; expected "bernoulli", because these arms have infinitely'):
        hw.make_policy("kl-ucb", LINE, form="empirical")


def test_a_policy_never_reads_the_distribution() -> None:
    one = hw.Problem(latent=ADS.latent, arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]}, distribution=[1, 0, 0])
    other = hw.Problem(latent=ADS.latent, arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]}, distribution=[0, 0, 1])
    state = hw.make_policy("c-ucb", one).state()
    assert from_state(state, other).state() == state
    assert from_state(state, ADS).state() == state


def test_reward_range_scales_the_bonus() -> None:
    wide, own = hw.make_policy("ucb1", ADS, reward_range=10), hw.make_policy("ucb1", ADS)
    for policy in (wide, own):
        policy.update(["banner", "video"], [1, 1.5])
    width = math.sqrt(2 * math.log(3))
    assert [line.index for line in wide.explain().arms] == pytest.approx([1 + 10 * width, 1.5 + 10 * width])
    assert [line.index for line in own.explain().arms] == pytest.approx([1 + 1.5 * width, 1.5 + 1.5 * width])


# --- explanations ----------------------------------------------------------------------------------------------------


def test_the_two_arm_example_in_words() -> None:
    policy = hw.make_policy("c-ucb", ADS)
    assert policy.explain().arms[0].sentence == "chosen next: never pulled, so nothing speaks against it."
    assert policy.explain().arms[1].sentence == "in the running: never pulled, so nothing speaks against it."
    policy.update(["banner"] * 10, [1, 1, 1, 2, 2, 2, 2, 2, 2, 2])
    explained = policy.explain()
    banner, video = explained.arms
    assert (banner.mean, video.pseudo_reward, video.excluded_by) == (1.7, 1.5, "banner")
    assert (video.measured_by, banner.measured_by, video.mean, video.index) == ("banner", None, None, None)
    assert video.sentence == (
        "excluded: in the 10 pulls of banner it could not have averaged more than 1.5, "
        "which is less than the mean 1.7 of banner."
    )
    assert explained.to_dict()["arms"][1]["excluded_by"] == "banner"
    assert "  video: excluded: in the 10 pulls of banner" in str(explained)


def test_a_pending_first_pull_in_words() -> None:
    policy = hw.make_policy("c-ucb", ADS)
    policy.select()
    sentence = policy.explain().arms[0].sentence
    assert sentence.startswith("in the running: its first reward is still pending; until then its index is ")


def test_one_pull_is_singular() -> None:
    policy = hw.make_policy("c-ucb", ADS)
    policy.update("banner", 2)
    assert policy.explain().arms[0].sentence == "chosen next: mean 2 over 1 pull, index 3.766."
    assert "in the one pull of banner" in policy.explain().arms[1].sentence


@pytest.mark.parametrize("name", ["kl-ucb", "c-kl-ucb"])
def test_explained_indices_are_the_true_ones(name: str) -> None:
    """A decision need not compute the index of an arm that certainly loses; an explanation must."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": [0, 1], "b": [1, 0], "c": [0.5, 1]})
    policy = hw.make_policy(name, problem)
    policy.update(["a"] * 50 + ["b"] * 40 + ["c"] * 30, [1] * 25 + [0] * 25 + [1] * 30 + [0] * 10 + [1] * 10 + [0.5] * 20)
    means = np.array([0.5, 0.75, 2 / 3])
    for pulls, pending in (([50.0, 40.0, 30.0], "none"), ([50.0, 41.0, 30.0], "one")):
        index = native.kl_ucb_index(means, np.array(pulls), math.log(1 + sum(pulls)), 0.0, 1.0)
        assert [line.index for line in policy.explain().arms] == pytest.approx(index.tolist()), f"{pending} is pending"
        policy.select()


def test_an_arm_is_never_excluded_by_its_own_mean() -> None:
    """Well-pulled: a lower mean alone is the index's business. Unrelated arms all stay."""
    problem = hw.Problem(latent=hw.Vector({"x": [0, 1], "y": [0, 1], "z": [0, 1]}), arms={"a": "x", "b": "y", "c": "z"})
    policy = hw.make_policy("c-ucb", problem, reference="well-pulled")
    policy.update(["a"] * 6 + ["b"] * 5 + ["c"], [1] * 5 + [0] + [1] + [0] * 4 + [1])
    assert policy.competitive() == ["a", "b", "c"]


def test_well_pulled_names_the_arm_that_excludes() -> None:
    """b's rewards rule c out, a's do not: the sentence must name b, and the mean it is measured against."""
    problem = hw.Problem(latent=hw.Discrete(["p", "q", "r"]), arms={"a": [3, 3, 0], "b": [1, 2, 2], "c": [0, 2, 3]})
    policy = hw.make_policy("c-ucb", problem, reference="well-pulled")
    policy.update(["a", "a", "b", "b"], [3, 3, 1, 1])
    line = policy.explain().arms[2]
    assert (line.excluded_by, line.pseudo_reward) == ("b", 0.0)
    assert line.sentence == (
        "excluded: in the 2 pulls of b it could not have averaged more than 0, which is less than the mean 3 of a."
    )
    most = hw.make_policy("c-ucb", problem)
    most.update(["a", "a", "b", "b"], [3, 3, 1, 1])
    assert most.explain().arms[2].excluded_by == "a"


# --- units -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "unit", "exact"),
    [
        ([0.0, 4.0], 1.0, True),
        ([0.1, 0.2, 0.1 + 0.2], 0.1, True),
        ([0.25, 1e6], 0.01, True),
        ([1e-13, 3e-13], None, False),
        ([math.pi, 1.0], None, False),
        ([0.0], 1.0, True),
    ],
)
def test_units(values: list[float], unit: float | None, exact: bool) -> None:
    found = choose_units(np.array(values))
    assert found.exact == exact
    assert unit is None or found.unit == unit
    whole = found.rewards(np.array(values))
    assert whole * found.unit == pytest.approx(values, rel=1e-8)
    assert abs(whole).max() <= 2**31


def test_tiny_rewards_are_told_apart() -> None:
    """Decisions do not depend on the unit of money."""
    tiny = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": [1e-13, 3e-13], "b": [2e-13, 0]})
    plain = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": [1, 3], "b": [2, 0]})
    for name in ("ucb1", "c-ucb", "kl-ucb"):
        one, other = hw.make_policy(name, tiny), hw.make_policy(name, plain)
        rng = np.random.default_rng(1)
        for _ in range(100):
            arm, x = one.select(), int(rng.random() < 0.3)
            assert arm == other.select()
            k = plain.index(arm)
            one.update(arm, float(tiny.rewards[k, x]))
            other.update(arm, float(plain.rewards[k, x]))


def test_rounding_never_excludes() -> None:
    """Irrational rewards: equal pseudo-rewards stay equal, however many are summed."""
    problem = hw.Problem(
        latent=hw.Discrete(["x", "y"]), arms={"a": [math.pi, math.e], "b": [math.e, math.pi], "c": [1, math.pi]}
    )
    policy = hw.make_policy("c-ucb", problem)
    policy.update(["a", "a"] * 500, [math.pi, math.e] * 500)
    assert policy.competitive() == ["a", "b"]


# --- continuous states -----------------------------------------------------------------------------------------------


def _stored() -> dict[str, Any]:
    policy = hw.make_policy("c-ucb", LINE)
    policy.update(["up", "up", "down"], [0.25, 0.5, 0.125])
    state: dict[str, Any] = json.loads(json.dumps(policy.state()))
    return state


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("sums",), None, "state.sums: got null; expected a row for each arm"),
        (("sums", "up"), {"up": 0}, "state.up: got .*; expected one number for each of up, down"),
        (("sums", "up", "up"), 5, "state.total.up: got .*; expected what 2 pulls of the arm can pay"),
        (("total", "up"), 10**12, "state.total.up: got 1000000000000; expected what 2 pulls of the arm can pay"),
        (("total", "up"), -(10**9), "state.total.up: got -1000000000; expected what 2 pulls of the arm can pay"),
        (("total", "up"), 0.5, "state.up: got 0.5; expected a whole number"),
        (("pulls", "up"), 0, "state.total.up: got .*; expected what 0 pulls of the arm can pay"),
        (("pulls", "up"), -1, "state.up: got -1; expected a whole number from 0"),
        (("pulls", "up"), 2**40, "state.up: got 1099511627776; expected a whole number"),
    ],
)
def test_tampered_sums_are_refused(path: tuple[str, ...], value: Any, message: str) -> None:
    state = _stored()
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ProblemError, match=message):
        from_state(state, LINE)
    fresh = hw.make_policy("c-ucb", LINE)
    before = fresh.state()
    with pytest.raises(ProblemError, match=message):
        fresh.merge(state)
    assert fresh.state() == before


def test_rewards_on_a_continuum() -> None:
    policy = hw.make_policy("c-ucb", LINE)
    policy.update("up", 0.75)
    assert policy.competitive() == ["up"], "down paid 0.25"
    for bad in (1.5, -0.1):
        with pytest.raises(RewardError, match=r"arm up can pay 0 to 1"):
            policy.update("up", bad)
    assert policy.rounds == 1


def test_the_live_object_and_the_atoms_agree_on_a_continuum() -> None:
    """What a simulation looks up is what a live policy computes, reward by reward."""
    law = hw.Problem(latent=LINE.latent, arms={"up": "x", "down": "1 - x"}, distribution={"name": "beta", "a": 2, "b": 5})
    assert law.distribution is not None
    atoms = atoms_of(law, law.distribution)
    policy = hw.make_policy("c-ucb", law)
    for k in range(2):
        for m in np.linspace(0, len(atoms.values[k]) - 1, 50).astype(int):
            np.testing.assert_array_equal(policy._level(k, float(atoms.values[k][m])), atoms.cells[k, m])


@pytest.mark.parametrize("name", ["ucb1", "c-ucb", "kl-ucb", "c-ts"])
def test_a_remembered_choice_is_never_stale(name: str) -> None:
    """Asking and telling in turn lets a policy decide ahead; whatever else is counted must undo that."""
    problem = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"one": [1, 0], "two": [0, 1]})
    for change in range(3):
        policy = hw.make_policy(name, problem, seed=5)
        for _ in range(6):
            policy.update(policy.select(), 1)
        other = hw.make_policy(name, problem, seed=5)
        other.update(["two"] * 40, [1.0] * 40)
        if change == 0:
            policy.merge(other)
        elif change == 1:
            policy.update(["two"] * 40, [1.0] * 40)
        else:
            for _ in range(40):
                policy.update("two", 1)
        fresh = hw.from_state(policy.state(), problem)
        for _ in range(5):
            arm = policy.select()
            assert arm == fresh.select()
            policy.update(arm, 0)
            fresh.update(arm, 0)


# --- rewards in numpy's types ----------------------------------------------------------------------------------------

TYPES = [float, int, np.float64, np.float32, np.float16, np.longdouble, np.int64, np.int8, np.uint32]


@pytest.mark.parametrize("name", ["ucb1", "c-ucb", "c-ts", "joint-ucb"])
@pytest.mark.parametrize("problem", [WHOLE, LINE], ids=["few rewards", "a continuum"])
def test_a_reward_counts_the_same_in_every_type(name: str, problem: hw.Problem, recwarn: pytest.WarningsRecorder) -> None:
    def played(kind: type[Any]) -> tuple[list[str], dict[str, Any]]:
        policy, chosen = hw.make_policy(name, problem, seed=3), []
        for n in range(40):
            chosen.append(policy.select())
            policy.update(chosen[-1], kind(problem.index(chosen[-1]) if n % 3 else 1))
        policy.update(list(problem.names), [kind(1)] * 2)
        return chosen, policy.state()

    known = played(float)
    assert all(played(kind) == known for kind in TYPES)
    assert not recwarn.list


@pytest.mark.parametrize("reward", [True, np.True_, np.float32("nan"), np.float32("inf"), np.float64("-inf"), "1", None, 1j])
def test_a_reward_that_is_no_finite_number(reward: Any) -> None:
    for problem in (WHOLE, LINE):
        policy = hw.make_policy("c-ucb", problem)
        for many in (False, True):
            with pytest.raises(RewardError, match=r"reward: got .*; expected a finite number"):
                policy.update([problem.names[0]] if many else problem.names[0], [reward] if many else reward)
        assert policy.rounds == 0
