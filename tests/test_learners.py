"""Policies that learn the law of X: the contract of every policy, the guard, the audit, what X is, and odd problems."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import headwater as hw
from channel_strategies import random_problem
from headwater import simulation
from headwater.arrays import Floats
from headwater.errors import HeadwaterError, ProblemError, SizeError
from headwater.paper import CASES
from headwater.policies import Policy, Spec, from_state, make_spec
from headwater.policies.evidence import evidence_of
from headwater.policies.live import SHOWN
from headwater.policies.rules import GUARD
from headwater.pseudo import model_of
from headwater.pseudo.channels import channels_of
from headwater.simulation import simulate
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import Counts, make_model, simulate_counts
from headwater.streams import REWARD
from oracle import drawn_atoms, uniform
from test_policies import CONTINUOUS, DISCRETE, NEGATIVE, POINTS, TABLE, PolicyContract, learned, pays, play, unfit

PAPER = {case.id: case.problem for case in CASES}
NAMES = ["joint-ucb", "latent-ts", "graves-lai"]
SPECS = [
    *map(make_spec, NAMES),
    make_spec("joint-ucb", discount=0, audit=0, guard=0),
    make_spec("joint-ucb", discount=0.3, audit=0.7),
    make_spec("latent-ts", prior=0.5, guard=0.05),
]


def randomised(spec: Spec) -> bool:
    return spec.rule.name == "latent-ts"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.title)
class TestLearnerContract(PolicyContract):
    """The contract of every policy, with its own words where a filter or an index of one arm is meant."""

    def test_relabelling_arms_relabels_decisions(self, spec: Spec) -> None:
        """joint-ucb, where nothing ties; what the likeliest law is need not be unique."""
        if spec.rule.name != "joint-ucb":
            return
        turned = hw.Problem(latent=hw.Discrete(POINTS), arms={name: TABLE[name] for name in ("c", "a", "b")})
        one, other = self.make(spec), self.make(spec, turned)
        rng, compared = np.random.default_rng(4), 0
        for _ in range(150):
            mine, theirs = one.explain(), other.explain()
            lines = {line.name: line for line in theirs.arms}
            for line in mine.arms:
                assert line.index == pytest.approx(lines[line.name].index, abs=1e-5)
            index = sorted((line.index or 0.0 for line in mine.arms), reverse=True)
            pulls = sorted(one.pulls.values())
            clear = spec.audit == 0 or (pulls[0] > 0 and pulls[-1] > pulls[-2])  # what an audit starts from may tie, too
            if index[0] - index[1] > 1e-4 and clear:
                assert mine.chosen == theirs.chosen
                compared += 1
            x = rng.random()
            one.update(mine.chosen, pays(DISCRETE, mine.chosen, x))
            other.update(mine.chosen, pays(DISCRETE, mine.chosen, x))
        assert compared > 60

    def test_a_fresh_policy_can_be_restored(self, spec: Spec) -> None:
        constant = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"u": [1, 1], "v": [1, 1]})  # B = 0
        for problem in (DISCRETE, NEGATIVE, constant):
            fresh = self.make(spec, problem)
            again = from_state(fresh.state(), problem)
            assert learned(again) == learned(fresh)
            assert again.select() == fresh.select()

    def test_an_exact_tie_keeps_the_arm(self, spec: Spec) -> None:
        problem = hw.Problem(latent=hw.Discrete(POINTS[:3]), arms={"k": [0.1, 0.2, 0.3], "ell": [0.3, 0.1, 0.2]})
        policy = self.make(spec, problem)
        policy.update(["k"] * 900, np.random.default_rng(2).permutation([0.1, 0.2, 0.3] * 300).tolist())
        assert policy.competitive() == ["k", "ell"]
        assert policy.latent().values[0].likeliest == pytest.approx(1 / 3, abs=1e-6)

    def test_equal_arms_go_to_the_lowest_number(self, spec: Spec) -> None:
        problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"u": [0, 1], "v": [0, 1], "w": [0, 1]})
        policy = self.make(spec, problem)
        assert policy.select() == "u"
        policy.update("u", 1)
        assert policy.competitive() == ["u", "v", "w"]
        assert policy.explain().chosen == ("u" if spec.audit == 0 else policy.select())

    @pytest.mark.parametrize("problem", [DISCRETE, NEGATIVE, CONTINUOUS], ids=["discrete", "negative", "continuous"])
    def test_deterministic_policies_spread_pending_pulls(self, spec: Spec, problem: hw.Problem) -> None:
        """Not evenly: an arm that the expected rewards of others rule out gets no turn."""
        if unfit(spec, problem):
            return
        policy = self.make(spec, problem)
        chosen = [policy.select() for _ in range(20)]
        assert set(chosen) <= set(problem.names) and policy.waiting == 20
        assert chosen == [from_state(policy.state(), problem).names[problem.index(arm)] for arm in chosen]

    def test_pending_pulls_leave_what_was_learned_alone(self, spec: Spec) -> None:
        for problem in (DISCRETE, NEGATIVE):
            policy = self.make(spec, problem)
            play(policy, 25, seed=6)
            before = learned(policy, coins=False)
            for _ in range(12):
                explained = policy.explain()
                assert explained.chosen == policy.select()
                assert all(line.index is not None and math.isfinite(line.index) for line in explained.arms)
            assert policy.waiting == 12
            assert {**learned(policy, coins=False), "pending": before["pending"]} == before

    def test_an_unasked_reward_settles_nothing_else(self, spec: Spec) -> None:
        policy = self.make(spec)
        arm = policy.select()
        other = next(name for name in policy.names if name != arm)
        policy.update(other, pays(DISCRETE, other, 0.1))
        assert learned(policy)["pending"][arm] == 1 and policy.waiting == 1
        policy.update(arm, pays(DISCRETE, arm, 0.1))
        assert policy.waiting == 0 and policy.rounds == 2

    def test_one_arm_left(self, spec: Spec) -> None:
        """Arms that no law makes best are pulled by an audit only."""
        problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"best": [2, 3], "poor": [1, 1], "worse": [0, 1]})
        policy = self.make(spec, problem)
        policy.update("best", 2)
        if spec.rule.name == "joint-ucb":
            assert policy.competitive() == ["best"]
        chosen = play(policy, 30, seed=1)
        assert chosen.count("best") >= 24 and (spec.audit > 0 or set(chosen) == {"best"})

    def check_lines(self, policy: Policy, explained: Any, competitive: list[str]) -> None:
        best = max(line.index for line in explained.arms)
        joint = policy.spec.rule.name == "joint-ucb"
        for line in explained.arms:
            assert (line.excluded_by is None) == (line.name in competitive)
            assert line.pulls == policy.pulls[line.name]
            assert (line.mean is None) == (line.pulls == 0)
            assert line.measured_by is None and 0 - 1e-9 <= line.pseudo_reward <= 4 + 1e-9
            if line.excluded_by is not None:
                assert joint and line.excluded_by != line.name and line.excluded_by in line.sentence
                assert line.sentence.startswith("chosen next as an audit, because " if line.chosen else "ruled out: ")
            else:
                assert line.sentence.startswith("chosen next: " if line.chosen else "in the running: ")
            if joint and line.chosen and not policy.spec.audit:
                assert line.index == pytest.approx(best, abs=1e-5)
            if joint:
                assert line.index >= line.pseudo_reward - 1e-6
        assert explained.latent is not None and len(explained.latent.values) == 5 and explained.doubted == ()
        assert str(explained.latent) in str(explained)

    # --- what only these keep

    def test_looking_leaves_no_trace(self, spec: Spec) -> None:
        """Explanations, choices that are cancelled, and a look at X change nothing that follows."""
        quiet, watched = self.make(spec, seed=9), self.make(spec, seed=9)
        rng = np.random.default_rng(1)
        for t in range(60):
            watched.explain()
            watched.latent()
            for _ in range(t % 3):
                watched.cancel(watched.select())
            arm = quiet.select()
            assert arm == watched.select()
            reward = pays(DISCRETE, arm, rng.random())
            quiet.update(arm, reward)
            watched.update(arm, reward)
            assert learned(quiet) == learned(watched)

    @pytest.mark.parametrize("problem", [DISCRETE, CONTINUOUS, NEGATIVE], ids=["discrete", "continuous", "negative"])
    def test_restored_at_any_moment(self, spec: Spec, problem: hw.Problem) -> None:
        """In the middle of select and update, with one pull pending or several, again and again."""
        if unfit(spec, problem):
            return
        one, other = self.make(spec, problem, seed=4), self.make(spec, problem, seed=4)
        rng = np.random.default_rng(3)
        waiting: list[str] = []
        for t in range(90):
            arm = one.select()
            assert arm == other.select()
            waiting.append(arm)
            if t % 2:
                other = from_state(json.loads(json.dumps(other.state(), allow_nan=False)), problem)
            while len(waiting) > (t // 20) % 3:
                late = waiting.pop(int(rng.integers(len(waiting))))
                reward = pays(problem, late, rng.random())
                one.update(late, reward)
                other.update(late, reward)
            if t % 3:
                other = from_state(json.loads(json.dumps(other.state(), allow_nan=False)), problem)
            # whoever asks and tells in turn decides ahead, which a restored policy makes up for when it is asked
            assert learned(one, coins=False) == learned(other, coins=False)
        assert one.explain() == other.explain()

    def test_refused_rewards_leave_the_course_alone(self, spec: Spec) -> None:
        one, other = self.make(spec, seed=5), self.make(spec, seed=5)
        rng = np.random.default_rng(2)
        for _ in range(40):
            arm = one.select()
            assert arm == other.select()
            with pytest.raises(HeadwaterError):
                other.update(arm, 0.777)
            reward = pays(DISCRETE, arm, rng.random())
            one.update(arm, reward)
            other.update(arm, reward)
        assert learned(one) == learned(other)


def test_merging_two_replicas_is_counting_once_for_random_rewards() -> None:
    problem = random_problem(3, 3, 5, noisy=1)
    one, other, whole = (hw.make_policy("joint-ucb", problem) for _ in range(3))
    rng = np.random.default_rng(0)
    for i in range(300):
        k = int(rng.integers(3))
        reward = float(rng.choice(channels_of(problem).values[k]))
        for policy in (whole, one if i % 2 else other):
            policy.update(k, reward)
    one.merge(other)
    assert one.explain() == whole.explain() and one.latent() == whole.latent()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hw.ModelWarning)
        assert one.select() == whole.select() and one.doubted == whole.doubted
    assert learned(one) == learned(whole)


# --- names and options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("joint-ucb", {"prior": 1}, "prior: not an option of joint-ucb; expected discount, tolerance, guard, audited, audit"),
        ("latent-ts", {"discount": 1}, "not an option of latent-ts; expected prior, tolerance, guard, audited, audit"),
        ("graves-lai", {"sd": 1}, "sd: not an option of graves-lai; expected guard, audited, audit"),
        ("graves-lai", {"reference": "most-pulled"}, 'reference: got "most-pulled"; expected one of none for graves-lai'),
        ("joint-ucb", {"discount": 1.5}, "discount: got 1.5; expected a number from 0 to 1"),
        ("joint-ucb", {"discount": math.nan}, "discount: got NaN; expected a number from 0 to 1"),
        ("joint-ucb", {"discount": "half"}, 'discount: got "half"; expected a number from 0 to 1'),
        ("latent-ts", {"prior": 0.1}, "prior: got 0.1; expected a number from 0.2 to 1000"),
        ("latent-ts", {"prior": math.inf}, "prior: got Infinity; expected a number from 0.2 to 1000"),
        ("latent-ts", {"prior": None}, "prior: got null; expected a number from 0.2 to 1000"),
        *(
            (name, {"guard": bad}, "guard: got .*; expected an error rate from 0 .off. to below 1")
            for name in NAMES
            for bad in (1, -0.1, math.nan, "no", True)
        ),
        *((name, {"audited": bad}, "audited: got .*; expected one of open-arms, all-arms") for name in NAMES for bad in "x1"),
        *((name, {"audit": bad}, "audit: got .*; expected a number from 0") for name in NAMES for bad in (-1, math.inf, "x")),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        hw.make_policy(name, DISCRETE, **options)


def test_a_filter_over_a_learner_is_refused() -> None:
    with pytest.raises(ProblemError, match='reference: got "most-pulled"; expected none, joint-ucb has a filter of its own'):
        Spec(make_spec("joint-ucb").rule, "most-pulled")


def test_problems_that_cannot_be_learned_are_refused() -> None:
    box = hw.Problem(latent=hw.Vector({"x": hw.Interval(0, 1), "y": [0, 1]}), arms={"a": "x + y", "b": "y"})
    for name in NAMES:
        with pytest.raises(ProblemError, match="policy: joint policies need a support that is listed, or a continuous scalar"):
            hw.make_policy(name, box)
    for name in NAMES[1:]:
        with pytest.raises(ProblemError, match=f"policy: {name} needs a support that is listed; use joint-ucb where X is"):
            hw.make_policy(name, CONTINUOUS)
        law = {"name": "uniform"}
        with pytest.raises(ProblemError, match=f"policy: {name} needs a support that is listed; use joint-ucb where X is"):
            simulate(CONTINUOUS, law, policies=[name], horizon=5, replications=2)
    points = 5600
    rng = np.random.default_rng(0)
    large = hw.Problem(
        latent=hw.Discrete([f"x{j}" for j in range(points)]), arms={"a": rng.integers(0, 2, points).tolist(), "b": [0] * points}
    )
    with pytest.raises(ProblemError, match="policy: 2 arms on 5,600 points are too many for joint"):
        hw.make_policy("joint-ucb", large)
    wide = hw.Problem(latent=hw.Discrete(range(11)), arms={f"arm {k}": rng.permutation(11) for k in range(3000)})
    with pytest.raises(ProblemError, match="policy: 3000 arms with 33,000 different rewards on 11 points are too many"):
        hw.make_policy("joint-ucb", wide)


# --- live and simulated ----------------------------------------------------------------------------------------------


def live(problem: hw.Problem, spec: Spec, *, seed: int, replication: int, horizon: int) -> Policy:
    """A live policy that draws what the simulation draws, from an oracle's streams."""
    assert problem.distribution is not None
    atoms = atoms_of(problem, problem.distribution)
    policy = Policy(spec, problem, seed=seed, replication=replication)
    for t, j in enumerate(drawn_atoms(atoms.probability, seed, replication, horizon)):
        arm = problem.index(policy.select())
        m = int(atoms.level[arm, j])
        if atoms.cuts.size:
            m = int(np.sum(uniform(seed, replication, t + 1, REWARD, 0, 0) >= atoms.cuts[arm, j]))
        policy.update(arm, float(atoms.values[arm][m]))
    return policy


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("problem", [PAPER["discrete-2"], PAPER["vector-1"], random_problem(5, 3, 4, noisy=1)], ids=str)
def test_a_live_policy_is_a_replication(name: str, problem: hw.Problem) -> None:
    marks, spec = np.arange(1, 301), make_spec(name, audit=20)  # audited after 50 rounds
    run = simulate(problem, policies=[spec], horizon=300, replications=3, seed=6, checkpoints=marks)
    again = live(problem, spec, seed=6, replication=2, horizon=300)
    assert list(again.pulls.values()) == run.outcomes[spec.title].pulls[2, -1].tolist()
    pulled = again.known.pulls > 0
    assert again.known.mean[pulled] @ again.known.pulls[pulled] == pytest.approx(run.outcomes[spec.title].reward[2, -1])


