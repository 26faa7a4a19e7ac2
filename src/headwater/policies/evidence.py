"""Policies that read the whole table of counts as evidence on the law of X: one decision, one observation, compiled.

``joint-ucb`` pulls the arm of largest joint index (``joint``); ``latent-ts`` the best arm under a draw from the posterior of
the law of X (``sampler``); ``graves-lai`` the likeliest law's best arm, unless some law that the counts allow makes another
one best: then it explores at the rates of the Graves-Lai programme (``programme``). All three share the guard against a wrong
model (``joint``) and the audit (``_audit``).

The state is that of ``kernel`` and a ``Learner``. Rows of the channels are *bins*: on a listed support every reward is its own
bin; ``bins[k, m]`` says into which one arm k's m-th reward falls. ``seen`` (K, M) counts by bin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import Bools, Floats, Ints, nearest
from headwater.errors import ProblemError
from headwater.policies import indices, joint, kernel, programme, sampler
from headwater.policies.compile import compiled
from headwater.policies.joint import Mind, contradiction, decide, doubt, make_mind, relearn, witness
from headwater.policies.likelihood import Lens, climb, log_likelihood, make_lens, through, tilt_slope
from headwater.policies.rules import JointUCB, LatentThompson, Learning, Spec
from headwater.problem import Problem
from headwater.pseudo import model_of
from headwater.pseudo.cells import Cells, cells_of
from headwater.pseudo.channels import Channels, channels_of
from headwater.pseudo.finite import FiniteModel
from headwater.pseudo.scalar import ScalarModel

__all__ = [
    "Evidence",
    "Learner",
    "check",
    "choose",
    "count_ruled_out",
    "evidence_of",
    "expecting",
    "forget",
    "learn",
    "learner_for",
    "make_learner",
    "plan",
    "recall",
    "step",
]

MAX_ENTRIES = 30_000_000
"""Rows × (arms + 1), and points squared: 0.24 GB for each of the tables a learner keeps."""

# knobs: the guard's error rate (0: off), the prior's weight, the discount of explored rounds, moves of the sampler a round,
# whether bins hold many rewards, and the zero and the width of the scale of means
GUARD, PRIOR, DISCOUNT, MOVES, BINNED, ZERO, WIDTH, KNOBS = range(8)

_kl_ucb = compiled(indices.kl_ucb_index)
_kl_empirical = compiled(indices.kl_empirical_index)
_kl_needed = compiled(indices.kl_needed)
_quantile = compiled(indices.normal_quantile)
_open_unit = compiled(streams.to_open_unit)
_mean = compiled(indices.empirical_mean)
_root = compiled(indices.reciprocal_root)


class Evidence(NamedTuple):
    """How a problem's rewards bear on its law: channels to bins, the scale of means, and ``cells`` where X is continuous."""

    channels: Channels
    low: float
    span: float
    cells: Cells | None

    def bin(self, k: int, rewards: Floats) -> Ints:
        """The bins of arm k's rewards."""
        if self.cells is not None:
            return self.cells.bin(k, rewards)
        return nearest(self.channels.values[k], rewards)

    def possible(self, k: int, size: int) -> Bools:
        """Which of ``size`` bins arm k pays into somewhere."""
        low, high = self.channels.offset[k : k + 2]
        out = np.zeros(size, dtype=bool)
        rows = self.channels.row[(self.channels.row >= low) & (self.channels.row < high)]
        out[rows - low] = True
        return out

    def rewards(self) -> Floats:
        """The bins' rewards (K, M), rows padded; the upper ends of bins that hold many."""
        channels = self.channels
        out = np.zeros((len(channels.values), max(map(len, channels.values))))
        for k, row in enumerate(channels.values):
            out[k, : len(row)] = row
        if self.cells is not None:
            arm = np.searchsorted(channels.offset, channels.row, side="right") - 1
            atom = np.repeat(np.arange(channels.g.shape[1]), np.diff(channels.start))
            out[arm, channels.row - channels.offset[arm]] = channels.g[arm, atom]
        return out

    def bins(self, values: Sequence[Floats]) -> Ints:
        """The bins of every arm's rewards ``values[k]`` (M_k,), shape (K, M), rows padded."""
        out = np.zeros((len(values), max(map(len, values))), dtype=np.int64)
        for k, row in enumerate(values):
            out[k, : len(row)] = self.bin(k, row)
        return out


