"""Made-up people who rate five drinks from 1 to 5, for docs/evaluate.md: a control group, others in two cities, and a log.

    python examples/drinks/make.py

Three kinds of people, whom no column names. The north has more of one kind, the south of another. The log showed one drink to
each visitor, by lot, lemonade more often than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headwater.arrays import Ints

HERE = Path(__file__).parent
DRINKS = ("tea", "milk", "juice", "lemonade", "coffee")
LIKED = np.array([[4.3, 3.0, 2.2, 2.8, 2.0], [2.0, 3.2, 4.0, 3.6, 3.4], [2.6, 2.4, 2.8, 3.3, 4.4]])
CITIES = {"north": (0.6, 0.3, 0.1), "south": (0.1, 0.3, 0.6)}
SHOWN = np.array([0.15, 0.15, 0.2, 0.3, 0.2])


def rate(kind: Ints, rng: np.random.Generator) -> Ints:
    """Ratings (people, drinks)."""
    liking = LIKED[kind] + rng.normal(0, 1.1, (len(kind), len(DRINKS)))
    return np.clip(np.rint(liking), 1, 5).astype(np.int64)


def write(name: str, heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    lines = [",".join(heads), *(",".join(map(str, row)) for row in rows)]
    (HERE / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    rng = np.random.default_rng(17)
    control = rate(rng.choice(3, 800), rng)
    write("control.csv", ("person", *DRINKS), [(f"c{i}", *row) for i, row in enumerate(control.tolist())])
    rows: list[tuple[object, ...]] = []
    for city, mix in CITIES.items():
        rows += [(f"{city}{i}", city, *row) for i, row in enumerate(rate(rng.choice(3, 400, p=mix), rng).tolist())]
    write("held_out.csv", ("person", "city", *DRINKS), rows)
    count = 4000
    ratings, arm = rate(rng.choice(3, count, p=CITIES["south"]), rng), rng.choice(len(DRINKS), count, p=SHOWN)
    log = [(i, DRINKS[k], int(ratings[i, k]), float(SHOWN[k])) for i, k in enumerate(arm.tolist())]
    write("log.csv", ("visit", "drink", "rating", "chance"), log)


if __name__ == "__main__":
    main()
