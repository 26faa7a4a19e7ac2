"""Random channels and counts for tests of everything that reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from headwater.arrays import Floats, Ints
from headwater.latent import Discrete
from headwater.problem import Problem
from headwater.pseudo.channels import Channels, channels_of


def random_problem(seed: int, count: int, points: int, *, noisy: float = 0.5, levels: int = 4) -> Problem:
    """K arms on J points; each is random with probability ``noisy``, else deterministic with at most ``levels`` rewards."""
    rng = np.random.default_rng(seed)
    arms: dict[str, Any] = {}
    for k in range(count):
        values = np.sort(rng.choice(np.arange(0, 21), size=levels, replace=False)) / 4
        if rng.random() < noisy:
            arms[f"arm {k}"] = {
                "outcomes": values.tolist(),
                "probabilities": rng.dirichlet(np.full(levels, 0.7), points).tolist(),
            }
        else:
            arms[f"arm {k}"] = values[rng.integers(0, levels, points)].tolist()
    return Problem(
        latent=Discrete([f"x{j}" for j in range(points)]), arms=arms, distribution=rng.dirichlet(np.ones(points)).tolist()
    )


def draw_counts(channels: Channels, p: Floats, pulls: Ints, seed: int) -> Floats:
    """Counts (R,) of what the arms pay when pulled so often under p."""
    rng = np.random.default_rng(seed)
    laws = [channels.matrix(k) @ p for k in range(len(pulls))]
    return np.concatenate([rng.multinomial(n, law / law.sum()) for n, law in zip(pulls, laws, strict=True)]).astype(float)


def stacked(channels: Channels) -> Floats:
    """All channels in full, shape (R, J)."""
    return np.vstack([channels.matrix(k) for k in range(len(channels.values))])


@st.composite
def channels_and_counts(draw: st.DrawFn, most_pulls: int = 2000) -> tuple[Channels, Floats, Floats]:
    """Channels, the law the counts came from, and the counts."""
    seed = draw(st.integers(0, 2**32 - 1))
    count, points = draw(st.integers(2, 4)), draw(st.integers(2, 8))
    channels = channels_of(random_problem(seed, count, points, noisy=draw(st.sampled_from([0.0, 0.5, 1.0]))))
    p = np.random.default_rng(seed).dirichlet(np.full(points, draw(st.sampled_from([0.2, 1.0]))))
    pulls = np.array([draw(st.integers(0, most_pulls)) for _ in range(count)])
    pulls[draw(st.integers(0, count - 1))] += 1
    return channels, p, draw_counts(channels, p, pulls, seed)