def evidence_of(problem: Problem) -> Evidence:
    """What joint policies read, made on first use and kept with the problem; refuses supports that are too large."""
    return problem.remember("evidence", lambda: _evidence(problem))


def _evidence(problem: Problem) -> Evidence:
    model, cells = model_of(problem), None
    if isinstance(model, FiniteModel):
        channels = channels_of(problem)
    elif isinstance(model, ScalarModel):
        cells = cells_of(problem, model)
        channels = cells.channels
    else:
        raise ProblemError(
            "policy: joint policies need a support that is listed, or a continuous scalar X; use c-ucb for this vector, "
            "or give its components values instead of intervals"
        )
    count, points = channels.g.shape
    rows = int(channels.offset[-1])
    if max(rows * (count + 1), points * points) > MAX_ENTRIES:
        raise ProblemError(
            f"policy: {count} arms with {rows:,} different rewards on {points:,} points are too many for joint policies; "
            "use c-ucb, or merge points or rewards that are alike"
        )
    low = float(channels.g.min())
    return Evidence(channels, low, float(channels.g.max()) - low, cells)


class Learner(NamedTuple):
    """What one learner knows of the law of X, and the tools it works with.

    ``particle`` (J,) is the chain of ``latent-ts`` as of the last reward, ``draft`` (J + 1,) where it moves in which round,
    ``chain`` its workspace; ``rates`` (K,) the exploration rates of ``graves-lai``, ``plan`` their workspace, ``planned`` (J,)
    the law they were computed at, ``tilts`` (K, J + 1) each rival's last tilt and law, ``held`` (2,) the round until which it
    pulls which arm without looking.
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
    tilts: Floats
    held: Floats
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
    eager: bool = False,
) -> Learner:
    """A learner that knows nothing. Only the tools of the policy ``code`` get room."""
    channels = evidence.channels
    count, points = channels.g.shape
    rows, span = int(channels.offset[-1]), evidence.span if evidence.span > 0 else 1.0
    lens = make_lens(channels, evidence.low, span)
    moves, binned = float(sampler.recommended_steps(points)), float(evidence.cells is not None)
    return Learner(
        lens,
        make_mind(lens, eager=eager),
        bins,
        np.array([guard, prior, discount, moves, binned, evidence.low, span]),
        np.full(points, 1.0 / points),
        np.zeros(points + 1),
        np.zeros(sampler.workspace_size(points, rows) if code == kernel.LATENT_TS else 1),
        np.zeros(count),
        np.zeros(programme.workspace_size(count, points, rows) if code == kernel.GRAVES_LAI else 1),
        np.zeros(points),
        np.zeros((count, points + 1)),
        np.zeros(2),
        evidence.rewards(),
        np.zeros((count, 3)),
    )


def learner_for(spec: Spec, evidence: Evidence, bins: Ints) -> Learner:
    """The learner of a policy by its name and options."""
    rule = spec.rule
    assert isinstance(rule, Learning)
    prior = rule.prior if isinstance(rule, LatentThompson) else 1.0
    discount = rule.discount if isinstance(rule, JointUCB) else 0.0
    code = kernel.RULES[rule.code]
    if evidence.cells is not None and code != kernel.JOINT:
        raise ProblemError(f"policy: {rule.name} needs a support that is listed; use joint-ucb where X is continuous")
    return make_learner(evidence, code, bins=bins, guard=rule.guard, prior=prior, discount=discount)


def expecting(learner: Learner, pending: Ints) -> Learner:
    """A copy that expects its pending pulls (K,) to pay what the likeliest law says, so that other arms get a turn.

    What it does leaves no trace in the original. Its solutions start afresh, so that they are a function of the counts alone.
    """
    mind = learner.mind._replace(**{name: value.copy() for name, value in learner.mind._asdict().items()})
    own = ("particle", "draft", "chain", "rates", "planned", "tilts", "held", "audits")
    copy = learner._replace(mind=mind, **{name: getattr(learner, name).copy() for name in own})
    check(copy)
    relearn(copy.lens, mind)
    if pending.any():
        z = np.zeros(len(mind.n))
        through(copy.lens, joint.likeliest(copy.lens, mind), z)
        mind.n[:] += z * np.repeat(pending, np.diff(copy.lens.offset))
        relearn(copy.lens, mind)
        copy.held[:] = 0.0
    return copy


@compiled
def forget(learner: Learner) -> None:
    """Back to knowing nothing."""
    learner.mind.n[:] = 0.0
    learner.mind.doubted[:] = 0
    learner.particle[:] = 1.0 / learner.particle.size
    learner.draft[0] = 0.0
    learner.chain[: min(sampler.HEAD, learner.chain.size)] = 0.0  # not prepared
    learner.planned[:] = 0.0
    learner.tilts[:] = 0.0
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


@compiled
def _own_index(
    k: int, log_t: float, params: Floats, counts: Ints, mean: Floats, seen: Ints, table: Ints, learner: Learner
) -> float:
    """Arm k's index from its own rewards alone."""
    n = counts[kernel.PULLS, k] + counts[kernel.PENDING, k]
    if counts[kernel.PULLS, k] == 0 or learner.knobs[BINNED] > 0.0:
        return _kl_ucb(mean[k], float(n), log_t, params[kernel.LOW], params[kernel.SPAN])
    levels = learner.lens.offset[k + 1] - learner.lens.offset[k]
    return float(params[kernel.UNIT] * _kl_empirical(seen[k, :levels], table[k, :levels, mean.size], n, log_t))


