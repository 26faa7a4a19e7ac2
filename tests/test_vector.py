"""Vectors: sums over many finite components without listing them; intervals exactly or with a certain bound."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import headwater as hw
from headwater.arrays import Floats
from headwater.distributions import Sample
from headwater.pseudo import factored, model_of, pseudo_bounds, vector
from headwater.pseudo.factored import FactoredModel
from headwater.pseudo.vector import BoxModel

# Many finite components


def classical(n: int) -> hw.Problem:
    """The paper's Remark 1: independent components, arm k pays component k."""
    return hw.Problem(latent=hw.Vector({f"x{i}": [0, 1] for i in range(n)}), arms={f"a{i}": f"x{i}" for i in range(n)})


def test_the_classical_bandit_with_fifty_arms() -> None:
    p = classical(50)
    assert isinstance(model_of(p), FactoredModel)
    chance = np.linspace(0.1, 0.9, 50)
    a = hw.analyze(p, {f"x{i}": [1 - c, c] for i, c in enumerate(chance)})
    assert a.mu is not None and a.phi is not None
    np.testing.assert_allclose(a.mu, chance, rtol=0, atol=1e-12)
    assert a.best == "a49" and a.unique and a.reward_range == 1 and a.invertible == ()
    np.testing.assert_allclose(a.phi[:49, 0], 1, rtol=0, atol=1e-12)
    assert len(a.competitive) == 49 and a.non_competitive == []
    for r in (0, 1):
        assert hw.pseudo_reward(p, target="a3", observed="a7", reward=r) == 1
        assert hw.pseudo_reward(p, target="a7", observed="a7", reward=r) == r
    with pytest.raises(hw.RewardError, match="arm a7 can pay 0, or 1"):
        hw.pseudo_reward(p, target="a3", observed="a7", reward=0.5)


def best_sums(observed: Floats, target: Floats) -> dict[int, int]:
    """For each sum of the observed integer coefficients over binary components, the best sum of the target's."""
    best = {0: 0}
    for a, c in zip(observed.astype(int).tolist(), target.astype(int).tolist(), strict=True):
        after: dict[int, int] = {}
        for r, v in best.items():
            for bit in (0, 1):
                after[r + a * bit] = max(after.get(r + a * bit, -(10**9)), v + c * bit)
        best = after
    return best


def test_integer_sums_on_fifty_components_against_a_dynamic_programme() -> None:
    rng = np.random.default_rng(3)
    a, c = rng.integers(-4, 5, (2, 50))
    texts = ["+".join(f"({v})*x{i}" for i, v in enumerate(row)) for row in (a, c)]
    p = hw.Problem(latent=hw.Vector({f"x{i}": [0, 1] for i in range(50)}), arms={"k": texts[0], "ell": texts[1]})
    truth = best_sums(a, c)
    r = np.array(sorted(truth), dtype=float)
    s = hw.pseudo_reward(p, target="ell", observed="k", reward=r)
    np.testing.assert_array_equal(s, [truth[int(v)] for v in r])
    law = {f"x{i}": [0.75, 0.25] for i in range(50)}
    found = hw.analyze(p, law, full=True)
    assert found.mu is not None and found.phi is not None
    np.testing.assert_allclose(found.mu, [a.sum() / 4, c.sum() / 4], rtol=0, atol=1e-10)
    weight = np.ones(1)  # the law of k's reward, shifted by its least value
    for v in a.tolist():
        step = np.zeros(abs(v) + 1)
        step[0 if v >= 0 else -1] += 0.75
        step[-1 if v >= 0 else 0] += 0.25
        weight = np.convolve(weight, step)
    least = int(a[a < 0].sum())
    phi = sum(w * truth[least + i] for i, w in enumerate(weight.tolist()) if w > 0)
    assert found.phi[1, 0] == pytest.approx(phi, abs=1e-9)


def test_decimal_steps_do_not_split_levels() -> None:
    n = 30
    p = hw.Problem(
        latent=hw.Vector({f"x{i}": [0, 1] for i in range(n)}),
        arms={"k": "+".join(f"0.1*x{i}" for i in range(n)), "first": "x0", "all": "+".join(f"x{i}" for i in range(n))},
    )
    r = np.arange(n + 1) * 0.1
    assert model_of(p).payable(0).shape == (n + 1, 2)
    np.testing.assert_array_equal(hw.pseudo_reward(p, target="first", observed="k", reward=r), (np.arange(n + 1) > 0) * 1.0)
    np.testing.assert_allclose(hw.pseudo_reward(p, target="all", observed="k", reward=r), np.arange(n + 1), atol=1e-12)


