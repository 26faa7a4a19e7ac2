"""What one learner of the law of X knows, and the tools it works with.

Rows of the channels are *bins*: on a listed support every reward is its own bin; ``bins[k, m]`` says into which one arm k's
m-th reward falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.policies import kernel, programme, sampler
from headwater.policies.address import by_address
from headwater.policies.centre import HEAD, workspace_size
from headwater.policies.compile import compiled
from headwater.policies.evidence import Evidence
from headwater.policies.lens import Lens, make_lens
from headwater.policies.mind import Mind, contradiction, doubt, make_mind, relearn
from headwater.policies.rules import JointUCB, LatentThompson, Learning, Spec

__all__ = ["Learner", "check", "forget", "learner_for", "make_learner", "recall", "twin"]

# knobs: the guard's error rate (0: off), the prior's weight, the discount of explored rounds, moves of the sampler a round,
# whether bins hold many rewards, the zero and the width of the scale of means, and whether all excluded arms are audited
GUARD, PRIOR, DISCOUNT, MOVES, BINNED, ZERO, WIDTH, THOROUGH, KNOBS = range(9)


@by_address
class Learner(NamedTuple):
    """What one learner knows of the law of X, and the tools it works with.

    ``particle`` (J,) is the chain of ``latent-ts`` as of the last reward, ``draft`` (J + 1,) where it moves in which round,
    ``chain`` its workspace; ``rates`` (K,) the exploration rates of ``graves-lai``, ``plan`` their workspace, ``planned`` (J,)
    the law they were computed at, ``memory`` (J + K,) the last such law and its rates, ``held`` (2,) the round until which it
    pulls which arm without looking; ``course`` (J + K,) keeps what a look ahead must not change; ``spare`` (2, J) is room for
    two vectors that solving leaves alone, as it does not the lens's own; ``pays`` (K, M) the reward of each bin, ``audits``
    (K, 5) what is remembered of an arm's last audit.
    """

    lens: Lens
    mind: Mind
    bins: Ints
    knobs: Floats
    particle: Floats
    draft: Floats
    chain: Floats
    rates: Floats
    plan: Floats
    planned: Floats
    memory: Floats
    course: Floats
    held: Floats
    spare: Floats
    pays: Floats
    audits: Floats


def make_learner(
    evidence: Evidence,
    code: int,
    *,
    bins: Ints,
    guard: float = 0.0,
    prior: float = 1.0,
    discount: float = 0.0,
    tolerance: float = 0.0,
    thorough: bool = False,
    eager: bool = False,
) -> Learner:
    """A learner that knows nothing. Only the tools of the policy ``code`` get room."""
    channels = evidence.channels
    count, points = channels.g.shape
    rows, span = int(channels.offset[-1]), evidence.span if evidence.span > 0 else 1.0
    lens = make_lens(channels, evidence.low, span, tolerance)
    moves, binned = float(sampler.recommended_steps(points)), float(evidence.cells is not None)
    return Learner(
        lens,
        make_mind(lens, eager=eager),
        bins,
        np.array([guard, prior, discount, moves, binned, evidence.low, span, float(thorough)]),
        np.full(points, 1.0 / points),
        np.zeros(points + 1),
        np.zeros(workspace_size(points, rows) if code == kernel.LATENT_TS else 1),
        np.zeros(count),
        np.zeros(programme.workspace_size(count, points, rows) if code == kernel.GRAVES_LAI else 1),
        np.zeros(points),
        np.zeros(points + count),
        np.zeros(points + count),
        np.zeros(2),
        np.zeros((2, points)),
        evidence.rewards(),
        np.zeros((count, 5)),
    )


def learner_for(spec: Spec, evidence: Evidence, bins: Ints) -> Learner:
    """The learner of a policy by its name and options."""
    rule = spec.rule
    assert isinstance(rule, Learning)
    prior = rule.prior if isinstance(rule, LatentThompson) else 1.0
    discount = rule.discount if isinstance(rule, JointUCB) else 0.0
    tolerance = rule.tolerance if isinstance(rule, (JointUCB, LatentThompson)) else 0.0
    code = kernel.RULES[rule.code]
    if evidence.cells is not None and code != kernel.JOINT:
        raise ProblemError(f"policy: {rule.name} needs a support that is listed; use joint-ucb where X is continuous")
    return make_learner(
        evidence,
        code,
        bins=bins,
        guard=rule.guard,
        prior=prior,
        discount=discount,
        tolerance=tolerance,
        thorough=rule.audited == "all-arms",
    )


def twin(learner: Learner) -> Learner:
    """A copy, what it does leaves no trace in the original. Its solutions start afresh: they are a function of the counts."""
    mind = learner.mind._replace(**{name: value.copy() for name, value in learner.mind._asdict().items()})
    own = ("particle", "draft", "chain", "rates", "planned", "memory", "course", "held", "audits")
    copy = learner._replace(mind=mind, **{name: getattr(learner, name).copy() for name in own})
    check(copy)
    relearn(copy.lens, mind)
    return copy


@compiled
def forget(learner: Learner) -> None:
    """Back to knowing nothing."""
    learner.mind.n[:] = 0.0
    learner.mind.doubted[:] = 0
    learner.particle[:] = 1.0 / learner.particle.size
    learner.draft[0] = 0.0
    learner.chain[: min(HEAD, learner.chain.size)] = 0.0  # not prepared
    learner.planned[:] = 0.0
    learner.held[:] = 0.0
    learner.audits[:] = 0.0
    relearn(learner.lens, learner.mind)


@compiled
def recall(learner: Learner, seen: Ints) -> None:
    """Take the counts ``seen`` (K, M) for all that was observed; what is doubted stays so."""
    offset = learner.lens.offset
    for k in range(seen.shape[0]):
        for b in range(offset[k + 1] - offset[k]):
            learner.mind.n[offset[k] + b] = seen[k, b]
    learner.draft[0] = 0.0
    learner.held[:] = 0.0
    learner.audits[:] = 0.0
    relearn(learner.lens, learner.mind)


@compiled
def check(learner: Learner) -> None:
    """Let the guard look at the counts: doubt arms until what is left can be explained."""
    while learner.knobs[GUARD] > 0.0:
        k = contradiction(learner.lens, learner.mind, learner.knobs[GUARD])
        if k < 0:
            break
        doubt(learner.lens, learner.mind, k)
