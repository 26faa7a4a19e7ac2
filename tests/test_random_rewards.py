"""Random rewards through every policy: the contract, linear programmes as oracle, the laws of what is simulated; and audits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats
from typer.testing import CliRunner

import headwater as hw
from headwater import native, streams
from headwater.cli import app
from headwater.errors import ProblemError, RewardError
from headwater.files import parse_problem
from headwater.policies import Policy, Spec, from_state, make_spec, parse_spec
from headwater.policies.core import settings_of
from headwater.policies.table import choose_units, random_rewards, table_of
from headwater.pseudo.channels import channels_of
from headwater.simulation import engine
from headwater.simulation.atoms import atoms_of
from oracle import bernoulli_index, drawn_atoms, uniform
from test_policies import SPECS, beta, filtered, learned

Array = NDArray[np.float64]
POINTS = ["x1", "x2", "x3"]
COIN = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]}
DIE = {"outcomes": [3, 0, 1], "probabilities": [[0.1, 0.5, 0.4], [0.5, 0.2, 0.3], [0.2, 0.6, 0.2]]}
MIXED = hw.Problem(
    latent=hw.Discrete(POINTS),
    arms={"sure": [1, 1.2, 0.5], "die": DIE, "coin": COIN},
    distribution=[0.2, 0.5, 0.3],
    name="mixed",
)
NOISY = hw.Problem(latent=hw.Discrete(POINTS), arms={"coin": COIN, "die": DIE}, distribution=[0.3, 0.3, 0.4])
MINUS = hw.Problem(
    latent=hw.Discrete(POINTS[:2]),
    arms={
        "p": {"outcomes": [-1.5, 0.25], "probabilities": [[0.7, 0.3], [1 / 3, 2 / 3]]},
        "q": {"outcomes": [-1, -2, 1], "probabilities": [[0.2, 0.7, 0.1], [0.25, 0.5, 0.25]]},
    },
    distribution=[0.5, 0.5],
)
PROBLEMS = {"mixed": MIXED, "noisy": NOISY, "minus": MINUS}
over_problems = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
over_specs = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.title)


def pays(problem: hw.Problem, arm: str, rng: np.random.Generator) -> float:
    """A reward of an arm, by numpy's generator."""
    channels, k = channels_of(problem), problem.index(arm)
    p = np.array(problem.distribution.p)  # type: ignore[union-attr]
    law = channels.matrix(k)[:, rng.choice(len(p), p=p)]
    return float(channels.values[k][rng.choice(len(law), p=law)])


def play(policy: Policy, rounds: int, seed: int) -> list[str]:
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        chosen.append(policy.select())
        policy.update(chosen[-1], pays(policy.problem, chosen[-1], rng))
    return chosen


def alike(one: Policy, other: Policy) -> None:
    """The same to the last bit, wherever their linear programmes were started from."""
    assert one.explain() == other.explain()
    assert one.competitive() == other.competitive()


# --- the contract ----------------------------------------------------------------------------------------------------