def test_more_cells_than_may_be_tabulated_are_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pseudo.MAX_CELLS", 100)
    p = hw.Problem(latent=hw.Vector({f"x{i}": [0, 1] for i in range(6)}), arms={"a": "x0 + x1", "b": "x1 - x2"})
    assert isinstance(model_of(p), FactoredModel)
    assert hw.analyze(p).to_dict()["never_best"] == {}
    assert hw.pseudo_reward(p, target="b", observed="a", reward=2) == 1


def test_too_many_combinations_are_refused_with_the_number() -> None:
    n = 50
    irrational = "+".join(f"sqrt({i + 2})*x{i}" for i in range(n))
    p = hw.Problem(latent=hw.Vector({f"x{i}": [0, 1] for i in range(n)}), arms={"a": irrational, "b": "x0"})
    with pytest.raises(hw.SizeError, match=r"arms\.a: its rewards are sums with at least [\d,]+ combinations; at most 4,0"):
        hw.pseudo_reward(p, target="b", observed="a", reward=0)
    assert hw.pseudo_reward(p, target="b", observed="b", reward=1) == 1


@pytest.mark.parametrize(("n", "values", "size"), [(50, 2, r"1\.13e\+15"), (200, 100, r"more than 1e399")])
def test_a_term_of_too_many_components_is_refused(n: int, values: int, size: str) -> None:
    names = [f"x{i}" for i in range(n)]
    latent = hw.Vector({name: list(range(values)) for name in names})
    p = hw.Problem(latent=latent, arms={"a": f"max({', '.join(names)})", "b": "x0"})
    with pytest.raises(hw.SizeError, match=f"{n} components stand together in one term, which needs listing {size} points"):
        hw.pseudo_reward(p, target="b", observed="a", reward=0)
    q = hw.Problem(latent=latent, arms={"a": lambda *x: x[0], "b": "x0"})
    with pytest.raises(hw.SizeError, match=rf"arms\.a: a Python function on {size} points cannot be taken apart"):
        hw.pseudo_reward(q, target="b", observed="b", reward=0)


def test_a_joint_distribution_over_too_large_a_support_is_refused() -> None:
    p = classical(30)
    with pytest.raises(hw.ProblemError, match="one entry per component"):
        hw.analyze(p, [0.5, 0.5])
    with pytest.raises(hw.ProblemError, match="expected probabilities per component"):
        factored._parts(Sample(np.zeros((30, 1)), np.ones(1)))


def test_a_sample_on_a_support_too_large_to_list() -> None:
    p = hw.Problem(latent=hw.Vector({f"x{i}": [0, 1] for i in range(30)}), arms={"a": "x0 + x1", "b": "x1 - x2"})
    rows = np.zeros((4, 30))
    rows[1, :3], rows[2, 1], rows[3, 0] = 1, 1, 1
    found = hw.analyze(p, {"sample": rows.tolist(), "weights": [1, 2, 3, 4]}, full=True)
    assert found.mu is not None and found.phi is not None
    np.testing.assert_allclose(found.mu, [(4 + 3 + 4) / 10, 3 / 10], atol=1e-15)
    np.testing.assert_allclose(found.phi[1, 0], (0 * 1 + 1 * 2 + 1 * 3 + 1 * 4) / 10, atol=1e-15)


# Intervals


def appendix() -> hw.Problem:
    return hw.Problem(
        latent=hw.Vector({"x1": hw.Interval(0, 1), "x2": hw.Interval(0, 1)}), arms={"1": "x1 + 0.1*x2", "2": "x2 + 0.1*x1"}
    )


def test_the_appendix_example_exactly() -> None:
    """x1 + 0.1 x2 = r: x2 as large as can be, min(1, 10 r), and x1 takes the rest."""
    r = np.concatenate([np.linspace(0, 1.1, 1101), [0.1, 1.0]])
    x2 = np.minimum(1, 10 * r)
    truth = x2 + 0.1 * (r - 0.1 * x2)
    bound = pseudo_bounds(appendix(), 0, r)
    np.testing.assert_allclose(bound.upper[1], truth, rtol=0, atol=1e-14)
    np.testing.assert_allclose(bound.lower[1], truth, rtol=0, atol=1e-14)
    assert np.all(bound.upper[1] >= truth - 1e-15)
    assert hw.analyze(appendix()).reward_range == pytest.approx(1.1, abs=1e-15)
    with pytest.raises(hw.RewardError, match=r"got 1\.2; arm 1 can pay 0 to 1\.1"):
        hw.pseudo_reward(appendix(), target="2", observed="1", reward=1.2)


