"""The leap engine's time against the horizon and the number of runs, beside the step engine: ``make bench``.

Prints the tables, draws docs/figures/leap.png and, with ``--output FILE``, writes what was measured as JSON. Under two minutes
on two cores.

Claimed: a run of T rounds takes time that grows like a power of log T, because it is cut where other arms are pulled, and those
pulls grow like log T; stepping through it takes time in proportion to T. Both take time in proportion to the number of runs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from headwater.paper import CASES
from headwater.simulation import simulate

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "leap.png"
PROBLEMS = {case.id: case.problem for case in CASES}
RUNS = 200
PATIENCE = 6.0
"""Seconds of processor time that the step engine may take for one measurement."""
SURELY = 10**6
"""Rounds from which on the leap engine's growth is fitted: below, it mostly plays single rounds."""


class Target(NamedTuple):
    """A horizon that ``RUNS`` runs are to reach within some seconds."""

    case: str
    policy: str
    horizon: int
    seconds: float


TARGETS = (
    Target("discrete-1", "c-ucb", 10**10, 1.0),
    Target("discrete-2", "c-ucb", 10**8, 2.0),
    Target("discrete-2", "c-ucb", 10**10, 10.0),
    Target("discrete-1", "ucb1", 10**8, 3.0),
)
SERIES = (("discrete-1", "c-ucb"), ("discrete-2", "c-ucb"), ("discrete-1", "ucb1"))


class Took(NamedTuple):
    """The best of a few runs on all cores, and the least processor time, over all cores: other work hardly changes that."""

    wall: float
    processor: float


def measure(case: str, policy: str, horizon: int, *, engine: str, runs: int = RUNS, repeats: int = 3) -> Took:
    """Simulate ``repeats`` times."""
    _tell(f"{case}, {policy}, {engine}, {horizon:,} rounds, {runs:,} runs …")
    best = Took(math.inf, math.inf)
    for seed in range(repeats):
        start, spent = time.perf_counter(), time.process_time()
        simulate(PROBLEMS[case], policies=[policy], horizon=horizon, replications=runs, seed=seed, engine=engine)
        best = Took(min(best.wall, time.perf_counter() - start), min(best.processor, time.process_time() - spent))
    _tell("")
    return best


def _tell(text: str) -> None:
    print(f"\r{text:<76}" + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


def warm() -> None:
    """Compile, or load what was compiled, for every measurement to come."""
    for case, policy in SERIES:
        for engine in ("step", "leap"):
            measure(case, policy, 1000, engine=engine, runs=4, repeats=1)


def targets() -> list[dict[str, Any]]:
    """Each target beside the best of three."""
    print(f"{RUNS} runs, all cores, best of three")
    print(f"  {'':<24}{'rounds':>16}{'target':>9}{'measured':>12}{'processor':>12}")
    out = []
    for target in TARGETS:
        took = measure(target.case, target.policy, target.horizon, engine="leap")
        met = "" if took.wall <= target.seconds else "   missed"
        name = f"{target.case} {target.policy}"
        print(f"  {name:<24}{target.horizon:>16,}{target.seconds:>7.0f} s{took.wall:>10.2f} s{took.processor:>10.2f} s{met}")
        out.append({"case": target.case, "policy": target.policy, "horizon": target.horizon, "target": target.seconds})
        out[-1] |= {"runs": RUNS, "seconds": took.wall, "processor_seconds": took.processor}
    return out


def against_horizon(case: str, policy: str) -> dict[str, Any]:
    """Processor time at every decade from 10^3 to 10^10; the step engine's as long as it takes ``PATIENCE`` at most."""
    horizons = [10**e for e in range(3, 11)]
    step: list[float] = []
    leap: list[float] = []
    for horizon in horizons:
        if not step or (len(step) == len(leap) and 10 * step[-1] <= PATIENCE):
            step.append(measure(case, policy, horizon, engine="step").processor)
        leap.append(measure(case, policy, horizon, engine="leap", repeats=1 if leap and leap[-1] > 1 else 3).processor)
    power = slope(np.log([h for h in horizons if h >= SURELY]), leap[horizons.index(SURELY) :])
    exponent = slope(horizons[: len(step)][-2:], step[-2:])  # before, starting counts
    print(f"{case} {policy}: leap takes time like (log T)^{power:.2f} from T = {SURELY:,} on, step like T^{exponent:.2f}")
    for n, horizon in enumerate(horizons):
        other = f"{step[n]:10.4f} s" if n < len(step) else f"{'–':>12}"
        print(f"  T = {horizon:>14,}   leap {leap[n]:10.4f} s   step {other}")
    return {
        "case": case,
        "policy": policy,
        "horizons": horizons,
        "leap_seconds": leap,
        "step_seconds": step,
        "power_of_log": power,
        "step_exponent": exponent,
    }


def against_runs(case: str = "discrete-1", policy: str = "c-ucb", horizon: int = 10**10) -> dict[str, Any]:
    """Processor time against the number of runs, over three decades; the first, where starting counts, is not fitted."""
    counts = [30, 300, 3000, 30_000]
    took = [measure(case, policy, horizon, engine="leap", runs=runs).processor for runs in counts]
    exponent = slope(counts[1:], took[1:])
    print(f"{case} {policy}, T = {horizon:,}: leap takes time like runs^{exponent:.2f}")
    for runs, second in zip(counts, took, strict=True):
        print(f"  runs = {runs:>9,}   leap {second:10.4f} s")
    return {"case": case, "policy": policy, "horizon": horizon, "runs": counts, "seconds": took, "exponent": exponent}


def slope(x: Any, y: Any) -> float:
    """The slope on log axes."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def draw(series: list[dict[str, Any]]) -> None:
    figure = Figure(figsize=(7, 4.4), layout="constrained", dpi=130)
    axis: Any = figure.subplots()
    for each, shade, mark in zip(series, ("#D55E00", "#009E73", "#0072B2"), "osD", strict=True):
        name, step = f"{each['case']}, {each['policy']}", each["step_seconds"]
        look: dict[str, Any] = {"color": shade, "marker": mark, "markersize": 5}
        label = f"leap, {name}: ∝ (log T)^{each['power_of_log']:.1f}"
        axis.loglog(each["horizons"], each["leap_seconds"], "-", label=label, **look)
        label = f"step, {name}: ∝ T^{each['step_exponent']:.2f}"
        axis.loglog(each["horizons"][: len(step)], step, "--", fillstyle="none", label=label, **look)
    axis.set(xlabel="rounds T", ylabel=f"processor seconds for {RUNS} runs")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8.5, frameon=False, loc="center right", bbox_to_anchor=(1, 0.46))
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE)
    print(f"The picture is in docs/figures/{FIGURE.name}")


def run() -> dict[str, Any]:
    """Measure and print everything, and draw the picture."""
    warm()
    found: dict[str, Any] = {
        "targets": targets(),
        "horizons": [against_horizon(case, policy) for case, policy in SERIES],
        "runs": against_runs(),
    }
    draw(found["horizons"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, help="write what was measured to this JSON file")
    output: Path | None = parser.parse_args().output
    found = run()
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
