"""The likelihood's solver, the joint index, its laziness, the guard, and what is said of the law of X."""

from __future__ import annotations

import importlib
import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog
from scipy.special import loggamma
from scipy.stats import binom

import headwater as hw
from channel_strategies import channels_and_counts, draw_counts, random_problem, stacked
from headwater import native
from headwater.arrays import Floats, Ints
from headwater.errors import SizeError
from headwater.latent import Discrete
from headwater.paper import CASES
from headwater.policies.channel_view import channel_view
from headwater.policies.evidence import Evidence
from headwater.policies.inference import Holds, LatentLaw, latent_law
from headwater.problem import Problem
from headwater.pseudo.channels import Channels, channels_of

TIE, FLAT, PATIENCE = 1e-7, 1e9, 13
"""As native/policies/learning/joint_index.h has them."""
DISCRETE = {case.id: case.problem for case in CASES if case.id.startswith("discrete")}


def view_of(channels: Channels) -> native.ChannelView:
    low = float(channels.g.min())
    return channel_view(channels, low, float(channels.g.max()) - low)


def scaled(channels: Channels) -> Floats:
    """The means, as the index has them."""
    return np.asarray((channels.g - channels.g.min()) / np.ptp(channels.g))


def known(channels: Channels, counts: Floats, *, eager: bool = False) -> native.FitState:
    state = native.FitState(view_of(channels), eager)
    state.recall(np.asarray(counts, dtype=float), np.zeros(len(channels.values), dtype=bool))
    return state


def law(channels: Channels, counts: Floats, labels: list[str], confidence: float, holds: Holds = "each") -> LatentLaw:
    """What counts (R,) say of the law of X."""
    seen = np.zeros((len(channels.values), int(np.diff(channels.offset).max())), dtype=np.int64)
    for k in range(len(seen)):
        low, high = channels.offset[k : k + 2]
        seen[k, : high - low] = counts[low:high]
    low, span = float(channels.g.min()), float(np.ptp(channels.g))
    doubted = np.zeros(len(seen), dtype=np.int64)
    return latent_law(Evidence(channels, low, span, None), seen, labels, doubted, confidence, holds)


def cvxpy_maximum(channels: Channels, counts: Floats, g: Floats, floor: float | None) -> float:
    """The largest g·p with log-likelihood at least ``floor``; without one the largest log-likelihood. Independent of ours."""
    cp: Any = importlib.import_module("cvxpy")
    p = cp.Variable(channels.g.shape[1], nonneg=True)
    seen = counts > 0
    likelihood = cp.sum(cp.multiply(counts[seen], cp.log(stacked(channels)[seen] @ p)))
    limits = [cp.sum(p) == 1] + ([] if floor is None else [likelihood >= floor])
    programme = cp.Problem(cp.Maximize(likelihood if floor is None else g @ p), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programme.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-11, tol_feas=1e-10)
    return float(programme.value)