@over_problems
@over_specs
class TestContract:
    def test_a_restored_policy_continues(self, spec: Spec, problem: hw.Problem) -> None:
        policy = Policy(spec, problem, seed=5, replication=7, reward_range=2.5)
        play(policy, 40, seed=1)
        waiting = [policy.select() for _ in range(3)]
        again = from_state(json.loads(json.dumps(policy.state(), allow_nan=False)), problem)
        assert learned(again) == learned(policy)
        alike(again, policy)
        rng = np.random.default_rng(3)
        for arm in waiting:
            reward = pays(problem, arm, rng)
            policy.update(arm, reward)
            again.update(arm, reward)
        assert play(policy, 60, seed=2) == play(again, 60, seed=2)
        assert learned(again) == learned(policy)

    def test_replicas_merge_and_late_rewards_count_the_same(self, spec: Spec, problem: hw.Problem) -> None:
        one, other, whole, late = (Policy(spec, problem, seed=3) for _ in range(4))
        rng, events = np.random.default_rng(8), []
        for i in range(60):
            arm = problem.names[int(rng.integers(len(problem.names)))]
            events.append((arm, pays(problem, arm, rng)))
            for policy in (whole, one if i % 3 else other):
                policy.update(*events[-1])
                if i % 7 == 0:
                    policy.explain()
        one.merge(other)
        for i in rng.permutation(60):
            late.update(*events[i])
        for policy in (one, late):
            assert learned(policy, coins=False) == learned(whole, coins=False)
            assert policy.competitive() == whole.competitive()
            if not beta(spec):
                alike(policy, whole)

    def test_explanations_agree_with_decisions(self, spec: Spec, problem: hw.Problem) -> None:
        policy, rng = Policy(spec, problem, seed=12), np.random.default_rng(7)
        for t in range(50):
            explained, competitive = policy.explain(), policy.competitive()
            assert explained == policy.explain(), "explaining changes nothing"
            assert explained.rounds == t
            json.dumps(explained.to_dict(), allow_nan=False)
            for line in explained.arms:
                assert (line.excluded_by is None) == (line.name in competitive)
                if line.excluded_by is not None:
                    assert not line.chosen and line.sentence.startswith("excluded: ") and filtered(spec)
            arm = policy.select()
            assert arm == explained.chosen
            policy.update(arm, pays(problem, arm, rng))

    def test_pending_pulls_leave_what_was_learned_alone(self, spec: Spec, problem: hw.Problem) -> None:
        policy = Policy(spec, problem)
        play(policy, 25, seed=6)
        before, competitive = learned(policy), policy.competitive()
        for _ in range(10):
            explained = policy.explain()
            assert explained.chosen == policy.select()
            assert policy.competitive() == competitive
        assert {**learned(policy), "pending": before["pending"]} == before
        with pytest.raises(RewardError, match=f"reward: got 0.75; arm {problem.names[-1]} can pay"):
            policy.update(problem.names[-1], 0.75)
        assert {**learned(policy), "pending": before["pending"]} == before


