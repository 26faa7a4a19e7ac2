"""How often what ``headwater fit`` states holds, through the whole of it, on logs whose truth is known: a table in docs/fit.md.

Control groups of 12 arms, 3 kinds and 3 levels of reward, ten logs a line, and four situations from practice, 100 logs a line.
And the two made populations of docs/jester.md, split in ten ways, where what is stated is held against the other half of the
people, as ``headwater evaluate`` does.
``--dry`` only prints; ``--quick`` takes a tenth of the logs and only prints.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import headwater as hw
from headwater.arrays import Floats
from headwater.evaluation.calibration import channel_calibration, read_stated
from headwater.evaluation.people import make_people
from held_out import continuum, kinds

PAGE = Path(__file__).parent.parent / "docs" / "fit.md"
ARMS, KINDS, LEVELS = 12, 3, 3
LOGS, MANY = (2, 10) if "--quick" in sys.argv else (10, 100)
Held = tuple[list[bool], list[bool]]
"""Which intervals hold: of probabilities, and of means."""
BEFORE = {
    "known segments, 1,000 units, 3 arms each": ("93.4%", "94.7%"),
    "hidden kinds, 3,000 units, 12 arms each": ("93.8%", "95.8%"),
    "hidden kinds, 3,000 units, 8 arms each": ("94.0%", "94.4%"),
    "hidden kinds, 3,000 units, 5 arms each": ("94.8%", "94.7%"),
    "hidden kinds, 3,000 units, 3 arms each": ("93.0%", "93.9%"),
    "clicks at 0.46 %, 34 arms, 10,000 events": ("", "73.7%"),
    "the same, arms that nobody clicked": ("", "0.0%"),
    "a rare segment with an effect of its own": ("", "0.2%"),
    "people with up to 30 rows in a cell, `--unit`": ("83.5%", "68.3%"),
    "the same without `--unit`": ("83.5%", "68.3%"),
    "six kinds of people, against held-out people": ("96%", "90%"),
    "people without kinds, against held-out people": ("97%", "92%"),
}
"""The same with release 0.1."""


def control_group(seed: int, units: int, seen: int, known: bool) -> Held:
    """Units that see ``seen`` arms each, by lot."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(LEVELS), size=(ARMS, KINDS))
    kind = rng.choice(KINDS, units, p=rng.dirichlet(np.full(KINDS, 5.0)))
    arm = np.argsort(rng.random((units, ARMS)), axis=1)[:, :seen].ravel()
    unit = np.repeat(np.arange(units), seen)
    reward = (rng.random(len(unit))[:, None] > law.cumsum(axis=2)[arm, kind[unit]][:, :-1]).sum(axis=1)
    log = {"unit": unit, "arm": arm, "kind": kind[unit], "reward": reward}
    if known:
        fit = hw.fit(log, arm="arm", reward="reward", segment="kind")
    else:
        fit = hw.fit(log, arm="arm", reward="reward", unit="unit", segments=KINDS)
    found = np.stack([channel.probabilities for channel in fit.channels])
    orders = itertools.permutations(range(KINDS))
    order = list(min(orders, key=lambda order: abs(found - law[:, list(order)]).sum()))
    laws, means = [], []
    for channel, truth in zip(fit.channels, law[np.array([int(name) for name in fit.arms])][:, order], strict=True):
        laws += ((channel.low <= truth) & (truth <= channel.high)).ravel().tolist()
        mean = truth @ channel.outcomes
        means += ((channel.mean_low <= mean) & (mean <= channel.mean_high)).tolist()
    return laws, means


def clicks(seed: int, silent: bool) -> Held:
    """A click rate of 0.46 %, 34 arms, 10,000 events; all arms, or those that nobody clicked."""
    rng = np.random.default_rng(seed)
    truth = 0.0046 * np.exp(0.25 * rng.normal(size=34))
    arm = rng.integers(0, 34, 10_000)
    log = {"arm": arm, "reward": (rng.random(10_000) < truth[arm]).astype(int), "who": ["everyone"] * 10_000}
    fit = hw.fit(log, arm="arm", reward="reward", segment="who")
    means = [
        bool(channel.mean_low[0] <= truth[int(name)] <= channel.mean_high[0])
        for name, channel in zip(fit.arms, fit.channels, strict=True)
        if not silent or (channel.counts @ channel.outcomes)[0] == 0
    ]
    return [], means


