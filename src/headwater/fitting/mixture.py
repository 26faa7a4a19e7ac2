r"""The latent model itself, fitted to units that saw several arms: each unit is of one hidden kind, and given its kind every
reward is drawn from the arm's channel on its own.

.. math:: P(\text{unit}) = \sum_j p_j \prod_{k, m} A_k[m, j]^{c_{km}}

where the unit was paid level m by arm k :math:`c_{km}` times.

EM with a Dirichlet prior on each cell (towards the arm's law), from several starts, all of it matrix products with the counts,
a row per unit. Units are put in order of what they hold, so that neither their names nor the order of rows matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from headwater.arrays import Floats, Ints
from headwater.fitting.channels import arm_laws, find_strengths

GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40)
"""The numbers of kinds that are tried."""
HELD_OUT = 0.25
STARTS = 3
PRIOR = 1.0
"""How many rewards the prior of a cell is worth. More would pull fuzzy kinds together; shrinkage comes with the channels."""
_TOLERANCE = 1e-7
_DENSE = 30_000_000

Progress = Callable[[str, float], None]


class Ratings(NamedTuple):
    """``counts[i, k M + m]``: how often arm k paid unit i level m, (N, K M) sparse. ``arms`` and ``levels`` are K and M.

    ``order`` (N,): which unit each row is. ``exact``: a level is one value, not a range of rewards.
    """

    counts: Any
    arms: int
    levels: int
    order: Ints
    exact: bool = True

    def take(self, rows: Ints) -> Ratings:
        return self._replace(counts=self.counts[rows], order=self.order[rows])

    def laws(self) -> Floats:
        """Each arm's law, (K, M)."""
        return arm_laws(np.asarray(self.counts.sum(axis=0)).reshape(self.arms, self.levels), exact=self.exact)


State = tuple[Floats, Floats]


class Mixture(NamedTuple):
    """``p`` (J,): the share of each kind, the largest first. ``channels`` (K, M, J). ``fitness``: the mean log-likelihood of
    a unit.
    """

    p: Floats
    channels: Floats
    fitness: float


class Choice(NamedTuple):
    """How well each number of kinds explains units that were held out: mean log-likelihood, (J tried,).

    ``behind[i]`` and ``error[i]``: how far the i-th is behind the best, and the standard error of that, over the same units.
    """

    kinds: list[int]
    fitness: list[float]
    behind: list[float]
    error: list[float]
    chosen: int


def build_ratings(unit: Ints, arm: Ints, level: Ints, shape: tuple[int, int, int], *, exact: bool = True) -> Ratings:
    """From a row per reward (numbers of unit, arm and level, each (R,)); units in an order that only their rewards decide.

    ``shape`` is how many units, arms and levels there are.
    """
    units, arms, levels = shape
    ones = np.ones(len(unit))
    counts = sparse.csr_array((ones, (unit, arm * levels + level)), shape=(units, arms * levels))
    counts.sum_duplicates()
    keys = [
        counts.indices[a:b].tobytes() + counts.data[a:b].tobytes()
        for a, b in zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    ]
    order = np.array(sorted(range(units), key=keys.__getitem__), dtype=np.int64)
    return Ratings(counts[order], arms, levels, order, exact)


def responsibilities(ratings: Ratings, mixture: Mixture) -> Floats:
    """The probability that each unit is of each kind, (N, J)."""
    scores = _scores(_operand(ratings), mixture.p, mixture.channels.reshape(-1, len(mixture.p)))
    return np.exp(scores - logsumexp(scores, axis=1, keepdims=True))


def unit_fitness(ratings: Ratings, mixture: Mixture) -> Floats:
    """The log-likelihood of each unit, (N,)."""
    scores = _scores(_operand(ratings), mixture.p, mixture.channels.reshape(-1, len(mixture.p)))
    return np.asarray(logsumexp(scores, axis=1))


def _operand(ratings: Ratings) -> Any:
    """Dense where few entries are zero: the products are faster then."""
    full = ratings.counts.nnz * ratings.levels > 0.3 * math.prod(ratings.counts.shape)
    return ratings.counts.toarray() if full and math.prod(ratings.counts.shape) <= _DENSE else ratings.counts


def _scores(counts: Any, p: Floats, channels: Floats) -> Floats:
    return np.asarray(counts @ np.log(np.maximum(channels, 1e-300)) + np.log(p))


