"""What regret is possible, in numbers where they take no time, and in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headwater.analysis import Analysis
from headwater.errors import HeadwaterError
from headwater.latent import Continuous, listed
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.finite import FiniteModel
from headwater.regret_bounds import Bounds, Confusing, bounds, theorems
from headwater.report.style import short

MOST = 2000
"""Arms times values of X up to which a report computes bounds unasked: seconds at the most."""
DUST = 1e-6
"""Rates below this part of the largest come from a solver's tolerance, and are shown as 0."""


def limits(problem: Problem) -> Bounds | None:
    """The bounds of a small listed problem under its own distribution; None where there are none, or they take time."""
    if not _exist(problem) or too_large(problem):
        return None
    try:
        return bounds(problem)
    except HeadwaterError:  # a law too extreme to be certain about: a report does without
        return None


def as_json(problem: Problem, analysis: Analysis, found: Bounds | None) -> dict[str, Any]:
    """What ``headwater analyze --json`` prints: the analysis, what the theorems say, and the bounds where there are any."""
    said = {} if analysis.mu is None else {"theorems": theorems(problem, analysis).to_dict()}
    return analysis.to_dict() | said | ({} if found is None else {"bounds": found.to_dict()})


def too_large(problem: Problem) -> bool:
    """Whether bounds exist that take more time than whoever did not ask for them would wait."""
    return _exist(problem) and problem.rewards.size > MOST


def _exist(problem: Problem) -> bool:
    return problem.distribution is not None and listed(problem.latent)


def rates(found: Bounds) -> dict[str, float]:
    """How often the cheapest exploration pulls each arm that is not best, per log T."""
    floor = DUST * max(found.exploration.values(), default=0.0)
    return {arm: c if c > floor else 0.0 for arm, c in found.exploration.items()}


def sentences(problem: Problem, found: Bounds) -> list[str]:
    """The constant, the exploration that attains it and the laws of X that force it."""
    if found.upper == 0:
        return ["No exploration is needed in the long run: the least regret any good policy can have is bounded."]
    out = [
        f"No policy that is good everywhere can have regret below {short(found.graves_lai)} × log T in the long run "
        "(the Graves–Lai constant).",
        f"The cheapest exploration that attains it: {_exploration(rates(found))}.",
    ]
    several = len({c.arm for c in found.confusing}) < len(found.confusing)
    shown = sorted(found.confusing, key=lambda c: -c.weight)[:3]
    out += [_confusion(problem, found.best, c, one_of_several=several) for c in shown]
    if len(found.confusing) > len(shown):
        out.append(f"{len(found.confusing) - len(shown)} more such laws have a part in it; --json lists them all.")
    return out


def _exploration(rate: dict[str, float]) -> str:
    pulled = sorted((arm for arm in rate if rate[arm]), key=lambda arm: -rate[arm])
    parts = [f"{short(rate[arm])} × log T pulls of {arm}" for arm in pulled[:6]]
    never = len(rate) - len(pulled)
    rest = [f"fewer of {len(pulled) - 6} more arms"] if len(pulled) > 6 else []
    others = [f"hardly any of {'the other' if never == 1 else f'the {never} others'}"] if never else []
    return listing([*parts, *rest, *others])


def _confusion(problem: Problem, best: Sequence[str], confusing: Confusing, *, one_of_several: bool) -> str:
    latent = problem.latent
    model = model_of(problem)
    assert isinstance(model, FiniteModel) and not isinstance(latent, Continuous) and problem.distribution is not None
    p = model.probabilities(problem.distribution)
    change = confusing.q - p
    order = np.argsort(-abs(change), kind="stable")
    moved = [int(j) for j in order if abs(change[j]) >= 0.005] or order[:1].tolist()
    parts = [f"{latent.label(j)} {p[j]:.2g} → {confusing.q[j]:.2g}" for j in moved[:6]]
    if len(moved) > 6:
        parts.append(f"{len(moved) - 6} more")
    lead = "Among the laws of X to be ruled out is one" if one_of_several else "What has to be ruled out is a law of X"
    return (
        f"{lead} with {'; '.join(parts)}: under it {confusing.arm} draws level with {listing(best)}, "
        f"whose own rewards do not show the difference."
    )


def listing(words: Sequence[str]) -> str:
    """Words as a sentence has them.

    >>> listing(["a"]), listing(["a", "b"]), listing(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
