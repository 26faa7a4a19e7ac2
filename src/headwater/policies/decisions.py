"""Policies that read the whole table of counts as evidence on the law of X: one decision, one observation, compiled.

``joint-ucb`` pulls the arm of largest joint index (``joint``); ``latent-ts`` the best arm under a draw from the posterior of
the law of X (``sampler``); ``graves-lai`` the likeliest law's best arm, unless some law that the counts allow makes another
one best: then it explores at the rates of the Graves-Lai programme (``exploration``, ``programme``). All three share the
guard against a wrong model (``mind``) and the audit (``_audit``).

The state is that of ``kernel`` and a ``Learner``; ``seen`` (K, M) counts by bin.
"""

from __future__ import annotations

import math

import numpy as np

from headwater import streams
from headwater.arrays import Floats, Ints
from headwater.policies import indices, kernel, sampler, waiting
from headwater.policies.compile import compiled
from headwater.policies.exploration import explore
from headwater.policies.joint import decide, reaches
from headwater.policies.learner import BINNED, DISCOUNT, MOVES, PRIOR, THOROUGH, WIDTH, ZERO, Learner, check
from headwater.policies.mind import BASE, BOUND, FLOOR, TOTAL, freshen, witness
from headwater.policies.vectors import largest, put

__all__ = ["choose", "count_ruled_out", "learn", "select", "step"]

LEAST = 1e-4
"""The least part of the threshold that an arm with pulls pending keeps."""

_kl_ucb = compiled(indices.kl_ucb_index)
_kl_empirical = compiled(indices.kl_empirical_index)
_kl_needed = compiled(indices.kl_needed)
_quantile = compiled(indices.normal_quantile)
_open_unit = compiled(streams.to_open_unit)
_mean = compiled(indices.empirical_mean)
_root = compiled(indices.reciprocal_root)


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
def _move(meta: Ints, learner: Learner) -> None:
    """Leave this round's draw of the law of X in ``draft[1:]``: where the chain moves, once a round, whoever asks how often.

    The chain itself follows with the reward (``learn``): what it is depends on the rewards alone.
    """
    lens, mind, knobs, particle = learner.lens, learner.mind, learner.knobs, learner.draft[1:]
    t, run, k0, k1 = meta[kernel.ROUND] + 1, meta[kernel.REPLICATION], meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
    if learner.draft[0] != t:
        learner.draft[0] = t
        put(learner.particle, particle)
        moves = int(knobs[MOVES])
        sampler.walk(moves, lens.start, lens.row, lens.weight, mind.n, knobs[PRIOR], particle, learner.chain, t, run, k0, k1)


@compiled
def _draw_error(k: int, x: float, normal: float, mean: float, learner: Learner, law: Floats) -> float:
    """Arm k's mean, where a learned model says x under this ``law`` of X: from the posterior of a normal deviation.

    Before its own rewards are looked at, the deviation's variance is that of the learned mean. The variance of a reward is
    estimated, with a uniform law's counted as one observation.
    """
    lens, mind, zero, width = learner.lens, learner.mind, learner.knobs[ZERO], learner.knobs[WIDTH]
    before, noise, n, own = 0.0, 1.0 / 12.0, mind.pulls[k], (mean - zero) / width
    for j in range(law.size):
        before += (law[j] * lens.error[k, j]) ** 2
    if before == 0.0:
        return x
    for i in range(lens.offset[k], lens.offset[k + 1]):
        noise += mind.n[i] * ((learner.pays[k, i - lens.offset[k]] - mean) / width) ** 2 if mind.n[i] > 0.0 else 0.0
    weight = n * (n + 1.0) / noise  # of the own mean; n = 0 makes none
    precision = 1.0 / before + weight
    shift = weight * (own - x) / precision if n > 0.0 else 0.0
    return x + shift + normal / math.sqrt(precision)


