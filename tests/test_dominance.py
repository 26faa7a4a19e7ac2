"""What holds for every distribution: each claim is checked by its certificate, or by a programme written here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import headwater as hw
from headwater import dominance as module
from headwater.arrays import Floats
from headwater.dominance import Dominance, dominance


def discrete(g: Floats) -> hw.Problem:
    return hw.Problem(latent=hw.Discrete(list(range(g.shape[1]))), arms={f"a{k}": row for k, row in enumerate(g)})


def advantage(g: Floats, ell: int) -> float:
    """The most by which arm ell can lead every other arm: the other arms' mixture, as a matrix game (the dual)."""
    others = np.delete(g, ell, axis=0)
    k, j = others.shape
    # minimise v subject to (g_ell - w g)(x) <= v at every x, w a mixture
    matrix = np.column_stack([-others.T, -np.ones(j)])
    result = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=matrix,
        b_ub=-g[ell],
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * k + [(None, None)],
    )
    assert result.status == 0
    assert result.fun is not None
    return float(result.fun)


tables = st.integers(2, 5).flatmap(
    lambda k: st.integers(1, 5).flatmap(
        lambda j: st.lists(st.lists(st.integers(0, 6), min_size=j, max_size=j), min_size=k, max_size=k)
    )
)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(tables)
def test_never_and_always_against_a_programme(rows: list[list[int]]) -> None:
    g = np.array(rows, dtype=float)
    found = dominance(discrete(g))
    assert found.undecided == []
    assert found.always == [k for k in range(len(g)) if np.all(g[k] >= g.max(axis=0))]
    for ell in range(len(g)):
        lead = advantage(g, ell)
        assert (ell in found.never) == (lead < -1e-7), (ell, lead)
    for ell, mixture in found.never.items():
        assert ell not in mixture and all(w > 0 for w in mixture.values())
        assert abs(sum(mixture.values()) - 1) <= 1e-12
        assert np.all(sum(w * g[k] for k, w in mixture.items()) > g[ell])


def test_a_tie_everywhere_can_still_be_best() -> None:
    assert dominance(discrete(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]))) == Dominance([0, 1], {2: {0: 1.0}}, [])
    touching = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])  # the mixture ties, it does not beat
    assert dominance(discrete(touching)).never == {}


def test_work_beyond_the_limit_is_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    g = np.array([[2.0, 0.0], [0.0, 2.0], [0.9, 0.9], [0.8, 0.8]])
    assert set(dominance(discrete(g)).never) == {2, 3}
    monkeypatch.setattr(module, "MAX_WORK", 8)
    found = dominance(discrete(g))
    assert set(found.never) == {2} and found.undecided == [3]


def test_continuous() -> None:
    arms = {"up": "x", "down": "1 - x", "low": "0.49*sin(pi*x)**2", "mid": "0.4", "bump": "0.6*exp(-(x - 0.5)**2 / 0.001)"}
    a = hw.analyze(hw.Problem(latent=hw.Continuous([0, 1]), arms=arms)).to_dict()
    assert set(a["never_best"]) == {"low", "mid"} and a["undecided"] == [] and a["always_best"] == []
    x = np.linspace(0, 1, 2001)
    g = {"up": x, "down": 1 - x, "bump": 0.6 * np.exp(-((x - 0.5) ** 2) / 0.001), "mid": 0.4 + 0 * x}
    for name, value in (("low", 0.49 * np.sin(np.pi * x) ** 2), ("mid", 0.4)):
        assert np.all(sum(w * g[k] for k, w in a["never_best"][name].items()) > value)


def test_a_narrow_spike_prevents_never() -> None:
    """Sample points miss the spike; interval arithmetic must not."""
    spike = "where(abs(x - 0.123456789) < 1e-7, 2, 0)"
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "1 + 0*x", "b": spike, "c": "0.5"})
    found = dominance(p)
    assert 1 not in found.never and 2 in found.never and found.always == []
    v = hw.Problem(
        latent=hw.Vector({"x": hw.Interval(0, 1), "y": hw.Interval(0, 1)}), arms={"a": "1 + 0*x", "b": spike, "c": "0.5*y"}
    )
    assert 1 not in dominance(v).never and dominance(v).always == []


def test_always_best_on_intervals() -> None:
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "x + 1", "b": "sin(x)", "c": "x**2"})
    assert hw.analyze(p).to_dict()["always_best"] == ["a"]
    box = hw.Vector({"x": hw.Interval(-1, 1), "y": [0, 1]})
    q = hw.Problem(latent=box, arms={"a": "x + y + 3", "b": "x*y", "c": "x - y"})
    found = hw.analyze(q).to_dict()
    assert found["always_best"] == ["a"] and set(found["never_best"]) == {"b", "c"}


def test_vectors_with_intervals() -> None:
    box = hw.Vector({"x": hw.Interval(0, 1), "y": hw.Interval(0, 1)})
    arms = {"a": "x", "b": "1 - x", "c": "0.3 + 0.1*y", "d": "1.5*x*y"}
    found = hw.analyze(hw.Problem(latent=box, arms=arms)).to_dict()
    assert set(found["never_best"]) | set(found["undecided"]) == {"c"}
    assert found["always_best"] == []


def test_a_support_too_large_to_list() -> None:
    names = [f"x{i}" for i in range(40)]
    arms = {"a": "x0", "b": "1 - x0", "c": "0.4*x1", "d": "x2 + x3"}
    found = dominance(hw.Problem(latent=hw.Vector({n: [0, 1] for n in names}), arms=arms))
    assert set(found.never) <= {2} and 3 not in found.undecided and found.always == []


def test_functions_are_never_called_never() -> None:
    low, high = (lambda x: 0 * x - 5), (lambda x: x)
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={"low": low, "high": high, "flat": "0.2"})
    found = dominance(p)
    assert found.never == {} and found.always == []
    assert 0 in found.undecided
