"""The policy for somebody who does not want to choose one: the winner of the comparison in docs/tournament.md."""

from __future__ import annotations

from headwater.errors import HeadwaterError, ProblemError
from headwater.policies.evidence import evidence_of
from headwater.policies.rules import AUDIT, Spec, make_spec
from headwater.problem import Problem

__all__ = ["AUTO", "spec_for"]

AUTO = "auto"


def spec_for(name: str | Spec, problem: Problem, **options: object) -> Spec:
    """A policy by its name and options; ``auto`` is decided by the problem.

    That is ``joint-ucb`` wherever the law of X can be learned, and an audited ``c-ts`` where the support is too large for that.
    Whoever has not chosen a policy has hardly weighed how far to trust the model, so every excluded arm is audited.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker"]), arms={"banner": [1, 2], "video": [1.5, 0]})
    >>> spec_for("auto", ads).title
    'joint-ucb (all-arms)'
    """
    if isinstance(name, Spec):
        return name
    if name != AUTO:
        return make_spec(name, **options)
    try:
        evidence_of(problem)
    except HeadwaterError:
        try:
            return make_spec("c-ts", **{"audit": AUDIT, **options})
        except ProblemError as wrong:
            raise ProblemError(f"{wrong}. auto is c-ts here: the support is too large for joint-ucb") from None
    return make_spec("joint-ucb", **{"audited": "all-arms", **options})
