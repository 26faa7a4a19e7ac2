"""Continuous X: preimages against closed forms and dense brute force, and what must be refused.

The yardstick: never below the true maximum, never above the maximum over {x : |g_k(x) - r| <= 1e-12 of the range} by more
than 1e-8 of the target's range.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

import headwater as hw
from headwater.arrays import Floats
from headwater.expressions import parse
from headwater.problem import Function
from headwater.pseudo import model_of
from headwater.pseudo.pieces import from_expression, from_function
from headwater.pseudo.scalar import ScalarModel

TARGETS = ("x", "1 - x", "sin(3*x)", "abs(x - 0.37)", "exp(-(x - 0.6)**2 / 0.002)", "x*(1 - x)")
FAR_TARGETS = ("tanh(x)", "1/(1 + (x - 2)**2)", "exp(-x**2)")
steps = np.concatenate([[0.0], np.logspace(-17, 0, 18 * 20)])
STEPS = np.concatenate([-steps, steps])


def problem(support: tuple[float, float] = (0, 1), **arms: object) -> hw.Problem:
    return hw.Problem(latent=hw.Continuous(support), arms=arms)


def scalar(p: hw.Problem) -> ScalarModel:
    model = model_of(p)
    assert isinstance(model, ScalarModel)
    return model


def check(observed: str, reward: float, preimages: Floats, support: tuple[float, float] = (0, 1)) -> None:
    """Hold s(reward) for a set of targets to the yardstick; ``preimages``: points of every branch of the preimage."""
    targets = TARGETS if np.isfinite(support).all() else FAR_TARGETS
    p = problem(support, observed=observed, **{f"t{i}": t for i, t in enumerate(targets)})
    g = parse(observed, ["x"])
    lowest, highest = scalar(p).ranges[0]
    around = np.clip((preimages[:, None] + (1 + abs(preimages[:, None])) * STEPS).ravel(), *support)
    inside = around[abs(g(around) - reward) <= 1e-12 * (highest - lowest)]
    for i, target in enumerate(targets):
        f = parse(target, ["x"])
        s = hw.pseudo_reward(p, target=f"t{i}", observed="observed", reward=reward)
        assert isinstance(s, float)
        low, high = scalar(p).ranges[i + 1]
        assert s >= np.max(f(preimages)) - 1e-15, (observed, target)
        assert s <= np.max(f(np.append(inside, preimages))) + 1e-8 * (high - low), (observed, target)


fractions = st.floats(1e-6, 1 - 1e-6)
# shrinking would run thousands of searches; what fails is small as it is
PHASES = (Phase.explicit, Phase.generate)
quick = settings(derandomize=True, deadline=None, max_examples=5, phases=PHASES)


@quick
@given(fractions)
def test_bump(u: float) -> None:
    r = math.exp(-0.25 / 0.08) + u * (1 - math.exp(-0.25 / 0.08))
    half = math.sqrt(-0.08 * math.log(r))
    check("exp(-(x - 0.5)**2 / 0.08)", r, np.array([0.5 - half, 0.5 + half]))


@quick
@given(st.floats(-0.999999, 0.999999))
def test_waves(r: float) -> None:
    n = np.arange(-1, 8)
    x = np.concatenate([(math.asin(r) + 2 * np.pi * n) / 40, (np.pi - math.asin(r) + 2 * np.pi * n) / 40])
    check("sin(40*x)", r, x[(x >= 0) & (x <= 1)])


@quick
@given(fractions)
def test_kink(u: float) -> None:
    r = 0.7 * u
    x = np.array([0.3 - r, 0.3 + r])
    check("abs(x - 0.3)", r, x[x >= 0])


@pytest.mark.parametrize(
    ("observed", "peak", "at"),
    [
        ("exp(-(x - 0.5)**2 / 0.08)", 1.0, [0.5]),
        ("x*(1 - x)", 0.25, [0.5]),
        ("sin(40*x)", 1.0, [(0.5 + 2 * j) * np.pi / 40 for j in range(7) if (0.5 + 2 * j) * np.pi / 40 <= 1]),
        ("sin(40*x)", -1.0, [(1.5 + 2 * j) * np.pi / 40 for j in range(6)]),
        ("abs(x - 0.3)", 0.0, [0.3]),
        ("-abs(x - 0.3)**0.5", 0.0, [0.3]),
        ("(x - 0.5)**4", 0.0, [0.5]),
        ("min(x, 1.2 - x)", 0.6, [0.6]),
        ("x**3", 0.0, [0.0]),
        ("x**3", 1.0, [1.0]),
    ],
)
def test_peaks_and_ends(observed: str, peak: float, at: list[float]) -> None:
    check(observed, peak, np.array(at))


@quick
@given(fractions)
def test_rise_and_fall_without_end(u: float) -> None:
    r = u / math.e
    x = np.array([-lambertw(-r, branch).real for branch in (0, -1)])
    check("x*exp(-x)", r, x, (0, math.inf))


@quick
@given(fractions)
def test_both_ends_infinite(u: float) -> None:
    x = math.sqrt(1 / u - 1)
    check("1/(1 + x**2)", u, np.array([-x, x]), (-math.inf, math.inf))
    check("1/(1 + x**2)", u, np.array([x]), (0, math.inf))
    check("1/(1 + x**2)", u, np.array([-x]), (-math.inf, 0))


@quick
@given(st.floats(1e-3, 1 - 1e-3))
def test_an_infinite_end_is_inverted_as_well_as_a_finite_one(u: float) -> None:
    check("tanh(x)", u, np.array([math.atanh(u)]), (0, math.inf))
    check("tanh(x)", u, np.array([math.atanh(u)]), (-3, math.inf))
    check("exp(-x)", u, np.array([-math.log(u)]), (-1, math.inf))
    check("x/(1 + abs(x))", -u, np.array([-u / (1 - u)]), (-math.inf, math.inf))


def test_steps_are_whole_stretches() -> None:
    p = problem(step="where(x < 0.3, 1, 2)", up="x", down="1 - x", bump="exp(-(x - 0.3)**2)")
    assert hw.pseudo_reward(p, target="up", observed="step", reward=1) == pytest.approx(0.3, abs=1e-15)
    assert hw.pseudo_reward(p, target="up", observed="step", reward=2) == 1
    assert hw.pseudo_reward(p, target="down", observed="step", reward=1) == 1
    assert hw.pseudo_reward(p, target="down", observed="step", reward=2) == pytest.approx(0.7, abs=1e-15)
    assert np.allclose(hw.pseudo_reward(p, target="bump", observed="step", reward=[1, 2]), 1, atol=1e-12)
    with pytest.raises(hw.RewardError, match=r"got 1\.5; arm step can pay 1, or 2"):
        hw.pseudo_reward(p, target="up", observed="step", reward=1.5)


def test_floors_have_many_steps() -> None:
    p = problem(stair="floor(10*x)", up="x", wave="sin(40*x)")
    s = hw.pseudo_reward(p, target="up", observed="stair", reward=np.arange(11.0))
    assert np.allclose(s, np.append(np.arange(1, 11) / 10, 1.0), rtol=0, atol=1e-12)
    x = np.linspace(0, 1, 100_001)
    for r in range(10):
        s_wave = hw.pseudo_reward(p, target="wave", observed="stair", reward=r)
        assert abs(float(s_wave) - np.sin(40 * x[np.floor(10 * x) == r]).max()) < 5e-4  # the grid's step times the slope


def test_a_single_point_of_its_own() -> None:
    p = problem(spike="where(x == 0.3, 5, 0)", up="x")
    assert hw.pseudo_reward(p, target="up", observed="spike", reward=5) == pytest.approx(0.3, abs=1e-15)
    assert hw.pseudo_reward(p, target="spike", observed="up", reward=0.3) == 5
    assert hw.pseudo_reward(p, target="spike", observed="up", reward=0.31) == 0


def test_plateaus_next_to_slopes() -> None:
    p = problem(ramp="min(max(x - 0.4, 0), 0.2)", up="x", down="1 - x", bump="exp(-(x - 0.2)**2 / 0.001)")
    assert hw.pseudo_reward(p, target="up", observed="ramp", reward=0) == pytest.approx(0.4, abs=1e-12)
    assert hw.pseudo_reward(p, target="bump", observed="ramp", reward=0) == pytest.approx(1, abs=1e-12)
    assert hw.pseudo_reward(p, target="down", observed="ramp", reward=0.2) == pytest.approx(0.4, abs=1e-12)
    assert hw.pseudo_reward(p, target="up", observed="ramp", reward=0.2) == 1
    assert hw.pseudo_reward(p, target="up", observed="ramp", reward=0.1) == pytest.approx(0.5, abs=1e-12)
    assert hw.pseudo_reward(p, target="down", observed="ramp", reward=1e-9) == pytest.approx(0.6, abs=1e-8)


def test_a_constant_tells_nothing() -> None:
    p = problem(constant="0.5", wave="sin(40*x)", step="where(x < 0.3, 1, 2)")
    assert hw.pseudo_reward(p, target="wave", observed="constant", reward=0.5) == pytest.approx(1, abs=1e-12)
    assert hw.pseudo_reward(p, target="step", observed="constant", reward=0.5) == 2
    assert hw.pseudo_reward(p, target="constant", observed="wave", reward=0.3) == 0.5
    with pytest.raises(hw.RewardError, match=r"arm constant can pay 0\.5"):
        hw.pseudo_reward(p, target="wave", observed="constant", reward=0.6)


# Inversion


@pytest.mark.parametrize(
    ("text", "low", "high", "inverse"),
    [
        ("exp(x)", 0.0, 1.0, np.log),
        ("1 - exp(-2.5*x)", 0.0, 1.0, lambda r: -np.log1p(-r) / 2.5),
        ("x**3", -2.0, 2.0, np.cbrt),
        ("sqrt(x)", 0.0, 9.0, np.square),
        ("-2*x + 1", -4.0, 1.0, lambda r: (1 - r) / 2),
        ("log(x)", 0.01, 50.0, np.exp),
        ("1/(1 + x)", 0.0, math.inf, lambda r: 1 / r - 1),
        ("x/(1 + x)", 0.0, math.inf, lambda r: r / (1 - r)),
    ],
)
def test_inversion_to_1e_12_relative_in_x(text: str, low: float, high: float, inverse: Callable[[Floats], Floats]) -> None:
    pieces = from_expression("g", parse(text, ["x"]), low, high)
    x = low + (min(high, low + 5) - low) * np.linspace(0.1, 0.9, 41)
    r = pieces.function(x)
    which, a, b = pieces.preimage(r, 0.0)
    hit = np.isin(which, np.arange(len(r)))
    assert hit.all() and len(np.unique(which)) == len(r)
    exact = np.asarray(inverse(r))[which]
    assert np.all(abs(a - exact) <= 1e-12 * np.maximum(abs(exact), 1e-3))
    assert np.all(abs(b - exact) <= 1e-12 * np.maximum(abs(exact), 1e-3))


def test_reveal() -> None:
    arms = {
        "up": "x + x**3",
        "jumps but never repeats": "where(x < 0.5, x, x + 1)",
        "folds without overlap": "where(x < 0.5, x, 1.5 - x)",
        "meets itself": "where(x <= 0.5, x, 1.5 - x)",
        "bump": "x*(1 - x)",
        "flat": "max(x, 0.3)",
        "steps": "floor(3*x)",
        "constant": "1",
    }
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms=arms)
    assert hw.analyze(p, "uniform").invertible == ("up", "jumps but never repeats", "folds without overlap")
    assert hw.pseudo_reward(p, target="up", observed="meets itself", reward=0.5) == 2


# Rewards no x pays


def test_a_reward_out_of_range_gives_the_range() -> None:
    p = problem(a="where(x < 0.5, x, x + 1)", b="x")
    with pytest.raises(hw.RewardError, match=r"reward: got 0\.75; arm a can pay 0 to 0\.5, or 1\.5 to 2"):
        hw.pseudo_reward(p, target="b", observed="a", reward=0.75)
    for r in (-0.1, 2.1):
        with pytest.raises(hw.RewardError, match=f"got {r}; arm a can pay 0 to 0.5, or 1.5 to 2"):
            hw.pseudo_reward(p, target="b", observed="a", reward=[0.25, r])
    assert hw.pseudo_reward(p, target="b", observed="a", reward=2 + 1e-9) == 1
    assert hw.pseudo_reward(p, target="b", observed="a", reward=0.75, tolerance=0.2) == pytest.approx(0.5, abs=1e-12)
    assert hw.pseudo_reward(p, target="b", observed="a", reward=1.25, tolerance=0.2) == pytest.approx(0.5, abs=1e-12)


def test_shape_and_order_are_kept() -> None:
    p = problem(a="exp(x)", b="x")
    x = np.array([[0.9, 0.1, 0.5], [0.5, 0.0, 1.0]])
    s = hw.pseudo_reward(p, target="b", observed="a", reward=np.exp(x))
    assert isinstance(s, np.ndarray) and s.shape == x.shape
    np.testing.assert_allclose(s, x, rtol=0, atol=2e-12)
    one = np.array([hw.pseudo_reward(p, target="b", observed="a", reward=float(r)) for r in np.exp(x).ravel()], dtype=float)
    np.testing.assert_allclose(s.ravel(), one, rtol=0, atol=1e-15)


# Refusals


@pytest.mark.parametrize(
    ("text", "support"),
    [
        ("1/(x - 0.3)", (0, 1)),
        ("1/(x - 1/3)", (0, 1)),
        ("1/(x*x - 0.3)", (0, 1)),
        ("1/abs(x*x - 0.3)**0.5", (0, 1)),
        ("abs(x*x - 0.3)**(-0.1)", (0, 1)),
        ("log(x)", (0, 1)),
        ("log(abs(x*x - 0.3))", (0, 1)),
        ("x*log(abs(x*x - 0.7))", (0, 1)),
        ("sqrt(x - 0.5)", (0, 1)),
        ("x**0.5", (-1, 1)),
        ("where(x == 0.3, 1/(x - 0.3), 0)", (0, 1)),
        ("x", (0, math.inf)),
        ("-x", (-math.inf, 0)),
        ("log(1 + x)", (0, math.inf)),
        ("exp(x)", (0, math.inf)),
        ("sqrt(abs(x))", (-math.inf, math.inf)),
        ("x/x", (-1, 1)),
    ],
)
def test_unbounded_or_undefined_arms_are_refused(text: str, support: tuple[float, float]) -> None:
    with pytest.raises(hw.ProblemError, match=r"arms\.a: .*(finite|bounded)"):
        hw.pseudo_reward(problem(support, a=text, b="0.5"), target="b", observed="a", reward=0.5)


@pytest.mark.parametrize(
    ("text", "support"),
    [
        ("sqrt(1 - x)", (0, 1)),
        ("sqrt(1 - x*x)", (-1, 1)),
        ("sqrt(max(0.3 - x*x, 0))", (0, 1)),
        ("x**0.05", (0, 1)),
        ("abs(x*x - 0.3)**0.05", (0, 1)),
        ("where(x > 0.1, 1/x, 10)", (0, 1)),
        ("1e6*x*exp(-x)", (0, math.inf)),
    ],
)
def test_bounded_arms_with_a_hard_edge_are_not(text: str, support: tuple[float, float]) -> None:
    p = problem(support, a=text, b="tanh(x)")
    x = np.linspace(max(support[0], -9.0), min(support[1], 9.0), 501)
    s = np.asarray(hw.pseudo_reward(p, target="b", observed="a", reward=parse(text, ["x"])(x)))
    assert np.all(s >= np.tanh(x) - 1e-15)


def test_functions_that_are_not_finite_are_refused() -> None:
    with pytest.raises(hw.ProblemError, match=r"arms\.a: the reward at x = 0 is inf"):
        problem(a=lambda x: np.where(x > 0, 1.0, np.inf), b="x")
    with pytest.raises(hw.ProblemError, match=r"arms\.a: the function raised ZeroDivisionError"):
        problem(a=lambda x: 1 / 0, b="x")


def test_a_function_that_fails_between_the_probes_is_refused() -> None:
    p = problem(a=lambda x: np.where(abs(x - 0.001) < 0.0003, np.nan, x), b="x")
    with pytest.raises(hw.ProblemError, match=r"arms\.a: the reward at x = 0\.000\d+ is not finite"):
        hw.pseudo_reward(p, target="b", observed="a", reward=0.5)


# Python functions


@pytest.mark.parametrize(
    "text",
    [
        "exp(-(x - 0.5)**2 / 0.08)",
        "sin(40*x)",
        "where(x < 0.3, 1, 2)",
        "max(x - 0.4, 0)",
        "0.5",
        "abs(x - 0.3)",
        "x**3",
        "floor(5*x)",
    ],
)
def test_functions_agree_with_expressions(text: str) -> None:
    e = parse(text, ["x"])
    x = np.linspace(0.0005, 0.9995, 401)
    targets = {"up": "x", "down": "1 - x", "wave": "sin(7*x)", "step": "where(x < 0.6, 0, 1)"}
    one = problem((0, 1), g=text, **targets)
    forms = {name: parse(t, ["x"]) for name, t in targets.items()}
    two = problem((0, 1), g=lambda x: e(x), **{name: (lambda x, f=f: f(x)) for name, f in forms.items()})
    for target in targets:
        a, b = (np.asarray(hw.pseudo_reward(p, target=target, observed="g", reward=e(x))) for p in (one, two))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6)
    mine, theirs = (hw.analyze(p, {"name": "beta", "a": 2, "b": 3}, full=True) for p in (one, two))
    assert mine.mu is not None and theirs.mu is not None and mine.phi is not None and theirs.phi is not None
    np.testing.assert_allclose(mine.mu, theirs.mu, rtol=0, atol=1e-8)
    np.testing.assert_allclose(mine.phi, theirs.phi, rtol=0, atol=1e-6)
    np.testing.assert_allclose(scalar(one).ranges, scalar(two).ranges, rtol=0, atol=1e-10)


def test_a_function_for_one_number_at_a_time() -> None:
    p = problem(a=lambda x: 1.0 if x < 0.5 else 2.0, b=lambda x: math.sin(x))
    assert hw.pseudo_reward(p, target="b", observed="a", reward=2) == pytest.approx(math.sin(1), abs=1e-12)
    pieces = from_function("g", Function(lambda x: 3.0), 0, 1)
    assert pieces.width == 0 and pieces.payable().tolist() == [[3, 3]]


# Random piecewise expressions

cuts = st.integers(1, 39).map(lambda n: f"{n / 40:g}")
factors = st.integers(-30, 30).map(lambda n: f"({n / 10:g})")
leaves = st.one_of(
    st.just("x"),
    factors,
    st.builds("abs(x - {})".format, cuts),
    st.builds("sin({}*x)".format, st.integers(1, 25)),
    st.builds("exp({}*x)".format, st.integers(-4, 2)),
    st.builds("floor({}*x)".format, st.integers(1, 5)),
    st.builds("exp(-(x - {})**2/{})".format, cuts, st.sampled_from(["0.1", "0.01", "0.001"])),
    st.builds("where(x < {}, {}, {})".format, cuts, factors, factors),
)
arms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} - {})".format, inner, inner),
        st.builds("({})*({})".format, inner, inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("max({}, {})".format, inner, inner),
        st.builds("where(x < {}, {}, {})".format, cuts, inner, inner),
    ),
    max_leaves=4,
)


@settings(derandomize=True, deadline=None, max_examples=50, phases=PHASES)
@given(arms, arms, st.integers(0, 2**32 - 1))
def test_random_expressions_against_dense_brute_force(observed: str, target: str, seed: int) -> None:
    p = problem(k=observed, ell=target)
    g, f = parse(observed, ["x"]), parse(target, ["x"])
    x = np.linspace(0, 1, 8001)
    gx, fx = g(x), f(x)
    rng = np.random.default_rng(seed)
    at = np.concatenate([rng.random(150), np.arange(41) / 40, np.nextafter(np.arange(1, 41) / 40, 0)])
    r = g(at)
    s = np.asarray(hw.pseudo_reward(p, target="ell", observed="k", reward=r))
    assert np.all(s >= f(at) - 1e-14 * (1 + abs(f(at))))
    assert np.all(np.asarray(hw.pseudo_reward(p, target="k", observed="k", reward=r)) == r)
    # from above: some stretch of the grid around which g may pass r holds a target that high, its own variation aside
    dg, df = (np.maximum(np.append(abs(np.diff(y)), 0), np.append(0, abs(np.diff(y)))) for y in (gx, fx))
    for i in range(0, len(at), 7):
        near = abs(gx - r[i]) <= 2 * dg + 1e-9
        assert s[i] <= np.max((fx + 2 * df)[near]) + 1e-6 * (1 + abs(s[i]))


@settings(derandomize=True, deadline=None, max_examples=8, phases=PHASES)
@given(arms, arms)
def test_random_expectations_against_a_fine_sum(observed: str, target: str) -> None:
    """Under the uniform law: mu by quadrature against the midpoint rule, phi at least mu, phi = E[s(g(X))]."""
    p = problem(k=observed, ell=target)
    model = scalar(p)
    law = hw.analyze(p, "uniform", full=True)
    assert law.mu is not None and law.phi is not None and law.error is not None
    n = 20_000
    x = (np.arange(n) + 0.5) / n
    values = model.values(x[None])
    variation = np.abs(np.diff(values)).sum(axis=1)
    assert np.all(abs(values.mean(axis=1) - law.mu) <= variation / n + law.error + 1e-9)
    assert np.all(law.phi >= law.mu[:, None] - 2 * law.error - 1e-9)
    s = model.pseudo(0, values[0])[1]
    assert abs(s.mean() - law.phi[1, 0]) <= np.abs(np.diff(s)).sum() / n + law.error + 1e-9
