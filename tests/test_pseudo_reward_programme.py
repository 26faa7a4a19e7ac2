"""What random rewards imply: against closed forms and general solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from headwater import native
from headwater.policies import table

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


# --- the likeliest law -----------------------------------------------------------------------------------------------


def likeliest(a: Array, q: Array) -> tuple[Array, float]:
    f = np.zeros(len(q))
    return f, native.likeliest_law(np.ascontiguousarray(a), q, f)


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


def test_the_likeliest_law_of_many_rewards() -> None:
    rng = np.random.default_rng(8)
    for m, n in ((25, 70), (40, 30)):
        a, q = rng.dirichlet(np.ones(m), n).T.copy(), rng.dirichlet(np.ones(m))
        f, delta = likeliest(a, q)
        assert delta <= 1e-10 and (a.T @ (q / f)).max() <= 1 + delta + 1e-13


# --- what an arm implies ---------------------------------------------------------------------------------------------


def imply(a: Array, g: Array, seen: Any, bases: Any = None, k: int = 0) -> tuple[bool, Array]:
    """Whether some law explains what arm k paid, and the most that each arm may pay then."""
    bases = np.full((len(g), len(a) + 1), -1) if bases is None else bases
    bound = np.zeros(len(g))
    explained = native.imply(k, np.ascontiguousarray(a), g, np.asarray(seen, dtype=np.int64), bases, bound)
    return explained, bound


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


# --- rows of sums ----------------------------------------------------------------------------------------------------


def random_rewards(seed: int, arms: int, points: int) -> tuple[list[Array | None], Array, native.Random]:
    """Channels of some arms, at least one, the means of all, and both as the native core reads them."""
    rng = np.random.default_rng(seed)
    matrices: list[Array | None] = [
        rng.dirichlet(np.full(int(rng.integers(2, 6)), 2.0), points).T.copy() if k == 0 or rng.random() < 0.7 else None
        for k in range(arms)
    ]
    g = rng.normal(size=(arms, points))
    return matrices, g, table.random_rewards(matrices, g, 2.0**-20)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 8))
def test_a_row_of_sums_is_that_of_the_programmes(seed: int, arms: int, points: int) -> None:
    """By HiGHS: n times the mean less the most that the other may pay, in units, rounded down and never above."""
    matrices, g, laid_out = random_rewards(seed, arms, points)
    a, unit = matrices[0], 2.0**-20
    assert a is not None
    rng = np.random.default_rng(seed)
    seen = rng.multinomial(300, a @ rng.dirichlet(np.ones(points)))
    ours = native.PseudoRewardProgramme(laid_out)
    row, total = np.zeros(arms, dtype=np.int64), 12345
    shift = ours.fit(0, 300, total, seen, row)
    truth = [most(a, seen / 300, c) for c in g]
    if shift == 0 and None not in truth:
        for ell in range(1, arms):
            exact = total - 300 * truth[ell] / unit  # type: ignore[operator]
            assert exact - 300 * 1e-5 * np.ptp(g) / unit - 1 <= row[ell] <= exact
    assert row[0] == 0


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_where_a_programme_starts_changes_nothing(seed: int) -> None:
    """A learner that counted round by round, and one that is told the counts: the same rows, to the last bit."""
    matrices, _, laid_out = random_rewards(seed, 4, 7)
    a = matrices[0]
    assert a is not None
    rng, seen = np.random.default_rng(seed), np.zeros(len(a), dtype=np.int64)
    one, law = native.PseudoRewardProgramme(laid_out), rng.dirichlet(np.ones(7))
    for _ in range(10):
        seen += rng.multinomial(9, a @ law)
        row, other = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
        shift = one.fit(0, int(seen.sum()), 7, seen, row)
        anew = native.PseudoRewardProgramme(laid_out)
        assert anew.fitted(0) == -1
        assert anew.fit(0, int(seen.sum()), 7, seen, other) == shift
        assert row.tolist() == other.tolist()


def test_what_does_not_fit_is_refused() -> None:
    _, _, laid_out = random_rewards(1, 3, 4)
    ours, row = native.PseudoRewardProgramme(laid_out), np.zeros(3, dtype=np.int64)
    with pytest.raises(ValueError, match="sums: got length 2; expected 3"):
        ours.fit(0, 1, 1, np.ones(6, dtype=np.int64), row[:2])
    with pytest.raises(ValueError, match="k: got 3; expected an arm of random rewards"):
        ours.fit(3, 1, 1, np.ones(6, dtype=np.int64), row)
    with pytest.raises(ValueError, match="seen: got length 1; expected"):
        ours.fit(0, 1, 1, np.ones(1, dtype=np.int64), row)
    with pytest.raises(ValueError, match="bases: got length 2; expected 3"):
        native.imply(0, np.ones((2, 3)), np.ones((2, 3)), row[:2], np.full((2, 2), -1), np.zeros(2))