@compiled
def _move(meta: Ints, learner: Learner) -> Floats:
    """The draw (J,) of the law of X for this round: where the chain moves, which it does once a round, whoever asks how often.

    The chain itself follows with the reward (``learn``): what it is depends on the rewards alone.
    """
    lens, mind, knobs, particle = learner.lens, learner.mind, learner.knobs, learner.draft[1:]
    t, run, k0, k1 = meta[kernel.ROUND] + 1, meta[kernel.REPLICATION], meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
    if learner.draft[0] != t:
        learner.draft[0], particle[:] = t, learner.particle
        moves = int(knobs[MOVES])
        sampler.walk(moves, lens.start, lens.row, lens.weight, mind.n, knobs[PRIOR], particle, learner.chain, t, run, k0, k1)
    return particle


@compiled
def _draw_means(meta: Ints, params: Floats, mean: Floats, root: Floats, learner: Learner, index: Floats) -> int:
    """Every arm's mean under one draw of the law of X; a doubted arm's from its own rewards. Returns the best arm."""
    lens, mind, knobs, particle = learner.lens, learner.mind, learner.knobs, _move(meta, learner)
    t, run, k0, k1 = meta[kernel.ROUND] + 1, meta[kernel.REPLICATION], meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
    best = 0
    for k in range(index.size):
        x = 0.0
        if mind.doubted[k]:
            u, _ = kernel.uniforms(t, run, streams.NORMAL, k, k0, k1)
            x = (mean[k] + params[kernel.SD] * root[k] * _quantile(_open_unit(u)) - knobs[ZERO]) / knobs[WIDTH]
        else:
            for j in range(particle.size):
                x += lens.g[k, j] * particle[j]
        index[k] = x
        if x > index[best]:
            best = k
    return best


