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
from pathlib import Path
from typing import Any

import numpy as np

from headwater.latent import Discrete
from headwater.paper import CASES
from headwater.policies.rules import Spec, parse_spec
from headwater.problem import Problem
from headwater.simulation import simulate

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


def measure(problem: Problem, specs: list[Spec], horizon: int, runs: int, seed: int, threads: int | None) -> dict[str, Any]:
    """Mean regret, standard error, 99th percentile and the paired difference to the first policy, by title."""
    out: dict[str, Any] = {}
    first: Any = None
    for spec in specs:
        start = time.perf_counter()
        run = simulate(
            problem, policies=[spec], horizon=horizon, replications=runs, seed=seed, checkpoints=[horizon], threads=threads
        )
        regret = run.regret(spec.title)[:, -1]
        first = regret if first is None else first
        difference = regret - first
        out[spec.title] = {
            "mean": float(regret.mean()),
            "se": float(regret.std(ddof=1) / np.sqrt(runs)),
            "p99": float(np.quantile(regret, 0.99)),
            "difference": float(difference.mean()),
            "difference_se": float(difference.std(ddof=1) / np.sqrt(runs)),
            "seconds": time.perf_counter() - start,
        }
    return out


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
    for problem, horizon, runs in jobs:
        if time.monotonic() - begun > options.limit:
            break
        entry = found.get(problem.name, {"horizon": horizon, "policies": {}})
        before = entry["policies"]
        done = entry["horizon"] == horizon and all(before.get(spec.title, {}).get("runs") == runs for spec in specs)
        if options.resume and done:
            continue
        rows = measure(problem, specs, horizon, runs, 2026, options.threads)
        for row in rows.values():
            row["runs"] = runs
        found[problem.name] = {"horizon": horizon, "policies": {**before, **rows}}
        options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")
        shown = "  ".join(f"{title} {row['mean']:.1f}±{row['se']:.1f} ({row['seconds']:.0f}s)" for title, row in rows.items())
        print(f"{problem.name}: {shown}", file=sys.stderr, flush=True)
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
