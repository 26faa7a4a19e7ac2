"""One decision and one observation, compiled: what the live object and the engines run.

The state of one learner is a handful of arrays (separate ones, because LLVM vectorises over rows of one array only when
it knows their distance):

``meta``    (META,) int64    codes, the round, the most-pulled arm, the key and number of the random stream
``params``  (PARAMS,) float64  the unit of rewards, B, the posterior's sd, the interval of rewards; the audit, and
                             whether it is late
``counts``  (COUNTS, K) int64  pulls, total reward in units, successes, pulls whose reward is still to come, by how
                             much the total that the filter goes by differs (only for random rewards: see ``noisy``), and
                             the sum of squared rewards in two words, SQUARES 2**31 + REST (only where sd is estimated)
``sums``    (K, K) int64     ``sums[k, ell]``: over the pulls of k, the sum of k's reward less ell's pseudo-reward
``mean``, ``root``, ``index``  (K,) float64  derived from the counts: the mean, 1/sqrt(pulls) (the mean's standard error
                             where sd is estimated), and the last index
``seen``    (K, M) int64     how often arm k paid its m-th level; empty where nobody asks

and a table (K, M, K + 1) int64: ``table[k, m, ell]`` is the excess value[k, m] - s[ell, k, m] in units,
``table[k, m, K]`` the reward value[k, m] in units. Integers, so that a tie stays a tie: arm ell is excluded by
the most-pulled arm k when ``sums[k, ell] > 0``, that is when k's mean strictly exceeds ell's empirical pseudo-reward.

For an arm of random rewards the excesses are 0, and its row of ``sums`` is computed from ``seen``: see ``noisy``.

Dispatch is on integer codes: function arguments would defeat numba's cache on disk.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from headwater import streams
from headwater.arrays import AnyInts, Floats, Ints
from headwater.policies import indices
from headwater.policies.compile import compiled, inlined

__all__ = [
    "AUDIT",
    "AUDIT_LATE",
    "BETA",
    "BETA_ATTEMPTS",
    "BOTH",
    "CHOSEN",
    "COUNTS",
    "ESTIMATED",
    "FILTERS",
    "GRAVES_LAI",
    "JOINT",
    "KL_EMPIRICAL",
    "KL_UCB",
    "LATENT_TS",
    "LOW",
    "META",
    "MOST_PULLED",
    "NORMAL",
    "NO_FILTER",
    "OBSERVE",
    "PARAMS",
    "PENDING",
    "PLAY",
    "POLICY",
    "PULLS",
    "REFERENCE",
    "REFERENCE_ARM",
    "REPLICATION",
    "REST",
    "ROUND",
    "RULES",
    "SCALE",
    "SD",
    "SEED_HIGH",
    "SEED_LOW",
    "SELECT",
    "SHIFT",
    "SPAN",
    "SQUARES",
    "SUCCESSES",
    "TOTAL",
    "UCB1",
    "UNIT",
    "WELL_PULLED",
    "WORD",
    "Views",
    "advance",
    "audit_bar",
    "audit_budget",
    "audit_due",
    "audited",
    "derive",
    "rank",
    "reach",
    "reset",
    "square",
    "standard_error",
    "step",
    "uniforms",
    "unpack",
    "weigh",
]

# Codes of the index rules and of the filters. They are stored in states: never renumber them.
UCB1, KL_UCB, NORMAL, BETA, KL_EMPIRICAL, JOINT, LATENT_TS, GRAVES_LAI, ESTIMATED = range(9)
RULES = {
    "ucb1": UCB1,
    "kl-ucb": KL_UCB,
    "ts": NORMAL,
    "ts-beta": BETA,
    "kl-ucb-empirical": KL_EMPIRICAL,
    "joint-ucb": JOINT,
    "latent-ts": LATENT_TS,
    "graves-lai": GRAVES_LAI,
    "ts-estimated": ESTIMATED,
}
NO_FILTER, MOST_PULLED, WELL_PULLED = range(3)
FILTERS = {"none": NO_FILTER, "most-pulled": MOST_PULLED, "well-pulled": WELL_PULLED}

SELECT, OBSERVE, PLAY, BOTH = range(4)  # modes of advance(); BOTH is step()'s: observe, then select

# meta: the rule, the filter, how many rewards were observed, the most-pulled arm, the stream, the arm chosen last.
POLICY, REFERENCE, ROUND, REFERENCE_ARM, SEED_LOW, SEED_HIGH, REPLICATION, CHOSEN, META = range(9)
# params
UNIT, SCALE, SD, LOW, SPAN, AUDIT, AUDIT_LATE, PARAMS = range(8)
# rows of counts
PULLS, TOTAL, SUCCESSES, PENDING, SHIFT, SQUARES, REST, COUNTS = range(8)

WORD = 31  # bits of REST: a squared reward has up to 62, so a sum of them needs two words

AUDIT_AFTER, AUDIT_GROWTH = 30.0, 0.15  # measured: benchmarks/wrong_models.py, benchmarks/audit.py
LATE_AFTER, LATE_GROWTH = 1000.0, 0.025  # release 0.1's
BETA_ATTEMPTS = 256  # a gamma draw is rejected with probability < 0.05, so this bound is never met

_SIGN_BIT = 63
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF
_LOWEST = -_MAGNITUDE
_REST = 2**WORD - 1

_philox = inlined(streams.philox)
_counter = inlined(streams.counter_words)
_join = inlined(streams.join)
_open_unit = inlined(streams.to_open_unit)
_mean = inlined(indices.empirical_mean)
_root = inlined(indices.reciprocal_root)
_estimated = compiled(indices.estimated_error)
_width = inlined(indices.ucb1_width)
_ucb1 = inlined(indices.ucb1_index)
_normal = inlined(indices.normal_index)
_binarised = inlined(indices.binarised)
_beta = inlined(indices.beta_index)
_gamma_parameters = compiled(indices.gamma_parameters)
_gamma_candidate = compiled(indices.gamma_candidate)
_quantile = compiled(indices.normal_quantile)
_kl_ucb = compiled(indices.kl_ucb_index)
_kl_reaches = compiled(indices.kl_ucb_reaches)
_kl_empirical = compiled(indices.kl_empirical_index)


@compiled
def uniforms(block: int, replication: int, purpose: int, lane: int, k0: int, k1: int) -> tuple[int, int]:
    """Two independent 53-bit uniforms of a stream, as integers."""
    c0, c1, c2, c3 = _counter(block, replication, purpose, lane)
    w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
    return _join(w0, w1), _join(w2, w3)


@compiled
def reset(meta: Ints, counts: Ints, sums: Ints, mean: Floats, root: Floats) -> None:
    """Forget everything observed: no pulls, every index +inf. O(K^2)."""
    meta[ROUND] = 0
    meta[REFERENCE_ARM] = 0
    counts[:] = 0
    sums[:] = 0
    mean[:] = np.inf
    root[:] = 0.0


@compiled
def standard_error(k: int, params: Floats, counts: Ints) -> float:
    """Of arm k's mean, where sd is estimated; never pulled: of the one pseudo-observation."""
    return float(_estimated(counts[PULLS, k], counts[TOTAL, k], counts[SQUARES, k], counts[REST, k], params[UNIT], params[SD]))


