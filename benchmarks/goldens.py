"""What the code decides, as data, and whether it still does: lives of live policies and simulations on random problems.

    python benchmarks/goldens.py record                            # results/goldens, minutes on one core
    python benchmarks/goldens.py compare                           # minutes; status 1 where something else came out
    python benchmarks/goldens.py record --sample tests/goldens     # the few small ones that the tests go through

Only headwater's public names are used, so that one script records one release and compares another with it. UCB1, KL-UCB, TS
and their filtered kin must decide what they decided. Policies that learn the law of X go on from every recorded state; of their
decisions at least 99.99 % must be the recorded ones, and the others ties: arms whose indices are within 1e-9 of each other.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import headwater as hw
from golden_play import Plan, learns, live, stored
from golden_problems import FAMILIES, Case, Size, make_case, many_arms
from golden_replay import Difference, Replay, Replayed, unlike

FORMAT = "headwater-goldens"
RARE = 10_000
"""Of so many decisions of a policy that learns, one may be another than the recorded one, if the two arms tie."""

PLAIN = (
    "ucb1", "kl-ucb", "kl-ucb:form=empirical", "ts", "ts:posterior=beta", "ts:sd=0.4", "ts:sd=estimated",
)  # fmt: skip
FILTERED = (
    "c-ucb", "c-ucb:reference=well-pulled", "c-ucb:audit=1", "c-ucb:audit=2,schedule=late", "c-kl-ucb",
    "c-kl-ucb:form=empirical,audit=0.5", "c-kl-ucb:reference=well-pulled",
    "c-kl-ucb:form=empirical,reference=well-pulled,audit=0",
    "c-ts", "c-ts:posterior=beta", "c-ts:sd=estimated,reference=well-pulled", "c-ts:sd=0.3,audit=1",
    "c-ts:posterior=beta,audit=20,schedule=late,reference=well-pulled", "c-kl-ucb:audit=20,schedule=late",
)  # fmt: skip
LEARNING = (
    "joint-ucb", "latent-ts", "joint-ucb:audit=0,guard=0", "joint-ucb:discount=0,audited=open-arms,schedule=late",
    "latent-ts:prior=2,audit=0",
    "auto", "joint-ucb:discount=1,tolerance=0", "latent-ts:guard=0.05,tolerance=0",
)  # fmt: skip
SLOW = ("continuous", "box")
MANY = (
    "ucb1", "kl-ucb", "ts", "ts:sd=estimated", "ts:posterior=beta", "c-ucb", "c-ucb:audit=1", "c-kl-ucb", "c-ts",
    "c-ts:posterior=beta,audit=1",
    "c-ts:sd=estimated", "kl-ucb:form=empirical", "c-ucb:reference=well-pulled", "joint-ucb", "auto",
)  # fmt: skip
"""For more arms than a table of all pairs allows; the last ones are refused, or decided otherwise."""


def policies_of(family: str, number: int, few: bool) -> list[str]:
    """The policies that a problem is recorded with: in turn, so that every one meets every family."""
    if family == "many":
        return list(MANY)
    plain, filtered, learning = (1, 2, 1) if few or family in SLOW else (2, 4, 2)
    turn = number + 2 * FAMILIES.index(family)
    out = [PLAIN[(turn * plain + i) % len(PLAIN)] for i in range(plain)]
    out += [FILTERED[(turn * filtered + i) % len(FILTERED)] for i in range(filtered)]
    out += [LEARNING[(turn * learning + i) % len(LEARNING)] for i in range(learning)]
    return out + (["graves-lai"] if turn % 5 == 2 else [])


def is_exact(policy: str) -> bool:
    """Whether every one of a policy's decisions must be the recorded one."""
    return not learns(policy)


# --- recording -------------------------------------------------------------------------------------------------------


