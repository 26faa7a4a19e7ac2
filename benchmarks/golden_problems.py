"""Random problems of every kind, each with somebody who pays: what ``goldens.py`` records decisions on.

A problem is remembered as its text, and its rewards as they were paid, so that nothing here needs to stay as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import headwater as hw

Generator = np.random.Generator
Floats = np.ndarray[Any, np.dtype[np.float64]]
Pays = Callable[[Generator], list[float]]
"""What every arm would pay for one person."""


class Case(NamedTuple):
    """A problem that policies believe, and what people really pay."""

    family: str
    number: int
    problem: hw.Problem
    pays: Pays


class Size(NamedTuple):
    """How large problems may be."""

    arms: int
    points: int


FAMILIES = (
    "ties",
    "discrete",
    "random",
    "mixed",
    "learned",
    "wrong",
    "wrong random",
    "continuous",
    "vector",
    "factored",
    "box",
)


def make_case(family: str, number: int, size: Size) -> Case:
    """A problem by its family and number."""
    rng = np.random.default_rng([FAMILIES.index(family), number, 20_261_119])
    arms = int(rng.integers(2, 1 + (size.arms if number % 7 == 0 else min(size.arms, 8))))
    points = int(rng.integers(2, 1 + (size.points if number % 7 in (1, 2) else min(size.points, 16))))
    if family.startswith("wrong"):  # few, so that rewards contradict the model soon
        arms, points = min(arms, 6), min(points, 5)
    if family in ("continuous", "vector", "factored", "box"):
        problem, pays = _functions(family, rng, min(arms, 6 if family == "continuous" else 8))
    else:
        problem, pays = _tables(family, rng, arms, points)
    return Case(family, number, problem, pays)


# --- listed values of X ----------------------------------------------------------------------------------------------


def _tables(family: str, rng: Generator, arms: int, points: int) -> tuple[hw.Problem, Pays]:
    values, laws = _laws(family, rng, arms, points)
    truth = [law.copy() for law in laws]
    if family.startswith("wrong"):  # every arm, or some, take one value of X for another
        share = rng.choice([0.4, 1.0])
        for k in range(arms):
            if rng.random() < share:
                truth[k] = truth[k][rng.permutation(points)]
    p = rng.dirichlet(np.full(points, 0.3 if family.startswith("wrong") else 1.0))
    observed = rng.integers(5, 200, (arms, points)) if family == "learned" else None
    bodies: dict[str, Any] = {}
    for k, (value, law) in enumerate(zip(values, laws, strict=True)):
        body: Any = value[law.argmax(axis=1)].tolist()
        if not np.array_equal(law, law.round()):
            body = {"outcomes": value.tolist(), "probabilities": law.tolist()}
            if observed is not None:
                body["observations"] = observed[k].astype(float).tolist()
        bodies[f"arm {k}"] = body
    latent = hw.Discrete([f"x{j}" for j in range(points)])
    problem = hw.Problem(latent=latent, arms=bodies, distribution=p.tolist(), name=family)

    def pays(rng: Generator) -> list[float]:
        j = int(rng.choice(points, p=p))
        return [float(v[rng.choice(len(v), p=law[j])]) for v, law in zip(values, truth, strict=True)]

    return problem, pays


def _laws(family: str, rng: Generator, arms: int, points: int) -> tuple[list[Floats], list[Floats]]:
    """Of every arm its rewards (M,), and how likely each is at every value of X (J, M)."""
    chance = {"ties": 0.0, "discrete": 0.0, "wrong": 0.0, "mixed": 0.5}.get(family, 1.0)
    steps = 3 if family == "ties" else 40
    values: list[Floats] = []
    laws: list[Floats] = []
    for _ in range(arms):
        size = points if family.startswith("wrong") else min(int(rng.integers(2, 6)), steps)
        value = np.sort(rng.choice(steps, size, replace=False)) / (2 if family == "ties" else 8)
        values.append(value - float(rng.integers(0, 3)))
        if rng.random() < chance:
            law = rng.dirichlet(np.full(len(value), 0.2 if family == "wrong random" else 0.6), points)
            laws.append(0.96 * law + 0.04 / len(value) if family != "random" else law)
        else:
            laws.append(
                np.eye(len(value))[rng.permutation(points) if family == "wrong" else rng.integers(0, len(value), points)]
            )
    return values, laws


def many_arms(arms: int, points: int) -> Case:
    """So many arms and rewards that no table of all pairs is kept."""
    rng = np.random.default_rng([arms, points])
    g = rng.normal(size=(arms, points)).round(3)
    p = rng.dirichlet(np.ones(points))
    latent = hw.Discrete([f"x{j}" for j in range(points)])
    rows = {f"arm {k}": row.tolist() for k, row in enumerate(g)}
    problem = hw.Problem(latent=latent, arms=rows, distribution=p.tolist(), name="many")

    def pays(rng: Generator) -> list[float]:
        column: list[float] = g[:, int(rng.choice(points, p=p))].tolist()
        return column

    return Case("many", 0, problem, pays)


# --- rewards as functions --------------------------------------------------------------------------------------------

_NAMES: dict[str, Any] = {"exp": math.exp, "sqrt": math.sqrt, "abs": abs, "sin": math.sin, "min": min, "max": max}


def _functions(family: str, rng: Generator, arms: int) -> tuple[hw.Problem, Pays]:
    parts = _components(family, rng)
    texts = list(dict.fromkeys(_text(family, list(parts), rng) for _ in range(arms)))
    if len(texts) == 1:
        texts.append("0.5")
    laws = {name: law for name, (_, law) in parts.items()}
    latent: Any = hw.Vector({name: part for name, (part, _) in parts.items()})
    distribution: Any = laws
    if family == "continuous":
        part, distribution = parts["x"]
        latent = hw.Continuous([part.low, part.high])
    bodies = {f"arm {k}": text for k, text in enumerate(texts)}
    problem = hw.Problem(latent=latent, arms=bodies, distribution=distribution, name=family)

    def pays(rng: Generator) -> list[float]:
        point = {name: _drawn(part, law, rng) for name, (part, law) in parts.items()}
        return [float(eval(text, {"__builtins__": {}}, _NAMES | point)) for text in texts]

    return problem, pays


def _components(family: str, rng: Generator) -> dict[str, tuple[Any, Any]]:
    """Of every component its values and its law."""
    curve = {"name": "beta", "a": float(rng.integers(1, 6)), "b": float(rng.integers(1, 6))}
    if family == "continuous":
        law = [curve, {"name": "uniform"}, {"name": "norm", "loc": 0.4, "scale": 0.3}][int(rng.integers(3))]
        return {"x": (hw.Interval(0, 1), law)}
    finite = {
        name: (np.sort(rng.choice(9, size, replace=False) / 4).tolist(), rng.dirichlet(np.ones(size)).tolist())
        for name, size in (("n", int(rng.integers(2, 5))), ("m", int(rng.integers(2, 4))))
    }
    if family == "vector":
        return finite
    if family == "box":
        return {"x": (hw.Interval(0, 1), curve), **({"y": (hw.Interval(0, 1), {"name": "uniform"})} | finite)}
    size = 6  # factored: 6^12 points, which nobody lists
    return {f"c{i}": (list(map(float, range(size))), rng.dirichlet(np.ones(size)).tolist()) for i in range(12)}


def _text(family: str, names: list[str], rng: Generator) -> str:
    forms: tuple[str, ...]
    a, b = (float(v) for v in rng.integers(1, 9, 2) / 4)
    if family == "continuous":
        bump = f"exp(-(x - {a / 4:g})**2 / 0.08)"
        forms = (
            bump,
            f"{a:g}*x",
            f"1 - {b / 2:g}*x",
            f"abs(x - {a / 3:.2f})",
            f"min(x, {b / 4:.2f})",
            f"{a / 3:.2f}",
            f"sqrt(x)*{b:g}",
        )
        return forms[int(rng.integers(len(forms)))]
    if family == "factored":
        some = rng.choice(names, 2, replace=False)
        return f"{a:g}*{some[0]} - {b:g}*{some[1]}"
    if family == "vector":
        forms = (f"{a:g}*n + m", f"n - {b:g}*m", "n*m", f"max(n, {a:g})", f"abs(n - m) + {b:g}", f"{a:g}")
        return forms[int(rng.integers(len(forms)))]
    forms = (f"{a:g}*x + {b / 4:g}*y", f"x - n + {a:g}", f"n + {b:g}*y", "1 - x*y", f"m + {a / 2:g}*x", f"{b:g}")
    return forms[int(rng.integers(len(forms)))]


def _drawn(part: Any, law: Any, rng: Generator) -> float:
    if isinstance(part, list):
        return float(rng.choice(part, p=law))
    if law["name"] == "beta":
        return float(rng.beta(law["a"], law["b"]))
    if law["name"] == "uniform":
        return float(rng.random())
    return float(np.clip(rng.normal(0.4, 0.3), 0.0, 1.0))
