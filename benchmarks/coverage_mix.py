"""How often what ``policy.latent()`` states of the mix of X holds: its part of the designed grid of ``interval_coverage.py``.

Channels are known, or learned by the functions of ``headwater fit`` from a control log that is made up; rewards come from the
true ones, arms chosen by lot or by a policy. Of each run one value is looked at, drawn by its share half of the time, else by
lot; and whether all hold that are stated for all at once, now and (known channels) at all times. Runs in which no mix fits and
nothing is stated are counted apart.

    python benchmarks/coverage_mix.py [--cells TEXT] [--runs N] [--processes N] [--write]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import optimize, stats

import headwater as hw
from headwater import native
from headwater.arrays import Floats, Ints
from headwater.fitting.cells import Ends
from headwater.fitting.channels import find_strengths, make_channel, possible_levels
from headwater.fitting.effects import find_effects
from headwater.intervals import binomial_intervals, mean_intervals
from headwater.policies.evidence import evidence_of
from headwater.policies.inference import Holds, LatentLaw, Region, latent_law
from headwater.policies.posterior import posterior_draws
from headwater.policies.profile import Profile
from headwater.pseudo.channels import KNOWN, Channels, channels_of
from interval_cells import GRID, OURS, Outcome
from interval_coverage import failing

PAGE = Path(__file__).parent.parent / "docs" / "policies.md"
LEVEL = 0.95
DRAWN = 100
"""Runs in which a posterior is drawn: it takes longer than all the rest."""


@dataclass(frozen=True)
class Cell:
    """How many ``arms``, ``segments`` and ``levels`` of reward (0: each arm a table of three), rounds, and who chooses.

    ``rate`` is the share of rewards above zero where there are two levels. ``rows`` of the control log: None where channels are
    known. ``mix``: "any", drawn evenly; "few", all but two or three segments are absent; "one" segment only; "rare", most
    visitors are of the last segment, which in the control group is one in fifty. ``strange``: how far arms pay the public
    otherwise than the control group.
    """

    arms: int
    segments: int
    levels: int
    rate: float
    rounds: int
    chosen: str = "lot"
    rows: int | None = None
    mix: str = "any"
    rare: bool = False
    strange: float = 0.0
    runs: int = 1000

    def name(self) -> str:
        known = "known" if self.rows is None else f"{self.rows:,} rows{', a rare segment' if self.rare else ''}"
        paid = {0: "sure rewards", 2: f"rewards of {100 * self.rate:g} %"}.get(self.levels, f"{self.levels} levels")
        mix = {"any": "", "few": ", few segments come", "one": ", one segment comes", "rare": ", the rare one comes"}[self.mix]
        other = ", arms pay the public otherwise" if self.strange else ""
        return (
            f"{known}, {self.arms} arms by {self.chosen}, {self.segments} segments{mix}, {paid}{other}, {self.rounds:,} rounds"
        )


CELLS = {
    0: Cell(10, 2, 2, 0.001, 20_000),
    2: Cell(4, 5, 2, 0.3, 2_000, mix="few"),
    3: Cell(20, 40, 4, 0.5, 10_000, mix="one"),
    5: Cell(50, 40, 4, 0.5, 20_000),
    6: Cell(3, 5, 0, 0.5, 300, mix="few"),
    7: Cell(2, 2, 2, 0.5, 100, chosen="ucb1"),
    8: Cell(10, 5, 2, 0.3, 2_000, chosen="ucb1", runs=300),
    9: Cell(5, 5, 0, 0.5, 1_000, chosen="c-ucb", runs=300),
    11: Cell(10, 3, 2, 0.02, 20_000, chosen="joint-ucb", runs=300),
    12: Cell(2, 2, 2, 0.3, 500, chosen="ucb1", rows=500, runs=600),
    13: Cell(10, 3, 2, 0.3, 2_000, chosen="joint-ucb", rows=5_000, runs=300),
    14: Cell(10, 3, 4, 0.5, 20_000, rows=5_000, runs=600),
    15: Cell(10, 3, 4, 0.5, 20_000, rows=5_000, rare=True, runs=600),
    16: Cell(10, 3, 2, 0.3, 20_000, rows=5_000, rare=True, mix="rare", runs=600),
    17: Cell(50, 3, 2, 0.01, 20_000, rows=50_000, runs=300),
    18: Cell(20, 40, 4, 0.5, 20_000, rows=50_000, runs=300),
    19: Cell(4, 3, 3, 0.5, 20_000, rows=5_000, strange=0.02, runs=600),
}
"""By the number that its draws are made from: the whole grid has room for sixty cells."""


@dataclass
class Tally:
    """Of one kind of interval: which of each method held, their widths, and in how many runs nothing was stated."""

    hits: dict[str, list[bool]] = field(default_factory=dict)
    widths: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0

    def add(self, method: str, ends: Any, truth: Any) -> None:
        low, high, truth = (np.atleast_1d(x) for x in (*ends, truth))
        self.hits.setdefault(method, []).append(bool(np.all((low <= truth + 1e-9) & (truth <= high + 1e-9))))
        self.widths.setdefault(method, []).append(float(np.mean(high - low)))

    def coverage(self, method: str = OURS) -> float:
        return float(np.mean(self.hits[method]))

    def width(self, method: str = OURS) -> float:
        return float(np.median(self.widths[method]))

    def chance(self, method: str = OURS) -> float:
        """How likely so few would hold if one in a hundred fewer than stated did."""
        held = self.hits[method]
        return float(stats.binom.cdf(sum(held), len(held), LEVEL - 0.01))


# Made-up worlds.


def truth_of(cell: Cell, rng: np.random.Generator) -> Floats:
    """P(level), (K, J, M): arms and segments have effects, and so has each pair of them."""
    shape = (cell.arms, cell.segments)
    if cell.levels == 2:
        effects = rng.normal(size=(cell.arms, 1)), rng.normal(size=(1, cell.segments)), rng.normal(size=shape)
        rate = np.clip(cell.rate * np.exp(0.35 * effects[0] + 0.35 * effects[1] + 0.5 * effects[2]), 0, 0.95)
        return np.stack([1 - rate, rate], axis=2)
    if cell.levels == 0:
        return np.eye(3)[rng.integers(0, 3, shape)]
    return rng.dirichlet(np.ones(cell.levels), size=shape)


def mix_of(cell: Cell, rng: np.random.Generator) -> Floats:
    p = np.zeros(cell.segments)
    if cell.mix == "rare":
        return np.append(np.full(cell.segments - 1, 0.2 / (cell.segments - 1)), 0.8)
    if cell.mix == "any":
        return rng.dirichlet(np.ones(cell.segments))
    come = rng.choice(cell.segments, 1 if cell.mix == "one" else rng.integers(2, 4), replace=False)
    p[come] = rng.dirichlet(np.full(len(come), 3.0))
    return p


def known_problem(law: Floats) -> hw.Problem:
    levels = list(range(law.shape[2]))
    arms = {f"arm {k}": {"outcomes": levels, "probabilities": law[k].tolist()} for k in range(len(law))}
    return hw.Problem(latent=hw.Discrete([f"segment {j}" for j in range(law.shape[1])]), arms=arms)


def learned_problem(cell: Cell, law: Floats, rng: np.random.Generator) -> hw.Problem:
    """What the functions of ``headwater fit`` make of a log in which arms were given out by lot."""
    share = np.full(cell.segments, 1 / cell.segments)
    if cell.rare:
        share = np.append(np.full(cell.segments - 1, 0.98 / (cell.segments - 1)), 0.02)
    n = rng.multinomial((cell.rows or 0) // cell.arms, share, size=cell.arms)
    counts = rng.multinomial(n, law).astype(float)
    values = np.arange(law.shape[2], dtype=float)
    effects = find_effects(counts, *possible_levels(counts.sum(axis=1)))
    strengths = find_strengths(counts, effects.expected)
    ends = *binomial_intervals(counts, n[:, :, None]), *mean_intervals(values, counts, low=0.0, high=values[-1])
    arms = {}
    for k in range(cell.arms):
        channel = make_channel(
            counts[k], effects.base[k], effects.expected[k], float(strengths[k]), values, Ends(*(end[k] for end in ends)),
            effective=n[k].astype(float), least=10,
        )  # fmt: skip
        arms[f"arm {k}"] = {
            "outcomes": channel.outcomes.tolist(),
            "probabilities": channel.probabilities.tolist(),
            "observations": channel.effective.tolist(),
            "mean_high": np.clip(channel.mean_high, channel.mean, channel.outcomes.max()).tolist(),
        }
    return hw.Problem(latent=hw.Discrete([f"segment {j}" for j in range(cell.segments)]), arms=arms)


def rewards_of(
    cell: Cell, problem: hw.Problem, law: Floats, p: Floats, seed: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """How often each arm paid each of its rewards, (K, M), and which arms were doubted, (K,)."""
    values = channels_of(problem).values
    seen = np.zeros((cell.arms, max(map(len, values))), dtype=np.int64)
    if cell.chosen == "lot":
        for k in range(cell.arms):
            z = p @ law[k]
            z = rng.dirichlet(z / cell.strange + 1e-9) if cell.strange else z / z.sum()
            paid = rng.multinomial(cell.rounds // cell.arms, z)
            seen[k, : len(values[k])] = paid[values[k].astype(int)]
        return seen, np.zeros(cell.arms, dtype=np.int64)
    policy = hw.make_policy(cell.chosen, problem, seed=seed)
    number = {name: k for k, name in enumerate(policy.names)}
    who, luck, sums = rng.choice(cell.segments, cell.rounds, p=p), rng.random(cell.rounds), law.cumsum(axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hw.ModelWarning)
        for x, u in zip(who.tolist(), luck.tolist(), strict=True):
            arm = policy.select()
            m = int(np.searchsorted(sums[number[arm], x, :-1], u, side="right"))
            policy.update(arm, float(m))
    return policy.seen, np.array([name in policy.doubted for name in policy.names], dtype=np.int64)


# Other intervals.


class Plain(Profile):
    """The profile likelihood against one degree of freedom: neither corners nor few rewards are thought of."""

    def _end(self, of: native.Likelihood, g: Floats, look: Floats, confidence: float) -> float:
        return super()._end(of, g, np.zeros(2), confidence)

    def _outermost(
        self, of: native.Likelihood, counts: Floats, g: Floats, best: Floats, most: float, confidence: float, first: int
    ) -> tuple[Floats, int]:
        return self._law_at(of, counts, g, best, most, 0.5 * self._quantile(1, confidence)), first


class Release01(Region):
    """The laws that the forecast of each arm by itself has not refuted."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self.forecast = self.own


