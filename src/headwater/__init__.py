"""headwater finds the best of K options quickly when their outcomes share one hidden cause."""

from __future__ import annotations

from headwater.analysis import Analysis, analyze
from headwater.errors import ExpressionError, HeadwaterError, ProblemError, RewardError, SizeError
from headwater.files import load_problem
from headwater.latent import Continuous, Discrete, Interval, Vector
from headwater.problem import Problem
from headwater.pseudo import pseudo_reward

__all__ = [
    "Analysis",
    "Continuous",
    "Discrete",
    "ExpressionError",
    "HeadwaterError",
    "Interval",
    "Problem",
    "ProblemError",
    "RewardError",
    "SizeError",
    "Vector",
    "analyze",
    "load_problem",
    "pseudo_reward",
]

__version__ = "0.1.0"
