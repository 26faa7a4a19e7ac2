"""Which policy should a newcomer get? Every policy on the paper's listed cases and on 100 random problems, in one table.

    make tournament                                        # all of docs/tournament.md: over an hour on two cores
    make tournament RESUME=--resume                        # where it was interrupted
    python benchmarks/tournament.py --problems 10 --runs 40 --horizon 2000     # a taste

Regret is compared with C-UCB's on the same draws. "Worse" counts problems on which the mean is above C-UCB's by more than 3
standard errors of the paired difference.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.latent import Discrete
from headwater.paper import CASES
from headwater.policies.rules import Spec, parse_spec
from headwater.problem import Problem
from headwater.simulation import simulate
from side_by_side import side_by_side

POLICIES = ("c-ucb", "ucb1", "c-ts", "c-ts:sd=estimated", "joint-ucb", "latent-ts", "graves-lai")


def random_problem(number: int) -> Problem:
    """Number 0, 2, ... deterministic, 1, 3, ... random rewards; 2 to 20 arms, 2 to 50 points, 2 to 5 rewards an arm."""
    rng = np.random.default_rng([2026, number])
    count, points = int(rng.integers(2, 21)), int(rng.integers(2, 51))
    arms: dict[str, Any] = {}
    for k in range(count):
        size = int(rng.integers(2, 6))
        values = np.sort(rng.choice(np.arange(21), size, replace=False)) / 20
        if number % 2:
            arms[f"arm {k}"] = {
                "outcomes": values.tolist(),
                "probabilities": rng.dirichlet(np.full(size, 0.5), points).tolist(),
            }
        else:
            arms[f"arm {k}"] = values[rng.integers(0, size, points)].tolist()
    law = rng.dirichlet(np.ones(points)).tolist()
    return Problem(latent=Discrete([f"x{j}" for j in range(points)]), arms=arms, distribution=law, name=f"random {number}")


class Job(NamedTuple):
    """One policy on one problem."""

    problem: Problem
    spec: Spec
    horizon: int
    runs: int
    threads: int | None
    seed: int = 2026


def measure(job: Job) -> tuple[Floats, float]:
    """Regret at the horizon (runs,), and the seconds that took."""
    start = time.perf_counter()
    run = simulate(
        job.problem,
        policies=[job.spec],
        horizon=job.horizon,
        replications=job.runs,
        seed=job.seed,
        checkpoints=[job.horizon],
        threads=job.threads,
    )
    return run.regret(job.spec.title)[:, -1], time.perf_counter() - start


def rows_of(found: list[tuple[Floats, float]]) -> list[dict[str, float]]:
    """Of policies on one problem: mean regret, standard error, 99th percentile, the paired difference to the first policy."""
    first = found[0][0]
    return [
        {
            "mean": float(regret.mean()),
            "se": float(regret.std(ddof=1) / np.sqrt(len(regret))),
            "p99": float(np.quantile(regret, 0.99)),
            "difference": float((regret - first).mean()),
            "difference_se": float((regret - first).std(ddof=1) / np.sqrt(len(regret))),
            "seconds": seconds,
            "runs": len(regret),
        }
        for regret, seconds in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--horizon", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--panel-runs", type=int, default=1000)
    parser.add_argument("--panel-horizon", type=int, default=50_000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--processes", type=int, default=1, help="policies and problems side by side, a thread each")
    parser.add_argument("--cases", nargs="+", default=["discrete", "vector"], help="how the paper's cases to run begin")
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no new problem is begun")
    parser.add_argument("--resume", action="store_true", help="leave alone what the output holds already")
    parser.add_argument("--output", type=Path, default=Path("results/tournament.json"))
    options = parser.parse_args()
    specs = [parse_spec(text) for text in options.policies]
    begun, found = time.monotonic(), dict[str, Any]()
    panels = [case.problem for case in CASES if case.id.startswith(tuple(options.cases))] if options.panel_runs else []
    jobs = [(p, options.panel_horizon, options.panel_runs) for p in panels]
    jobs += [(random_problem(i), options.horizon, options.runs) for i in range(options.first, options.first + options.problems)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if options.output.exists():  # policies measured before, on the same draws, stay
        found = json.loads(options.output.read_text(encoding="utf-8"))
    todo = []
    for problem, horizon, runs in jobs:
        entry = found.setdefault(problem.name, {"horizon": horizon, "policies": {}})
        before = entry["policies"]
        done = entry["horizon"] == horizon and all(before.get(spec.title, {}).get("runs") == runs for spec in specs)
        if not (options.resume and done):
            todo.append((problem, horizon, runs))
    threads = 1 if options.processes > 1 else options.threads
    parts = [Job(problem, spec, horizon, runs, threads) for problem, horizon, runs in todo for spec in specs]
    measured = side_by_side(measure, parts, options.processes)
    for problem, horizon, _ in todo:
        if time.monotonic() - begun > options.limit:
            break
        rows = dict(zip([spec.title for spec in specs], rows_of(list(islice(measured, len(specs)))), strict=True))
        found[problem.name] = {"horizon": horizon, "policies": {**found[problem.name]["policies"], **rows}}
        whole = {name: entry for name, entry in found.items() if entry["policies"]}
        options.output.write_text(json.dumps(whole, indent=1), encoding="utf-8")
        shown = "  ".join(f"{title} {row['mean']:.1f}±{row['se']:.1f} ({row['seconds']:.0f}s)" for title, row in rows.items())
        print(f"{problem.name}: {shown}", file=sys.stderr, flush=True)
    found = {name: entry for name, entry in found.items() if entry["policies"]}
    print(json.dumps(summary(found), indent=1))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """For each policy that played all random problems: the geometric mean of its ratio to the first, how often it is worse."""
    random = [entry["policies"] for name, entry in found.items() if name.startswith("random")]
    titles = [title for title in next(iter(found.values()))["policies"] if all(title in rows for rows in random)]
    out = {}
    for title in titles:
        ratio = [(rows[title]["mean"] + 0.1) / (rows[titles[0]]["mean"] + 0.1) for rows in random]
        worse = [rows[title]["difference"] > 3 * rows[title]["difference_se"] for rows in random]
        out[title] = {
            "geometric_mean_ratio": float(np.exp(np.mean(np.log(ratio)))) if ratio else None,
            "mean_regret": float(np.mean([rows[title]["mean"] for rows in random])) if ratio else None,
            "worse": int(np.sum(worse)),
            "worst_ratio": max(ratio, default=None),
        }
    return out


if __name__ == "__main__":
    main()
