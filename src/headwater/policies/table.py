"""A problem's rewards and pseudo-rewards in whole units, so that sums over rounds are exact and a tie stays a tie.

An arm is excluded when the reference arm's mean is *strictly* above its empirical pseudo-reward. Over n pulls that compares two
sums; in integers it is exact, whatever the order in which rewards came, and however many replicas they came through.

Rewards with up to nine decimals are whole multiples of a power of ten, exactly. Others (an expression's values) are rounded
to 2**-30 of the reward range: rewards down, pseudo-rewards up, so that an arm is never excluded by rounding.

Where some arm's reward is random, means given X are no multiples of a coarse unit: it is halved until it is as fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headwater import native
from headwater.arrays import SAME, AnyInts, Floats, Ints, level_starts
from headwater.errors import SizeError
from headwater.problem import Problem
from headwater.pseudo import Model, model_of
from headwater.pseudo.channels import channels_of
from headwater.pseudo.factored import FactoredModel
from headwater.pseudo.finite import FiniteModel, distinct, find_levels

MAX_CELLS = 60_000_000
"""Entries K × M × (K + 1) of a table of levels: 0.5 GB. Beyond, ``Columns`` stand for it."""
FRUGAL = "ucb1, kl-ucb, ts, c-ucb, c-kl-ucb or c-ts, which do without where X decides the rewards"
"""Policies that read one row of sums at most."""
RELAXED = 1e-9
"""What is added to the most that an arm may pay given another's random rewards, as a part of the range: a tie stays a tie."""
FINE = 2.0**-30
"""The unit of rewards that are not short decimals, as a part of the largest magnitude."""


class Units(NamedTuple):
    """How rewards become integers: ``reward = unit * whole``. ``exact`` says that no rounding is involved; ``refined``, that
    only rewards are whole multiples of the unit, not what others may have paid."""

    unit: float
    exact: bool
    refined: bool = False

    def rewards(self, values: Floats) -> Ints:
        scaled = values / self.unit
        return np.asarray(np.rint(scaled) if self.exact else np.floor(scaled), dtype=np.int64)

    def excesses(self, rewards: Floats, s: Floats) -> Ints:
        """Reward less pseudo-reward, never above the truth: shapes broadcast."""
        same = abs(s - rewards) <= SAME * np.maximum(abs(s), abs(rewards))
        return np.where(same, 0, self.rewards(rewards) - self.upward(s))

    def upward(self, s: Floats) -> Ints:
        """Pseudo-rewards in units, never below the truth; increasing, so that the largest of some is the largest's."""
        scaled = s / self.unit
        if self.exact and not self.refined:
            return np.asarray(np.rint(scaled), dtype=np.int64)
        near = 1e-12 * np.maximum(1.0, abs(scaled)) if self.exact else 0.0
        return np.asarray(np.ceil(scaled - near), dtype=np.int64)

    def finer(self, largest: float) -> Units:
        """Halved until the largest reward is 2**30 units or more; by a power of two, so that no mean changes by a bit."""
        unit = self.unit
        while self.exact and 0.0 < largest < unit * 2.0**30:
            unit /= 2.0
        return Units(unit, self.exact, refined=True)


def random_rewards(matrices: Sequence[Floats | None], g: Floats, unit: float, rounding: float = 0.0) -> native.Random:
    """Lay out the channels (M, J) of arms of random rewards, None for the others; ``g`` (K, J) is every arm's mean given X.

    ``rounding`` is the most by which any of these means is off, because a continuous law was put into bins.
    """
    zero, width = float(g.min()), max(float(np.ptp(g)), 1e-300)
    slack = RELAXED * width + 1e-15 * (abs(zero) + width) + 2.0 * rounding
    rows = [None if matrix is None else np.ascontiguousarray(matrix, dtype=float) for matrix in matrices]
    return native.Random((g - zero) / width, rows, zero=zero / unit, scale=width / unit, slack=slack / unit)


def choose_units(*rows: Floats) -> Units:
    """The coarsest power of ten that all values are whole multiples of, or a fine binary unit.

    >>> choose_units(np.array([0.0, 1.5, 3.25]))
    Units(unit=0.01, exact=True, refined=False)
    """
    return _units_for(lambda: rows)


def _units_for(rows: Callable[[], Iterable[Floats]]) -> Units:
    """``choose_units`` of rows that are made anew whenever they are asked for: all at once they might not fit into memory."""
    largest = max(max(float(np.max(abs(row), initial=0.0)) for row in rows()), 1e-300)
    for digits in range(10):
        top = largest * 10.0**digits  # rounding is measured by it where all rewards are tiny
        if top < 2**31 - 1 and all(_whole(row * 10.0**digits, min(1.0, top)) for row in rows()):
            return Units(10.0**-digits, True)
    return Units(largest * FINE, False)


def _whole(scaled: Floats, least: float) -> bool:
    return bool(np.all(abs(scaled - np.rint(scaled)) <= 1e-12 * np.maximum(least, abs(scaled))))


class Columns(NamedTuple):
    """The rewards in units, from which the excesses of any arm's level are computed when they are needed: O(K J) memory.

    ``up[j, ell]`` is the pseudo-reward that atom j gives target ell, (J, K): that of a level is the maximum over its atoms.
    ``less[k, j]`` is by how much arm k's reward there is less, (K, J), because rewards are rounded down and pseudo-rewards up;
    empty where all rewards are whole multiples of the unit.
    ``g[k, j]`` are the rewards themselves, (K, J). ``top`` is the largest of ``up``.
    """

    up: AnyInts
    less: AnyInts
    g: Floats
    top: int

    @property
    def core(self) -> native.Columns:
        """As the native core reads them."""
        byte = self.less if self.less.dtype == np.uint8 and self.less.size else None
        word = self.less if self.less.dtype == np.uint32 and self.less.size else None
        return native.Columns(self.up, byte, word, np.ascontiguousarray(self.g), self.top)


