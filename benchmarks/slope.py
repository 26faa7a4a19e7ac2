"""How fast graves-lai's regret grows in log t between 10^5 and 10^7 rounds, beside the lower bound.

python benchmarks/slope.py --output results/slope.json       # a few minutes on two cores
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from headwater.paper import CASES
from headwater.policies.rules import parse_spec
from headwater.regret_bounds import bounds
from headwater.simulation import simulate

FROM, TO = 10**5, 10**7
MEASURED = ("discrete", "vector-2")
"""How the cases begin: two of the four have a bound of 0."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=["graves-lai", "graves-lai:audit=0"])
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/slope.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    if options.output.exists():  # policies measured before stay
        found = json.loads(options.output.read_text(encoding="utf-8"))
    for case in CASES:
        for spec in map(parse_spec, options.policies) if case.id.startswith(MEASURED) else ():
            run = simulate(
                case.problem,
                policies=[spec],
                horizon=TO,
                replications=options.runs,
                seed=options.seed,
                checkpoints=[FROM, TO],
            )
            regret = run.regret(spec.title)
            slope = (regret[:, 1] - regret[:, 0]) / np.log(TO / FROM)
            row = {
                "regret": regret.mean(axis=0).tolist(),
                "slope": float(slope.mean()),
                "se": float(slope.std(ddof=1) / np.sqrt(options.runs)),
            }
            entry = found.setdefault(case.problem.name, {"policies": {}})
            entry |= {"runs": options.runs, "bound": bounds(case.problem).graves_lai}
            entry["policies"][spec.title] = row
            print(case.problem.name, spec.title, row, file=sys.stderr, flush=True)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
