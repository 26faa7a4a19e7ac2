"""The leap engine: the stepwise engine's law, from certificates that hold."""

from __future__ import annotations

import functools
import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headwater as hw
from headwater import native, streams
from headwater.paper import CASES
from headwater.policies.core import settings_of
from headwater.policies.rules import Spec, make_spec
from headwater.pseudo import model_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import Counts, Model, core_of, make_model, simulate_counts, simulate_leaps, source_of
from headwater.simulation.leap import SURE

Ints = NDArray[np.int64]
POLICIES = [make_spec(name) for name in ("ucb1", "c-ucb", "kl-ucb", "c-kl-ucb")]
PLAIN = [spec for spec in POLICIES if spec.reference == "none"]
LISTED = {case.id: case.problem for case in CASES if case.id.startswith(("discrete", "vector"))}


def random_problem(seed: int, *, arms: int = 0, points: int = 0, random: bool = False) -> hw.Problem:
    rng = np.random.default_rng([77, seed])
    count, size = arms or int(rng.integers(2, 6)), points or int(rng.integers(2, 9))
    table: dict[str, Any] = {f"arm {k}": (rng.integers(0, 5, size) / 4).tolist() for k in range(count)}
    if random:
        for k in range(0, count, 2):
            law = rng.dirichlet(np.ones(3), size).tolist()
            table[f"arm {k}"] = {"outcomes": [0, 0.5, 1], "probabilities": law}
    law = rng.dirichlet(np.ones(size)).tolist()
    return hw.Problem(latent=hw.Discrete([f"x{j}" for j in range(size)]), arms=table, distribution=law)


def laid_out(problem: hw.Problem) -> Model:
    assert problem.distribution is not None
    return make_model(atoms_of(problem, problem.distribution), scale=model_of(problem).reward_range)


def both(problem: hw.Problem, spec: Spec, rounds: list[int], count: int, **options: Any) -> tuple[Counts, Counts]:
    model, at = laid_out(problem), np.array(rounds)
    leaps = simulate_leaps(model, spec, checkpoints=at, replications=count, seed=9, **options)
    return leaps, simulate_counts(model, spec, checkpoints=at, replications=count, seed=9)


def assert_equal(leaps: Counts, steps: Counts) -> None:
    np.testing.assert_array_equal(leaps.pulls, steps.pulls)
    np.testing.assert_allclose(leaps.reward, steps.reward, rtol=1e-12)


@pytest.mark.parametrize("spec", POLICIES, ids=lambda spec: spec.title)
@pytest.mark.parametrize("seed", range(6))
def test_stretches_of_one_round_are_the_stepwise_engine(seed: int, spec: Spec) -> None:
    problem = random_problem(seed, points=40 if seed == 5 else 0)
    assert_equal(*both(problem, spec, [1, 2, 7, 300, 1501], 5, longest=1))


@pytest.mark.parametrize("spec", PLAIN, ids=lambda spec: spec.title)
def test_the_same_with_random_rewards(spec: Spec) -> None:
    assert_equal(*both(random_problem(3, random=True), spec, [5, 1000], 5, longest=1))


# --- certificates ----------------------------------------------------------------------------------------------------


class Board:
    """A learner after so many rounds."""

    def __init__(self, problem: hw.Problem, spec: Spec, rounds: int, rng: np.random.Generator) -> None:
        self.model = laid_out(problem)
        self.about = (
            native.RULES[spec.rule.code],
            native.Rewards(self.model.table, self.model.unit, self.model.low, self.model.span),
            settings_of(spec, scale=self.model.scale, seed=1),
        )
        self.live = native.Live(core_of(self.model, spec), self.about[2], 0)
        self.counts: Any = self.live.arrays(False)
        for u in rng.integers(0, 2**streams.UNIFORM_BITS, rounds):
            arm = self.live.select()
            self.live.pay(arm, int(self.model.level[arm, np.searchsorted(self.model.thresholds, u, "right")]))

    @property
    def reference(self) -> int:
        return int(np.argmax(self.counts["pulls"]))

    def lasts(self, drawn: Ints, sure: float) -> bool:
        return native.lasts(*self.about, self.counts, drawn, sure)

    def stays(self, order: tuple[int, ...]) -> bool:
        """Whether the most-pulled arm is chosen in every round if it pays its levels in this order."""
        kept, fine, reference = {name: x.copy() for name, x in self.counts.items()}, True, self.reference
        for level in order:
            fine = fine and self.live.select() == reference
            self.live.pay(reference, level)
        for name, old in kept.items():
            self.counts[name][:] = old
        self.live.rounds -= len(order)
        self.live.rebuild()
        return fine


