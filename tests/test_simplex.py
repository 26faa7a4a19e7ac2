"""Linear programmes against HiGHS, and what random rewards imply against closed forms and general solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from headwater.policies import implied, simplex
from headwater.policies.simplex import INFEASIBLE, OPTIMAL, STALLED, UNBOUNDED, solve

Array = NDArray[np.float64]
whole = st.integers(-3, 3)


def check(a: Array, b: Array, c: Array, basis: Any = None) -> simplex.Solution:
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
        assert b @ ours.dual == pytest.approx(ours.value, abs=scale * (1 + abs(ours.dual).max()))
        assert ours.value == pytest.approx(-theirs.fun, abs=scale * (1 + abs(theirs.fun)))
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
    ours = check(a, np.array([0.0, 0, 1]), np.array([0.75, -150, 1 / 50, -6, 0, 0, 0]))
    assert ours.value == pytest.approx(0.05)


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
            assert warm.value == pytest.approx(cold.value, abs=1e-9)
            again = solve(a, b, c, warm.basis)
            assert again.basis.tolist() == warm.basis.tolist(), "a basis that is still feasible is still optimal"
        basis = warm.basis


def test_a_useless_basis_is_forgotten() -> None:
    a = np.array([[1.0, 1, 2, 0], [1, 1, 2, 1]])
    b, c = np.array([2.0, 3]), np.array([1.0, 2, 3, 4])
    for basis in ([0, 1], [2, 0], [3, -1], [-1, 3], [2, 2]):
        assert check(a, b, c, basis).value == pytest.approx(8)


def test_the_kernel_as_plain_python() -> None:
    rng = np.random.default_rng(5)
    a = rng.dirichlet(np.ones(3), 6).T.copy()
    b, c = a @ rng.dirichlet(np.ones(6)), rng.random(6)
    kernels: list[Any] = [simplex.maximise, simplex.maximise.py_func]  # type: ignore[attr-defined]
    bases, works = [np.full(3, -1) for _ in kernels], [np.zeros(simplex.solve_size(3, 6)) for _ in kernels]
    for kernel, basis, work in zip(kernels, bases, works, strict=True):
        assert kernel(a, b, c, basis, work) == OPTIMAL
    assert bases[0].tolist() == bases[1].tolist()
    np.testing.assert_allclose(works[0][:6], works[1][:6], rtol=1e-12)


# --- the likeliest law -----------------------------------------------------------------------------------------------


def likeliest(a: Array, q: Array) -> tuple[Array, float]:
    f = np.zeros(len(q))
    delta = implied.likeliest(np.ascontiguousarray(a), q, f, np.zeros(implied.likeliest_size(*a.shape)))
    return f, delta


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 15), st.sampled_from([0.2, 1.0, 5.0]))
def test_the_likeliest_law_has_a_certificate(seed: int, m: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    a, q = rng.dirichlet(np.full(m, spread), n).T.copy(), rng.dirichlet(np.full(m, spread)) + 1e-4
    q /= q.sum()
    f, delta = likeliest(a, q)
    assert (a.T @ (q / f)).max() <= 1 + delta + 1e-13
    assert delta <= 1e-10
    assert f.sum() == pytest.approx(1)
    assert optimize.nnls(np.vstack([a, np.ones(n)]), np.append(f, 1.0))[1] < 1e-12, "some law of X gives it"


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_the_likeliest_law_of_two_rewards_is_the_nearest(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    low, q = rng.random(n), rng.random()
    f, _ = likeliest(np.stack([low, 1 - low]), np.array([q, 1 - q]))
    assert f[0] == pytest.approx(np.clip(q, low.min(), low.max()), abs=1e-7)


def test_the_likeliest_law_by_a_general_solver() -> None:
    rng = np.random.default_rng(8)
    solver: Any = optimize.minimize
    for _ in range(10):
        a, q = rng.dirichlet(np.ones(4), 3).T.copy(), rng.dirichlet(np.ones(4))
        f, _ = likeliest(a, q)
        limits = [{"type": "eq", "fun": lambda p: p.sum() - 1}]
        start = np.full(3, 1 / 3)
        run = solver(lambda p, a=a, q=q: -(q @ np.log(a @ p)), start, bounds=[(0, 1)] * 3, constraints=limits, tol=1e-12)
        assert q @ np.log(f) >= -run.fun - 1e-12
        np.testing.assert_allclose(f, a @ run.x, atol=1e-4)


# --- what an arm implies ---------------------------------------------------------------------------------------------


def imply(a: Array, g: Array, seen: Any, bases: Any = None) -> tuple[bool, Array]:
    """Of arm 0, by the compiled function."""
    bound = np.zeros(len(g))
    bases = np.full((len(g), len(a) + 1), -1) if bases is None else bases
    work = np.zeros(implied.work_size(*a.shape))
    return implied.imply(0, np.ascontiguousarray(a), g, np.asarray(seen), bases, bound, work), bound


def most(a: Array, f: Array, c: Array) -> float | None:
    """The largest c·p with a p = f, by HiGHS."""
    found: Any = optimize.linprog(-c, A_eq=a, b_eq=f, method="highs")
    return -float(found.fun) if found.status == 0 else None


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 9), st.sampled_from([3, 30, 10_000]))
def test_what_is_explained_is_bounded_by_the_programme(seed: int, m: int, n: int, pulls: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.dirichlet(np.ones(m), n).T.copy()
    g = rng.random((3, n))
    bases = np.full((3, m + 1), -1)
    seen = rng.multinomial(pulls, a @ rng.dirichlet(np.ones(n)))
    for _ in range(3):
        explained, bound = imply(a, g, seen, bases)
        truth = [most(a, seen / seen.sum(), c) for c in g]
        if explained and truth[1] is not None and truth[2] is not None:
            assert truth[1] - 1e-9 <= bound[1] <= truth[1] + 1e-6
            assert truth[2] - 1e-9 <= bound[2] <= truth[2] + 1e-6
        seen = seen + rng.multinomial(2, np.full(m, 1 / m))


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 50), st.integers(1, 50))
def test_what_no_law_explains_is_projected(seed: int, n: int, zeros: int, ones: int) -> None:
    """Two rewards: the likeliest law is the nearest, in closed form, and both rewards were seen."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(0.4, 0.6, n)
    a = np.stack([low, 1 - low])
    g = np.stack([1 - low, rng.random(n), rng.random(n)])
    f = np.clip(zeros / (zeros + ones), low.min(), low.max())
    explained, bound = imply(a, g, [zeros, ones])
    assert explained == (f == zeros / (zeros + ones))
    if not explained:
        at = np.argmin(abs(low - f))  # an end of the range: one point alone
        assert g[1, at] - 1e-12 <= bound[1] <= g[1, at] + 1e-4
        assert 1 - f - 1e-4 <= bound[0] <= 1 - f + 1e-12, "its own mean errs downward"


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_projections_are_never_below_the_truth(seed: int, m: int) -> None:
    """Two points: the likeliest weight of the first is the root of a falling function, or an end."""
    rng = np.random.default_rng(seed)
    a, g = rng.dirichlet(np.full(m, 4.0), 2).T.copy(), rng.random((2, 2))
    seen = rng.multinomial(40, rng.dirichlet(np.ones(m))) + 1
    explained, bound = imply(a, g, seen)

    def slope(x: float) -> float:
        return float(seen @ ((a[:, 0] - a[:, 1]) / (a[:, 1] + x * (a[:, 0] - a[:, 1]))))

    if not explained:
        x = 0.0 if slope(0) <= 0 else 1.0 if slope(1) >= 0 else float(optimize.brentq(slope, 0, 1, xtol=1e-15))
        mean = g @ [x, 1 - x]
        assert mean[1] - 1e-9 <= bound[1] <= mean[1] + 1e-4
        assert mean[0] - 1e-4 <= bound[0] <= mean[0] + 1e-9