def test_the_appendix_example_in_expectation() -> None:
    """E[s] under uniform components, by an integral over the density of x1 + 0.1 x2 written here."""
    found = hw.analyze(appendix(), {"x1": "uniform", "x2": "uniform"}, full=True)
    assert found.mu is not None and found.phi is not None and found.error is not None
    np.testing.assert_allclose(found.mu, 0.55, atol=1e-10)
    r = (np.arange(1_100_000) + 0.5) * 1e-6
    density = np.minimum.reduce([r / 0.1, np.ones_like(r), (1.1 - r) / 0.1])
    x2 = np.minimum(1, 10 * r)
    truth = float(np.sum((x2 + 0.1 * (r - 0.1 * x2)) * density) * 1e-6)
    assert abs(found.phi[1, 0] - truth) <= found.error + 1e-9
    assert found.error < 1e-4


def test_mixed_linear_components_against_brute_force() -> None:
    latent = hw.Vector({"x": hw.Interval(0, 1), "n": [-1, 0, 2], "y": hw.Interval(-1, 1), "m": [0, 3]})
    p = hw.Problem(latent=latent, arms={"k": "x + n - y", "ell": "2*y - n*0.5 + m", "other": "m*2 + x"})
    rng = np.random.default_rng(5)
    r = rng.uniform(-1.9, 3.9, 40)
    s = np.asarray(hw.pseudo_reward(p, target="ell", observed="k", reward=r))
    for i, value in enumerate(r):
        best = -math.inf
        for n, m in product((-1, 0, 2), (0, 3)):  # x + n - y = r: y = x + n - r, largest for x = 1 or y = 1
            y = min(1.0, 1.0 + n - value)
            x = y - n + value
            if y >= -1 and 0 <= x <= 1:
                best = max(best, 2 * y - n * 0.5 + m)
        assert s[i] == pytest.approx(best, abs=1e-12)
    steps = np.asarray(hw.pseudo_reward(p, target="k", observed="other", reward=[0, 0.5, 1, 6, 6.25]))
    np.testing.assert_allclose(steps, [3, 3.5, 4, 3, 3.25], atol=1e-12)
    with pytest.raises(hw.RewardError, match=r"got 3; arm other can pay 0 to 1, or 6 to 7"):
        hw.pseudo_reward(p, target="k", observed="other", reward=3)


def test_mixed_curved_components_against_closed_forms() -> None:
    latent = hw.Vector({"n": [0, 1, 2], "x": hw.Interval(0, 1)})
    p = hw.Problem(latent=latent, arms={"k": "n*x", "ell": "(n - 1)**2 + x", "plain": "n + x*x"})
    r = np.array([0.25, 0.5, 1.0, 1.5, 2.0])
    # n = 1, x = r (r <= 1): 0 + r; n = 2, x = r/2: 1 + r/2
    bound = pseudo_bounds(p, 0, r)
    np.testing.assert_allclose(bound.upper[1], np.maximum(np.where(r <= 1, r, -9), 1 + r / 2), rtol=0, atol=1e-7)
    assert np.all(bound.upper[1] >= 1 + r / 2 - 1e-12) and np.all(bound.lower <= bound.upper)
    assert hw.pseudo_reward(p, target="ell", observed="k", reward=0) == pytest.approx(2, abs=1e-7)  # n = 0, x = 1
    assert hw.pseudo_reward(p, target="k", observed="plain", reward=2.25) == pytest.approx(1, abs=1e-7)


MEANS = {
    "x*y": 0.25,
    "where(abs(x - 0.37) < 0.0005, 1, 0) + n": 0.001 + 0.6,
    "x**4 - y*3": 0.2 - 1.5,
    "n*n*2 + 1": 2 * (0.2 + 0.2 * 4) + 1,
    "1e-12*x": 0.5e-12,
    "1e9*x + 7": 0.5e9 + 7,
}


@pytest.mark.parametrize("text", MEANS)
def test_means_with_their_errors(text: str) -> None:
    """Uniform x and y, n in {0, 1, 2}. A narrow feature must not be missed: one-component terms are split where they jump."""
    latent = hw.Vector({"x": hw.Interval(0, 1), "y": hw.Interval(0, 1), "n": [0, 1, 2]})
    p = hw.Problem(latent=latent, arms={"a": text, "b": "0"})
    model = model_of(p)
    assert isinstance(model, BoxModel)
    found = hw.analyze(p, {"x": "uniform", "y": "uniform", "n": [0.6, 0.2, 0.2]})
    assert found.mu is not None and found.error is not None
    assert abs(found.mu[0] - MEANS[text]) <= found.error + 1e-10 * abs(MEANS[text])
    assert found.error <= 1e-3 * max(abs(MEANS[text]), 1e-12) or text == "x*y"