@pytest.mark.parametrize("spec", POLICIES, ids=lambda spec: spec.title)
def test_a_certificate_holds_in_every_order(spec: Spec) -> None:
    """On tiny problems, against all orders of up to six rewards; both answers are common, and few refusals are needless."""
    rng, yes, needless, no = np.random.default_rng(5), 0, 0, 0
    for case in range(240):
        board = Board(random_problem(case), spec, int(rng.integers(20, 1500)), rng)
        can = np.unique(board.model.level[board.reference])
        drawn = np.bincount(rng.choice(can, 6), minlength=board.model.table.shape[1])
        orders = set(itertools.permutations(np.repeat(np.arange(drawn.size), drawn).tolist()))
        safe = all(board.stays(order) for order in orders)
        if board.lasts(drawn, math.inf):
            assert safe
            yes += 1
        elif safe:
            needless += 1
        else:
            no += 1
    assert yes > 20 and no > 20 and needless < 0.3 * yes


def highest(mean: float, n: int, budget: float, model: Model) -> float:
    """KL-UCB's index by bisection."""
    p = (mean - model.low) / model.span
    low, high = p, 1.0
    while low < (q := 0.5 * (low + high)) < high:
        kl = (p * math.log(p / q) if p else 0.0) + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)
        low, high = (q, high) if n * kl <= budget else (low, q)
    return model.low + model.span * low


def kl_lasts(board: Board, drawn: Ints) -> bool | None:
    """Whether the most-pulled arm's least index is above its rivals' largest ones; None where they are too near to tell."""
    model, counts, r, m = board.model, board.counts, board.reference, int(drawn.sum())
    row, n, total, t = model.table[r], counts["pulls"], counts["total"], counts["pulls"].sum()
    low, gain = native.Order(drawn, row[:, -1].copy()).strays(SURE), int(drawn @ row[:, -1])
    bottom = max(model.unit * min((total[r] - low) / n[r], (total[r] + gain - low) / (n[r] + m)), model.low)
    bar, near = highest(bottom, int(n[r] + m), math.log(t + 1), model), False
    for ell in range(len(n)):
        against = int(counts["sums"][r, ell]) if counts["sums"].size else 0
        end = against + int(drawn @ row[:, ell])
        order = native.Order(drawn, row[:, ell].copy())
        if ell == r or (against > 0 and end > 0 and order.keeps(against, end, SURE)):
            continue
        top = highest(counts["mean"][ell], int(n[ell]), math.log(t + m), model) if n[ell] else math.inf
        near = near or abs(bar - top) < 1e-7
        if not near and top > bar:
            return False
    return None if near else True


@pytest.mark.parametrize("spec", POLICIES[2:], ids=lambda spec: spec.title)
def test_kl_ucb_lasts_where_a_search_for_the_indices_says_so(spec: Spec) -> None:
    rng, found = np.random.default_rng(6), []
    for case in range(300):
        board = Board(random_problem(case), spec, int(rng.integers(20, 2000)), rng)
        chance = np.bincount(board.model.level[board.reference], minlength=board.model.table.shape[1])
        drawn = rng.multinomial(int(10 ** rng.uniform(0.6, 2.5)), chance / chance.sum())
        wanted = kl_lasts(board, drawn)
        if wanted is not None:
            assert board.lasts(drawn, SURE) == wanted
            found.append(wanted)
    assert len(found) > 250 and 40 < sum(found) < len(found) - 40, "both answers are common"