def recorded(case: Case, *, few: bool) -> dict[str, Any]:
    """A problem with what every policy did on it."""
    rng = np.random.default_rng([case.number, 5])
    policies = policies_of(case.family, case.number, few)
    lives, runs = [], []
    for i, policy in enumerate(policies):
        plan = _plan(case.family, policy, few, rng)
        other = None
        if i % 3 == case.number % 3:  # a replica's life, which is merged into the next
            lives.append(live(case, policy, Plan(max(plan.rounds // 3, 10), plan.stored, plan.rounds), 1000 + i))
            other = next((event[1] for event in reversed(lives[-1].get("events", [])) if event[0] == "state"), None)
        lives.append(live(case, policy, plan, 1 + i, other))
        all_run = case.number % 2 == 0 and case.family not in SLOW and not few
        if all_run or i == (case.number + len(case.family)) % len(policies):
            runs += simulated(case.problem, policy, case.number + i, few)
    return {"family": case.family, "number": case.number, "problem": case.problem.to_toml(), "lives": lives, "runs": runs}


def _plan(family: str, policy: str, few: bool, rng: np.random.Generator) -> Plan:
    rounds = int(rng.integers(40, 70) if few else rng.integers(60, 110) if family in SLOW else rng.integers(90, 400))
    if family == "many":
        rounds = 600
    if not is_exact(policy):
        least = (120 if few else 160) if family.startswith("wrong") else 0
        rounds = min(max(rounds, least), (30 if few else 60) if policy == "graves-lai" else 240 if least else 160)
    return Plan(rounds, rounds // 3 if is_exact(policy) else 10, max(rounds // (2 if few or family == "many" else 6), 20))


def simulated(problem: hw.Problem, policy: str, seed: int, few: bool) -> list[dict[str, Any]]:
    """Runs of one policy: some replications, and for some the first alone or as many as fill lanes."""
    horizon = 200 if few else [300, 1000, 3000][seed % 3]
    if not is_exact(policy):
        horizon = 60 if policy == "graves-lai" else 100 if few else 200
    counts = [4] if few else {0: [4, 1], 1: [20]}.get(seed % 4, [4])
    rounds = sorted({1, 10, horizon // 7, horizon // 2, horizon})
    out = []
    for count in counts:
        options: dict[str, Any] = {"horizon": horizon, "replications": count, "seed": seed, "checkpoints": rounds}
        out.append({"policy": policy, **options, **run(problem, policy, "step", **options)})
    return out


def run(problem: hw.Problem, policy: str, engine: str, **options: Any) -> dict[str, Any]:
    """What a simulation counted, or why it was refused."""
    try:
        found = hw.simulate(problem, policies=[policy], engine=engine, threads=1, **options)
    except hw.HeadwaterError as error:
        return {"error": type(error).__name__, "text": str(error)}
    [outcome] = found.outcomes.values()
    return {name: np.asarray(getattr(outcome, name)).tolist() for name in ("pulls", "reward", "excluded")}


def cases(family: str, count: int, size: Size) -> Iterator[Case]:
    """The problems of a family, fewer where every reward takes long."""
    for number in range(count if family not in SLOW else count * 2 // 3):
        yield make_case(family, number, size)


def record(folder: Path, families: list[str], count: int) -> None:
    """Into one file for each family."""
    start = time.monotonic()
    for family in families:
        if family == "many":
            write(folder, family, [recorded(many_arms(400, 400), few=False)])
            continue
        write(folder, family, [recorded(case, few=False) for case in cases(family, count, Size(30, 200))])
        print(f"{time.monotonic() - start:.0f} s", flush=True)


def record_sample(folder: Path) -> None:
    write(folder, "sample", [recorded(case, few=True) for family in FAMILIES for case in cases(family, 3, Size(5, 8))])


def record_stored(folder: Path) -> None:
    """Stored policies of this release, of every name, each on some kinds of problem."""
    made = [make_case(family, 2, Size(5, 8)) for family in FAMILIES]
    cases = [
        {"family": case.family, "number": case.number, "problem": case.problem.to_toml(), "lives": _stored(case), "runs": []}
        for case in made
    ]
    write(folder, f"stored-{hw.__version__}", cases)


def _stored(case: Case) -> list[dict[str, Any]]:
    out = []
    for i, policy in enumerate((*PLAIN, *FILTERED, *LEARNING, "graves-lai")):
        if (i + FAMILIES.index(case.family)) % 3 == 0 or case.family == "mixed":
            with contextlib.suppress(hw.HeadwaterError):  # an option that this release or problem does not have
                out.append(stored(case, policy, 30, 7 + i))
    return out


def write(folder: Path, name: str, cases: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name.replace(' ', '-')}.json.xz"
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(hw.__file__).parent
    ).stdout.strip()
    head = {"format": FORMAT, "version": 1, "release": hw.__version__, "commit": commit}
    text = json.dumps(head | {"cases": cases}, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 if len(text) < 1e7 else 1))
    print(f"{path}: {len(cases)} problems, {path.stat().st_size / 1e6:.2f} MB", flush=True)


# --- comparing -------------------------------------------------------------------------------------------------------


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The recorded problems of a folder, a family at a time."""
    for path in sorted(folder.glob("*.json.xz")):
        data = json.loads(lzma.decompress(path.read_bytes()))
        if data.get("format") != FORMAT:
            raise SystemExit(f"{path}: no record of {FORMAT}")
        yield from data["cases"]


def problem_of(text: str) -> hw.Problem:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.toml"
        path.write_text(text, encoding="utf-8")
        return hw.load_problem(path)


def compared(case: dict[str, Any], engine: str = "step") -> Iterator[tuple[str, Replayed]]:
    """Every life and run of a problem once more: its policy, and what came out."""
    problem = problem_of(case["problem"])
    for life in case["lives"]:
        yield life["policy"], Replay(life, problem).run()
    for one in case["runs"]:
        again = {key: one[key] for key in ("horizon", "replications", "seed", "checkpoints")}
        yield one["policy"], _same_run(one, run(problem, one["policy"], engine, **again))


def _same_run(recorded: dict[str, Any], mine: dict[str, Any]) -> Replayed:
    differences, apart, count = [], 0.0, Counter[str]()
    for key in ("pulls", "reward", "excluded", "error", "text"):
        if key not in recorded and key not in mine:
            continue
        count[f"runs: {key}"] += 1
        far = unlike(mine.get(key), recorded.get(key))
        apart = max([apart, *(x for *_, x in far if x <= 1e-9)])
        far = [found for found in far if found[2] > 1e-9]
        if far:  # where one is, many are
            differences.append(Difference(f"runs: {key}", far[0][0], f"{far[0][1]}; {len(far)} numbers of this run"))
    return Replayed(count, differences, 0, apart)


class Total:
    """What came out for one policy, over all problems."""

    def __init__(self) -> None:
        self.compared, self.different, self.ties, self.skipped, self.apart = Counter[str](), Counter[str](), 0, 0, 0.0

    def add(self, found: Replayed) -> None:
        self.compared += found.compared
        self.different += Counter(one.what for one in found.differences)
        self.ties += sum(one.tie for one in found.differences)
        self.skipped, self.apart = self.skipped + found.skipped, max(self.apart, found.apart)

    def right(self, exact: bool) -> bool:
        """Whether that is what must come out. What only follows from a learner's tie, or tells of it, is shown, not judged."""
        wrong = self.different["decisions"]
        if exact:
            return not self.different.total()
        rare = wrong == self.ties and wrong * RARE <= self.compared["decisions"]
        blamed = self.different["doubted"] * 100 <= self.compared["doubted"]  # of two arms that fit as badly, either may be
        return rare and blamed and not self.different["states"] and not self.different["refusals"]

    def __str__(self) -> str:
        parts = [
            f"{n:,} {what}" + (f" ({self.different[what]:,} DIFFERENT)" if self.different[what] else "")
            for what, n in sorted(self.compared.items())
        ]
        tail = f"; {self.ties} ties" if self.ties else ""
        tail += f"; {self.skipped:,} decisions not compared" if self.skipped else ""
        return ", ".join(parts) + tail + (f"; numbers within {self.apart:.1e}" if self.apart else "")


def compare(options: argparse.Namespace) -> int:
    """Print what differs, then every policy's line; 1 where something must not."""
    totals: dict[str, Total] = defaultdict(Total)
    problems, start = 0, time.monotonic()
    for case in read(Path(options.folder)):
        problems += 1
        for policy, found in compared(case, options.engine):
            totals[policy].add(found)
            for one in found.differences[: options.shown]:
                tie = " (a tie)" if one.tie else ""
                print(f"{case['family']} {case['number']}, {policy}, {one.what}, {one.place}: {one.detail[:300]}{tie}")
    wrong = [policy for policy, total in totals.items() if not total.right(is_exact(policy))]
    for policy, total in sorted(totals.items()):
        print(f"{'WRONG' if policy in wrong else 'right'}  {policy}: {total}")
    print(f"{problems} problems, {time.monotonic() - start:.0f} s: {len(wrong)} of {len(totals)} policies are not as recorded")
    return int(bool(wrong) or not problems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording, comparing = verbs.add_parser("record"), verbs.add_parser("compare")
    for one in (recording, comparing):
        one.add_argument("--folder", default="results/goldens")
    recording.add_argument("--sample", metavar="FOLDER", help="record the small sample of the tests instead, there")
    recording.add_argument("--stored", metavar="FOLDER", help="record stored policies of this release instead, there")
    recording.add_argument("--problems", type=int, default=32, help="of each family")
    recording.add_argument("--families", nargs="+", choices=(*FAMILIES, "many"), default=[*FAMILIES, "many"])
    comparing.add_argument("--engine", default="step", help="of simulations; leap is equal in law only")
    comparing.add_argument("--shown", type=int, default=5, help="differences printed for each life")
    options = parser.parse_args()
    warnings.simplefilter("ignore", hw.ModelWarning)
    if options.verb == "record" and options.stored:
        record_stored(Path(options.stored))
    elif options.verb == "record" and options.sample:
        record_sample(Path(options.sample))
    elif options.verb == "record":
        record(Path(options.folder), options.families, options.problems)
    else:
        sys.exit(compare(options))


if __name__ == "__main__":
    main()
