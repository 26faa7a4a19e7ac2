"""What a policy loses that believes a wrong table, beside UCB1, which believes none: 176 random models with 1 to 3 wrong cells.

    python benchmarks/wrong_models.py --output results/wrong.json        # some minutes on two cores
    python benchmarks/wrong_models.py --processes 16 --policies joint-ucb joint-ucb:audit=0,guard=0

Even numbers have deterministic rewards, odd ones random rewards. A model is *misleading* if, told the true law of X, it calls
an arm best that is not; half of those here are chosen to be. Rewards come from the truth; the policy reads the model. UCB1's
regret is floored at its median over all models, so that a ratio says something where UCB1 has next to none. *Rising*: the ratio
at the horizon is above 2, and above what it was at half the horizon.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.analysis import analyze
from headwater.arrays import Floats
from headwater.latent import Discrete
from headwater.policies.auto import spec_for
from headwater.policies.evidence import evidence_of
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import make_model, simulate_counts
from side_by_side import side_by_side

NAMES = ("joint-ucb", "latent-ts", "graves-lai")
POLICIES = (*NAMES, *(f"{name}:audited=open-arms,schedule=late" for name in NAMES))
"""With today's defaults, and with release 0.1's."""
HORIZON = 30_000
MODELS = 176


class Pair(NamedTuple):
    """What pays, and what the policy believes."""

    name: str
    truth: Problem
    model: Problem


def _build(arms: list[Any], law: Floats) -> Problem:
    latent = Discrete([f"x{j}" for j in range(len(law))])
    return Problem(latent=latent, arms={f"arm {k}": arm for k, arm in enumerate(arms)}, distribution=law.tolist())


def _known(rng: np.random.Generator, arms: int, points: int, wrong: int) -> tuple[list[Any], list[Any]]:
    """Tables of deterministic rewards: the truth's are among the model's, so that no reward alone gives it away."""
    values = [np.sort(rng.choice(21, int(rng.integers(2, 5)), replace=False)) / 20 for _ in range(arms)]
    model = [value[rng.integers(0, len(value), points)] for value in values]
    truth = [row.copy() for row in model]
    for _ in range(wrong):
        k, j = int(rng.integers(arms)), int(rng.integers(points))
        truth[k][j] = rng.choice(model[k])
    return [row.tolist() for row in truth], [row.tolist() for row in model]


def _chance(rng: np.random.Generator, arms: int, points: int, wrong: int) -> tuple[list[Any], list[Any]]:
    """Channels, no outcome of which is impossible."""
    size = int(rng.integers(2, 5))

    def draw() -> Floats:
        return np.asarray(0.98 * rng.dirichlet(np.full(size, 0.6)) + 0.02 / size)

    model = [np.stack([draw() for _ in range(points)]) for _ in range(arms)]
    truth = [row.copy() for row in model]
    for _ in range(wrong):
        truth[int(rng.integers(arms))][int(rng.integers(points))] = draw()
    values = np.linspace(0, 1, size).tolist()
    told = [[{"outcomes": values, "probabilities": row.tolist()} for row in some] for some in (truth, model)]
    return told[0], told[1]


def issue() -> Pair:
    """A model that calls the best arm never best, whatever X is."""
    law = np.array([0.294, 0.618, 0.088])
    return Pair("u and v", _build([[3, 1, 1], [3, 3, 0]], law), _build([[3, 3, 1], [3, 0, 0]], law))


def wrong_models(number: int) -> Iterator[Pair]:
    """The first ``number`` models: 2 to 8 arms, 2 to 12 values of X, 1 to 3 wrong cells."""
    yield issue()
    found = 1
    for seed in count():
        if found == number:
            return
        rng = np.random.default_rng([176, seed])
        arms, points, wrong = int(rng.integers(2, 9)), int(rng.integers(2, 13)), int(rng.integers(1, 4))
        truth, model = (_known if found % 2 == 0 else _chance)(rng, arms, points, wrong)
        law = rng.dirichlet(np.ones(points))
        pair = Pair(f"model {found}", _build(truth, law), _build(model, law))
        gap, believed = analyze(pair.truth).gap, analyze(pair.model).k_star
        assert gap is not None
        misleading = gap[believed] > 1e-9
        if gap.max() > 1e-9 and (misleading or found % 4 < 2):
            found += 1
            yield pair


def regret(pair: Pair, policy: str, horizon: int, runs: int) -> Floats:
    """Mean regret at half the horizon and at the horizon (2,)."""
    truth, model = pair.truth, pair.model
    assert truth.distribution is not None
    spec = spec_for(policy, model)
    laid = make_model(
        atoms_of(truth, truth.distribution),
        scale=model_of(model).reward_range,
        evidence=evidence_of(model) if spec.learns else None,
    )
    rounds = np.array([horizon // 2, horizon])
    counts = simulate_counts(laid, spec, checkpoints=rounds, replications=runs, seed=11, threads=1)
    gap = analyze(truth).gap
    assert gap is not None
    return np.asarray((counts.pulls @ gap).mean(axis=0))


def _measure(job: tuple[Pair, tuple[str, ...], int, int]) -> dict[str, Any]:
    pair, policies, horizon, runs = job
    return {"model": pair.name, **{policy: regret(pair, policy, horizon, runs).tolist() for policy in ("ucb1", *policies)}}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all models, each policy's ratios to UCB1's floored regret."""
    out = {}
    floor = np.median([row["ucb1"] for row in rows], axis=0)
    for policy in rows[0]:
        if policy not in ("model", "ucb1"):
            ratio = np.array([np.array(row[policy]) / np.maximum(row["ucb1"], floor) for row in rows])
            worst = int(np.argmax(ratio[:, 1]))
            out[policy] = {
                "mean": float(ratio[:, 1].mean()),
                "worst": float(ratio[worst, 1]),
                "worst_model": rows[worst]["model"],
                "above_2": int((ratio[:, 1] > 2).sum()),
                "above_2_and_rising": int(((ratio[:, 1] > 2) & (ratio[:, 1] > ratio[:, 0])).sum()),
                "ratios": sorted(ratio[:, 1].round(2).tolist())[-5:],
            }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--horizon", type=int, default=HORIZON)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    jobs = [(pair, tuple(options.policies), options.horizon, options.runs) for pair in wrong_models(options.models)]
    rows = []
    for row in side_by_side(_measure, jobs, options.processes):
        rows.append(row)
        shown = {key: value if key == "model" else np.round(value, 1).tolist() for key, value in row.items()}
        print(json.dumps(shown), file=sys.stderr, flush=True)
    found = {
        "horizon": options.horizon,
        "runs": options.runs,
        "floor": float(np.median([r["ucb1"][1] for r in rows])),
        "summary": summary(rows),
        "rows": rows,
    }
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(json.dumps(found["summary"], indent=1))


if __name__ == "__main__":
    main()
