"""Many arms and large supports: nothing of size K × K or K × M × K is built, and everything else is as it was."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater import native
from headwater.arrays import Floats
from headwater.policies import Policy, from_state, make_spec, parse_spec, table
from headwater.policies.many import Many
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.finite import FiniteModel, distinct
from headwater.simulation import engine, simulate
from headwater.simulation.atoms import atoms_of
from oracle import drawn_atoms


def rewards(arms: int, points: int, *, decimals: int = 1, seed: int = 0) -> Floats:
    out: Floats = np.random.default_rng(seed).normal(size=(arms, points)).round(decimals)
    return out


def problem_of(g: Floats, **options: object) -> Problem:
    latent = hw.Discrete(np.arange(float(g.shape[1])))
    return hw.Problem(latent=latent, arms={f"arm {k}": row for k, row in enumerate(g)}, **options)  # type: ignore[arg-type]


# --- one table of rewards --------------------------------------------------------------------------------------------


def test_tables_are_the_rows_of_one_matrix() -> None:
    problem = problem_of(rewards(3, 4))
    assert all(np.shares_memory(problem.rewards, arm.rewards) for arm in problem.arms.values())  # type: ignore[union-attr]
    assert not problem.rewards.flags.writeable
    again = problem.with_distribution([0.25] * 4)
    assert np.shares_memory(problem.rewards, again.rewards), "the same arms under another distribution take no memory"


def test_rows_that_can_change_are_copied() -> None:
    g = rewards(3, 4)
    problem, before = problem_of(g), g.copy()
    g[:] = 7.0
    np.testing.assert_array_equal(problem.rewards, before)
    window = g[:]
    window.setflags(write=False)
    assert not np.shares_memory(problem_of(window).rewards, g), "its owner can still change"


def test_rows_that_cannot_change_are_not_copied() -> None:
    g = rewards(3, 4)
    g.setflags(write=False)
    assert np.shares_memory(problem_of(g).rewards, g)
    np.testing.assert_array_equal(problem_of(g).rewards, g)
    mixed = hw.Problem(latent=hw.Discrete(list("abcd")), arms={"b": g[1], "a": g[0], "c": [1, 2, 3, 4]})
    np.testing.assert_array_equal(mixed.rewards, [g[1], g[0], [1, 2, 3, 4]])


def test_bad_rows_that_cannot_change_are_refused() -> None:
    g = rewards(3, 4)
    g[1, 2] = np.nan
    g.setflags(write=False)
    with pytest.raises(hw.ProblemError, match=r"arms\.arm 1\[2\]: got NaN; expected a finite number"):
        problem_of(g)
    with pytest.raises(hw.ProblemError, match=r"arms\.arm 0: .*expected 5 rewards, one per latent value, not 4"):
        hw.Problem(latent=hw.Discrete(list("abcde")), arms={f"arm {k}": row for k, row in enumerate(g)})


def test_arrays_and_lists_make_the_same_problem() -> None:
    g = np.array([[1.0, -0.0, 0.1 + 0.2, 1e300], [2.5, 2.5, -3.0, 1e15]])
    assert problem_of(g).digest == problem_of(np.array(g.tolist())).digest
    lists = hw.Problem(latent=hw.Discrete([0, 1, 2, 3]), arms={f"arm {k}": row for k, row in enumerate(g.tolist())})
    assert problem_of(g) == lists
    body = json.dumps({"latent": {"kind": "discrete", "values": [0, 1, 2, 3]}, "arms": problem_of(g).to_dict()["arms"]})

    assert problem_of(g).digest == hashlib.sha256(body.encode()).hexdigest()


def test_a_huge_table_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.problem.MAX_WRITTEN", 11)
    with pytest.raises(hw.SizeError, match=r"a problem of 12 listed rewards cannot be written down .*; at most 11 are"):
        problem_of(rewards(3, 4)).to_toml()


# --- pseudo-rewards and analysis -------------------------------------------------------------------------------------


def test_rows_too_large_to_keep_are_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, large = problem_of(rewards(8, 30)), problem_of(rewards(8, 30))
    expected = [FiniteModel(problem).row(k) for k in range(8)]
    monkeypatch.setattr("headwater.pseudo.finite.KEPT_BYTES", 0)
    model = model_of(large)
    assert isinstance(model, FiniteModel)
    monkeypatch.setattr(model, "row", None)
    for k, row in enumerate(expected):
        np.testing.assert_array_equal(model.pseudo(k, model.values(k)), row)
        np.testing.assert_array_equal(distinct(large.rewards[k]), model.values(k))


def test_a_programme_too_large_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """b is below the mean of a and c, which only a programme tells; d is below a."""
    g = np.array([[4.0, 0.0], [1.5, 1.5], [0.0, 4.0], [3.0, -1.0]])
    assert set(hw.analyze(problem_of(g)).dominance.never) == {1, 3}  # type: ignore[union-attr]
    monkeypatch.setattr("headwater.dominance.MAX_PROGRAMME", 7)
    found = hw.analyze(problem_of(g)).dominance
    assert found is not None and set(found.never) == {3} and found.undecided == [1]


# --- rows of sums only for arms that lead ----------------------------------------------------------------------------

POLICIES = (
    *("ucb1", "c-ucb", "kl-ucb", "c-kl-ucb", "ts", "c-ts", "ts:posterior=beta", "c-ts:posterior=beta", "c-ucb:audit=1"),
    *("ts:sd=estimated", "c-ts:sd=estimated"),
)


def limit(patch: pytest.MonkeyPatch, **limits: Any) -> None:
    """No table of all pairs, however few; and so much that is kept."""
    patch.setattr(table, "MAX_CELLS", 0)
    patch.setattr(native, "Columns", partial(native.Columns, **limits))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for so little that everything is thrown away and made again."""
    limit(monkeypatch, rows=2, kept=0, least=-3)


