"""Draws from the posterior of the law of X, whatever policy counted the rewards."""

from __future__ import annotations

import math

import numpy as np

from headwater import native, streams
from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.policies.channel_view import channel_view
from headwater.pseudo.channels import Channels

__all__ = ["posterior_draws"]

BURN_IN = 50
"""Rounds before the first draw."""


def posterior_draws(
    channels: Channels, counts: Ints, *, alpha: float = 1.0, draws: int, thin: int | None = None, seed: int = 0
) -> Floats:
    """Draws of p, shape (draws, J), from its posterior given ``counts`` (R,) of the channels' rows.

    The prior is Dirichlet with weight ``alpha`` on every point. The chain starts at the centre, is burnt in, and keeps every
    ``thin``-th step (by default enough for nearly independent draws).

    >>> import headwater as hw
    >>> from headwater.pseudo.channels import channels_of
    >>> ads = hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> p = posterior_draws(channels_of(ads), np.array([300, 700, 0, 0]), draws=1000)
    >>> p.shape, [round(float(x), 1) for x in (p[:, 0].mean(), p[:, 1].min(), p[:, 1].max())]
    ((1000, 3), [0.3, 0.0, 0.7])
    """
    atoms, rows = len(channels.start) - 1, int(channels.offset[-1])
    n = np.asarray(counts)
    if n.shape != (rows,) or n.dtype.kind not in "iu" or (n < 0).any():
        raise ProblemError(f"counts: got {shown(n)}; expected {rows} whole numbers >= 0, one for each row of the channels")
    if not (0 < alpha < math.inf):
        raise ProblemError(f"alpha: got {shown(alpha)}; expected a number > 0")
    thin = native.recommended_steps(atoms) * 4 if thin is None else thin
    if draws < 0 or thin < 1:
        raise ProblemError(f"draws, thin: got {draws}, {thin}; expected draws >= 0 and thin >= 1")
    streams.seed_words(seed)
    chain, out = native.PosteriorWalk(channel_view(channels), alpha=float(alpha)), np.empty((draws, atoms))
    chain.fill(out, n.astype(float), burn_in=BURN_IN, thin=thin, seed=seed)
    return out
