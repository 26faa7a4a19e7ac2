"""How likely each value of X is: probabilities on a listed support, a named law, a weighted sample, or a product of these.

A distribution never belongs to a problem's support and arms: analysis and simulation use it, a live run never sees it.
Each kind can draw by inversion: ``quantile`` maps uniform numbers to values of X.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headwater.arrays import Floats
from headwater.complaints import Complaints, is_list, normalised, number, numbers, probabilities, table
from headwater.latent import Continuous, Discrete, Interval, Latent, Vector, listed

LAWS = (
    "arcsine",
    "beta",
    "cauchy",
    "chi2",
    "cosine",
    "expon",
    "exponnorm",
    "f",
    "gamma",
    "genextreme",
    "gumbel_l",
    "gumbel_r",
    "halfnorm",
    "invgamma",
    "invgauss",
    "laplace",
    "logistic",
    "loggamma",
    "loglaplace",
    "lognorm",
    "maxwell",
    "norm",
    "pareto",
    "powerlaw",
    "rayleigh",
    "semicircular",
    "t",
    "triang",
    "uniform",
    "wald",
    "weibull_max",
    "weibull_min",
)
"""scipy's names of the laws that are quick and well-behaved enough to take from a file."""
ALIASES = {"normal": "norm", "exponential": "expon", "gaussian": "norm"}
PARAMETERS = {"mean": "loc", "sd": "scale"}  # what people call them, for the normal law


@dataclass(frozen=True, eq=False)
class Finite:
    """``p[j]`` is the probability of the j-th listed point, shape (J,)."""

    p: Floats

    def spec(self, latent: Latent) -> dict[str, Any]:
        assert not isinstance(latent, Continuous)
        return {"probabilities": self.p.reshape(latent.shape).tolist()}


@dataclass(frozen=True, eq=False)
class Sample:
    """A weighted sample: ``points`` (d, n), ``weights`` (n,) summing to one."""

    points: Floats
    weights: Floats

    def spec(self, latent: Latent) -> dict[str, Any]:
        points = self.points[0] if isinstance(latent, Continuous) else self.points.T
        return {"distribution": {"sample": points.tolist(), "weights": self.weights.tolist()}}


@dataclass(frozen=True)
class Named:
    """One of scipy's continuous laws, by scipy's name and parameters, truncated to ``[low, high]``."""

    name: str
    parameters: tuple[tuple[str, float], ...]
    low: float
    high: float

    @cached_property
    def law(self) -> Any:
        from scipy import stats  # a second of import that printing help should not pay

        return getattr(stats, self.name)(**dict(self.parameters))

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The law's distribution function at both ends of the support."""
        return float(self.law.cdf(self.low)), float(self.law.cdf(self.high))

    def quantile(self, u: Floats) -> Floats:
        a, b = self.ends
        x = np.asarray(self.law.ppf(a + u * (b - a)), dtype=float)
        return np.asarray(np.clip(x, self.low, self.high))

    def position(self, x: Floats) -> Floats:
        """The truncated distribution function: the inverse of ``quantile``."""
        a, b = self.ends
        return np.clip((np.asarray(self.law.cdf(x), dtype=float) - a) / (b - a), 0.0, 1.0)

    def density(self, x: Floats) -> Floats:
        a, b = self.ends
        return np.asarray(self.law.pdf(x), dtype=float) / (b - a)

    def spec(self, latent: Latent) -> dict[str, Any]:
        return {"distribution": {"name": self.name, **dict(self.parameters)}}


@dataclass(frozen=True, eq=False)
class Independent:
    """Independent components, each a probability vector over its finite values or a named law on its interval."""

    parts: tuple[Floats | Named, ...]

    def spec(self, latent: Latent) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, part in zip(latent.names, self.parts, strict=True):
            key = "distribution" if isinstance(part, Named) else "probabilities"
            value = part.spec(latent)["distribution"] if isinstance(part, Named) else part.tolist()
            out.setdefault(key, {})[name] = value
        return out

    def joint(self) -> Floats:
        """The product law on the listed points, shape (J,); finite components only."""
        p = np.ones(1)
        for part in self.parts:
            assert not isinstance(part, Named)
            p = np.outer(p, part).ravel()
        return p


Distribution = Finite | Sample | Named | Independent


