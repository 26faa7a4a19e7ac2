"""Policies: an index rule, perhaps under the paper's filter; written once, run live and simulated."""

from __future__ import annotations

from typing import Any

from headwater.policies.explanation import ArmLine, Explanation
from headwater.policies.live import Correlated, Policy
from headwater.policies.rules import KLUCB, NAMES, UCB1, Spec, Thompson, make_spec, parse_spec
from headwater.policies.states import from_state
from headwater.problem import Problem

__all__ = [
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
]


def make_policy(name: str, problem: Problem, *, reward_range: float | None = None, seed: int = 0, **options: Any) -> Policy:
    """A live policy by name: ucb1, c-ucb, kl-ucb, c-kl-ucb, ts or c-ts, with the options of its rule.

    A policy with a filter (c-…) also takes ``reference`` and ``audit``; see ``Spec``.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker"]), arms={"banner": [1, 2], "video": [1.5, 0]})
    >>> hw.make_policy("ts", ads, posterior="beta", seed=7)
    <Policy ts (beta) on a problem: 0 rewards>
    """
    return Policy(make_spec(name, **options), problem, reward_range=reward_range, seed=seed)