@compiled
def _draw_means(meta: Ints, params: Floats, mean: Floats, root: Floats, learner: Learner, index: Floats) -> int:
    """Every arm's mean under one draw of the law of X; a doubted arm's from its own rewards. Returns the best arm."""
    _move(meta, learner)
    lens, mind, knobs, particle = learner.lens, learner.mind, learner.knobs, learner.draft[1:]
    t, run, k0, k1 = meta[kernel.ROUND] + 1, meta[kernel.REPLICATION], meta[kernel.SEED_LOW], meta[kernel.SEED_HIGH]
    best = -1
    for k in range(index.size):
        x = 0.0
        index[k] = -np.inf
        if mind.share[k] < 0.0:
            continue
        if mind.doubted[k]:
            u, _ = kernel.uniforms(t, run, streams.NORMAL, k, k0, k1)
            x = (mean[k] + params[kernel.SD] * root[k] * _quantile(_open_unit(u)) - knobs[ZERO]) / knobs[WIDTH]
        else:
            for j in range(particle.size):
                x += lens.g[k, j] * particle[j]
            if lens.error.size > 0:
                u, _ = kernel.uniforms(t, run, streams.NORMAL, k, k0, k1)
                x = _draw_error(k, x, _quantile(_open_unit(u)), mean[k], learner, particle)
        index[k] = x
        if best < 0 or x > index[best]:
            best = k
    return best


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
    """The arm to pull; leaves every arm's index. May doubt an arm first. Arms whose ``mind.share`` is below 0 are left out.

    Pending pulls count as rounds, but are no evidence. ``joint-ucb`` gives an arm of n rewards and m pending pulls the part
    n / (n + m) of its threshold (``select_waiting``), as if its rewards had come again in proportion; an arm whose first pull
    is pending has an index of its own, as if it had paid the middle of the rewards each time.
    """
    mind, knobs, log_t = learner.mind, learner.knobs, math.log(meta[kernel.ROUND] + 1.0)
    learned, most = learner.lens.error.size > 0 and meta[kernel.POLICY] == kernel.JOINT, 0
    check(learner)
    if learned:
        freshen(learner.lens, mind)  # what an arm may be wrong by depends on it
    for k in range(index.size):
        most = max(most, counts[kernel.PULLS, k] + counts[kernel.PENDING, k])
    delta = log_t - knobs[DISCOUNT] * math.log(max(meta[kernel.ROUND] + 1.0 - most, 1.0))
    for k in range(index.size):
        mind.own[k] = np.inf
        first = counts[kernel.PULLS, k] == 0 and counts[kernel.PENDING, k] > 0
        if mind.doubted[k] or knobs[BINNED] > 0.0 or learned or first:
            own = _own_index(k, delta if learned else log_t, params, counts, mean, seen, table, learner)
            mind.own[k] = (own - knobs[ZERO]) / knobs[WIDTH]
    if meta[kernel.POLICY] == kernel.LATENT_TS:
        arm = _draw_means(meta, params, mean, root, learner, index)
    elif meta[kernel.POLICY] == kernel.GRAVES_LAI:
        arm = explore(meta, counts, learner, index)
    else:
        arm = decide(learner.lens, mind, delta)
        for k in range(index.size):
            index[k] = mind.arms[k, BOUND]
    if meta[kernel.POLICY] != kernel.GRAVES_LAI:  # which looks at them now and then only
        for k in range(index.size):
            index[k] = knobs[ZERO] + knobs[WIDTH] * index[k]
    if kernel.audit_due(params, log_t):
        arm = _audit(arm, log_t, delta, meta, params, counts, mean, seen, learner)
    meta[kernel.CHOSEN] = arm
    return arm


@compiled
def count_ruled_out(meta: Ints, learner: Learner, index: Floats, out: Ints) -> None:
    """Add 1 for every arm whose joint index is below the mean that the likeliest law gives the best arm."""
    if meta[kernel.POLICY] != kernel.JOINT or learner.mind.whole[TOTAL] == 0.0:
        return
    arms, best = learner.mind.arms, -np.inf
    for k in range(index.size):
        if not learner.mind.doubted[k]:
            best = max(best, arms[k, BASE])
    for k in range(index.size):
        out[k] += 1 if arms[k, BOUND] < best and not learner.mind.doubted[k] else 0


@compiled
def _short_of(k: int, bar: float, budget: float, counts: Ints, seen: Ints, learner: Learner) -> float:
    """How much evidence of its own speaks against arm k reaching ``bar``: ``kl_needed``, or +inf where it is above ``budget``.

    Pending pulls count as if they had paid as the others; a first one that is pending is audit enough.
    It is convex in the bar, so never below its tangent, which is remembered: while the arm is not pulled and the budget stays
    below that, nothing need be computed.
    """
    n, pending, kept = counts[kernel.PULLS, k], counts[kernel.PENDING, k], learner.audits[k]
    bins = learner.lens.offset[k + 1] - learner.lens.offset[k]
    if n == 0:
        possible = pending == 0 and largest(learner.pays[k, :bins]) >= bar
        return 0.0 if possible else np.inf
    share = n / (n + pending)
    budget *= share
    if kept[0] == n and kept[1] + kept[2] * (bar - kept[3]) > budget * (1.0 + 1e-9):
        return np.inf
    need, rate = _kl_needed(seen[k, :bins], learner.pays[k, :bins], bar)
    if need <= budget:
        return float(need / share)
    if need < np.inf:
        kept[0], kept[1], kept[2], kept[3] = n, need, rate, bar
    return np.inf


@compiled
def _trusted(learner: Learner) -> bool:
    """Whether an arm need not be audited because the model says outright that it is never best: not if the channels were
    learned or are bins, or if anything contradicted the model.
    """
    out = learner.lens.error.size == 0 and learner.knobs[BINNED] == 0.0 and learner.knobs[THOROUGH] == 0.0
    for k in range(learner.mind.doubted.size):
        out = out and learner.mind.doubted[k] == 0
    return bool(out)