def test_what_cannot_leap_is_refused() -> None:
    model, spec = laid_out(random_problem(1)), POLICIES[0]
    chances, watch, at = np.ones(model.table.shape[:2]), np.zeros(2, dtype=np.int64), np.array([10])

    def play(spec: Spec, leaps: native.Leaps | None) -> None:
        arms = len(model.level)
        out = [np.zeros(shape, dtype=np.int64) for shape in ((1, 1, arms), (1, 1), (1, arms))]
        seat = native.Seat(settings_of(spec, scale=model.scale, seed=1), *out)
        native.play(core_of(model, spec), source_of(model, 1), at, [seat], 0, watch, 1, "leap", leaps)

    leaps = native.Leaps(chances, 1, SURE)
    with pytest.raises(ValueError, match="leaps: expected what the leap engine asks for"):
        play(spec, None)
    for policy in (make_spec("ts"), make_spec("c-ucb", audit=0.5), make_spec("c-ucb", reference="well-pulled")):
        with pytest.raises(ValueError, match="seats: expected policies whose choice may stand"):
            play(policy, leaps)
    with pytest.raises(ValueError, match="chances: got length"):
        play(spec, native.Leaps(chances[:1].copy(), 1, SURE))
    with pytest.raises(ValueError, match="chances: the last axis: got length"):
        play(spec, native.Leaps(chances[:, :1].copy(), 1, SURE))
    board = Board(random_problem(1), spec, 20, np.random.default_rng(1))
    with pytest.raises(ValueError, match="rule: expected one whose choice may stand"):
        native.lasts(native.RULES["ts"], *board.about[1:], board.counts, np.ones(1, dtype=np.int64), SURE)
    with pytest.raises(ValueError, match="drawn: got length 1; expected"):
        board.lasts(np.ones(1, dtype=np.int64), SURE)
    with pytest.raises(ValueError, match="pay: got length 2; expected 1"):
        native.Order(np.ones(1, dtype=np.int64), np.ones(2, dtype=np.int64))


def crossed(drawn: tuple[int, ...], pay: tuple[int, ...], start: float, end: float) -> float:
    """The chance that a random order crosses the line: the number of all orders that do not, by what was drawn so far."""
    m, average = sum(drawn), sum(d * y for d, y in zip(drawn, pay, strict=True)) / sum(drawn)

    @functools.cache
    def safe(so_far: tuple[int, ...]) -> int:
        i = sum(so_far)
        lag = i * average - sum(c * y for c, y in zip(so_far, pay, strict=True))
        if lag >= start + (end - start) * i / m:
            return 0
        if i == m:
            return 1
        steps = ((*so_far[:k], so_far[k] + 1, *so_far[k + 1 :]) for k in range(len(drawn)) if so_far[k] < drawn[k])
        return sum(safe(after) for after in steps)

    every = math.factorial(m) // math.prod(math.factorial(d) for d in drawn)
    return 1 - safe((0,) * len(drawn)) / every


def order_of(drawn: tuple[int, ...], pay: tuple[int, ...]) -> native.Order:
    return native.Order(np.array([*drawn, 0]), np.array([*pay, 99]))


@pytest.mark.parametrize("largest", [3, 8, 40])
def test_a_line_is_crossed_no_more_often_than_said(largest: int) -> None:
    """Against all orders of every level's up to ``largest`` rewards, for lines of any slope; and the bound is of use."""
    rng, close = np.random.default_rng(largest), 0
    for _ in range(400 if largest < 40 else 60):
        kinds = int(rng.integers(2, 5 if largest < 40 else 3))
        drawn = tuple(rng.integers(1, largest + 1, kinds).tolist())
        pay = tuple(sorted(rng.choice(20, kinds, replace=False).tolist()))
        m, order = sum(drawn), order_of(drawn, pay)
        start, end = rng.uniform(0.2, 3.5, 2) * math.sqrt(m * order.second)
        least, chance = order.doubt(start, end), crossed(drawn, pay, start, end)
        assert chance <= math.exp(min(-least, 0.0))
        close += least > 0.4 * -math.log(chance) if 0 < chance < 0.01 else 0
    assert close > 3 or largest < 40


