"""What the native core reads of a problem and of a policy: frozen arrays, and numbers."""

from __future__ import annotations

from headwater import native
from headwater.arrays import Ints
from headwater.errors import ProblemError
from headwater.policies.evidence import Evidence
from headwater.policies.rules import EpsilonGreedy, JointUCB, LatentThompson, Learning, Spec
from headwater.policies.table import Columns

__all__ = ["FILTERS", "model_of_rewards", "settings_of", "tolerance_of"]

FILTERS = {"none": 0, "most-pulled": 1, "well-pulled": 2}
"""The filters by number, as native/model.h has them."""


def settings_of(spec: Spec, *, scale: float, seed: int) -> native.Settings:
    """A policy's options; ``scale`` is B."""
    rule = spec.rule
    return native.Settings(
        rule=native.RULES[rule.code],
        seed=seed,
        scale=scale,
        sd=spec.sd(scale),
        audit=spec.audit,
        late=spec.schedule == "late",
        filtered=FILTERS[spec.reference],
        epsilon=rule.epsilon if isinstance(rule, EpsilonGreedy) else 0.0,
        guard=rule.guard if isinstance(rule, Learning) else 0.0,
        prior=rule.prior if isinstance(rule, LatentThompson) else 1.0,
        discount=rule.discount if isinstance(rule, JointUCB) else 0.0,
        thorough=isinstance(rule, Learning) and rule.audited == "all-arms",
    )


def model_of_rewards(
    spec: Spec,
    table: Ints,
    unit: float,
    low: float,
    span: float,
    *,
    bins: Ints | None = None,
    evidence: Evidence | None = None,
    random: native.Random | None = None,
    columns: Columns | None = None,
) -> native.Model:
    """A problem as a policy reads it: ``table`` (K, M, K + 1) of excesses and rewards in units, ``bins`` (K, M)."""
    rewards = native.Rewards(table, unit, low, span)
    if columns is not None:
        return native.Model(rewards, columns=columns.core)
    if not spec.learns:
        return native.Model(rewards, random=random)
    assert evidence is not None and bins is not None
    if evidence.cells is not None and not isinstance(spec.rule, JointUCB):
        raise ProblemError(f"policy: {spec.rule.name} needs a support that is listed; use joint-ucb where X is continuous")
    return native.Model(rewards, evidence=evidence.core(bins, tolerance_of(spec)))


def tolerance_of(spec: Spec) -> float:
    """By how many of their standard errors learned channels may be wrong."""
    rule = spec.rule
    return rule.tolerance if isinstance(rule, (JointUCB, LatentThompson)) else 0.0
