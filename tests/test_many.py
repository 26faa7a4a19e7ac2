"""Many arms and large supports: nothing of size K × K or K × M × K is built, and everything else is as it was."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

import headwater as hw
from headwater.arrays import Floats
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.finite import FiniteModel, distinct


def rewards(arms: int, points: int, *, decimals: int = 1, seed: int = 0) -> Floats:
    out: Floats = np.random.default_rng(seed).normal(size=(arms, points)).round(decimals)
    return out


def problem_of(g: Floats, **options: object) -> Problem:
    latent = hw.Discrete(np.arange(float(g.shape[1])))
    return hw.Problem(latent=latent, arms={f"arm {k}": row for k, row in enumerate(g)}, **options)  # type: ignore[arg-type]


# --- one table of rewards --------------------------------------------------------------------------------------------


def test_tables_are_the_rows_of_one_matrix() -> None:
    problem = problem_of(rewards(3, 4))
    assert all(np.shares_memory(problem.rewards, arm.rewards) for arm in problem.arms.values())  # type: ignore[union-attr]
    assert not problem.rewards.flags.writeable
    again = problem.with_distribution([0.25] * 4)
    assert np.shares_memory(problem.rewards, again.rewards), "the same arms under another distribution take no memory"


def test_rows_that_can_change_are_copied() -> None:
    g = rewards(3, 4)
    problem, before = problem_of(g), g.copy()
    g[:] = 7.0
    np.testing.assert_array_equal(problem.rewards, before)
    window = g[:]
    window.setflags(write=False)
    assert not np.shares_memory(problem_of(window).rewards, g), "its owner can still change"


def test_rows_that_cannot_change_are_not_copied() -> None:
    g = rewards(3, 4)
    g.setflags(write=False)
    assert np.shares_memory(problem_of(g).rewards, g)
    np.testing.assert_array_equal(problem_of(g).rewards, g)
    mixed = hw.Problem(latent=hw.Discrete(list("abcd")), arms={"b": g[1], "a": g[0], "c": [1, 2, 3, 4]})
    np.testing.assert_array_equal(mixed.rewards, [g[1], g[0], [1, 2, 3, 4]])


def test_bad_rows_that_cannot_change_are_refused() -> None:
    g = rewards(3, 4)
    g[1, 2] = np.nan
    g.setflags(write=False)
    with pytest.raises(hw.ProblemError, match=r"arms\.arm 1\[2\]: got NaN; expected a finite number"):
        problem_of(g)
    with pytest.raises(hw.ProblemError, match=r"arms\.arm 0: .*expected 5 rewards, one per latent value, not 4"):
        hw.Problem(latent=hw.Discrete(list("abcde")), arms={f"arm {k}": row for k, row in enumerate(g)})


def test_arrays_and_lists_make_the_same_problem() -> None:
    g = np.array([[1.0, -0.0, 0.1 + 0.2, 1e300], [2.5, 2.5, -3.0, 1e15]])
    assert problem_of(g).digest == problem_of(np.array(g.tolist())).digest
    lists = hw.Problem(latent=hw.Discrete([0, 1, 2, 3]), arms={f"arm {k}": row for k, row in enumerate(g.tolist())})
    assert problem_of(g) == lists
    body = json.dumps({"latent": {"kind": "discrete", "values": [0, 1, 2, 3]}, "arms": problem_of(g).to_dict()["arms"]})

    assert problem_of(g).digest == hashlib.sha256(body.encode()).hexdigest()


def test_a_huge_table_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.problem.MAX_WRITTEN", 11)
    with pytest.raises(hw.SizeError, match=r"a problem of 12 listed rewards cannot be written down .*; at most 11 are"):
        problem_of(rewards(3, 4)).to_toml()


# --- pseudo-rewards and analysis -------------------------------------------------------------------------------------


def test_rows_too_large_to_keep_are_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, large = problem_of(rewards(8, 30)), problem_of(rewards(8, 30))
    expected = [FiniteModel(problem).row(k) for k in range(8)]
    monkeypatch.setattr("headwater.pseudo.finite.KEPT_BYTES", 0)
    model = model_of(large)
    assert isinstance(model, FiniteModel)
    monkeypatch.setattr(model, "row", None)
    for k, row in enumerate(expected):
        np.testing.assert_array_equal(model.pseudo(k, model.values(k)), row)
        np.testing.assert_array_equal(distinct(large.rewards[k]), model.values(k))


def test_a_programme_too_large_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """b is below the mean of a and c, which only a programme tells; d is below a."""
    g = np.array([[4.0, 0.0], [1.5, 1.5], [0.0, 4.0], [3.0, -1.0]])
    assert set(hw.analyze(problem_of(g)).dominance.never) == {1, 3}  # type: ignore[union-attr]
    monkeypatch.setattr("headwater.dominance.MAX_PROGRAMME", 7)
    found = hw.analyze(problem_of(g)).dominance
    assert found is not None and set(found.never) == {3} and found.undecided == [1]