def test_a_mean_is_what_coarse_units_make_it() -> None:
    """Units are halved, and a power of two changes no bit of a mean."""
    units = choose_units(np.array([0.1, 0.3]))
    finer = units.finer(0.3)
    for paid in ([0.1], [0.3, 0.1, 0.1], [0.3] * 7):
        coarse, fine = (sum(u.rewards(np.array(paid)).tolist()) * u.unit / len(paid) for u in (units, finer))
        assert coarse == fine
    assert finer.exact and 2**30 <= 0.3 / finer.unit < 2**31
    np.testing.assert_array_equal(finer.excesses(np.array([0.3]), np.array([0.1])), finer.rewards(np.array([0.3])) * 2 // 3)


def test_one_point_leaves_nothing_to_learn() -> None:
    """With one latent value all means are known: only the best arm is ever pulled, whatever it pays."""
    arms = {
        "poor": {"outcomes": [0, 1], "probabilities": [[0.6, 0.4]]},
        "good": {"outcomes": [0, 1], "probabilities": [[0.4, 0.6]]},
    }
    problem = hw.Problem(latent=hw.Discrete(["x"]), arms=arms)
    policy = hw.make_policy("c-ucb", problem)
    assert policy.select() == "poor"
    policy.update("poor", 1)
    assert policy.select() == "good"
    policy.update(["good"] * 5, [0] * 5)
    assert policy.competitive() == ["good"]
    line = policy.explain().arms[0]
    assert line.pseudo_reward == pytest.approx(0.4, abs=1e-6)
    assert "which is less than the likeliest mean 0.6 of good." in line.sentence


# --- linear programmes, step by step ---------------------------------------------------------------------------------


class Judge:
    """What arm k's rewards say of the others, by HiGHS and a general solver."""

    def __init__(self, problem: hw.Problem) -> None:
        self.channels = channels_of(problem)
        self.known: dict[Any, Any] = {}

    def verdict(self, k: int, seen: list[int]) -> tuple[float, Array]:
        """The mean of arm k's likeliest law, and phi (K,). Two rewards, or any number explained exactly."""
        key = (k, tuple(seen))
        if key not in self.known:
            a, v = self.channels.matrix(k), self.channels.values[k]
            f = np.array(seen) / sum(seen)
            if self.most(a, f, v @ a) is None:
                f = self.likeliest(a, np.array(seen))
            phi = [self.most(a, f, g) for g in self.channels.g]
            self.known[key] = float(v @ f), np.array([np.nan if x is None else x for x in phi])
        return self.known[key]  # type: ignore[no-any-return]

    @staticmethod
    def most(a: Array, f: Array, c: Array) -> float | None:
        found: Any = optimize.linprog(-c, A_eq=a, b_eq=f, method="highs")
        return -float(found.fun) if found.status == 0 else None

    @staticmethod
    def likeliest(a: Array, seen: NDArray[np.int64]) -> Array:
        if len(a) == 2:
            share = np.clip(seen[0] / seen.sum(), a[0].min(), a[0].max())
            return np.array([share, 1 - share])
        p = np.full(a.shape[1], 1 / a.shape[1])
        for _ in range(4000):
            p = p * (a.T @ (seen / np.maximum(a @ p, 1e-300))) / seen.sum()
        return np.asarray(a @ p)


def expected(judge: Judge, policy: Policy, slack: float) -> tuple[set[int], set[int]]:
    """The arms that are certainly in the running and certainly excluded, by the paper's two filters."""
    n = policy.known.pulls
    count, total = len(n), int(n.sum())
    if policy.spec.reference == "most-pulled":
        references = [int(np.argmax(n))]
    else:
        references = [k for k in range(count) if n[k] * count >= total]
    found = {k: judge.verdict(k, policy.seen[k][: len(judge.channels.values[k])].tolist()) for k in references}
    best = max(references, key=lambda k: (found[k][0], -k))
    stay, out = set(range(count)), set()
    for ell in range(count):
        phis = [found[k][1][ell] for k in references if k != ell]
        gap = min(phis, default=np.inf) - found[best][0]
        if ell != best and not gap > slack:
            stay.discard(ell)
        if ell != best and gap < -slack:
            out.add(ell)
    return stay, out


@pytest.mark.parametrize("reference", ["most-pulled", "well-pulled"])
@pytest.mark.parametrize("name", ["c-ucb", "c-kl-ucb", "c-ts"])
@over_problems
def test_the_filter_by_linear_programmes(name: str, reference: Any, problem: hw.Problem) -> None:
    judge, policy, rng = Judge(problem), hw.make_policy(name, problem, reference=reference), np.random.default_rng(4)
    for t in range(24):
        # half of the rewards of arms that nobody asked for, so that every arm becomes the reference
        arm = policy.select() if t % 2 else problem.names[int(rng.integers(len(problem.names)))]
        policy.update(arm, pays(problem, arm, rng))
        stay, out = expected(judge, policy, slack=2e-3)
        kept = {problem.index(name) for name in policy.competitive()}
        assert stay <= kept and not kept & out


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 4))
def test_the_filter_on_random_coins(seed: int, arms: int, points: int) -> None:
    """Two rewards each, so that the likeliest law has a closed form and the slack can be small."""
    rng = np.random.default_rng(seed)
    low = rng.integers(1, 10, (arms, points)) / 10
    body = {f"a{k}": {"outcomes": [0, k + 1], "probabilities": np.stack([row, 1 - row], 1)} for k, row in enumerate(low)}
    problem = hw.Problem(
        latent=hw.Discrete([f"x{j}" for j in range(points)]), arms=body, distribution=np.full(points, 1 / points)
    )
    judge, policy = Judge(problem), hw.make_policy("c-ucb", problem)
    for _ in range(25):
        arm = policy.select()
        policy.update(arm, pays(problem, arm, rng))
        stay, out = expected(judge, policy, slack=1e-5)
        kept = {problem.index(name) for name in policy.competitive()}
        assert stay <= kept and not kept & out


