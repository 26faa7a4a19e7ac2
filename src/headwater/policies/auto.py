"""A policy by its name on a problem: some defaults are the problem's to decide, and all of ``auto`` is."""

from __future__ import annotations

from headwater.complaints import shown
from headwater.errors import HeadwaterError, ProblemError
from headwater.policies.evidence import evidence_of
from headwater.policies.rules import AUDIT, Spec, make_spec, parse_options
from headwater.problem import Problem, Random

__all__ = ["AUTO", "is_learned", "spec_for"]

AUTO = "auto"
"""The policy for somebody who does not want to choose one: the winner of the comparison in docs/tournament.md."""


def is_learned(problem: object) -> bool:
    """Whether it is a problem in which what some arm pays was learned from data, and so may be wrong."""
    arms = problem.arms.values() if isinstance(problem, Problem) else ()
    return any(isinstance(arm, Random) and arm.observations is not None for arm in arms)


def spec_for(name: str | Spec, problem: Problem, **options: object) -> Spec:
    """A policy by its name and options, perhaps in one text; ``auto`` is decided by the problem.

    That is ``joint-ucb`` wherever the law of X can be learned, and an audited ``c-ts`` where the support is too large for that.
    Over tables that were learned from data, filters have an audit unless told otherwise; over given ones they are the paper's.

    >>> import headwater as hw
    >>> ads = hw.Problem(latent=hw.Discrete(["student", "worker"]), arms={"banner": [1, 2], "video": [1.5, 0]})
    >>> spec_for("auto", ads).title, spec_for("c-ucb:reference=well-pulled", ads).title
    ('joint-ucb', 'c-ucb (well-pulled)')
    """
    if isinstance(name, Spec):
        return name
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem: got {shown(problem)}; expected a Problem")
    if isinstance(name, str):
        name, said = parse_options(name)
        options = said | options
    if name == AUTO:
        return _auto(problem, options)
    defaults = {"audit": AUDIT} if str(name).startswith("c-") and is_learned(problem) else {}
    return make_spec(name, **{**defaults, **options})


def _auto(problem: Problem, options: dict[str, object]) -> Spec:
    try:
        evidence_of(problem)
    except HeadwaterError:
        try:
            return make_spec("c-ts", **{"audit": AUDIT, **options})
        except ProblemError as wrong:
            raise ProblemError(f"{wrong}. auto is c-ts here: the support is too large for joint-ucb") from None
    return make_spec("joint-ucb", **options)