def errors_in_variables(profile: Profile, j: int) -> tuple[float, float]:
    """Least squares of frequencies on learned laws, with both covariances in full, against chi-square(1)."""
    rows, seen = [], []
    for k in profile.arms:
        own = profile.arm == k
        a, n, f = profile.matrices[k], profile.pulls[k], profile.counts[own] / profile.pulls[k]
        z = np.maximum(a @ profile.p, 1e-6)
        spread = (np.diag(z) - np.outer(z, z)) * (1 / n + profile.heterogeneity)
        if k in profile.unsure:
            spread = spread + profile.error(k, profile.p)
        size, way = np.linalg.eigh(spread)
        kept = size > 1e-9 * size.max()
        root = way[:, kept].T / np.sqrt(size[kept])[:, None]
        rows.append(root @ a)
        seen.append(root @ f)
    stacked, target, firm = np.concatenate(rows), np.concatenate(seen), 1e4 * max(np.abs(np.concatenate(rows)).max(), 1.0)
    share = np.zeros(len(profile.p))
    share[j] = 1.0

    def loss(psi: float | None) -> float:
        fixed = [np.ones(len(share))] if psi is None else [np.ones(len(share)), share]
        to = [1.0] if psi is None else [1.0, psi]
        p, _ = optimize.nnls(np.vstack([stacked, firm * np.array(fixed)]), np.append(target, firm * np.array(to)))
        return float(np.sum((stacked @ p - target) ** 2)) if psi is not None else float(p[j])

    at = min(max(loss(None), 0.0), 1.0)
    most, ends = loss(at) + stats.chi2.ppf(LEVEL, 1), []
    for far in (0.0, 1.0):
        inside, outside = at, far
        if loss(far) <= most:
            inside = far
        for _ in range(14 if inside != far else 0):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if loss(middle) <= most else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def others(channels: Channels, counts: Floats, learned: bool, j: int, p: Floats, tally: dict[str, Tally], run: int) -> None:
    """Other intervals of value j, and for all values."""
    each, always = tally["each"], tally.get("always")
    exact = channels._replace(observations=KNOWN)
    profile = Profile(exact, counts)
    each.add("chi-square(1)", Plain(channels, counts).interval([j], LEVEL), p[j])
    if learned:
        each.add("errors in variables", errors_in_variables(Profile(channels, counts), j), p[j])
        each.add("channels as if exact", profile.interval([j], LEVEL), p[j])
    if run < DRAWN:
        drawn = posterior_draws(exact, counts.astype(np.int64), alpha=0.5, draws=400, seed=run)[:, j]
        each.add("posterior", np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]), p[j])
    region = Release01(profile)
    ends = [region.interval([i], LEVEL) if region.slack(LEVEL) > 0 else (0.0, 1.0) for i in range(len(p))]
    each.add("release 0.1", ends[j], p[j])
    if always is not None:
        always.add("release 0.1", np.array(ends).T, p)