def test_an_arm_whose_largest_reward_falls_short_is_not_audited() -> None:
    problem = hw.Problem(latent=hw.Discrete(["x", "y", "z"]), arms={"best": [2, 3, 9], "poor": [1, 0, 2.4], "hope": [1, 0, 8]})
    for name in NAMES:
        policy = hw.make_policy(name, problem, audit=20, audited="all-arms")
        policy.update(["best"] * 60, [2.0, 3.0] * 30)
        assert policy.select() == "hope", "poor cannot pay what best has paid on average"


@pytest.mark.parametrize("name", ["continuous-1", "continuous-2"])
def test_a_live_policy_is_a_replication_on_a_continuum(name: str) -> None:
    run = simulate(PAPER[name], policies=["joint-ucb"], horizon=150, replications=2, seed=6)
    again = live(PAPER[name], make_spec("joint-ucb"), seed=6, replication=1, horizon=150)
    assert list(again.pulls.values()) == run.outcomes["joint-ucb"].pulls[1, -1].tolist()


def test_replications_threads_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"horizon": 200, "seed": 6, "checkpoints": [1, 7, 100]}
    for problem in (PAPER["discrete-2"], random_problem(5, 3, 4, noisy=1)):
        whole = simulate(problem, policies=NAMES, replications=30, **options)
        fewer = simulate(problem, policies=["ucb1", *reversed(NAMES)], replications=11, threads=1, **options)
        with monkeypatch.context() as patch:
            patch.setattr(simulation, "CHUNK", 13)
            patch.setattr(simulation, "ROUNDS", 0)
            chunked = simulate(problem, policies=NAMES, replications=30, threads=2, **options)
        for name in NAMES:
            for a, b, c in zip(whole.outcomes[name], chunked.outcomes[name], fewer.outcomes[name], strict=True):
                np.testing.assert_array_equal(a, b)
                np.testing.assert_array_equal(a[:11], c)


