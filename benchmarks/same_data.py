"""What "each segment its best arm" seems to pay on the log it was learned from, and on a part of it that was held out.

    python benchmarks/same_data.py --write      # two minutes; the table in docs/evaluate.md

Logs of clicks at about 0.46 %, 34 arms, 10,000 events, 4 segments by lot: arms differ by a quarter, segments in nothing. Each
is learned from and evaluated as ``headwater fit`` and ``headwater evaluate`` do it, whole and with ``--hold-out 0.5``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import headwater as hw
from headwater.arrays import Floats

PAGE = Path(__file__).parent.parent / "docs" / "evaluate.md"
LOGS, EVENTS, ARMS, SEGMENTS = 40, 10_000, 34, 4
COLUMNS: dict[str, Any] = {"arm": "arm", "reward": "click", "segment": "segment"}
CHOICE = "each segment its best arm"


def log(seed: int) -> tuple[dict[str, Any], Floats]:
    """A log and the arms' rates."""
    rng = np.random.default_rng([18, 7, seed])
    rate = 0.0046 * np.exp(0.25 * rng.normal(size=ARMS))
    arm = rng.integers(0, ARMS, EVENTS)
    return {"arm": arm, "segment": rng.integers(0, SEGMENTS, EVENTS), "click": (rng.random(EVENTS) < rate[arm]) * 1}, rate


def claimed(seed: int, hold_out: float | None) -> tuple[float, float, bool]:
    """What the choice is estimated to pay by snips, what it pays, and whether the interval holds that."""
    rows, rate = log(seed)
    fit = hw.fit(rows, **COLUMNS, hold_out=hold_out)
    found = hw.evaluate(fit, rows, **COLUMNS, held_out=hold_out is not None, policies=["ucb1"], horizon=None, replications=2)
    assert isinstance(found, hw.LogEvaluation)
    best = [int(fit.arms[k]) for k in fit.problem.rewards.argmax(axis=0)]
    truth = float(rate[best].mean())  # segments are of one size
    (row,) = (row for row in found.estimates.rows if row.choice == CHOICE and row.method == "snips")
    return row.value, truth, row.low <= truth <= row.high


def main() -> None:
    lines = ["| evaluated on | estimated | truly | 95 % intervals that hold |", "|---|---:|---:|---:|"]
    for name, hold_out in (("the log it was learned from", None), ("the half that was held out", 0.5)):
        found = np.array([claimed(seed, hold_out) for seed in range(LOGS)])
        error = found[:, 0].std(ddof=1) / np.sqrt(LOGS)
        mean, truth, held = found.mean(axis=0)
        lines.append(f"| {name} | {100 * mean:.2f} % ± {100 * error:.2f} | {100 * truth:.2f} % | {held:.0%} |")
        print(lines[-1], flush=True)
    if "--write" in sys.argv:
        head, rest = PAGE.read_text(encoding="utf-8").split("<!-- same data -->\n", 1)
        tail = rest.split("<!-- end of same data -->", 1)[1]
        text = "\n".join(lines)
        PAGE.write_text(f"{head}<!-- same data -->\n{text}\n<!-- end of same data -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
