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
_TOLERANCE = 1e-6
_DENSE = 30_000_000

Progress = Callable[[str, float], None]


class Ratings(NamedTuple):
    """``counts[i, k M + m]``: how often arm k paid unit i level m, (N, K M) sparse. ``arms`` and ``levels`` are K and M.

    ``exact``: a level is one value, not a range of rewards.
    """

    counts: Any
    arms: int
    levels: int
    exact: bool = True

    def take(self, rows: Ints) -> Ratings:
        return self._replace(counts=self.counts[rows])

    def laws(self) -> Floats:
        """Each arm's law, (K, M)."""
        return arm_laws(np.asarray(self.counts.sum(axis=0)).reshape(self.arms, self.levels), exact=self.exact)


class Mixture(NamedTuple):
    """``p`` (J,): the share of each kind, the largest first. ``channels`` (K, M, J). ``strengths`` (K,): s of each arm.

    ``fitness``: the mean log-likelihood of a unit.
    """

    p: Floats
    channels: Floats
    strengths: Floats
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
    return Ratings(counts[np.array(sorted(range(units), key=keys.__getitem__), dtype=np.int64)], arms, levels, exact)


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


def fit_mixture(ratings: Ratings, kinds: int, rng: np.random.Generator, *, starts: int = STARTS, rounds: int = 500) -> Mixture:
    """The likeliest mixture of ``kinds`` channels; the strengths of the prior are fitted along.

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
    prior = np.full(ratings.arms, 2.0)
    if kinds == 1:
        return Mixture(np.ones(1), laws[:, :, None], prior, float(np.mean(_scores(counts, np.ones(1), laws.reshape(-1, 1)))))
    runs = [_em(counts, laws, prior, share, 30) for share in _beginnings(ratings, laws, kinds, starts, rng)]
    p, channels, _ = max(runs, key=lambda run: run[2])
    p, channels, fitness = _em(counts, laws, prior, None, rounds, (p, channels))
    soft = _soft_counts(counts, p, channels, laws.shape)
    prior = find_strengths(soft, laws)
    p, channels, fitness = _em(counts, laws, prior, None, rounds, (p, channels))
    order = np.argsort(-p, kind="stable")
    return Mixture(p[order], channels[:, order].reshape(*laws.shape, kinds), prior, fitness)


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
    return out


def _block(laws: Floats) -> Floats:
    """The laws along a diagonal, (K, K M)."""
    arms, levels = laws.shape
    out = np.zeros((arms, arms * levels))
    for k in range(arms):
        out[k, k * levels : (k + 1) * levels] = laws[k]
    return out


def _em(
    counts: Any, laws: Floats, prior: Floats, share: Floats | None, rounds: int, start: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats, float]:
    """EM from shares (N, J) or from (p, channels); returns p, channels (K M, J) and the mean log-likelihood of a unit."""
    arms, levels = laws.shape
    pull = (prior[:, None] * laws).reshape(-1, 1)
    p, channels = start if start is not None else (np.empty(0), np.empty((0, 0)))
    before, fitness = -np.inf, -np.inf
    for _ in range(rounds):
        if share is None:
            scores = _scores(counts, p, channels)
            norm = logsumexp(scores, axis=1, keepdims=True)
            fitness = float(norm.mean())
            if fitness - before < _TOLERANCE * abs(fitness):
                break
            before = fitness
            share = np.exp(scores - norm)
        soft = np.asarray(counts.T @ share) + pull
        cell = soft.reshape(arms, levels, -1)
        channels = (cell / cell.sum(axis=1, keepdims=True)).reshape(arms * levels, -1)
        p = (share.sum(axis=0) + 1) / (len(share) + share.shape[1])
        share = None
    return p, channels, fitness


def choose_kinds(
    ratings: Ratings, rng: np.random.Generator, *, most: int = GRID[-1], progress: Progress | None = None
) -> Choice:
    """How many kinds: the fewest that explain held-out units as well as the best number does, within two standard errors.

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
        tried.append(unit_fitness(held, fit_mixture(rest, kinds, rng, starts=2, rounds=100)))
        best = int(np.argmax([f.mean() for f in tried]))
        if i - best >= 3:
            break
    return fewest(grid, tried)


def fewest(grid: Sequence[int], tried: Sequence[Floats]) -> Choice:
    """The fewest kinds whose fitness, over the same held-out units, is within two standard errors of the best.

    >>> fewest([1, 2, 3], [np.array([-3.0, -2.0]), np.array([-1.0, -1.0]), np.array([-1.1, -0.8])]).chosen
    2
    """
    best = int(np.argmax([fitness.mean() for fitness in tried]))
    behind = [tried[best] - fitness for fitness in tried]
    error = [float(d.std(ddof=1) / math.sqrt(len(d))) if len(d) > 1 else 0.0 for d in behind]
    near = [i for i in range(best + 1) if behind[i].mean() <= 2 * error[i]]
    fitness, gap = ([float(part.mean()) for part in parts] for parts in (tried, behind))
    return Choice(list(grid[: len(tried)]), fitness, gap, error, grid[near[0]])