def test_an_interrupt_stops_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "CHUNK", 10)
    monkeypatch.setattr(simulation, "ROUNDS", 0)
    begun: list[int] = []

    def stop(done: int, total: int) -> None:
        if done % 1500 == 0 and done not in begun:
            begun.append(done)
            if len(begun) == 2:  # the second chunk
                raise KeyboardInterrupt

    part = simulate(PAPER["discrete-2"], policies=NAMES, horizon=150, replications=25, progress=stop)
    assert (part.replications, part.wanted) == (10, 25)
    whole = simulate(PAPER["discrete-2"], policies=NAMES, horizon=150, replications=25)
    for name in NAMES:
        np.testing.assert_array_equal(part.regret(name), whole.regret(name)[:10])
    with pytest.raises(KeyboardInterrupt):
        begun.clear()
        begun += [-1]
        simulate(PAPER["discrete-2"], policies=NAMES, horizon=150, replications=5, progress=stop)


def test_what_is_ruled_out_is_counted_for_joint_ucb_alone() -> None:
    run = simulate(PAPER["discrete-2"], policies=NAMES, horizon=400, replications=20, seed=1)
    assert not run.outcomes["latent-ts"].excluded.any() and not run.outcomes["graves-lai"].excluded.any()
    excluded = run.outcomes["joint-ucb"].excluded
    assert excluded[:, [k for k in range(3) if k != run.best]].any() and (excluded <= 400).all()
    first = simulate(PAPER["discrete-2"], policies=["joint-ucb"], horizon=1, replications=5)
    assert not first.outcomes["joint-ucb"].excluded.any(), "nothing is known before the first reward"
    # the best arm is below another's likeliest mean rarely: never more often than the arms that are worse
    assert excluded.mean(axis=0)[run.best] == excluded.mean(axis=0).min()


