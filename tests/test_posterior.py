"""Draws from the posterior of the law of X: exact posteriors, calibration, mixing, and what a chain is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.paper import CASES
from headwater.policies.channel_view import channel_view
from headwater.policies.posterior import posterior_draws
from headwater.pseudo.channels import Channels, channels_of

FALSE_ALARM = 1e-6  # of each single comparison of draws with a law
ALPHAS = (0.5, 1.0, 2.0)


def channels_from(matrices: list[Floats]) -> Channels:
    """Channels from full matrices (M_k, J), their rewards 0, 1, 2, ..."""
    a = np.vstack(matrices)
    offset = np.cumsum([0, *(len(m) for m in matrices)]).astype(np.int64)
    column, row = np.nonzero(a.T)
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=a.shape[1]))]).astype(np.int64)
    values = [np.arange(len(m), dtype=float) for m in matrices]
    g = np.array([v @ m for v, m in zip(values, matrices, strict=True)])
    return Channels(values, g, offset, start, row.astype(np.int64), a.T[column, row])


def levels(*level: int) -> Floats:
    """The channel of a deterministic arm that pays its ``level[j]``-th reward at the j-th point."""
    return np.equal(np.arange(max(level) + 1)[:, None], level).astype(np.float64)


def random_channels(rng: np.random.Generator, arms: int, atoms: int) -> list[Floats]:
    """Deterministic arms and random ones, with up to 4 rewards."""
    out = []
    for _ in range(arms):
        rewards = int(rng.integers(1, 5))
        if rng.random() < 0.5:
            _, level = np.unique(rng.integers(0, rewards, atoms), return_inverse=True)
            out.append(levels(*level.tolist()))
        else:
            out.append(rng.dirichlet(np.full(rewards, 0.7), atoms).T)
    return out


def counts_of(rng: np.random.Generator, matrices: list[Floats], p: Floats, pulls: list[int]) -> Ints:
    laws = [m @ p for m in matrices]
    return np.concatenate([rng.multinomial(n, law / law.sum()) for n, law in zip(pulls, laws, strict=True)])


def autocorrelation_time(x: Floats) -> float:
    """Integrated, in steps of x, with Sokal's window of five times itself."""
    f = np.fft.rfft(x - x.mean(), 2 * len(x))
    rho = np.fft.irfft(f * np.conj(f))[: len(x)]
    tau = 2 * np.cumsum(rho / rho[0]) - 1
    return float(tau[np.argmax(np.arange(len(x)) >= 5 * tau)])


def agrees(draws: Floats, grid: Floats, weights: Floats) -> bool:
    """Kolmogorov's test of draws against a law given by weights on a fine grid of values."""
    order = np.argsort(grid)
    cdf = np.cumsum(weights[order]) / weights.sum()
    return bool(stats.kstest(draws, lambda x: np.interp(x, grid[order], cdf)).pvalue > FALSE_ALARM)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [(0, 0, 0), (3, 0, 1), (300, 700, 2), (60_000, 0, 40_000)])