@compiled
def square(k: int, paid: int, counts: Ints) -> None:
    """Count the square of a reward of arm k, in units."""
    x = np.int64(paid) * np.int64(paid)
    rest = counts[REST, k] + (x & _REST)
    counts[REST, k] = rest & _REST
    counts[SQUARES, k] += (x >> WORD) + (rest >> WORD)


@compiled
def derive(meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats) -> None:
    """Means, roots and the most-pulled arm anew from the counts, as if they had come one by one. O(K)."""
    most = -1
    for k in range(mean.size):
        n = counts[PULLS, k]
        mean[k] = _mean(float(counts[TOTAL, k]), float(n), params[UNIT])
        root[k] = standard_error(k, params, counts) if meta[POLICY] == ESTIMATED and n > 0 else _root(float(n))
        if n > most:
            most = n
            meta[REFERENCE_ARM] = k


@compiled
def _filter_most_pulled(k: int, sums: Ints, index: Floats) -> None:
    """-inf for the index, so far 0, of every arm that arm k, the most pulled, excludes. O(K).

    The sums' diagonal is 0, so the reference arm stays; before the first reward all sums are 0, so every arm does.
    """
    for ell in range(index.size):
        index[ell] = -np.inf if sums[k, ell] > 0 and index[ell] == 0.0 else index[ell]