# --- the guard -------------------------------------------------------------------------------------------------------

COINS = hw.Problem(
    latent=hw.Discrete(["x", "y"]),
    arms={
        "steady": {"outcomes": [0, 1], "probabilities": [[0.5, 0.5], [0.4, 0.6]]},
        "odd": {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.8, 0.2]]},
        "other": {"outcomes": [0, 1], "probabilities": [[0.3, 0.7], [0.7, 0.3]]},
    },
)


def contradict(policy: Policy, rounds: int = 60) -> None:
    """Rewards of ``odd`` that no law of X explains."""
    policy.update(["odd"] * rounds, [1.0] * rounds)
    policy.update(["steady"] * 20, [0.0, 1.0] * 10)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_model_is_said_once_and_kept(name: str) -> None:
    policy = hw.make_policy(name, COINS)
    contradict(policy)
    assert policy.explain().doubted == ("odd",), "an explanation looks at what is known now"
    doubt = "the rewards contradict the model, whatever the law of X: it is wrong about odd; odd, which fits worst, is now"
    with pytest.warns(hw.ModelWarning, match=doubt) as said:
        policy.select()
    assert len(said) == 1 and said[0].filename == __file__
    assert policy.doubted == ["odd"]
    for _ in range(30):
        policy.update(policy.select(), 1.0)  # a second warning would be an error
    line = policy.explain().arms[1]
    assert "rewards contradict the model, which it fits worst, so only its own count: mean 1 over" in line.sentence
    assert policy.explain().to_dict()["doubted"] == ["odd"]
    state = json.loads(json.dumps(policy.state()))
    assert state["doubted"] == ["odd"]
    again = from_state(state, COINS)
    assert again.doubted == ["odd"] and again.select() == policy.select(), "said before: not again"
    fresh = hw.make_policy(name, COINS)
    fresh.merge(policy)
    assert fresh.doubted == ["odd"] and fresh.explain().doubted == ("odd",)
    with pytest.warns(hw.ModelWarning, match="odd"):
        fresh.select()
    assert not policy.latent().contradicted, "what odd paid is no evidence any more"


