"""The engine against a C program of ours, side by side in one run: rounds a second, and their ratio.

``yardstick.c`` is compiled here with ``cc -O3 -march=native``; then the C program and the engine run in turn on the same
problem, horizon and number of replications, and the best of the repeats counts for each, so that other work on the machine
favours neither. Mean pulls of both must agree within five standard errors: a fast wrong answer is no answer.
"""

from __future__ import annotations

import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats
from headwater.errors import HeadwaterError
from headwater.latent import Discrete
from headwater.policies import make_policy, make_spec
from headwater.problem import Problem
from headwater.simulation.atoms import Atoms, atoms_of
from headwater.simulation.engine import make_model, simulate_counts
from headwater.simulation.threads import core_count

HORIZON = 10_000
Say = Callable[[str], None]


class Case(NamedTuple):
    """A problem to measure on, and how many replications of it."""

    name: str
    problem: Problem
    replications: int


def cases() -> list[Case]:
    """The paper's discrete problem in its third case, where every arm stays competitive, and a large random one."""
    from headwater.paper import CASES

    table = next(case.problem for case in CASES if case.id == "discrete-3")
    rng = np.random.default_rng(7)
    rewards = rng.integers(0, 21, (100, 50)) / 20
    large = Problem(
        latent=Discrete([float(j) for j in range(50)]),
        arms={f"arm {k}": row for k, row in enumerate(rewards)},
        distribution=rng.dirichlet(np.ones(50)),
        name="random",
    )
    return [Case("K = 3, J = 5", table, 4096), Case("K = 100, J = 50", large, 256)]


def run(*, quick: bool, say: Say) -> dict[str, Any]:
    """Measure everything, saying each line as it is known; returns the numbers."""
    repeats = 3 if quick else 9
    return {"engine": compare_engine(repeats, say), "live": time_live(repeats, say)}


def compare_engine(repeats: int, say: Say) -> list[dict[str, Any]]:
    """Rounds per second of the C program and of the engine, on every core."""
    threads = core_count()
    with tempfile.TemporaryDirectory() as folder:
        program = _build(Path(folder))
        if program is None:
            say("There is no C compiler here, so there is nothing to compare with; install one (cc) for the ratios.")
        say(f"{'problem':<18}{'policy':<8}{'C, M rounds/s':>15}{'engine':>10}{'ratio':>8}   T = {HORIZON}, {threads} threads")
        return [_compare(program, case, policy, repeats, threads, say) for case in cases() for policy in ("ucb1", "c-ucb")]


def _build(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    program = folder / "yardstick"
    source = Path(__file__).with_name("yardstick.c")
    command = [compiler, "-O3", "-march=native", "-o", str(program), str(source), "-lm", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HeadwaterError(f"the C program did not compile: {done.stderr.strip().splitlines()[-1]}")
    return program


def _compare(program: Path | None, case: Case, policy: str, repeats: int, threads: int, say: Say) -> dict[str, Any]:
    assert case.problem.distribution is not None
    atoms = atoms_of(case.problem, case.problem.distribution)
    scale = float(np.max([np.ptp(v) for v in atoms.values]))
    model, spec, rounds = make_model(atoms, scale=scale), make_spec(policy), np.array([HORIZON])
    text = _problem_text(atoms, scale)
    simulate_counts(model, spec, checkpoints=rounds, replications=threads, seed=1, threads=threads)  # compile first
    ours, theirs, means = math.inf, math.inf, np.empty(0)
    pulls = np.empty((0, 0), dtype=np.int64)
    for _ in range(repeats):
        if program is not None:
            seconds, means = _run_yardstick(program, text, policy, case.replications, threads)
            theirs = min(theirs, seconds)
        start = time.perf_counter()
        counts = simulate_counts(model, spec, checkpoints=rounds, replications=case.replications, seed=1, threads=threads)
        ours = min(ours, time.perf_counter() - start)
        pulls = counts.pulls[:, -1]
    error = pulls.std(axis=0) * math.sqrt(2 / case.replications)
    if program is not None and np.any(abs(pulls.mean(axis=0) - means) > 5 * error + 1e-9):
        raise HeadwaterError(f"{case.name}, {policy}: the mean pulls of the C program and of the engine disagree")
    million = case.replications * HORIZON / 1e6
    result = {"problem": case.name, "policy": policy, "engine_millions": million / ours}
    if program is not None:
        result |= {"c_millions": million / theirs, "ratio": theirs / ours}
    c, ratio = (f"{million / theirs:.1f}", f"{theirs / ours:.2f}") if program is not None else ("–", "–")
    say(f"{case.name:<18}{policy:<8}{c:>15}{million / ours:>10.1f}{ratio:>8}")
    return result


def _problem_text(atoms: Atoms, scale: float) -> str:
    """The problem as yardstick.c reads it."""
    arms, levels = atoms.cells.shape[:2]
    arrays = (atoms.probability, atoms.level, atoms.cells[:, :, -1], atoms.cells[:, :, :-1])
    head = f"{arms} {atoms.level.shape[1]} {levels} {scale!r} {atoms.unit!r}\n"
    return head + "\n".join(" ".join(map(repr, x.ravel().tolist())) for x in arrays) + "\n"


def _run_yardstick(program: Path, text: str, policy: str, replications: int, threads: int) -> tuple[float, Floats]:
    arguments = [str(program), policy, str(HORIZON), str(replications), str(threads), "1"]
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True)
    seconds, *pulls = map(float, done.stdout.split())
    return seconds, np.array(pulls)


def time_live(repeats: int, say: Say) -> list[dict[str, Any]]:
    """The best mean time of one select and one update of C-UCB, the rewards drawn beforehand."""
    results = []
    for case in cases():
        assert case.problem.distribution is not None
        law = atoms_of(case.problem, case.problem.distribution).probability
        drawn = case.problem.rewards[:, np.random.default_rng(1).choice(len(law), 5000, p=law)].T.tolist()
        number, best = {name: k for k, name in enumerate(case.problem.names)}, math.inf
        for _ in range(repeats):
            policy = make_policy("c-ucb", case.problem)
            start = time.perf_counter()
            for row in drawn:
                arm = policy.select()
                policy.update(arm, row[number[arm]])
            best = min(best, (time.perf_counter() - start) / len(drawn))
        say(f"{case.name:<18}live c-ucb, one select and one update: {best * 1e6:.2f} µs")
        results.append({"problem": case.name, "microseconds": best * 1e6})
    return results