def forced(table: list[list[float]], weights: Any) -> tuple[hw.Problem, hw.Problem]:
    """A deterministic problem, and the same with channels of 0 and 1 that go through linear programmes all the same."""
    points = hw.Discrete([f"x{j}" for j in range(len(table[0]))])
    plain = hw.Problem(latent=points, arms={f"a{k}": row for k, row in enumerate(table)}, distribution=weights)
    arms = {}
    for k, row in enumerate(table):
        values = sorted(set(row))
        arms[f"a{k}"] = {"outcomes": values, "probabilities": [[float(x == v) for v in values] for x in row]}
    noisy = hw.Problem(latent=points, arms=arms, distribution=weights)
    assert table_of(noisy).noisy == {} and table_of(noisy).random is None, "0 and 1 are no random rewards"
    through = table_of(noisy)
    through.units = through.units.finer(float(np.max(np.abs(table))))
    through.__dict__["noisy"] = {k: channels_of(noisy).matrix(k) for k in range(len(table))}
    through.__dict__["random"] = random_rewards(list(through.noisy.values()), noisy.rewards, through.units.unit)
    return plain, noisy


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([spec for spec in SPECS if filtered(spec)]))
def test_channels_of_0_and_1_choose_action_for_action(seed: int, spec: Spec) -> None:
    rng = np.random.default_rng(seed)
    arms, points = int(rng.integers(2, 5)), int(rng.integers(2, 7))
    table = (rng.integers(-2, 5, (arms, points)) / rng.choice([1, 2, 10])).tolist()
    plain, noisy = forced(table, rng.dirichlet(np.ones(points)))
    runs = []
    for problem in (plain, noisy):
        assert problem.distribution is not None
        model = engine.make_model(atoms_of(problem, problem.distribution), scale=2.0)
        runs.append(engine.simulate_counts(model, spec, checkpoints=np.arange(1, 121), replications=2, seed=seed, threads=1))
    assert runs[1].pulls.tolist() == runs[0].pulls.tolist()
    np.testing.assert_allclose(runs[1].reward, runs[0].reward, atol=1e-9)
    assert runs[1].excluded.tolist() == runs[0].excluded.tolist()
    one, other = (Policy(spec, problem, seed=3) for problem in (plain, noisy))
    for _ in range(60):
        arm = one.select()
        assert other.select() == arm
        reward = table[plain.index(arm)][rng.integers(points)]
        one.update(arm, reward)
        other.update(arm, reward)
        assert one.competitive() == other.competitive()


# --- simulation ------------------------------------------------------------------------------------------------------


def laid_out(problem: hw.Problem) -> engine.Model:
    assert problem.distribution is not None
    return engine.make_model(atoms_of(problem, problem.distribution), scale=3.0)


def drawn_levels(problem: hw.Problem, seed: int, replication: int, horizon: int) -> list[list[float]]:
    """What every arm would pay in every round, (T, K), by Python's integers alone."""
    channels = channels_of(problem)
    out = []
    p = np.array(problem.distribution.p)  # type: ignore[union-attr]
    for t, j in enumerate(drawn_atoms(p, seed, replication, horizon), start=1):
        v = uniform(seed, replication, t, streams.REWARD, 0, 0)
        levels = [int(np.sum(streams.latent_thresholds(channels.matrix(k)[:, j]) <= v)) for k in range(len(problem.names))]
        out.append([float(channels.values[k][m]) for k, m in enumerate(levels)])
    return out


@over_problems
@over_specs
def test_engine_and_live_object_agree(spec: Spec, problem: hw.Problem) -> None:
    horizon = 60
    counts = engine.simulate_counts(
        laid_out(problem), spec, checkpoints=np.arange(1, horizon + 1), replications=1, seed=9, first=4, threads=1
    )
    chosen = np.diff(counts.pulls[0], axis=0, prepend=0).argmax(axis=1)
    live = Policy(spec, problem, seed=9, replication=4, reward_range=3.0)
    total, out = 0.0, np.zeros(len(problem.names), dtype=int)
    for t, rewards in enumerate(drawn_levels(problem, 9, 4, horizon)):
        kept = live.competitive()
        out += [name not in kept for name in problem.names]
        arm = live.select()
        assert arm == problem.names[chosen[t]], f"round {t + 1}"
        live.update(arm, rewards[chosen[t]])
        total += rewards[chosen[t]]
        assert counts.reward[0, t] == pytest.approx(total)
    assert counts.excluded[0].tolist() == out.tolist()


@over_problems
def test_what_always_pulling_an_arm_pays(problem: hw.Problem) -> None:
    for k in range(len(problem.names)):
        paid = engine.oracle_rewards(laid_out(problem), k, checkpoints=np.array([1, 5, 40]), replications=2, seed=3, first=6)
        for i in range(2):
            row = np.cumsum([rewards[k] for rewards in drawn_levels(problem, 3, 6 + i, 40)])
            np.testing.assert_allclose(paid[i], row[[0, 4, 39]], atol=1e-9)


