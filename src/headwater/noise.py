"""Noise on a reward: a named law, discrete or bounded, and the channel that g(X) + noise is on listed points.

A discrete law gives finitely many sums, exactly. Under a continuous law the reward axis is cut into equal bins, and a reward in
a bin counts as the bin's middle. The probability of each bin at each point is exact; forgetting where in its bin a reward fell
only loses evidence, so that what is concluded from it errs upward. Means move a little: ``Sums.rounding`` says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import SAME, Floats, level_starts
from headwater.complaints import Complaints, number, numbers, probabilities

BINS = 32
MAX_BINS = 10_000

PARAMETERS: dict[str, tuple[str, ...]] = {
    "beta": ("a", "b", "low", "high"),
    "discrete": ("values", "probabilities"),
    "normal": ("mean", "sd", "low", "high"),
    "sign": ("scale",),
    "triangular": ("low", "high", "mode"),
    "uniform": ("low", "high"),
}
"""The laws by name, and what each takes. All are bounded: a normal one is cut off at ``low`` and ``high``."""
OPTIONAL = {"mean", "mode"}
ALIASES = {"norm": "normal", "gaussian": "normal"}


@dataclass(frozen=True)
class Noise:
    """A law by its name and parameters, in the order of ``PARAMETERS``; those of ``discrete`` are tuples of numbers."""

    name: str
    parameters: tuple[tuple[str, Any], ...]

    @property
    def listed(self) -> bool:
        """Whether it takes finitely many values."""
        return self.name in ("discrete", "sign")

    @cached_property
    def atoms(self) -> tuple[Floats, Floats]:
        """The values of a listed law and their probabilities, both (V,)."""
        given = dict(self.parameters)
        if self.name == "sign":
            return np.array([-given["scale"], given["scale"]]), np.array([0.5, 0.5])
        return np.array(given["values"]), np.array(given["probabilities"])

    @property
    def ends(self) -> tuple[float, float]:
        given = dict(self.parameters)
        return given["low"], given["high"]

    @cached_property
    def law(self) -> Any:
        """A continuous law as a frozen one of scipy's."""
        from scipy import stats  # a second of import that printing help should not pay

        given = dict(self.parameters)
        low, width = given["low"], given["high"] - given["low"]
        if self.name == "uniform":
            return stats.uniform(low, width)
        if self.name == "triangular":
            return stats.triang(min((given["mode"] - low) / width, 1.0), low, width)
        if self.name == "beta":
            return stats.beta(given["a"], given["b"], low, width)
        mean, sd = given["mean"], given["sd"]
        return stats.truncnorm((low - mean) / sd, (given["high"] - mean) / sd, mean, sd)

    def below(self, z: Floats) -> Floats:
        """The distribution function of a continuous law: exactly 0 and 1 from its ends on."""
        with np.errstate(all="ignore"):
            return np.where(z <= self.ends[0], 0.0, np.where(z >= self.ends[1], 1.0, np.asarray(self.law.cdf(z), dtype=float)))

    @cached_property
    def mean(self) -> float:
        """The mean of a continuous law."""
        with np.errstate(all="ignore"):
            return float(self.law.mean())

    def spec(self) -> dict[str, Any]:
        """The law as a file holds it."""
        return {"name": self.name, **{key: list(v) if isinstance(v, tuple) else v for key, v in self.parameters}}


class Sums(NamedTuple):
    """g(x) + noise: ``outcomes`` (M,), ascending, and ``probabilities[j, m]`` of each at the j-th point.

    An observed reward within ``width`` of an outcome counts as it; ``rounding`` is the most by which that moves a point's mean.
    """

    outcomes: Floats
    probabilities: Floats
    width: float
    rounding: float


