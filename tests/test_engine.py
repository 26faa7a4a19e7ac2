"""The compiled engine against the oracle, against the live object, against itself in another shape, and ERRATA.md's figures."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import headwater as hw
from headwater import native
from headwater.errors import ProblemError
from headwater.paper import CASES
from headwater.policies import Policy, Spec, make_spec
from headwater.pseudo import model_of
from headwater.simulation import engine
from headwater.simulation.atoms import Atoms, atoms_of
from headwater.simulation.threads import in_threads
from oracle import Oracle, World, drawn_atoms, exact, finite_world

REFERENCES = ("none", "most-pulled", "well-pulled")
RULES: dict[str, Any] = {
    "ucb1": hw.UCB1(),
    "kl-ucb": hw.KLUCB(),
    "kl-ucb-empirical": hw.KLUCB("empirical"),
    "ts": hw.Thompson(),
    "ts-estimated": hw.Thompson(sd="estimated"),
    "ts-beta": hw.Thompson("beta"),
}
SPECS = [Spec(rule, reference) for rule in RULES.values() for reference in REFERENCES]  # type: ignore[arg-type]
SPECS += [make_spec("uniform"), make_spec("epsilon-greedy", epsilon=0.3)]
PAPER = {case.id: case for case in CASES}
seeds = st.integers(0, 2**64 - 1)
titled: dict[str, Any] = {"ids": lambda spec: spec.title}


class Toy(NamedTuple):
    table: list[list[float]]
    weights: list[int]

    def problem(self) -> hw.Problem:
        p = np.array(self.weights) / sum(self.weights)
        names = [f"x{j}" for j in range(len(p))]
        return hw.Problem(
            latent=hw.Discrete(names), arms={f"arm {k}": row for k, row in enumerate(self.table)}, distribution=p.tolist()
        )


@st.composite
def toys(draw: st.DrawFn, arms: int = 6, atoms: int = 8, top: int = 6) -> Toy:
    """Whole multiples of 1, 0.5, 0.1 or 0.01: ties, equal arms and constant arms are common."""
    k, j = draw(st.integers(2, arms)), draw(st.integers(2, atoms))
    unit = draw(st.sampled_from([1, 2, 10, 100]))
    rows = st.lists(st.integers(-2, top), min_size=j, max_size=j)
    table = draw(st.lists(rows, min_size=k, max_size=k))
    weights = draw(st.lists(st.integers(0, 9), min_size=j, max_size=j).filter(any))
    return Toy([[x / unit for x in row] for row in table], weights)


def laid_out(problem: hw.Problem, scale: float | None = None) -> tuple[Atoms, engine.Model]:
    assert problem.distribution is not None
    if "_atoms_of_tests" not in problem.__dict__:
        problem.__dict__["_atoms_of_tests"] = atoms_of(problem, problem.distribution)
    atoms: Atoms = problem.__dict__["_atoms_of_tests"]
    return atoms, engine.make_model(atoms, scale=model_of(problem).reward_range if scale is None else scale)


def actions(model: engine.Model, spec: Spec, horizon: int, seed: int, **options: Any) -> NDArray[Any]:
    """(N, horizon): the arm of every round, from the pulls at every round."""
    options = {"replications": 1, "threads": 1} | options
    counts = engine.simulate_counts(model, spec, checkpoints=np.arange(1, horizon + 1), seed=seed, **options)
    taken: NDArray[Any] = np.diff(counts.pulls, axis=1, prepend=0).argmax(axis=2)
    return taken


def same(one: engine.Counts, other: engine.Counts) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


# --- the oracle ------------------------------------------------------------------------------------------------------


def follow(
    problem: hw.Problem,
    world: World,
    spec: Spec,
    *,
    horizon: int,
    seed: int,
    pays: Callable[[int, int], float] | None = None,
    slack: float = 0.0,
    replication: int = 3,
    shape: Any = "auto",
) -> None:
    """Engine, live object and oracle along the same x_t; ``pays(k, j)`` is what arm k pays at atom j."""
    atoms, model = laid_out(problem, world.scale)
    ours = actions(model, spec, horizon, seed, first=replication, shape=shape)[0].tolist()
    live = Policy(spec, problem, seed=seed, replication=replication, reward_range=world.scale or None)
    oracle = Oracle(world, spec.rule.code, spec.reference, seed=seed, replication=replication)
    for t, j in enumerate(drawn_atoms(atoms.probability, seed, replication, horizon), start=1):
        arm = ours[t - 1]
        assert live.select() == problem.names[arm], f"round {t}: the live object disagrees with the engine"
        if slack == 0 and spec.rule.code == "ucb1":
            assert oracle.choose() == arm, f"round {t}"
        else:
            oracle.check(arm, slack=slack, tie=max(slack, 1e-9))
        reward = float(atoms.values[arm][atoms.level[arm, j]]) if pays is None else pays(arm, j)
        oracle.observe(arm, exact(reward))
        live.update(arm, reward)
    assert [len(seen) for seen in oracle.seen] == list(live.pulls.values())


@settings(max_examples=40)
@given(toys(), seeds, st.sampled_from(REFERENCES), st.sampled_from(["lockstep", "single"]))
def test_discrete_ucb1_agrees_action_for_action(toy: Toy, seed: int, reference: Any, shape: str) -> None:
    world = finite_world(toy.table)
    spec = Spec(hw.UCB1(), reference)
    follow(toy.problem(), world, spec, horizon=100, seed=seed, pays=lambda k, j: toy.table[k][j], shape=shape)


@pytest.mark.parametrize("rule", ["kl-ucb", "kl-ucb-empirical", "ts", "ts-estimated"])
@settings(max_examples=15)
@given(toy=toys(arms=5, atoms=6), seed=seeds, reference=st.sampled_from(REFERENCES))
def test_discrete_other_rules_agree(rule: str, toy: Toy, seed: int, reference: Any) -> None:
    """Indices are found by other means, so arms within 1e-9 of the largest are accepted; exclusions must be exact."""
    world = finite_world(toy.table)
    spec = Spec(RULES[rule], reference)
    follow(toy.problem(), world, spec, horizon=50, seed=seed, pays=lambda k, j: toy.table[k][j])


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_table_of_errata_agrees_on_a_long_run(number: int, reference: Any) -> None:
    problem = PAPER[f"discrete-{number}"].problem
    table: list[list[float]] = [[0, 1.5, 1.5, 4, 2], [3.5, 1.5, 0, 0, 3.5], [4, 3, 3, 0, 0]]
    world = finite_world(table)
    assert (world.scale, world.low, world.span) == (4, 0, 4)
    follow(problem, world, Spec(hw.UCB1(), reference), horizon=500, seed=11, pays=lambda k, j: table[k][j])


def continuous_world(problem: hw.Problem, g: Sequence[Any], preimage: Sequence[Any]) -> World:
    """``preimage[k](r)`` lists every point that can attain a maximum over {x : g_k(x) = r}."""

    @cache
    def pseudo(ell: int, k: int, r: Fraction) -> Fraction:
        return r if ell == k else max(exact(g[ell](x)) for x in preimage[k](float(r)))

    ranges = model_of(problem).ranges
    low = float(ranges[:, 0].min())
    return World(len(g), pseudo, None, model_of(problem).reward_range, low, float(ranges[:, 1].max()) - low)


def _paper_continuous(id_: str, rate: float) -> tuple[hw.Problem, list[Any], list[Any]]:
    height = 1 / (2 * math.sqrt(2 * math.pi * 0.04))

    def bump(r: float) -> list[float]:
        d = math.sqrt(max(-0.08 * math.log(min(r / height, 1.0)), 0.0))
        return [x for x in (0.5 - d, 0.5 + d) if -1e-12 <= x <= 1 + 1e-12]

    g = [lambda x: height * math.exp(-((x - 0.5) ** 2) / 0.08), lambda x: 1 - math.exp(-rate * x), lambda x: 0.5]
    return PAPER[id_].problem, g, [bump, lambda r: [-math.log1p(-r) / rate], lambda r: [0.0, 0.5, 1.0]]


def _scalar(support: list[float], law: dict[str, Any], arms: dict[str, str]) -> hw.Problem:
    return hw.Problem(latent=hw.Continuous(support), arms=arms, distribution=law)


def _vee() -> tuple[hw.Problem, list[Any], list[Any]]:
    problem = _scalar([0, 1], {"name": "uniform"}, {"a": "x", "b": "1 - x", "c": "abs(x - 0.3)"})
    g = [lambda x: x, lambda x: 1 - x, lambda x: abs(x - 0.3)]
    vee = [lambda r: [r], lambda r: [1 - r], lambda r: [x for x in (0.3 - r, 0.3 + r) if -1e-12 <= x <= 1 + 1e-12]]
    return problem, g, vee


def _flat() -> tuple[hw.Problem, list[Any], list[Any]]:
    """b is flat from 1 on: its reward 1 leaves an interval open."""
    problem = _scalar([-1, 2], {"name": "uniform"}, {"a": "x**2", "b": "min(x, 1)", "c": "2 - x"})
    g = [lambda x: x * x, lambda x: min(x, 1.0), lambda x: 2 - x]

    def roots(r: float) -> list[float]:
        return [x for x in (-math.sqrt(r), math.sqrt(r)) if x >= -1 - 1e-12]

    return problem, g, [roots, lambda r: [r] if r < 1 else [1.0, 2.0], lambda r: [2 - r]]


SCALAR: dict[str, Callable[[], tuple[hw.Problem, list[Any], list[Any]]]] = {
    "paper 1": lambda: _paper_continuous("continuous-1", 2.5),
    "paper 2": lambda: _paper_continuous("continuous-2", 2.5),
    "paper 3": lambda: _paper_continuous("continuous-3", 2.5),
    "paper variant": lambda: _paper_continuous("continuous-1-variant", 2),
    "vee": _vee,
    "flat": _flat,
}


@cache
def scalar_case(name: str) -> tuple[hw.Problem, list[Any], list[Any]]:
    return SCALAR[name]()


SLACK = 2e-6  # a band of 1e-12 of the range about a reward is, near a peak, one of 1e-6 about x


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("name", SCALAR)
def test_continuous_agrees(name: str, reference: Any) -> None:
    problem, g, preimage = scalar_case(name)
    world = continuous_world(problem, g, preimage)
    for rule in ("ucb1", "kl-ucb"):
        follow(problem, world, Spec(RULES[rule], reference), horizon=120, seed=5, slack=SLACK)


def _segment(a: Sequence[float], r: float, box: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The ends of {x in box : a . x = r} in two dimensions, where a linear function is largest."""
    ends = []
    for i, j in ((0, 1), (1, 0)):
        for bound in box[i]:
            if a[j]:
                y = (r - a[i] * bound) / a[j]
                if box[j][0] - 1e-9 <= y <= box[j][1] + 1e-9:
                    ends.append((bound, y) if i == 0 else (y, bound))
    return ends