def test_random_rewards_have_their_law() -> None:
    """Chi-square over all pairs of an atom and a reward, with a false-alarm probability of 1e-6 an arm; the seed is fixed."""
    rounds, channels = 20_000, channels_of(MIXED)
    v = native.draw_rewards(seed=11, replication=2, count=rounds)
    assert v[:50].tolist() == [uniform(11, 2, t, streams.REWARD, 0, 0) for t in range(1, 51)]
    atoms = np.array(drawn_atoms(np.array([0.2, 0.5, 0.3]), 11, 2, rounds))
    assert MIXED.distribution is not None
    cuts = atoms_of(MIXED, MIXED.distribution).cuts
    for k in (1, 2):
        matrix = channels.matrix(k)
        m = (v[:, None] >= cuts[k, atoms]).sum(axis=1)
        table = np.zeros(matrix.shape)
        np.add.at(table, (m, atoms), 1)
        expected = matrix * [0.2, 0.5, 0.3] * rounds
        assert stats.chisquare(table.ravel(), expected.ravel()).pvalue > 1e-6
    sure = (v[:, None] >= cuts[0, atoms]).sum(axis=1)
    np.testing.assert_array_equal(channels.values[0][sure], np.array([1, 1.2, 0.5])[atoms])


RULES = [make_spec("c-ucb"), make_spec("ts"), make_spec("c-ts", sd="estimated"), make_spec("c-kl-ucb", audit=0.3)]


@pytest.mark.parametrize("spec", RULES, ids=lambda s: s.title)
def test_results_do_not_depend_on_threads_or_blocks(spec: Spec) -> None:
    model, rounds = laid_out(MIXED), np.array([7, 300])
    whole = engine.simulate_counts(model, spec, checkpoints=rounds, replications=8, seed=5, threads=1)
    parts = [engine.simulate_counts(model, spec, checkpoints=rounds, replications=4, seed=5, first=i, block=1) for i in (0, 4)]
    for a, b, c in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(a, np.concatenate([b, c]))


@over_problems
def test_regret_is_what_was_missed(problem: hw.Problem) -> None:
    """Pseudo-regret from exact gaps; realised regret agrees with it on average, within five standard errors (6e-7)."""
    run = hw.simulate(problem, policies=["ucb1", "c-ucb", "c-ts"], horizon=400, replications=200, seed=2)
    mu = problem.rewards @ np.array(problem.distribution.p)  # type: ignore[union-attr]
    for name in run.outcomes:
        regret = run.regret(name)
        np.testing.assert_allclose(regret, run.outcomes[name].pulls @ (mu.max() - mu), atol=1e-9)
        assert np.all(run.outcomes[name].pulls.sum(axis=2) == run.rounds)
        difference = (run.realised_regret(name) - regret)[:, -1]
        assert abs(difference.mean()) <= 5 * difference.std(ddof=1) / math.sqrt(200)
    assert run.regret("c-ucb")[:, -1].mean() < run.regret("ucb1")[:, -1].mean()


