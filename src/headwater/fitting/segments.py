"""Counts by segment, whichever way segments are known: from a column, from features, or from what units were paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.fitting.cells import Units, count_units, effective_rewards
from headwater.fitting.channels import arm_laws, find_strengths
from headwater.fitting.counts import Counts, count_arrays, count_log, naturally
from headwater.fitting.features import Classifier, Feature, describe_segments, find_segments, read_features
from headwater.fitting.levels import Levels, choose_levels, fixed_levels
from headwater.fitting.logs import Log, sampled
from headwater.fitting.mixture import (
    HELD_OUT,
    Choice,
    build_ratings,
    choose_kinds,
    effective_counts,
    fewest,
    fit_mixture,
    responsibilities,
)
from headwater.fitting.options import Options
from headwater.fitting.result import Stability
from headwater.fitting.stability import find_stability

MOST_KINDS = 25
FEWEST = 20
"""Units: with fewer, no number of segments can be chosen."""
FEATURE_GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)


@dataclass(frozen=True)
class Segmented:
    """Counts by segment. ``binned`` counts rewards by arm, segment and bin, ``counts[k, j, m]`` by level; both are soft where
    it is uncertain who is of which segment, and worth ``effective[k, j]`` sure and independent ones. ``units``: their sums by
    unit, where units have several rewards in a cell. ``profiles`` says in words who is in a segment. ``facts`` go into the
    evidence.
    """

    binned: Counts
    shares: Floats
    levels: Levels
    counts: Floats
    effective: Floats
    method: str
    units: Units | None = None
    choice: Choice | None = None
    stability: Stability | None = None
    profiles: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def arms(self) -> list[str]:
        return self.binned.arms

    @property
    def segments(self) -> list[str]:
        return self.binned.segments

    @property
    def observed(self) -> str:
        """What is one observation to the intervals."""
        if self.units is not None and self.units.share == 1:
            return "units"
        return "rewards" if np.allclose(self.effective, self.counts.sum(axis=2)) else "effective rewards"

    @property
    def total(self) -> Floats:
        """Sums of rewards, (K, J)."""
        return np.asarray(self.binned.total.sum(axis=2))

    @property
    def level_total(self) -> Floats:
        """Sums of rewards, (K, M)."""
        return np.asarray(self.levels.merge(self.binned.total).sum(axis=1))


def segment_log(log: Log, options: Options) -> Segmented:
    """Count the log by segment, finding segments where no column states them."""
    if log.columns.segment is not None:
        return _known(log, options)
    if log.columns.features and options.method != "channels":
        return _by_features(log, options)
    if "unit" in log.table.columns:
        return _latent(log, options)
    raise ProblemError(
        "segment: missing; expected one of: segment, a column that says who each row's unit is; features to find segments "
        "from; or unit, a column that says which rows are of the same unit, where units saw several arms"
    )


def _known(log: Log, options: Options) -> Segmented:
    """The log says each row's segment."""
    options.progress("counting", 0.3)
    counts = count_log(log, edges=options.edges)
    return _from_counts(log, counts, lambda table: table.segment, options, "segment column")


def _from_counts(log: Log, counts: Counts, segment: Any, options: Options, method: str, **more: Any) -> Segmented:
    levels = _levels(counts, options)
    by_level = levels.merge(counts.n)
    n, rows = by_level.sum(axis=2), by_level.sum(axis=(0, 2))
    facts: dict[str, Any] = more.pop("facts", {})
    units, worth = None, np.ones(n.shape)
    if log.columns.unit is not None:
        options.progress("counting units", 0.9)
        units = count_units(log, segment, counts, levels, options.seed)
    if units is not None:
        worth, alike = effective_rewards(units, n.shape)
        facts = facts | {"most_rewards_of_a_unit_in_a_cell": int(units.size.max()), "correlation_within_units": round(alike, 3)}
    return Segmented(counts, rows / rows.sum(), levels, by_level, n * worth, method, units, facts=facts, **more)


def _levels(counts: Counts, options: Options) -> Levels:
    return choose_levels(counts, options.levels) if options.edges is None else fixed_levels(counts, options.edges)


@dataclass(frozen=True)
class Sample:
    """Rows of sampled units: numbers of unit and arm per reward, and features, all of length R."""

    unit: Ints
    arm: Ints
    rewards: Floats
    arms: list[str]
    columns: list[Any]
    facts: dict[str, Any]

    @property
    def units(self) -> int:
        return int(self.unit.max()) + 1