def as_distribution(latent: Latent, given: Any, found: Complaints, place: str = "distribution") -> Distribution | None:
    """Read what a user may give as the distribution of ``latent``; ``None`` after a complaint.

    >>> as_distribution(Discrete(["a", "b"]), [0.25, 0.75], Complaints()).p
    array([0.25, 0.75])
    """
    before = len(found.lines)
    if isinstance(given, (Finite, Sample, Named, Independent)):
        if not _fits(given, latent):
            found.say(f"{place}: got a distribution on another support; expected one on this problem's")
            return None
        return given
    if isinstance(latent, Discrete):
        result: Distribution | None = _on_values(latent, given, found, place)
    elif isinstance(given, Mapping) and "sample" in given and "sample" not in latent.names:
        result = _sample(latent, given, found, place)
    elif isinstance(latent, Continuous):
        result = _named(given, *latent.support, found, place)
    else:
        result = _on_vector(latent, given, found, place)
    return result if len(found.lines) == before else None


def _fits(law: Distribution, latent: Latent) -> bool:
    """Whether a distribution that was read for some support is one on this support."""
    if isinstance(law, Finite):
        return listed(latent) and not isinstance(latent, Continuous) and len(law.p) == latent.size
    if isinstance(latent, Continuous):
        inside = isinstance(law, Sample) and len(law.points) == 1 and not _outside(latent, law.points)
        return inside or (isinstance(law, Named) and (law.low, law.high) == latent.support)
    if isinstance(latent, Discrete) or isinstance(law, Named):
        return False
    if isinstance(law, Sample):
        return len(law.points) == len(latent.names) and not _outside(latent, law.points)
    return len(law.parts) == len(latent.parts) and all(map(_fits_part, law.parts, latent.parts))


def _fits_part(law: Floats | Named, part: tuple[float, ...] | Interval) -> bool:
    if isinstance(part, Interval):
        return isinstance(law, Named) and (law.low, law.high) == (part.low, part.high)
    return not isinstance(law, Named) and len(law) == len(part)


def _on_values(latent: Discrete, given: Any, found: Complaints, place: str) -> Finite:
    if isinstance(given, Mapping):
        by_value = {_value(key, latent): p for key, p in given.items()}
        known = set(latent.values)
        for key in given:
            if _value(key, latent) not in known:
                found.add(place, key, "only values of X: " + ", ".join(map(latent.label, range(min(latent.size, 20)))))
        given = [by_value.get(v, 0.0) for v in latent.values]
    return Finite(_probabilities(place, given, (latent.size,), found))


def _value(key: Any, latent: Discrete) -> Any:
    """A key of a table as a value of X: 1, 1.0 and, from a file, "1" all name the number one."""
    try:
        return float(key) if latent.numeric else str(key)
    except (TypeError, ValueError, OverflowError):
        return None


def _probabilities(place: str, given: Any, shape: tuple[int, ...], found: Complaints) -> Floats:
    """Probabilities of the given shape, flat. The sum is worth a complaint only where every entry could be read."""
    before = len(found.lines)
    p = table(place, given, shape, found, of="probabilities")
    return probabilities(place, p, found) if len(found.lines) == before else p


def _on_vector(latent: Vector, given: Any, found: Complaints, place: str) -> Distribution | None:
    if not isinstance(given, Mapping):
        if not listed(latent):
            found.add(place, given, "one entry per component ({x1 = …, x2 = …}), or {sample = …}")
            return None
        return Finite(_probabilities(place, given, latent.shape, found))
    for key in given:
        if key not in latent.names:
            found.add(place, key, "only components: " + ", ".join(latent.names))
    parts: list[Floats | Named] = []
    for name, part in latent.components:
        here = f"{place}.{name}"
        if name not in given and not isinstance(part, Interval):
            found.say(f"{here}: missing; expected {len(part)} probabilities")
        elif isinstance(part, Interval):
            law = _named(given.get(name), part.low, part.high, found, here)
            parts += [law] if law is not None else []
        else:
            parts.append(_probabilities(here, given[name], (len(part),), found))
    return Independent(tuple(parts)) if len(parts) == len(latent.parts) else None


