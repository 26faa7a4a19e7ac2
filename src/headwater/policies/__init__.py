"""Policies: an index rule, perhaps under the paper's filter; written once, run live and simulated."""

from __future__ import annotations

from typing import Any

from headwater.policies.auto import AUTO, spec_for
from headwater.policies.explanation import ArmLine, Explanation
from headwater.policies.live import Correlated, Policy
from headwater.policies.rules import KLUCB, NAMES, UCB1, Spec, Thompson, make_spec, parse_spec, stored_spec
from headwater.policies.states import from_state
from headwater.problem import Problem

__all__ = [
    "AUTO",
    "KLUCB",
    "NAMES",
    "UCB1",
    "ArmLine",
    "Correlated",
    "Explanation",
    "Policy",
    "Spec",
    "Thompson",
    "from_state",
    "make_policy",
    "make_spec",
    "parse_spec",
    "spec_for",
    "stored_spec",
]


def make_policy(name: str, problem: Problem, *, reward_range: float | None = None, seed: int = 0, **options: Any) -> Policy:
    """A live policy by name, with its options; ``auto`` is the best there is for the problem.

    A policy with a filter (c-…) also takes ``reference`` and ``audit``; see ``Spec``.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker"]), arms={"banner": [1, 2], "video": [1.5, 0]})
    >>> hw.make_policy("ts", ads, posterior="beta", seed=7)
    <Policy ts (beta) on a problem: 0 rewards>
    """
    return Policy(spec_for(name, problem, **options), problem, reward_range=reward_range, seed=seed)