def _draw(log: Log, options: Options) -> Sample:
    options.progress("drawing a sample of units", 0.05)
    table, share = sampled(log, options.sample, options.seed)
    names = [f"f{i}" for i in range(len(log.columns.features))]
    rows = log.collect(table.select("unit", "arm", "reward", *names))
    rows = rows.sort_by([(key, "ascending") for key in ("unit", "arm", "reward")])  # a database promises no order
    arms_seen, units_seen = (rows[key].combine_chunks().dictionary_encode() for key in ("arm", "unit"))
    there = arms_seen.dictionary.to_pylist()
    arms = [name for name in log.columns.wide if name in set(there)] or naturally(set(there))
    place = np.array([arms.index(name) for name in there], dtype=np.int64)
    rewards = rows["reward"].to_numpy()
    if len(rewards) == 0 or np.ptp(rewards) == 0:
        raise ProblemError(f"{log.label}: the rewards of the sampled units are all alike; expected rewards that differ")
    units = len(units_seen.dictionary)
    if units < FEWEST or units < 2 * (options.segments or 1):
        wanted = max(FEWEST, 2 * (options.segments or 1))
        raise ProblemError(f"{log.label}: got {units:,} units with rewards; expected at least {wanted:,} to find segments from")
    columns = [_feature_column(rows[name]) for name in names]
    facts: dict[str, Any] = {"units": log.units if share < 1 else units, "units_used": units}
    facts |= {} if share == 1 else {"share_of_units": share}
    unit = units_seen.indices.to_numpy().astype(np.int64)
    return Sample(unit, place[arms_seen.indices.to_numpy()], rewards, arms, columns, facts)


def _feature_column(column: Any) -> Any:
    """Numbers as an array with NaN for none; texts as a list with None."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return column.to_numpy(zero_copy_only=False).astype(float)
    return column.to_pylist()


def _latent(log: Log, options: Options) -> Segmented:
    """Segments are hidden kinds of units, found from what several arms paid them."""
    if options.method not in ("auto", "channels"):
        raise ProblemError(f"method: got {shown(options.method)}; expected features, from which it finds segments")
    rng = np.random.default_rng(options.seed)
    sample = _draw(log, options)
    arms, pairs = sample.arms, len(np.unique(sample.unit * len(sample.arms) + sample.arm))
    if pairs == sample.units:
        raise ProblemError(
            "unit: no unit saw more than one arm; expected units that saw several, or a segment column or features to tell "
            "kinds apart"
        )
    counts = count_arrays(sample.arm, np.zeros_like(sample.arm), sample.rewards, arms, ["everyone"], options.edges)
    levels = _levels(counts, options)
    shape = (sample.units, len(arms), levels.size)
    ratings = build_ratings(sample.unit, sample.arm, levels.of(sample.rewards), shape, exact=levels.exact)
    choice = None
    if options.segments is None:
        choice = choose_kinds(ratings, rng, most=MOST_KINDS, progress=lambda t, x: options.progress(t, 0.1 + 0.5 * x))
    kinds = options.segments if choice is None else choice.chosen
    assert kinds is not None
    options.progress(f"fitting {kinds} kinds", 0.6)
    mixture = fit_mixture(ratings, kinds, rng)
    share = responsibilities(ratings, mixture)

    def refit(half: Ints, rng: np.random.Generator) -> Ints:
        again = fit_mixture(ratings.take(half), kinds, rng, starts=2, rounds=50)
        return np.asarray(np.argmax(responsibilities(ratings, again), axis=1))

    options.progress("finding them again in halves of the units", 0.75)
    stability = find_stability(np.argmax(share, axis=1), kinds, refit, rng)
    options.progress("finding how sure they are", 0.9)
    worth = effective_counts(ratings, mixture, rng)
    soft = _soft_counts(sample, counts, ratings.order, share)
    facts = sample.facts | {"arms_per_unit": round(pairs / sample.units, 2)}
    return Segmented(
        soft, mixture.p, levels, levels.merge(soft.n), worth, "mixture of channels", None, choice, stability, facts=facts
    )


def _soft_counts(sample: Sample, counts: Counts, order: Ints, share: Floats) -> Counts:
    """Counts of the sample's rewards by kind, as far as units are of it: ``share`` (units, J), units in ``order``."""
    arms, _, bins = counts.n.shape
    if counts.values is not None:
        at = np.searchsorted(counts.values, sample.rewards)
    else:
        at = np.searchsorted(counts.edges, sample.rewards, side="right")
    where = (sample.unit, sample.arm * bins + at)

    def add(weights: Floats) -> Floats:
        rows = sparse.csr_array((weights, where), shape=(sample.units, arms * bins))[order]
        return np.asarray(rows.T @ share).reshape(arms, bins, -1).transpose(0, 2, 1)

    names = [f"kind {j + 1}" for j in range(share.shape[1])]
    return counts._replace(segments=names, n=add(np.ones(len(at))), total=add(sample.rewards))