@pytest.mark.parametrize("name", NAMES)
def test_the_guard_speaks_while_rewards_are_pending(name: str) -> None:
    policy = hw.make_policy(name, COINS)
    for _ in range(100):
        policy.select()
    contradict(policy)
    assert policy.waiting > 0
    with pytest.warns(hw.ModelWarning, match="odd"):
        policy.select()
    assert policy.doubted == ["odd"]


@pytest.mark.parametrize("name", NAMES)
def test_a_warning_made_an_error_changes_nothing(name: str) -> None:
    policy = hw.make_policy(name, COINS)
    contradict(policy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(hw.ModelWarning):
            policy.select()
    assert policy.waiting == 0
    policy.select()
    assert policy.waiting == 1


@pytest.mark.parametrize("name", NAMES)
def test_two_arms_are_doubted_with_a_warning_each(name: str) -> None:
    policy = hw.make_policy(name, COINS)
    policy.update(["odd"] * 60 + ["steady"] * 200 + ["other"] * 20, [1.0] * 260 + [0.0, 1.0] * 10)
    with pytest.warns(hw.ModelWarning) as said:
        policy.select()
    assert sorted(policy.doubted) == ["odd", "steady"] and len(said) == 2


@pytest.mark.parametrize("name", NAMES)
def test_without_a_guard_nothing_is_doubted(name: str) -> None:
    policy = hw.make_policy(name, COINS, guard=0)
    contradict(policy, 500)
    policy.select()
    assert policy.doubted == [] and policy.explain().doubted == ()
    law = policy.latent()
    assert law.contradicted and str(law).startswith("No law of X fits these rewards: the model is wrong about some arm.")


def test_merging_unites_what_is_doubted() -> None:
    one, other = hw.make_policy("joint-ucb", COINS), hw.make_policy("joint-ucb", COINS)
    contradict(one)
    other.update(["steady"] * 200, [1.0] * 200)
    for policy, arm in ((one, "odd"), (other, "steady")):
        with pytest.warns(hw.ModelWarning, match=arm):
            policy.cancel(policy.select())
    one.merge(other)
    assert one.doubted == ["steady", "odd"]
    with pytest.warns(hw.ModelWarning, match="steady") as said:
        one.select()
    assert len(said) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_right_model_is_doubted_rarely(name: str) -> None:
    """At most ``rate`` of runs, at all times at once: 200 runs exceed this number with probability below 1e-6."""
    rate = 0.05
    problem = COINS.with_distribution(
        hw.Problem(latent=COINS.latent, arms={"a": [0, 1], "b": [0, 1]}, distribution=[0.3, 0.7]).distribution
    )
    laws = [channels_of(COINS).matrix(k)[1] @ [0.3, 0.7] for k in range(3)]
    spoken = 0
    for run in range(200):
        policy = Policy(make_spec(name, guard=rate), problem, seed=run)
        rng = np.random.default_rng(run)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hw.ModelWarning)
            for _ in range(60):
                k = problem.index(policy.select())
                policy.update(k, float(rng.random() < laws[k]))
        spoken += bool(policy.doubted)
    assert spoken <= binom.ppf(1 - 1e-6, 200, rate)
    assert 0 < GUARD < rate


def test_graves_lai_explores_as_much_as_the_bound_asks_for() -> None:
    """In case 3, 14 log t pulls of other arms are needed; half of that over 40 runs. Less is lucky, and lost elsewhere."""
    run = simulate(PAPER["discrete-3"], policies=[make_spec("graves-lai", audit=0)], horizon=20_000, replications=40, seed=3)
    pulls = run.outcomes["graves-lai (audit=0)"].pulls[:, -1].mean(axis=0)
    rates = hw.bounds(PAPER["discrete-3"]).exploration
    assert pulls[:2].sum() >= 0.5 * sum(rates.values()) * math.log(20_000)


def test_auto_is_an_audited_filter_where_the_support_is_too_large() -> None:
    small = hw.Problem(latent=hw.Discrete(range(60)), arms={"a": "x", "b": "59 - x"})
    assert hw.make_policy("auto", small, guard=0).spec == make_spec("joint-ucb", guard=0, audited="all-arms")
    large = hw.Problem(latent=hw.Discrete(range(6000)), arms={"a": "x", "b": "5999 - x"})
    policy = hw.make_policy("auto", large)
    assert policy.spec == make_spec("c-ts", audit=1.0) and policy.select() in ("a", "b")
    with pytest.raises(ProblemError, match=r"guard: not an option of c-ts; .* auto is c-ts here: the support is too large"):
        hw.make_policy("auto", large, guard=0)


# --- the audit -------------------------------------------------------------------------------------------------------


def against(model: hw.Problem, truth: hw.Problem, spec: Spec, *, horizon: int, replications: int) -> Counts:
    """A policy that believes in ``model`` where ``truth`` pays."""
    assert truth.distribution is not None
    atoms = atoms_of(truth, truth.distribution)
    assembled = make_model(atoms, scale=model_of(truth).reward_range, evidence=evidence_of(model))
    return simulate_counts(assembled, spec, checkpoints=np.array([horizon]), replications=replications, seed=1)


