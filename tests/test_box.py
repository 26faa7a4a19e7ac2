"""Pseudo-rewards over boxes: the closed form against a general solver, branch and bound against sampling and geometry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from headwater.arrays import Floats
from headwater.errors import ProblemError
from headwater.expressions import Expression, parse
from headwater.pseudo import box
from headwater.pseudo.box import Bound, bounded_maximum, linear_maximum, unconstrained_maximum

TOLERANCE = 1e-8
whole = st.integers(-4, 4).map(float)


def column(*values: float) -> Floats:
    return np.array(values)[:, None]


def solve(target: str, observed: str, rewards: ArrayLike, lo: Floats, hi: Floats, budget: int = 9_999) -> Bound:
    names = ["x", "y", "z"][: len(lo)]
    r = np.asarray(rewards, dtype=float)
    f, g = parse(target, names), parse(observed, names)
    return bounded_maximum(f, g, r, r, lo, hi, tolerance=TOLERANCE, budget=budget)


def program(c: Floats, a: Floats, r: float, lo: Floats, hi: Floats) -> float:
    result = linprog(-c, A_eq=a[None], b_eq=[r], bounds=list(zip(lo.tolist(), hi.tolist(), strict=True)))
    assert result.status == 0 and result.fun is not None
    return -float(result.fun)


def most_found(f: Expression, g: Expression, low: float, high: float, lo: Floats, hi: Floats, seed: int) -> float:
    """The slow obvious oracle: bisect observed towards the reward on many random segments, keep the best that pays it."""
    rng = np.random.default_rng(seed)
    u, v = (rng.uniform(lo, hi, (len(lo), 4_000)) for _ in range(2))
    for ends in (u, v):  # many on the faces of the box, where maxima like to lie
        where = rng.random(ends.shape)
        ends[:] = np.where(where < 0.2, lo, np.where(where > 0.8, hi, ends))
    side = np.sign(g(*u) - (low + high) / 2)
    best = -np.inf
    for _ in range(56):
        middle = (u + v) / 2
        pays, value = g(*middle), f(*middle)
        best = max(best, np.max(value[(pays >= low) & (pays <= high)], initial=-np.inf))
        same = np.sign(pays - (low + high) / 2) == side
        u, v = np.where(same, middle, u), np.where(same, v, middle)
    return best


# The closed form


@given(st.data(), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_linear_maximum_is_the_linear_programs_value(data: st.DataObject, d: int) -> None:
    c, a, lo, width = (np.array(data.draw(st.lists(whole, min_size=d, max_size=d))) for _ in range(4))
    hi = lo + abs(width)
    t = data.draw(st.floats(0, 1))
    reward = float(a @ (lo + t * (hi - lo)))
    bound = linear_maximum(c, 0.5, a, -1.0, lo, hi, np.array([reward - 1.0]))
    assert bound.upper[0] == pytest.approx(program(c, a, reward, lo, hi) + 0.5, abs=1e-7)
    assert 0 <= bound.upper[0] - bound.lower[0] <= 1e-12


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(-2, 0), st.floats(0, 2)), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_linear_maximum_bounds_every_point_of_the_box(rows: list[tuple[float, float, float, float]]) -> None:
    c, a, lo, hi = np.array(rows).T
    x = np.random.default_rng(1).uniform(lo, hi, (300, len(c)))
    bound = linear_maximum(c, 0.0, a, 0.0, lo, hi, x @ a)
    assert np.all(bound.upper >= x @ c - 1e-13)
    assert np.all(bound.lower <= bound.upper)


def test_the_papers_example_is_exact() -> None:
    c, a, r = np.array([0.1, 1.0]), np.array([1.0, 0.1]), np.linspace(0, 1.1, 111)
    bound = linear_maximum(c, 0.0, a, 0.0, np.zeros(2), np.ones(2), r)
    expected = [program(c, a, reward, np.zeros(2), np.ones(2)) for reward in r]
    np.testing.assert_allclose(bound.upper, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(bound.upper, bound.lower, rtol=0, atol=1e-14)


def test_linear_rewards_are_clipped_by_rounding_only() -> None:
    one = np.ones(1)
    bound = linear_maximum(2 * one, 0.0, one, 0.0, 0 * one, one, np.array([-1e-14, 1 + 1e-14, -0.01, 1.01]))
    np.testing.assert_allclose(bound.upper, [0, 2, -np.inf, -np.inf], atol=1e-12)
    np.testing.assert_allclose(bound.lower, [0, 2, -np.inf, -np.inf], atol=1e-12)


def test_linear_edge_cases() -> None:
    lo, hi = np.array([0.0, -np.inf]), np.array([2.0, np.inf])
    constant = linear_maximum(np.array([3.0, 0.0]), 1.0, np.zeros(2), 4.0, lo, hi, np.array([4.0, 5.0]))
    np.testing.assert_allclose(constant.upper, [7.0, -np.inf])
    tiny = linear_maximum(np.array([1.0, 1.0]), 0.0, np.array([1e-320, 1.0]), 0.0, np.zeros(2), np.ones(2), np.ones(1))
    assert 2.0 <= tiny.upper[0] <= 2.0 + 1e-12
    with pytest.raises(ProblemError, match="expected finite ends wherever a coefficient is not 0"):
        linear_maximum(np.array([1.0, 1.0]), 0.0, np.zeros(2), 0.0, lo, hi, np.array([0.0]))


# Branch and bound: known answers


def test_circle() -> None:
    r = np.linspace(0.05, 1.95, 20)
    bound = solve("x + y", "x**2 + y**2", r, column(0, 0), column(1, 1))
    assert np.all(bound.upper >= np.sqrt(2 * r)) and np.all(bound.upper <= np.sqrt(2 * r) + 2 * TOLERANCE)
    assert np.all(bound.upper - bound.lower <= TOLERANCE)


def test_sphere() -> None:
    r = np.array([0.3, 0.9, 2.0])
    bound = solve("x + y + z", "x**2 + y**2 + z**2", r, column(-1, -1, -1), column(1, 1, 1))
    np.testing.assert_allclose(bound.upper, np.sqrt(3 * r), rtol=0, atol=2 * TOLERANCE)
    assert np.all(bound.upper >= np.sqrt(3 * r))


@pytest.mark.parametrize(
    ("target", "observed", "expected"),
    [
        pytest.param("x*y", "x + y", lambda r: r**2 / 4, id="product"),
        pytest.param("exp(x) + exp(y)", "x + y", lambda r: np.e + np.exp(r - 1) if r > 1 else 1 + np.exp(r), id="exp"),
        pytest.param("min(x, y)", "x + y", lambda r: r / 2, id="min"),
        pytest.param("max(x, y)", "x + y", lambda r: min(r, 1), id="max"),
        pytest.param("abs(x - y)", "x + y", lambda r: min(r, 2 - r), id="abs"),
        pytest.param("x", "abs(x - 0.5) + y", lambda r: min(r + 0.5, 1), id="abs-observed"),
        pytest.param("where(x < 0.3, 2*y, y)", "x + y", lambda r: min(2 * r, 2) if r < 1.3 else 1, id="where"),
        pytest.param("x", "where(y < 0.7, x, x/2)", lambda r: min(2 * r, 1) if r <= 0.5 else r, id="where-observed"),
        pytest.param("floor(4*x) + y", "x", lambda r: np.floor(4 * r) + 1, id="floor"),
        pytest.param("y", "max(x, 0.5)", lambda r: 1 if r >= 0.5 else -np.inf, id="flat"),
        pytest.param("sqrt(x*y)", "x + 2*y", lambda r: r / 8**0.5, id="sqrt"),
    ],
)
def test_known_answers_on_the_unit_square(target: str, observed: str, expected: object) -> None:
    assert callable(expected)
    r = np.array([0.1, 0.37, 0.5, 0.81, 1.23, 1.7])
    truth = np.array([expected(reward) for reward in r], dtype=float)
    truth[r > {"x + y": 2, "x + 2*y": 3, "abs(x - 0.5) + y": 1.5}.get(observed, 1)] = -np.inf
    bound = solve(target, observed, r, column(0, 0), column(1, 1))
    assert np.all(bound.upper >= truth)
    np.testing.assert_allclose(bound.upper, truth, rtol=0, atol=2e-8)
    paid = np.isfinite(truth)
    assert np.all(bound.upper[paid] - bound.lower[paid] <= TOLERANCE)
    assert np.all(bound.lower[~paid] == -np.inf)


@given(st.data(), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_linear_arms_agree_with_the_closed_form(data: st.DataObject, d: int) -> None:
    c, a = (np.array(data.draw(st.lists(whole, min_size=d, max_size=d))) for _ in range(2))
    names = ["x", "y", "z", "w"][:d]
    f, g = (parse(" + ".join(f"({k})*{n}" for k, n in zip(q, names, strict=True)), names) for q in (c, a))
    r = np.array([a @ np.full(d, t) for t in (0.2, 0.5, 0.9)])
    closed = linear_maximum(c, 0.0, a, 0.0, np.zeros(d), np.ones(d), r)
    bound = bounded_maximum(f, g, r, r, np.zeros((d, 1)), np.ones((d, 1)), tolerance=1e-9, budget=3)
    np.testing.assert_allclose(bound.upper, closed.upper, rtol=0, atol=1e-9)


def test_wide_reward_interval() -> None:
    f, g = parse("y - 3*x", ["x", "y"]), parse("x*x + y", ["x", "y"])
    low, high = np.array([0.2, 1.2]), np.array([0.4, 1.5])
    bound = bounded_maximum(f, g, low, high, column(0, 0), column(1, 1), tolerance=1e-9, budget=9_999)
    np.testing.assert_allclose(bound.upper, [0.4, 1 - 3 * np.sqrt(0.2)], rtol=0, atol=1e-8)


def test_unbounded_sides() -> None:
    bound = solve("exp(-x*x) + y", "tanh(x) + y", [0.5], column(-np.inf, 0), column(np.inf, 1))
    x = np.linspace(np.arctanh(-0.5), np.arctanh(0.5), 100_001)
    truth = np.max(np.exp(-x * x) + 0.5 - np.tanh(x))
    assert truth <= bound.upper[0] <= truth + 2e-8
    ray = solve("x", "exp(-x)", [0.01, 2.0], column(0), column(np.inf))
    np.testing.assert_allclose(ray.upper, [np.log(100), -np.inf], atol=1e-7)


def test_finite_components_are_degenerate_boxes() -> None:
    choices = np.array([-1.0, 0.0, 2.0])
    lo, hi = np.stack([choices, np.zeros(3)]), np.stack([choices, np.ones(3)])
    bound = solve("x*y", "x + y", [0.5, 2.25, 1.5], lo, hi)
    np.testing.assert_allclose(bound.upper, [0.0, 0.5, -np.inf], atol=1e-8)
    points = solve("10*x", "x*x", [1.0, 4.0, 9.0], choices[None], choices[None])
    np.testing.assert_allclose(points.upper, [-10.0, 20.0, -np.inf], atol=1e-8)


def test_unconstrained_maximum() -> None:
    upper, lower = unconstrained_maximum(
        parse("sin(x) - (y - 1)**2", ["x", "y"]), column(0, 0), column(5, 3), tolerance=1e-9, budget=9_999
    )
    assert lower <= 1.0 <= upper + 1e-15 and upper - lower <= 1e-9


# Branch and bound: properties

LEAVES = st.one_of(st.sampled_from(["x", "y", "x", "y"]), st.integers(-15, 15).map(lambda k: f"({k / 10})"))


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.sampled_from(["exp(-abs({}))", "sin({})", "abs({})", "({})**2", "sqrt(abs({}))", "floor(2*{})", "tanh({})"])
    two = st.sampled_from(["({} + {})", "({} - {})", "({} * {})", "min({}, {})", "max({}, {})", "{}/(2 + sin({}))"])
    three = st.just("where({} < 0.2, {}, {})")
    shapes = st.one_of(one, two, two, three)
    return st.tuples(shapes, inner, inner, inner).map(lambda parts: parts[0].format(*parts[1:]))


texts = st.recursive(LEAVES, grow, max_leaves=8)


@given(texts, texts, st.tuples(st.floats(0, 1), st.floats(0, 1)), st.sampled_from([1e-12, 0.05]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_never_below_any_point(target: str, observed: str, at: tuple[float, float], half: float, seed: int) -> None:
    f, g = parse(target, ["x", "y"]), parse(observed, ["x", "y"])
    lo, hi = column(-1.2, -0.3), column(1.0, 1.7)
    x = lo + column(*at) * (hi - lo)
    reward, value = float(g(*x)[0]), float(f(*x)[0])
    half *= max(1.0, abs(reward))
    low, high = np.array([reward - half]), np.array([reward + half])
    bound = bounded_maximum(f, g, low, high, lo, hi, tolerance=1e-6, budget=600)
    truth = max(value, most_found(f, g, reward - half, reward + half, lo, hi, seed))
    assert bound.upper[0] >= truth - 1e-13 * (1 + abs(truth))
    assert bound.upper[0] >= bound.lower[0]


SMOOTH = [
    ("exp(-(x-.3)**2 - (y-.6)**2)", "sin(3*x) + y*y"),
    ("exp(x) - y", "exp(-x)*y + x"),
    ("x*y - y**3", "x + y*y"),
    ("min(x, y) + abs(x - 0.4)", "max(x, 1 - y)"),
    ("x/(1 + y)", "tanh(x + 2*y)"),
]


@pytest.mark.parametrize(("target", "observed"), SMOOTH)
def test_the_gap_closes_on_ordinary_arms(target: str, observed: str) -> None:
    f, g = parse(target, ["x", "y"]), parse(observed, ["x", "y"])
    lo, hi = column(0, 0), column(1, 1)
    r = g(*np.random.default_rng(5).uniform(lo, hi, (2, 6)))
    bound = bounded_maximum(f, g, r - 1e-12, r + 1e-12, lo, hi, tolerance=TOLERANCE, budget=2_000)
    assert np.all(bound.upper - bound.lower <= TOLERANCE)
    for i, reward in enumerate(r):
        found = most_found(f, g, reward - 1e-12, reward + 1e-12, lo, hi, i)
        assert found <= bound.upper[i] <= found + 1e-3  # sampling comes close to the maximum, never above


@pytest.mark.parametrize("budget", [1, 5, 20, 100])
def test_an_exhausted_budget_still_bounds(budget: int) -> None:
    r = np.linspace(0.1, 1.9, 7)
    bound = solve("x + y", "x**2 + y**2", r, column(-1, -1), column(1, 1), budget=budget)
    assert np.all(bound.upper >= np.sqrt(2 * r))
    assert np.all(bound.lower <= np.sqrt(2 * r) + 1e-11)


def test_a_jump_no_enclosure_can_decide_leaves_an_honest_gap() -> None:
    bound = solve("y", "where(x < y, x, 5)", [0.5, 5.0], column(0, 0), column(1, 1), budget=500)
    np.testing.assert_allclose(bound.upper, [1.0, 1.0], atol=1e-2)
    assert np.all(bound.upper >= [1.0, 1.0])


def test_an_arm_that_may_not_exist_is_searched_to_its_last_point() -> None:
    bound = solve("log(x)", "x", [0.5, 1.0], column(0), column(1))
    assert np.all(bound.upper >= np.log([0.5, 1.0]))
    np.testing.assert_allclose(bound.upper, np.log([0.5, 1.0]), atol=1e-8)
    edge = solve("sqrt(1 - x*x)", "x", [0.6, 1.0], column(0), column(1))
    np.testing.assert_allclose(edge.upper, [0.8, np.sqrt(2e-12)], atol=1e-8)


def test_no_reward_and_no_box() -> None:
    assert solve("x", "x", [], column(0), column(1)).upper.shape == (0,)
    nothing = solve("x", "x", [0.5], np.zeros((1, 0)), np.zeros((1, 0)))
    assert nothing == Bound(np.array([-np.inf]), np.array([-np.inf]))


def test_the_size_of_a_batch_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    lo, hi = np.array([[0.0, 0.5], [0.0, 0.0]]), np.array([[0.5, 1.0], [1.0, 1.0]])
    r = np.linspace(0.1, 1.9, 9)
    together = solve("x + y", "x**2 + y**2", r, lo, hi)
    for name, size in (("_BLOCK", 3), ("_REWARDS", 2), ("_SHARE", 1), ("_SAMPLED", 1)):
        monkeypatch.setattr(box, name, size)
    apart = solve("x + y", "x**2 + y**2", r, lo, hi)
    np.testing.assert_allclose(apart.upper, together.upper, rtol=0, atol=TOLERANCE)


def test_wrong_shapes_are_refused() -> None:
    f, g, r = parse("x", ["x"]), parse("y", ["y"]), np.zeros(1)
    with pytest.raises(ProblemError, match=r"observed: got the variables \('y',\); expected \('x',\), like target"):
        bounded_maximum(f, g, r, r, column(0), column(1), tolerance=1, budget=1)
    with pytest.raises(ProblemError, match=r"boxes: got shapes \(2, 1\) and \(1, 1\); expected \(1, N\) twice"):
        bounded_maximum(f, f, r, r, column(0, 0), column(1), tolerance=1, budget=1)
