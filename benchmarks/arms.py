"""Regret against the number of arms K, which the paper's conclusion leaves open: its three families at K = 3 to 300.

python benchmarks/arms.py            # about ten minutes on one core: measures into benchmarks/arms.json, then writes the page
python benchmarks/arms.py --page     # only the page: docs/figures/arms.png and the table in docs/policies.md

Every point is the mean over random problems of a family, both policies on the same draws. The families are the paper's, with
arms drawn at random:

- discrete: five values of X, rewards from {0, 1.5, 3, 4}, so that no arm is invertible; the law of X uniform among all;
- continuous: X ~ Beta(4, 4), Beta(2, 5) or Beta(1, 5) on [0, 1]; Gaussian bumps, saturating exponentials and constants in turn;
- vector: nine components, each -1, 0 or 1 with probabilities of its own; every arm adds or subtracts each of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from headwater.analysis import analyze
from headwater.latent import Continuous, Discrete, Vector
from headwater.problem import Problem
from headwater.report.draw import save
from headwater.report.style import look, rough, short
from headwater.simulation import simulate

ROOT = Path(__file__).parent.parent
FIGURE, PAGE = ROOT / "docs" / "figures" / "arms.png", ROOT / "docs" / "policies.md"
FIGURES = ROOT / "benchmarks" / "arms.json"
START, END = "<!-- benchmarks/arms.py writes this -->\n", "<!-- until here -->"
ARMS = (3, 10, 30, 100, 300)
POLICIES = ("ucb1", "c-ucb")
HORIZON, RUNS, SEED = 100_000, 2, 18
PROBLEMS = {"discrete": 24, "continuous": 8, "vector": 8}
"""Problems at each K: fewer where one takes longer."""
COMPONENTS = 9


def discrete(rng: np.random.Generator, count: int) -> Problem:
    rows: dict[tuple[float, ...], None] = {}
    while len(rows) < count:
        rows[tuple(rng.choice([0.0, 1.5, 3.0, 4.0], size=5).tolist())] = None
    arms = {f"arm {k}": list(row) for k, row in enumerate(rows)}
    return Problem(latent=Discrete(list(range(5))), arms=arms, distribution=rng.dirichlet(np.ones(5)))


def continuous(rng: np.random.Generator, count: int) -> Problem:
    arms = {}
    for k in range(count):
        middle, width = rng.uniform(0, 1), rng.uniform(0.15, 0.3)
        bump = f"exp(-(x - {middle:.6f})**2 / (2 * {width:.6f}**2)) / (2 * sqrt(2 * pi * {width:.6f}**2))"
        arms[f"arm {k}"] = (bump, f"1 - exp(-{rng.uniform(0.5, 3):.6f} * x)", f"{rng.uniform(0.3, 0.6):.6f}")[k % 3]
    a, b = ((4, 4), (2, 5), (1, 5))[rng.integers(3)]
    return Problem(latent=Continuous([0, 1]), arms=arms, distribution={"name": "beta", "a": a, "b": b})


def vector(rng: np.random.Generator, count: int) -> Problem:
    names = [f"x{i + 1}" for i in range(COMPONENTS)]
    arms: dict[str, None] = {}
    while len(arms) < count:
        signs = rng.choice(["+", "-"], size=COMPONENTS)
        arms[" ".join(f"{sign} {name}" for sign, name in zip(signs, names, strict=True)).removeprefix("+ ")] = None
    law = {name: rng.dirichlet(np.full(3, 4.0)).tolist() for name in names}
    latent = Vector({name: [-1, 0, 1] for name in names})
    return Problem(latent=latent, arms={f"arm {k}": arm for k, arm in enumerate(arms)}, distribution=law)


FAMILIES: dict[str, Callable[[np.random.Generator, int], Problem]] = {
    "discrete": discrete,
    "continuous": continuous,
    "vector": vector,
}


class Point(NamedTuple):
    """A family at one K: mean regret of each policy, its standard error over problems, and how many arms are competitive."""

    family: str
    arms: int
    problems: int
    competitive: float
    regret: dict[str, float]
    error: dict[str, float]


def measure(family: str, count: int, *, problems: int, horizon: int = HORIZON) -> Point:
    regret, competitive = {policy: list[float]() for policy in POLICIES}, []
    for n in range(problems):
        problem = FAMILIES[family](np.random.default_rng([SEED, n, count]), count)
        found = simulate(problem, policies=POLICIES, horizon=horizon, replications=RUNS, seed=n, checkpoints=[horizon])
        for policy in POLICIES:
            regret[policy].append(float(found.regret(policy)[:, -1].mean()))
        competitive.append(len(analyze(problem).competitive))
    means = {policy: float(np.mean(values)) for policy, values in regret.items()}
    errors = {policy: float(np.std(values, ddof=1)) / problems**0.5 for policy, values in regret.items()}
    return Point(family, count, problems, float(np.mean(competitive)), means, errors)


def exponent(points: list[Point], policy: str) -> float:
    """How regret grows with K from 3 to 300: the slope on log axes."""
    return float(np.polyfit(np.log([p.arms for p in points]), np.log([p.regret[policy] for p in points]), 1)[0])


def table(points: list[Point]) -> str:
    """The measurements as Markdown, and the exponents in a sentence."""
    rows = ["| family | K | competitive arms | UCB1 | C-UCB | C-UCB / UCB1 |", "|---|---|---|---|---|---|"]
    for p in points:
        cells = [f"{short(p.regret[policy])} ± {rough(p.error[policy])}" for policy in POLICIES]
        ratio = p.regret["c-ucb"] / p.regret["ucb1"]
        rows.append(f"| {p.family} | {p.arms} | {p.competitive:.1f} | {' | '.join(cells)} | {ratio:.2f} |")
    growth = []
    for family in FAMILIES:
        mine = [p for p in points if p.family == family]
        growth.append(f"{family} {exponent(mine, 'ucb1'):.2f} and {exponent(mine, 'c-ucb'):.2f}")
    return "\n".join(rows) + f"\n\nExponents of K (UCB1 and C-UCB): {', '.join(growth)}.\n"


def draw(points: list[Point]) -> Figure:
    """A panel per family on log axes: mean regret with 95 % intervals."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained", dpi=130)
    axes: Any = figure.subplots(1, len(FAMILIES))
    for axis, family in zip(axes, FAMILIES, strict=True):
        mine = [p for p in points if p.family == family]
        for policy in POLICIES:
            style = look(policy)
            spread = [1.96 * p.error[policy] for p in mine]
            at = {"x": [p.arms for p in mine], "y": [p.regret[policy] for p in mine], "yerr": spread}
            axis.errorbar(**at, color=style.colour, linestyle=style.dash, linewidth=2, marker="o", markersize=4, label=policy)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(ARMS, [str(count) for count in ARMS])
        axis.minorticks_off()
        axis.set_title(family, fontsize=11)
        axis.set_xlabel("arms K")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"mean regret after {HORIZON:,} rounds")
    axes[0].legend(frameon=False)
    return figure


def with_table(text: str, points: list[Point]) -> str:
    """The page with what stands between its marks replaced."""
    before, _, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE.name}: expected a table between {START.strip()} and {END}")
    return f"{before}{START}{table(points)}{END}{after}"


def load() -> list[Point]:
    return [Point(**row) for row in json.loads(FIGURES.read_text(encoding="utf-8"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from benchmarks/arms.json")
    if not parser.parse_args().page:
        points = []
        for family, count in ((family, count) for family in FAMILIES for count in ARMS):
            points.append(measure(family, count, problems=PROBLEMS[family]))
            print(points[-1], file=sys.stderr, flush=True)
        FIGURES.write_text(json.dumps([point._asdict() for point in points], indent=1) + "\n", encoding="utf-8")
    points = load()
    save(draw(points), FIGURE)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), points), encoding="utf-8")


if __name__ == "__main__":
    main()