def fit_mixture(ratings: Ratings, kinds: int, rng: np.random.Generator, *, starts: int = STARTS, rounds: int = 150) -> Mixture:
    """The likeliest mixture of ``kinds`` channels found from several starts.

    >>> rng = np.random.default_rng(0)
    >>> kind = rng.integers(0, 2, 2000)
    >>> truth = np.array([[0.9, 0.2], [0.3, 0.8], [0.5, 0.1]])  # P(level 1), arm by kind
    >>> level = (rng.random((2000, 3)) < truth[:, kind].T).astype(int)
    >>> unit, arm = np.indices(level.shape)
    >>> ratings = build_ratings(unit.ravel(), arm.ravel(), level.ravel(), (2000, 3, 2))
    >>> found = fit_mixture(ratings, 2, rng).channels[:, 1]
    >>> bool(np.abs(np.sort(found, axis=1) - np.sort(truth, axis=1)).max() < 0.1)
    True
    """
    laws, counts = ratings.laws(), _operand(ratings)
    if kinds == 1:
        return Mixture(np.ones(1), laws[:, :, None], float(np.mean(_scores(counts, np.ones(1), laws.reshape(-1, 1)))))
    step = _Step(counts, laws)
    runs = [_climb(step, step.maximise(share), 20) for share in _beginnings(ratings, laws, kinds, starts, rng)]
    state, _ = max(runs, key=lambda run: run[1])
    (p, channels), fitness = _climb(step, state, rounds)
    order = np.argsort(-p, kind="stable")
    return Mixture(p[order], channels[:, order].reshape(*laws.shape, kinds), fitness)


def shrunk(ratings: Ratings, mixture: Mixture) -> Mixture:
    """The mixture with its channels shrunk as those of a problem are, every member taken for a sure one."""
    laws = ratings.laws()
    kinds = len(mixture.p)
    soft = _soft_counts(ratings.counts, mixture.p, mixture.channels.reshape(-1, kinds), laws.shape)
    s = find_strengths(soft, laws)[:, None, None]
    channels = (soft + s * laws[:, None]) / (soft.sum(axis=2, keepdims=True) + s)
    return mixture._replace(channels=channels.transpose(0, 2, 1))


def effective_counts(ratings: Ratings, mixture: Mixture, rng: np.random.Generator, *, refits: int = 16) -> Floats:
    """How many rewards of sure members each cell's are worth, (K, J): who is of which kind is itself uncertain.

    The mixture is fitted again, from where it stands, to the units under random weights (a Bayesian bootstrap). By how much the
    laws of a kind then vary, compared to counts of sure members, is by how much its counts shrink.
    """
    laws, counts = ratings.laws(), _operand(ratings)
    kinds = len(mixture.p)
    flat = mixture.channels.reshape(-1, kinds)
    cell = np.asarray(_soft_counts(counts, mixture.p, flat, laws.shape).sum(axis=2))
    if kinds == 1:
        return cell
    found = []
    for _ in range(refits):
        step = _Step(counts, laws, rng.standard_exponential(counts.shape[0]))
        found.append(_climb(step, (mixture.p, flat), 20)[0][1])
    varied = np.var(found, axis=0, ddof=1).reshape(*laws.shape, kinds).sum(axis=1)
    worth = cell + PRIOR + 1
    sure = (mixture.channels * (1 - mixture.channels)).sum(axis=1) / worth
    factor = np.maximum(varied.sum(axis=0) / np.maximum(sure.sum(axis=0), 1e-300), 1)
    return np.asarray(np.maximum(worth / factor - PRIOR - 1, 0))


def _soft_counts(counts: Any, p: Floats, channels: Floats, shape: tuple[int, ...]) -> Floats:
    """(K, J, M)"""
    scores = _scores(counts, p, channels)
    soft = counts.T @ np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    return np.asarray(soft).reshape(*shape, len(p)).transpose(0, 2, 1)


