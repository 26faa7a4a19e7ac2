"""A problem's rewards and pseudo-rewards in whole units, so that sums over rounds are exact and a tie stays a tie.

An arm is excluded when the reference arm's mean is *strictly* above its empirical pseudo-reward. Over n pulls that compares two
sums; in integers it is exact, whatever the order in which rewards came, and however many replicas they came through.

Rewards with up to nine decimals are whole multiples of a power of ten, exactly. Others (an expression's values) are rounded
to 2**-30 of the reward range: rewards down, pseudo-rewards up, so that an arm is never excluded by rounding.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from headwater.arrays import SAME, Floats, Ints
from headwater.errors import SizeError
from headwater.problem import Problem
from headwater.pseudo import Model, model_of, require_deterministic
from headwater.pseudo.factored import FactoredModel
from headwater.pseudo.finite import FiniteModel

MAX_CELLS = 60_000_000
"""Entries K × M × (K + 1) of a table of levels: 0.5 GB."""
FINE = 2.0**-30
"""The unit of rewards that are not short decimals, as a part of the largest magnitude."""


class Units(NamedTuple):
    """How rewards become integers: ``reward = unit * whole``. ``exact`` says that no rounding is involved."""

    unit: float
    exact: bool

    def rewards(self, values: Floats) -> Ints:
        scaled = values / self.unit
        return np.asarray(np.rint(scaled) if self.exact else np.floor(scaled), dtype=np.int64)

    def excesses(self, rewards: Floats, s: Floats) -> Ints:
        """Reward less pseudo-reward, never above the truth: shapes broadcast."""
        up = np.rint(s / self.unit) if self.exact else np.ceil(s / self.unit)
        same = abs(s - rewards) <= SAME * np.maximum(abs(s), abs(rewards))
        return np.where(same, 0, self.rewards(rewards) - np.asarray(up, dtype=np.int64))


def choose_units(values: Floats) -> Units:
    """The coarsest power of ten that all values are whole multiples of, or a fine binary unit.

    >>> choose_units(np.array([0.0, 1.5, 3.25]))
    Units(unit=0.01, exact=True)
    """
    largest = max(float(np.max(abs(values), initial=0.0)), 1e-300)
    for digits in range(10):
        scaled = values * 10.0**digits
        top = largest * 10.0**digits  # rounding is measured by it where all rewards are tiny
        if top < 2**31 and np.all(abs(scaled - np.rint(scaled)) <= 1e-12 * np.maximum(min(1.0, top), abs(scaled))):
            return Units(10.0**-digits, True)
    return Units(largest * FINE, False)


class LevelTable:
    """Every arm's levels, and what each says of the other arms, for problems with finitely many rewards per arm.

    ``cells[k, m, ell]`` is the excess of arm k's m-th reward over target ell's pseudo-reward in units, ``cells[k, m, K]`` the
    reward itself; shape (K, M, K + 1), rows padded. ``levels[k]`` are arm k's rewards.
    """

    def __init__(self, problem: Problem) -> None:
        require_deterministic(problem)
        self.model = model_of(problem)
        self.count = self.model.count
        assert has_levels(self.model)
        self.levels = [self.model.payable(k)[:, 0] for k in range(self.count)]
        self.units = units_of(self.model)
        self.scale = self.model.reward_range
        self.low, self.span = bounds(self.model)

    @cached_property
    def cells(self) -> Ints:
        most = max(map(len, self.levels))
        if self.count * most * (self.count + 1) > MAX_CELLS:
            raise SizeError(
                f"{self.count} arms with up to {most:,} different rewards need a table of {self.count**2 * most:,} entries; "
                f"at most {MAX_CELLS:,} are kept. Round the rewards to fewer levels."
            )
        out = np.zeros((self.count, most, self.count + 1), dtype=np.int64)
        for k, value in enumerate(self.levels):
            s = self.model.pseudo(k, value)
            out[k, : len(value), :-1] = self.units.excesses(value, s).T
            out[k, : len(value), k] = 0
            out[k, :, -1] = self.units.rewards(value)[0]  # padding that pays no more than the arm does
            out[k, : len(value), -1] = self.units.rewards(value)
        return out


def has_levels(model: Model) -> bool:
    """Whether every arm pays one of finitely many rewards that can be listed."""
    return isinstance(model, (FiniteModel, FactoredModel))


def units_of(model: Model) -> Units:
    """The units of a problem's rewards."""
    if has_levels(model):
        return choose_units(np.concatenate([model.payable(k)[:, 0] for k in range(model.count)]))
    return Units(max(float(np.max(abs(model.ranges))), 1e-300) * FINE, False)


def bounds(model: Model) -> tuple[float, float]:
    """The least reward of any arm, and the width up to the largest."""
    low = float(np.min(model.ranges[:, 0]))
    return low, float(np.max(model.ranges[:, 1])) - low


def table_of(problem: Problem) -> LevelTable:
    """The problem's table, made on first use and kept with it."""
    return problem.remember("table", lambda: LevelTable(problem))
