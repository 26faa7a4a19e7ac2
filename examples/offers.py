"""Makes offers.csv, the log of a control group that docs/fit.md learns from: 600 visitors, three offers each, at random.

The truth behind it: three kinds of visitors, of which the log says nothing; age hints at the kind. To make it again:
``python examples/offers.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

OFFERS = ("free shipping", "gift card", "ten percent", "trial", "two for one")
BUYS = np.array([[0.50, 0.15, 0.30], [0.10, 0.45, 0.20], [0.25, 0.30, 0.55], [0.05, 0.40, 0.10], [0.60, 0.10, 0.15]])
SPENDS = np.array([[30, 20, 50], [25, 35, 40], [30, 25, 60], [10, 15, 10], [45, 20, 40]])


def make() -> str:
    """The text of the file."""
    rng = np.random.default_rng(11)
    lines = ["day,visitor,age_group,offer,spent"]
    for visitor in range(600):
        kind = int(rng.choice(3, p=[0.4, 0.35, 0.25]))
        age = ("18-34", "35-54", "55+")[kind if rng.random() < 0.8 else int(rng.integers(3))]
        for offer in rng.choice(len(OFFERS), 3, replace=False):
            bought = rng.random() < BUYS[offer, kind]
            spent = round(float(rng.gamma(4, SPENDS[offer, kind] / 4)), 2) if bought else 0
            lines.append(f"2026-03-{int(rng.integers(1, 29)):02d},v{visitor:03d},{age},{OFFERS[offer]},{spent}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "offers.csv").write_text(make(), encoding="utf-8")
