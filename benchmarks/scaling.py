"""Time and memory of an analysis against the number of arms K and of latent values J, on log axes.

Run ``make bench``. Prints the table and the fitted growth, and draws docs/figures/scaling.png.

Claimed: analysing one distribution costs O(K J) time and memory (the table itself, and one row of pseudo-rewards); the full
matrix of expected pseudo-rewards costs O(K² J) time, and no more memory than that.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import headwater as hw

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "scaling.png"


class Point(NamedTuple):
    """One measurement: the best time of three, and the peak of what was allocated."""

    size: int
    seconds: float
    megabytes: float


def measure(arms: int, points: int, *, full: bool) -> tuple[float, float]:
    """Seconds and megabytes to analyse a random table of rewards with two decimals."""
    rng = np.random.default_rng(7)
    g = rng.normal(size=(arms, points)).round(2)
    p = np.full(points, 1 / points)
    best = np.inf
    for _ in range(3):
        problem = _problem(g, p)
        start = time.perf_counter()
        hw.analyze(problem, full=full)
        best = min(best, time.perf_counter() - start)
    tracemalloc.start()
    hw.analyze(_problem(g, p), full=full)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return best, peak / 1e6


def _problem(g: np.ndarray[Any, np.dtype[np.float64]], p: np.ndarray[Any, np.dtype[np.float64]]) -> hw.Problem:
    latent = hw.Discrete(np.arange(float(g.shape[1])))
    return hw.Problem(latent=latent, arms={f"arm {k}": row for k, row in enumerate(g)}, distribution=p)


def exponent(points: list[Point], field: str) -> float:
    """The growth over the upper half of the sizes: the slope on log axes."""
    upper = points[len(points) // 2 :]
    return float(np.polyfit(np.log([p.size for p in upper]), np.log([getattr(p, field) for p in upper]), 1)[0])


def sweep(name: str, pairs: list[tuple[int, int]], *, varies: int, full: bool = False) -> list[Point]:
    """Measure each (K, J); ``varies`` says which of the two the growth is fitted against."""
    points = []
    for pair in pairs:
        print(f"\r{name}: K = {pair[0]}, J = {pair[1]} …", end="", file=sys.stderr, flush=True)
        points.append(Point(pair[varies], *measure(*pair, full=full)))
    print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    seconds, megabytes = exponent(points, "seconds"), exponent(points, "megabytes")
    print(f"{name}: time grows like size^{seconds:.2f}, memory like size^{megabytes:.2f}")
    for (k, j), point in zip(pairs, points, strict=True):
        print(f"  K = {k:>6,}  J = {j:>8,}  {point.seconds:9.4f} s  {point.megabytes:9.1f} MB")
    return points


def draw(series: dict[str, list[Point]]) -> None:
    figure = Figure(figsize=(10, 4), layout="constrained", dpi=110)
    axes: Any = figure.subplots(1, 2)
    for axis, field, label in ((axes[0], "seconds", "seconds"), (axes[1], "megabytes", "megabytes at the peak")):
        for name, points in series.items():
            growth = exponent(points, field)
            y = [getattr(p, field) for p in points]
            axis.loglog([p.size for p in points], y, "o-", label=f"{name}: ∝ size^{growth:.2f}")
        axis.set(xlabel="size", ylabel=label)
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE)
    print(f"The picture is in {FIGURE.relative_to(Path.cwd()) if FIGURE.is_relative_to(Path.cwd()) else FIGURE.name}")


def main() -> None:
    draw(
        {
            "J, at K = 100": sweep("against J", [(100, 10**e) for e in range(2, 6)], varies=1),
            "K, at J = 1,000": sweep("against K", [(k, 1000) for k in (10, 30, 100, 300, 1000, 3000, 10_000)], varies=0),
            "K, full matrix, at J = 1,000": sweep(
                "against K, every observed arm", [(k, 1000) for k in (10, 30, 100, 300)], varies=0, full=True
            ),
        }
    )
    seconds, megabytes = measure(1000, 10_000, full=False)
    print(f"K = 1,000 arms on J = 10,000 points: {seconds:.2f} s, {megabytes:.0f} MB at the peak")


if __name__ == "__main__":
    main()