def test_phi_of_an_observed_arm_with_few_rewards() -> None:
    """Rewards that come with a probability of their own must not share a bin."""
    latent = hw.Vector({"n": [0, 1], "x": hw.Interval(0, 1)})
    p = hw.Problem(latent=latent, arms={"k": "n", "ell": "n*x"})
    found = hw.analyze(p, {"n": [0.7, 0.3], "x": "uniform"}, full=True)
    assert found.phi is not None and found.mu is not None and found.error is not None
    assert abs(found.phi[1, 0] - 0.3) <= found.error + 1e-3
    # observing n*x > 0 reveals n = 1; 0 has probability 0.7 and allows n = 1 with x = 0
    assert abs(found.phi[0, 1] - 1.0) <= found.error + 1e-3


@pytest.mark.parametrize("seed", [11])
def test_phi_against_an_independent_monte_carlo(seed: int) -> None:
    """Hoeffding: a mean of N numbers in an interval of width w errs by more than w sqrt(log(2/p) / (2 N)) with chance p.

    With p = 1e-9 here, beside the estimate's own error.
    """
    latent = hw.Vector({"x": hw.Interval(0, 1), "y": hw.Interval(0, 1)})
    p = hw.Problem(latent=latent, arms={"k": "x + 0.5*y", "lin": "y - x", "curved": "x*y"})
    found = hw.analyze(p, {"x": {"name": "beta", "a": 2, "b": 3}, "y": "uniform"}, full=True)
    assert found.phi is not None and found.mu is not None and found.error is not None
    n = 1_000_000
    rng = np.random.default_rng(seed)
    x, y = rng.beta(2, 3, n), rng.random(n)
    r = x + 0.5 * y
    top = np.minimum(1, 2 * r)  # x + y/2 = r: y as large as can be
    linear = top - (r - top / 2)
    # x*y = (r - y/2) y, largest at y = r, within max(0, 2 r - 2) <= y <= min(1, 2 r)
    best = np.clip(r, np.maximum(0, 2 * r - 2), top)
    curved = (r - best / 2) * best
    slack = math.sqrt(math.log(2 / 1e-9) / (2 * n))
    assert abs(found.phi[1, 0] - linear.mean()) <= 2 * slack + found.error
    assert abs(found.phi[2, 0] - curved.mean()) <= slack + found.error
    assert found.phi[2, 0] >= curved.mean() - slack - 1e-4  # the table of bins errs upward
    np.testing.assert_allclose(found.mu, [0.4 + 0.25, 0.1, 0.2], atol=found.error + 1e-9)
    assert found.error < 0.02


def test_a_sample_is_exact() -> None:
    p = appendix()
    points = np.array([[0.5, 0.2], [0.0, 1.0], [1.0, 1.0]])
    found = hw.analyze(p, {"sample": points.tolist(), "weights": [2, 1, 1]}, full=True)
    assert found.mu is not None and found.phi is not None and found.error == 0
    weight = np.array([0.5, 0.25, 0.25])
    r = points @ np.array([1, 0.1])
    x2 = np.minimum(1, 10 * r)
    np.testing.assert_allclose(found.mu, [r @ weight, points @ np.array([0.1, 1]) @ weight], atol=1e-14)
    np.testing.assert_allclose(found.phi[1, 0], (x2 + 0.1 * (r - 0.1 * x2)) @ weight, atol=1e-13)


def test_components_an_arm_does_not_read_do_not_count() -> None:
    many = {f"n{i}": [0, 1] for i in range(40)}
    p = hw.Problem(latent=hw.Vector({"x": hw.Interval(0, 1), **many}), arms={"a": "x + n0", "b": "1 - x", "c": "n1*x"})
    assert hw.pseudo_reward(p, target="b", observed="a", reward=1.0) == pytest.approx(1, abs=1e-12)
    assert hw.pseudo_reward(p, target="c", observed="a", reward=0.5) == pytest.approx(0.5, abs=1e-7)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    box = hw.Vector({"x": hw.Interval(0, 1), "y": hw.Interval(0, math.inf), "n": [0, 1, 2]})
    with pytest.raises(hw.ProblemError, match=r"arms\.a: a Python function of intervals cannot be bounded"):
        hw.pseudo_reward(hw.Problem(latent=box, arms={"a": lambda x, y, n: x, "b": "x"}), target="b", observed="b", reward=0)
    for text in ("x + y", "2*y - 3*x + n"):
        with pytest.raises(hw.ProblemError, match=r"arms\.a"):
            hw.pseudo_reward(hw.Problem(latent=box, arms={"a": text, "b": "x"}), target="b", observed="a", reward=0)
    p = hw.Problem(latent=box, arms={"a": "x + n", "b": "x*exp(-y)"})
    assert hw.pseudo_reward(p, target="b", observed="a", reward=2.5) == pytest.approx(0.5, abs=1e-7)
    monkeypatch.setattr(vector, "MAX_BOXES", 2)
    with pytest.raises(
        hw.SizeError, match=r"finite components of arms\.a.* have 3 combinations beside the intervals; at most 2"
    ):
        BoxModel(p).boxes(0)