def measure(number: int, runs: int) -> dict[str, Tally]:
    """A cell's tallies, by what is to hold."""
    cell, rng = CELLS[number], np.random.default_rng([18, 3, number])
    kinds: tuple[Holds, ...] = ("each", "all") if cell.rows is not None else ("each", "all", "always")
    tally: dict[str, Tally] = {holds: Tally() for holds in kinds}
    for run in range(runs):
        law, p = truth_of(cell, rng), mix_of(cell, rng)
        problem = known_problem(law) if cell.rows is None else learned_problem(cell, law, rng)
        seen, doubted = rewards_of(cell, problem, law, p, run, rng)
        j = int(rng.choice(cell.segments, p=p) if rng.random() < 0.5 else rng.integers(cell.segments))
        labels = [str(i) for i in range(cell.segments)]
        for holds in kinds:
            found: LatentLaw = latent_law(evidence_of(problem), seen, labels, doubted, LEVEL, holds)
            if found.contradicted:
                tally[holds].refused += 1
                continue
            values = found.values if holds != "each" else found.values[j : j + 1]
            truth = p if holds != "each" else p[j : j + 1]
            tally[holds].add(OURS, ([v.low for v in values], [v.high for v in values]), truth)
        channels = channels_of(problem)
        counts = np.concatenate([seen[k, : len(v)] * (1 - doubted[k]) for k, v in enumerate(channels.values)]).astype(float)
        others(channels, counts, cell.rows is not None, j, p, tally, run)
    return tally


