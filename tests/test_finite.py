"""Listed supports: levels, rows, and what an arm is allowed to have paid."""

from __future__ import annotations

import numpy as np
import pytest

import headwater as hw
from headwater.pseudo import finite, model_of, pseudo_bounds
from headwater.pseudo.finite import FiniteModel, find_levels
from headwater.pseudo.model import listing


def ads() -> hw.Problem:
    return hw.Problem(latent=hw.Discrete(["student", "worker", "retiree"]), arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})


def finite_model(problem: hw.Problem) -> FiniteModel:
    model = model_of(problem)
    assert isinstance(model, FiniteModel)
    return model


def test_two_arm_example() -> None:
    p = ads()
    assert hw.pseudo_reward(p, target="video", observed="banner", reward=2) == 1.5
    assert hw.pseudo_reward(p, target="video", observed="banner", reward=1) == 1.5
    assert hw.pseudo_reward(p, target="banner", observed="video", reward=0) == 2
    assert hw.pseudo_reward(p, target="banner", observed="video", reward=1.5) == 2
    assert hw.pseudo_reward(p, target=1, observed=0, reward=2) == 1.5


def test_vector_example_is_two_minus_absolute_reward() -> None:
    p = hw.Problem(latent=hw.Vector({"x1": [-1, 0, 1], "x2": [-1, 0, 1]}), arms={"1": "x1 + x2", "2": "x1 - x2"})
    r = np.arange(-2.0, 3.0)
    assert np.array_equal(hw.pseudo_reward(p, target="2", observed="1", reward=r), 2 - abs(r))
    assert [x for x in r if 2 - abs(x) < x] == [2]


def test_rewards_that_differ_by_rounding_share_a_level() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [0.1 + 0.2, 0.3, 1.0], "b": [0, 5, 1]})
    assert len(find_levels(p.rewards[0]).value) == 2
    for r in (0.3, 0.1 + 0.2, np.nextafter(0.3, 0)):
        assert hw.pseudo_reward(p, target="b", observed="a", reward=r) == 5


def test_rewards_that_differ_by_more_do_not() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [1.0, 1.0 + 1e-10], "b": [0, 5]})
    assert hw.pseudo_reward(p, target="b", observed="a", reward=1.0) == 0
    assert hw.pseudo_reward(p, target="b", observed="a", reward=1.0 + 1e-10) == 5
    assert hw.analyze(p, [0.5, 0.5]).invertible == ("a", "b")


def test_single_level_and_single_point() -> None:
    p = hw.Problem(latent=hw.Discrete([7]), arms={"a": [3], "b": [-4]})
    assert hw.pseudo_reward(p, target="b", observed="a", reward=3) == -4
    constant = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [2, 2, 2], "b": [1, -1, 0]})
    assert hw.pseudo_reward(constant, target="b", observed="a", reward=2) == 1
    with pytest.raises(hw.RewardError, match=r"got 2\.1; arm a can pay 2"):
        hw.pseudo_reward(constant, target="b", observed="a", reward=2.1)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 2), (2, 1, 2), (0,)])
def test_shape_is_kept(shape: tuple[int, ...]) -> None:
    r = np.full(shape, 2.0)
    s = hw.pseudo_reward(ads(), target="video", observed="banner", reward=r)
    assert np.shape(s) == shape
    assert isinstance(s, float) == (shape == ())
    assert np.all(np.asarray(s) == 1.5)


def test_lists_of_lists_in_any_order() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [3, 1, 2], "b": [30, 10, 20]})
    s = hw.pseudo_reward(p, target="b", observed="a", reward=[[3, 1], [1, 2]])
    assert np.array_equal(s, [[30, 10], [10, 20]])


def test_a_reward_the_arm_cannot_pay_lists_what_it_can() -> None:
    with pytest.raises(hw.RewardError, match=r"reward: got 1\.2; arm banner can pay 1, or 2"):
        hw.pseudo_reward(ads(), target="video", observed="banner", reward=[1, 1.2, 7])
    many = hw.Problem(latent=hw.Discrete(list(range(100))), arms={"a": list(range(100)), "b": [0] * 100})
    with pytest.raises(hw.RewardError, match=r"0, 1, 2, .*100 in all, the last is 99"):
        hw.pseudo_reward(many, target="b", observed="a", reward=0.5)