def coins(best: float) -> hw.Problem:
    def arm(p: float) -> dict[str, Any]:
        return {"outcomes": [0, 1], "probabilities": [[1 - p, p], [0.95 - p, p + 0.05]]}

    return hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"good": arm(0.5), "hidden": arm(best)}, distribution=[0.5, 0.5])


@pytest.mark.parametrize("guard", [0.0, GUARD])
def test_an_audit_finds_the_arm_that_the_model_excludes(guard: float) -> None:
    """The model says 0.1 where the arm pays 0.9: nobody pulls it, unless audited."""
    never = against(coins(0.1), coins(0.9), make_spec("joint-ucb", audit=0, guard=guard), horizon=3000, replications=20)
    assert (never.pulls[:, -1, 1] == 0).all()
    spec = make_spec("joint-ucb", audit=3, guard=guard, audited="all-arms")
    audited = against(coins(0.1), coins(0.9), spec, horizon=3000, replications=20)
    # without a guard the model keeps its opinion, and the arm its turns by audit alone
    assert (audited.pulls[:, -1, 1] > (2000 if guard else 1000)).all()


@pytest.mark.parametrize("name", NAMES[1:])
def test_an_audit_finds_it_under_other_policies_with_the_guard(name: str) -> None:
    never = against(coins(0.1), coins(0.9), make_spec(name, audit=0), horizon=2000, replications=10)
    found = against(coins(0.1), coins(0.9), make_spec(name, audit=3, audited="all-arms"), horizon=2000, replications=10)
    assert (never.pulls[:, -1, 1] == 0).mean() > 0.5 and (found.pulls[:, -1, 1] > 1000).all()


def excluding(lesser: Any, **options: Any) -> hw.Policy:
    """A policy that has seen "best" 60 times, past its first audit, where ``lesser`` was never pulled."""
    problem = hw.Problem(latent=hw.Discrete(["x", "y", "z"]), arms={"best": [2, 3, 9], "lesser": lesser, "other": [2, 2, 0]})
    policy = hw.make_policy(options.pop("name"), problem, audit=20, **options)
    policy.update(["best"] * 60, [2.0, 3.0] * 30)
    return policy


@pytest.mark.parametrize("name", NAMES)
def test_an_arm_that_is_never_best_by_the_model_is_audited_only_on_demand(name: str) -> None:
    """For every value of X "lesser" pays at most what "best" does: that is what the model says, not what was concluded."""
    assert excluding([2, 3, 8], name=name, audited="open-arms").select() == "best"
    assert excluding([2, 3, 8], name=name).select() == "lesser", "which is the default"
    assert excluding([2, 3.5, 8], name=name, audited="open-arms").select() == "lesser", "better than best at y: may be best"


@pytest.mark.parametrize("name", NAMES)
def test_once_the_model_is_contradicted_every_arm_is_audited(name: str) -> None:
    policy = excluding([2, 3, 8], name=name, audited="open-arms")
    policy.update(["best"] * 400, [2.0, 3.0] * 200)
    with pytest.warns(hw.ModelWarning, match="other"):
        policy.update(["other"] * 30, [0.0] * 30)  # at z alone, where best has never been
        arm = policy.select()
    assert (policy.doubted, arm) == (["other"], "lesser")


@pytest.mark.parametrize("name", ["joint-ucb", "latent-ts"])
def test_learned_channels_are_audited_whatever_they_say(name: str) -> None:
    def coin(p: float) -> dict[str, Any]:
        return {"outcomes": [0, 1], "probabilities": [[1 - p, p], [0.9 - p, 0.1 + p]], "observations": [10**6, 10**6]}

    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"best": coin(0.6), "lesser": coin(0.2)})
    for tolerance, arm in ((2.0, "lesser"), (0.0, "best")):
        policy = hw.make_policy(name, problem, audit=20, tolerance=tolerance, audited="open-arms")
        policy.update(["best"] * 60, [1.0, 1.0, 0.0] * 20)
        assert policy.select() == arm


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_never_keeps_the_best_arm_from_being_pulled(name: str) -> None:
    """Two arms of about equal means, audited in turn for ever, once kept case 3's best arm out in a fifth of all runs."""
    run = simulate(PAPER["discrete-3"], policies=[name], horizon=4000, replications=40, seed=1, checkpoints=[4000])
    worst = 4000 * np.sort(run.gaps)[1]
    assert (run.regret(name)[:, -1] < 0.5 * worst).all()


# --- what X is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb1", "c-ucb", "c-kl-ucb", "ts", *NAMES])
def test_what_x_is_from_any_policy(name: str) -> None:
    policy = hw.make_policy(name, DISCRETE)
    assert all((v.low, v.high) == (0, 1) for v in policy.latent().values)
    play(policy, 200, seed=3)
    law = policy.latent()
    assert [v.name for v in law.values] == POINTS and law.confidence == 0.95 and not law.contradicted
    assert sum(v.likeliest for v in law.values) == pytest.approx(1)
    assert all(0 <= v.low <= v.likeliest <= v.high <= 1 for v in law.values)
    assert str(law).startswith("The law of X (95 % confidence, each value by itself, at this moment):\n  x1: 0.")
    body = json.loads(json.dumps(law.to_dict(), allow_nan=False))
    more = {"holds", "kind", "fit", "heterogeneity", "notes"}
    assert set(body) == {"confidence", "values", "alike", "contradicted"} | more and set(body["values"]) == set(POINTS)
    wide = policy.latent(0.999)
    assert all(a.low <= b.low + 1e-6 and b.high <= a.high + 1e-6 for a, b in zip(wide.values, law.values, strict=True))
    explained = policy.explain()
    assert (explained.latent == law) if name in NAMES else (explained.latent is None)
    assert explained.to_dict()["latent"] == (body if name in NAMES else None)