def test_one_deterministic_arm_has_a_dirichlet_posterior(alpha: float, n: tuple[int, ...]) -> None:
    matrix = levels(0, 1, 1, 2, 2, 2)
    p = posterior_draws(channels_from([matrix]), np.array(n), alpha=alpha, draws=3000, seed=5)
    size, total = matrix.sum(axis=1), alpha * 6 + sum(n)
    mass = p @ matrix.T
    for m in range(3):
        shape = alpha * size[m] + n[m]
        assert stats.kstest(mass[:, m], stats.beta(shape, total - shape).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(p[:, 1] / mass[:, 1], stats.beta(alpha, alpha).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(p[:, 5] / mass[:, 2], stats.beta(alpha, 2 * alpha).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("alpha", [0.05, *ALPHAS, 30.0])
@pytest.mark.parametrize("n", [(1, 0, 0, 1), (4, 1, 30, 9), (90_000, 31_000, 3, 1), (0, 200, 0, 0)])
def test_two_atoms_against_integration(alpha: float, n: tuple[int, ...]) -> None:
    matrices = [np.array([[0.9, 0.4], [0.1, 0.6]]), np.array([[1.0, 0.3], [0.0, 0.7]])]
    p = posterior_draws(channels_from(matrices), np.array(n), alpha=alpha, draws=3000, thin=30, seed=6)
    shape = min(alpha, 1.0)  # at quantiles of its spikes, if it has any
    x = stats.beta(shape, shape).ppf((np.arange(400_000) + 0.5) / 400_000)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.array(n)[:, None] * np.log(np.vstack(matrices) @ np.array([x, 1 - x]))
    log_weight = np.where(np.array(n)[:, None] > 0, terms, 0.0).sum(axis=0) + (alpha - shape) * np.log(x * (1 - x) + 1e-300)
    assert agrees(p[:, 0], x, np.exp(log_weight - log_weight.max()))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", [(1, 0, 2, 0, 1), (40, 10, 2, 5, 1), (3000, 900, 2, 0, 3)])
def test_three_atoms_against_a_grid(alpha: float, n: tuple[int, ...]) -> None:
    matrices = [np.array([[0.8, 0.5, 0.1], [0.2, 0.5, 0.9]]), np.array([[1.0, 0.0, 0.3], [0.0, 0.7, 0.3], [0.0, 0.3, 0.4]])]
    p = posterior_draws(channels_from(matrices), np.array(n), alpha=alpha, draws=4000, seed=7)
    angle = (np.arange(900) + 0.5) * (np.pi / 2 / 900)
    x, y = np.meshgrid(np.sin(angle) ** 2, np.sin(angle) ** 2, indexing="ij")
    grid = np.array([x, (1 - x) * y, (1 - x) * (1 - y)]).reshape(3, -1)
    # dp = (1 - x) dx dy, and dx is proportional to sqrt(x (1 - x)) d(angle)
    log_weight = (alpha - 1) * np.log(grid).sum(axis=0) + np.log(1 - x).ravel()
    log_weight += 0.5 * np.log(x * (1 - x) * y * (1 - y)).ravel() + np.array(n) @ np.log(np.vstack(matrices) @ grid)
    weight = np.exp(log_weight - log_weight.max())
    for functional in ([1, 0, 0], [0, 1, 0], [0.3, -1, 2]):
        assert agrees(p @ functional, grid.T @ functional, weight)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_hundred_thousand_counts_leave_the_unseen_direction_free(alpha: float) -> None:
    """Arm 1 tells {a, b} from c, sharply; 3 pulls of arm 2, that tells a from {b, c}, say a little on a's share f of {a, b}.

    The mass of {a, b} is 1/2 within 0.2 %: f has density f^(alpha - 1) (1 - f)^(alpha - 1) f (1 - f/2)^2, to that precision.
    """
    channels = channels_from([levels(0, 0, 1), levels(0, 1, 1)])
    p = posterior_draws(channels, np.array([50_000, 50_000, 1, 2]), alpha=alpha, draws=4000, thin=12, seed=8)
    assert abs(p[:, 2] - 0.5).max() < 6 * 0.5 / 100_000**0.5
    f = stats.beta(alpha + 1, alpha).ppf((np.arange(100_000) + 0.5) / 100_000)
    assert agrees(p[:, 0] / (p[:, 0] + p[:, 1]), f, (1 - f / 2) ** 2)
    free = posterior_draws(channels, np.array([50_000, 50_000, 0, 0]), alpha=alpha, draws=4000, thin=1, seed=9)
    share = free[:, 0] / (free[:, 0] + free[:, 1])
    assert stats.kstest(share, stats.beta(alpha, alpha).cdf).pvalue > FALSE_ALARM  # thin = 1: it is drawn afresh each time


@pytest.mark.parametrize("alpha", [0.2, *ALPHAS, 10.0])
def test_simulation_based_calibration(alpha: float) -> None:
    """p from the prior, counts from p: the rank of p among 19 draws of the posterior is uniform, for any functional."""
    rng = np.random.default_rng(int(alpha * 10))
    ranks = np.zeros((4, 20))
    for seed in range(700):
        arms, atoms = int(rng.integers(2, 5)), int(rng.integers(2, 9))
        matrices = random_channels(rng, arms, atoms)
        p = rng.dirichlet(np.full(atoms, alpha))
        n = counts_of(rng, matrices, p, [int(10 ** rng.uniform(0, 5)) for _ in range(arms)])
        draws = posterior_draws(channels_from(matrices), n, alpha=alpha, draws=19, thin=12 * atoms, seed=seed)
        functionals = np.array([rng.normal(size=atoms), rng.normal(size=atoms), np.eye(atoms)[0], np.eye(atoms)[-1]])
        for i, functional in enumerate(functionals):
            ranks[i, int(((draws - p) @ functional < 0).sum())] += 1
    assert stats.chisquare(ranks, axis=1).pvalue.min() > FALSE_ALARM


@pytest.mark.parametrize("alpha", [0.5, 1.0])
@pytest.mark.parametrize("case", [c for c in CASES if c.id.startswith(("discrete", "vector"))], ids=lambda c: str(c.id))
def test_two_sweeps_forget(case: Any, alpha: float) -> None:
    """On the paper's problems the arms' means take at most 3 rounds of the recommended steps (1.0 to 2.3 were measured)."""
    rng = np.random.default_rng(11)
    channels = channels_of(case.problem)
    arms, atoms = channels.g.shape
    law = case.problem.distribution
    p = np.ravel(law.p if hasattr(law, "p") else law.joint())
    best = int(np.argmax(channels.g @ p))
    for most, others in ((49_000, 500), (49_950, 25), (60, 30)):
        pulls = [most if k == best else others for k in range(arms)]
        n = counts_of(rng, [channels.matrix(k) for k in range(arms)], p, pulls)
        draws = posterior_draws(channels, n, alpha=alpha, draws=6000, thin=native.recommended_steps(atoms), seed=12)
        assert max(autocorrelation_time(draws @ g) for g in channels.g) < 3.0


@st.composite
def evidence(draw: st.DrawFn) -> tuple[Channels, Ints, float]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    arms, atoms = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    channels = channels_from(random_channels(rng, arms, atoms))
    rows = int(channels.offset[-1])
    count = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 10**9))
    n = np.array(draw(st.lists(count, min_size=rows, max_size=rows)), dtype=np.int64)
    return channels, n, draw(st.sampled_from([0.01, 0.5, 1.0, 3.0, 100.0]))


def chain_of(channels: Channels, alpha: float) -> native.PosteriorWalk:
    return native.PosteriorWalk(channel_view(channels), alpha=alpha)


@given(evidence(), st.integers(0, 2**32 - 1))
def test_walks_stay_in_the_simplex_and_remember_nothing(given: tuple[Channels, Ints, float], seed: int) -> None:
    """A walk is a function of p, the counts and the stream; and zeros in p do no harm."""
    channels, whole, alpha = given
    rng, n, atoms = np.random.default_rng(seed), whole.astype(float), len(channels.start) - 1
    used, fresh = chain_of(channels, alpha), chain_of(channels, alpha)
    used.prepare(rng.permutation(n))
    used.prepare(n)
    p = np.where(rng.random(atoms) < 0.3, 0.0, rng.random(atoms))
    p[0] = 0.5
    q = p.copy()
    for t in range(20):
        calls = used.walk(p, n, steps=12, seed=seed, replication=1, t=t)
        assert 0 < calls < 2**24 and calls == fresh.walk(q, n, steps=12, seed=seed, replication=1, t=t)
        assert p.tolist() == q.tolist()
        assert p.min() >= 1e-300 and abs(p.sum() - 1) < 1e-9


@given(evidence())
def test_directions_are_conjugate_at_the_centre(given: tuple[Channels, Ints, float]) -> None:
    """Against dense algebra: D H D' = 1 for the objective's Hessian, whose slope along every direction is small there."""
    channels, n, alpha = given
    chain = chain_of(channels, alpha)
    assert chain.prepare(n.astype(float)) < native.NEWTON_STEPS
    got = chain.prepared
    a, c, d, first = got["prior"], got["centre"], got["directions"], got["first"]
    full = np.vstack([channels.matrix(k) for k in range(len(channels.values))])
    b, seen = full[n > 0][:, first], n[n > 0]
    assert len(c) == len(np.unique(full[n > 0], axis=1).T), "atoms that look alike are one group"
    z = b @ c
    h = b.T @ ((seen / z**2)[:, None] * b) + np.diag(a / c**2)
    assert abs(c.sum() - 1) < 1e-12
    assert abs(d.sum(axis=1)).max(initial=0) < 1e-12
    rounding = 1e-13 * (np.abs(d) @ np.abs(h) @ np.abs(d).T).max(initial=0)
    assert abs(d @ h @ d.T - np.eye(len(c) - 1)).max(initial=0) < 1e-6 + rounding
    assert abs(d @ (b.T @ (seen / z) + a / c)).max(initial=0) < 0.011 + rounding
    kept = np.flatnonzero(got["place"] >= 0)
    np.testing.assert_allclose(got["slopes"], d @ full[kept][:, first].T, atol=1e-12 * (1 + abs(d).max(initial=0)))


def test_when_to_prepare_again() -> None:
    chain = chain_of(channels_from([levels(0, 1, 1), levels(0, 0, 1)]), 1.0)
    n = np.array([10.0, 0.0, 4.0, 4.0])
    assert chain.stale(n)
    assert chain.prepared_counts.tolist() == [0, 0, 0, 0]
    chain.prepare(n)
    assert chain.prepared_counts.tolist() == n.tolist()
    expected = {(10, 0, 4, 4): False, (17, 0, 8, 4): False, (18, 0, 4, 4): True, (10, 1, 4, 4): True, (9, 0, 4, 4): True}
    for counts, answer in expected.items():
        assert chain.stale(np.array(counts, dtype=float)) == answer
    chain.forget()
    assert chain.stale(n)
    assert chain.prepared_counts.tolist() == [0, 0, 0, 0]


def test_draws_depend_on_seed_and_round_and_nothing_else() -> None:
    channels, n = channels_from([levels(0, 1, 1), np.array([[0.2, 0.5, 0.9], [0.8, 0.5, 0.1]])]), np.array([10, 20, 3, 4])
    draws = posterior_draws(channels, n, draws=8, seed=1)
    assert (posterior_draws(channels, n, draws=5, seed=1) == draws[:5]).all()
    assert (posterior_draws(channels, n, draws=8, seed=2) != draws).all()
    chain, seen = chain_of(channels, 1.0), set()
    for t, replication, seed in ((1, 0, 3), (2, 0, 3), (1, 1, 3), (1, 0, 4), (1, 0, 2**32 + 3), (1, 0, 3)):
        p = np.full(3, 1 / 3)
        chain.walk(p, n.astype(float), steps=6, seed=seed, replication=replication, t=t)
        seen.add(tuple(p.tolist()))
    assert len(seen) == 5


@given(st.floats(1e-300, 1e300))
def test_rough_logarithms(x: float) -> None:
    assert abs(native.rough_log(x) - np.log(x)) < 5e-8


def test_a_thousand_atoms() -> None:
    rng = np.random.default_rng(13)
    matrices = [levels(*np.unique(rng.integers(0, 100, 1000), return_inverse=True)[1].tolist()) for _ in range(10)]
    n = counts_of(rng, matrices, rng.dirichlet(np.ones(1000)), [100_000] + [300] * 9)
    draws = posterior_draws(channels_from(matrices), n, draws=3, thin=200, seed=1)
    observed, expected = n[:100] / 100_000, draws @ matrices[0].T
    assert (abs(expected - observed) < 8 * np.sqrt((observed + 1e-4) / 100_000)).all()


def test_what_cannot_be_drawn() -> None:
    channels = channels_from([levels(0, 1, 1)])
    for counts in ([1, 2, 3], [1.5, 2.0], [-1, 2]):
        with pytest.raises(ProblemError, match=r"counts: got .*; expected 2 whole numbers >= 0, one for each row"):
            posterior_draws(channels, np.array(counts), draws=1)
    for alpha in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ProblemError, match=r"alpha: got .*; expected a number > 0"):
            posterior_draws(channels, np.array([1, 2]), alpha=alpha, draws=1)
    for draws, thin in ((-1, 1), (1, 0)):
        with pytest.raises(ProblemError, match=rf"draws, thin: got {draws}, {thin}; expected draws >= 0 and thin >= 1"):
            posterior_draws(channels, np.array([1, 2]), draws=draws, thin=thin)
    with pytest.raises(ProblemError, match="seed: got -1"):
        posterior_draws(channels, np.array([1, 2]), draws=1, seed=-1)


def test_arrays_of_other_lengths() -> None:
    channels, n = channels_from([levels(0, 1, 1)]), np.array([3.0, 4.0])
    with pytest.raises(ValueError, match="alpha: expected a number > 0"):
        chain_of(channels, 0.0)
    chain = chain_of(channels, 1.0)
    with pytest.raises(ValueError, match="counts: got length 3; expected 2"):
        chain.prepare(np.zeros(3))
    with pytest.raises(ValueError, match="p: got length 2; expected 3"):
        chain.walk(np.zeros(2), n, steps=1, seed=1, t=1)
    with pytest.raises(ValueError, match="out: its rows: got length 2; expected 3"):
        chain.fill(np.zeros((1, 2)), n, burn_in=0, thin=1, seed=1)