def _sample(latent: Continuous | Vector, given: Mapping[str, Any], found: Complaints, place: str) -> Sample | None:
    for key in given:
        if key not in ("sample", "weights"):
            found.add(place, key, "only sample and weights")
    rows, d = given["sample"], len(latent.names)
    if not is_list(rows) or len(rows) == 0:
        found.add(f"{place}.sample", rows, "a list of values of X")
        return None
    shape = (len(rows),) if isinstance(latent, Continuous) else (len(rows), d)
    before = len(found.lines)
    points = table(f"{place}.sample", rows, shape, found).reshape(len(rows), d).T
    weights = np.ones(len(rows))
    if given.get("weights") is not None:
        weights = numbers(f"{place}.weights", given["weights"], found, count=len(rows), of="weights")
        if (weights < 0).any() or not weights.any():
            found.say(f"{place}.weights: expected numbers that are 0 or more, and not all 0")
    if len(found.lines) > before:
        return None
    for n, value, wanted in _outside(latent, points):
        found.add(f"{place}.sample[{n}]", value, wanted)
    return Sample(points, normalised(weights))


def _outside(latent: Continuous | Vector, points: Floats) -> list[tuple[int, float, str]]:
    """For each component with a sample point outside its support, the first one: its number, its value, what was expected."""
    out = []
    parts = (Interval(*latent.support),) if isinstance(latent, Continuous) else latent.parts
    for i, part in enumerate(parts):
        if isinstance(part, Interval):
            bad, wanted = (points[i] < part.low) | (points[i] > part.high), f"[{part.low:g}, {part.high:g}]"
        else:
            bad, wanted = ~np.isin(points[i], part), "its listed values"
        if bad.any():
            n = int(np.argmax(bad))
            out.append((n, float(points[i, n]), f"{latent.names[i]} in {wanted}"))
    return out


def _named(given: Any, low: float, high: float, found: Complaints, place: str) -> Named | None:
    if hasattr(given, "dist") and hasattr(given, "kwds"):  # a frozen law of scipy's
        shapes = [s.strip() for s in (given.dist.shapes or "").split(",") if s.strip()]
        given = {
            "name": given.dist.name,
            "loc": 0.0,
            "scale": 1.0,
            **dict(zip([*shapes, "loc", "scale"], given.args, strict=False)),
            **given.kwds,
        }
    if isinstance(given, str):
        given = {"name": given}
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        found.add(place, given, '{name = "beta", a = 4, b = 4} or {sample = […]}')
        return None
    name = ALIASES.get(given["name"], given["name"])
    if name not in LAWS:
        found.add(f"{place}.name", given["name"], "one of " + ", ".join(sorted([*LAWS, *ALIASES])))
        return None
    parameters: dict[str, float] = {}
    for key, value in given.items():
        if key != "name":
            known = PARAMETERS.get(str(key), str(key)) if name == "norm" else str(key)
            if known in parameters:
                found.say(f"{place}.{key}: another name of {known}, which is given as well; expected one of them")
            parameters[known] = number(f"{place}.{key}", value, found) or 0.0
    if name == "uniform" and not parameters:
        if math.isinf(high - low):
            found.say(f"{place}: a uniform law needs a bounded support, or loc and scale")
            return None
        parameters = {"loc": low, "scale": high - low}
    return _check_law(Named(name, tuple(sorted(parameters.items())), low, high), found, place)


def _check_law(named: Named, found: Complaints, place: str) -> Named | None:
    from scipy import stats

    law = getattr(stats, named.name)
    shapes = [s.strip() for s in (law.shapes or "").split(",") if s.strip()]
    given = dict(named.parameters)
    before = len(found.lines)
    known = [*shapes, "loc", "scale"]
    for key in given:
        if key not in known:
            found.add(place, key, f"{named.name}'s parameters: {', '.join(known)}")
    for key in shapes:
        if key not in given:
            found.say(f"{place}.{key}: missing; expected a number ({named.name} takes {', '.join(shapes)})")
    if len(found.lines) > before:
        return None
    with np.errstate(all="ignore"):
        a, b = named.ends
    if not (math.isfinite(a) and math.isfinite(b)):
        found.add(place, given, f"parameters that {named.name} allows")
        return None
    if not b - a > 1e-12:
        found.say(f"{place}: {named.name} puts no probability on the support [{named.low:g}, {named.high:g}]")
        return None
    return named