def rare_segment(seed: int) -> Held:
    """2 % are ill and see a doctor twice as often as others, under each of four insurances; means of theirs only."""
    rng = np.random.default_rng(seed)
    rate = np.array([3.0, 3.5, 4.0, 3.2])[:, None] * np.array([1.0, 1.1, 2.1])
    arm, ill = rng.integers(0, 4, 6000), rng.choice(3, 6000, p=[0.5, 0.48, 0.02])
    fit = hw.fit({"arm": arm, "reward": np.minimum(rng.poisson(rate[arm, ill]), 12), "ill": ill}, arm="arm", reward="reward",
                 segment="ill")  # fmt: skip
    paid = np.minimum(np.arange(200), 12)
    truth = [float(paid @ stats.poisson.pmf(np.arange(200), rate[int(name), 2])) for name in fit.arms]
    rows = zip(truth, fit.channels, strict=True)
    return [], [bool(channel.mean_low[2] <= mean <= channel.mean_high[2]) for mean, channel in rows]


def raters(seed: int, named: bool) -> Held:
    """80 people of two tempers rate 3 arms from 1 to 5, up to 30 times each; with ``--unit`` or without."""
    rng = np.random.default_rng(seed)
    temper, count = rng.integers(0, 2, 80), rng.integers(1, 31, (80, 3))
    who, arm = (np.repeat(axis, count.ravel()) for axis in np.indices((80, 3)).reshape(2, -1))
    law = np.array([[0.1, 0.2, 0.3, 0.2, 0.2], [0.4, 0.3, 0.1, 0.1, 0.1]])
    reward = 1 + (rng.random(len(who))[:, None] > law[temper[who]].cumsum(axis=1)[:, :-1]).sum(axis=1)
    log = {"arm": arm, "reward": reward, "who": who, "all": ["everyone"] * len(who)}
    fit = hw.fit(log, arm="arm", reward="reward", segment="all", unit="who" if named else None)
    probability = law.mean(axis=0)
    mean = probability @ np.arange(1, 6)
    laws: list[bool] = []
    for channel in fit.channels:
        laws += ((channel.low[0] <= probability) & (probability <= channel.high[0])).tolist()
    return laws, [bool(channel.mean_low[0] <= mean <= channel.mean_high[0]) for channel in fit.channels]


def held_out_people(ratings: Floats, names: list[str], seed: int) -> Held:
    """The split of ``run_trial``: which cells and means hold on the other half, each for itself."""
    order = np.random.default_rng([seed, 1]).permutation(len(ratings))
    control, rest = np.array_split(ratings[order], 2)
    fit = hw.fit({name: control[:, k] for k, name in enumerate(names)}, wide=True, seed=seed)
    people = make_people(fit.problem, rest[:, [names.index(name) for name in fit.arms]])
    stated = read_stated(fit.evidence(), people)
    assert stated is not None
    arms = channel_calibration(people, stated).arms
    laws, means = (
        np.concatenate([np.ravel(part) for part in parts]) for parts in zip(*((a.cells, a.means) for a in arms), strict=True)
    )
    return laws.tolist(), means.tolist()


def lines() -> list[tuple[str, int, Callable[[int], Held]]]:
    """What is measured, in how many logs, and one log of it by its seed."""
    out: list[tuple[str, int, Callable[[int], Held]]] = []
    for known, units, seen in ((True, 1000, 3), (False, 3000, 12), (False, 3000, 8), (False, 3000, 5), (False, 3000, 3)):
        name = f"{'known segments' if known else 'hidden kinds'}, {units:,} units, {seen} arms each"
        out.append((name, LOGS, lambda seed, a=(units, seen, known): control_group(seed, *a)))  # type: ignore[misc]
    out.append(("clicks at 0.46 %, 34 arms, 10,000 events", MANY, lambda seed: clicks(seed, silent=False)))
    out.append(("the same, arms that nobody clicked", MANY, lambda seed: clicks(seed, silent=True)))
    out.append(("a rare segment with an effect of its own", MANY, rare_segment))
    out.append(("people with up to 30 rows in a cell, `--unit`", MANY, lambda seed: raters(seed, named=True)))
    out.append(("the same without `--unit`", MANY, lambda seed: raters(seed, named=False)))
    for name, population in (("six kinds of people", kinds()), ("people without kinds", continuum())):
        once = partial(held_out_people, *population)
        out.append((f"{name}, against held-out people", LOGS, once))
    return out


def share(held: list[Any]) -> str:
    return f"{np.mean(held):.1%}" if held else ""


def main() -> None:
    table = [
        "| log | intervals of probabilities | of means | release 0.1: probabilities | means |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, logs, once in lines():
        found = [once(seed) for seed in range(logs)]
        laws, means = (share(list(itertools.chain(*part))) for part in zip(*found, strict=True))
        before = BEFORE.get(name, ("", ""))
        table.append(f"| {name} | {laws} | {means} | {before[0]} | {before[1]} |")
        print(table[-1], flush=True)
    if not {"--dry", "--quick"} & set(sys.argv):
        head, rest = PAGE.read_text(encoding="utf-8").split("<!-- calibration -->\n", 1)
        text, tail = "\n".join(table), rest.split("<!-- end of calibration -->", 1)[1]
        PAGE.write_text(f"{head}<!-- calibration -->\n{text}\n<!-- end of calibration -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
