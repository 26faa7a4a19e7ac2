"""What a policy loses that lives on a fit of rare clicks: ten arms, the best of which had none in the log.

    python benchmarks/learned_from_nothing.py --write        # docs/fit.md; about ten minutes on two cores

Nine arms are clicked in 0.5 %, one in 1 % of all showings. The control group saw each 300 times, in three segments that make no
difference, and never clicked the best. Beside the policies that live on the fit: Thompson sampling from the log's own clicks,
and giving arms out by lot.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import headwater as hw
from headwater.arrays import Floats, Ints
from headwater.policies.auto import spec_for
from headwater.policies.evidence import evidence_of
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import make_model, simulate_counts
from side_by_side import side_by_side

ARMS, SHOWN, BEST, SEGMENTS = 10, 300, 7, 3
RATES = np.where(np.arange(ARMS) == BEST, 0.010, 0.005)
POLICIES = ("auto", "latent-ts", "graves-lai", "c-kl-ucb", "c-ts:posterior=beta")
PAGE = Path(__file__).parent.parent / "docs" / "fit.md"
START, END = "<!-- learned from nothing -->\n", "<!-- end of learned from nothing -->"


class Log(NamedTuple):
    """A control group: clicks of every arm's showings (K, SHOWN), and the segments (K, SHOWN)."""

    clicks: Ints
    segments: Ints


def control(run: int) -> Log:
    """The log of a run; the best arm's showings are without a click, some other's are not."""
    rng = np.random.default_rng([3, run])
    clicks = (rng.random((ARMS, SHOWN)) < RATES[:, None]).astype(np.int64)
    clicks[BEST] = 0
    clicks[0, 0] = max(clicks[0, 0], int(not clicks.any()))
    return Log(clicks, rng.integers(0, SEGMENTS, (ARMS, SHOWN)))


def learn(log: Log) -> Problem:
    names = np.repeat([f"arm {k}" for k in range(ARMS)], SHOWN)
    columns = {"arm": names, "click": log.clicks.ravel(), "segment": [f"kind {j}" for j in log.segments.ravel()]}
    return hw.fit(columns, arm="arm", reward="click", segment="segment").problem


def lost(learned: Problem, policy: str, horizon: int, run: int) -> float:
    """Regret of a policy that believes ``learned``."""
    spec = spec_for(policy, learned)
    arms = {f"arm {k}": {"outcomes": [0, 1], "probabilities": [[1 - p, p]] * SEGMENTS} for k, p in enumerate(RATES)}
    truth = Problem(latent=learned.latent, arms=arms, distribution=[1 / SEGMENTS] * SEGMENTS)
    assert truth.distribution is not None
    evidence = evidence_of(learned) if spec.learns else None
    laid = make_model(atoms_of(truth, truth.distribution), scale=model_of(learned).reward_range, evidence=evidence)
    found = simulate_counts(laid, spec, checkpoints=np.array([horizon]), replications=1, first=run, seed=9, threads=1)
    return float(found.pulls[0, -1] @ (RATES.max() - RATES))


def thompson(log: Log, horizon: int, run: int) -> float:
    """Regret of Thompson sampling whose Beta posteriors start from the log."""
    rng = np.random.default_rng([4, run])
    ones, zeros = 1.0 + log.clicks.sum(axis=1), 1.0 + SHOWN - log.clicks.sum(axis=1)
    total = 0.0
    for _ in range(horizon):
        k = int(np.argmax(rng.beta(ones, zeros)))
        clicked = rng.random() < RATES[k]
        ones[k] += clicked
        zeros[k] += not clicked
        total += RATES.max() - RATES[k]
    return total


def measure(job: tuple[int, int, tuple[str, ...]]) -> Floats:
    """A run: Thompson sampling from the log, then every policy."""
    run, horizon, policies = job
    log = control(run)
    learned = learn(log)
    return np.array([thompson(log, horizon, run), *(lost(learned, policy, horizon, run) for policy in policies)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table into docs/fit.md")
    options = parser.parse_args()
    jobs = [(run, options.horizon, tuple(options.policies)) for run in range(options.runs)]
    found = []
    for row in side_by_side(measure, jobs, options.processes):
        found.append(row)
        print(np.round(row).astype(int).tolist(), file=sys.stderr, flush=True)
    losses = np.array(found)
    names = ["Thompson sampling from the log", *(f"`{policy}`" for policy in options.policies)]
    uniform = options.horizon * float((RATES.max() - RATES).mean())
    lines = [f"| | regret after {options.horizon:,} rounds, {options.runs} runs | most |", "|---|---:|---:|"]
    for name, column in zip(names, losses.T, strict=True):
        spread = column.std(ddof=1) / np.sqrt(len(column)) if len(column) > 1 else 0.0
        lines.append(f"| {name} | {column.mean():.0f} ± {spread:.0f} | {column.max():.0f} |")
    table = "\n".join([*lines, f"| by lot | {uniform:.0f} | {uniform:.0f} |"]) + "\n"
    print(table)
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        PAGE.write_text(before + START + table + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
