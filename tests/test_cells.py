"""A continuous X through bins of rewards: atoms, upper means, and counts that every law can give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.arrays import Floats, Ints
from headwater.paper import CASES
from headwater.pseudo import model_of
from headwater.pseudo.cells import BINS, Cells, cells_of
from headwater.pseudo.scalar import ScalarModel

PAPER = {case.id: case.problem for case in CASES}


def line(**arms: str) -> hw.Problem:
    return hw.Problem(latent=hw.Continuous([0, 1]), arms=arms)


PROBLEMS = {
    "paper": PAPER["continuous-2"],
    "lines": line(a="x", b="1 - x", c="abs(x - 0.3)", d="0.5"),
    "a spike that no grid meets": line(a="exp(-((x - 0.3141592)*1000000)**2)", b="x"),
    "many turns": line(a="sin(300*x)", b="x*x"),
    "steps": line(a="floor(4*x)", b="x"),
    "constants": line(a="0.5", b="0.25"),
    "the whole line": hw.Problem(
        latent=hw.Continuous([-np.inf, np.inf]),
        arms={"a": "tanh(x)", "b": "exp(-x*x)"},
    ),
}


def seen_through(problem: hw.Problem, x: Floats) -> tuple[ScalarModel, Cells, Ints, Floats]:
    """The model, its cells, the bins (K, n) and the rewards (K, n) at points x."""
    model = model_of(problem)
    assert isinstance(model, ScalarModel)
    cells, rewards = cells_of(problem, model), model.values(x[None])
    return model, cells, np.stack([cells.bin(k, rewards[k]) for k in range(model.count)]), rewards


def atoms(cells: Cells, count: int) -> Ints:
    """The bins (K, J) of every atom."""
    return (cells.channels.row.reshape(-1, count) - cells.channels.offset[:-1]).T


def points(problem: hw.Problem, seed: int, n: int) -> Floats:
    rng = np.random.default_rng(seed)
    if problem is PROBLEMS["the whole line"]:
        return rng.standard_cauchy(n)
    near = 0.3141592 + 1e-6 * rng.normal(size=n)  # where the spike is
    return np.where(rng.random(n) < 0.8, rng.random(n), near)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_point_falls_into_an_atom(name: str) -> None:
    problem = PROBLEMS[name]
    model, cells, bins, rewards = seen_through(problem, points(problem, 0, 50_000))
    known = {tuple(column) for column in atoms(cells, model.count).T.tolist()}
    assert {tuple(column) for column in np.unique(bins, axis=1).T.tolist()} <= known
    for k in range(model.count):
        low, high = cells.low[k] + bins[k] * cells.width[k], cells.low[k] + (bins[k] + 1) * cells.width[k]
        slack = 1e-9 * (1 + np.max(abs(rewards[k])))
        assert (low - slack <= rewards[k]).all() and (rewards[k] <= high + slack).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_atom_pays_no_less_than_its_points_and_a_bin_more_at_most(name: str) -> None:
    problem = PROBLEMS[name]
    model, cells, bins, rewards = seen_through(problem, points(problem, 1, 20_000))
    place = {tuple(column): j for j, column in enumerate(atoms(cells, model.count).T.tolist())}
    j = np.array([place[tuple(column)] for column in bins.T.tolist()])
    over = cells.channels.g[:, j] - rewards
    slack = 1e-9 * (1 + np.max(abs(rewards)))
    assert (over >= -slack).all() and (over <= cells.width[:, None] + slack).all()
    assert (cells.channels.g <= model.ranges[:, 1:] + slack).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_channels_are_zero_or_one_and_whole(name: str) -> None:
    problem = PROBLEMS[name]
    model, cells, *_ = seen_through(problem, np.array([0.5]))
    assert cells.bins.max() == (BINS if np.ptp(model.ranges, axis=1).max() > 0 else 1)
    assert len(np.unique(atoms(cells, model.count), axis=1).T) == cells.channels.g.shape[1], "no atom twice"
    for k in range(model.count):
        matrix = cells.channels.matrix(k)
        assert matrix.shape == (cells.bins[k], cells.channels.g.shape[1])
        assert set(np.unique(matrix)) <= {0.0, 1.0} and (matrix.sum(axis=0) == 1).all()
        assert len(cells.channels.values[k]) == cells.bins[k]


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(PROBLEMS)))
def test_counts_of_bins_are_possible_under_their_law(seed: int, name: str) -> None:
    """The law of X that paid, carried over to the atoms, gives every arm exactly its frequencies of bins."""
    problem = PROBLEMS[name]
    model, cells, bins, _ = seen_through(problem, points(problem, seed, 200))
    place = {tuple(column): j for j, column in enumerate(atoms(cells, model.count).T.tolist())}
    p = np.bincount([place[tuple(column)] for column in bins.T.tolist()], minlength=len(place)) / 200
    for k in range(model.count):
        np.testing.assert_allclose(
            cells.channels.matrix(k) @ p, np.bincount(bins[k], minlength=cells.bins[k]) / 200, atol=1e-12
        )


def test_a_reward_that_only_a_spike_pays_is_evidence_like_any_other() -> None:
    problem = PROBLEMS["a spike that no grid meets"]
    policy = hw.make_policy("joint-ucb", problem)
    policy.update(["a", "b", "a"], [0.9, 0.5, 0.0])
    explained = policy.explain()
    assert all(line.index is not None and 0 <= line.index <= 1 + 1e-9 for line in explained.arms)
    assert policy.select() in problem.names


def test_a_bin_without_an_atom_counts_as_the_next_one_up() -> None:
    model, cells, *_ = seen_through(PROBLEMS["steps"], np.array([0.5]))
    paid = np.unique(atoms(cells, model.count)[0])
    assert len(paid) < cells.bins[0]
    found = cells.bin(0, np.array([0.0, 0.4, 1.0, 3.9, 4.0]))
    assert set(found.tolist()) <= set(paid.tolist()) and (np.diff(found) >= 0).all()
    assert found[1] == paid[1], "between 0 and 1: up"