@compiled
def _outdone(k: int, by: int, learner: Learner) -> bool:
    """Whether arm k pays at most what arm ``by`` does, whatever X is, by the model. Remembered: O(J) only for a new ``by``."""
    g, kept = learner.lens.g, learner.audits[k]
    if abs(kept[4]) != by + 1.0:
        kept[4] = by + 1.0
        for j in range(g.shape[1]):
            if g[k, j] > g[by, j]:
                kept[4] = -kept[4]
                break
    return bool(kept[4] > 0.0)


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
    while they pull the most-pulled one. Never an arm that is ``_outdone`` by that one while the model is ``_trusted``, nor
    where ``arm`` itself looks no worse by the same measure.
    """
    most, joint_ucb, share = -1, meta[kernel.POLICY] == kernel.JOINT, learner.mind.share
    for k in range(mean.size):
        if share[k] >= 0.0 and (most < 0 or counts[kernel.PULLS, k] > counts[kernel.PULLS, most]):
            most = k
    budget, bar = kernel.audit_budget(params, log_t), kernel.audit_bar(mean[most], log_t, params)
    if bar == np.inf or not (joint_ucb or arm == most):
        return arm
    out, least, scaled, trusted = arm, np.inf, (bar - learner.knobs[ZERO]) / learner.knobs[WIDTH], _trusted(learner)
    for k in range(mean.size):
        allowed = joint_ucb and learner.mind.arms[k, FLOOR] >= scaled  # not excluded, as its bound says already
        if k != arm and share[k] >= 0.0 and not allowed and not (trusted and _outdone(k, most, learner)):
            need = _short_of(k, bar, budget, counts, seen, learner)
            if need < least and joint_ucb:
                need = np.inf if reaches(learner.lens, learner.mind, k, delta, scaled) else need
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
        _move(meta, learner)
        put(learner.draft[1:], learner.particle)
        learner.draft[0] = 0.0  # pending pulls may have made it that of a later round
    meta[kernel.ROUND] += 1
    n, total = counts[kernel.PULLS, arm] + 1, counts[kernel.TOTAL, arm] + units
    counts[kernel.PULLS, arm], counts[kernel.TOTAL, arm] = n, total
    mean[arm] = _mean(float(total), float(n), params[kernel.UNIT])
    root[arm] = _root(float(n))
    seen[arm, b] += 1
    witness(learner.lens, learner.mind, arm, learner.lens.offset[arm] + b)


@compiled
def _set_share(k: int, counts: Ints, share: Floats) -> None:
    """The part of the threshold that arm k's joint index goes by while pulls of it are pending."""
    n, pending = counts[kernel.PULLS, k], counts[kernel.PENDING, k]
    if share[k] >= 0.0 and n > 0:
        share[k] = max(n / (n + pending), LEAST)


@compiled
def select(
    draws: int,
    off: Ints,
    pending: Ints,
    whole: Ints,
    real: Floats,
    sums: Ints,
    seen: Ints,
    table: Ints,
    learner: Learner,
    copy_whole: Ints,
    copy_real: Floats,
    out: Ints,
) -> None:
    """As ``waiting.select``: but arms that are off still say what they know of X, and log t counts all rounds.

    What the learner finds out on the way are solutions for its counts; where it was going is left alone.
    """
    arms, mind, size = table.shape[0], learner.mind, learner.particle.size
    waiting.expect(pending, whole, real, copy_whole, copy_real)
    meta, counts = copy_whole[: kernel.META], copy_whole[kernel.META :].reshape((kernel.COUNTS, arms))
    params, views = copy_real[: kernel.PARAMS], copy_real[kernel.PARAMS :].reshape((3, arms))
    mean, root, index = views[0], views[1], views[2]
    until, arm, course = learner.held[0], learner.held[1], learner.course
    put(learner.planned if draws == 0 else learner.particle, course[:size])
    put(learner.rates, course[size:])
    for k in range(arms):
        mind.share[k] = 1.0 if off[k] == 0 else -1.0
        _set_share(k, counts, mind.share)
    for i in range(draws if draws > 0 else out.size):
        if draws > 0:
            meta[kernel.REPLICATION] = waiting.elsewhere(whole[kernel.REPLICATION], i)
            learner.draft[0] = 0.0
        chosen = choose(meta, params, counts, mean, root, index, seen, table, learner)
        learner.held[0], learner.held[1] = until, arm
        if draws > 0:
            out[chosen] += 1
            if meta[kernel.POLICY] == kernel.LATENT_TS:  # the chain goes on from draw to draw
                put(learner.draft[1:], learner.particle)
            continue
        out[i] = chosen
        if i + 1 < out.size:
            waiting.pend(chosen, meta, params, counts, mean, root)
            _set_share(chosen, counts, mind.share)
    mind.share[:] = 1.0
    learner.draft[0] = 0.0
    put(course[:size], learner.planned if draws == 0 else learner.particle)
    put(course[size:], learner.rates)


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