def test_tolerance_is_a_part_of_the_range() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [0, 100], "b": [7, 8]})
    assert hw.pseudo_reward(p, target="b", observed="a", reward=5e-8) == 7
    with pytest.raises(hw.RewardError):
        hw.pseudo_reward(p, target="b", observed="a", reward=2e-7)
    assert hw.pseudo_reward(p, target="b", observed="a", reward=4.9, tolerance=0.05) == 7
    assert hw.pseudo_reward(p, target="b", observed="a", reward=95.1, tolerance=0.05) == 8
    with pytest.raises(hw.RewardError):
        hw.pseudo_reward(p, target="b", observed="a", reward=5.1, tolerance=0.05)
    with pytest.raises(hw.RewardError):
        hw.pseudo_reward(p, target="b", observed="a", reward=1e-15, tolerance=0)
    assert hw.pseudo_reward(p, target="b", observed="a", reward=100, tolerance=0) == 8


def test_constant_arm_has_a_tolerance_too() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [0.3, 0.3], "b": [7, 8]})
    assert hw.pseudo_reward(p, target="b", observed="a", reward=0.1 + 0.2) == 8


@pytest.mark.parametrize("tolerance", [-1e-9, 1, 2, np.nan, np.inf, "a", None])
def test_bad_tolerance(tolerance: float) -> None:
    with pytest.raises(hw.RewardError, match=r"tolerance: got .*; expected a number from 0 to below 1"):
        hw.pseudo_reward(ads(), target="video", observed="banner", reward=2, tolerance=tolerance)


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, [2, np.nan], None])
def test_reward_that_is_not_finite(reward: float) -> None:
    with pytest.raises(hw.RewardError, match="expected a finite number"):
        hw.pseudo_reward(ads(), target="video", observed="banner", reward=reward)


@pytest.mark.parametrize("reward", ["n/a", [1, [2]], {"a": 1}, 1j])
def test_reward_that_is_no_number(reward: float) -> None:
    with pytest.raises(hw.RewardError, match=r"reward: got .*; expected a number"):
        hw.pseudo_reward(ads(), target="video", observed="banner", reward=reward)


@pytest.mark.parametrize("arm", ["x", 2, -1, True, None, 1.0])
def test_unknown_arm(arm: str) -> None:
    with pytest.raises(hw.ProblemError, match=r"target: got .*; expected one of banner, video"):
        hw.pseudo_reward(ads(), target=arm, observed="banner", reward=2)
    with pytest.raises(hw.ProblemError, match=r"observed: got .*; expected one of banner, video"):
        hw.pseudo_reward(ads(), target="banner", observed=arm, reward=2)


def test_bounds_of_a_listed_support_are_attained() -> None:
    bound = pseudo_bounds(ads(), 0, [1, 2])
    assert np.array_equal(bound.upper, bound.lower) and bound.upper.shape == (2, 2)


def test_rows_are_forgotten_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    g = rng.integers(0, 5, (70, 40)).astype(float)
    p = hw.Problem(latent=hw.Discrete(list(range(40))), arms={f"a{k}": row for k, row in enumerate(g)})
    first = [finite_model(p).row(k) for k in range(70)]
    model = FiniteModel(p)
    monkeypatch.setattr(finite, "KEPT_BYTES", 1)
    for k in (3, 69, 3, 0):
        assert np.array_equal(model.row(k), first[k])
    assert len(model._rows) == 1


def test_many_arms_and_points_against_the_definition() -> None:
    rng = np.random.default_rng(7)
    g = rng.integers(-20, 20, (200, 2000)) / 10
    p = hw.Problem(latent=hw.Discrete(list(range(2000))), arms={f"a{k}": row for k, row in enumerate(g)})
    law = rng.dirichlet(np.ones(2000))
    a = hw.analyze(p, law)
    assert a.mu is not None and a.k_star is not None and a.phi is not None and a.pseudo_gap is not None
    np.testing.assert_allclose(a.mu, g @ law, rtol=0, atol=1e-12)
    k = a.k_star
    s = np.empty_like(g)
    for r in np.unique(g[k]):
        s[:, g[k] == r] = g[:, g[k] == r].max(axis=1, keepdims=True)
    np.testing.assert_allclose(a.phi[:, 0], s @ law, rtol=0, atol=1e-12)
    assert len(a.competitive) + len(a.non_competitive) == 199


def test_a_sample_of_a_finite_vector_counts_points() -> None:
    p = hw.Problem(latent=hw.Vector({"x1": [3, 1, 2], "x2": [0, -1]}), arms={"a": "x1", "b": "x1*x2"})
    sample = {"sample": [[1, -1], [3, 0], [1, -1], [2, 0]], "weights": [1, 2, 3, 2]}
    a = hw.analyze(p, sample)
    assert a.mu is not None
    np.testing.assert_allclose(a.mu, [(1 + 6 + 3 + 4) / 8, -0.5], atol=1e-15)


def test_listing_in_words() -> None:
    assert listing(np.array([1.0]), np.array([2.0])) == "1 to 2"
    assert listing(np.arange(3.0), np.arange(3.0)) == "0, 1, or 2"