def outcomes(number: int, runs: int) -> dict[str, Outcome]:
    """The same as ``interval_coverage.py`` takes it."""
    return {
        holds: Outcome(
            {method: np.array(hits) for method, hits in tally.hits.items()},
            {method: np.array(widths) for method, widths in tally.widths.items()},
            tally.refused,
        )
        for holds, tally in measure(number, runs).items()
    }


for _number, _cell in CELLS.items():
    GRID.add("mix", _cell.name(), partial(outcomes, _number), runs=_cell.runs)


# The table.


def honest_methods(tallies: list[Tally]) -> set[str]:
    """The methods that fail nowhere, each over the cells that it stands in."""
    methods = {method for tally in tallies for method in tally.hits}
    return {m for m in methods if not any(failing([tally.chance(m) for tally in tallies if m in tally.hits]))}


def table(lines: list[tuple[Cell, str, Tally]]) -> list[str]:
    """A row for each cell and kind of interval; other methods with the part of our width that theirs is."""
    lines = [line for line in lines if OURS in line[2].hits]
    failed = failing([tally.chance() for _, _, tally in lines])
    heads = (
        "| channels, arms, segments, rewards | holds for | stated | no mix fits | hold | width | others: hold, at which part"
    )
    out = [f"{heads} of our width |", "|---|---|---:|---:|---:|---:|---|"]
    ratios: list[float] = []
    dishonest: set[str] = set()
    for kind in ("each", "all", "always"):
        tallies = [tally for _, holds, tally in lines if holds == kind]
        honest = honest_methods(tallies) | {OURS}
        dishonest |= {f"{method} ({kind})" for tally in tallies for method in tally.hits if method not in honest}
        ratios += [t.width() / max(min(t.width(m) for m in t.hits if m in honest), 1e-9) for t in tallies]
    for (cell, holds, tally), bad in zip(lines, failed, strict=True):
        mine = max(tally.width(), 1e-9)
        rest = ", ".join(f"{m} {tally.coverage(m):.0%} at {tally.width(m) / mine:.2f}" for m in tally.hits if m != OURS)
        stated = len(tally.hits[OURS])
        share = tally.refused / (stated + tally.refused)
        held = f"{tally.coverage():.1%}{' **too few**' if bad else ''}"
        out.append(f"| {cell.name()} | {holds} | {stated:,} | {share:.1%} | {held} | {tally.width():.2f} | {rest} |")
    lowest = min(tally.coverage() for _, _, tally in lines)
    out += [
        "",
        f"{sum(failed)} of {len(lines)} lines have too few; the lowest share is {lowest:.1%}. Other methods that have too few "
        f"somewhere: {', '.join(sorted(dishonest)) or 'none'}. Our median width is at most {max(ratios):.2f} times that of the "
        "narrowest honest method.",
    ]
    return out


