"""Exploration rates: against the certified solver, on the simplex's edge, at ties, where nothing is confusing; who explores."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import headwater as hw
from headwater import native
from headwater.arrays import Floats, Ints
from headwater.paper import CASES
from headwater.policies.channel_view import channel_view
from headwater.pseudo import model_of
from headwater.pseudo.channels import Channels, channels_of

exact: Any = importlib.import_module("headwater.graves_lai")
CASE = {case.id: case.problem for case in CASES}
LISTED = [name for name in CASE if not name.startswith(("continuous", "appendix"))]
SOLVED, NOTHING, STALLED = native.Rates.SOLVED, native.Rates.NOTHING, native.Rates.STALLED


def solve(channels: Channels, p: Floats) -> tuple[native.Rates, Floats]:
    """Status and rates."""
    c = np.full(len(channels.g), np.nan)
    return native.exploration_rates(channel_view(channels), p, c), c


def compare(channels: Channels, p: Floats) -> None:
    """The rates cost what the certified ones do, within 0.5 %, and no confusing law escapes them, within 1 %."""
    status, c = solve(channels, p)
    mu = channels.g @ p
    gap = mu.max() - mu
    best = gap <= 1e-9 * np.ptp(channels.g)
    with threadpool_limits(1):
        certified = exact.set_up([channels.matrix(k) for k in range(len(mu))], channels.g, p, best)
        found = exact.solve(certified)
        least = [exact._least(certified, face, c[~best])[1] for face in certified.faces]
    assert np.all(c >= 0) and np.all(c[best] == 0)
    if not certified.faces:
        assert status == NOTHING and not c.any()
        return
    assert status == SOLVED
    assert found.lower * 0.995 <= c @ gap <= found.upper * 1.005
    assert min(least) >= 0.99


def law_of(problem: hw.Problem) -> Floats:
    """The problem's own law, (J,)."""
    model: Any = model_of(problem)
    return np.asarray(model.probabilities(problem.distribution), dtype=np.float64)


def law(seed: int, points: int = 7, zeros: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(points, 2.0))
    p[rng.choice(points, zeros, replace=False)] = 0.0
    return np.asarray(p / p.sum())


def discrete(arms: dict[str, Any], points: int) -> Channels:
    return channels_of(hw.Problem(latent=hw.Discrete([f"x{j}" for j in range(points)]), arms=arms))


def drawn(seed: int, *, noisy: bool, arms: int = 4, points: int = 7) -> Channels:
    """Arms of three or four rewards each, at random."""
    rng = np.random.default_rng(seed)
    if not noisy:
        return discrete({f"a{k}": rng.integers(0, 4, points) * 1.0 for k in range(arms)}, points)
    table = {
        f"a{k}": {
            "outcomes": np.sort(rng.random(3)).tolist(),
            "probabilities": rng.dirichlet(np.ones(3), points).tolist(),
        }
        for k in range(arms)
    }
    return discrete(table, points)


def made_of(matrices: list[Floats], g: Floats) -> Channels:
    """Channels from their matrices and the means."""
    full = np.vstack(matrices)
    column, row = map(np.ascontiguousarray, np.nonzero(full.T))
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=full.shape[1]))])
    offset = np.cumsum([0, *(len(m) for m in matrices)])
    return Channels([], np.ascontiguousarray(g), offset, start, row, full.T[column, row])


@pytest.mark.parametrize("name", LISTED)
def test_on_the_papers_cases_the_rates_are_the_certified_ones(name: str) -> None:
    compare(channels_of(CASE[name]), law_of(CASE[name]))


def test_the_printed_rates() -> None:
    for name, rates in (("discrete-2", [3.10, 4.98, 0.0]), ("discrete-3", [2.46, 11.66, 0.0])):
        status, c = solve(channels_of(CASE[name]), law_of(CASE[name]))
        assert status == SOLVED
        assert c == pytest.approx(rates, rel=5e-3)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_on_random_problems_the_rates_are_the_certified_ones(seed: int, noisy: bool) -> None:
    compare(drawn(seed, noisy=noisy), law(seed))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_on_the_edge_of_the_simplex(seed: int, noisy: bool) -> None:
    compare(drawn(seed, noisy=noisy), law(seed, zeros=3))


