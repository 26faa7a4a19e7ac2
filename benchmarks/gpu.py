"""The GPU engine on a real GPU: is it equal to the CPU engine, and how fast is it beside it?

``python benchmarks/gpu.py --output benchmarks/gpu.json`` checks, measures, and writes what it found as JSON; then
``python benchmarks/gpu_page.py`` writes it into docs/gpu.md. Exit status 1 where a check fails. About three minutes on an H200.
``--quick`` is a smoke test, also with ``HEADWATER_GPU=emulated``. ``--only targets`` measures the rows that have a target, and
prints how near they are; ``--set NAME=VALUE`` changes a knob of headwater.simulation.cuda first (BATCH, PLACES, FEW_ARMS, OWN).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.latent import Discrete
from headwater.paper import CASES
from headwater.policies import Spec, make_spec
from headwater.policies.evidence import evidence_of
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.simulation import cuda, gpu_driver
from headwater.simulation.atoms import atoms_of
from headwater.simulation.cuda import Run, cuda_reason, missing_gpu, simulate_counts_cuda, stretch
from headwater.simulation.engine import Counts, Model, make_model, oracle_rewards, simulate_counts

SEED = 20_261_116
OTHERS = (
    *(make_spec(name) for name in ("ts", "c-ts", "kl-ucb", "c-kl-ucb", "uniform", "epsilon-greedy")),
    make_spec("c-ts", posterior="beta"),
    make_spec("c-ts", sd="estimated"),
    make_spec("kl-ucb", form="empirical"),
    make_spec("c-ucb", reference="well-pulled"),
    make_spec("c-ucb", audit=1.0),
    *(make_spec(name) for name in ("joint-ucb", "latent-ts", "graves-lai")),
)


class Sizes(NamedTuple):
    """How much of everything."""

    horizon: int
    replications: int  # of a check
    random: int  # problems
    many: int  # replications to measure at
    slow: int  # and of rules that take logarithms
    counts: tuple[int, ...]  # replications, horizons and arms to measure growth over
    horizons: tuple[int, ...]
    arms: tuple[int, ...]
    work: int  # rounds x arms of one measurement against the number of arms
    second: float  # how long the CPU is measured
    repeats: int


FULL = Sizes(
    horizon=10_000,
    replications=4_096,
    random=12,
    many=2**21,
    slow=2**17,
    counts=tuple(2**e for e in range(11, 22)),
    horizons=(1_000, 10_000, 100_000, 1_000_000),
    arms=tuple(2**e for e in range(1, 12)),
    work=2**34,
    second=0.5,
    repeats=3,
)
QUICK = Sizes(50, 3, 2, 4, 2, (2, 4), (10, 20), (2, 4), 2**8, 0.01, 1)
MEMORY = 2**35  # bytes of sums in a measurement with many arms


def laid_out(problem: Problem) -> Model:
    assert problem.distribution is not None
    few = len(problem.arms) <= 16  # policies that learn the law of X are not tried with more
    evidence = evidence_of(problem) if few else None
    return make_model(atoms_of(problem, problem.distribution), scale=model_of(problem).reward_range, evidence=evidence)


def random_model(arms: int, atoms: int, seed: int) -> Model:
    rng = np.random.default_rng([arms, atoms, seed])
    rows = rng.integers(0, 21, (arms, atoms)) / 20
    support = Discrete([float(j) for j in range(atoms)])
    law = rng.dirichlet(np.ones(atoms))
    return laid_out(Problem(latent=support, arms={f"arm {k}": row for k, row in enumerate(rows)}, distribution=law))


def paper_model(name: str) -> Model:
    return laid_out(next(case.problem for case in CASES if case.id == name))


def coins() -> Model:
    """Arms of random rewards, and one whose reward X decides."""
    arms: Any = {
        "one": {"outcomes": [0, 1], "probabilities": [[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]]},
        "two": {"outcomes": [0, 0.5, 1], "probabilities": [[0.5, 0.25, 0.25], [0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]},
        "three": [0, 1, 0.5],
    }
    return laid_out(Problem(latent=Discrete(["a", "b", "c"]), arms=arms, distribution=[0.3, 0.3, 0.4]))


def same(one: Counts, other: Counts) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def check(sizes: Sizes) -> list[dict[str, Any]]:
    """Every check, with what it found."""
    models = {name: paper_model(name) for name in ("two-arms", "discrete-1", "discrete-2", "discrete-3")}
    shapes = [(2, 7, 1), (4, 6, 1), (3, 5, 1), (3, 5, 2), (3, 5, 3), (2, 7, 2), (4, 6, 2), (6, 9, 1), (9, 17, 1), (12, 100, 1)]
    shapes += [(20, 30, 1), (150, 5, 1)]
    models |= {f"random {i}, K = {k}, J = {j}": random_model(k, j, i) for k, j, i in shapes[: sizes.random]}
    every = np.unique(np.geomspace(1, sizes.horizon, 40).astype(np.int64))
    even = np.unique(2 * ((every + 1) // 2))
    common: Any = {"replications": sizes.replications, "seed": SEED, "first": 2**32 - 100}
    found = []
    for name, model in models.items():
        rounds = every if name.startswith("discrete") else even  # an odd one takes two more kernels
        for policy in ("ucb1", "c-ucb"):
            start = time.perf_counter()
            theirs = simulate_counts(model, make_spec(policy), **common, checkpoints=rounds)
            ours = simulate_counts_cuda(model, make_spec(policy), **common, checkpoints=rounds)
            found.append(_line(name, policy, "float64, every checkpoint equal", same(ours, theirs), start))
            if not name.startswith("random"):
                start = time.perf_counter()
                theirs = simulate_counts(model, make_spec(policy), **common, checkpoints=even)
                single = simulate_counts_cuda(model, make_spec(policy), **common, checkpoints=even, precision="float32")
                what, passed = _within(single, theirs)
                found.append(_line(name, policy, f"float32, {what}", passed, start))
    found.append(_draws(sizes))
    for name in ("discrete-2", "random 1, K = 20, J = 30", "coins"):
        other = coins() if name == "coins" else models.get(name)
        for spec in OTHERS if other is not None else ():
            assert other is not None
            if spec.learns and other.evidence is None:
                continue
            start = time.perf_counter()
            fewer = common | {"replications": max(2, sizes.replications // 8)}
            rounds = even[even <= max(even[0], sizes.horizon // 5)]
            theirs = simulate_counts(other, spec, **fewer, checkpoints=rounds)
            ours = simulate_counts_cuda(other, spec, **fewer, checkpoints=rounds)
            what, _ = _within(ours, theirs)
            found.append(_line(name, spec.title, f"float64, every checkpoint equal ({what})", same(ours, theirs), start))
    return found


def _line(problem: str, policy: str, what: str, passed: bool, start: float) -> dict[str, Any]:
    seconds = time.perf_counter() - start
    print(f"{'ok  ' if passed else 'FAIL'} {problem:26} {policy:9} {what}  ({seconds:.1f} s)", flush=True)
    return {"problem": problem, "policy": policy, "what": what, "passed": bool(passed), "seconds": seconds}


def _within(ours: Counts, theirs: Counts) -> tuple[str, bool]:
    """The mean reward at the horizon within four standard errors, and how many replications are the same to the last pull."""
    a, b = ours.reward[:, -1], theirs.reward[:, -1]
    error = math.sqrt((a.var() + b.var()) / len(a))
    alike = float((ours.pulls == theirs.pulls).all(axis=(1, 2)).mean())
    gap = float(abs(a.mean() - b.mean()))
    return f"mean reward within 4 s.e. ({gap:.3g} of {error:.3g}); {alike:.1%} of replications equal", gap <= 4 * error


def _draws(sizes: Sizes) -> dict[str, Any]:
    """x_t of every round: two arms that both pay the atom's own number."""
    start = time.perf_counter()
    row = [float(j) for j in range(5)]
    law = np.array([0.1, 0.0, 0.3, 0.2, 0.4])
    model = laid_out(Problem(latent=Discrete(row), arms={"one": row, "two": row}, distribution=law))
    rounds = np.arange(1, min(sizes.horizon, 1_000) + 1)
    common: Any = {"checkpoints": rounds, "replications": min(sizes.replications, 256), "seed": SEED, "first": 2**33}
    ours = simulate_counts_cuda(model, make_spec("ucb1"), **common).reward
    equal = np.array_equal(ours, oracle_rewards(model, 0, **common))
    return _line("x_t", "any", f"{ours.size:,} draws equal, bit for bit", equal, start)


