"""headwater finds the best of K options quickly when their outcomes share one hidden cause.

Names are imported when they are first used, so that ``import headwater`` and ``headwater --help`` cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.analysis import Analysis, analyze
    from headwater.errors import (
        ClusterError,
        ExpressionError,
        HeadwaterError,
        ModelWarning,
        ProblemError,
        ResultsError,
        RewardError,
        SizeError,
    )
    from headwater.evaluation import Evaluation, LogEvaluation, evaluate
    from headwater.files import load_problem
    from headwater.fitting import Fit, fit
    from headwater.latent import Continuous, Discrete, Interval, Vector
    from headwater.policies import KLUCB, UCB1, Correlated, Policy, Thompson, from_state, make_policy
    from headwater.problem import Problem
    from headwater.pseudo import pseudo_reward
    from headwater.regret_bounds import Bounds, bounds
    from headwater.simulation import Simulation, load_simulation, simulate

__all__ = [
    "KLUCB",
    "UCB1",
    "Analysis",
    "Bounds",
    "ClusterError",
    "Continuous",
    "Correlated",
    "Discrete",
    "Evaluation",
    "ExpressionError",
    "Fit",
    "HeadwaterError",
    "Interval",
    "LogEvaluation",
    "ModelWarning",
    "Policy",
    "Problem",
    "ProblemError",
    "ResultsError",
    "RewardError",
    "Simulation",
    "SizeError",
    "Thompson",
    "Vector",
    "analyze",
    "bounds",
    "evaluate",
    "fit",
    "from_state",
    "load_problem",
    "load_simulation",
    "make_policy",
    "pseudo_reward",
    "simulate",
]

__version__ = "0.2.0"

_HOMES = {
    "analysis": ("Analysis", "analyze"),
    "errors": (
        "ClusterError",
        "ExpressionError",
        "HeadwaterError",
        "ModelWarning",
        "ProblemError",
        "ResultsError",
        "RewardError",
        "SizeError",
    ),
    "evaluation": ("Evaluation", "LogEvaluation", "evaluate"),
    "files": ("load_problem",),
    "fitting": ("Fit", "fit"),
    "latent": ("Continuous", "Discrete", "Interval", "Vector"),
    "policies": ("KLUCB", "UCB1", "Correlated", "Policy", "Thompson", "from_state", "make_policy"),
    "problem": ("Problem",),
    "pseudo": ("pseudo_reward",),
    "regret_bounds": ("Bounds", "bounds"),
    "simulation": ("Simulation", "load_simulation", "simulate"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    value = getattr(import_module(f"headwater.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