def test_runs_are_saved_and_read_back(tmp_path: Path) -> None:
    run = hw.simulate(MIXED, policies=["c-ucb", make_spec("c-ts", audit=0.1)], horizon=50, replications=3, seed=1)
    run.save(tmp_path / "run")
    again = hw.load_simulation(tmp_path / "run")
    assert again.problem == run.problem and list(again.outcomes) == ["c-ucb", "c-ts (audit=0.1)"]
    for name in run.outcomes:
        np.testing.assert_array_equal(run.regret(name), again.regret(name))
    file = tmp_path / "noisy.toml"
    file.write_text(MIXED.to_toml())
    arguments = ["simulate", str(file), "--policy", "c-ucb", "--policy", "c-ts:audit=0.1", "--horizon", "50"]
    done = CliRunner().invoke(app, [*arguments, "--replications", "3", "--seed", "1", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["policies"]
    assert found["c-ucb"]["regret_mean"] == pytest.approx(run.regret("c-ucb").mean(axis=0).tolist())
    assert found["c-ts (audit=0.1)"]["regret_mean"][-1] == pytest.approx(run.regret("c-ts (audit=0.1)")[:, -1].mean())


def test_a_horizon_too_long_for_exact_sums_is_refused() -> None:
    with pytest.raises(ProblemError, match=r"horizon: got .*; expected at most .* for sums to stay exact"):
        hw.simulate(NOISY, policies=["ucb1"], horizon=2**33, replications=1)


# --- audits ----------------------------------------------------------------------------------------------------------


def by_hand(chosen: int, top: float, t: int, spec: Spec, state: dict[str, Any]) -> int:
    audit, late = spec.audit, spec.schedule == "late"
    budget, best = audit * (1 + (1 / 40 if late else 0.15) * math.log(t)), (-math.inf, 0)
    part = math.log(t) / t
    top += 3.0 * math.sqrt(part) if late else math.sqrt(2 * (top + 1) * (2 - top) * part) + 3 * part
    for k in np.flatnonzero(np.isneginf(state["index"])).tolist():
        n = state["pulls"][k] + state["pending"][k]
        reach = math.inf if n == 0 else 3.0 * bernoulli_index((state["mean"][k] + 1.0) / 3.0, n, budget) - 1.0
        if reach >= top and (reach, -k) > best:
            best = (reach, -k)
    return chosen if best[0] == -math.inf else -best[1]


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([0.01, 0.3, 1.0, 3.0]), st.booleans())
def test_who_is_audited(seed: int, arms: int, audit: float, late: bool) -> None:
    rng, spec = np.random.default_rng(seed), make_spec("c-ucb", audit=audit, schedule="late" if late else "early")
    pulls, pending = rng.integers(0, 20, arms), rng.integers(0, 2, arms)
    mean = np.where(pulls + pending > 0, rng.integers(-4, 9, arms) / 4, np.inf)
    index = np.where(rng.random(arms) < 0.6, -np.inf, 0.0)
    chosen, t = int(rng.integers(arms)), int(rng.choice([rng.integers(1, 100), rng.integers(1, 10**6)]))
    index[chosen] = 1.0
    state, top = {"pulls": pulls, "pending": pending, "mean": mean, "index": index}, float(mean[np.argmax(pulls)])
    begun = t * audit > 1000 if late else t > 30
    wanted = by_hand(chosen, top, t, spec, state) if begun and not np.isinf(top) else chosen
    rewards = native.Rewards(np.zeros((arms, 1, arms + 1), dtype=np.int64), 1.0, -1.0, 3.0)
    assert native.audited(chosen, math.log(t), rewards, settings_of(spec, scale=3.0, seed=0), state) == wanted


@pytest.mark.parametrize("name", ["c-ucb", "c-kl-ucb", "c-ts"])
@pytest.mark.parametrize("reference", ["most-pulled", "well-pulled"])
def test_no_audit_changes_nothing(name: str, reference: Any) -> None:
    table = {"a": [0, 1.5, 1.5, 4, 2], "b": [3.5, 1.5, 0, 0, 3.5], "c": [4, 3, 3, 0, 0]}
    plain = hw.Problem(latent=hw.Discrete([f"x{j}" for j in range(5)]), arms=table, distribution=[0.2] * 5)
    paper, zero = make_spec(name, reference=reference), make_spec(name, reference=reference, audit=0)
    assert (paper.title, paper.to_dict()) == (zero.title, zero.to_dict()) and paper == zero
    for problem in (plain, MIXED):
        model, rounds = laid_out(problem), np.array([10, 500])
        shapes: Any = ("auto", "single")
        runs = [
            engine.simulate_counts(model, spec, checkpoints=rounds, replications=3, seed=1, threads=1, shape=shape)
            for spec, shape in zip((paper, zero), shapes, strict=True)
        ]
        for a, b in zip(*runs, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "problem", [NOISY, hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"u": [1, 2], "v": [0, 1], "w": [0.5, 0.5]})]
)
@pytest.mark.parametrize("name", ["c-ucb", "c-kl-ucb", "c-ts", "c-ts:sd=estimated"])
def test_a_simulated_audit_is_a_live_one(name: str, problem: hw.Problem) -> None:
    problem = problem if problem.distribution is not None else problem.with_distribution([0.5, 0.5])
    spec = replace(parse_spec(name), audit=25)  # after 40 rounds
    counts = engine.simulate_counts(laid_out(problem), spec, checkpoints=np.arange(1, 101), replications=1, seed=2, threads=1)
    chosen = np.diff(counts.pulls[0], axis=0, prepend=0).argmax(axis=1)
    live, audits = Policy(spec, problem, seed=2, reward_range=3.0), 0
    for t, rewards in enumerate(drawn_levels(problem, 2, 0, 100)):
        line = next(line for line in live.explain().arms if line.chosen)
        audits += line.excluded_by is not None
        assert line.sentence.startswith("chosen next as an audit, because " if line.excluded_by else "chosen next: ")
        assert live.select() == line.name == problem.names[chosen[t]]
        live.update(line.name, rewards[chosen[t]])
    assert audits > 3 and counts.excluded.sum() >= audits


