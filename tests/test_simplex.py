"""Linear programmes against HiGHS."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from headwater import native

Array = NDArray[np.float64]
OPTIMAL, INFEASIBLE, UNBOUNDED, STALLED = range(4)
whole = st.integers(-3, 3)


class Solution(NamedTuple):
    status: int
    basic: Array
    dual: Array
    reduced: Array
    basis: NDArray[np.int64]

    @property
    def x(self) -> Array:
        out, used = np.zeros(len(self.reduced)), self.basis >= 0
        out[self.basis[used]] = self.basic[used]
        return out


def solve(a: Array, b: Array, c: Array, basis: Any = None) -> Solution:
    m, n = a.shape
    at = np.full(m, -1) if basis is None else np.array(basis, dtype=np.int64)
    basic, dual, reduced = np.zeros(m), np.zeros(m), np.zeros(n)
    status = native.maximise(np.ascontiguousarray(a), b.astype(float), c.astype(float), at, basic, dual, reduced)
    return Solution(status, basic, dual, reduced, at)


def check(a: Array, b: Array, c: Array, basis: Any = None) -> Solution:
    """Solve, and compare with HiGHS; every claim has its certificate checked, whoever is right."""
    ours = solve(a, b, c, basis)
    theirs: Any = optimize.linprog(-c, A_eq=a, b_eq=b, method="highs")
    scale = 1e-7 * (1 + abs(b).max() + abs(c).max())
    if theirs.status in (0, 2, 3):
        assert ours.status == {0: OPTIMAL, 2: INFEASIBLE, 3: UNBOUNDED}[theirs.status]
    if ours.status == OPTIMAL:
        np.testing.assert_allclose(a @ ours.x, b, atol=scale)
        assert ours.x.min() >= -scale
        assert np.all(a.T @ ours.dual >= c - scale), "the dual is feasible"
        assert b @ ours.dual == pytest.approx(c @ ours.x, abs=scale * (1 + abs(ours.dual).max()))
        assert c @ ours.x == pytest.approx(-theirs.fun, abs=scale * (1 + abs(theirs.fun)))
    if ours.status == INFEASIBLE:
        assert np.all(a.T @ ours.dual >= -1e-8) and b @ ours.dual < 0, "Farkas: no x >= 0 can have a x = b"
    return ours


@st.composite
def programmes(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Small whole numbers: degenerate vertices, redundant and contradictory rows are common."""
    m, n = draw(st.integers(1, 6)), draw(st.integers(1, 10))
    a = np.array(draw(st.lists(st.lists(whole, min_size=n, max_size=n), min_size=m, max_size=m)), dtype=float)
    if draw(st.booleans()):
        a[-1] = a[0]
    x = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=float)
    b = a @ x if draw(st.booleans()) else np.array(draw(st.lists(whole, min_size=m, max_size=m)), dtype=float)
    return a, b, np.array(draw(st.lists(whole, min_size=n, max_size=n)), dtype=float)


@settings(max_examples=300)
@given(programmes())
def test_against_highs(programme: tuple[Array, Array, Array]) -> None:
    check(*programme)


def test_thousands_against_highs() -> None:
    rng, found = np.random.default_rng(1), set()
    for i in range(2000):
        m, n = int(rng.integers(1, 9)), int(rng.integers(1, 16))
        a = rng.normal(size=(m, n)) if i % 2 else rng.integers(-2, 3, (m, n)).astype(float)
        if i % 3 == 0:
            a[-1] = 2 * a[0]
        b = a @ rng.integers(0, 3, n) if i % 4 else rng.integers(-2, 3, m).astype(float)
        found.add(check(a, b, rng.integers(-3, 4, n).astype(float)).status)
    assert found == {OPTIMAL, INFEASIBLE, UNBOUNDED} and STALLED not in found


@pytest.mark.parametrize(("m", "n"), [(20, 200), (100, 1000)])
def test_large_ones(m: int, n: int) -> None:
    rng = np.random.default_rng(3)
    a = rng.dirichlet(np.full(m, 0.3), n).T.copy()
    check(a, a @ rng.dirichlet(np.full(n, 0.1)), rng.random(n))


def test_laws_that_meet_in_a_point_do_not_cycle() -> None:
    """All vertices but one degenerate: the classic way to make a simplex method turn in circles."""
    a = np.array([[0.25, -60, -1 / 25, 9, 1, 0, 0], [0.5, -90, -1 / 50, 3, 0, 1, 0], [0, 0, 1, 0, 0, 0, 1]])
    c = np.array([0.75, -150, 1 / 50, -6, 0, 0, 0])
    assert c @ check(a, np.array([0.0, 0, 1]), c).x == pytest.approx(0.05)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 12))
def test_warm_starts_change_no_answer(seed: int, m: int, n: int) -> None:
    """Right-hand sides that drift like an empirical law, sometimes out of reach and back; one basis carried through."""
    rng = np.random.default_rng(seed)
    a, c = rng.dirichlet(np.ones(m), n).T.copy(), rng.random(n)
    counts = rng.multinomial(3, a @ rng.dirichlet(np.ones(n)))
    basis = None
    for _ in range(25):
        counts[rng.integers(m)] += 1
        b = counts / counts.sum()
        cold, warm = solve(a, b, c), solve(a, b, c, basis)
        assert warm.status == cold.status
        if warm.status == OPTIMAL:
            assert c @ warm.x == pytest.approx(c @ cold.x, abs=1e-9)
            again = solve(a, b, c, warm.basis)
            assert again.basis.tolist() == warm.basis.tolist(), "a basis that is still feasible is still optimal"
        basis = warm.basis


def test_a_useless_basis_is_forgotten() -> None:
    a = np.array([[1.0, 1, 2, 0], [1, 1, 2, 1]])
    b, c = np.array([2.0, 3]), np.array([1.0, 2, 3, 4])
    for basis in ([0, 1], [2, 0], [3, -1], [-1, 3], [2, 2]):
        assert c @ check(a, b, c, basis).x == pytest.approx(8)


def test_shapes_are_checked() -> None:
    a, two, three = np.ones((2, 3)), np.ones(2), np.ones(3)
    with pytest.raises(ValueError, match="c: got length 2; expected 3"):
        native.maximise(a, two, two, np.full(2, -1), np.ones(2), np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="b: got length 3; expected 2"):
        native.maximise(a, three, three, np.full(2, -1), np.ones(2), np.ones(2), np.ones(3))