@compiled
def _plausible(lens: Lens, n: Floats, h: Floats, limit: float, best: float, tilt: Floats, z: Floats) -> bool:
    """Whether some law with ``h·p >= 0`` has a likelihood less than ``limit`` below ``best``.

    That drop is the largest D(theta) = best - max_p (L + theta h·p), whose slope is -h·p at the maximiser: Newton's method on
    the slope, until D settles it one way or p does it the other. ``tilt`` (J + 1,) keeps theta and p for the next time.
    """
    p, size = tilt[1:], h.size
    if tilt[0] <= 0.0:
        tilt[0], p[:] = 1.0, 1.0 / size
    low, high, theta = 0.0, np.inf, tilt[0]
    for j in range(size):
        p[j] = 0.999 * p[j] + 0.001 / size
    for _ in range(60):
        climb(lens, n, h, theta, 1e-7, p, z)
        lead = 0.0
        for j in range(size):
            lead += h[j] * p[j]
        likelihood = log_likelihood(n, z)
        tilt[0] = theta
        if best - likelihood - theta * lead >= limit:
            return False
        if lead >= 0.0 and best - likelihood < limit:
            return True
        if lead < 0.0:
            low = theta
        else:
            high = theta
        slope = tilt_slope(lens, n, h, p, z)
        following = theta - lead / slope if slope > 0.0 else 4.0 * theta
        if not low < following < high or following > 30.0 * theta:
            following = 0.5 * (low + high) if high < np.inf else 8.0 * theta
        if abs(following - theta) <= 1e-12 * theta or theta > 1e15:
            break
        theta = following
    return False


@compiled
def plan(learner: Learner) -> None:
    """The exploration rates at the law ``planned``."""
    lens = learner.lens
    programme.rates(lens.start, lens.row, lens.weight, lens.offset, lens.g, learner.planned, learner.rates, learner.plan)


@compiled
def _explore(meta: Ints, counts: Ints, learner: Learner, index: Floats) -> int:
    """``graves-lai``: the likeliest law's best arm, unless a plausible law favours a rival; then an arm short of its rate.

    Plausible: a likelihood less than f = log(1 + t/(1 + E)) below the largest, E the pulls of arms other than the best. The
    rates are those at the likeliest law with half a reward spread over all points, solved anew when that law moved. An arm
    that was pulled more often than the best is not explored: an early, tiny gap would ask for it without end.

    Several laws may be likeliest. The one found from the uniform law is taken, so that the choice is that of the counts.
    """
    lens, mind, arms, size = learner.lens, learner.mind, index.size, learner.planned.size
    t = meta[kernel.ROUND]
    if t < learner.held[0] and mind.whole[joint.EAGER] == 0.0:
        return int(learner.held[1])
    mind.laws[arms] = 1.0 / size
    mind.whole[joint.FRESH] = -1.0
    law = joint.likeliest(lens, mind)
    best, z, h = 0, mind.z, lens.atoms[3]
    for k in range(arms):
        x = 0.0
        for j in range(size):
            x += lens.g[k, j] * law[j]
        index[k] = max(x, mind.own[k]) if mind.doubted[k] else x
        if index[k] > index[best]:
            best = k
    limit = math.log1p(t / (1.0 + t - counts[kernel.PULLS, best]))
    settled = True
    for k in range(arms):
        if k != best and not mind.doubted[k] and settled and mind.whole[joint.TOTAL] > 0.0 and not mind.doubted[best]:
            for j in range(size):
                h[j] = lens.g[k, j] - lens.g[best, j]
            learner.tilts[k, 0] = 0.0  # from the beginning, so that the choice is that of the counts
            settled = not _plausible(lens, mind.n, h, limit, mind.whole[joint.BEST], learner.tilts[k], z)
    chosen = best
    if not settled:
        share, moved = min(0.5 / (t + 1.0), 0.5 / size), 0.0
        for j in range(size):
            h[j] = (1.0 - size * share) * law[j] + share
            moved = max(moved, abs(h[j] - learner.planned[j]))
        if moved > 0.005:
            learner.planned[:] = h
            plan(learner)
        most = 0.0
        for k in range(arms):
            n, due = counts[kernel.PULLS, k] + counts[kernel.PENDING, k], learner.rates[k] * limit
            if k != best and n < due and n <= counts[kernel.PULLS, best] and due / (n + 0.5) > most:
                chosen, most = k, due / (n + 0.5)
    for k in range(arms):
        index[k] = learner.knobs[ZERO] + learner.knobs[WIDTH] * index[k]
    if t < learner.held[0]:
        return int(learner.held[1])
    if chosen == best:
        learner.held[0], learner.held[1] = t + max(1.0, 0.02 * t), best
    return chosen


