"""What an audit buys and what it costs: regret when the model is wrong about the best arm, and when it is right, by audit.

    python benchmarks/audit.py --output results/audit.json       # a few minutes on two cores

A wrong model: random rewards whose best arm is, in the model, mixed with its worst outcome until it looks worse than the
second best. Rewards come from the truth; the policy reads the model. A right model: the truth itself, and the paper's listed
cases.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.analysis import analyze
from headwater.arrays import Floats
from headwater.latent import Discrete
from headwater.paper import CASES
from headwater.policies.evidence import evidence_of
from headwater.policies.rules import Spec, make_spec
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import make_model, simulate_counts
from side_by_side import side_by_side

AUDITS = (0.25, 0.5, 1.0, 2.0, 4.0)


def wronged(number: int) -> tuple[Problem, Problem]:
    """A random problem, and a model of it that calls its best arm bad. 2 to 8 arms, 2 to 12 points, 2 to 4 outcomes."""
    rng = np.random.default_rng([97, number])
    count, points, size = int(rng.integers(2, 9)), int(rng.integers(2, 13)), int(rng.integers(2, 5))
    values = np.linspace(0, 1, size)
    truth = [0.98 * rng.dirichlet(np.full(size, 0.6), points) + 0.02 / size for _ in range(count)]
    law = rng.dirichlet(np.ones(points))
    means = np.array([law @ a @ values for a in truth])
    best, second = np.argsort(-means)[:2]
    worst = np.where(np.arange(size) == 0, 0.96, 0.04 / max(size - 1, 1))
    aim = means[second] - max(0.5 * (means[best] - means[second]), 0.05)
    model, share = list(truth), 0.0
    while law @ model[best] @ values >= aim and share < 1:
        share += 0.02
        model[best] = (1 - share) * truth[best] + share * worst

    def build(channels: list[Floats]) -> Problem:
        arms = {
            f"arm {k}": {"outcomes": values.tolist(), "probabilities": (a / a.sum(axis=1, keepdims=True)).tolist()}
            for k, a in enumerate(channels)
        }
        return Problem(latent=Discrete([f"x{j}" for j in range(points)]), arms=arms, distribution=law.tolist())

    return build(truth), build(model)


class Job(NamedTuple):
    """One problem that is believed to be ``model``, and who plays it."""

    kind: str
    name: str
    truth: Problem
    model: Problem
    specs: dict[str, Spec]
    horizon: int
    runs: int


def measure(job: Job) -> dict[str, Any]:
    """Mean regrets; of UCB1, too, where the model is wrong."""
    specs = {"ucb1": make_spec("ucb1"), **job.specs} if job.kind == "wrong" else job.specs
    regrets = {title: float(regret(job, spec).mean()) for title, spec in specs.items()}
    return {"problem": job.name, **regrets}


def regret(job: Job, spec: Spec) -> Floats:
    """Regret at the horizon (runs,) of a policy that believes ``model`` while ``truth`` pays."""
    truth, model = job.truth, job.model
    assert truth.distribution is not None
    atoms = atoms_of(truth, truth.distribution)
    laid = make_model(atoms, scale=model_of(truth).reward_range, evidence=evidence_of(model))
    counts = simulate_counts(laid, spec, checkpoints=np.array([job.horizon]), replications=job.runs, seed=7, threads=1)
    gap = analyze(truth).gap
    assert gap is not None
    return np.asarray(counts.pulls[:, -1] @ gap)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--first", type=int, default=16, help="on 0 to 15 release 0.1's default was chosen")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--horizon", type=int, default=50_000)
    parser.add_argument("--policies", nargs="+", default=["joint-ucb"])
    parser.add_argument("--audits", nargs="+", type=float, default=list(AUDITS))
    parser.add_argument("--guard", type=float, default=0.001)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("results/audit.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {"horizon": options.horizon, "runs": options.runs, "guard": options.guard, "wrong": [], "right": []}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    cases = [(case.id, case.problem, case.problem) for case in CASES if case.id.startswith(("discrete", "vector"))]
    pairs = [(f"random {i}", *wronged(i)) for i in range(options.first, options.first + options.problems)]
    todo = [("right", *case) for case in cases]
    for name, truth, model in pairs:
        todo += [("wrong", name, truth, model), ("right", name, truth, truth)]
    sets: list[tuple[str, dict[str, Any]]] = [("trusting", {"guard": 0.0, "audit": 0.0})]
    sets += [(f"{audit:g}", {"guard": options.guard, "audit": audit}) for audit in options.audits]
    sets += [("late", {"guard": options.guard, "audited": "open-arms", "schedule": "late"})]
    specs = {f"{policy} {title}": make_spec(policy, **knobs) for policy in options.policies for title, knobs in sets}
    jobs = [Job(kind, name, truth, model, specs, options.horizon, options.runs) for kind, name, truth, model in todo]
    for job, row in zip(jobs, side_by_side(measure, jobs, options.processes), strict=True):
        found[job.kind].append(row)
        options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")
        shown = {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}
        print(job.kind, json.dumps(shown), file=sys.stderr, flush=True)
    print(json.dumps(summary(found), indent=1))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Against UCB1 when wrong (ratio of mean regrets, and the worst ratio); against trusting the model when right."""
    out: dict[str, Any] = {}
    for key in found["right"][0]:
        if key != "problem":
            base = key.split(" ")[0] + " trusting"
            out[key] = {"right": float(np.sum([r[key] for r in found["right"]]) / np.sum([r[base] for r in found["right"]]))}
            if found["wrong"]:
                ratios = [r[key] / r["ucb1"] for r in found["wrong"]]
                total = np.sum([r[key] for r in found["wrong"]]) / np.sum([r["ucb1"] for r in found["wrong"]])
                out[key] |= {"wrong": float(total), "wrong_mean_ratio": float(np.mean(ratios)), "wrong_worst": max(ratios)}
    return out


if __name__ == "__main__":
    main()