def test_a_reward_never_seen_leaves_its_probability_open() -> None:
    """Both points pay the first reward half of the time, and something never seen otherwise: nothing tells them apart."""
    a = np.array([[0.5, 0.5], [0.5, 0.0], [0.0, 0.5]])
    g = np.array([[1.0, 3.0], [1.0, 0.0], [0.0, 1.0]])
    explained, bound = imply(a, g, [7, 0, 0])
    assert not explained
    np.testing.assert_allclose(bound, [1, 1, 1], atol=1e-8)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 8))
def test_channels_of_0_and_1_give_the_papers_pseudo_rewards(seed: int, m: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    _, level = np.unique(rng.integers(0, m, n), return_inverse=True)
    a = (np.arange(level.max() + 1)[:, None] == level).astype(float)
    g = rng.random((3, n))
    seen = rng.integers(0, 9, len(a))
    seen[0] += 1
    explained, bound = imply(a, g, seen)
    phi = [sum(seen[i] * row[level == i].max() for i in range(len(a))) / seen.sum() for row in g]
    assert explained
    np.testing.assert_allclose(bound[1:], phi[1:], atol=1e-9)


def test_what_is_implied_as_plain_python() -> None:
    rng = np.random.default_rng(2)
    a, g = rng.dirichlet(np.full(3, 4.0), 5).T.copy(), rng.random((3, 5))
    found = set()
    for seen in ([9, 1, 1], np.rint(1000 * a.mean(axis=1)).astype(int), [5, 0, 0]):
        bounds, answers = [np.zeros(3), np.zeros(3)], []
        for kernel, bound in zip((implied.imply, implied.imply.py_func), bounds, strict=True):  # type: ignore[attr-defined]
            work, bases = np.zeros(implied.work_size(3, 5)), np.full((3, 4), -1)
            answers.append(kernel(0, a, g, np.array(seen), bases, bound, work))
        assert answers[0] == answers[1]
        found.add(answers[0])
        np.testing.assert_allclose(bounds[0][1:], bounds[1][1:], rtol=1e-9)
    assert found == {True, False}