@compiled
def choose(
    meta: Ints,
    params: Floats,
    counts: Ints,
    mean: Floats,
    root: Floats,
    index: Floats,
    seen: Ints,
    table: Ints,
    learner: Learner,
) -> int:
    """The arm to pull; leaves every arm's index. May doubt an arm first."""
    mind, knobs, log_t = learner.mind, learner.knobs, math.log(meta[kernel.ROUND] + 1.0)
    delta = log_t
    check(learner)
    for k in range(index.size):
        mind.own[k] = np.inf
        if mind.doubted[k] or knobs[BINNED] > 0.0:
            own = _own_index(k, log_t, params, counts, mean, seen, table, learner)
            mind.own[k] = (own - knobs[ZERO]) / knobs[WIDTH]
    if meta[kernel.POLICY] == kernel.LATENT_TS:
        arm = _draw_means(meta, params, mean, root, learner, index)
    elif meta[kernel.POLICY] == kernel.GRAVES_LAI:
        arm = _explore(meta, counts, learner, index)
    else:
        most = 0
        for k in range(index.size):
            most = max(most, counts[kernel.PULLS, k])
        delta = log_t - knobs[DISCOUNT] * math.log(max(meta[kernel.ROUND] + 1.0 - most, 1.0))
        arm = decide(learner.lens, mind, delta)
        for k in range(index.size):
            index[k] = mind.arms[k, joint.BOUND]
    if meta[kernel.POLICY] != kernel.GRAVES_LAI:  # which looks at them now and then only
        for k in range(index.size):
            index[k] = knobs[ZERO] + knobs[WIDTH] * index[k]
    if params[kernel.AUDIT] > 0.0:
        arm = _audit(arm, log_t, delta, meta, params, counts, mean, seen, learner)
    meta[kernel.CHOSEN] = arm
    return arm


@compiled
def count_ruled_out(meta: Ints, learner: Learner, index: Floats, out: Ints) -> None:
    """Add 1 for every arm whose joint index is below the mean that the likeliest law gives the best arm."""
    if meta[kernel.POLICY] != kernel.JOINT or learner.mind.whole[joint.TOTAL] == 0.0:
        return
    arms, best = learner.mind.arms, -np.inf
    for k in range(index.size):
        if not learner.mind.doubted[k]:
            best = max(best, arms[k, joint.BASE])
    for k in range(index.size):
        out[k] += 1 if arms[k, joint.BOUND] < best and not learner.mind.doubted[k] else 0


@compiled
def _short_of(k: int, bar: float, budget: float, counts: Ints, seen: Ints, learner: Learner) -> float:
    """How much evidence of its own speaks against arm k reaching ``bar``: ``kl_needed``, or +inf where it is above ``budget``.

    What it takes to reach a lower bar is remembered: while the arm is not pulled and the budget stays below that, nothing
    need be computed.
    """
    n, kept = counts[kernel.PULLS, k] + counts[kernel.PENDING, k], learner.audits[k]
    if n == 0:
        return 0.0
    if kept[0] == n and bar >= kept[1] and budget < kept[2]:
        return np.inf
    bins = learner.lens.offset[k + 1] - learner.lens.offset[k]
    need = _kl_needed(seen[k, :bins], learner.pays[k, :bins], bar)
    if need <= budget:
        return need
    kept[0], kept[1] = n, bar - 0.01 * learner.knobs[WIDTH]
    kept[2] = _kl_needed(seen[k, :bins], learner.pays[k, :bins], kept[1])
    return np.inf


