"""What the studio computes: plain data in the shape of files and JSON in, the JSON of the command line out.

It runs in a ``worker``, which ends what takes too long. Sizes are checked before any work, simulations have a budget too.
"""

from __future__ import annotations

import json
import math
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from headwater.analysis import analyze as analyze_problem
from headwater.arms import Random
from headwater.errors import HeadwaterError, SizeError
from headwater.files import build_problem, parse_problem
from headwater.latent import MAX_POINTS, listed
from headwater.policies.auto import AUTO, spec_for
from headwater.policies.rules import KLUCB, GravesLai, Spec, parse_spec
from headwater.problem import Problem
from headwater.pseudo import pseudo_bounds
from headwater.report.limits import as_json as analysis_json
from headwater.report.limits import limits
from headwater.simulation import simulate as run_simulation
from headwater.simulation.threads import core_count
from headwater.starters import STARTERS

MAX_ARMS = 100
MAX_VALUES = 1_000
MAX_CELLS = 10_000
"""Arms times values of X; each reward that is random counts once for each of its outcomes."""
MAX_BOUND_VALUES = 100
"""Values of X up to which the lower bound is computed: a step of its solver costs their cube."""
MAX_SECONDS = 10.0
"""What a simulation may take, by the estimate before it and by the clock."""
MAX_GRAVES_LAI = 400
"""Arms times values of X up to which the lower bound's programme is solved: beyond, it may take seconds."""


class Extent(NamedTuple):
    """How large a problem's data says it is: whether its X is ``listed``, its ``arms``, its ``points`` (values of X), its
    ``cells`` (arms times points times outcomes), and the length of its arms' expressions."""

    listed: bool
    arms: int
    points: int
    cells: int
    text: int


def extent(data: Any) -> Extent:
    """The extent of the parsed text of a problem; of nonsense, whose faults are told elsewhere, next to nothing."""
    arms = data.get("arms") if isinstance(data, Mapping) else None
    arms = arms if isinstance(arms, Mapping) else {}
    latent = data.get("latent") if isinstance(data, Mapping) else None
    latent = latent if isinstance(latent, Mapping) else {}
    listed, points = True, _length(latent.get("values"))
    if latent.get("kind") == "continuous":
        listed, points = False, 0
    elif latent.get("kind") == "vector":
        parts = latent.get("components")
        lengths = [_length(part) for part in parts.values()] if isinstance(parts, Mapping) else [0]
        product = math.prod(lengths)
        listed = all(lengths) and product <= MAX_POINTS
        points = product if listed else 0
    text = sum(len(str(arm)) for arm in arms.values() if isinstance(arm, (str, Mapping)))
    return Extent(listed, len(arms), points, points * sum(_outcomes(arm) for arm in arms.values()), text)


def check_extent(data: Any) -> None:
    """Refuse the data of a problem that is too large for the studio."""
    found = extent(data)
    if found.arms > MAX_ARMS:
        raise SizeError(f"arms: got {found.arms:,}; the studio takes at most {MAX_ARMS}. Use the command line for more")
    if found.points > MAX_VALUES:
        message = f"latent: got {found.points:,} values of X; the studio takes at most {MAX_VALUES:,}. Use the command line"
        raise SizeError(message)
    if found.cells > MAX_CELLS:
        raise SizeError(
            f"arms: got {found.cells:,} rewards (arms × values of X × outcomes); the studio takes at most {MAX_CELLS:,}. "
            "Use the command line for more"
        )


def _outcomes(arm: Any) -> int:
    if not isinstance(arm, Mapping):
        return 1
    bins, noise = arm.get("bins"), arm.get("noise")
    many = _length(noise.get("values")) if isinstance(noise, Mapping) else 0
    fine = bins if isinstance(bins, int) and bins > 0 else 32 if "noise" in arm else 1
    return max(_length(arm.get("outcomes")), many * many, fine)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (list, tuple)) else 0


