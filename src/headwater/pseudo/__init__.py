"""Pseudo-rewards: what one arm's reward says about the others, for every kind of X."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from headwater.arrays import Floats
from headwater.complaints import shown
from headwater.errors import ProblemError, RewardError
from headwater.latent import Continuous, Vector, listed
from headwater.problem import MAX_CELLS, Formula, Problem
from headwater.pseudo.box import Bound
from headwater.pseudo.factored import FactoredModel
from headwater.pseudo.finite import FiniteModel
from headwater.pseudo.model import Model
from headwater.pseudo.scalar import ScalarModel
from headwater.pseudo.vector import BoxModel

__all__ = ["Model", "model_of", "pseudo_bounds", "pseudo_reward"]

TOLERANCE = 1e-9
"""How far, as a part of an arm's reward range, an observed reward may be from one the arm can pay."""


def model_of(problem: Problem) -> Model:
    """The problem, compiled: made on first use and kept with it."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem: got {shown(problem)}; expected a Problem")
    return problem.remember("model", lambda: _compile(problem))


def _compile(problem: Problem) -> Model:
    latent = problem.latent
    if isinstance(latent, Continuous):
        return ScalarModel(problem)
    if isinstance(latent, Vector) and not latent.finite:
        return BoxModel(problem)
    small = listed(latent) and len(problem.arms) * latent.size <= MAX_CELLS
    formulas = all(isinstance(arm, Formula) for arm in problem.arms.values())
    return FiniteModel(problem) if small or (listed(latent) and not formulas) else FactoredModel(problem)


def pseudo_reward(
    problem: Problem, *, target: str | int, observed: str | int, reward: ArrayLike, tolerance: float = TOLERANCE
) -> float | Floats:
    r"""The most ``target`` could have paid in a round in which ``observed`` paid ``reward``: :math:`s_{\ell,k}(r)`.

    Vectorised over ``reward``. A reward within ``tolerance`` (a part of the arm's range) of one that the arm can pay counts
    as that one; any other is refused. Never below the truth. Where rewards are random: the most that ``target`` pays on
    average at any X at which ``observed`` can have paid ``reward``.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker", "retiree"]),
    ...                  arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]})
    >>> hw.pseudo_reward(ads, target="video", observed="banner", reward=2)
    1.5
    """
    model_of(problem)  # refuses what is not a problem
    ell, k = problem.index(target, "target"), problem.index(observed, "observed")
    s = pseudo_bounds(problem, k, reward, tolerance).upper[ell]
    return float(s[0]) if np.ndim(reward) == 0 else s.reshape(np.shape(reward))


def pseudo_bounds(problem: Problem, k: int, reward: ArrayLike, tolerance: float = TOLERANCE) -> Bound:
    """Every arm's pseudo-reward given that arm k paid ``reward``: an upper bound, and a value that is attained, (K, R).

    The two differ by more than rounding only for vectors with interval components whose arms are not linear.
    """
    model = model_of(problem)
    try:
        rewards = np.atleast_1d(np.asarray(reward, dtype=float)).ravel()
    except (TypeError, ValueError):
        raise RewardError(f"reward: got {shown(reward)}; expected a number") from None
    if not np.isfinite(rewards).all():
        raise RewardError(f"reward: got {rewards[~np.isfinite(rewards)][0]}; expected a finite number")
    if np.ndim(tolerance) or np.asarray(tolerance).dtype.kind not in "iuf" or not 0 <= tolerance < 1:
        raise RewardError(f"tolerance: got {shown(tolerance)}; expected a number from 0 to below 1")
    return model.bounds(k, model.snap(k, rewards, tolerance))