def _measured(job: tuple[int, int]) -> tuple[dict[str, Tally], float]:
    return measure(*job), time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="", help="those cells only whose name has this text")
    parser.add_argument("--runs", type=int, help="runs a cell; by default each cell's own")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into docs/policies.md")
    options = parser.parse_args()
    jobs = [(i, options.runs or cell.runs) for i, cell in CELLS.items() if options.cells in cell.name()]
    lines: list[tuple[Cell, str, Tally]] = []
    with ProcessPoolExecutor(options.processes) as pool:
        for (i, _), (found, seconds) in zip(jobs, pool.map(_measured, jobs), strict=True):
            lines += [(CELLS[i], holds, tally) for holds, tally in found.items()]
            held = ", ".join(f"{holds} {t.coverage():.1%}" for holds, t in found.items() if OURS in t.hits)
            print(f"{CELLS[i].name()}: {held} ({seconds:.0f} s)", flush=True)
    text = "\n".join(table(lines))
    print(text)
    if options.write:
        begin, end = "<!-- coverage: mix -->\n", "<!-- end of coverage -->"
        head, rest = PAGE.read_text(encoding="utf-8").split(begin, 1)
        PAGE.write_text(f"{head}{begin}{text}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
    sys.exit(any(failing([tally.chance() for _, _, tally in lines if OURS in tally.hits])))


if __name__ == "__main__":
    main()