def peek(text: str) -> Any:
    """The data of a problem's text as far as it can be read, to judge its size; ``parse`` says what is wrong with it."""
    try:
        return json.loads(text) if is_json(text) else tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def is_json(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def analyze(problem: Any, distribution: Any = None) -> dict[str, Any]:
    """What ``headwater analyze --json`` prints."""
    known = _known(problem, distribution)
    quick = listed(known.latent) and known.rewards.shape[1] <= MAX_BOUND_VALUES and known.rewards.size <= MAX_GRAVES_LAI
    found = limits(known) if quick else None
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite then is refused as an answer
        return analysis_json(known, analyze_problem(known), found)


def _known(problem: Any, distribution: Any) -> Problem:
    built = build_problem(problem)
    return built if distribution is None else built.with_distribution(distribution)


def pseudo(problem: Any, observed: str, reward: float) -> dict[str, float]:
    """What ``headwater pseudo --json`` prints."""
    built = build_problem(problem)
    upper = pseudo_bounds(built, built.index(observed, "observed"), reward).upper
    return dict(zip(built.names, upper[:, 0].tolist(), strict=True))


def to_toml(problem: Any) -> str:
    return build_problem(problem).to_toml()


def parse(text: str) -> dict[str, Any]:
    """A problem's text, TOML or JSON, as the same problem in JSON."""
    check_extent(peek(text))
    return as_json(parse_problem(text.removeprefix("\ufeff"), json_text=is_json(text)))


def as_json(problem: Problem) -> dict[str, Any]:
    """The problem in the shape of a file, with "inf" for infinity, which JSON lacks."""
    out: dict[str, Any] = _finite(problem.to_dict())
    return out


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return ("inf" if value > 0 else "-inf") if isinstance(value, float) and math.isinf(value) else value


@cache
def examples() -> list[dict[str, Any]]:
    """Problems to begin with: the commented files of ``headwater new``, and the paper's."""
    from headwater.paper import CASES  # which brings a good deal of scipy: a service should start at once

    out = []
    for kind, text in STARTERS.items():
        problem = parse_problem(text)
        out.append({"id": kind, "name": problem.name, "note": "", "problem": as_json(problem)})
    for case in CASES:
        out.append({"id": f"paper-{case.id}", "name": case.title, "note": case.note, "problem": as_json(case.problem)})
    return out


def simulate(
    problem: Any,
    policies: Sequence[str],
    horizon: int,
    replications: int,
    seed: int = 0,
    reward_range: float | None = None,
    distribution: Any = None,
) -> dict[str, Any]:
    """What ``headwater simulate --json`` prints, if that takes at most ``MAX_SECONDS``."""
    known = _known(problem, distribution)
    specs = [spec_for(name, known) for name in policies]
    check_budget(known, specs, horizon * replications)
    with np.errstate(over="ignore", invalid="ignore"):
        return run_simulation(
            known,
            policies=specs,
            horizon=horizon,
            replications=replications,
            seed=seed,
            reward_range=reward_range,
            engine="step",
            threads=min(core_count(), 2),
            progress=_deadline(MAX_SECONDS),
        ).to_dict()


COUPON = "[arms.coupon]\noutcomes = [0, 3]\nprobabilities = [[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]]\n"
KINDS = {"listed": STARTERS["discrete"], "random": STARTERS["discrete"] + COUPON, "continuous": STARTERS["continuous"]}
_warmed: set[tuple[str, ...]] = set()


def kind_of(problem: Any) -> str:
    """Which compiled code a problem's simulation runs."""
    arms = problem.get("arms") if isinstance(problem, Mapping) else None
    if isinstance(arms, Mapping) and any(isinstance(arm, Mapping) for arm in arms.values()):
        return "random"
    return "listed" if extent(problem).listed else "continuous"


def warm(policies: Sequence[str], kind: str) -> None:
    """Let the code that a race runs be compiled, once, before any clock runs: on a new machine it takes many seconds."""
    problem = parse_problem(KINDS[kind])
    for spec in (spec_for(name, problem) for name in policies):
        code = (spec.rule.code, spec.reference, str(spec.audit > 0), kind)
        if code not in _warmed:
            with suppress(HeadwaterError):  # the race itself will say what it is
                run_simulation(problem, policies=[spec], horizon=2, replications=1, threads=1)
            _warmed.add(code)


def _deadline(seconds: float) -> Callable[[int, int], None]:
    """A simulation's progress that ends it after some processor time, of every thread together."""
    end = time.process_time() + seconds

    def check(done: int, total: int) -> None:
        if time.process_time() > end:
            raise SizeError(
                f"horizon: {100 * done // total} % of the rounds were played after {seconds:g} s, which is all the studio "
                "gives. Ask for fewer rounds, runs or policies, or use the command line"
            )

    return check


def check_budget(problem: Problem, specs: Sequence[Spec], rounds: int) -> None:
    """Refuse, with how much less would do, what would take longer than ``MAX_SECONDS``."""
    slow = listed(problem.latent) and problem.rewards.size > MAX_GRAVES_LAI
    if slow and any(isinstance(spec.rule, GravesLai) for spec in specs):
        raise SizeError(
            f"policies: got graves-lai on {problem.rewards.size:,} rewards (arms × values of X); the studio simulates it on at "
            f"most {MAX_GRAVES_LAI}. Use joint-ucb, or the command line"
        )
    seconds = sum(_microseconds(problem, spec) for spec in specs) * rounds / 1e6
    if seconds > MAX_SECONDS:
        enough = int(rounds * MAX_SECONDS / seconds)
        raise SizeError(
            f"horizon × replications: got {rounds:,} rounds of {_policies(len(specs))}, which would take about "
            f"{seconds:,.0f} s; the studio gives {MAX_SECONDS:g} s, enough for about {enough:,} rounds in all. "
            "Use the command line for more"
        )


def _policies(count: int) -> str:
    return "one policy" if count == 1 else f"{count} policies"


def _microseconds(problem: Problem, spec: Spec) -> float:
    """Roughly what a round takes on one core: measured for 2 to 30 arms on 3 to 200 values, within a factor of 3 or so."""
    arms, values = len(problem.arms), 24
    if listed(problem.latent):
        values = problem.rewards.shape[1]
    outcomes = sum(len(arm.outcomes) for arm in problem.arms.values() if isinstance(arm, Random))
    noise = max(10, outcomes) if outcomes else 1  # a linear programme, now and then
    if spec.learns:
        learning = 1 + 0.1 * arms * values + 0.008 * arms * values**2
        return learning * (60 if isinstance(spec.rule, GravesLai) else 1)
    if spec.rule == KLUCB("empirical"):
        return 3.0 * arms
    filtered = noise if spec.reference != "none" else 1
    return (0.4 + 0.03 * arms + (0.2 * arms if isinstance(spec.rule, KLUCB) else 0)) * filtered


def check_policies(policies: Sequence[str]) -> None:
    """Refuse names that no problem has use for, before a problem is looked at."""
    for name in policies:
        if name.strip() != AUTO:
            parse_spec(name)


TASKS = {"analyze": analyze, "pseudo": pseudo, "to_toml": to_toml, "parse": parse, "simulate": simulate, "warm": warm}