def _beginnings(ratings: Ratings, laws: Floats, kinds: int, starts: int, rng: np.random.Generator) -> list[Floats]:
    """Shares of units in kinds to begin from: clusters of the directions in which units differ most."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD

    # A unit as what it was paid above the expected level's share, so that arms it did not see count as nothing.
    seen = ratings.counts @ sparse.csr_array(np.kron(np.eye(ratings.arms), np.ones((ratings.levels, 1))))
    expected = (seen @ sparse.csr_array(_block(laws))).tocsr()
    odd = ratings.counts - expected
    size = max(1, min(20, *(n - 1 for n in odd.shape)))
    points = TruncatedSVD(size, random_state=int(rng.integers(2**31))).fit_transform(odd)
    out = []
    for _ in range(starts):
        label = KMeans(min(kinds, len(points)), n_init=1, random_state=int(rng.integers(2**31))).fit_predict(points)
        share = np.full((len(points), kinds), 0.1 / kinds)
        share[np.arange(len(points)), label] += 0.9
        out.append(share)
    out.append(rng.dirichlet(np.full(kinds, 0.5), len(points)))  # clusters all begin near one summit; this one need not
    return out


def _block(laws: Floats) -> Floats:
    """The laws along a diagonal, (K, K M)."""
    arms, levels = laws.shape
    out = np.zeros((arms, arms * levels))
    for k in range(arms):
        out[k, k * levels : (k + 1) * levels] = laws[k]
    return out


class _Step:
    """One step of EM: counts (N, K M), laws (K, M), and how much each unit counts, (N,)."""

    def __init__(self, counts: Any, laws: Floats, weights: Floats | None = None) -> None:
        self.counts, self.laws = counts, laws
        self.weights = np.ones(counts.shape[0]) if weights is None else weights
        self.pull = PRIOR * laws.reshape(-1, 1)
        self.possible = laws.ravel() > 0

    def __call__(self, state: State) -> tuple[State, float]:
        """The next state, and the mean log-likelihood of a unit in this one."""
        scores = _scores(self.counts, *state)
        top = scores.max(axis=1, keepdims=True)
        share = np.exp(scores - top)
        norm = share.sum(axis=1, keepdims=True)
        fitness = float(np.average((top + np.log(norm))[:, 0], weights=self.weights))
        return self.maximise(share / norm), fitness

    def maximise(self, share: Floats) -> State:
        """The likeliest p (J,) and channels (K M, J) when units belong to kinds by shares (N, J)."""
        arms, levels = self.laws.shape
        share = share * self.weights[:, None]
        cell = (np.asarray(self.counts.T @ share) + self.pull).reshape(arms, levels, -1)
        channels = (cell / cell.sum(axis=1, keepdims=True)).reshape(arms * levels, -1)
        return (share.sum(axis=0) + 1) / (share.sum() + share.shape[1]), channels

    def leap(self, a: State, b: State, c: State) -> State:
        """Farther along the way of two steps (SQUAREM), in logarithms."""
        first, second, third = (self._logs(state) for state in (a, b, c))
        r = second - first
        v = third - second - r
        length = max(float(np.linalg.norm(r)) / max(float(np.linalg.norm(v)), 1e-300), 1.0)
        far = first + 2 * length * r + length**2 * v
        arms, levels = self.laws.shape
        p = np.exp(far[0] - far[0].max())
        channels = np.zeros_like(a[1])
        channels[self.possible] = np.exp(np.minimum(far[1:], 50.0))
        cell = np.maximum(channels.reshape(arms, levels, -1), 1e-12 * (self.laws > 0)[:, :, None])
        return p / p.sum(), (cell / cell.sum(axis=1, keepdims=True)).reshape(arms * levels, -1)

    def _logs(self, state: State) -> Floats:
        p, channels = state
        return np.asarray(np.log(np.maximum(np.concatenate([p[None], channels[self.possible]]), 1e-300)))


def _climb(step: _Step, state: State, rounds: int) -> tuple[State, float]:
    """EM with leaps until it hardly improves, three steps a round; returns the state and the mean log-likelihood of a unit."""
    fitness = -np.inf
    for _ in range(rounds):
        after, here = step(state)
        if here - fitness < _TOLERANCE * abs(here):
            return state, here
        fitness = here
        further, _ = step(after)
        leapt, reached = step(step.leap(state, after, further))
        state = leapt if reached >= here else further
    return state, step(state)[1]


def choose_kinds(
    ratings: Ratings, rng: np.random.Generator, *, most: int = GRID[-1], progress: Progress | None = None
) -> Choice:
    """How many kinds: the fewest that explain held-out units as well as the best number does, within a standard error.

    Numbers are tried in turn until three in a row do not improve on the best. A quarter of the units is held out.
    """
    units = ratings.counts.shape[0]
    order = rng.permutation(units)
    test, train = order[: int(units * HELD_OUT)], order[int(units * HELD_OUT) :]
    held, rest = ratings.take(np.sort(test)), ratings.take(np.sort(train))
    grid = [j for j in GRID if j <= max(most, 1) and j <= max(1, len(train) // 10)]
    tried: list[Floats] = []
    for i, kinds in enumerate(grid):
        if progress is not None:
            progress(f"trying {kinds} kinds", i / len(grid))
        tried.append(unit_fitness(held, shrunk(rest, fit_mixture(rest, kinds, rng, starts=2, rounds=50))))
        best = int(np.argmax([f.mean() for f in tried]))
        if i - best >= 3:
            break
    return fewest(grid, tried)


def fewest(grid: Sequence[int], tried: Sequence[Floats], errors: float = 1.0) -> Choice:
    """The fewest kinds whose fitness, over the same held-out units, is within so many standard errors of the best.

    >>> fewest([1, 2, 3], [np.array([-3.0, -2.0]), np.array([-1.0, -1.0]), np.array([-1.1, -0.8])]).chosen
    2
    """
    best = int(np.argmax([fitness.mean() for fitness in tried]))
    behind = [tried[best] - fitness for fitness in tried]
    error = [float(d.std(ddof=1) / math.sqrt(len(d))) if len(d) > 1 else 0.0 for d in behind]
    near = [i for i in range(best + 1) if behind[i].mean() <= errors * error[i]]
    fitness, gap = ([float(part.mean()) for part in parts] for parts in (tried, behind))
    return Choice(list(grid[: len(tried)]), fitness, gap, error, grid[near[0]])