def test_some_orders_are_the_worst() -> None:
    """``low`` is where the smallest rewards first take the total; no other order goes further."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        drawn, pay = tuple(rng.integers(1, 5, 3).tolist()), tuple(sorted(rng.choice(9, 3, replace=False).tolist()))
        low = order_of(drawn, pay).low
        assert crossed(drawn, pay, 1.001 * low, 1.001 * low) == 0 < crossed(drawn, pay, 0.999 * low, 0.999 * low)


def test_the_constant_covers_what_poisson_numbers_can_do() -> None:
    mean = np.geomspace(1e-3, 1e4, 4000)
    mode = stats.poisson(mean).pmf(np.floor(mean))
    assert np.all(mode <= (2 * math.e * mean) ** -0.5 * (1 + 1e-9))


@pytest.mark.parametrize("m", [native.MANY_REWARDS, 1000, 10**6, 10**10])
def test_what_is_sure_follows_from_what_is_doubtful(m: int) -> None:
    """No line is called safe that is too near, and lines not much further are; none but by the worst order at sure=inf."""
    drawn = (m // 10, m // 2, m // 5, m - m // 10 - m // 2 - m // 5)
    order = order_of(drawn, (0, 15, 20, 40))
    wide = math.sqrt(m * order.second)
    for slope in (0.2, 1.0, 5.0):
        start, end = math.sqrt(slope) * wide, wide / math.sqrt(slope)
        near, far, low = math.sqrt(SURE / 2), 7.0, order.low / min(start, end)
        assert order.keeps(near * start, near * end, SURE) == (low < near)
        assert order.keeps(far * start, far * end, SURE) or m < 10**6
        assert order.keeps(far * start, far * end, math.inf) == (low < far)
    stray = order.strays(SURE)
    assert stray == order.low if m == native.MANY_REWARDS else order.doubt(stray, stray) >= SURE
    assert order.strays(math.inf) == order.low


def test_one_replication_tells_how_far_it_is_and_stops_when_asked() -> None:
    """Played round by round, which would take hours."""
    model, watch, arms = laid_out(LISTED["discrete-2"]), np.zeros(2, dtype=np.int64), 3
    out = [np.zeros(shape, dtype=np.int64) for shape in ((1, 1, arms), (1, 1), (1, arms))]
    seat = native.Seat(settings_of(POLICIES[0], scale=model.scale, seed=1), *out)
    leaps = native.Leaps(np.ones(model.table.shape[:2]), 1, SURE)
    game = (core_of(model, POLICIES[0]), source_of(model, 1), np.array([10**12]), [seat], 0, watch, 1, "leap", leaps)
    with ThreadPoolExecutor(1) as pool:
        playing = pool.submit(native.play, *game)
        while watch[1] < 1000:
            time.sleep(0.001)
        watch[0] = 1
        playing.result(timeout=600)
    assert 1000 <= watch[1] < 10**12 and not out[0].any()


# --- laws ------------------------------------------------------------------------------------------------------------


def same_law(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The least p-value, times their number, of Kolmogorov and Smirnov's test on every coordinate and on 30 projections."""
    rng, both = np.random.default_rng(8), np.concatenate([one, other]).astype(float)
    both = (both - both.mean(axis=0)) / np.maximum(both.std(axis=0), 1e-9)
    ways = np.concatenate([np.eye(both.shape[1]), rng.normal(size=(30, both.shape[1]))])
    a, b = both[: len(one)] @ ways.T, both[len(one) :] @ ways.T
    values = [stats.ks_2samp(a[:, i], b[:, i], method="asymp").pvalue for i in range(len(ways))]
    return float(min(values) * len(values))