def test_a_look_at_x_that_cannot_be_had() -> None:
    for bad in (0, 1, -0.5, math.nan, "0.95", None):
        with pytest.raises(ProblemError, match=r"confidence: got .*; expected a number between 0 and 1"):
            hw.make_policy("c-ucb", DISCRETE).latent(bad)  # type: ignore[arg-type]
    for name in ("c-ucb", "joint-ucb"):
        with pytest.raises(ProblemError, match="latent: got continuous X that is not listed; expected a list of values, each"):
            hw.make_policy(name, CONTINUOUS).latent()
    assert hw.make_policy("joint-ucb", CONTINUOUS).explain().latent is None
    vector = hw.Problem(latent=hw.Vector({f"x{i}": [0, 1] for i in range(24)}), arms={"a": "x0", "b": "x1 + x2"})
    with pytest.raises(ProblemError, match="latent: got vector X that is not listed"):
        hw.make_policy("c-ucb", vector).latent()


def test_an_explanation_shows_x_while_it_is_short() -> None:
    for points, shown in ((SHOWN, True), (SHOWN + 1, False)):
        problem = random_problem(1, 2, points, noisy=0)
        policy = hw.make_policy("joint-ucb", problem)
        assert (policy.explain().latent is not None) == shown
        assert len(policy.latent().values) == points
    with pytest.raises(SizeError, match="latent: got 301 values of X; expected at most 300"):
        hw.make_policy("c-ucb", random_problem(1, 2, 301, noisy=0)).latent()


# --- stored states ---------------------------------------------------------------------------------------------------


def tampered(name: str, problem: hw.Problem, change: dict[str, Any], message: str) -> None:
    policy = hw.make_policy(name, problem)
    play(policy, 30, seed=1)
    state = json.loads(json.dumps(policy.state()))
    with pytest.raises(ProblemError, match=message):
        from_state(state | change, problem)
    for target in (policy, hw.make_policy(name, problem)):
        before, next_ = learned(target), target.explain()
        with pytest.raises(ProblemError, match=message):
            target.merge(state | change)
        assert learned(target) == before and target.explain() == next_


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", ["a", ["zz"], [3], None, {"a": 1}, [["a"]]])
def test_broken_doubts_are_refused(name: str, bad: Any) -> None:
    tampered(name, DISCRETE, {"doubted": bad}, "state.doubted: got .*; expected a list of arms")


def test_an_arm_without_rewards_cannot_be_doubted() -> None:
    state = hw.make_policy("joint-ucb", DISCRETE).state() | {"doubted": ["b"]}
    with pytest.raises(ProblemError, match=r"state.doubted: got b; expected arms with rewards, which alone can be doubted"):
        from_state(state, DISCRETE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"particle": None}, "state.particle: got null; expected 5 numbers >= 0"),
        ({"particle": [0.5, 0.5]}, "state.particle: got .*; expected 5 numbers >= 0"),
        ({"particle": [0.5, 0.75, -0.25, 0, 0]}, "state.particle: got .*; expected 5 numbers >= 0"),
        ({"particle": [0.5, "x", 0.5, 0, 0]}, "state.particle: got .*; expected 5 numbers >= 0"),
        ({"particle": [math.nan] * 5}, "state.particle: got .*; expected 5 numbers >= 0"),
        ({"particle": [math.inf] * 5}, "state.particle: got .*; expected 5 numbers >= 0"),
        ({"particle": [0.5] * 5}, "state.particle: got numbers that sum to 2.5; expected 1"),
        ({"prepared": 3}, "state.prepared: got 3; expected 10 numbers >= 0"),
        ({"prepared": [1] * 3}, "state.prepared: got .*; expected 10 numbers >= 0"),
        ({"prepared": [10**9] * 10}, "state.prepared: got .*; expected whole numbers up to the counts"),
        ({"prepared": [0.5] * 10}, "state.prepared: got .*; expected whole numbers up to the counts"),
    ],
)
def test_broken_chains_are_refused(change: dict[str, Any], message: str) -> None:
    tampered("latent-ts", DISCRETE, change, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"planned": None}, "state.planned: got null; expected 5 numbers >= 0"),
        ({"planned": [0.5] * 5}, "state.planned: got numbers that sum to 2.5; expected 1"),
        ({"held": None}, "state.held: got null; expected a round and an arm"),
        ({"held": [3]}, "state.held: got .*; expected a round and an arm"),
        ({"held": ["x", "a"]}, "state.held: got .*; expected a round and an arm"),
        ({"held": [3, "zz"]}, "state.held: got .*; expected a round and an arm"),
        ({"held": [10**6, "a"]}, "state.held: got 1000000; expected a round soon after its 30 rewards"),
        ({"held": [math.nan, "a"]}, "state.held: got NaN; expected a round soon after its 30 rewards"),
    ],
)
def test_broken_plans_are_refused(change: dict[str, Any], message: str) -> None:
    tampered("graves-lai", DISCRETE, change, message)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda row: None, "state.bins.a: got null; expected 24 counts"),
        (lambda row: row[:-1], "state.bins.a: got .*; expected 24 counts"),
        (lambda row: [row[0] + 1, *row[1:]], r"state.bins.a: got \d+ rewards; expected its \d+ pulls"),
        (lambda row: [-1, *row[1:]], "state.bins: got -1; expected a whole number"),
        (lambda row: [0.5, *row[1:]], "state.bins: got 0.5; expected a whole number"),
    ],
)
def test_broken_bins_are_refused(edit: Any, message: str) -> None:
    policy = hw.make_policy("joint-ucb", CONTINUOUS)
    play(policy, 30, seed=1)
    bins = json.loads(json.dumps(policy.state()))["bins"]
    tampered("joint-ucb", CONTINUOUS, {"bins": bins | {"a": edit(bins["a"])}}, message)
    tampered("joint-ucb", CONTINUOUS, {"bins": None}, "state.bins.a: got null; expected 24 counts")


