"""Random rewards: channels, noise, the linear programme over laws of X, and their agreement with what is not random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog, minimize

import headwater as hw
from headwater import arms as arms_module
from headwater.arms import Random, Table
from headwater.arrays import Floats
from headwater.complaints import Complaints
from headwater.files import build_problem, load_problem, parse_problem
from headwater.noise import MAX_BINS, Noise, add_noise, read_noise
from headwater.paper import CASES
from headwater.pseudo import explained, model_of, pseudo_bounds
from headwater.pseudo.channels import channels_of
from headwater.pseudo.explained import expected_bounds, law_bound, most_likely
from headwater.pseudo.finite import FiniteModel
from headwater.regret_bounds import bounds

EXAMPLE = Path(__file__).parents[1] / "examples" / "coupons.toml"


def model(problem: hw.Problem) -> FiniteModel:
    found = model_of(problem)
    assert isinstance(found, FiniteModel)
    return found


def labels(j: int) -> hw.Discrete:
    return hw.Discrete([f"x{i}" for i in range(j)])


def read(given: dict[str, Any]) -> Noise:
    found = Complaints()
    noise = read_noise("noise", given, found)
    found.raise_if_any()
    assert noise is not None
    return noise


@st.composite
def laws(draw: st.DrawFn, n: int) -> Floats:
    """A law on n points, often with zeros."""
    w = np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)), dtype=float)
    w = w if w.any() else np.ones(n)
    return np.asarray(w / w.sum())


@st.composite
def channels(draw: st.DrawFn, j: int) -> Floats:
    """A channel (M, J) without rewards that never occur."""
    m = draw(st.integers(1, 4))
    a = np.stack([draw(laws(m)) for _ in range(j)], axis=1)
    return a[a.any(axis=1)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    """A channel, a law of X, and rewards g (L, J)."""
    j = draw(st.integers(1, 6))
    g = np.array(draw(st.lists(st.lists(st.integers(-4, 9), min_size=j, max_size=j), min_size=1, max_size=3)), dtype=float)
    return draw(channels(j)), draw(laws(j)), g


@st.composite
def problems(draw: st.DrawFn) -> tuple[hw.Problem, Floats]:
    """Random and other arms on a few labels, and a law of X."""
    j = draw(st.integers(2, 5))
    arms: dict[str, Any] = {}
    for k in range(draw(st.integers(2, 4))):
        if draw(st.booleans()):
            a = draw(channels(j))
            values = draw(st.lists(st.integers(-5, 5), min_size=len(a), max_size=len(a), unique=True))
            arms[f"a{k}"] = {"outcomes": values, "probabilities": a.T.tolist()}
        else:
            arms[f"a{k}"] = draw(st.lists(st.integers(-3, 3), min_size=j, max_size=j))
    return hw.Problem(latent=labels(j), arms=arms), draw(laws(j))


def oracle(a: Floats, p: Floats, g: Floats) -> float:
    """The programme as it is written."""
    result = linprog(-g, A_eq=a, b_eq=a @ p)
    assert result.fun is not None
    return -float(result.fun)


# the programme


@given(cases())
def test_bounds_are_the_programmes_value_and_not_below(case: tuple[Floats, Floats, Floats]) -> None:
    a, p, g = case
    found = expected_bounds(a, p, g)
    for row, bound in zip(g, found, strict=True):
        assert bound == pytest.approx(oracle(a, p, row), abs=1e-7)
        assert bound >= row @ p and bound <= row.max() + 1e-12


@settings(max_examples=60)
@given(cases(), st.integers(1, 5))
def test_a_channel_of_zeros_and_ones_is_the_papers_phi(case: tuple[Floats, Floats, Floats], levels: int) -> None:
    """Forced through the programme; a problem would have made a table of it."""
    _, p, g = case
    level = np.arange(g.shape[1]) % levels
    a = np.array([level == m for m in np.unique(level)], dtype=float)
    paper = [sum(p[line > 0].sum() * row[line > 0].max() for line in a) for row in g]
    np.testing.assert_allclose(expected_bounds(a, p, g), paper, atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(explained._bounds(a, a @ p, g), paper, atol=1e-9)
    for row, phi in zip(g, paper, strict=True):
        assert law_bound(a, a @ p, row) == pytest.approx(phi, abs=1e-7)


@settings(max_examples=60)
@given(problems())
def test_deterministic_columns_of_phi_agree_with_the_programme(case: tuple[hw.Problem, Floats]) -> None:
    problem, p = case
    phi = hw.analyze(problem, p, full=True).phi
    assert phi is not None
    c = channels_of(problem)
    for k in range(len(problem.arms)):
        forced = expected_bounds(c.matrix(k), p, c.g)
        forced[k] = c.g[k] @ p
        np.testing.assert_allclose(phi[:, k], forced, atol=1e-9)
    assert np.all(phi >= (c.g @ p)[:, None] - 1e-12)


@settings(max_examples=60)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_outcomes_and_points_changes_nothing(case: tuple[hw.Problem, Floats], random: Any) -> None:
    problem, p = case
    points = list(range(len(p)))
    random.shuffle(points)
    arms: dict[str, Any] = {}
    for name, arm in problem.arms.items():
        if isinstance(arm, Random):
            order = list(range(len(arm.outcomes)))
            random.shuffle(order)
            arms[name] = {"outcomes": arm.outcomes[order], "probabilities": arm.probabilities[points][:, order]}
        else:
            assert isinstance(arm, Table)
            arms[name] = arm.rewards[points]
    one, other = (
        hw.analyze(problem, p, full=True),
        hw.analyze(hw.Problem(latent=labels(len(p)), arms=arms), p[points], full=True),
    )
    assert one.phi is not None and other.phi is not None and one.reward_range == other.reward_range
    np.testing.assert_allclose(one.phi, other.phi, atol=1e-9)
    assert set(one.invertible) == set(other.invertible)


def test_columns_that_are_alike_allow_the_best_point() -> None:
    a = np.full((3, 4), 1 / 3)
    g = np.array([[1.0, 5.0, 2.0, 0.0], [7.0, 7.0, 7.0, 7.0]])
    np.testing.assert_allclose(expected_bounds(a, np.array([0.7, 0.0, 0.2, 0.1]), g), [5, 7], rtol=1e-14)
    assert law_bound(a, np.array([0.2, 0.3, 0.5]), g[0]) == pytest.approx(5, rel=1e-12)


def test_an_invertible_channel_leaves_nothing_open() -> None:
    a = np.array([[0.8, 0.1, 0.3], [0.1, 0.8, 0.3], [0.1, 0.1, 0.4]])
    p, g = np.array([0.5, 0.2, 0.3]), np.array([[0.0, 9.0, -4.0]])
    assert expected_bounds(a, p, g)[0] == pytest.approx(float(g[0] @ p), abs=1e-9)


def test_without_a_solver_the_bound_is_looser_but_true(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, p, g = rng.dirichlet(np.ones(3), 6).T, rng.dirichlet(np.ones(6)), rng.normal(size=(4, 6))
    a[0, :3] = 0.0
    a /= a.sum(axis=0)
    tight = expected_bounds(a, p, g)
    monkeypatch.setattr(explained, "MAX_ENTRIES", 0)
    loose = expected_bounds(a, p, g)
    assert np.all(loose >= tight - 1e-12) and np.any(loose > tight + 1e-3) and np.all(loose <= g.max(axis=1) + 1e-12)
    monkeypatch.undo()
    assert explained._multipliers(a, np.array([0.9, 0.05, 0.06]), g[0]) == []  # no law pays 1.01 in all


def test_nearly_alike_columns_keep_the_bound_above() -> None:
    """Large multipliers: the bound must not fall below the truth, which here is the mean itself."""
    for shift in 10.0 ** -np.arange(1.0, 15.0):
        a = np.array([[0.5, 0.5 + shift], [0.5, 0.5 - shift]])
        p, g = np.array([0.3, 0.7]), np.array([[1.0, 0.0], [0.0, 1.0]])
        found = expected_bounds(a, p, g)
        assert np.all(found >= g @ p) and np.all(found <= 1 + 1e-12)
        if shift > 1e-5:
            np.testing.assert_allclose(found, g @ p, atol=1e-8)


# projections


@given(cases(), st.data())
@settings(max_examples=60)
def test_the_projection_has_the_largest_likelihood(case: tuple[Floats, Floats, Floats], data: Any) -> None:
    """Against SLSQP from several starts; and its own certificate, which needs no solver."""
    a, _, _ = case
    f = data.draw(laws(len(a)))
    seen = f > 0
    p = most_likely(a, f)
    assert p.min() >= 0 and p.sum() == pytest.approx(1, abs=1e-12)
    h = a[seen] @ p
    assert np.max(a[seen].T @ (f[seen] / h)) <= 1 + 1e-9
    reached = float(f[seen] @ np.log(h))

    def loss(q: Floats) -> float:
        return -float(f[seen] @ np.log(np.maximum(a[seen] @ abs(q) / abs(q).sum(), 1e-300)))

    rng = np.random.default_rng(0)
    for _ in range(3):
        other = minimize(loss, rng.dirichlet(np.ones(len(p))), method="SLSQP", bounds=[(1e-9, 1.0)] * len(p))
        assert -other.fun <= reached + 1e-9


@settings(max_examples=60)
@given(cases())
def test_the_bound_of_a_law_that_is_explained_is_the_programme(case: tuple[Floats, Floats, Floats]) -> None:
    a, p, g = case
    for row in g:
        assert law_bound(a, a @ p, row) == pytest.approx(oracle(a, p, row), abs=2e-5)


def test_the_bound_of_a_law_that_nothing_explains() -> None:
    """The reward never comes with probability 1; the third point comes closest; a fourth differs in unseen rewards."""
    a = np.array([[0.1, 0.5, 0.8, 0.8], [0.9, 0.5, 0.2, 0.0], [0.0, 0.0, 0.0, 0.2]])
    g = np.array([9.0, 8.0, 1.0, 2.0])
    np.testing.assert_allclose(most_likely(a[:, :3], np.array([1.0, 0, 0])), [0, 0, 1], atol=1e-9)
    assert law_bound(a[:, :3], np.array([1.0, 0, 0]), g[:3]) == pytest.approx(1, abs=1e-6)
    assert law_bound(a, np.array([1.0, 0, 0]), g) == pytest.approx(2, abs=1e-6)


def test_frequencies_tend_to_phi() -> None:
    """With n draws the bound is off by O(1/sqrt n): a million, the multipliers below 10, a miss above 0.05 once in 1e100."""
    rng = np.random.default_rng(5)
    a = np.array([[0.7, 0.2, 0.2, 0.4], [0.2, 0.5, 0.1, 0.3], [0.1, 0.3, 0.7, 0.3]])
    p, g = np.array([0.4, 0.1, 0.2, 0.3]), np.array([0.0, 3.0, 1.0, 2.0])
    f = rng.multinomial(1_000_000, a @ p) / 1e6
    assert law_bound(a, f, g) == pytest.approx(expected_bounds(a, p, g[None])[0], abs=0.05)


def test_a_singular_system_ends_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(np.linalg, "solve", fails)
    p = most_likely(np.array([[0.9, 0.2], [0.1, 0.8]]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(p, [0.5, 0.5])


# noise

NOISES: list[tuple[dict[str, Any], Any]] = [
    ({"name": "uniform", "low": -1, "high": 2}, stats.uniform(-1, 3)),
    ({"name": "triangular", "low": -1, "high": 3}, stats.triang(0.5, -1, 4)),
    ({"name": "triangular", "low": 0, "high": 1, "mode": 1}, stats.triang(1.0, 0, 1)),
    ({"name": "beta", "a": 2, "b": 5, "low": -2, "high": 2}, stats.beta(2, 5, -2, 4)),
    ({"name": "normal", "sd": 0.5, "low": -1, "high": 1}, stats.truncnorm(-2, 2, 0, 0.5)),
    ({"name": "gaussian", "mean": 1, "sd": 2, "low": 0, "high": 9}, stats.truncnorm(-0.5, 4, 1, 2)),
]


@pytest.mark.parametrize(("given", "law"), NOISES)
def test_bins_of_a_continuous_law(given: dict[str, Any], law: Any) -> None:
    g = np.array([0.0, 1.3, 1.3, -2.0])
    sums = add_noise(g, read(given), 24)
    assert np.all(sums.probabilities >= 0)
    np.testing.assert_allclose(sums.probabilities.sum(axis=1), 1, atol=1e-12)
    edges = np.append(sums.outcomes - sums.width, sums.outcomes[-1] + sums.width)
    low, high = law.support()
    np.testing.assert_allclose(edges[[0, -1]], [g.min() + low, g.max() + high])
    np.testing.assert_allclose(sums.probabilities, np.diff(law.cdf(edges - g[:, None]), axis=1), atol=1e-12)
    off = abs(sums.probabilities @ sums.outcomes - g - law.mean())
    assert sums.rounding == pytest.approx(off.max(), abs=1e-12) and sums.rounding <= sums.width
    assert add_noise(g, read(given), 4000).rounding < sums.rounding / 20 + 1e-12


@pytest.mark.parametrize(("given", "law"), NOISES)
def test_bins_against_draws(given: dict[str, Any], law: Any) -> None:
    """Pearson's statistic of 100,000 draws from scipy's own generator; a false alarm once in 1e6."""
    sums = add_noise(np.array([0.5, 2.0]), read(given), 12)
    edges = np.append(sums.outcomes - sums.width, np.inf)
    edges[0] = -np.inf
    counts, _ = np.histogram(0.5 + law.rvs(100_000, random_state=np.random.default_rng(1)), edges)
    expected = 100_000 * sums.probabilities[0]
    kept = expected > 5
    assert counts[~kept].sum() <= 60
    statistic = float(np.sum((counts[kept] - expected[kept]) ** 2 / expected[kept]))
    assert statistic < stats.chi2(max(int(kept.sum()) - 1, 1)).isf(1e-6)


def test_sums_of_a_discrete_law() -> None:
    dice = {"name": "discrete", "values": [0.1, 0.2], "probabilities": [0.25, 0.75]}
    sums = add_noise(np.array([0.2, 0.1, 5.0]), read(dice))
    np.testing.assert_allclose(sums.outcomes, [0.2, 0.3, 0.4, 5.1, 5.2])  # 0.1 + 0.2 and 0.2 + 0.1 are one reward
    expected = [[0, 0.25, 0.75, 0, 0], [0.25, 0.75, 0, 0, 0], [0, 0, 0, 0.25, 0.75]]
    np.testing.assert_allclose(sums.probabilities, expected)
    assert (sums.width, sums.rounding) == (0, 0)
    coin = add_noise(np.array([0.0, 4.0]), read({"name": "sign", "scale": 2}))
    assert coin.outcomes.tolist() == [-2, 2, 6] and coin.probabilities.tolist() == [[0.5, 0.5, 0], [0, 0.5, 0.5]]


def with_noise(**given: Any) -> hw.Problem:
    return hw.Problem(latent=labels(2), arms={"a": [1, 2], "c": {"reward": [0, 1]} | given})


UNIFORM = {"name": "uniform", "low": -1, "high": 1}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"noise": "loud"}, 'arms.c.noise: got "loud"; expected {name = "uniform", low = -1, high = 1} or another named law'),
        ({"noise": {"low": 1}}, 'arms.c.noise: got {"low": 1}; expected {name = "uniform"'),
        ({"noise": {"name": "cauchy"}}, 'arms.c.noise.name: got "cauchy"; expected one of beta, discrete, gaussian, norm'),
        ({"noise": {"name": "uniform", "low": 0}}, "arms.c.noise.high: missing; expected a number (uniform takes low, high)"),
        ({"noise": {"name": "discrete", "values": [1]}}, "arms.c.noise.probabilities: missing; expected a list of numbers"),
        ({"noise": UNIFORM | {"sd": 1}}, 'arms.c.noise: got "sd"; expected uniform\'s parameters: low, high'),
        ({"noise": UNIFORM | {"low": "x"}}, 'arms.c.noise.low: got "x"; expected a finite number'),
        ({"noise": UNIFORM | {"high": -1}}, "arms.c.noise.high: got -1; expected a number above low, which is -1"),
        ({"noise": {"name": "sign", "scale": 0}}, "arms.c.noise.scale: got 0; expected a number above 0"),
        ({"noise": {"name": "normal", "sd": -1, "low": 0, "high": 1}}, "arms.c.noise.sd: got -1; expected a number above 0"),
        ({"noise": {"name": "beta", "a": 0, "b": 1, "low": 0, "high": 1}}, "arms.c.noise.a: got 0; expected a number above 0"),
        (
            {"noise": {"name": "triangular", "low": 0, "high": 1, "mode": 2}},
            "arms.c.noise.mode: got 2; expected a number from low to high, 0 to 1",
        ),
        (
            {"noise": {"name": "normal", "sd": 0.4, "mean": 1e9, "low": 0, "high": 1}},
            "expected parameters for which normal can be computed",
        ),
        (
            {"noise": {"name": "normal", "sd": 1e-300, "mean": 1e200, "low": 0, "high": 1}},
            "expected parameters for which normal can be computed",
        ),
        (
            {"noise": {"name": "discrete", "values": [1, 1], "probabilities": [0.5, 0.5]}},
            "arms.c.noise.values: got [1, 1]; expected at least one value, each once",
        ),
        (
            {"noise": {"name": "discrete", "values": [1, 2], "probabilities": [0.5]}},
            "arms.c.noise.probabilities: got [0.5]; expected 2 probabilities, not 1",
        ),
        (
            {"noise": {"name": "discrete", "values": [1, 2], "probabilities": [0.5, 0.6]}},
            "arms.c.noise.probabilities: the probabilities sum to 1.1; expected 1 (within 1e-9)",
        ),
        ({"noise": UNIFORM, "bins": 1}, f"arms.c.bins: got 1; expected a whole number from 2 to {MAX_BINS}"),
        ({"noise": UNIFORM, "bins": 3.5}, "arms.c.bins: got 3.5; expected a whole number"),
        ({"noise": UNIFORM, "bins": True}, "arms.c.bins: got true; expected a whole number"),
        (
            {"noise": {"name": "sign", "scale": 1}, "bins": 8},
            "arms.c.bins: got 8; expected none: sign noise takes finitely many values, which are kept exactly",
        ),
        ({"noise": UNIFORM, "reward": [1]}, "arms.c.reward: got [1]; expected 2 rewards, one per latent value, not 1"),
        ({"noise": UNIFORM, "reward": "x"}, 'arms.c.reward: got "x"; expected a list of rewards: expressions need numeric'),
        (
            {"noise": UNIFORM, "reward": {"outcomes": [1], "probabilities": [[1], [1]]}},
            "expected a list of rewards, an expression or a function",
        ),
        ({"noise": UNIFORM, "reward": [1e12, 0]}, "arms.c.noise: 2 wide, it is lost in the rounding of rewards of size 1e+12"),
        (
            {"noise": UNIFORM, "outcomes": [1]},
            "expected the keys outcomes and probabilities (and edges, observations, mean_high)",
        ),
        (
            {"noise": {"name": "sign", "scale": 9e299}, "reward": [9e299, 0]},
            "arms.c.noise[3]: got 1.8e+300; expected a reward within ±1e+300",
        ),
    ],
)
def test_noise_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(hw.ProblemError) as caught:
        with_noise(**given)
    assert any(expected in line for line in caught.value.complaints), caught.value.complaints


def test_outcomes_beyond_measure_are_refused() -> None:
    huge = {"outcomes": [0, 1e301], "probabilities": [[0.5, 0.5]] * 2}
    with pytest.raises(hw.ProblemError, match=r"arms\.c\.outcomes\[1\]: got 1e\+301; expected a reward within ±1e\+300"):
        hw.Problem(latent=labels(2), arms={"a": [1, 2], "c": huge})


def test_too_many_probabilities_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms_module, "MAX_ENTRIES", 7)
    with pytest.raises(hw.ProblemError, match=r"arms\.c: 2 latent values × 32 outcomes; at most 7 probabilities are kept"):
        with_noise(noise=UNIFORM)
    with pytest.raises(hw.ProblemError, match=r"arms\.c: 2 latent values × 4 outcomes; at most 7 probabilities are kept"):
        with_noise(reward=[0, 5], noise={"name": "sign", "scale": 1})
    with pytest.raises(hw.ProblemError, match=r"arms\.c: 2 latent values × 4 outcomes; at most 7 probabilities are kept"):
        hw.Problem(latent=labels(2), arms={"a": [1, 2], "c": {"outcomes": [1, 2, 3, 4], "probabilities": []}})


@pytest.mark.parametrize(
    "latent", [hw.Continuous([0, 1]), hw.Vector({"x": {"low": 0, "high": 1}}), hw.Vector({f"x{i}": range(9) for i in range(9)})]
)
@pytest.mark.parametrize("arm", [{"reward": "1", "noise": UNIFORM}, {"outcomes": [0, 1], "probabilities": [[0.5, 0.5]]}])
def test_random_rewards_need_listed_points(latent: Any, arm: Any) -> None:
    with pytest.raises(hw.ProblemError, match=r"arms\.c: a random reward needs a support that can be listed, and .* X is not"):
        hw.Problem(latent=latent, arms={"a": "1", "c": arm})
    read_already = hw.Problem(latent=labels(1), arms={"a": [1], "c": {"outcomes": [0, 1], "probabilities": [[0.5, 0.5]]}})
    with pytest.raises(hw.ProblemError, match=r"arms\.c: a random reward needs a support that can be listed"):
        hw.Problem(latent=latent, arms={"a": "1", "c": read_already.arms["c"]})


# problems


def test_zeros_and_ones_are_a_table() -> None:
    sure = {"outcomes": [3, 1], "probabilities": [[0, 1], [1, 0]]}
    still = {"reward": [1, 3], "noise": {"name": "discrete", "values": [0], "probabilities": [1]}}
    table = hw.Problem(latent=labels(2), arms={"a": [0, 1], "c": [1, 3]})
    for arm in (sure, still):
        problem = hw.Problem(latent=labels(2), arms={"a": [0, 1], "c": arm})
        assert problem == table and problem.digest == table.digest and problem.deterministic
        assert isinstance(problem.arms["c"], Table) and problem.to_toml() == table.to_toml()


WRITTEN: list[dict[str, Any]] = [
    {"reward": [0.5, 1, 2], "noise": UNIFORM},
    {"reward": [0.5, 1, 2], "noise": UNIFORM, "bins": 7},
    {"reward": "x**2 - 1", "noise": {"name": "normal", "sd": 0.25, "low": -1, "high": 1}},
    {"reward": lambda x: 2 * x, "noise": {"name": "beta", "a": 2, "b": 3, "low": 0, "high": 0.1}},
    {"reward": np.arange(3.0), "noise": {"name": "triangular", "low": 0, "high": 1, "mode": 0.25}},
    {"reward": "x", "noise": {"name": "discrete", "values": [-1, 0.5], "probabilities": [1 / 3, 2 / 3]}},
    {"reward": "x", "noise": {"name": "sign", "scale": 0.1}},
]


@pytest.mark.parametrize("arm", WRITTEN)
def test_what_was_written_is_kept(arm: dict[str, Any]) -> None:
    problem = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [0, 1, 2], "c": arm}, distribution=[0.2, 0.3, 0.5])
    again = parse_problem(problem.to_toml())
    assert again == problem and again.digest == problem.digest and again.to_toml() == problem.to_toml()
    assert build_problem(problem.to_dict()) == problem
    other = problem.with_distribution([0.5, 0.5, 0])
    assert other.digest == problem.digest and other != problem
    body = problem.to_dict()["arms"]["c"]
    assert list(body)[:2] == ["reward", "noise"] and body["noise"]["name"] == arm["noise"]["name"]
    assert body["reward"] == arm["reward"] if isinstance(arm["reward"], (str, list)) else body["reward"][0] in (0, 2)
    assert body.get("bins") == (None if arm["noise"]["name"] in ("sign", "discrete") else arm.get("bins", 32))
    for k in ("outcomes", "probabilities"):
        np.testing.assert_array_equal(getattr(again.arms["c"], k), getattr(problem.arms["c"], k))


def test_the_digest_tells_noises_apart() -> None:
    digests = {with_noise(noise=noise).digest for noise in (UNIFORM, UNIFORM | {"high": 1.5}, {"name": "sign", "scale": 1})}
    digests |= {with_noise(noise=UNIFORM, bins=8).digest, with_noise(noise=UNIFORM, reward=[0, 2]).digest}
    assert len(digests) == 5
    assert with_noise(noise=UNIFORM).digest == with_noise(noise=UNIFORM, bins=32).digest


def test_noise_on_a_finite_vector() -> None:
    grid = hw.Vector({"x1": [0, 1], "x2": [0, 1, 2]})
    noise = {"name": "sign", "scale": 0.5}
    one = hw.Problem(latent=grid, arms={"a": "x1", "c": {"reward": "x1 + x2", "noise": noise}})
    two = hw.Problem(latent=grid, arms={"a": "x1", "c": {"reward": [[0, 1, 2], [1, 2, 3]], "noise": noise}})
    np.testing.assert_array_equal(one.rewards, two.rewards)
    assert parse_problem(two.to_toml()) == two and one != two
    assert model(one).values(1).tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5]


# the model


def coins() -> hw.Problem:
    coin = {"outcomes": [5, 0, 9], "probabilities": [[0.1, 0.9, 0], [0.8, 0.2, 0], [0.5, 0.5, 0]]}
    return hw.Problem(latent=labels(3), arms={"coin": coin, "sure": [3, 1, 2], "key": [1, 2, 3]})


def test_one_reward_of_a_random_arm() -> None:
    problem = coins()
    assert hw.pseudo_reward(problem, target="sure", observed="coin", reward=5) == 3
    assert hw.pseudo_reward(problem, target="coin", observed="coin", reward=5) == 5
    assert hw.pseudo_reward(problem, target="coin", observed="sure", reward=1) == 4  # its mean at that X
    assert model(problem).ranges[0].tolist() == [0, 5] and model(problem).reward_range == 5
    with pytest.raises(hw.RewardError, match="reward: got 9; arm coin can pay 0, or 5"):
        hw.pseudo_reward(problem, target="sure", observed="coin", reward=9)
    half = {"outcomes": [0, 1], "probabilities": [[1, 0], [0.5, 0.5]]}
    narrow = hw.Problem(latent=labels(2), arms={"half": half, "sure": [7, 2]})
    assert pseudo_bounds(narrow, 0, [0, 1]).upper[1].tolist() == [7, 2]


def test_outcomes_that_are_equal_but_for_rounding_are_one() -> None:
    twins = {"outcomes": [0.3, 0.1 + 0.2, 1], "probabilities": [[0.5, 0, 0.5], [0, 0.5, 0.5]]}
    problem = hw.Problem(latent=labels(2), arms={"twins": twins, "a": [1, 4]}, distribution=[0.5, 0.5])
    assert model(problem).values(0).tolist() == [0.3, 1] and hw.analyze(problem).phi is not None
    assert hw.pseudo_reward(problem, target="a", observed="twins", reward=0.3) == 4
    np.testing.assert_allclose(channels_of(problem).matrix(0), [[0.5, 0.5], [0.5, 0.5]])


def test_rewards_in_bins() -> None:
    problem = hw.Problem(
        latent=labels(2),
        arms={"a": [1, 2], "c": {"reward": [0, 5], "noise": {"name": "uniform", "low": 0, "high": 1}, "bins": 6}},
    )
    c = model(problem)
    assert c.values(1).tolist() == [0.5, 5.5] and c.width(1) == 0.5 and c.width(0) == 0
    assert c.snap(1, np.array([0.0, 0.3, 1.0, 5.999]), 0.0).tolist() == [0.5, 0.5, 0.5, 5.5]
    assert hw.pseudo_reward(problem, target="a", observed="c", reward=[0.9, 5.1]).tolist() == [1, 2]  # type: ignore[union-attr]
    assert c.invertible() == [True, True]
    for reward in (2, -0.1, 6.1):
        with pytest.raises(hw.RewardError, match=f"reward: got {reward}; arm c can pay 0 to 1, or 5 to 6"):
            hw.pseudo_reward(problem, target="a", observed="c", reward=reward)
    wide = with_noise(noise=UNIFORM, bins=4)  # bins that touch
    with pytest.raises(hw.RewardError, match=r"arm c can pay -1 to 2$"):
        hw.pseudo_reward(wide, target="a", observed="c", reward=3)


def test_what_reveals_x() -> None:
    apart = {"outcomes": [0, 1, 2, 3], "probabilities": [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]}
    blurred = {"outcomes": [0, 1], "probabilities": [[1, 0], [0.5, 0.5]]}
    problem = hw.Problem(latent=labels(2), arms={"apart": apart, "blurred": blurred, "same": [1, 1]}, distribution=[0.5, 0.5])
    assert hw.analyze(problem).invertible == ("apart",)


def test_what_a_model_refuses() -> None:
    with pytest.raises(AssertionError, match="arm 0 has a random reward: its points have no levels"):
        model(coins()).levels(0)
    given: Any = "x"
    for call in (lambda: hw.analyze(given), lambda: pseudo_bounds(given, 0, 1), lambda: bounds(given)):
        with pytest.raises(hw.ProblemError, match='problem: got "x"; expected a Problem'):
            call()


# analysis and bounds


def test_the_analysis_of_the_example() -> None:
    problem = load_problem(EXAMPLE)
    found = hw.analyze(problem, full=True)
    assert (found.best, found.competitive, found.non_competitive) == ("mailing", ["bundle"], ["plain", "lottery"])
    assert found.mu is not None and found.phi is not None and found.error is not None
    assert found.error == pytest.approx(9.375e-5)
    p = np.array([0.3, 0.3, 0.25, 0.15])
    np.testing.assert_allclose(found.mu, [2.55, 3.055, 2.85, 1.15], atol=found.error)
    for k in range(4):
        for ell in set(range(4)) - {k}:
            matrix = channels_of(problem).matrix(k)
            assert found.phi[ell, k] == pytest.approx(oracle(matrix, p, problem.rewards[ell]), abs=1e-7)


def test_what_holds_for_every_distribution() -> None:
    low = {"reward": [0, 1], "noise": {"name": "sign", "scale": 9}}
    problem = hw.Problem(latent=labels(2), arms={"a": [1, 2], "low": low})
    found = hw.analyze(problem)
    assert found.dominance is not None and found.dominance.always == [0] and list(found.dominance.never) == [1]


def test_a_noisier_arm_says_less() -> None:
    """The rewards of before, and only what is known of X differs: φ does not fall."""
    g = np.array([[3.0, 3, 4, 0, 2], [0, 4, 1, 1, 0], [2, 0, 5, 1, 0]])
    p, values = np.array([0.3, 0.1, 0.2, 0.1, 0.3]), np.array([0.0, 2, 3, 4])
    last = np.full(3, -np.inf)
    for share in (0.0, 0.1, 0.4, 0.8):
        phi = expected_bounds(share / 4 + (1 - share) * (values[:, None] == g[0]), p, g)
        assert np.all(phi >= last - 1e-9)
        last = phi


def test_noise_on_an_arm_raises_the_least_regret() -> None:
    """Its rewards take the same means from less evidence. Noise that leaves its levels apart changes nothing."""
    case = next(case.problem for case in CASES if case.id == "discrete-3")
    plain = bounds(case)
    for scale, same in ((0.01, True), (1.0, False)):
        noisy = {
            name: {"reward": row, "noise": {"name": "sign", "scale": scale}}
            for name, row in zip(case.names, case.rewards, strict=True)
        }
        arms = noisy | {plain.best[0]: case.arms[plain.best[0]]}
        found = bounds(hw.Problem(latent=case.latent, arms=arms, distribution=case.distribution))
        assert found.gap <= 1e-6 and (found.pulls, found.regret) == ({}, None) and found.best == plain.best
        assert found.graves_lai == pytest.approx(plain.graves_lai, rel=1e-6) if same else found.lower > 1.01 * plain.upper


def test_bounds_of_a_noisy_arm_in_closed_form() -> None:
    """A sure arm and a noisy one on two values of X: q is on the line mu(q) = mu*, so one KL divergence decides."""
    risky = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.3, 0.7]]}
    problem = hw.Problem(latent=labels(2), arms={"safe": [0.5, 0.5], "risky": risky}, distribution=[0.6, 0.4])
    mu = 0.6 * 0.1 + 0.4 * 0.7
    divergence = mu * np.log(mu / 0.5) + (1 - mu) * np.log((1 - mu) / 0.5)
    found = bounds(problem)
    assert found.graves_lai == pytest.approx((0.5 - mu) / divergence, rel=1e-6)
    assert found.theorem4 == pytest.approx(found.graves_lai, rel=1e-6)
    assert (found.pulls, found.regret) == ({}, None)
    blurred = risky | {"probabilities": [[0.9, 0.1], [0.55, 0.45]]}  # it can never reach 0.5
    assert bounds(hw.Problem(latent=labels(2), arms={"safe": [0.5, 0.5], "risky": blurred}, distribution=[0.6, 0.4])).upper == 0


def test_bounds_with_noise_in_bins() -> None:
    problem = load_problem(EXAMPLE)
    found = bounds(problem)
    assert found.best == ("mailing",) and found.gap <= 1e-6 and found.graves_lai > 0
    known = channels_of(problem).matrix(1)
    for law in found.confusing:
        np.testing.assert_allclose(known @ law.q, known @ np.array([0.3, 0.3, 0.25, 0.15]), atol=1e-9)
        mu = problem.rewards @ law.q
        assert mu[problem.index(law.arm)] == pytest.approx(mu[1], abs=1e-8)