def measure(sizes: Sizes) -> list[dict[str, Any]]:
    """Rounds a second on K = 3 arms, beside the CPU."""
    found = []
    for name in ("discrete-1", "discrete-2", "discrete-3"):
        model = paper_model(name)
        for policy in ("c-ucb", "ucb1"):
            cpu = _on_the_cpu(model, policy, sizes.horizon, sizes.second)
            for precision in ("float32", "float64"):
                line = _speed(model, policy, precision, sizes.horizon, sizes.many, sizes.repeats)
                found.append(_said({"problem": name, **line, "cpu_rounds_per_second": cpu}))
    model = paper_model("discrete-2")
    for policy in ("ts", "c-ts", "kl-ucb", "c-kl-ucb", "joint-ucb"):
        cpu = _on_the_cpu(model, policy, sizes.horizon, sizes.second)
        line = _speed(model, policy, "float64", sizes.horizon, sizes.slow, 1)
        found.append(_said({"problem": "discrete-2", **line, "cpu_rounds_per_second": cpu}))
    return found


def growth(sizes: Sizes) -> list[dict[str, Any]]:
    """C-UCB over replications and rounds, K = 3; C-UCB and UCB1 over the number of arms, beside the CPU."""
    model = paper_model("discrete-2")
    found = []
    for count in sizes.counts:
        found.append(_said({"over": "replications", **_speed(model, "c-ucb", "float32", sizes.horizon, count, sizes.repeats)}))
    for horizon in sizes.horizons:
        found.append(_said({"over": "rounds", **_speed(model, "c-ucb", "float32", horizon, sizes.slow, sizes.repeats)}))
    for arms in sizes.arms:
        model, horizon = random_model(arms, 5, 2), 2 * max(sizes.arms)
        count = max(2, min(2**20, sizes.work // (horizon * arms), MEMORY // (4 * arms * arms)))
        for policy in ("c-ucb", "ucb1"):
            cpu = _on_the_cpu(model, policy, horizon, sizes.second)
            line = _speed(model, policy, "float64", horizon, count, 1)
            found.append(_said({"over": "arms", **line, "cpu_rounds_per_second": cpu}))
    return found


class Target(NamedTuple):
    """A row that has one: rounds a second of the launches alone, or beside all cores of the same machine, all included."""

    policy: str
    precision: str
    arms: int  # 0: discrete-2
    rate: float = 0.0
    ratio: float = 0.0


TARGETS = (
    Target("c-ucb", "float32", 0, rate=2.3e11),
    Target("ucb1", "float32", 0, rate=2.9e11),
    Target("c-ucb", "float64", 0, rate=1.76e11),
    Target("ucb1", "float64", 0, rate=2.16e11),
    Target("kl-ucb", "float64", 0, rate=1e10),
    Target("joint-ucb", "float64", 0, ratio=50.0),
    Target("c-ucb", "float64", 8, ratio=113.0),
    Target("c-ucb", "float64", 16, ratio=43.0),
    Target("c-ucb", "float64", 128, ratio=15.0),
    Target("c-ucb", "float64", 2048, ratio=10.0),
)


def targets(sizes: Sizes) -> list[dict[str, Any]]:
    """The rows that have a target, and how near they are."""
    found = []
    for target in TARGETS:
        model, horizon, count, cpu = paper_model("discrete-2"), sizes.horizon, sizes.slow, 0.0
        if target.arms:
            model, horizon = random_model(min(target.arms, max(sizes.arms)), 5, 2), 2 * max(sizes.arms)
            count = max(2, min(2**20, sizes.work // (horizon * target.arms)))
        elif target.policy in ("c-ucb", "ucb1"):
            count = sizes.many
        if target.ratio:
            cpu = _on_the_cpu(model, target.policy, horizon, sizes.second)
        line = _speed(model, target.policy, target.precision, horizon, count, sizes.repeats)
        reached = line["gpu_rounds_per_second"] / target.rate if target.rate else line["rounds_per_second"] / cpu / target.ratio
        aim = {"cpu_rounds_per_second": cpu, "rate": target.rate, "ratio": target.ratio, "of_target": reached}
        found.append(_said({**line, **aim}))
    return found


def _said(line: dict[str, Any]) -> dict[str, Any]:
    print({name: f"{x:.3g}" if isinstance(x, float) else x for name, x in line.items()}, flush=True)
    return line


def _speed(model: Model, policy: str, precision: Any, horizon: int, count: int, repeats: int) -> dict[str, Any]:
    """The best of some runs, after one that compiles: in all, the result in the host's memory, and of the GPU alone."""
    spec, end = make_spec(policy), np.array([horizon], dtype=np.int64)
    assert cuda_reason(model, spec) is None
    options: Any = {"seed": SEED, "precision": precision, "checkpoints": end}
    start = time.perf_counter()
    simulate_counts_cuda(model, spec, **options, replications=2)
    compiling, best = time.perf_counter() - start, math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        simulate_counts_cuda(model, spec, **options, replications=count)
        best = min(best, time.perf_counter() - start)
    alone = min(_on_the_gpu(model, spec, end, precision, count) for _ in range(repeats))
    arms, atoms = model.level.shape
    line = {"arms": arms, "atoms": atoms, "policy": policy, "precision": precision, "horizon": horizon, "replications": count}
    rates = {"rounds_per_second": horizon * count / best, "gpu_rounds_per_second": horizon * count / alone}
    return {**line, "seconds": best, "gpu_seconds": alone, "first_call_seconds": compiling, **rates}


def _on_the_gpu(model: Model, spec: Spec, end: Any, precision: Any, count: int) -> float:
    """Seconds of the launches alone, all replications at once if they fit: nothing is brought to the host."""
    with Run(model, spec, end, SEED, precision) as run:
        size = run.batch(count)
        longest, horizon, t = run.longest(size), int(end[-1]), 0
        run.places = run.take(run.room * size), run.take(run.seen * size), run.take(run.shown * size)
        run.driver.wait(run.driver.mark())
        start = time.perf_counter()
        while t < horizon:
            length = stretch(t, horizon, longest)
            run.launch(0, size, t, length, False)
            t += length
        run.driver.wait(run.driver.mark())
        return (time.perf_counter() - start) * count / size


def _on_the_cpu(model: Model, policy: str, horizon: int, second: float) -> float:
    """Rounds a second of the CPU engine on all cores, the better of two runs of so many seconds."""
    options: Any = {"checkpoints": np.array([horizon], dtype=np.int64), "seed": SEED}
    count, best, cores = os.cpu_count() or 1, 0.0, os.cpu_count() or 1
    simulate_counts(model, make_spec(policy), **options, replications=count)  # compiles
    for _ in range(2):
        took = math.inf
        while True:
            start = time.perf_counter()
            simulate_counts(model, make_spec(policy), **options, replications=count)
            took = time.perf_counter() - start
            if took >= second / 2:
                break
            count = max(2 * count, int(count * min(16.0, second / took))) // cores * cores
        best = max(best, horizon * count / took)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, help="where to write the numbers as JSON")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--only", choices=("checks", "speed", "targets"), help="one part alone")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a knob first")
    options = parser.parse_args()
    for name, value in (knob.split("=") for knob in options.set):
        setattr(cuda, name, int(value))
    if (reason := missing_gpu()) is not None:
        print(reason, file=sys.stderr)
        return 2
    sizes = QUICK if options.quick else FULL
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    report: dict[str, Any] = {"date": today, "device": _device(), "cores": os.cpu_count(), "versions": _versions()}
    start = time.perf_counter()
    if options.only in (None, "checks"):
        report["checks"] = check(sizes)
    if options.only in (None, "targets"):
        report["targets"] = targets(sizes)
    if options.only in (None, "speed"):
        report |= {"speed": measure(sizes), "growth": growth(sizes)}
    report["seconds"] = round(time.perf_counter() - start, 1)
    if options.output is not None:
        options.output.write_text(_text(report), encoding="utf-8")
    checks = report.get("checks", [])
    print(f"{sum(x['passed'] for x in checks)} of {len(checks)} checks hold; {report['seconds']:.0f} s in all")
    return 0 if all(x["passed"] for x in checks) else 1


def _text(report: dict[str, Any]) -> str:
    """JSON, a measurement a line, four digits."""

    def short(x: Any) -> str:
        rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in x.items()} if isinstance(x, dict) else x
        return json.dumps(rounded)

    parts = []
    for name, x in report.items():
        lines = "[\n  " + ",\n  ".join(map(short, x)) + "\n ]" if isinstance(x, list) else short(x)
        parts.append(f' "{name}": {lines}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _device() -> str:
    return gpu_driver.driver().name


def _versions() -> dict[str, str]:
    core = gpu_driver._nvrtc()
    compiler = "nvcc" if core is None else f"NVRTC, cuda-core {core.__version__}"
    return {"compiler": compiler, "numpy": np.__version__, "python": sys.version.split()[0]}


if __name__ == "__main__":
    sys.exit(main())