def _by_features(log: Log, options: Options) -> Segmented:
    """Segments are found from features of a sample, then the whole log is counted by the rule that gives them."""
    rng = np.random.default_rng(options.seed)
    sample = _draw(log, options)
    features = read_features(log.columns.features, sample.columns)
    method = options.method
    if method == "auto":
        method = "gaussian" if all(feature.numeric for feature in features) else "categorical"
    choice = None if options.segments is not None else _choose_segments(sample, features, method, rng, options)
    kinds = options.segments if choice is None else choice.chosen
    assert kinds is not None
    options.progress(f"finding {kinds} segments", 0.6)
    rule = find_segments(features, sample.columns, kinds, method, rng)
    label = rule.assign(sample.columns)
    order = np.argsort(-np.bincount(label, minlength=kinds), kind="stable")
    rule = rule.relabelled(order)
    label = rule.assign(sample.columns)

    def refit(half: Ints, rng: np.random.Generator) -> Ints:
        return find_segments(features, _pick(sample.columns, half), kinds, method, rng).assign(sample.columns)

    stability = find_stability(label, kinds, refit, rng)
    options.progress("counting", 0.8)
    names = [f"segment {j + 1}" for j in range(kinds)]
    counts = _in_order(count_log(log, rule.expression(log.table, names), options.edges), names)
    return _from_counts(
        log, counts, lambda table: rule.expression(table, names), options, f"features ({method})", choice=choice,
        stability=stability, profiles=describe_segments(features, sample.columns, label, kinds), facts=sample.facts,
    )  # fmt: skip


def _in_order(counts: Counts, names: list[str]) -> Counts:
    """Segments in the order of ``names``, also those without a row."""
    place = [counts.segments.index(name) if name in counts.segments else -1 for name in names]
    shape = (len(counts.arms), len(names), counts.n.shape[2])
    n, total, scatter = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape)
    for j, at in enumerate(place):
        if at >= 0:
            n[:, j], total[:, j] = counts.n[:, at], counts.total[:, at]
            scatter[:, j] = 0 if counts.scatter is None else counts.scatter[:, at]
    return counts._replace(segments=names, n=n, total=total, scatter=None if counts.scatter is None else scatter)


def _pick(columns: Sequence[Any], rows: Ints) -> list[Any]:
    return [c[rows] if isinstance(c, np.ndarray) else [c[i] for i in rows] for c in columns]


def _choose_segments(
    sample: Sample, features: list[Feature], method: str, rng: np.random.Generator, options: Options
) -> Choice:
    """The fewest segments that foretell the rewards of held-out units as well as the best number does."""
    everyone = count_arrays(sample.arm, np.zeros_like(sample.arm), sample.rewards, sample.arms, ["all"], options.edges)
    levels = _levels(everyone, options)
    level = levels.of(sample.rewards)
    held = rng.permutation(sample.units) < sample.units * HELD_OUT
    test = held[sample.unit]
    train = np.flatnonzero(~test)
    seen = np.bincount(sample.unit[test], minlength=sample.units)[held] > 0
    tried: list[Floats] = []
    grid = [j for j in FEATURE_GRID if j <= max(1, len(train) // 20)]
    for i, kinds in enumerate(grid):
        options.progress(f"trying {kinds} segments", 0.1 + 0.5 * i / len(grid))
        rule: Classifier = find_segments(features, _pick(sample.columns, train), kinds, method, rng)
        segment = rule.assign(sample.columns)
        counts = np.zeros((len(sample.arms), kinds, levels.size))
        np.add.at(counts, (sample.arm[train], segment[train], level[train]), 1)
        laws = arm_laws(counts.sum(axis=1), exact=False)
        s = find_strengths(counts, laws)[:, None, None]
        law = (counts + s * laws[:, None]) / (counts.sum(axis=2, keepdims=True) + s)
        surprise = np.log(np.maximum(law[sample.arm[test], segment[test], level[test]], 1e-12))
        tried.append(np.bincount(sample.unit[test], surprise, sample.units)[held][seen].astype(float))
        if i - int(np.argmax([fitness.mean() for fitness in tried])) >= 3:
            break
    return fewest(grid, tried, errors=2.0)  # one more segment splits every count; one more hidden kind does not