@pytest.mark.parametrize("reference", REFERENCES)
def test_linear_arms_on_a_box_agree(reference: Any) -> None:
    problem = hw.Problem(
        latent=hw.Vector({"x1": {"low": 0, "high": 1}, "x2": {"low": -1, "high": 1}}),
        arms={"a": "x1 + x2", "b": "x1 - x2", "c": "2*x1"},
        distribution={"x1": {"name": "beta", "a": 2, "b": 3}, "x2": {"name": "uniform"}},
    )
    slopes, box = [(1.0, 1.0), (1.0, -1.0), (2.0, 0.0)], [(0.0, 1.0), (-1.0, 1.0)]

    @cache
    def pseudo(ell: int, k: int, r: Fraction) -> Fraction:
        if ell == k:
            return r
        return max(exact(slopes[ell][0] * x + slopes[ell][1] * y) for x, y in _segment(slopes[k], float(r), box))

    world = World(3, pseudo, None, 3.0, -1.0, 3.0)
    assert model_of(problem).reward_range == pytest.approx(3.0)
    for rule in ("ucb1", "kl-ucb"):
        follow(problem, world, Spec(RULES[rule], reference), horizon=150, seed=3, slack=SLACK)


@pytest.mark.parametrize("rule", ["ucb1", "kl-ucb", "kl-ucb-empirical", "ts", "ts-estimated"])
@pytest.mark.parametrize("reference", REFERENCES)
def test_finite_vectors_agree(reference: Any, rule: str) -> None:
    problem = hw.Problem(
        latent=hw.Vector({"x1": [-1, 0, 1], "x2": [0, 1, 2]}),
        arms={"a": "x1 + x2", "b": "x1*x2", "c": "x2 - x1/2"},
        distribution={"x1": [0.3, 0.3, 0.4], "x2": [0.5, 0.2, 0.3]},
    )
    points = [(x, y) for x in (-1, 0, 1) for y in (0, 1, 2)]
    table: list[list[float]] = [[x + y for x, y in points], [x * y for x, y in points], [y - x / 2 for x, y in points]]
    pays: Callable[[int, int], float] = lambda k, j: table[k][j]  # noqa: E731
    follow(problem, finite_world(table), Spec(RULES[rule], reference), horizon=100, seed=9, pays=pays)