def random_problem(rng: np.random.Generator, kind: str) -> tuple[Floats, Floats]:
    """Rewards and probabilities. "equal" arms share values that are no multiples of a unit; "near" ones but for rounding."""
    arms, points = int(rng.integers(2, 60)), int(rng.integers(2, 25))
    g = rng.normal(size=(arms, points))
    if kind == "coarse":
        g = rng.integers(-2, 4, (arms, points)) / 10
    elif kind == "decimal":
        g = g.round(2)
    elif kind in ("equal", "near"):
        g = rng.choice(g[:, 0], (arms, points))
        g[-1] = g[0]
        g *= 1 + rng.integers(-2, 3, (arms, points)) * 1e-14 if kind == "near" else 1
    return g, rng.dirichlet(np.full(points, 0.5))


def laid_out(g: Floats, p: Floats, scale: float) -> engine.Model:
    problem = problem_of(g, distribution=p)
    assert problem.distribution is not None
    return engine.make_model(atoms_of(problem, problem.distribution), scale=scale)


def actions(model: engine.Model, name: str, horizon: int, **options: Any) -> engine.Counts:
    rounds = np.arange(1, horizon + 1)
    return engine.simulate_counts(model, parse_spec(name), checkpoints=rounds, seed=7, **{"replications": 2} | options)


