"""A problem and a distribution as finitely many atoms, which is what the engines draw from.

A listed support is its own list of atoms. A continuous X is quantised into as many equally likely atoms as the tables allow
(65,536 for few arms), at the middles of its quantiles; each atom pays exactly what X pays there, and its pseudo-rewards are
those of the continuous problem. What that does to the arms' means is computed and reported as ``error``.

Where the product of many finite components cannot be listed, each arm's own law is used, all arms driven by one uniform
number. A policy sees one arm a round, so its law is right; only *realised* regret, which compares two arms in one round, is
then that of this coupling. Random rewards are coupled in the same way: given the atom, one uniform number a round decides
every arm's level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import Floats, Ints
from headwater.distributions import Distribution, Named, Sample
from headwater.policies.table import Columns, LevelTable, bounds, has_levels, table_of, units_of
from headwater.problem import Problem
from headwater.pseudo import Model, model_of
from headwater.pseudo.channels import channels_of
from headwater.pseudo.factored import FactoredModel
from headwater.pseudo.finite import FiniteModel
from headwater.pseudo.scalar import ScalarModel
from headwater.pseudo.vector import BoxModel
from headwater.streams import UNIFORM_BITS, latent_thresholds

MAX_ATOMS = 65_536
MAX_CELLS = 2**25


class Atoms(NamedTuple):
    """``probability`` (J,); ``level[k, j]``, which of arm k's levels atom j pays; ``cells`` (K, M, K + 1) as in ``LevelTable``.

    ``values[k]`` are arm k's rewards by level. ``error`` bounds how far quantising moved any arm's mean; 0 when exact.

    Where some arm's reward is random, ``cuts`` (K, J, M - 1) decide the level instead: it is how many of ``cuts[k, j]`` are at
    most a 53-bit uniform. ``level`` is then 0 for such an arm, and ``random`` what it takes to learn from its rewards.

    Where cells would take too much memory, ``columns`` stand for them; ``level`` (K, 0), ``cells`` and ``values`` are empty.
    """

    probability: Floats
    level: Ints
    cells: Ints
    values: list[Floats]
    unit: float
    low: float
    span: float
    error: float
    cuts: Ints
    random: native.Random | None
    columns: Columns | None = None


_NO_CUTS = np.empty((0, 0, 0), dtype=np.int64)


def atoms_of(problem: Problem, distribution: Distribution) -> Atoms:
    """List or quantise a problem under a distribution; its own one's answer is kept with it. O(K² M) for the tables."""
    if distribution is problem.distribution:
        return problem.remember("atoms", lambda: _atoms(problem, distribution))
    return _atoms(problem, distribution)


def _atoms(problem: Problem, distribution: Distribution) -> Atoms:
    model = model_of(problem)
    if has_levels(model):
        table = table_of(problem)
        if table.columns is not None:
            assert isinstance(model, FiniteModel)
            none = np.empty((model.count, 0), dtype=np.int64), np.empty((model.count, 0, model.count + 1), dtype=np.int64)
            facts = (table.units.unit, table.low, table.span, 0.0)
            return Atoms(model.probabilities(distribution), *none, [], *facts, _NO_CUTS, None, table.columns)
        probability, level = _listed(model, distribution, problem)
        cuts = problem.remember("cuts", lambda: _cuts(table, level)) if table.noisy else _NO_CUTS
        lines = (table.cells, table.levels, table.units.unit, table.low, table.span, 0.0)
        return Atoms(probability, level, *lines, cuts, table.random)
    assert isinstance(model, (ScalarModel, BoxModel))
    return _quantised(model, distribution)


def _listed(model: Model, distribution: Distribution, problem: Problem) -> tuple[Floats, Ints]:
    if isinstance(model, FiniteModel):
        noisy = table_of(problem).noisy
        level = np.zeros((model.count, model.g.shape[1]), dtype=np.int64)
        for k in range(model.count):
            if k not in model.random:
                level[k] = model.levels(k).level
            elif k not in noisy:
                level[k] = channels_of(problem).matrix(k).argmax(axis=0)
        return model.probabilities(distribution), level
    assert isinstance(model, FactoredModel)
    return _coupled([model.law(k, distribution) for k in range(model.count)])


def _cuts(table: LevelTable, level: Ints) -> Ints:
    """The cuts of ``Atoms``, in exact arithmetic like the atoms' own: no reward of probability 0 is ever drawn. O(K J M)."""
    never = 2**UNIFORM_BITS
    count, points = level.shape
    out = np.full((count, points, max(map(len, table.levels)) - 1), never, dtype=np.int64)
    for k in range(count):
        if k in table.noisy:
            for j, law in enumerate(table.noisy[k].T):
                out[k, j, : len(law) - 1] = latent_thresholds(law)
        else:
            out[k][np.arange(out.shape[2]) < level[k][:, None]] = 0
    return out


def _coupled(laws: list[Floats]) -> tuple[Floats, Ints]:
    """Atoms of one uniform number that gives every arm its own law: the cells between all the laws' cumulative sums."""
    steps = [np.minimum(np.cumsum(law)[:-1], 1.0) for law in laws]
    edges = np.unique(np.concatenate([[0.0, 1.0], *steps]))
    middle = (edges[:-1] + edges[1:]) / 2
    level = np.stack([np.searchsorted(step, middle, side="right") for step in steps])
    return np.diff(edges), level.astype(np.int64)


def _quantised(model: ScalarModel | BoxModel, distribution: Distribution) -> Atoms:
    rewards, probability = _points(model, distribution)
    levels = [np.unique(row, return_inverse=True) for row in rewards]
    most, count = max(len(value) for value, _ in levels), model.count
    units = units_of(model)
    cells = np.zeros((count, most, count + 1), dtype=np.int64)
    for k, (value, _) in enumerate(levels):
        snapped = model.snap(k, value, 1e-9)
        cells[k, : len(value), :-1] = units.excesses(snapped, model.upward(k, snapped)).T
        cells[k, : len(value), k] = 0
        cells[k, :, -1] = units.rewards(snapped)[0]
        cells[k, : len(value), -1] = units.rewards(snapped)
    exact = model.means(distribution)
    error = float(np.max(abs(rewards @ probability - exact.value))) + exact.error
    level = np.stack([at for _, at in levels]).astype(np.int64)
    values = [value for value, _ in levels]
    return Atoms(probability, level, cells, values, units.unit, *bounds(model), error, _NO_CUTS, None)


def _points(model: ScalarModel | BoxModel, distribution: Distribution) -> tuple[Floats, Floats]:
    """Rewards (K, J) at the atoms, and the atoms' probabilities."""
    if isinstance(distribution, Sample):
        return model.values(distribution.points), distribution.weights
    size = MAX_ATOMS
    while size > 1024 and model.count * (model.count + 1) * size > MAX_CELLS:
        size //= 2
    if isinstance(model, ScalarModel):
        assert isinstance(distribution, Named)
        points = distribution.quantile((np.arange(size) + 0.5) / size)[None]
    else:
        points = model.spread_points(distribution, size)
    return model.values(points), np.full(size, 1.0 / size)