@given(channels_and_counts(most_pulls=10**5))
def test_the_likeliest_law_is_certified(case: tuple[Channels, Floats, Floats]) -> None:
    channels, p_true, counts = case
    p = np.full(channels.g.shape[1], 1 / channels.g.shape[1])
    _, gap = native.Likelihood(view_of(channels)).climb(counts, np.zeros(len(p)), 0.0, 1e-10, p)
    assert p.min() >= 0 and abs(p.sum() - 1) < 1e-12
    assert gap <= 1e-9 + 1e-12 * counts.sum()
    a, seen = stacked(channels)[counts > 0], counts[counts > 0]
    # the certificate, recomputed: the gradient is nowhere above its mean under p
    gradient = a.T @ (seen / (a @ p))
    assert gradient.max() - counts.sum() <= 1e-8 + 1e-10 * counts.sum()
    assert seen @ np.log(a @ p) >= seen @ np.log(a @ p_true) - 1e-7
    assert seen @ np.log(a @ known(channels, counts).likeliest()) == pytest.approx(seen @ np.log(a @ p), abs=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_likelihood_and_index_agree_with_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels = channels_of(random_problem(seed, 3, 6, noisy=(seed % 3) / 2))
    counts = draw_counts(channels, rng.dirichlet(np.ones(6)), rng.integers(1, 300, 3), seed)
    state, g = known(channels, counts, eager=True), scaled(channels)
    delta = math.log(counts.sum() + 1)
    state.decide(delta)
    best = state.likelihood
    assert state.exact.all()
    assert cvxpy_maximum(channels, counts, g[0], None) == pytest.approx(best, abs=1e-5)
    for ell in range(3):
        assert cvxpy_maximum(channels, counts, g[ell], best - delta) == pytest.approx(state.bound[ell], abs=2e-6)


def play(channels: Channels, p: Floats, horizon: int, *, eager: bool, seed: int) -> Ints:
    state = native.FitState(view_of(channels), eager)
    rng = np.random.default_rng(seed)
    laws = [np.cumsum(channels.matrix(k), axis=0)[:-1] for k in range(len(channels.values))]
    chosen = np.zeros(horizon, dtype=np.int64)
    for t in range(horizon):
        x, u = rng.choice(len(p), p=p), rng.random()
        chosen[t] = k = state.decide(math.log(t + 1))
        state.witness(k, int(channels.offset[k] + np.searchsorted(laws[k][:, x], u, side="right")))
    return chosen


@pytest.mark.parametrize("seed", range(8))
def test_bounds_that_were_raised_stay_bounds(seed: int) -> None:
    """Solved once, then more rewards, then prices raised: never below the index, often nearer to it."""
    rng = np.random.default_rng(seed)
    channels = channels_of(random_problem(seed, 6, 40, noisy=(seed % 3) / 2))
    p, delta, nearer = rng.dirichlet(np.ones(40)), 2.5, 0
    counts = draw_counts(channels, p, rng.integers(0, 6, 6), seed).astype(float)
    state = known(channels, counts, eager=True)
    state.decide(delta)
    for t in range(12):
        more = draw_counts(channels, p, np.eye(6, dtype=np.int64)[t % 6], 100 * seed + t)
        counts += more
        state.witness(t % 6, int(np.flatnonzero(more)[0]))
        state.freshen()
        exact = known(channels, counts, eager=True)
        exact.decide(delta)
        state.enclose(delta)
        before = state.bound
        for ell in range(6):
            state.raise_prices(ell)
        state.enclose(delta)
        assert np.all(state.bound >= exact.bound - 1e-7)
        assert np.all(state.bound <= before + 1e-12)
        nearer += int(np.sum(state.bound < before - 1e-6))
    assert nearer > 0


@given(st.lists(st.floats(-9, 0), min_size=2, max_size=40), st.integers(0, 2**32 - 1), st.floats(0.01, 3))
def test_one_reward_that_is_nearly_impossible_somewhere(powers: list[float], seed: int, delta: float) -> None:
    """Curvatures of one reward then differ by many orders of magnitude; the index is a linear programme."""
    chance, rng = 0.9 * 10.0 ** np.array(powers), np.random.default_rng(seed)
    points = len(powers)
    arms: dict[str, Any] = {"seen": {"outcomes": [0, 1], "probabilities": np.column_stack([1 - chance, chance]).tolist()}}
    arms |= {f"arm {k}": rng.random(points).tolist() for k in range(3)}
    channels = channels_of(Problem(latent=Discrete([f"x{j}" for j in range(points)]), arms=arms))
    counts = np.zeros(int(channels.offset[-1]))
    counts[1] = 1.0
    state, g = known(channels, counts, eager=True), scaled(channels)
    state.decide(delta)
    share = chance / chance.max()  # solvers allow a limit to be missed by a fixed amount
    for ell in range(4):
        limit = [-math.exp(-delta)]
        found = linprog(-g[ell], A_ub=[-share], b_ub=limit, A_eq=[np.ones(points)], b_eq=[1.0], bounds=(0, 1))
        assert found.fun is not None and state.bound[ell] == pytest.approx(-found.fun, abs=2e-6)


def test_atoms_of_far_more_curvature_than_those_in_use_leave_the_factor_sound() -> None:
    """One reward, nearly impossible where all mass is: rank one, and a ridge made for that place was lost in rounding."""
    chance = np.concatenate([[1e-6], np.random.default_rng(0).uniform(0.2, 0.9, 16)])
    arms: dict[str, Any] = {"seen": {"outcomes": [0, 1], "probabilities": np.column_stack([1 - chance, chance]).tolist()}}
    arms["other"] = list(range(17))
    channels = channels_of(Problem(latent=Discrete([f"x{j}" for j in range(17)]), arms=arms))
    bend = np.zeros(int(channels.offset[-1]))
    bend[1] = 1e12
    curvature = native.Curvature(view_of(channels), np.eye(17)[0], bend)
    for j in range(1, 17):
        curvature.take_in(j)
    upper = curvature.factor.reshape(17, 17)
    assert abs(upper.T @ upper - 1e12 * np.outer(chance, chance)).max() <= 1e-6 * 1e12


@pytest.mark.parametrize("noisy", [0, 1])
def test_a_factor_follows_the_atoms_that_come_and_go(noisy: int) -> None:
    """Always that of the curvature of those in use; who goes leaves the others a pull towards what it was."""
    rng = np.random.default_rng(noisy)
    channels = channels_of(random_problem(3, 6, 30, noisy=noisy))
    rows = int(channels.offset[-1])
    dense = np.zeros((rows, 30))
    dense[channels.row, np.repeat(np.arange(30), np.diff(channels.start))] = channels.weight
    p, bend = np.where(rng.random(30) < 0.3, 0.1, 0.0), rng.uniform(5, 9, rows)
    kept = native.Curvature(view_of(channels), p, bend)

    def curvature() -> Floats:
        used = dense[:, kept.active]
        out: Floats = used.T @ (bend[:, None] * used)
        upper = kept.factor.reshape(out.shape)
        assert np.allclose(upper.T @ upper, out, rtol=1e-6, atol=1e-6)
        return out

    assert set(kept.active) == set(np.flatnonzero(p)) and kept.ridge > 0
    curvature()
    for j in np.flatnonzero(p == 0)[:2].tolist():
        kept.take_in(j)
        full = curvature()
    u, v = rng.normal(size=len(full)), np.ones(len(full))
    wanted = u.copy()
    kept.solve(u, v)
    assert np.allclose(full @ u, wanted, atol=1e-4) and np.allclose(full @ v, 1, atol=1e-4)
    for slot in (len(full) - 1, 0, 2):
        j = int(kept.active[slot])
        kept.drop(slot, 0.1)
        curvature()
        assert j not in kept.active
    used, gone = kept.active, kept.gone
    assert np.allclose(kept.pull[used], (dense.T @ (bend * gone))[used], rtol=1e-6) and gone.sum() == pytest.approx(0.3 * 6)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_arm_that_steps_do_not_settle_is_solved_from_the_likeliest_law(seed: int) -> None:
    """Not from where they led: at an enormous tilt the likelihood is lost in rounding, and the way back crept."""
    rng = np.random.default_rng(seed)
    channels = channels_of(random_problem(seed, 60, 400, noisy=0))
    counts = draw_counts(channels, rng.dirichlet(np.ones(400)), rng.multinomial(200, np.full(60, 1 / 60)), seed)
    state = known(channels, counts, eager=True)
    state.decide(1.8)
    index = state.bound
    for ell in range(60):
        state.improve(ell, 1.8, np.full(400, 1 / 400), FLAT * counts.sum(), PATIENCE)
    assert state.exact.all()
    assert np.allclose(state.bound, index, rtol=0, atol=TIE)


@pytest.mark.parametrize("number", [15, 27])
def test_one_reward_alone_is_a_linear_programme(number: int) -> None:
    """The curvature is then of rank one: solutions that were updated instead of solved for lost all their digits."""
    problem = random_problem(number, 11, 26, noisy=1)
    channels = channels_of(problem)
    atom = np.repeat(np.arange(26), np.diff(channels.start))
    for i in range(int(channels.offset[-1])):
        counts, chance = np.zeros(int(channels.offset[-1])), np.zeros(26)
        counts[i] = 1.0
        chance[atom[channels.row == i]] = channels.weight[channels.row == i]
        state, g = known(channels, counts, eager=True), scaled(channels)
        state.decide(math.log(2))
        for ell in range(11):
            limit = [-0.5 * chance.max()]
            found = linprog(-g[ell], A_ub=[-chance], b_ub=limit, A_eq=[np.ones(26)], b_eq=[1.0], bounds=(0, 1))
            assert found.fun is not None and state.bound[ell] == pytest.approx(-found.fun, abs=1e-7)


@pytest.mark.parametrize("noisy", [0, 0.5, 1])
def test_atoms_are_worth_the_same_read_in_twos_or_one_by_one(noisy: float) -> None:
    for seed, arms, points in ((1, 7, 200), (2, 2, 500), (3, 5, 4)):
        channels = channels_of(random_problem(seed, arms, points, noisy=noisy))
        view = view_of(channels)
        assert (view.pairs > 0) == (noisy < 1 and points > 4) or noisy == 0.5
        y = np.random.default_rng(seed).uniform(0, 5, int(channels.offset[-1]))
        y[::3] = 0.0
        atom = np.repeat(np.arange(points), np.diff(channels.start))
        wanted = np.bincount(atom, channels.weight * y[channels.row], points)
        assert np.allclose(native.Likelihood(view).back(y), wanted)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_laziness_changes_no_action(seed: int, large: bool) -> None:
    arms, points = (2 + seed % 5, 2 + 9 * (seed % 4)) if large else (2 + seed % 4, 2 + seed % 7)
    channels = channels_of(random_problem(seed, arms, points, noisy=(seed % 3) / 2))
    p = np.random.default_rng(seed).dirichlet(np.ones(channels.g.shape[1]))
    lazy, eager = (play(channels, p, 400, eager=eager, seed=seed) for eager in (False, True))
    assert np.array_equal(lazy, eager)


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_laziness_changes_no_action_in_the_papers_cases(name: str) -> None:
    problem = DISCRETE[name]
    channels = channels_of(problem)
    p = np.array(problem.to_dict()["latent"]["probabilities"])
    lazy, eager = (play(channels, p, 1500, eager=eager, seed=3) for eager in (False, True))
    assert np.array_equal(lazy, eager)


def with_observations(problem: Problem, count: float) -> Problem:
    arms = problem.to_dict()["arms"]
    for arm in arms.values():
        arm["observations"] = [count] * len(arm["probabilities"])
    return Problem(latent=problem.latent, arms=arms, distribution=problem.distribution)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize(
    ("problem", "options"),
    [
        (random_problem(1, 5, 12), {}),
        (random_problem(2, 4, 9, noisy=0), {"audit": 20}),
        (random_problem(3, 5, 6, noisy=1), {"audit": 20, "audited": "all-arms", "guard": 0.2}),
        (with_observations(random_problem(4, 4, 6, noisy=1), 30.0), {}),
        (with_observations(random_problem(5, 5, 10, noisy=1), 8.0), {"audit": 20}),
        (random_problem(6, 8, 200, noisy=0), {}),  # arms read in twos; laws that begin with one atom
        (random_problem(7, 8, 200), {"audit": 20}),
    ],
)
def test_laziness_changes_no_action_of_the_whole_policy(problem: Problem, options: dict[str, Any], batch: int) -> None:
    """With its discount, audits, guard, pending pulls and learned channels."""
    lazy, eager = (hw.make_policy("joint-ucb", problem, **options) for _ in range(2))
    eager._native.look_closely()
    rng, p = np.random.default_rng(0), np.array(problem.to_dict()["latent"]["probabilities"])
    for _ in range(280 // batch):
        chosen = lazy.select_many(batch)
        assert chosen == eager.select_many(batch)
        x = rng.choice(len(p), p=p)
        rewards = []
        for name in chosen:
            arm: Any = problem.arms[name]
            noisy = hasattr(arm, "outcomes")
            rewards.append(rng.choice(arm.outcomes, p=arm.probabilities[x]) if noisy else arm.rewards[x])
        lazy.update(chosen, rewards)
        eager.update(chosen, rewards)


@given(channels_and_counts(), st.integers(0, 2**32 - 1))
def test_bounds_that_follow_the_counts_enclose_the_index(case: tuple[Channels, Floats, Floats], seed: int) -> None:
    """Solve, count more rewards, and compare the bounds with solving anew."""
    channels, p, counts = case
    state = known(channels, counts, eager=True)
    state.decide(math.log(counts.sum() + 1))
    rng = np.random.default_rng(seed)
    for _ in range(int(rng.integers(1, 40))):
        k = int(rng.integers(len(channels.values)))
        law = channels.matrix(k) @ p
        state.witness(k, int(channels.offset[k] + rng.choice(len(law), p=law / law.sum())))
    delta = math.log(state.n.sum() + 1)
    state.enclose(delta)
    fresh = known(channels, state.n, eager=True)
    fresh.decide(delta)
    assert np.all(state.floor <= fresh.bound + 1e-8)
    assert np.all(state.bound >= fresh.bound - 1e-8)


@given(channels_and_counts())
def test_counting_one_by_one_equals_counting_at_once(case: tuple[Channels, Floats, Floats]) -> None:
    """Also what merging two replicas rests on: everything is a function of the counts."""
    channels, _, counts = case
    counts = np.minimum(counts, 40)
    once, single = known(channels, counts, eager=True), native.FitState(view_of(channels), True)
    arm = np.repeat(np.arange(len(channels.values)), np.diff(channels.offset))
    for i in np.repeat(np.arange(len(counts)), counts.astype(int)).tolist():
        single.witness(int(arm[i]), i)
    delta = math.log(counts.sum() + 1)
    assert once.decide(delta) == single.decide(delta)
    assert np.allclose(once.bound, single.bound, atol=1e-8)
    half = 0.5 * np.diff(channels.offset)
    own = np.bincount(arm, loggamma(counts + 0.5) - loggamma(0.5))
    forecast = float(np.sum(own + loggamma(half) - loggamma(once.pulls + half)))
    assert once.forecast == pytest.approx(forecast, abs=1e-7) and single.forecast == pytest.approx(forecast, abs=1e-7)


@pytest.mark.parametrize("name", sorted(DISCRETE))
@pytest.mark.parametrize("observed", range(3))
def test_with_one_arm_pulled_the_index_tends_to_the_papers_pseudo_reward(name: str, observed: int) -> None:
    """For counts that grow while delta does not, from above, and as fast as 1/sqrt(n)."""
    problem = DISCRETE[name]
    channels = channels_of(problem)
    matrix = channels.matrix(observed)
    p = np.array(problem.to_dict()["latent"]["probabilities"])
    law = matrix @ p
    phi = np.array([sum(law[m] * g[matrix[m] > 0].max() for m in range(len(law))) for g in channels.g])
    errors = []
    for n in (10**3, 10**5, 10**7, 10**9):
        counts = np.zeros(int(channels.offset[-1]))
        counts[channels.offset[observed] : channels.offset[observed + 1]] = np.rint(n * law)
        state = known(channels, counts, eager=True)
        state.decide(1.0)
        index = channels.g.min() + np.ptp(channels.g) * state.bound
        assert np.all(index >= phi - 1e-6)
        errors.append(np.max(index - phi))
    assert errors[-1] < 2e-4 and all(later < 0.2 * earlier for earlier, later in itertools.pairwise(errors))


def test_the_index_falls_as_evidence_grows_and_never_below_the_likeliest_mean() -> None:
    channels = channels_of(DISCRETE["discrete-2"])
    counts = draw_counts(channels, np.array([0.25, 0.17, 0.25, 0.17, 0.16]), np.array([30, 30, 300]), 1)
    before = np.full(3, np.inf)
    for factor in (1, 4, 16):
        state = known(channels, factor * counts, eager=True)
        state.decide(3.0)
        assert np.all(state.bound < before)
        before = state.bound
        assert np.all(before >= scaled(channels) @ state.likeliest() - 1e-9)


def test_ties_go_to_the_first_arm_and_nothing_known_means_the_largest_reward() -> None:
    channels = channels_of(random_problem(5, 3, 4, noisy=0))
    twins = channels._replace(g=np.stack([channels.g[0], channels.g[0], channels.g[2]]))
    state, most = native.FitState(view_of(twins)), scaled(twins).max(axis=1)
    assert state.decide(0.0) == int(np.argmax(most >= most.max() - 1e-12))
    assert np.allclose(state.bound, most)


def test_impossible_rewards_have_likelihood_zero() -> None:
    channels = channels_of(Problem(latent=Discrete(["x"]), arms={"one": [0], "other": [1]}))
    of = native.Likelihood(view_of(channels))
    assert of.log_likelihood(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == -np.inf
    assert of.log_likelihood(np.array([0.0, 2.0]), np.array([0.0, 0.5])) == pytest.approx(2 * math.log(0.5))


def test_a_state_that_forgot_is_as_new() -> None:
    channels = channels_of(random_problem(3, 5, 90, noisy=0.5))
    used, fresh = native.FitState(view_of(channels)), native.FitState(view_of(channels))
    for t in range(40):
        used.witness(t % 5, int(channels.offset[t % 5]))
        used.decide(math.log(t + 2))
    used.doubt(2)
    used.own, used.share = np.zeros(5), np.full(5, 0.5)
    used.forget()
    level, x = np.zeros((5, 90), dtype=np.int64), np.zeros(200, dtype=np.int64)
    assert np.array_equal(used.play(level, x), fresh.play(level, x))
    assert np.array_equal(used.bound, fresh.bound) and used.forecast == fresh.forecast


# The guard.


def test_the_forecast_is_the_product_of_its_predictions() -> None:
    channels = channels_of(random_problem(3, 2, 3))
    state = native.FitState(view_of(channels))
    expected, tally = 0.0, np.zeros(int(channels.offset[-1]))
    rng = np.random.default_rng(0)
    for _ in range(50):
        k = int(rng.integers(2))
        low, high = channels.offset[k : k + 2]
        i = int(rng.integers(low, high))
        expected += math.log((tally[i] + 0.5) / (tally[low:high].sum() + 0.5 * (high - low)))
        tally[i] += 1
        state.witness(k, i)
    assert state.forecast == pytest.approx(expected, abs=1e-10)


def alarms(model: Channels, truth: Channels, p: Floats, runs: int, rounds: int, rate: float) -> int:
    """In how many runs the guard speaks, arms pulled in turn and paid by ``truth``."""
    view, count = view_of(model), 0
    laws = [truth.matrix(k) @ p for k in range(len(truth.values))]
    for run in range(runs):
        rng = np.random.default_rng(run)
        state = native.FitState(view)
        for t in range(rounds):
            k = t % len(laws)
            state.witness(k, int(truth.offset[k] + rng.choice(len(laws[k]), p=laws[k] / laws[k].sum())))
            if t % 10 == 9 and state.contradiction(rate) >= 0:
                count += 1
                break
    return count


def test_the_guard_rarely_speaks_against_a_right_model_and_soon_against_a_wrong_one() -> None:
    channels = channels_of(random_problem(8, 3, 4, noisy=1))
    p = np.array([0.4, 0.3, 0.2, 0.1])
    # a false alarm has probability at most 0.1 in a run: 300 runs exceed this number with probability below 1e-4
    assert alarms(channels, channels, p, 300, 200, 0.1) <= binom.ppf(1 - 1e-4, 300, 0.1)
    wrong = channels_of(random_problem(9, 3, 4, noisy=1))
    assert alarms(channels, wrong, p, 20, 600, 1e-3) == 20


def test_the_arm_that_fits_worst_is_doubted_and_its_own_index_taken() -> None:
    channels = channels_of(random_problem(8, 3, 4, noisy=1))
    p = np.array([0.4, 0.3, 0.2, 0.1])
    counts = draw_counts(channels, p, np.array([500, 500, 0]), 0)
    low, high = channels.offset[2:4]
    counts[high - 1] = 400  # only ever its largest reward
    state = known(channels, counts)
    assert state.contradiction(1e-3) == 2
    state.doubt(2)
    assert state.n[low:high].sum() == 0 and state.pulls[2] == 0
    assert state.contradiction(1e-3) == -1
    state.witness(2, int(low))
    assert state.n[low:high].sum() == 0
    state.own = np.array([np.inf, np.inf, 0.123])
    state.decide(3.0)
    assert state.bound[2] == 0.123


def test_an_arms_own_index_caps_the_joint_one() -> None:
    channels = channels_of(DISCRETE["discrete-1"])
    counts = draw_counts(channels, np.full(5, 0.2), np.array([50, 50, 50]), 0)
    state = known(channels, counts, eager=True)
    state.own = np.array([np.inf, 0.01, np.inf])
    state.decide(2.0)
    assert state.bound[1] == 0.01 and state.bound[0] > 0.01


# What X is.


def test_the_interval_of_a_coin_is_the_one_its_forecast_leaves() -> None:
    channels = channels_of(random_problem(1, 2, 2, noisy=0, levels=2))
    k = next(k for k in range(2) if len(channels.values[k]) == 2)
    counts = np.zeros(int(channels.offset[-1]))
    counts[channels.offset[k] : channels.offset[k] + 2] = 30, 70
    found = law(channels, counts, ["a", "b"], 0.95, "always")
    limit = known(channels, counts).forecast + math.log(0.05)
    n = counts[channels.offset[k] : channels.offset[k] + 2][channels.matrix(k).argmax(axis=0)]
    ends = [
        brentq(lambda q: n[0] * math.log(q) + n[1] * math.log(1 - q) - limit, *s)
        for s in ((1e-9, n[0] / 100), (n[0] / 100, 1 - 1e-9))
    ]
    assert found.values[0].likeliest == pytest.approx(n[0] / 100, abs=1e-6)
    assert (found.values[0].low, found.values[0].high) == pytest.approx(ends, abs=1e-5)
    assert not found.contradicted and not found.alike


@settings(max_examples=20)
@given(channels_and_counts())
def test_intervals_hold_the_truth(case: tuple[Channels, Floats, Floats]) -> None:
    """At 1 - 1e-6 a miss in some hundred examples has probability below 1e-3."""
    channels, p, counts = case
    ways: tuple[Holds, ...] = ("each", "always")
    for holds in ways:
        found = law(channels, counts, [str(j) for j in range(len(p))], 1 - 1e-6, holds)
        for value, truth in zip(found.values, p, strict=True):
            assert value.low - 1e-6 <= truth <= value.high + 1e-6
            assert 0 <= value.low <= value.likeliest <= value.high <= 1


def test_values_that_no_pulled_arm_tells_apart_are_said_to_be_alike() -> None:
    channels = channels_of(DISCRETE["discrete-2"])
    counts = draw_counts(channels, np.array([0.25, 0.17, 0.25, 0.17, 0.16]), np.array([0, 0, 5000]), 0)
    found = law(channels, counts, ["x1", "x2", "x3", "x4", "x5"], 0.95)
    assert found.groups == (("x2", "x3"), ("x4", "x5"))
    assert found.alike[0].high - found.alike[0].low < 0.1 < found.values[1].high - found.values[1].low
    text = str(found)
    assert "x2 and x3 look the same to every arm pulled so far: together 0.4" in text
    body = found.to_dict()
    assert body["alike"][1]["values"] == ["x4", "x5"] and set(body["values"]["x1"]) == {"likeliest", "low", "high"}


def test_nothing_pulled_means_nothing_known() -> None:
    channels = channels_of(DISCRETE["discrete-1"])
    found = law(channels, np.zeros(int(channels.offset[-1])), list("abcde"), 0.95)
    assert all((v.low, v.high) == (0, 1) for v in found.values)
    assert found.groups == (tuple("abcde"),)


def test_a_contradicted_model_says_so() -> None:
    channels = channels_of(random_problem(8, 2, 4, noisy=1))
    counts = np.zeros(int(channels.offset[-1]))
    counts[[channels.offset[1] - 1, channels.offset[2] - 1]] = 5000
    found = law(channels, counts, list("abcd"), 0.95)
    assert found.contradicted and str(found).startswith("No law of X fits these rewards")
    assert all(math.isnan(v.low) and math.isnan(v.high) and not v.stated for v in found.values)
    assert found.to_dict()["values"]["a"]["low"] is None


def test_too_many_values_are_refused() -> None:
    channels = channels_of(random_problem(0, 2, 301, noisy=0))
    counts = np.zeros(int(channels.offset[-1]))
    with pytest.raises(SizeError, match="latent: got 301 values of X; expected at most 300"):
        law(channels, counts, [str(j) for j in range(301)], 0.95)


# What is refused.


def test_arrays_that_do_not_fit_are_refused() -> None:
    channels = channels_of(random_problem(0, 3, 4))
    with pytest.raises(ValueError, match="error: got length 4; expected 12"):
        channel_view(channels._replace(error=np.ones((2, 2)), strain=np.ones((2, 2))), tolerance=1.0)
    with pytest.raises(ValueError, match="start: missing"):
        native.ChannelView(row=channels.row)
    state = native.FitState(view_of(channels))
    with pytest.raises(ValueError, match="n: got length 2"):
        state.recall(np.zeros(2), np.zeros(3, dtype=bool))
    with pytest.raises(ValueError, match="own: got length 2; expected 3"):
        state.own = np.zeros(2)
    with pytest.raises(IndexError, match="row: not one of the arm's"):
        state.witness(0, int(channels.offset[1]))
    with pytest.raises(IndexError, match="arm: no such number"):
        state.doubt(3)
