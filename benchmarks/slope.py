"""How fast graves-lai's regret grows in log t between 10^5 and 10^7 rounds, beside the lower bound.

python benchmarks/slope.py --output results/slope.json       # a few minutes on two cores
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.paper import CASES, Case
from headwater.policies.rules import Spec, parse_spec
from headwater.regret_bounds import bounds
from headwater.simulation import simulate
from side_by_side import side_by_side

FROM, TO = 10**5, 10**7
MEASURED = ("discrete", "vector-2")
"""How the cases begin: two of the four have a bound of 0."""


class Job(NamedTuple):
    """One policy on one of the paper's cases."""

    case: Case
    spec: Spec
    runs: int
    seed: int
    ends: tuple[int, int]


def measure(job: Job) -> dict[str, Any]:
    """Mean regret at both ends, and its growth between them in log t."""
    run = simulate(
        job.case.problem,
        policies=[job.spec],
        horizon=job.ends[1],
        replications=job.runs,
        seed=job.seed,
        checkpoints=list(job.ends),
        threads=1,
    )
    regret = run.regret(job.spec.title)
    slope = (regret[:, 1] - regret[:, 0]) / np.log(job.ends[1] / job.ends[0])
    spread = float(slope.std(ddof=1) / np.sqrt(job.runs))
    return {"regret": regret.mean(axis=0).tolist(), "slope": float(slope.mean()), "se": spread}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=["graves-lai", "graves-lai:audit=0"])
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("results/slope.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.output.exists():  # policies measured before stay
        found = json.loads(options.output.read_text(encoding="utf-8"))
    cases = [case for case in CASES if case.id.startswith(MEASURED)]
    specs = [parse_spec(text) for text in options.policies]
    jobs = [Job(case, spec, options.runs, options.seed, (FROM, TO)) for case in cases for spec in specs]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for job, row in zip(jobs, side_by_side(measure, jobs, options.processes), strict=True):
        entry = found.setdefault(job.case.problem.name, {"policies": {}})
        entry |= {"runs": options.runs, "bound": bounds(job.case.problem).graves_lai}
        entry["policies"][job.spec.title] = row
        print(job.case.problem.name, job.spec.title, row, file=sys.stderr, flush=True)
        options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