def test_bins_that_an_arm_never_pays_into_are_refused() -> None:
    policy = hw.make_policy("joint-ucb", CONTINUOUS)
    policy.update("d", 0.5)
    state = policy.state()
    state["bins"]["d"] = [0] * 23 + [1]
    with pytest.raises(ProblemError, match=r"state.bins.d: got .*; expected none in bins that the arm never pays into"):
        from_state(state, CONTINUOUS)


# --- odd problems ----------------------------------------------------------------------------------------------------

ODD = {
    "two arms": {"a": [0, 1], "b": [1, 0]},
    "one constant arm": {"a": [0, 1], "b": [0.5, 0.5]},
    "all constant": {"a": [1, 1], "b": [2, 2], "c": [0, 0]},
    "zero span": {"a": [1, 1], "b": [1, 1]},
    "identical arms": {"a": [0, 1], "b": [0, 1], "c": [0, 1]},
    "huge rewards": {"a": [0, 1e9], "b": [1e9, 5e8]},
    "tiny rewards": {"a": [0, 1e-9], "b": [1e-9, 5e-10]},
    "negative rewards": {"a": [-5, -1], "b": [-1, -2]},
}


def sound(policy: Policy) -> None:
    """Finite numbers all the way, and an explanation that can be stored."""
    explained = policy.explain()
    assert all(line.index is not None and math.isfinite(line.index) for line in explained.arms)
    json.dumps(explained.to_dict(), allow_nan=False)
    json.dumps(policy.state(), allow_nan=False)
    assert str(explained)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arms", ODD.values(), ids=ODD)
def test_odd_problems(name: str, arms: dict[str, Any]) -> None:
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms=arms, distribution=[0.3, 0.7])
    for horizon in (1, 300):
        run = simulate(problem, policies=[name], horizon=horizon, replications=4)
        assert np.isfinite(run.regret(name)).all() and (run.outcomes[name].pulls[:, -1].sum(axis=1) == horizon).all()
    policy = hw.make_policy(name, problem)
    sound(policy)
    play(policy, 50, seed=0)
    sound(policy)
    policy.select()
    sound(policy)


@pytest.mark.parametrize("name", NAMES)
def test_one_atom(name: str) -> None:
    problem = hw.Problem(latent=hw.Discrete(["x"]), arms={"a": [1], "b": [2]}, distribution=[1.0])
    policy = hw.make_policy(name, problem)
    play(policy, 40, seed=0)
    sound(policy)
    assert policy.latent().values[0].likeliest == 1 and policy.pulls["b"] > 30
    run = simulate(problem, policies=[name], horizon=100, replications=3)
    assert (run.outcomes[name].pulls[:, -1, 1] > 80).all()


def test_a_continuum_of_constants() -> None:
    problem = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "0.5", "b": "0.25"}, distribution={"name": "uniform"})
    policy = hw.make_policy("joint-ucb", problem)
    policy.update(["a", "b"] * 10, [0.5, 0.25] * 10)
    sound(policy)
    assert policy.select() == "a"
    assert np.isfinite(simulate(problem, policies=["joint-ucb"], horizon=50, replications=2).regret("joint-ucb")).all()


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 7), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(NAMES)
)
def test_small_random_problems(seed: int, count: int, points: int, noisy: float, name: str) -> None:
    """Paid by the model or by nobody it knows, with guard and audit on: a valid arm, finite numbers, no hang."""
    problem = random_problem(seed, count, points, noisy=noisy)
    options: dict[str, Any] = {"guard": 0.05, "audit": 0.5}
    policy = hw.make_policy(name, problem, seed=seed, **options)
    rng = np.random.default_rng(seed)
    channels = channels_of(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hw.ModelWarning)
        for t in range(60):
            arm = policy.select()
            assert arm in problem.names
            k = problem.index(arm)
            j = int(rng.integers(points))
            law: Floats = (
                channels.matrix(k)[:, j] if seed % 2 else np.full(len(channels.values[k]), 1 / len(channels.values[k]))
            )
            if t % 7:
                policy.update(arm, float(rng.choice(channels.values[k], p=law / law.sum())))
            if t % 20 == 19:
                sound(policy)
    assert policy.rounds == 60 - 9
    again = from_state(json.loads(json.dumps(policy.state())), problem)
    assert again.explain() == policy.explain()