@compiled
def _audit(
    arm: int,
    log_t: float,
    delta: float,
    meta: Ints,
    params: Floats,
    counts: Ints,
    mean: Floats,
    seen: Ints,
    learner: Learner,
) -> int:
    """The arm to pull instead of ``arm``, if any: one that its own rewards speak against by at most the audit's budget.

    As ``kernel.audited``, but by the arm's own law of rewards, which is sharper than a coin's. ``joint-ucb`` excludes an arm if
    its index is below the bar. Draws and likeliest means are no bounds: under other policies any arm may be audited, but only
    while they pull the most-pulled one. Never where ``arm`` itself looks no worse by the same measure.
    """
    most, joint_ucb = 0, meta[kernel.POLICY] == kernel.JOINT
    for k in range(mean.size):
        if counts[kernel.PULLS, k] > counts[kernel.PULLS, most]:
            most = k
    budget, bar = kernel.audit_budget(params[kernel.AUDIT], log_t), kernel.audit_bar(mean[most], log_t, params[kernel.SPAN])
    if bar == np.inf or log_t < -math.log(params[kernel.AUDIT]) or not (joint_ucb or arm == most):
        return arm
    out, least = arm, np.inf
    for k in range(mean.size):
        if k != arm:
            need = _short_of(k, bar, budget, counts, seen, learner)
            if need < least and joint_ucb:
                scaled = (bar - learner.knobs[ZERO]) / learner.knobs[WIDTH]
                need = np.inf if joint.reaches(learner.lens, learner.mind, k, delta, scaled) else need
            if need < least:
                out, least = k, need
    return out if out != arm and least < _short_of(arm, bar, budget, counts, seen, learner) else arm


@compiled
def learn(
    arm: int,
    units: int,
    b: int,
    meta: Ints,
    params: Floats,
    counts: Ints,
    mean: Floats,
    root: Floats,
    seen: Ints,
    learner: Learner,
) -> None:
    """Count that ``arm`` paid ``units`` units, into its bin b. O(K)."""
    if meta[kernel.POLICY] == kernel.LATENT_TS:
        check(learner)
        learner.particle[:] = _move(meta, learner)
    meta[kernel.ROUND] += 1
    n, total = counts[kernel.PULLS, arm] + 1, counts[kernel.TOTAL, arm] + units
    counts[kernel.PULLS, arm], counts[kernel.TOTAL, arm] = n, total
    mean[arm] = _mean(float(total), float(n), params[kernel.UNIT])
    root[arm] = _root(float(n))
    seen[arm, b] += 1
    witness(learner.lens, learner.mind, arm, learner.lens.offset[arm] + b)


@compiled
def step(mode: int, arm: int, m: int, whole: Ints, real: Floats, sums: Ints, seen: Ints, table: Ints, learner: Learner) -> int:
    """One live step, as ``kernel.step``: SELECT, OBSERVE that ``arm`` paid its m-th level, or BOTH."""
    arms = table.shape[0]
    meta, counts = whole[: kernel.META], whole[kernel.META :].reshape((kernel.COUNTS, arms))
    params, views = real[: kernel.PARAMS], real[kernel.PARAMS :].reshape((3, arms))
    mean, root, index = views[0], views[1], views[2]
    if mode != kernel.SELECT:
        learn(arm, table[arm, m, arms], learner.bins[arm, m], meta, params, counts, mean, root, seen, learner)
    if mode != kernel.OBSERVE:
        arm = choose(meta, params, counts, mean, root, index, seen, table, learner)
    return arm