@compiled
def _filter_well_pulled(counts: Ints, sums: Ints, index: Floats) -> None:
    """-inf for the index, so far 0, of every arm that some other, well-pulled arm excludes. O(K^2) at worst.

    Well-pulled at the t-th decision: K n[k] >= t - 1, the number of rewards ``observed``; some arm always is. With b the
    best mean among them (ties to the lowest number), ell stays if ell = b or its smallest empirical pseudo-reward over
    the others of them reaches b's mean: it is excluded if (total[k] - sums[k, ell]) / n[k] < total[b] / n[b]. An arm's own
    mean never excludes it: weighing means is the index's business, and unrelated arms must all stay. Equal fractions of
    whole numbers round to the same float, so a tie stays a tie. Totals are those of the likeliest law (SHIFT). Arms whose
    index is NaN are left out of all this.
    """
    arms = observed = 0
    for k in range(index.size):
        if index[k] == 0.0:
            arms += 1
            observed += counts[PULLS, k]
    if observed == 0:
        return
    best, most = -1, -np.inf
    for k in range(index.size):
        n = counts[PULLS, k]
        if index[k] == 0.0 and n * arms >= observed:
            x = (counts[TOTAL, k] + counts[SHIFT, k]) / n
            if best < 0 or x > most:
                best, most = k, x
    for k in range(index.size):
        n = counts[PULLS, k]
        if not np.isnan(index[k]) and n * arms >= observed:
            for ell in range(index.size):
                if ell != k and index[ell] == 0.0 and (counts[TOTAL, k] + counts[SHIFT, k] - sums[k, ell]) / n < most:
                    index[ell] = -np.inf
    index[best] = 0.0


@inlined
def _ordered(x: float) -> Any:
    """An integer in the order of floats (-0.0 and NaN apart, which no index is).

    A running maximum of floats does not vectorise without fastmath, because of NaN; one of integers does. The bits of a
    float are in order already, but for the magnitude of negative ones, which is flipped here.
    """
    bits = np.float64(x).view(np.int64)
    return bits ^ ((bits >> _SIGN_BIT) & _MAGNITUDE)


@compiled
def _rank_ucb1_filtered(log_t: float, params: Floats, mean: Floats, root: Floats, index: Floats) -> None:
    width = _width(log_t, params[SCALE])
    for k in range(index.size):
        if index[k] == 0.0:
            index[k] = _ucb1(mean[k], root[k], width)


@compiled
def _rank_kl_ucb(chosen: int, log_t: float, params: Floats, counts: Ints, mean: Floats, index: Floats) -> None:
    """The exact index of every arm that may win; an arm that certainly does not keeps its mean for an index.

    The arm ``chosen`` last goes first, because it mostly wins again. Whether another arm's index reaches the best one so far
    takes no search: it does if and only if the best one is still within its budget.
    """
    low, span = params[LOW], params[SPAN]
    best = -np.inf
    for i in range(-1, index.size):
        k = chosen if i < 0 else i
        if index[k] == 0.0 and (i < 0 or k != chosen):
            n = float(counts[PULLS, k] + counts[PENDING, k])
            index[k] = mean[k]
            if _kl_reaches(mean[k], n, best, log_t, low, span):
                index[k] = _kl_ucb(mean[k], n, log_t, low, span)
                best = max(best, index[k])


@compiled
def _rank_kl_empirical(
    log_t: float, params: Floats, counts: Ints, mean: Floats, seen: Ints, table: AnyInts, index: Floats
) -> None:
    arms = index.size
    for k in range(arms):
        if index[k] == 0.0:
            n = counts[PULLS, k] + counts[PENDING, k]
            if counts[PULLS, k] == 0:  # no law yet: +inf, or the Bernoulli form while its first reward is pending
                index[k] = _kl_ucb(mean[k], float(n), log_t, params[LOW], params[SPAN])
            else:
                index[k] = params[UNIT] * _kl_empirical(seen[k], table[k, :, arms], n, log_t)


