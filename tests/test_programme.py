"""Exploration rates, compiled: against the certified solver, on the simplex's edge, at ties, and where nothing is confusing."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import headwater as hw
from headwater.arrays import Floats
from headwater.paper import CASES
from headwater.policies.programme import NOTHING, SOLVED, STALLED, rates, workspace_size
from headwater.pseudo.channels import Channels, channels_of

module: Any = importlib.import_module("headwater.policies.programme")
exact: Any = importlib.import_module("headwater.graves_lai")
CASE = {case.id: case.problem for case in CASES}
LISTED = [name for name in CASE if not name.startswith(("continuous", "appendix"))]
GUARD = 12345.0


def solve(channels: Channels, p: Floats, function: Any = rates, fill: float = np.nan) -> tuple[int, Floats]:
    """Status and rates, from a workspace full of rubbish; nothing behind it may be written."""
    arms, points = channels.g.shape
    size = workspace_size(arms, points, int(channels.offset[-1]))
    room = np.full(size + 100, GUARD)
    room[:size] = fill
    c = np.full(arms, fill)
    status = function(*channels[3:6], channels.offset, channels.g, p, c, room[:size])
    assert np.all(room[size:] == GUARD)
    return status, c


def compare(channels: Channels, p: Floats, best: Any = None) -> None:
    """The rates cost what the certified ones do, within 0.5 %, and no confusing law escapes them, within 1 %."""
    status, c = solve(channels, p)
    mu = channels.g @ p
    gap = mu.max() - mu
    best = gap <= 1e-9 * np.ptp(channels.g) if best is None else best
    with threadpool_limits(1):
        programme = exact.set_up([channels.matrix(k) for k in range(len(mu))], channels.g, p, best)
        found = exact.solve(programme)
        least = [exact._least(programme, face, c[~best])[1] for face in programme.faces]
    assert np.all(c >= 0) and np.all(c[best] == 0)
    if not programme.faces:
        assert status == NOTHING and not c.any()
        return
    assert status == SOLVED
    assert found.lower * 0.995 <= c @ gap <= found.upper * 1.005
    assert min(least) >= 0.99


def listed(problem: hw.Problem) -> Floats:
    """The problem's own law, (J,)."""
    model = importlib.import_module("headwater.pseudo").model_of(problem)
    return np.asarray(model.probabilities(problem.distribution), dtype=float)


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


@pytest.mark.parametrize("name", LISTED)
def test_on_the_papers_cases_the_rates_are_the_certified_ones(name: str) -> None:
    compare(channels_of(CASE[name]), listed(CASE[name]))


def test_the_printed_rates() -> None:
    status, c = solve(channels_of(CASE["discrete-2"]), listed(CASE["discrete-2"]))
    assert status == SOLVED
    assert c == pytest.approx([3.10, 4.98, 0.0], rel=5e-3)
    status, c = solve(channels_of(CASE["discrete-3"]), listed(CASE["discrete-3"]))
    assert c == pytest.approx([2.46, 11.66, 0.0], rel=5e-3)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_on_random_problems_the_rates_are_the_certified_ones(seed: int, noisy: bool) -> None:
    compare(drawn(seed, noisy=noisy), np.random.default_rng(seed).dirichlet(np.full(7, 2.0)))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_on_the_edge_of_the_simplex(seed: int, noisy: bool) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(7, 2.0))
    p[rng.choice(7, 3, replace=False)] = 0.0
    compare(drawn(seed, noisy=noisy), p / p.sum())


def test_many_arms() -> None:
    compare(drawn(1, noisy=False, arms=10, points=30), np.random.default_rng(5).dirichlet(np.full(30, 2.0)))


def test_where_no_law_is_confusing_the_rates_are_exactly_0() -> None:
    for name in ("discrete-1", "vector-2", "two-arms"):
        status, c = solve(channels_of(CASE[name]), listed(CASE[name]))
        assert status == NOTHING
        assert not c.any()


def test_with_one_point_or_one_arm_there_is_nothing_to_explore() -> None:
    assert solve(_pack([np.ones((1, 1))] * 2, np.array([[1.0], [2.0]])), np.ones(1))[0] == NOTHING
    assert solve(_pack([np.eye(2)], np.array([[1.0, 2.0]])), np.full(2, 0.5))[0] == NOTHING


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
    channels, p = drawn(seed, noisy=noisy), np.random.default_rng(seed).dirichlet(np.full(7, 2.0))
    gap = np.sort(channels.g @ p)
    assume(gap[-1] - gap[-2] > 1e-3)
    status, c = solve(channels, p)
    moved = [channels.matrix(k) for k in order]
    other, d = solve(_pack(moved, unit * channels.g[order]), p)
    assert status == other
    assert d == pytest.approx(c[order], rel=0.05, abs=1e-3 * max(c.max(), 1e-3)) or status == STALLED


def _pack(matrices: list[Floats], g: Floats) -> Channels:
    full = np.vstack(matrices)
    column, row = map(np.ascontiguousarray, np.nonzero(full.T))
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=full.shape[1]))])
    offset = np.cumsum([0, *(len(m) for m in matrices)])
    g = np.ascontiguousarray(g)
    g.flags.writeable = False  # like a problem's: another type would be compiled anew
    return Channels([], g, offset, start, row, full.T[column, row])


def test_the_workspace_carries_nothing() -> None:
    channels, p = drawn(3, noisy=True), np.full(7, 1 / 7)
    assert np.array_equal(solve(channels, p)[1], solve(channels, p, fill=7.0)[1])


def test_compiled_equals_python(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(channels_of(CASE[name]), listed(CASE[name])) for name in ("discrete-1", "discrete-2", "discrete-3")]
    cases.append((drawn(2, noisy=True, arms=3, points=4), np.array([0.5, 0.0, 0.3, 0.2])))
    compiled = [solve(*case) for case in cases]
    for name, value in list(vars(module).items()):
        if hasattr(value, "py_func"):
            monkeypatch.setattr(module, name, value.py_func)
    for (status, c), case in zip(compiled, cases, strict=True):
        other, d = solve(*case, function=module.rates)
        assert status == other
        assert d == pytest.approx(c, rel=1e-6, abs=1e-9)
