"""Time and memory of simulation and live decisions against the number of arms K, of latent values J, and of runs.

Every size is measured in a process of its own, whose peak memory is that of everything: Python, the rewards, the problem, the
tables, six policies simulated and one asked live. Times are of the processor, one thread, compiled code cached, best of
three; a simulation is 100,000 + 30 K rounds of ucb1 and c-ucb, 10,000 + 3 K of the others.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import headwater as hw
from headwater.policies import make_policy, table
from headwater.simulation import simulate

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "many.png"
POLICIES = ("ucb1", "c-ucb", "kl-ucb", "c-kl-ucb", "ts", "c-ts")
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
Row = dict[str, Any]


def rewards(arms: int, points: int, decimals: int | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Arms of different means, a row at a time; read-only, so that the problem need not copy them."""
    rng = np.random.default_rng(7)
    g = np.empty((arms, points))
    for k in range(arms):
        g[k] = 0.3 * rng.normal(size=points) + rng.random()
        if decimals is not None:
            g[k] = g[k].round(decimals)
    g.setflags(write=False)
    return g


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def best(work: Callable[[], object]) -> float:
    """Of three, or of one that takes long."""
    first = timed(work)
    return first if first > 3 else min(first, timed(work), timed(work))


def measure(arms: int, points: int, decimals: int | None) -> Row:
    """In this process: seconds to build, seconds a round, megabytes at the peak."""
    g = rewards(arms, points, decimals)
    law = np.random.default_rng(8).dirichlet(np.ones(points))
    latent = hw.Discrete(np.arange(float(points)))
    start = time.process_time()
    problem = hw.Problem(latent=latent, arms={f"arm {k}": row for k, row in enumerate(g)}, distribution=law)
    columns = table.table_of(problem).columns is not None
    make_policy("ucb1", problem)  # the tables
    out: Row = {"K": arms, "J": points, "columns": columns, "build": time.process_time() - start}
    for name in POLICIES:
        horizon = 100_000 + 30 * arms if name in ("ucb1", "c-ucb") else 10_000 + 3 * arms
        short, long = (best(partial(play, problem, name, t)) for t in (1, horizon))
        out[name] = max(long - short, 1e-9) / horizon  # less what does not depend on the horizon
    out["live"] = live(problem, law)
    out["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return out


def play(problem: hw.Problem, name: str, horizon: int) -> None:
    simulate(problem, policies=[name], horizon=horizon, replications=1, threads=1, seed=1, checkpoints=[horizon], engine="step")


def live(problem: hw.Problem, law: np.ndarray[Any, np.dtype[np.float64]], rounds: int = 3000) -> float:
    """Seconds for one select and one update of c-ucb."""
    policy, number = make_policy("c-ucb", problem), {name: k for k, name in enumerate(problem.names)}
    drawn = np.random.default_rng(9).choice(len(law), rounds, p=law).tolist()
    policy.update(policy.select(), float(problem.rewards[0, 0]))  # compiles

    def ask_and_tell() -> None:
        for j in drawn:
            arm = policy.select()
            policy.update(arm, float(problem.rewards[number[arm], j]))

    return timed(ask_and_tell) / rounds


def apart(arms: int, points: int, decimals: int | None) -> Row:
    """``measure`` in a process of its own."""
    print(f"\rK = {arms:,}, J = {points:,} …          ", end="", file=sys.stderr, flush=True)
    words = [sys.executable, __file__, str(arms), str(points), "-" if decimals is None else str(decimals)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    print("\r" + " " * 50 + "\r", end="", file=sys.stderr)
    found: Row = json.loads(done.stdout)
    return found


def growth(rows: list[Row], size: str, field: str) -> float:
    """The slope on log axes, over all sizes."""
    x, y = (np.log([row[key] for row in rows]) for key in (size, field))
    return float(np.polyfit(x, y, 1)[0])


def show(title: str, rows: list[Row], size: str | None = None) -> None:
    heads = "".join(f"{name:>10}" for name in POLICIES)
    print(f"{title}\n       K       J  peak, MB  build, s{heads}  live c-ucb   microseconds a round")
    for row in rows:
        cells = "".join(f"{1e6 * row[name]:>10.2f}" for name in (*POLICIES, "live"))
        print(f"  {row['K']:>6,}  {row['J']:>6,}  {row['peak']:>8,.0f}  {row['build']:>8.2f}{cells}")
    if size is not None:
        cells = "".join(f"{growth(rows, size, name):>10.2f}" for name in (*POLICIES, "live"))
        print(f"  time a round grows like {size} to the power of …  {cells}")


def runs() -> list[tuple[int, float]]:
    """Seconds of the stepwise engine against the number of runs."""
    g = rewards(30, 50, 2)
    problem = hw.Problem(
        latent=hw.Discrete(np.arange(50.0)), arms={f"arm {k}": r for k, r in enumerate(g)}, distribution=np.full(50, 0.02)
    )
    out = []
    for count in (30, 300, 3000, 30_000):

        def run(count: int = count) -> None:
            simulate(
                problem, policies=["c-ucb"], horizon=1000, replications=count, threads=1, checkpoints=[1000], engine="step"
            )

        run()
        out.append((count, timed(run)))
    return out


def draw(series: dict[str, list[Row]]) -> None:
    figure = Figure(figsize=(10, 4), layout="constrained", dpi=110)
    axes: Any = figure.subplots(1, 2, sharey=True)
    for axis, (size, rows) in zip(axes, series.items(), strict=True):
        for name in POLICIES:
            y = [1e6 * row[name] for row in rows]
            label = f"{name}: ∝ {size}^{growth(rows, size, name):.2f}"
            axis.loglog([row[size] for row in rows], y, "o-", label=label, markersize=4)
        other = "J" if size == "K" else "K"
        axis.set(xlabel=f"{size}, at {other} = {rows[0][other]:,}", ylabel="microseconds a round")
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE)


def main() -> None:
    against = {
        "K": [apart(k, 1000, 2) for k in SIZES],
        "J": [apart(1000, j, 2) for j in SIZES],
    }
    show("Against the number of arms, rewards of two decimals", against["K"], "K")
    show("Against the number of latent values, rewards of two decimals", against["J"], "J")
    show("10,000 arms on 10,000 values, rewards of two decimals", [apart(10_000, 10_000, 2)])
    show("10,000 arms on 10,000 values, no two rewards of an arm equal", [apart(10_000, 10_000, None)])
    timings = runs()
    slope = np.polyfit(np.log([n for n, _ in timings]), np.log([s for _, s in timings]), 1)[0]
    print(f"c-ucb, K = 30, J = 50, 1,000 rounds: stepping takes time like runs^{slope:.2f}")
    for count, seconds in timings:
        print(f"  runs = {count:>6,}  {seconds:8.4f} s")
    draw(against)
    print("The picture is in docs/figures/many.png")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), None if sys.argv[3] == "-" else int(sys.argv[3]))))
    else:
        main()