@compiled
def _rank_normal(meta: Ints, params: Floats, mean: Floats, root: Floats, index: Floats) -> None:
    """Arms 2i and 2i + 1 share one call of the generator; the draws of excluded arms are skipped, not shifted."""
    arms = index.size
    t = meta[ROUND] + 1
    sd = params[SD] if meta[POLICY] == NORMAL else 1.0  # else ``root`` is the standard error
    for lane in range((arms + 1) // 2):
        k, other = 2 * lane, min(2 * lane + 1, arms - 1)
        if index[k] == 0.0 or index[other] == 0.0:
            u, v = uniforms(t, meta[REPLICATION], streams.NORMAL, lane, meta[SEED_LOW], meta[SEED_HIGH])
            # The second first: for the last of an odd number of arms both are the same arm, whose draw is u.
            if index[other] == 0.0 and other > k:
                index[other] = _normal(mean[other], root[other], sd, _quantile(_open_unit(v)))
            if index[k] == 0.0:
                index[k] = _normal(mean[k], root[k], sd, _quantile(_open_unit(u)))


@compiled
def _gamma(shape: float, t: int, meta: Ints, purpose: int, arm: int) -> float:
    d, c = _gamma_parameters(shape)
    for attempt in range(BETA_ATTEMPTS):
        lane = arm * BETA_ATTEMPTS + attempt
        u, v = uniforms(t, meta[REPLICATION], purpose, lane, meta[SEED_LOW], meta[SEED_HIGH])
        x = _gamma_candidate(d, c, _quantile(_open_unit(u)), _open_unit(v))
        if x > 0.0:
            return x
    return d


@compiled
def _rank_beta(meta: Ints, params: Floats, counts: Ints, index: Floats) -> None:
    """Pending pulls are no evidence; but an arm whose first one is pending counts as if it had paid one half."""
    t = meta[ROUND] + 1
    for k in range(index.size):
        if index[k] == 0.0:
            n, wins = float(counts[PULLS, k]), float(counts[SUCCESSES, k])
            if n == 0.0 and counts[PENDING, k] > 0:
                n, wins = 1.0, 0.5
            if n == 0.0:
                index[k] = np.inf
            else:
                x = _gamma(1.0 + wins, t, meta, streams.BETA_SUCCESS, k)
                y = _gamma(1.0 + n - wins, t, meta, streams.BETA_FAILURE, k)
                index[k] = _beta(x, y, params[LOW], params[SPAN])


@compiled
def rank(log_t: float, meta: Ints, params: Floats, counts: Ints, mean: Floats, root: Floats, index: Floats) -> None:
    """The index of every arm in the running (0), by any rule that asks only for an arm's mean and pulls; -inf stays."""
    if meta[POLICY] == UCB1:
        _rank_ucb1_filtered(log_t, params, mean, root, index)
    elif meta[POLICY] == KL_UCB:
        _rank_kl_ucb(meta[CHOSEN], log_t, params, counts, mean, index)
    elif meta[POLICY] == NORMAL or meta[POLICY] == ESTIMATED:
        _rank_normal(meta, params, mean, root, index)
    else:
        _rank_beta(meta, params, counts, index)


@compiled
def weigh(
    log_t: float,
    meta: Ints,
    params: Floats,
    counts: Ints,
    sums: AnyInts,
    mean: Floats,
    root: Floats,
    index: Floats,
    seen: Ints,
    table: AnyInts,
) -> None:
    """Any filter, then any rule, for every arm whose index is 0; NaN, which no comparison finds, keeps an arm out of both."""
    if meta[REFERENCE] == MOST_PULLED:
        _filter_most_pulled(meta[REFERENCE_ARM], sums, index)
    elif meta[REFERENCE] == WELL_PULLED:
        _filter_well_pulled(counts, sums, index)
    if meta[POLICY] == KL_EMPIRICAL:
        _rank_kl_empirical(log_t, params, counts, mean, seen, table, index)
    else:
        rank(log_t, meta, params, counts, mean, root, index)


@compiled
def _rank_general(
    log_t: float,
    meta: Ints,
    params: Floats,
    counts: Ints,
    sums: AnyInts,
    mean: Floats,
    root: Floats,
    index: Floats,
    seen: Ints,
    table: AnyInts,
) -> int:
    """The index of every arm; returns the largest, as an ordered integer."""
    index[:] = 0.0
    weigh(log_t, meta, params, counts, sums, mean, root, index, seen, table)
    largest = _LOWEST
    for k in range(index.size):
        largest = max(largest, _ordered(index[k]))
    return largest


@compiled
def audit_due(params: Floats, log_t: float) -> bool:
    """Whether audits have begun."""
    after = LATE_AFTER / params[AUDIT] if params[AUDIT_LATE] > 0.0 else AUDIT_AFTER
    return bool(params[AUDIT] > 0.0 and log_t > math.log(after) + 1e-9)


@compiled
def audit_budget(params: Floats, log_t: float) -> float:
    """What an audit may spend where KL-UCB spends log t: much of it at once, because a wrong model costs most when it is found
    out late, and more later, because there is more to lose.
    """
    growth = LATE_GROWTH if params[AUDIT_LATE] > 0.0 else AUDIT_GROWTH
    return float(params[AUDIT] * (1.0 + growth * log_t))


@compiled
def audit_bar(top: float, log_t: float, params: Floats) -> float:
    """The mean that an audited arm must be able to reach: enough above the best one to matter within t rounds.

    To find an arm better by d costs about 2 v log t / d, v the variance of its rewards; not to find it costs d t. The largest
    variance that rewards with the best mean can have stands for v, so that rare rewards are no reason to miss an arm twice as
    good. (Late audits took the square of the range.)
    """
    low, span = params[LOW], params[SPAN]
    part = log_t * math.exp(-log_t)
    if params[AUDIT_LATE] > 0.0:
        return float(top + span * math.sqrt(part))
    return float(top + math.sqrt(2.0 * max((top - low) * (low + span - top), 0.0) * part) + span * part)


@compiled
def reach(k: int, top: float, budget: float, low: float, span: float, counts: Ints, mean: Floats) -> float:
    """Arm k's KL-UCB index with ``budget`` instead of log t where it reaches ``top``, else -inf. Never pulled: +inf."""
    n = float(counts[PULLS, k] + counts[PENDING, k])
    if n == 0.0:
        return np.inf
    if not _kl_reaches(mean[k], n, top, budget, low, span):
        return -np.inf
    x = _kl_ucb(mean[k], n, budget, low, span)
    return x if x >= top else -np.inf


@compiled
def audited(chosen: int, top: float, log_t: float, params: Floats, counts: Ints, mean: Floats, index: Floats) -> int:
    """The arm to pull: ``chosen``, or instead an excluded arm (index -inf) that its own rewards do not rule out yet.

    That is one that can ``reach`` the ``audit_bar`` above ``top``, the mean of the most-pulled arm, with the
    ``audit_budget``; the largest of them, the lowest number among equals. Nothing is audited before it is due, or
    while the most-pulled arm has no mean. So where the model is right, an excluded arm costs about budget / kl pulls. O(K).
    """
    low, span, arm, best = params[LOW], params[SPAN], chosen, -np.inf
    due, bar, budget = top < np.inf and audit_due(params, log_t), audit_bar(top, log_t, params), audit_budget(params, log_t)
    for k in range(index.size):
        if due and index[k] == -np.inf:
            x = reach(k, bar, budget, low, span, counts, mean)
            if x > best:
                arm, best = k, x
    return arm


@compiled
def advance(
    mode: int,
    arm: int,
    m: int,
    meta: Ints,
    params: Floats,
    counts: Ints,
    sums: AnyInts,
    mean: Floats,
    root: Floats,
    index: Floats,
    seen: Ints,
    table: AnyInts,
    level: Ints,
    atoms: Ints,
    out: AnyInts,
) -> int:
    """Select, or observe, or play ``atoms.size`` rounds of both; returns the (last) arm. O(K) a round, mostly.

    In mode PLAY, round i takes its level from ``level[arm, atoms[i]]``, and ``out`` (K,) counts the rounds in which
    each arm is excluded. One function for all three, so that a simulated policy and a live one are the same code:
    calling, or inlining, a function of arrays costs two reference counts for each of them, which at K = 100 doubles the
    time of a round.
    """
    arms = index.size
    for i in range(atoms.size if mode == PLAY else 1):
        if mode != OBSERVE:
            log_t = math.log(meta[ROUND] + 1.0)
            reference = meta[REFERENCE_ARM]
            largest = _LOWEST
            # UCB1 and C-UCB in one loop that filters, ranks and finds the maximum; the rest in several.
            if meta[POLICY] == UCB1 and meta[REFERENCE] == NO_FILTER:
                width = _width(log_t, params[SCALE])
                for k in range(arms):
                    x = _ucb1(mean[k], root[k], width)
                    index[k] = x
                    largest = max(largest, _ordered(x))
            elif meta[POLICY] == UCB1 and meta[REFERENCE] == MOST_PULLED:
                width = _width(log_t, params[SCALE])
                for k in range(arms):
                    x = -np.inf if sums[reference, k] > 0 else _ucb1(mean[k], root[k], width)
                    index[k] = x
                    largest = max(largest, _ordered(x))
            else:
                largest = _rank_general(log_t, meta, params, counts, sums, mean, root, index, seen, table)
            # The lowest-numbered arm of largest index; no early exit, so that the loop vectorises.
            arm = arms
            for k in range(arms):
                arm = min(arm, k if _ordered(index[k]) == largest else arms)
            if params[AUDIT] > 0.0:
                arm = audited(arm, mean[reference], log_t, params, counts, mean, index)
            meta[CHOSEN] = arm
        if mode == PLAY:
            m = level[arm, atoms[i]]
            if meta[REFERENCE] == MOST_PULLED:
                for k in range(arms):
                    out[k] += 1 if sums[reference, k] > 0 else 0
            elif meta[REFERENCE] == WELL_PULLED:
                for k in range(arms):
                    out[k] += 1 if index[k] == -np.inf else 0
        if mode != SELECT:
            meta[ROUND] += 1
            n = counts[PULLS, arm] + 1
            total = counts[TOTAL, arm] + table[arm, m, arms]
            counts[PULLS, arm] = n
            counts[TOTAL, arm] = total
            if seen.size:
                seen[arm, m] += 1
            mean[arm] = _mean(float(total), float(n), params[UNIT])
            root[arm] = _root(float(n))
            if meta[REFERENCE] != NO_FILTER:
                for k in range(arms):
                    sums[arm, k] += table[arm, m, k]
                most = counts[PULLS, meta[REFERENCE_ARM]]
                if n > most or (n == most and arm < meta[REFERENCE_ARM]):
                    meta[REFERENCE_ARM] = arm
            if meta[POLICY] == ESTIMATED:
                square(arm, table[arm, m, arms], counts)
                root[arm] = standard_error(arm, params, counts)
            if meta[POLICY] == BETA:
                reward = table[arm, m, arms] * params[UNIT]
                u, _ = uniforms(meta[ROUND], meta[REPLICATION], streams.BINARISE, arm, meta[SEED_LOW], meta[SEED_HIGH])
                counts[SUCCESSES, arm] += int(_binarised(reward, params[LOW], params[SPAN], _open_unit(u)))
    return arm


@compiled
def step(mode: int, arm: int, m: int, whole: Ints, real: Floats, sums: Ints, seen: Ints, table: Ints) -> int:
    """One live step. SELECT: the arm to pull next, every arm's index left in ``real``, -inf for the excluded.
    OBSERVE: count that ``arm`` paid its m-th level. BOTH: observe, then select, for the price of one call.

    The t-th decision is made from the first t - 1 rewards, with log t in the indices. Ties go to the lowest-numbered arm.
    O(K), but O(K^2) for well-pulled references. The state comes packed (see ``unpack``): each array that crosses from
    Python costs about a tenth of a microsecond.
    """
    arms = sums.shape[0]
    meta, counts = whole[:META], whole[META:].reshape((COUNTS, arms))
    params, mean = real[:PARAMS], real[PARAMS : PARAMS + arms]
    root, index = real[PARAMS + arms : PARAMS + 2 * arms], real[PARAMS + 2 * arms :]
    # Only PLAY reads level, atoms and out: any arrays of their types will do.
    if mode == BOTH:
        advance(OBSERVE, arm, m, meta, params, counts, sums, mean, root, index, seen, table, counts, meta, meta)
        mode = SELECT
    return advance(mode, arm, m, meta, params, counts, sums, mean, root, index, seen, table, counts, meta, meta)


class Views(NamedTuple):
    """The parts of a packed state, sharing its memory; ``ranks`` are the arms' indices (a tuple has an ``index`` already)."""

    meta: Ints
    counts: Ints
    params: Floats
    mean: Floats
    root: Floats
    ranks: Floats


def unpack(whole: Ints, real: Floats, arms: int) -> Views:
    """``whole`` is meta, then counts row by row; ``real`` is params, mean, root and index."""
    mean, root, index = real[PARAMS:].reshape((3, arms))
    return Views(whole[:META], whole[META:].reshape((COUNTS, arms)), real[:PARAMS], mean, root, index)