def test_many_arms() -> None:
    compare(drawn(1, noisy=False, arms=10, points=30), law(5, points=30))


def test_where_no_law_is_confusing_the_rates_are_exactly_0() -> None:
    for name in ("discrete-1", "vector-2", "two-arms"):
        status, c = solve(channels_of(CASE[name]), law_of(CASE[name]))
        assert status == NOTHING
        assert not c.any()


def test_with_one_point_or_one_arm_there_is_nothing_to_explore() -> None:
    assert solve(made_of([np.ones((1, 1))] * 2, np.array([[1.0], [2.0]])), np.ones(1))[0] == NOTHING
    assert solve(made_of([np.eye(2)], np.array([[1.0, 2.0]])), np.full(2, 0.5))[0] == NOTHING


def test_arms_that_tie_are_best_together() -> None:
    p = np.array([0.25, 0.25, 0.25, 0.25])
    twins = discrete({"a": [0, 1, 2, 1], "b": [1, 0, 1, 2], "c": [2, 0.5, 0, 0.5]}, 4)
    assert np.ptp((twins.g @ p)[:2]) == 0
    compare(twins, p)
    level = discrete({"a": [0, 1], "b": [1, 0]}, 2)
    status, c = solve(level, np.full(2, 0.5))
    assert status == NOTHING
    assert not c.any()


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10])
def test_the_smaller_the_gap_the_larger_the_rate(gap: float) -> None:
    """A safe arm against a coin: c = 1 / KL(1/2 - gap || 1/2), which is 1 / (2 gap²) to first order; below 1e-9 it is a tie."""
    status, c = solve(discrete({"safe": [0.5, 0.5], "coin": [0.0, 1.0]}, 2), np.array([0.5 + gap, 0.5 - gap]))
    if gap < 1e-9:
        assert status == NOTHING
    else:
        assert status in (SOLVED, STALLED)
        assert c[1] == pytest.approx(1 / (2 * gap**2), rel=5e-3 if status == SOLVED else 1.0)


@given(st.integers(0, 10_000), st.booleans(), st.permutations(range(4)), st.floats(0.01, 100))
def test_neither_the_order_of_arms_nor_the_unit_of_rewards_matters(
    seed: int, noisy: bool, order: list[int], unit: float
) -> None:
    channels, p = drawn(seed, noisy=noisy), law(seed)
    gap = np.sort(channels.g @ p)
    assume(gap[-1] - gap[-2] > 1e-3)
    status, c = solve(channels, p)
    other, d = solve(made_of([channels.matrix(k) for k in order], unit * channels.g[order]), p)
    assert status == other
    assert d == pytest.approx(c[order], rel=0.05, abs=1e-3 * max(c.max(), 1e-3)) or status == STALLED


# --- who is pulled ---------------------------------------------------------------------------------------------------


def levels_of(problem: hw.Problem) -> Ints:
    """Which of its rewards each arm pays at each point, where that is certain."""
    channels = channels_of(problem)
    found = [np.searchsorted(channels.values[k], channels.g[k]) for k in range(len(channels.g))]
    return np.ascontiguousarray(found, dtype=np.int64)


def test_nothing_is_carried_from_one_game_to_the_next() -> None:
    """Nor does it matter whether the likeliest law is asked for in every round."""
    problem = CASE["discrete-2"]
    view, level = channel_view(channels_of(problem)), levels_of(problem)
    rng = np.random.default_rng(3)
    first, second = (rng.choice(level.shape[1], size=400, p=law_of(problem)) for _ in range(2))
    explorer = native.Explorer(view)
    arms = explorer.play(level, first)
    explorer.play(level, second)
    assert np.array_equal(explorer.play(level, first), arms)
    assert np.array_equal(native.Explorer(view, eager=True).play(level, first), arms)
    assert np.bincount(arms, minlength=3).argmax() == 2


def test_what_does_not_fit_is_refused() -> None:
    channels = channels_of(CASE["discrete-2"])
    view, p = channel_view(channels), np.full(5, 0.2)
    with pytest.raises(ValueError, match="p: got length 4; expected 5"):
        native.exploration_rates(view, p[:4], np.zeros(3))
    with pytest.raises(ValueError, match="c: got length 2; expected 3"):
        native.exploration_rates(view, p, np.zeros(2))
