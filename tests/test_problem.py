"""Problems from Python: supports, distributions, arms; everything wrong is said at once; identity by content."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headwater import Continuous, Discrete, Interval, Problem, ProblemError, SizeError, Vector
from headwater.complaints import MAX_SHOWN, Complaints, normalised, shown
from headwater.distributions import ALIASES, LAWS, Finite, Independent, Named, Sample, as_distribution
from headwater.files import build_problem, parse_problem
from headwater.latent import MAX_POINTS, Latent, listed
from headwater.problem import FAR, Formula, Function, Random, Table, probes, spread

ADS = Discrete(["student", "worker", "retiree"])
TWO: dict[str, list[float]] = {"banner": [1, 2, 2], "video": [1.5, 0, 1.5]}
LINE = Continuous([0, 1])
CURVES = {"rise": "x", "fall": "1 - x"}
PLANE = Vector({"x1": [-1, 0, 1], "x2": {"low": 0, "high": 2}})
GRID = Vector({"x1": [0, 1], "x2": [0, 1, 2]})
SUMS = {"sum": "x1 + x2", "difference": "x1 - x2"}


def complaints(build: Callable[[], Any]) -> tuple[str, ...]:
    with pytest.raises(ProblemError) as caught:
        build()
    assert str(caught.value) == "\n".join(caught.value.complaints)
    return caught.value.complaints


# supports


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ["latent.values: got []; expected at least one value"]),
        ("abc", ['latent.values: got "abc"; expected a list of labels or numbers']),
        (b"abc", ["latent.values: got a bytes; expected a list of labels or numbers"]),
        (7, ["latent.values: got 7; expected a list of labels or numbers"]),
        (None, ["latent.values: got null; expected a list of labels or numbers"]),
        (np.array(3.0), ["latent.values: got 3.0; expected a list of labels or numbers"]),
        ({"a": 1}, ['latent.values: got {"a": 1}; expected a list of labels or numbers']),
        (["a", 1], ["latent.values[1]: got 1; expected a label like the others (all labels, or all numbers)"]),
        (["a", "b", "a"], ['latent.values[2]: got "a"; expected a value that is not already at latent.values[0]']),
        ([1, 2.0, 2], ["latent.values[2]: got 2; expected a value that is not already at latent.values[1]"]),
        ([0, math.nan], ["latent.values[1]: got NaN; expected a finite number", "latent.values[1]: got NaN; expected a value"]),
        ([math.inf], ["latent.values[0]: got Infinity; expected a finite number"]),
        ([True, False], ["latent.values[0]: got true; expected a finite number"]),
        ([[1], [2]], ["latent.values[0]: got [1]; expected a finite number"]),
        (np.array([1.0, np.nan]), ["latent.values[1]: got NaN; expected a finite number"]),
        ([np.complex128(1)], ["latent.values[0]: got a complex128; expected a finite number"]),
        ([10**400], ["latent.values[0]: got 1000"]),
        (["a\n"], ['latent.values[0]: got "a\\n"; expected a label of printable characters']),
        (["\ud800"], ["expected a label of printable characters"]),
    ],
)
def test_discrete_refuses(values: Any, expected: list[str]) -> None:
    got = complaints(lambda: Discrete(values))
    assert all(any(line in g for g in got) for line in expected), got


def test_discrete() -> None:
    assert ADS.names == () and not ADS.numeric and ADS.size == 3 and ADS.points.tolist() == [[0, 1, 2]]
    numeric = Discrete(np.array([3, 1, 2]))
    assert numeric.names == ("x",) and numeric.points.tolist() == [[3, 1, 2]] and numeric.label(1) == "1.0"
    assert Discrete([1, 2]) == Discrete((1.0, 2.0)) and hash(Discrete([1, 2])) == hash(Discrete([1.0, 2.0]))
    assert type(Discrete(np.array(["a", "b"])).values[0]) is str


WANTED = "two numbers within ±1e+50, the lower end first (inf and -inf are allowed)"


@pytest.mark.parametrize(
    "support",
    [
        [],
        [0],
        [0, 1, 2],
        [1, 0],
        [1, 1],
        [math.nan, 1],
        [0, math.nan],
        [math.inf, math.inf],
        [-math.inf, -math.inf],
        ["0", 1],
        ["infinity", 1],
        [True, 2],
        "01",
        5,
        None,
        {"low": 0, "high": 1},
        np.array(3.0),
        [np.complex128(0), 1],
        [0, 10**400],
        [0, 1e51],
        [-1e51, 0],
        [[0], [1]],
    ],
)
def test_continuous_refuses(support: Any) -> None:
    (line,) = complaints(lambda: Continuous(support))
    assert line.startswith("latent.support: got ") and line.endswith(f"; expected {WANTED}")


@pytest.mark.parametrize(
    ("support", "pair"),
    [
        ([0, 1], (0, 1)),
        ((0, math.inf), (0, math.inf)),
        ([-math.inf, math.inf], (-math.inf, math.inf)),
        (["-inf", "inf"], (-math.inf, math.inf)),
        ([0, "+inf"], (0, math.inf)),
        (np.array([-1.0, 2.5]), (-1, 2.5)),
        ([np.float32(0), np.int64(2)], (0, 2)),
    ],
)
def test_continuous(support: Any, pair: tuple[float, float]) -> None:
    latent = Continuous(support)
    assert latent.support == pair and (latent.low[0], latent.high[0]) == pair
    assert all(type(end) is float for end in latent.support)


@pytest.mark.parametrize(
    ("components", "expected"),
    [
        ({}, "latent.components: got {}; expected at least one component"),
        ([1], "latent.components: got [1]; expected at least one component"),
        (None, "latent.components: got null; expected at least one component"),
        ({"x": []}, "latent.components.x: got []; expected at least one value"),
        ({"x": ["a", "b"]}, 'latent.components.x: got ["a", "b"]; expected numbers (a component of a vector has no labels)'),
        ({"x": [1, 1]}, "latent.components.x[1]: got 1; expected a value that is not already at latent.components.x[0]"),
        ({"x": [math.nan]}, "latent.components.x[0]: got NaN; expected a finite number"),
        ({"x": {"low": 1}}, 'latent.components.x: got {"low": 1}; expected {low = …, high = …}'),
        ({"x": {"low": 1, "high": 2, "step": 3}}, "expected {low = …, high = …}"),
        ({"x": {"low": 1, "high": 0}}, f"latent.components.x: got [1, 0]; expected {WANTED}"),
        ({"x": Interval(1, 0)}, f"latent.components.x: got [1, 0]; expected {WANTED}"),
        ({"x": 5}, "latent.components.x: got 5; expected a list of labels or numbers"),
        ({"x": np.array(5.0)}, "latent.components.x: got 5.0; expected a list of labels or numbers"),
        ({"exp": [1]}, 'latent.components: got "exp"; expected a component name: that is the name of a function or constant'),
        ({"True": [1]}, 'latent.components: got "True"; expected a component name: that word is reserved'),
        ({"a__b": [1]}, 'latent.components: got "a__b"; expected a component name: expected a letter'),
        ({3: [1]}, "latent.components: got 3; expected a component name: a word"),
    ],
)
def test_vector_refuses(components: Any, expected: str) -> None:
    assert any(expected in line for line in complaints(lambda: Vector(components)))


def test_vector() -> None:
    assert GRID.size == 6 and GRID.shape == (2, 3) and GRID.finite and listed(GRID)
    assert GRID.points.tolist() == [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    assert GRID.label(5) == "(1, 2)"
    assert not PLANE.finite and not listed(PLANE) and PLANE.shape == (3,)
    shuffled = Vector({"a": [5, 1, 3], "b": [2, 0]})
    assert shuffled.number(shuffled.points).tolist() == list(range(6))
    assert Vector({"x": Interval(0, 1)}) == Vector({"x": {"low": 0.0, "high": 1}})
    assert Vector({"x": {"low": "-inf", "high": "inf"}}).parts == (Interval(-math.inf, math.inf),)


def test_listed_up_to_a_limit() -> None:
    assert not listed(Vector({f"x{i}": [0, 1] for i in range(23)})) and MAX_POINTS < 2**23
    assert listed(Vector({f"x{i}": [0, 1] for i in range(10)}))
    assert not listed(LINE)


def test_shared_points_cannot_be_written_to() -> None:
    def grabby(x: Any) -> Any:
        x += 1
        return x

    latent = Discrete([1, 2])
    problem = Problem(latent=latent, arms={"a": grabby, "b": "x"})
    assert latent.points.tolist() == [[1, 2]]
    assert problem.rewards.tolist() == [[2, 3], [1, 2]]


# distributions


def law(latent: Latent, given: Any) -> Any:
    found = Complaints()
    result = as_distribution(latent, given, found)
    found.raise_if_any()
    return result


@pytest.mark.parametrize(
    ("latent", "given", "expected"),
    [
        (ADS, [0.3, 0.4, 0.2], "distribution: the probabilities sum to 0.9; expected 1 (within 1e-9)"),
        (ADS, [0.3, 0.4, 0.3 + 2e-9], "distribution: the probabilities sum to 1.000000002; expected 1 (within 1e-9)"),
        (ADS, [0, 0, 0], "distribution: the probabilities sum to 0; expected 1"),
        (ADS, [1e308, 1e308, 1e308], "distribution: the probabilities sum to inf; expected 1"),
        (ADS, [1.5, -0.5, 0], "distribution[1]: got -0.5; expected a probability, 0 or more"),
        (ADS, [0.5, 0.5], "distribution: got [0.5, 0.5]; expected 3 probabilities, not 2"),
        (ADS, [0.5, "n/a", 0.5], 'distribution[1]: got "n/a"; expected a finite number'),
        (ADS, [0.5, math.nan, 0.5], "distribution[1]: got NaN; expected a finite number"),
        (ADS, np.array([math.inf, -math.inf, 1]), "distribution[1]: got -Infinity; expected a finite number"),
        (ADS, "uniform", 'distribution: got "uniform"; expected a list of probabilities'),
        (ADS, 1.0, "distribution: got 1.0; expected a list of probabilities"),
        (ADS, {"student": 1, "pilot": 0}, 'distribution: got "pilot"; expected only values of X: student, worker, retiree'),
        (ADS, {"student": 0.5}, "distribution: the probabilities sum to 0.5"),
        (Discrete([1, 2]), {3: 1.0}, "distribution: got 3; expected only values of X: 1.0, 2.0"),
        (Discrete([1, 2]), {"one": 1.0}, 'distribution: got "one"; expected only values of X: 1.0, 2.0'),
        (Discrete([1, 2]), {None: 1.0}, "distribution: got null; expected only values of X"),
        (LINE, 3, 'distribution: got 3; expected {name = "beta", a = 4, b = 4} or {sample = […]}'),
        (LINE, {"a": 4}, 'distribution: got {"a": 4}; expected {name = "beta"'),
        (LINE, {"name": 4}, "expected {name ="),
        (LINE, {"name": "poisson", "mu": 1}, 'distribution.name: got "poisson"; expected one of arcsine, beta, cauchy'),
        (LINE, {"name": "__class__"}, 'distribution.name: got "__class__"; expected one of'),
        (LINE, {"name": "beta"}, "distribution.a: missing; expected a number (beta takes a, b)"),
        (LINE, {"name": "beta"}, "distribution.b: missing; expected a number (beta takes a, b)"),
        (
            LINE,
            {"name": "beta", "a": 1, "b": 2, "c": 3},
            'distribution: got "c"; expected beta\'s parameters: a, b, loc, scale',
        ),
        (LINE, {"name": "beta", "a": "4", "b": 4}, 'distribution.a: got "4"; expected a finite number'),
        (LINE, {"name": "beta", "a": -1, "b": 4}, "expected parameters that beta allows"),
        (LINE, {"name": "norm", "sd": 0}, "expected parameters that norm allows"),
        (LINE, {"name": "norm", "mean": 1, "loc": 2}, "distribution.loc: another name of loc, which is given as well"),
        (LINE, {"name": "norm", "mean": 50, "sd": 1}, "distribution: norm puts no probability on the support [0, 1]"),
        (LINE, stats.poisson(3), 'distribution.name: got "poisson"'),
        (LINE, stats.norm(np.zeros(3)), "distribution.loc: got [0.0, 0.0, 0.0]; expected a finite number"),
        (Continuous([0, math.inf]), "uniform", "distribution: a uniform law needs a bounded support, or loc and scale"),
        (LINE, {"sample": []}, "distribution.sample: got []; expected a list of values of X"),
        (LINE, {"sample": "abc"}, 'distribution.sample: got "abc"; expected a list of values of X'),
        (LINE, {"sample": np.array(0.5)}, "distribution.sample: got 0.5; expected a list of values of X"),
        (LINE, {"sample": [0.5, 1.5]}, "distribution.sample[1]: got 1.5; expected x in [0, 1]"),
        (LINE, {"sample": [0.5, None]}, "distribution.sample[1]: got null; expected a finite number"),
        (LINE, {"sample": [0.5], "weight": [1]}, 'distribution: got "weight"; expected only sample and weights'),
        (LINE, {"sample": [0.5], "weights": [-1]}, "distribution.weights: expected numbers that are 0 or more, and not all 0"),
        (LINE, {"sample": [0.5], "weights": [0]}, "distribution.weights: expected numbers that are 0 or more, and not all 0"),
        (LINE, {"sample": [0.5], "weights": [1, 2]}, "distribution.weights: got [1, 2]; expected 1 weights, not 2"),
        (
            PLANE,
            [0.5, 0.5],
            "distribution: got [0.5, 0.5]; expected one entry per component ({x1 = …, x2 = …}), or {sample = …}",
        ),
        (PLANE, {"x1": [1, 0, 0], "x3": 1}, 'distribution: got "x3"; expected only components: x1, x2'),
        (PLANE, {"x2": "uniform"}, "distribution.x1: missing; expected 3 probabilities"),
        (PLANE, {"x1": [1, 0, 0]}, 'distribution.x2: got null; expected {name = "beta"'),
        (PLANE, {"x1": [1, 0], "x2": "uniform"}, "distribution.x1: got [1, 0]; expected 3 probabilities, not 2"),
        (PLANE, {"x1": [0, 0, 0], "x2": "uniform"}, "distribution.x1: the probabilities sum to 0; expected 1"),
        (PLANE, {"sample": [[0, 1], [0.5, 1]]}, "distribution.sample[1]: got 0.5; expected x1 in its listed values"),
        (PLANE, {"sample": [[0, 3]]}, "distribution.sample[0]: got 3.0; expected x2 in [0, 2]"),
        (PLANE, {"sample": [0, 1]}, "distribution.sample[0]: got 0; expected a list of numbers"),
        (PLANE, {"sample": [[0, 1, 2]]}, "distribution.sample[0]: got [0, 1, 2]; expected 2 numbers, not 3"),
        (GRID, [[1, 0, 0]], "distribution: got [[1, 0, 0]]; expected 2 rows, not 1"),
        (GRID, [[1, 0], [0, 0]], "distribution[0]: got [1, 0]; expected 3 probabilities, not 2"),
        (GRID, [[0, 0, 0], [0, 0, 0]], "distribution: the probabilities sum to 0"),
        (GRID, [1, 0], "distribution[0]: got 1; expected a list of probabilities"),
        (GRID, "uniform", 'distribution: got "uniform"; expected nested lists of probabilities, 2 × 3'),
    ],
)
def test_distributions_refused(latent: Latent, given: Any, expected: str) -> None:
    assert any(expected in line for line in complaints(lambda: law(latent, given)))


def test_a_wrong_entry_is_not_blamed_on_the_sum_too() -> None:
    assert complaints(lambda: law(ADS, [0.5, "n/a", 0.1])) == ('distribution[1]: got "n/a"; expected a finite number',)


def test_probabilities_within_the_tolerance_are_scaled() -> None:
    p = law(ADS, [0.3, 0.4, 0.3 + 5e-10]).p
    assert math.fsum(p) == pytest.approx(1, abs=1e-15)
    assert law(ADS, {"worker": 0.25, "student": 0.75}).p.tolist() == [0.75, 0.25, 0]
    for keys in ([1, 2], [1.0, 2.0], ["1", "2"], ["1.0", "2.0"]):
        assert law(Discrete([1, 2]), dict(zip(keys, [0.25, 0.75], strict=True))).p.tolist() == [0.25, 0.75]


@settings(max_examples=300)
@given(st.lists(st.floats(0, 1e308), min_size=1, max_size=9).filter(any))
def test_scaling_twice_is_scaling_once(weights: list[float]) -> None:
    once = normalised(np.array(weights))
    assert abs(math.fsum(once) - 1) < 1e-14
    assert normalised(once).tolist() == once.tolist()


def test_laws_and_their_names() -> None:
    named = law(Continuous([-1, 2]), {"name": "normal", "mean": 0.5, "sd": 2})
    frozen = law(Continuous([-1, 2]), stats.norm(0.5, scale=2))
    assert named == frozen == Named("norm", (("loc", 0.5), ("scale", 2.0)), -1, 2)
    assert law(LINE, stats.beta(4, b=2)).parameters == (("a", 4.0), ("b", 2.0), ("loc", 0.0), ("scale", 1.0))
    assert law(LINE, "uniform").parameters == (("loc", 0.0), ("scale", 1.0))
    # headwater's own "uniform" fills the support; scipy's is on [0, 1] unless it says otherwise
    assert law(Continuous([0, 2]), "uniform").ends == (0, 1)
    assert law(Continuous([0, 2]), stats.uniform()).quantile(np.array([1.0]))[0] == 1
    assert law(Continuous([0, math.inf]), {"name": "exponential"}).name == "expon"
    assert law(Continuous([-1, 2]), named) is named  # a distribution that was read already
    assert set(ALIASES.values()) <= set(LAWS)


def test_truncation() -> None:
    cut = law(LINE, {"name": "norm", "mean": 0, "sd": 1})
    u = np.linspace(0, 1, 11)
    x = cut.quantile(u)
    assert x[0] == 0 and x[-1] == 1 and (np.diff(x) > 0).all()
    np.testing.assert_allclose(cut.position(x), u, atol=1e-12)
    grid = np.linspace(0, 1, 10_001)
    assert np.trapezoid(cut.density(grid), grid) == pytest.approx(1, abs=1e-8)


SHAPES: dict[str, dict[str, float]] = {
    "exponnorm": {"K": 1},
    "f": {"dfn": 3, "dfd": 4},
    "invgauss": {"mu": 1},
    "lognorm": {"s": 1},
    "triang": {"c": 0.5},
}


@pytest.mark.parametrize("name", LAWS)
def test_every_law_can_be_read_and_wild_parameters_are_refused(name: str) -> None:
    shapes = [s.strip() for s in (getattr(stats, name).shapes or "").split(",") if s.strip()]
    good = SHAPES.get(name, dict.fromkeys(shapes, 2.0))
    latent = Continuous([-1, 3])
    assert isinstance(law(latent, {"name": name, **good}), Named)
    for wild in (-1.0, 0.0, 1e-300, 1e300, 1e5):
        for key in (*shapes, "loc", "scale"):
            found = Complaints()
            got = as_distribution(latent, {"name": name, **good, key: wild}, found)
            assert (got is None) == bool(found)
            if isinstance(got, Named):
                assert got.ends[1] > got.ends[0]


def test_samples() -> None:
    sample = law(LINE, {"sample": [0.2, 0.5, 0.7], "weights": [1, 2, 1]})
    assert isinstance(sample, Sample) and sample.points.tolist() == [[0.2, 0.5, 0.7]]
    assert sample.weights.tolist() == [0.25, 0.5, 0.25]
    assert law(LINE, {"sample": [0.2, 0.5]}).weights.tolist() == [0.5, 0.5]
    assert law(LINE, {"sample": [0, 1], "weights": [1e308, 1e308]}).weights.tolist() == [0.5, 0.5]
    assert law(PLANE, {"sample": np.array([[0, 1.5], [1, 0]])}).points.tolist() == [[0, 1], [1.5, 0]]


def test_vectors_joint_and_per_component() -> None:
    joint = law(GRID, [[0.1, 0.2, 0.1], [0.2, 0.3, 0.1]])
    assert isinstance(joint, Finite) and joint.p.tolist() == [0.1, 0.2, 0.1, 0.2, 0.3, 0.1]
    assert law(GRID, np.full((2, 3), 1 / 6)).p.sum() == pytest.approx(1)
    each = law(GRID, {"x1": [0.5, 0.5], "x2": [0.25, 0.5, 0.25]})
    assert isinstance(each, Independent) and each.joint().tolist() == [0.125, 0.25, 0.125] * 2
    mixed = law(PLANE, {"x1": [0.5, 0.25, 0.25], "x2": {"name": "uniform"}})
    assert isinstance(mixed.parts[1], Named)
    assert mixed.spec(PLANE)["distribution"] == {"x2": {"name": "uniform", "loc": 0.0, "scale": 2.0}}


def test_a_component_may_be_called_sample() -> None:
    latent = Vector({"sample": [0, 1], "y": [0, 1]})
    assert isinstance(law(latent, {"sample": [0.5, 0.5], "y": [0.5, 0.5]}), Independent)


# arms


def arms(latent: Latent, given: Any, **more: Any) -> Problem:
    return Problem(latent=latent, arms=given, **more)


def raising(x: Any) -> Any:
    raise RuntimeError("no such luck")


@pytest.mark.parametrize(
    ("latent", "given", "expected"),
    [
        (ADS, {}, "arms: got 0; expected at least two"),
        (ADS, {"a": [1, 2, 3]}, "arms: got 1; expected at least two"),
        (ADS, [[1, 2, 3], [1, 2, 3]], "arms: got [[1, 2, 3], [1, 2, 3]]; expected a table of at least two arms"),
        (ADS, None, "arms: got null; expected a table of at least two arms"),
        (ADS, TWO | {"": [1, 2, 3]}, 'arms: got ""; expected a name of 1 to 200 printable characters'),
        (ADS, TWO | {"   ": [1, 2, 3]}, "expected a name of 1 to 200 printable characters"),
        (ADS, TWO | {"a\x1b[31m": [1, 2, 3]}, "expected a name of 1 to 200 printable characters"),
        (ADS, TWO | {"a" * 201: [1, 2, 3]}, "expected a name of 1 to 200 printable characters"),
        (ADS, {1: [1, 2, 3], "b": [1, 2, 3]}, "arms: got 1; expected a name of 1 to 200 printable characters"),
        (ADS, TWO | {"c": [1, 2]}, "arms.c: got [1, 2]; expected 3 rewards, one per latent value, not 2"),
        (ADS, TWO | {"c": [1, "n/a", 2]}, 'arms.c[1]: got "n/a"; expected a finite number'),
        (ADS, TWO | {"c": [1, math.nan, 2]}, "arms.c[1]: got NaN; expected a finite number"),
        (ADS, TWO | {"c": [1, True, 2]}, "arms.c[1]: got true; expected a finite number"),
        (ADS, TWO | {"c": np.array([1, -math.inf, 2])}, "arms.c[1]: got -Infinity; expected a finite number"),
        (ADS, TWO | {"c": [1, 1e301, 2]}, "arms.c[1]: got 1e+301; expected a reward within ±1e+300"),
        (ADS, TWO | {"c": np.array(4.0)}, "arms.c: got 4.0; expected a list of rewards, one per latent value"),
        (ADS, TWO | {"c": 4}, "arms.c: got 4; expected a list of rewards, one per latent value"),
        (ADS, TWO | {"c": None}, "arms.c: got null; expected a list of rewards"),
        (ADS, TWO | {"c": "2*x"}, 'arms.c: got "2*x"; expected a list of rewards: expressions need numeric latent values'),
        (Discrete([0, 1]), {"a": "x", "b": "1/x"}, "arms.b: the reward at x = 0 is inf; expected a finite number"),
        (LINE, CURVES | {"c": [1, 2]}, 'arms.c: got [1, 2]; expected an expression such as "1 - exp(-2*x)"'),
        (LINE, CURVES | {"c": "log(x)"}, "arms.c: the reward at x = 0 is -inf; expected a finite number"),
        (LINE, CURVES | {"c": "sqrt(x - 1)"}, "arms.c: the reward at x = 0 is nan; expected a finite number"),
        (LINE, CURVES | {"c": "1e301*x"}, "expected a finite number, within ±1e+300, everywhere on the support"),
        (
            LINE,
            CURVES | {"c": "x +* 2"},
            'arms.c: this does not read as an expression: invalid syntax (at character 4); got "x +* 2"',
        ),
        (LINE, CURVES | {"c": "y"}, "arms.c: unknown name 'y'; expected one of x, pi, e (at character 1); got \"y\""),
        (Continuous([0, math.inf]), CURVES | {"c": "exp(x)"}, "arms.c: the reward at x = "),
        (PLANE, SUMS | {"c": "x1/x2"}, "arms.c: the reward at x1 = -1, x2 = 0 is -inf"),
        (PLANE, SUMS | {"c": [[1], [2], [3]]}, "a table needs a support that can be listed"),
        (PLANE, SUMS | {"c": {"outcomes": [1], "probabilities": [[1]]}}, "arms.c: a random reward needs a support that can be"),
        (GRID, SUMS | {"c": [[1, 2, 3]]}, "arms.c: got [[1, 2, 3]]; expected 2 rows, not 1"),
        (GRID, SUMS | {"c": [[1, 2, 3], [1, 2]]}, "arms.c[1]: got [1, 2]; expected 3 rewards, one per latent value, not 2"),
        (LINE, CURVES | {"c": raising}, "arms.c: the function raised RuntimeError: no such luck"),
        (ADS, TWO | {"c": raising}, "arms.c: the function raised RuntimeError: no such luck"),
        (LINE, CURVES | {"c": lambda x: "text"}, "arms.c: the function raised ValueError"),
        (LINE, CURVES | {"c": lambda: 1}, "arms.c: the function raised TypeError"),
        (LINE, CURVES | {"c": lambda x: None}, "arms.c: the "),
        (LINE, CURVES | {"c": lambda x: np.zeros(3)}, "arms.c: the function raised ValueError"),
        (LINE, CURVES | {"c": np.log}, "arms.c: the reward at x = 0 is -inf"),
        (Discrete([0, 1]), {"a": np.log, "b": "x"}, "arms.a[0]: got -Infinity; expected a finite number"),
    ],
)
def test_arms_refused(latent: Latent, given: Any, expected: str) -> None:
    assert any(expected in line for line in complaints(lambda: arms(latent, given)))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"outcomes": [0, 1]}, 'arms.c: got ["outcomes"]; expected the keys outcomes and probabilities'),
        ({"outcomes": [0], "probabilities": [], "x": 1}, "expected the keys outcomes and probabilities"),
        (
            {"outcomes": [0, 1], "probabilities": [[1, 0]] * 3, "edges": [0.2, 0.5]},
            "arms.c.edges: got [0.2, 0.5]; expected 1 edges, one between every two outcomes, not 2",
        ),
        (
            {"outcomes": [0, 1], "probabilities": [[1, 0]] * 3, "edges": [1.5]},
            "arms.c.edges: got [1.5]; expected outcomes in ascending order and each edge between two",
        ),
        (
            {"outcomes": [0, 1], "probabilities": [[1, 0]] * 3, "observations": [5, -1, 5]},
            "arms.c.observations: got [5, -1, 5]; expected how many rewards each row rests on, from 0",
        ),
        ({"outcomes": [0, 1], "probabilities": [[1, 0]] * 3, "observations": [5]}, "arms.c.observations: "),
        (
            {"outcomes": [0, 1], "probabilities": [[1, 0]] * 3, "mean_high": [1, 1, 1]},
            "arms.c.mean_high: got no observations beside it; expected on how many rewards each of its entries rests",
        ),
        (
            {"outcomes": [0, 1], "probabilities": [[0.5, 0.5]] * 3, "observations": [5] * 3, "mean_high": [1, 0.4, 1]},
            "arms.c.mean_high[1]: got 0.4; expected a number from the mean there, 0.5, to the largest outcome, 1",
        ),
        (
            {"outcomes": [0, 1], "probabilities": [[0.5, 0.5]] * 3, "observations": [5] * 3, "mean_high": [1, 1, 1.5]},
            "arms.c.mean_high[2]: got 1.5; expected a number from the mean there, 0.5, to the largest outcome, 1",
        ),
        (
            {"outcomes": [0, 1], "probabilities": [[0.5, 0.5]] * 3, "observations": [5] * 3, "mean_high": [1]},
            "arms.c.mean_high: ",
        ),
        ({"outcomes": [1, 0], "probabilities": [[1, 0]] * 3, "edges": [0.5]}, "arms.c.edges: got [0.5]; expected outcomes"),
        ({"outcomes": [0, 1], "probabilities": [[1, 0]] * 3, "edges": ["x"]}, 'arms.c.edges[0]: got "x"; expected a finite'),
        ({"outcomes": [], "probabilities": []}, "arms.c.outcomes: got []; expected at least one outcome, each once"),
        ({"outcomes": [1, 1], "probabilities": []}, "arms.c.outcomes: got [1, 1]; expected at least one outcome, each once"),
        ({"outcomes": [1, "b"], "probabilities": []}, 'arms.c.outcomes[1]: got "b"; expected a finite number'),
        ({"outcomes": 3, "probabilities": []}, "arms.c.outcomes: got 3; expected a list of numbers"),
        ({"outcomes": [0, 1], "probabilities": [[1, 0]]}, "arms.c.probabilities: got [[1, 0]]; expected 3 rows, not 1"),
        ({"outcomes": [0, 1], "probabilities": [[1, 0], [1], [1, 0]]}, "arms.c.probabilities[1]: got [1]; expected 2 prob"),
        (
            {"outcomes": [0, 1], "probabilities": [[1, 0], [0.5, 0.4], [1, 0]]},
            "arms.c.probabilities[1]: the probabilities sum to 0.9; expected 1 (within 1e-9)",
        ),
        (
            {"outcomes": [0, 1], "probabilities": [[1, 0], [1, 0], [2, -1]]},
            "arms.c.probabilities[2][1]: got -1.0; expected a probability, 0 or more",
        ),
        (
            {"outcomes": [0, 1], "probabilities": "x"},
            'arms.c.probabilities: got "x"; expected nested lists of probabilities, 3 × 2',
        ),
    ],
)
def test_random_rewards_refused(given: Any, expected: str) -> None:
    assert any(expected in line for line in complaints(lambda: arms(ADS, TWO | {"c": given})))


def test_random_rewards() -> None:
    coupon = {"outcomes": [0, 3], "probabilities": [[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]]}
    problem = arms(ADS, TWO | {"coupon": coupon})
    arm = problem.arms["coupon"]
    assert isinstance(arm, Random) and not problem.deterministic and arms(ADS, TWO).deterministic
    np.testing.assert_allclose(problem.rewards[2], [0.3, 1.5, 0.9])
    assert parse_problem(problem.to_toml()) == problem
    on_grid = {"outcomes": [0, 1], "probabilities": [[[1, 0], [0, 1], [0.5, 0.5]]] * 2}
    assert arms(GRID, SUMS | {"c": on_grid}).rewards[2].tolist() == [0, 1, 0.5] * 2


@pytest.mark.parametrize("width", [0, -1, math.nan, math.inf, "2", True, [1]])
def test_reward_range_refused(width: Any) -> None:
    (line,) = complaints(lambda: arms(ADS, TWO, reward_range=width))
    assert line == f"reward_range: got {shown(width)}; expected a number above 0"


def test_name_and_latent_refused() -> None:
    assert "name: got" in complaints(lambda: arms(ADS, TWO, name="a\x1b[2Jb"))[0]
    for latent in (None, {"kind": "discrete"}, "discrete", [1, 2]):
        (line,) = complaints(lambda latent=latent: arms(latent, TWO))  # type: ignore[misc]
        assert line == f"latent: got {shown(latent)}; expected Discrete(…), Continuous(…) or Vector(…)"


def test_everything_wrong_is_said_at_once() -> None:
    got = complaints(
        lambda: Problem(
            latent=ADS,
            arms={"a": [1, 2], "b": "x", "c": [1, None, math.nan], "": [1, 2, 3], "d": {"outcomes": []}},
            distribution=[0.5, 0.6, -0.2],
            reward_range=-1,
            name="\n",
        )
    )
    starts = ["arms: got", "reward_range", "name", "arms.a", "arms.b", "arms.c[1]", "arms.c[2]", "arms.d", "distribution[2]"]
    for start in [*starts, "distribution: the probabilities sum to 0.9"]:
        assert any(line.startswith(start) for line in got), start
    assert len(got) == 10


def test_very_many_complaints_are_counted() -> None:
    got = complaints(lambda: arms(Discrete(range(200)), {"a": ["x"] * 200, "b": np.full(200, np.nan)}))
    assert len(got) == MAX_SHOWN + 1 and got[-1] == "… and 201 more"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([10**5000], "a list"),
        ({(1, 2): 3}, "a dict"),
        (object(), "a object"),
        (np.arange(3), "[0, 1, 2]"),
        (np.zeros(1000), "a ndarray"),
        ("é", '"é"'),
        (float("nan"), "NaN"),
    ],
)
def test_shown(value: Any, text: str) -> None:
    assert shown(value) == text


def test_shown_survives_endless_nesting() -> None:
    nest: list[Any] = []
    nest.append(nest)
    assert shown(nest) == "a list"
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "a list"


# functions


def scalar_only(x: Any) -> Any:
    return math.sin(x) if x > 0.5 else 0.0


@pytest.mark.parametrize(
    "function",
    [lambda x: np.where(x > 0.5, np.sin(x), 0), scalar_only, lambda x: [math.sin(v) if v > 0.5 else 0.0 for v in x]],
    ids=["vectorised", "scalar", "list"],
)
def test_functions_vectorised_or_not(function: Callable[..., Any]) -> None:
    x = np.array([0.2, 0.6, 1.0])
    expected = np.array([0, math.sin(0.6), math.sin(1)])
    np.testing.assert_allclose(arms(Discrete(x), {"f": function, "g": "x"}).rewards[0], expected)
    arm = arms(LINE, {"f": function, "g": "x"}).arms["f"]
    assert isinstance(arm, Function)
    np.testing.assert_allclose(arm(x), expected)


def test_a_constant_function_and_one_of_several_components() -> None:
    assert arms(ADS, {"f": lambda x: 3, "g": lambda x: x}).rewards.tolist() == [[3, 3, 3], [0, 1, 2]]
    assert arms(GRID, {"f": lambda a, b: a + 10 * b, "g": "x1"}).rewards[0].tolist() == [0, 10, 20, 1, 11, 21]


# rewards, probes


def test_rewards_are_tabulated_in_order_and_read_only() -> None:
    problem = arms(GRID, {"t": [[1, 2, 3], [4, 5, 6]], "f": "10*x1 + x2", "a": np.arange(6).reshape(2, 3)})
    assert problem.rewards.tolist() == [[1, 2, 3, 4, 5, 6], [0, 1, 2, 10, 11, 12], [0, 1, 2, 3, 4, 5]]
    with pytest.raises(ValueError, match="read-only"):
        problem.rewards[0, 0] = 9


def test_a_product_too_large_to_list() -> None:
    bits = Vector({f"x{i}": [0, 1] for i in range(60)})
    problem = arms(bits, {"a": "x0", "b": "x1"})
    with pytest.raises(SizeError, match=r"2 arms × 1\.15e\+18 points; at most 120,000,000 rewards are tabulated\. Use fewer"):
        _ = problem.rewards
    bits = Vector({f"x{i}": [0, 1] for i in range(24)})
    with pytest.raises(SizeError, match="16,777,216 points"):
        _ = arms(bits, {"a": "x0", "b": "x1"}).rewards
    bits = Vector({f"x{i}": [0, 1] for i in range(1100)})
    with pytest.raises(SizeError, match="countless points"):
        _ = arms(bits, {"a": "x0", "b": "x1"}).rewards


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-math.inf, math.inf), (3, math.inf), (-math.inf, 3), (-1e50, 1e50), (1e50, math.inf)]
)
def test_probes_stay_inside_and_rise(low: float, high: float) -> None:
    x = probes(Continuous([low, high]))[0]
    assert np.isfinite(x).all() and (x >= low).all() and (x <= high).all() and (np.diff(x) >= 0).all()
    assert x[0] == max(low, -FAR) and x[-1] == min(high, FAR)
    assert spread(low, high, np.array([0.0, 1.0])).tolist() == [x[0], x[-1]]


def test_probes_of_a_vector() -> None:
    points = probes(PLANE)
    assert points.shape == (2, 257) and set(points[0]) == {-1, 0, 1} and points[1].min() == 0 and points[1].max() == 2


# identity


def test_frozen() -> None:
    problem = arms(ADS, TWO)
    with pytest.raises(AttributeError, match="a Problem is frozen: cannot set name; build a new one"):
        problem.name = "other"
    with pytest.raises(AttributeError, match="a Problem is frozen: cannot delete arms"):
        del problem.arms
    with pytest.raises(AttributeError):
        ADS.values = ()  # type: ignore[misc]
    table = np.array([1.0, 2.0, 3.0])
    problem = arms(ADS, {"a": table, "b": [1, 2, 3]})
    table[0] = 9  # the problem has its own copy
    assert problem.rewards[0, 0] == 1


GOLDEN = {
    "discrete": "d00909a910c9f5cb829e83f25fc183d3",
    "continuous": "dc14e912193c589a4600e687c5d894c2",
    "vector": "cda1cf71c341a1b0d0cf12c99e5bb8a5",
}


def golden(kind: str) -> Problem:
    if kind == "discrete":
        return arms(ADS, TWO, reward_range=2)
    return arms(LINE, CURVES | {"step": "where(x < .3, 1, 2)"}) if kind == "continuous" else arms(PLANE, SUMS)


@pytest.mark.parametrize("kind", GOLDEN)
def test_the_digest_is_stable(kind: str) -> None:
    """Stored runs are found by it: if this fails, saved results lose their problem."""
    assert golden(kind).digest[:32] == GOLDEN[kind]


def test_equal_by_content() -> None:
    one, two = arms(ADS, TWO), arms(Discrete(("student", "worker", "retiree")), {k: tuple(v) for k, v in TWO.items()})
    assert one == two and hash(one) == hash(two) and one.digest == two.digest and len({one, two}) == 1
    assert one != "something else"
    assert repr(one) == "<Problem unnamed: 2 arms, discrete X>" and "ads" in repr(arms(ADS, TWO, name="ads"))


def test_what_the_digest_leaves_out_and_what_it_does_not() -> None:
    base = arms(ADS, TWO)
    for same in (arms(ADS, TWO, name="ads"), arms(ADS, TWO, distribution=[0.3, 0.4, 0.3])):
        assert same.digest == base.digest and same != base and hash(same) != hash(base)
    others = [
        arms(ADS, TWO | {"c": [0, 0, 0]}),
        arms(ADS, TWO | {"video": [1.5, 0, 1.6]}),
        arms(ADS, dict(reversed(TWO.items()))),
        arms(ADS, {"Banner": TWO["banner"], "video": TWO["video"]}),
        arms(Discrete(["student", "worker", "pensioner"]), TWO),
        arms(Discrete([0, 1, 2]), TWO),
        arms(ADS, TWO, reward_range=2),
    ]
    assert len({p.digest for p in [base, *others]}) == len(others) + 1
    assert arms(LINE, CURVES).digest != arms(Continuous([0, 2]), CURVES).digest
    assert arms(LINE, CURVES).digest != arms(LINE, CURVES | {"fall": "1-x"}).digest


def test_a_function_has_no_digest_but_an_identity() -> None:
    def wave(x: Any) -> Any:
        return np.sin(x)

    problem = arms(LINE, {"f": wave, "g": "x"})
    assert problem == arms(LINE, {"f": wave, "g": "x"}) and problem != arms(LINE, {"f": scalar_only, "g": "x"})
    with pytest.raises(ProblemError, match=r"arms\.f: a Python function has no content to identify; write it as an expression"):
        _ = problem.digest
    with pytest.raises(
        ProblemError, match=r"arms\.f: a Python function cannot be written to a file; write it as an expression"
    ):
        problem.to_toml()


def test_copies_are_equal() -> None:
    problem = arms(PLANE, SUMS, distribution={"x1": [0.5, 0.25, 0.25], "x2": "uniform"}, name="n")
    assert pickle.loads(pickle.dumps(problem)) == copy.deepcopy(problem) == problem


def test_index() -> None:
    problem = arms(ADS, TWO)
    assert problem.names == ("banner", "video")
    assert problem.index("video") == problem.index(1) == problem.index(np.int64(1)) == 1
    for bad in ("radio", 2, -1, True, None, 1.0):
        with pytest.raises(ProblemError, match=r"observed: got .*; expected one of banner, video"):
            problem.index(bad, "observed")  # type: ignore[arg-type]
    many = arms(ADS, {f"a{i}": [1, 2, i] for i in range(30)})
    with pytest.raises(ProblemError, match=r"a19, …$"):
        many.index("b")


def test_arms_that_were_read_already_are_taken_as_they_are() -> None:
    problem = arms(GRID, SUMS | {"t": [[1, 2, 3], [4, 5, 6]]})
    assert isinstance(problem.arms["t"], Table) and isinstance(problem.arms["sum"], Formula)
    assert Problem(latent=GRID, arms=problem.arms) == problem
    with pytest.raises(ProblemError, match=r"arms\.t: got .*; expected 3 rows, not 6"):
        Problem(latent=Vector({"x1": [0, 1, 2], "x2": [0, 1, 2]}), arms=problem.arms)
    with pytest.raises(ProblemError, match=r"arms\.t: got .*; expected an expression"):
        Problem(latent=PLANE, arms=problem.arms)
    with pytest.raises(ProblemError, match=r"arms\.t: got .*; expected an expression"):
        Problem(latent=LINE, arms=problem.arms | {"sum": "x", "difference": "-x"})


def test_a_random_arm_and_a_function_that_were_read_already() -> None:
    coupon = {"outcomes": [0, 3], "probabilities": [[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]]}
    problem = arms(ADS, TWO | {"coupon": coupon})
    assert Problem(latent=ADS, arms=problem.arms) == problem
    with pytest.raises(ProblemError, match=r"arms\.coupon\.probabilities: got .*; expected 2 rows, not 3"):
        Problem(latent=Discrete(["a", "b"]), arms=problem.arms | {"banner": [1, 2], "video": [1, 2]})
    wave = arms(LINE, {"f": scalar_only, "g": "x"})
    assert Problem(latent=LINE, arms=wave.arms) == wave


@pytest.mark.parametrize(
    ("one", "given", "other"),
    [
        (ADS, [0.3, 0.4, 0.3], Discrete(["a", "b"])),
        (ADS, [0.3, 0.4, 0.3], LINE),
        (LINE, "uniform", Continuous([0, 2])),
        (LINE, "uniform", ADS),
        (LINE, "uniform", Vector({"x": {"low": 0, "high": 1}})),
        (LINE, {"sample": [0.2]}, Continuous([0.5, 2])),
        (LINE, {"sample": [0.2]}, PLANE),
        (LINE, {"sample": [0.2]}, ADS),
        (PLANE, {"sample": [[0, 1]]}, LINE),
        (PLANE, {"sample": [[0, 1]]}, Vector({"x1": [5, 6], "x2": [0, 1]})),
        (PLANE, {"x1": [0.5, 0.25, 0.25], "x2": "uniform"}, GRID),
        (PLANE, {"x1": [0.5, 0.25, 0.25], "x2": "uniform"}, LINE),
        (PLANE, {"x1": [0.5, 0.25, 0.25], "x2": "uniform"}, Vector({"x1": [0, 1], "x2": {"low": 0, "high": 2}})),
        (PLANE, {"x1": [0.5, 0.25, 0.25], "x2": "uniform"}, Vector({"x1": [0, 1, 2], "x2": {"low": 0, "high": 3}})),
    ],
)
def test_a_distribution_of_another_support(one: Latent, given: Any, other: Latent) -> None:
    read = law(one, given)
    assert law(one, read) is read
    assert complaints(lambda: law(other, read)) == (
        "distribution: got a distribution on another support; expected one on this problem's",
    )


# the round trip to TOML, over random problems of each kind

numbers = st.one_of(st.integers(-5, 5), st.floats(-1e6, 1e6), st.floats(allow_nan=False, allow_infinity=False, width=32))
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda s: bool(s.strip()) and s.isprintable())
variables = st.sampled_from(["a", "b", "c1", "snr_db"])


@st.composite
def weights(draw: st.DrawFn, n: int) -> list[float]:
    w = np.array(draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))
    return (w / w.sum()).tolist() if w.sum() > 1e-3 else [1 / n] * n


@st.composite
def nested(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    if not shape:
        return draw(numbers)
    return [draw(nested(shape[1:])) for _ in range(shape[0])]


@st.composite
def arm(draw: st.DrawFn, latent: Latent) -> Any:
    kinds: list[str] = ["formula"] * bool(latent.names) + ["table", "random"] * listed(latent)
    kind = draw(st.sampled_from(kinds))
    if kind == "formula":
        var = draw(st.sampled_from(latent.names))
        return draw(st.sampled_from(["{0}", "tanh({0}) - 1", "where({0} < 0.5, 1, 2)", "  3", "sin(40*{0})"])).format(var)
    assert not isinstance(latent, Continuous)
    if kind == "table":
        return draw(nested(latent.shape))
    m = draw(st.integers(1, 3))
    rows = np.array([draw(weights(m)) for _ in range(latent.size)]).reshape(*latent.shape, m)
    return {"outcomes": draw(st.lists(numbers, min_size=m, max_size=m, unique_by=float)), "probabilities": rows.tolist()}


@st.composite
def supports(draw: st.DrawFn) -> Latent:
    kind = draw(st.sampled_from(["labels", "numbers", "continuous", "vector"]))
    if kind == "labels":
        return Discrete(draw(st.lists(names, min_size=1, max_size=4, unique=True)))
    if kind == "numbers":
        return Discrete(draw(st.lists(numbers, min_size=1, max_size=4, unique_by=float)))
    if kind == "continuous":
        ends = [(0, 1), (-2.5, 1e3), (0, math.inf), (-math.inf, math.inf), (-math.inf, 0.1)]
        return Continuous(draw(st.sampled_from(ends)))
    parts: dict[str, Any] = {}
    for name in draw(st.lists(variables, min_size=1, max_size=3, unique=True)):
        low = draw(st.integers(-3, 3))
        finite = st.lists(numbers, min_size=1, max_size=3, unique_by=float)
        parts[name] = draw(st.one_of(finite, st.just({"low": low, "high": low + draw(st.sampled_from([0.1, 1, math.inf]))})))
    return Vector(parts)


@st.composite
def laws(draw: st.DrawFn, low: float, high: float) -> Any:
    choices: list[Any] = [{"name": "norm", "mean": 0.3, "sd": 2}, {"name": "cauchy"}, stats.laplace(0.1, 3)]
    return draw(st.sampled_from(choices + (["uniform"] if math.isfinite(high - low) else [])))


@st.composite
def distributions(draw: st.DrawFn, latent: Latent) -> Any:
    if isinstance(latent, Discrete):
        return draw(weights(latent.size))
    points = probes(latent, 20)
    if draw(st.booleans()):
        rows = points.T[:, 0] if isinstance(latent, Continuous) else points.T
        return {"sample": rows.tolist(), "weights": draw(st.lists(st.integers(1, 9), min_size=20, max_size=20))}
    if isinstance(latent, Continuous):
        return draw(laws(*latent.support))
    if latent.finite and draw(st.booleans()):
        return np.array(draw(weights(latent.size))).reshape(latent.shape).tolist()
    return {
        name: draw(laws(part.low, part.high) if isinstance(part, Interval) else weights(len(part)))
        for name, part in latent.components
    }


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    latent = draw(supports())
    titles = draw(st.lists(names, min_size=2, max_size=4, unique=True))
    given: Mapping[str, Any] = {title: draw(arm(latent)) for title in titles}
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["distribution"] = draw(distributions(latent))
    if draw(st.booleans()):
        more["reward_range"] = draw(st.floats(1e-3, 1e3))
    return Problem(latent=latent, arms=given, name=draw(st.one_of(st.just(""), names)), **more)


@settings(max_examples=250)
@given(problems())
def test_toml_and_back(problem: Problem) -> None:
    again = parse_problem(problem.to_toml())
    assert again == problem and hash(again) == hash(problem) and again.digest == problem.digest
    assert build_problem(problem.to_dict()) == problem
    assert again.to_toml() == problem.to_toml()