FAST, SLOW = POLICIES[:2], POLICIES[2:]
LAWS = [(f"random {i}", random_problem(i), FAST) for i in range(12)]
LAWS += [(name, problem, FAST) for name, problem in LISTED.items()]
LAWS += [(f"random {i}", random_problem(i), SLOW) for i in range(4)]
LAWS += [("discrete-2", LISTED["discrete-2"], SLOW)]
LAWS += [(f"random rewards {i}", random_problem(i, random=True), FAST[:1]) for i in range(4)]
LAWS += [("random rewards 0", random_problem(0, random=True), SLOW[:1])]


def outcomes(counts: Counts) -> NDArray[Any]:
    return np.concatenate([counts.pulls.reshape(len(counts.pulls), -1), counts.reward], axis=1)


@pytest.mark.parametrize(("problem", "spec"), [pytest.param(p, s, id=f"{n} {s.title}") for n, p, ss in LAWS for s in ss])
def test_the_law_is_that_of_the_stepwise_engine(problem: hw.Problem, spec: Spec) -> None:
    """Pulls and rewards at four checkpoints together. Error rate 1e-6 for each problem and policy, 1e-4 for all."""
    model, at = laid_out(problem), np.array([60, 400, 1000, 2000])
    size = 1500 if spec in FAST else 250
    leaps = simulate_leaps(model, spec, checkpoints=at, replications=size, seed=21)
    steps = simulate_counts(model, spec, checkpoints=at, replications=size, seed=22)
    assert same_law(outcomes(leaps), outcomes(steps)) > 1e-6
    assert np.all(leaps.pulls.sum(axis=2) == at) and np.all(leaps.excluded == -1)


def test_a_wrong_law_would_be_found_out() -> None:
    """The same test, where the stepwise engine simulates a slightly different distribution."""
    law = np.array([0.2, 0.3, 0.5])
    problem = random_problem(1, points=3).with_distribution(law.tolist())
    other = problem.with_distribution([0.25, 0.3, 0.45])
    at = np.array([60, 400, 1000, 2000])
    leaps = simulate_leaps(laid_out(problem), POLICIES[1], checkpoints=at, replications=1500, seed=21)
    steps = simulate_counts(laid_out(other), POLICIES[1], checkpoints=at, replications=1500, seed=22)
    assert same_law(outcomes(leaps), outcomes(steps)) < 1e-6


def test_results_do_not_depend_on_threads_or_chunks() -> None:
    model, at = laid_out(LISTED["discrete-2"]), np.array([10**3, 10**6])
    whole = simulate_leaps(model, POLICIES[1], checkpoints=at, replications=30, seed=4, threads=2)
    parts = [
        simulate_leaps(model, POLICIES[1], checkpoints=at, replications=size, first=first, seed=4, threads=1)
        for first, size in ((0, 13), (13, 17))
    ]
    np.testing.assert_array_equal(whole.pulls, np.concatenate([part.pulls for part in parts]))


def test_ten_thousand_million_rounds() -> None:
    """The paper's claim, seen: C-UCB's regret in the first case stands still; every round is accounted for."""
    problem, at = LISTED["discrete-1"], np.array([10**5, 10**10])
    found = simulate_leaps(laid_out(problem), POLICIES[1], checkpoints=at, replications=50, seed=4)
    assert np.all(found.pulls.sum(axis=2) == at)
    known = hw.analyze(problem)
    regret = found.pulls @ np.asarray(known.gap)
    np.testing.assert_array_equal(regret[:, 0], regret[:, 1])
    mean = found.reward[:, 1] / 10**10
    assert known.mu is not None and abs(mean - known.mu.max()).max() < 1e-3


@pytest.mark.parametrize("spec", POLICIES, ids=lambda spec: spec.title)
def test_any_arm_is_leapt_over(spec: Spec) -> None:
    """Played one by one, 10^11 rounds would take hours: the best arm need not be the first."""
    problem = hw.Problem(
        latent=hw.Discrete(["x", "y"]),
        arms={"worst": [0, 0.2], "middle": [0.5, 0.1], "best": [0.6, 1]},
        distribution=[0.5, 0.5],
    )
    found = simulate_leaps(laid_out(problem), spec, checkpoints=np.array([10**11]), replications=2, seed=1)
    assert np.all(found.pulls[:, 0, 2] > 0.99 * 10**11)
