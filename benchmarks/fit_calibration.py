"""How often the intervals of ``headwater fit`` hold, on made-up control groups whose truth is known: a table in docs/fit.md.

Ten logs for each line: 12 arms, 3 kinds, 3 levels of reward, laws drawn uniformly at random. ``--dry`` only prints.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

import headwater as hw

PAGE = Path(__file__).parent.parent / "docs" / "fit.md"
ARMS, KINDS, LEVELS, LOGS = 12, 3, 3, 10


def coverage(units: int, seen: int, *, known: bool) -> tuple[float, float]:
    """The shares of 95 % intervals, of probabilities and of means, that hold the truth, when units see ``seen`` arms each."""
    laws, means = [], []
    for seed in range(LOGS):
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
        order = list(min(itertools.permutations(range(KINDS)), key=lambda o: abs(found - law[:, list(o)]).sum()))
        for channel, truth in zip(fit.channels, law[:, order], strict=True):
            laws.append(np.mean((channel.low <= truth) & (truth <= channel.high)))
            mean = truth @ channel.outcomes
            means.append(np.mean((channel.mean_low <= mean) & (mean <= channel.mean_high)))
    return float(np.mean(laws)), float(np.mean(means))


def main() -> None:
    lines = ["| segments | units | arms each saw | intervals of probabilities | of means |", "|---|---:|---:|---:|---:|"]
    for known, units, seen in ((True, 1000, 3), (False, 3000, 12), (False, 3000, 8), (False, 3000, 5), (False, 3000, 3)):
        laws, means = coverage(units, seen, known=known)
        lines.append(f"| {'known' if known else 'hidden'} | {units:,} | {seen} | {laws:.1%} | {means:.1%} |")
        print(lines[-1], flush=True)
    if "--dry" not in sys.argv:
        head, rest = PAGE.read_text(encoding="utf-8").split("<!-- calibration -->\n", 1)
        text, tail = "\n".join(lines), rest.split("<!-- end of calibration -->", 1)[1]
        PAGE.write_text(f"{head}<!-- calibration -->\n{text}\n<!-- end of calibration -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