@pytest.mark.parametrize("kind", ["coarse", "decimal", "continuous", "equal", "near"])
def test_every_action_is_that_of_the_full_table(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All policies on random problems; rewards, too, bit for bit."""
    rng = np.random.default_rng(list(kind.encode()))
    for case in range(15):
        g, p = random_problem(rng, kind)
        scale = float(rng.uniform(0.1, 2.0))
        full = laid_out(g, p, scale)
        with monkeypatch.context() as patch:
            room = {"rows": [1, 2, 128][case % 3], "kept": [0, 2**24][case % 2]}
            limit(patch, **room, least=[-12, 0, 8][case % 3], debts=[1, 4096][case % 2])
            few = laid_out(g, p, scale)
            assert few.columns is not None and full.columns is None and few.unit == full.unit
            assert bool(few.columns.less.size) == (kind in ("continuous", "equal", "near"))
            for name in POLICIES:
                one, other = actions(full, name, 400), actions(few, name, 400)
                np.testing.assert_array_equal(one.pulls, other.pulls, err_msg=f"{name} in case {case}")
                np.testing.assert_array_equal(one.reward, other.reward)
                assert (other.excluded == -1).all(), "rounds of exclusion are not counted"
            best = [engine.oracle_rewards(m, 1, checkpoints=np.array([50]), replications=2, seed=1) for m in (full, few)]
            np.testing.assert_array_equal(best[0], best[1])


@pytest.mark.parametrize("least", [-30, 8])
def test_every_action_among_hundreds_of_arms(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that a few candidates are looked at, and the others are owed what the leader's rewards say of them."""
    g, p = rewards(400, 30, decimals=12, seed=8), np.random.default_rng(8).dirichlet(np.full(30, 0.5))
    full = laid_out(g, p, 0.5)
    limit(monkeypatch, least=least)
    few = laid_out(g, p, 0.5)
    assert few.columns is not None and full.columns is None
    for name in ("ucb1", "c-ucb", "kl-ucb", "c-kl-ucb"):
        one, other = actions(full, name, 3000), actions(few, name, 3000)
        np.testing.assert_array_equal(one.pulls, other.pulls, err_msg=name)


@pytest.mark.usefixtures("small")
def test_threads_and_blocks_change_nothing() -> None:
    model = laid_out(rewards(40, 30), np.full(30, 1 / 30), 1.0)
    for name in POLICIES:
        one = actions(model, name, 300, replications=6, threads=1)
        other = actions(model, name, 300, replications=6, threads=3, block=2)
        np.testing.assert_array_equal(one.pulls, other.pulls)
        last = actions(model, name, 300, replications=1, first=5)
        np.testing.assert_array_equal(one.pulls[5:], last.pulls)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("decimals", [1, 12])
def test_the_live_object_makes_the_engines_choices(name: str, decimals: int) -> None:
    g, p = rewards(9, 20, decimals=decimals), np.full(20, 1 / 20)
    problem = problem_of(g, distribution=p)
    model = laid_out(g, p, model_of(problem).reward_range)
    spec = parse_spec(name)
    taken = np.diff(actions(model, name, 150, replications=1).pulls[0], axis=0, prepend=0).argmax(axis=1)
    policy = Policy(spec, problem, seed=7)
    for t, j in enumerate(drawn_atoms(p, 7, 0, 150)):
        arm = policy.select()
        assert arm == f"arm {taken[t]}", f"round {t + 1}"
        policy.update(arm, float(g[taken[t], j]))


@pytest.mark.parametrize("kind", ["coarse", "continuous", "equal", "near"])
def test_the_atom_that_stands_for_a_reward(kind: str) -> None:
    """Found quickly where the reward is exact and the least of its level, else from the levels: the same one."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        g, _ = random_problem(rng, kind)
        model = FiniteModel(problem_of(g))
        many = Many(table.make_columns(model.g, table.units_of(model)), model)
        for k, j in np.ndindex(g.shape):
            level = model.levels(k)
            atom, least = many.atom(k, float(g[k, j])), level.value[level.level[j]]
            assert level.level[atom] == level.level[j] and g[k, atom] == least
            assert many.exact(k, float(g[k, j])) == (atom if g[k, j] == least else None)
        assert many.exact(0, 99.0) is None


def test_a_level_of_very_many_rewards() -> None:
    """Each within rounding of the next, the last 290 units above the first, which is what they count as: more than a byte."""
    g = np.array([np.arange(300_000) * 0.9e-12, np.zeros(300_000)])
    g[0, -1] = 1.0
    columns = table.make_columns(g, table.Units(2.0**-30, False))
    np.testing.assert_array_equal(columns.up[:, 0] - columns.less[0].astype(int), [0] * 299_999 + [2**30])
    assert columns.less.max() == 290


def twins(name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Policy, Policy]:
    """A policy with the table of all pairs, and one without; both after the same rewards."""
    g = rewards(6, 15, seed=3)
    dense = Policy(parse_spec(name), problem_of(g), **options)
    monkeypatch.setattr(table, "MAX_CELLS", 0)
    sparse = Policy(parse_spec(name), problem_of(g), **options)
    assert sparse.many is not None and dense.many is None
    rng = np.random.default_rng(5)
    for j in rng.integers(0, 15, 60):
        arm = dense.select()
        assert sparse.select() == arm
        for policy in (dense, sparse):
            policy.update(arm, float(g[policy.problem.index(arm), j]))
    return dense, sparse


@pytest.mark.parametrize("name", POLICIES)
def test_states_and_explanations_are_those_of_the_full_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dense, sparse = twins(name, monkeypatch)
    assert sparse.explain() == dense.explain()
    assert sparse.competitive() == dense.competitive()
    dense.select(), sparse.select()  # one pending
    assert sparse.explain() == dense.explain()
    assert json.dumps(sparse.state()) == json.dumps(dense.state())
    again = from_state(json.loads(json.dumps(sparse.state())), sparse.problem)
    assert again.state() == sparse.state() and again.explain() == sparse.explain()
    again.merge(sparse)
    dense.merge(dense.state())
    assert again.state() == dense.state() and again.explain() == dense.explain()


def test_pending_pulls_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    dense, sparse = twins("c-ucb", monkeypatch)
    for _ in range(20):
        assert dense.select() == sparse.select()
    sparse.update(["arm 1", "arm 1"], [float(sparse.problem.rewards[1, 0])] * 2)
    dense.update(["arm 1", "arm 1"], [float(sparse.problem.rewards[1, 0])] * 2)
    assert dense.select() == sparse.select()


@pytest.mark.usefixtures("small")
def test_bad_rewards_and_states_are_refused() -> None:
    policy = hw.make_policy("c-ucb", problem_of(rewards(6, 15)))
    with pytest.raises(hw.RewardError, match="reward: got 99; arm arm 0 can pay"):
        policy.update("arm 0", 99)
    policy.update("arm 0", float(policy.problem.rewards[0, 0]))
    state = policy.state()
    for key, value, message in [
        ("counts", {}, "state.counts: got {}; expected a list for each arm"),
        ("counts", state["counts"] | {"arm 2": [3]}, "state.counts.arm 2: got .*; expected pairs of a reward and a count"),
        ("successes", state["successes"] | {"arm 2": 1}, "state.successes.arm 2: got 1; expected at most its 0 pulls"),
    ]:
        with pytest.raises(hw.ProblemError, match=message):
            from_state(state | {key: value}, policy.problem)


def test_an_explanation_shows_some_of_many_arms() -> None:
    policy = hw.make_policy("ucb1", problem_of(rewards(50, 4)))
    policy.update("arm 47", float(policy.problem.rewards[47, 0]))
    text = str(policy.explain())
    assert len(text.splitlines()) == 1 + 40 + 1 and "arm 47: in the running" in text and "arm 0: chosen next" in text
    assert text.endswith("… 10 more arms; to_dict() has them all.")
    assert len(policy.explain().to_dict()["arms"]) == 50


# --- what stays impossible -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["c-ucb:reference=well-pulled", "kl-ucb:form=empirical", "joint-ucb"])
def test_policies_that_need_all_pairs_are_refused(name: str) -> None:
    problem = problem_of(rewards(6, 15), distribution=np.full(15, 1 / 15))
    message = r"policy: got .*, which needs a table of all pairs of 6 arms; use ucb1, kl-ucb, ts, c-ucb, c-kl-ucb or c-ts"
    with pytest.raises(hw.SizeError, match=message):
        Policy(parse_spec(name), problem)
    with pytest.raises(hw.SizeError, match=message):
        simulate(problem, policies=[parse_spec(name)], horizon=5, replications=1)
    with pytest.raises(hw.SizeError, match="latent: 6 arms are too many to infer the law of X from; leave some out"):
        hw.make_policy("ucb1", problem).latent()


@pytest.mark.usefixtures("small")
def test_engines_that_need_all_pairs_are_refused() -> None:
    problem = problem_of(rewards(6, 15), distribution=np.full(15, 1 / 15))
    with pytest.raises(hw.ProblemError, match="engine: leap cannot do this: arms: got 6 with so many rewards; expected few"):
        simulate(problem, policies=["ucb1"], horizon=5, replications=1, engine="leap")
    run = simulate(problem, policies=["ucb1"], horizon=50, replications=3, seed=1)
    assert run.engine == "step" and run.to_dict()["policies"]["ucb1"]["excluded_share"] is None
    model = laid_out(problem.rewards, np.full(15, 1 / 15), 1.0)
    with pytest.raises(hw.ProblemError, match=r"horizon: got 1,073,741,824; expected at most 1,073,741,824 for sums to stay"):
        actions_at = np.array([2**30])
        engine.simulate_counts(model, make_spec("ucb1"), checkpoints=actions_at, replications=1, seed=0)


@pytest.mark.usefixtures("small")
def test_the_gpu_needs_all_pairs_at_each_point() -> None:
    from headwater.simulation.cuda import cuda_reason

    model = laid_out(rewards(6, 15), np.full(15, 1 / 15), 1.0)
    assert cuda_reason(model, make_spec("ucb1")) == (
        "arms: got 6 on 15 points; expected at most 268,435,456 pairs of them at each point"
    )


def test_tables_of_random_rewards_are_still_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_CELLS", 0)
    coin = {"outcomes": [0, 1], "probabilities": [[0.5, 0.5], [0.25, 0.75]]}
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": coin, "b": [0, 1]})
    with pytest.raises(
        hw.SizeError, match="2 arms with up to 2 different rewards need a table of 8 entries; at most 0 are kept"
    ):
        hw.make_policy("ucb1", problem)


def test_all_pairs_are_not_analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.analysis.MAX_FULL", 2)
    problem = problem_of(rewards(3, 4), distribution=[0.25] * 4)
    assert hw.analyze(problem).best is not None
    with pytest.raises(hw.SizeError, match="full: got 3 arms, which make 9 expected pseudo-rewards; expected at most 2 arms"):
        hw.analyze(problem, full=True)


def test_results_too_large_for_memory_are_refused() -> None:
    problem = problem_of(rewards(3, 4), distribution=[0.25] * 4)
    message = "replications: got 1,000,000,000 of 1 policies with 3 arms at 2 checkpoints, which are 6,000,000,000 numbers"
    with pytest.raises(hw.SizeError, match=message):
        simulate(problem, policies=["ucb1"], horizon=10, replications=10**9, checkpoints=[1, 10])


# --- memory ----------------------------------------------------------------------------------------------------------

LARGE = """
import resource
import numpy as np
import headwater as hw

def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

g = np.random.default_rng(0).normal(size=(2000, 2000)).round(2)
g.setflags(write=False)
before = peak()
problem = hw.Problem(latent=hw.Discrete(np.arange(2000.0)), arms={f"arm {k}": row for k, row in enumerate(g)},
                     distribution=np.full(2000, 1 / 2000))
policies = ["ucb1", "c-ucb", "kl-ucb", "c-kl-ucb", "ts", "c-ts"]
run = hw.simulate(problem, policies=policies, horizon=3000, replications=2, seed=1, checkpoints=[3000])
live = hw.make_policy("c-ucb", problem)
for j in range(100):
    arm = live.select()
    live.update(arm, g[problem.index(arm), j])
again = hw.policies.from_state(live.state(), problem)
assert again.select() == live.select()
assert len(live.explain().arms) == 2000
print(before, peak())
"""


def test_thousands_of_arms_take_little_memory() -> None:
    """32 MB of rewards, of which all pairs of arms would make 12 GB. Measured: 14 MiB beyond what making them took."""
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split())
    assert after - before < 200, f"{before:.0f} MiB, then {after:.0f}"