def make_columns(g: Floats, units: Units) -> Columns:
    """Lay out rewards ``g`` (K, J) by column, a few arms at a time."""
    up = np.empty(g.shape[::-1], dtype=np.int32)
    less = np.empty((0, 0) if units.exact else g.shape, dtype=np.uint8)
    for part in range(0, len(g), 64):
        up[:, part : part + 64] = units.upward(g[part : part + 64]).T
    for k in range(len(less)):
        short = units.upward(g[k]) - units.rewards(_least_of_levels(g[k]))
        if short.max() > np.iinfo(less.dtype).max:  # levels of very many rewards, each within rounding of the next
            less = less.astype(np.uint32)
        less[k] = short
    return Columns(up, less, g, int(up.max()))


def _least_of_levels(rewards: Floats) -> Floats:
    """Each reward, but of those that are equal but for rounding the least."""
    ordered = np.sort(rewards)
    levels = len(level_starts(ordered, float(np.max(abs(ordered[[0, -1]])))))
    if levels == len(ordered) - np.count_nonzero(np.diff(ordered) == 0.0):
        return rewards
    value, level, _, _ = find_levels(rewards)
    return value[level]


class LevelTable:
    """Every arm's levels, and what each says of the other arms, for problems with finitely many rewards per arm.

    ``cells[k, m, ell]`` is the excess of arm k's m-th reward over target ell's pseudo-reward in units, ``cells[k, m, K]`` the
    reward itself; shape (K, M, K + 1), rows padded. ``levels[k]`` are arm k's rewards. The excesses of an arm of random rewards
    are 0: what it implies is computed from its counts, by ``random``, which is None where there is no such arm.
    """

    def __init__(self, problem: Problem) -> None:
        self.model = model_of(problem)
        self.problem = problem
        self.count = self.model.count
        assert has_levels(self.model)
        self.units = units_of(self.model)
        self.scale = self.model.reward_range
        self.low, self.span = bounds(self.model)

    @cached_property
    def levels(self) -> list[Floats]:
        return [self.model.payable(k)[:, 0] for k in range(self.count)]

    @cached_property
    def columns(self) -> Columns | None:
        """What stands instead of ``cells`` where they would take too much memory and every reward is decided by X."""
        model, enough = self.model, MAX_CELLS // (self.count * (self.count + 1))
        if not isinstance(model, FiniteModel) or model.random or model.g.shape[1] <= enough:
            return None
        many = enough < 1 or any(len(distinct(row)) > enough for row in model.g)
        return make_columns(model.g, self.units) if many else None

    @cached_property
    def cells(self) -> Ints:
        most = max(map(len, self.levels))
        if self.count * most * (self.count + 1) > MAX_CELLS:
            raise SizeError(
                f"{self.count} arms with up to {most:,} different rewards need a table of {self.count**2 * most:,} entries; "
                f"at most {MAX_CELLS:,} are kept. Round the rewards to fewer levels, or use {FRUGAL}."
            )
        out = np.zeros((self.count, most, self.count + 1), dtype=np.int64)
        for k, value in enumerate(self.levels):
            if k not in self.noisy:
                s = self.model.pseudo(k, value)
                if isinstance(self.model, FiniteModel) and self.model.rounding:
                    s = s + self.model.rounding
                out[k, : len(value), :-1] = self.units.excesses(value, s).T
                out[k, : len(value), k] = 0
            out[k, :, -1] = self.units.rewards(value)[0]  # padding that pays no more than the arm does
            out[k, : len(value), -1] = self.units.rewards(value)
        return out

    @cached_property
    def noisy(self) -> dict[int, Floats]:
        """The channels (M, J) of the arms whose reward X does not decide: a table of 0 and 1 is no random reward."""
        if not isinstance(self.model, FiniteModel):
            return {}
        matrices = {k: channels_of(self.problem).matrix(k) for k in self.model.random}
        return {k: matrix for k, matrix in matrices.items() if np.any((matrix > 0) & (matrix < 1))}

    @property
    def random(self) -> native.Random | None:
        """As the native core reads them; made anew, for what is kept with a problem moves between processes with it."""
        if not self.noisy:
            return None
        assert isinstance(self.model, FiniteModel)
        return random_rewards(
            [self.noisy.get(k) for k in range(self.count)], self.model.g, self.units.unit, self.model.rounding
        )


def has_levels(model: Model) -> bool:
    """Whether every arm pays one of finitely many rewards that can be listed."""
    return isinstance(model, (FiniteModel, FactoredModel))


def units_of(model: Model) -> Units:
    """The units of a problem's rewards."""
    if has_levels(model):
        units = _units_for(lambda: _rows(model))
        if isinstance(model, FiniteModel) and model.random:
            return units.finer(max(float(np.max(abs(row))) for row in _rows(model)))
        return units
    return Units(max(float(np.max(abs(model.ranges))), 1e-300) * FINE, False)


def _rows(model: Model) -> Iterator[Floats]:
    """Each arm's rewards, one arm at a time; nothing is kept, or sorted."""
    for k in range(model.count):
        if isinstance(model, FiniteModel) and k not in model.random:
            yield model.g[k]
        else:
            yield model.payable(k)[:, 0]


def bounds(model: Model) -> tuple[float, float]:
    """The least reward of any arm, and the width up to the largest."""
    low = float(np.min(model.ranges[:, 0]))
    return low, float(np.max(model.ranges[:, 1])) - low


def table_of(problem: Problem) -> LevelTable:
    """The problem's table, made on first use and kept with it."""
    return problem.remember("table", lambda: LevelTable(problem))