@pytest.mark.parametrize("name", ["c-ucb", "c-kl-ucb", "c-ts"])
@pytest.mark.parametrize("random", [True, False], ids=["random", "sure"])
def test_an_audit_finds_an_arm_that_the_model_wrongs(name: str, random: bool) -> None:
    """The model says that "good" pays 1 once in ten times; it does nine times in ten, where "fair" pays 0.5."""
    half = {"outcomes": [0, 1], "probabilities": [[0.4, 0.6], [0.6, 0.4]]}
    tenth: Any = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.9, 0.1]]}
    points = ["x", "y"]
    if not random:
        half, tenth, points = [1, 0, 1, 0], [0, 0, 0, 1], ["a", "b", "c", "d"]  # type: ignore[assignment]
    problem = hw.Problem(latent=hw.Discrete(points), arms={"fair": half, "good": tenth})
    pulls = {}
    for audit in (0.0, 30.0):
        policy, rng = hw.make_policy(name, problem, audit=audit), np.random.default_rng(1)
        policy.update(["fair"] * 10, [1, 0] * 4 + [1, 1])
        for _ in range(2000):
            arm = policy.select()
            policy.update(arm, float(rng.random() < (0.9 if arm == "good" else 0.5)))
        pulls[audit] = policy.pulls["good"]
    if random:
        assert pulls[0.0] == 0, "excluded for good"
    assert pulls[30.0] > 1800
    again = from_state(policy.state(), problem)
    assert again.spec.audit == 30.0 and again.select() == policy.select()


def test_words_for_an_audit() -> None:
    problem = hw.Problem(latent=hw.Discrete(["x"]), arms={"best": [1], "rest": [0]})
    policy = hw.make_policy("c-ucb", problem, audit=25)
    policy.update(["best"] * 40, [1] * 40)
    line = policy.explain().arms[1]
    assert line.chosen and line.excluded_by == "best" and policy.competitive() == ["best"]
    assert line.sentence == (
        "chosen next as an audit, because it was never pulled; otherwise excluded: in the 40 pulls of best it could not have "
        "averaged more than 0, which is less than the mean 1 of best."
    )
    assert policy.select() == "rest"
    policy.update("rest", 0)
    assert policy.explain().chosen == "best", "its own reward rules it out for now"


def test_with_edges_every_reward_counts_as_an_outcome() -> None:
    """Levels learned from data are bins of any width, and a live reward falls into one of them."""
    arm = {"outcomes": [-1.0, 0.5, 7.0], "edges": [0, 3], "probabilities": [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]}
    problem = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"arm": arm, "other": [1, 2]})
    policy = hw.make_policy("c-ucb", problem)
    for reward in (-50, -0.001, 0, 2.9, 3, 1e6):
        policy.update("arm", reward)
    assert policy.state()["counts"]["arm"] == [[-1.0, 2], [0.5, 2], [7.0, 2]]
    assert hw.pseudo_reward(problem, target="other", observed="arm", reward=9.5) == 1
    again = parse_problem(problem.to_toml())
    assert again == problem and again.digest == problem.digest
    without = hw.Problem(latent=problem.latent, arms=problem.arms | {"arm": {k: v for k, v in arm.items() if k != "edges"}})
    assert without.digest != problem.digest
    assert hw.Problem(latent=problem.latent, arms=problem.arms) == problem


def test_an_outcome_that_never_occurs_is_refused_within_its_edges() -> None:
    arm = {"outcomes": [0, 1, 2], "edges": [0.5, 1.5], "probabilities": [[0.5, 0, 0.5], [1, 0, 0]]}
    problem = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"arm": arm, "other": [1, 2]})
    with pytest.raises(hw.RewardError, match="reward: got 1; arm arm can pay 0, or 2"):
        hw.make_policy("ucb1", problem).update("arm", 1.2)


def test_evidence_is_kept_in_a_file_and_read_over() -> None:
    text = '[latent]\nkind = "discrete"\nvalues = ["a", "b"]\n[arms]\nx = [1, 2]\ny = [2, 1]\n'
    assert parse_problem(text + "[evidence]\nrows = 7\n") == parse_problem(text)
    with pytest.raises(hw.ProblemError, match="evidence: got 7; expected"):
        parse_problem("evidence = 7\n" + text)