def factored_problem(count: int = 24) -> hw.Problem:
    """Too many points to list. Only x1 to x4 matter, so that a list of 16 points gives the pseudo-rewards."""
    return hw.Problem(
        latent=hw.Vector({f"x{i}": [0, 1] for i in range(1, count + 1)}),
        arms={"a": "x1 + x2", "b": "x2 + 2*x3", "c": "1.5*x1 - x3", "d": "2*x4 + x1*x2"},
        distribution={f"x{i}": [1 - p, p] for i, p in enumerate(np.linspace(0.3, 0.7, count), start=1)},
    )


@pytest.mark.parametrize("rule", ["ucb1", "kl-ucb", "kl-ucb-empirical", "ts"])
@pytest.mark.parametrize("reference", REFERENCES)
def test_factored_vectors_agree(reference: Any, rule: str) -> None:
    bits = [[(n >> i) & 1 for i in range(4)] for n in range(16)]
    table: list[list[float]] = [
        [x[0] + x[1] for x in bits],
        [x[1] + 2 * x[2] for x in bits],
        [1.5 * x[0] - x[2] for x in bits],
        [2 * x[3] + x[0] * x[1] for x in bits],
    ]
    follow(factored_problem(), finite_world(table), Spec(RULES[rule], reference), horizon=100, seed=4)


