"""How fast graves-lai's regret grows in log t between 10^5 and 10^7 rounds, beside the lower bound.

python benchmarks/slope.py --output results/slope.json       # about ten minutes on two cores
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from headwater.paper import CASES
from headwater.regret_bounds import bounds
from headwater.simulation import simulate

FROM, TO = 10**5, 10**7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/slope.json"))
    options = parser.parse_args()
    found = {}
    for case in CASES:
        if case.id.startswith("discrete"):
            run = simulate(
                case.problem,
                policies=["graves-lai"],
                horizon=TO,
                replications=options.runs,
                seed=options.seed,
                checkpoints=[FROM, TO],
            )
            regret = run.regret("graves-lai")
            slope = (regret[:, 1] - regret[:, 0]) / np.log(TO / FROM)
            found[case.problem.name] = {
                "runs": options.runs,
                "regret": regret.mean(axis=0).tolist(),
                "slope": float(slope.mean()),
                "se": float(slope.std(ddof=1) / np.sqrt(options.runs)),
                "bound": bounds(case.problem).graves_lai,
            }
            print(case.problem.name, found[case.problem.name], file=sys.stderr, flush=True)
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
