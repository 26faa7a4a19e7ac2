"""Logs of made-up control groups whose truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints


class Log(NamedTuple):
    """``p`` (J,), ``law`` (K, J, M) over levels 0, 1, …; ``rows``: columns unit, arm, kind, reward, day and features."""

    p: Floats
    law: Floats
    rows: dict[str, Any]
    kind: Ints


def make_log(
    seed: int = 0, *, units: int = 1000, arms: int = 5, kinds: int = 3, levels: int = 3, seen: float = 0.5, noise: float = 0.0
) -> Log:
    """Every unit sees each arm with probability ``seen``; rewards are levels, plus uniform noise of that width."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(kinds, 5.0))
    law = rng.dirichlet(np.ones(levels), size=(arms, kinds))
    kind = rng.choice(kinds, units, p=p)
    unit, arm = np.nonzero(rng.random((units, arms)) < seen)
    level = (rng.random(len(unit))[:, None] > law.cumsum(axis=2)[arm, kind[unit]][:, :-1]).sum(axis=1)
    age = 20.0 + 20 * kind + rng.normal(0, 3, units)
    city = np.where(rng.random(units) < np.linspace(0.95, 0.05, kinds)[kind], "Rome", "Oslo")
    job, pet = (np.where(rng.random(units) < 0.9, kind, rng.integers(0, kinds, units)) for _ in range(2))
    rows = {
        "unit": [f"u{i:06d}" for i in unit],
        "arm": [f"arm {k}" for k in arm],
        "kind": [f"kind {j}" for j in kind[unit]],
        "reward": level + noise * rng.uniform(-0.5, 0.5, len(unit)),
        "day": rng.integers(0, 100, len(unit)),
        "age": age[unit],
        "city": city[unit].tolist(),
        "job": [f"job {j}" for j in job[unit]],
        "pet": [f"pet {j}" for j in pet[unit]],
    }
    return Log(p, law, rows, kind)