# --- the classical special case --------------------------------------------------------------------------------------


def classical(components: dict[str, list[float]], seed: int) -> hw.Problem:
    rng = np.random.default_rng(seed)
    law = {name: (p / p.sum()).tolist() for name, p in ((n, rng.uniform(0.2, 1, len(v))) for n, v in components.items())}
    return hw.Problem(latent=hw.Vector(components), arms={f"arm {n}": n for n in components}, distribution=law)


CLASSICAL = {
    "three components": classical({"a": [0, 1, 2], "b": [0, 0.5, 2], "c": [0, 1, 1.5, 2]}, 1),
    "four components": classical({"a": [0, 1], "b": [0, 0.3, 1], "c": [0.1, 0.7, 1], "d": [0, 0.25, 0.5, 1]}, 2),
    "23 coins": classical({f"x{i}": [0, 1] for i in range(1, 24)}, 3),
}


@pytest.mark.parametrize("reference", ["most-pulled", "well-pulled"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CLASSICAL)
def test_unrelated_arms_are_never_excluded(name: str, rule: str, reference: Any) -> None:
    """Independent components, g_k(X) = X_k, equal largest rewards: the filter changes nothing."""
    _, model = laid_out(CLASSICAL[name])
    options: dict[str, Any] = {"checkpoints": np.arange(1, 401), "replications": 3, "seed": 9, "threads": 1}
    plain = engine.simulate_counts(model, Spec(RULES[rule]), **options)
    filtered = engine.simulate_counts(model, Spec(RULES[rule], reference), **options)
    same(plain, filtered)
    assert not filtered.excluded.any()


# --- the engine against itself ---------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(toys(arms=9, atoms=40), seeds, st.sampled_from(["none", "most-pulled"]), st.booleans())
def test_lockstep_and_single_agree(toy: Toy, seed: int, reference: Any, wide: bool) -> None:
    """Every round of every replication, with few atoms and many (guide table), in 32-bit and 64-bit integers."""
    _, model = laid_out(toy.problem())
    if wide:
        model = model._replace(table=model.table * 10**8, unit=model.unit * 1e-8)
    options: dict[str, Any] = {"checkpoints": np.arange(1, 201), "replications": 5, "seed": seed, "threads": 1}
    one = engine.simulate_counts(model, Spec(hw.UCB1(), reference), shape="single", **options)
    other = engine.simulate_counts(model, Spec(hw.UCB1(), reference), shape="lockstep", **options)
    same(one, other)
    assert one.pulls.sum(axis=2).tolist() == [list(range(1, 201))] * 5


@settings(max_examples=40)
@given(toys(arms=7, atoms=20), seeds, st.sampled_from(SPECS))
def test_lanes_and_one_after_the_other_agree_for_every_rule(toy: Toy, seed: int, spec: Spec) -> None:
    _, model = laid_out(toy.problem())
    options: dict[str, Any] = {"checkpoints": np.array([1, 2, 40, 90]), "replications": 11, "seed": seed, "threads": 1}
    same(*(engine.simulate_counts(model, spec, shape=shape, **options) for shape in ("single", "lockstep")))


def test_sums_too_large_for_lanes_are_played_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = laid_out(PAPER["discrete-2"].problem)
    options: dict[str, Any] = {"checkpoints": np.arange(1, 151), "replications": 4, "seed": 2, "threads": 1}
    lanes = engine.simulate_counts(model, make_spec("c-ucb"), **options)
    monkeypatch.setattr(engine, "EXACT", 1)
    monkeypatch.setattr(
        native, "play", lambda *given, play=native.play: play(*given) if given[-1] == "serial" else pytest.fail()
    )
    same(lanes, engine.simulate_counts(model, make_spec("c-ucb"), **options))


@settings(max_examples=40)
@given(toys(), seeds, st.sampled_from(SPECS))
def test_the_live_object_makes_the_engines_choices(toy: Toy, seed: int, spec: Spec) -> None:
    """Every rule, randomised ones too: the live object draws what replication 5 of a simulation draws."""
    problem = toy.problem()
    atoms, model = laid_out(problem)
    live = Policy(spec, problem, seed=seed, replication=5)
    chosen = []
    for j in drawn_atoms(atoms.probability, seed, 5, 60):
        arm = problem.index(live.select())
        live.update(arm, toy.table[arm][j])
        chosen.append(arm)
    assert actions(model, spec, 60, seed, first=5)[0].tolist() == chosen


@pytest.mark.parametrize("spec", SPECS, **titled)
def test_results_do_not_depend_on_threads_blocks_or_order(spec: Spec) -> None:
    _, model = laid_out(PAPER["discrete-3"].problem)
    options: dict[str, Any] = {"checkpoints": np.array([7, 100, 333]), "seed": 5}
    whole = engine.simulate_counts(model, spec, replications=40, threads=1, block=40, **options)
    for threads, block in ((2, 16), (3, 7), (2, 1)):
        same(whole, engine.simulate_counts(model, spec, replications=40, threads=threads, block=block, **options))
    late = engine.simulate_counts(model, spec, replications=15, first=20, **options)
    more = engine.simulate_counts(model, spec, replications=60, **options)
    for a, b, c in zip(whole, late, more, strict=True):
        np.testing.assert_array_equal(a[20:35], b)
        np.testing.assert_array_equal(a, c[:40])


@pytest.mark.parametrize("spec", SPECS, **titled)
def test_checkpoints_are_only_looked_at(spec: Spec) -> None:
    """Chunks of draws straddle checkpoints; odd ones split a pair of rounds."""
    _, model = laid_out(PAPER["discrete-2"].problem)
    every = engine.simulate_counts(model, spec, checkpoints=np.arange(1, 601), replications=2, seed=1)
    rounds = np.array([1, 3, 8, 9, 255, 256, 257, 511, 600])
    some = engine.simulate_counts(model, spec, checkpoints=rounds, replications=2, seed=1)
    np.testing.assert_array_equal(every.pulls[:, rounds - 1], some.pulls)
    np.testing.assert_array_equal(every.reward[:, rounds - 1], some.reward)
    np.testing.assert_array_equal(every.excluded, some.excluded)


@pytest.mark.parametrize("count", [5, 50])
def test_atoms_have_their_probabilities(count: int) -> None:
    """Chi-squared with a false-alarm probability of 1e-6; and the engine draws exactly what the oracle draws."""
    p = np.random.default_rng(1).dirichlet(np.ones(count))
    for j in (0, count // 2, count - 1):
        problem = hw.Problem(
            latent=hw.Discrete([f"x{i}" for i in range(count)]),
            arms={"a": np.eye(count)[j].tolist(), "b": np.eye(count)[j].tolist()},
            distribution=p.tolist(),
        )
        atoms, model = laid_out(problem)
        drawn = np.array(drawn_atoms(atoms.probability, 77, 0, 5000))
        assert stats.chisquare(np.bincount(drawn, minlength=count), 5000 * atoms.probability).pvalue > 1e-6
        counts = engine.simulate_counts(model, make_spec("ucb1"), checkpoints=np.array([5000]), replications=1, seed=77)
        assert counts.reward[0, 0] == np.count_nonzero(drawn == j)


@pytest.mark.parametrize("name", ["discrete-2", "vector-2", "continuous-2"])
def test_oracle_rewards_by_brute_force(name: str) -> None:
    problem = PAPER[name].problem
    atoms, model = laid_out(problem)
    rounds = np.array([1, 2, 77, 300])
    for arm in range(len(problem.arms)):
        ours = engine.oracle_rewards(model, arm, checkpoints=rounds, replications=3, seed=8, first=2)
        for i in range(3):
            drawn = drawn_atoms(atoms.probability, 8, 2 + i, 300)
            paid = np.cumsum([atoms.values[arm][atoms.level[arm, j]] for j in drawn])
            np.testing.assert_allclose(ours[i], paid[rounds - 1], rtol=1e-8, atol=1e-6)


def test_excluded_counts_rounds_by_brute_force() -> None:
    problem = PAPER["discrete-2"].problem
    atoms, model = laid_out(problem)
    for reference in ("most-pulled", "well-pulled"):
        spec = make_spec("c-ucb", reference=reference)
        live, out = Policy(spec, problem), np.zeros(3, dtype=int)
        for j in drawn_atoms(atoms.probability, 6, 0, 300):
            out += [name not in live.competitive() for name in problem.names]
            arm = problem.index(live.select())
            live.update(arm, float(atoms.values[arm][atoms.level[arm, j]]))
        for shape in ("single", "lockstep"):
            counts = engine.simulate_counts(model, spec, checkpoints=np.array([300]), replications=1, seed=6, shape=shape)
            np.testing.assert_array_equal(counts.excluded[0], out)


# --- the figures of ERRATA.md ----------------------------------------------------------------------------------------

FIGURES = {
    "ucb1": {5_000: (462, 454, 485), 50_000: (1045, 885, 1359)},
    "c-ucb": {5_000: (33, 265, 486), 50_000: (34, 494, 1366)},
}


@pytest.mark.parametrize("policy", FIGURES)
@pytest.mark.parametrize("case", [1, 2, 3])
def test_regret_of_the_table(policy: str, case: int) -> None:
    """Within three standard errors of the difference of two means of 500 runs (ERRATA's and ours, so sqrt 2 times ours).

    The false-alarm probability is 0.3 % for each of twelve figures; the seed is fixed. Half a unit for the printed rounding.
    """
    run = hw.simulate(
        PAPER[f"discrete-{case}"].problem,
        policies=[policy],
        horizon=50_000,
        checkpoints=[5_000],
        replications=500,
        seed=20,
    )
    for regret, printed in zip(run.regret(policy).T, (FIGURES[policy][t][case - 1] for t in (5_000, 50_000)), strict=True):
        error = math.sqrt(2) * regret.std(ddof=1) / math.sqrt(500)
        assert abs(regret.mean() - printed) < 3 * error + 0.5


# --- other builds of the same engines --------------------------------------------------------------------------------

SCRIPT = """
import json, sys
sys.path.insert(0, TESTS)
from test_engine import SPECS, PAPER, actions, laid_out, native
out = []
for name in ("discrete-2", "vector-1"):
    _, model = laid_out(PAPER[name].problem)
    for spec in SPECS:
        for shape in ("single", "lockstep"):
            out.append(actions(model, spec, 24, 8, replications=2, shape=shape).tolist())
print(json.dumps([native.simd(), out]))
"""


def _run(build: str) -> Any:
    script = SCRIPT.replace("TESTS", repr(str(Path(__file__).parent)))
    environment = {**os.environ, "HEADWATER_SIMD": build}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_results_do_not_depend_on_the_width_of_registers() -> None:
    builds = native.builds()
    assert builds[0] == "baseline" and _run("baseline")[0] == "baseline"
    results = [_run(build) for build in builds]
    assert [build for build, _ in results] == builds
    assert all(result == results[0][1] for _, result in results)


def test_a_build_that_is_not_there_is_refused() -> None:
    environment = {**os.environ, "HEADWATER_SIMD": "wider"}
    command = [sys.executable, "-c", "import headwater.native"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode and "HEADWATER_SIMD: got wider; expected baseline, avx2 or avx512" in done.stderr


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_horizon_too_long_for_exact_sums_is_refused() -> None:
    _, model = laid_out(PAPER["discrete-1"].problem)
    with pytest.raises(ProblemError, match=r"horizon: got .*; expected at most [\d,]+ for sums to stay exact"):
        engine.simulate_counts(
            model._replace(table=model.table * 2**40), make_spec("ucb1"), checkpoints=np.array([2**30]), replications=1, seed=0
        )


def test_tables_are_contiguous() -> None:
    """A transposed table gives the same numbers at half the speed, so nothing else would notice."""
    for case in CASES:
        _, model = laid_out(case.problem)
        assert all(x.flags.c_contiguous for x in model[:4])


def test_an_interrupt_drops_blocks_not_yet_begun() -> None:
    begun: list[int] = []

    def run(start: int, stop: int, watch: NDArray[Any], slot: int) -> None:
        begun.append(start)
        if start == 2:
            raise KeyboardInterrupt
        if start > 2:
            raise AssertionError("begun after the interrupt")

    with pytest.raises(KeyboardInterrupt):
        in_threads(run, 3, 1, 1, None)
    assert begun == [0, 1, 2]


@pytest.mark.parametrize("spec", [Spec(hw.UCB1()), Spec(hw.UCB1(), "well-pulled"), Spec(hw.KLUCB())], ids=lambda s: s.title)
def test_an_interrupt_stops_running_kernels(spec: Spec) -> None:
    """A horizon that would take hours ends as soon as progress raises: the kernels look up every few rounds."""
    problem = next(case.problem for case in CASES if case.id == "discrete-3")
    _, model = laid_out(problem)
    told: list[int] = []

    def interrupt(rounds: int) -> None:
        told.append(rounds)
        if rounds > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.simulate_counts(
            model, spec, checkpoints=np.array([10**11]), replications=4, seed=1, threads=2, progress=interrupt
        )
    assert told == sorted(told)