def add_noise(g: Floats, noise: Noise, bins: int = BINS) -> Sums:
    """The channel of ``g`` (J,) plus independent noise. O(J (V + M)) for V values of noise or M bins.

    >>> add_noise(np.array([0.0, 1.0]), Noise("sign", (("scale", 1.0),))).outcomes
    array([-1.,  0.,  1.,  2.])
    >>> add_noise(np.array([0.0, 1.0]), Noise("uniform", (("low", 0.0), ("high", 1.0))), bins=4).probabilities
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    return _listed_sums(g, noise) if noise.listed else _binned_sums(g, noise, bins)


def _listed_sums(g: Floats, noise: Noise) -> Sums:
    values, weights = noise.atoms
    sums = g[:, None] + values
    order = np.argsort(sums, axis=None, kind="stable")
    starts = level_starts(sums.ravel()[order], float(np.max(abs(sums))))
    level = np.empty(sums.size, dtype=np.int64)
    level[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, sums.size)))
    rows = np.zeros((len(g), len(starts)))
    np.add.at(rows, (np.repeat(np.arange(len(g)), len(values)), level), np.tile(weights, len(g)))
    return Sums(sums.ravel()[order][starts], rows, 0.0, 0.0)


def _binned_sums(g: Floats, noise: Noise, bins: int) -> Sums:
    low, high = noise.ends
    edges = np.linspace(g.min() + low, g.max() + high, bins + 1)
    levels, back = np.unique(g, return_inverse=True)
    z = edges - levels[:, None]
    near = SAME * max(float(np.max(abs(edges))), high - low)  # an edge that is an end but for rounding is that end
    below = noise.below(np.where(z <= low + near, low, np.where(z >= high - near, high, z)))
    rows = np.maximum(np.diff(below, axis=1), 0.0)
    outcomes = (edges[:-1] + edges[1:]) / 2
    rounding = float(np.max(abs(rows @ outcomes - levels - noise.mean)))
    return Sums(outcomes, rows[back], float(edges[-1] - edges[0]) / (2 * bins), rounding)


def read_noise(place: str, given: Any, found: Complaints) -> Noise | None:
    """The law a user gave as a table; ``None`` after a complaint.

    >>> read_noise("noise", {"name": "uniform", "low": -1, "high": 1}, Complaints())
    Noise(name='uniform', parameters=(('low', -1.0), ('high', 1.0)))
    """
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        found.add(place, given, '{name = "uniform", low = -1, high = 1} or another named law')
        return None
    name = ALIASES.get(given["name"], given["name"])
    if name not in PARAMETERS:
        found.add(f"{place}.name", given["name"], "one of " + ", ".join(sorted([*PARAMETERS, *ALIASES])))
        return None
    before = len(found.lines)
    for key in given:
        if key != "name" and key not in PARAMETERS[name]:
            found.add(place, key, f"{name}'s parameters: {', '.join(PARAMETERS[name])}")
    for key in PARAMETERS[name]:
        if key not in given and key not in OPTIONAL:
            kind = "a list of numbers" if name == "discrete" else "a number"
            found.say(f"{place}.{key}: missing; expected {kind} ({name} takes {', '.join(PARAMETERS[name])})")
    if len(found.lines) > before:
        return None
    read = _read_discrete if name == "discrete" else _read_numbers
    noise = read(place, name, given, found)
    return noise if len(found.lines) == before else None


def _read_discrete(place: str, name: str, given: Mapping[str, Any], found: Complaints) -> Noise:
    before = len(found.lines)
    values = numbers(f"{place}.values", given["values"], found)
    if len(values) == 0 or len(np.unique(values)) != len(values):
        found.add(f"{place}.values", given["values"], "at least one value, each once")
    p = numbers(f"{place}.probabilities", given["probabilities"], found, count=len(values), of="probabilities")
    if len(found.lines) == before:
        p = probabilities(f"{place}.probabilities", p, found)
    return Noise(name, (("values", tuple(values.tolist())), ("probabilities", tuple(p.tolist()))))


def _read_numbers(place: str, name: str, given: Mapping[str, Any], found: Complaints) -> Noise | None:
    before = len(found.lines)
    values = {key: number(f"{place}.{key}", given[key], found) for key in PARAMETERS[name] if key in given}
    if len(found.lines) > before:
        return None
    x: dict[str, float] = {key: value for key, value in values.items() if value is not None}
    for key in ("scale", "sd", "a", "b"):
        if x.get(key, 1.0) <= 0:
            found.add(f"{place}.{key}", given[key], "a number above 0")
    if "low" in x and not 0 < x["high"] - x["low"] < math.inf:
        found.add(f"{place}.high", given["high"], f"a number above low, which is {x['low']:g}")
    if len(found.lines) > before:
        return None
    if name == "triangular":
        x.setdefault("mode", x["low"] / 2 + x["high"] / 2)
        if not x["low"] <= x["mode"] <= x["high"]:
            found.add(f"{place}.mode", given["mode"], f"a number from low to high, {x['low']:g} to {x['high']:g}")
            return None
    if name == "normal":
        x.setdefault("mean", 0.0)
    noise = Noise(name, tuple((key, x[key]) for key in PARAMETERS[name]))
    if not noise.listed and not _sound(noise):
        found.add(place, {key: given[key] for key in x if key in given}, f"parameters for which {name} can be computed")
        return None
    return noise


def _sound(noise: Noise) -> bool:
    """Whether scipy can compute this law: cut off far out in a tail, or very narrow or wide, a normal one gives NaN."""
    low, high = noise.ends
    if noise.name == "normal":
        mean, sd = (dict(noise.parameters)[key] for key in ("mean", "sd"))
        if not 1e-6 <= sd / (high - low) <= 1e6 or max(low - mean, mean - high) > 1e3 * sd:
            return False
    return bool(np.all(np.diff(noise.below(np.linspace(low, high, 65))) >= 0) and low <= noise.mean <= high)


def read_bins(place: str, given: Any, noise: Noise, found: Complaints) -> int:
    """How many bins: the default, or what was given. A listed law needs none."""
    if noise.listed:
        if given is not None:
            found.add(place, given, f"none: {noise.name} noise takes finitely many values, which are kept exactly")
    elif given is not None:
        whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
        if whole and 2 <= given <= MAX_BINS:
            return int(given)
        found.add(place, given, f"a whole number from 2 to {MAX_BINS}")
    return BINS
