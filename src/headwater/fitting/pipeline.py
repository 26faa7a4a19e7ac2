"""The steps of a fit, in order: open, check, find segments, choose levels, count, make channels, say what is shaky."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from headwater.arrays import Floats, Ints
from headwater.complaints import Complaints, is_number, shown
from headwater.errors import ProblemError
from headwater.fitting.channels import arm_laws, find_strengths, make_channel
from headwater.fitting.counts import Counts, count_arrays, count_log
from headwater.fitting.levels import Levels, choose_levels, fixed_levels
from headwater.fitting.logs import Columns, Log, read_log, sampled
from headwater.fitting.mixture import Choice, build_ratings, choose_kinds, fit_mixture, responsibilities
from headwater.fitting.result import Fit, Stability
from headwater.fitting.sources import open_source

METHODS = ("auto", "channels", "kmeans", "gaussian", "categorical")
MOST_KINDS = 25
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Options:
    """What a user may set, checked."""

    method: str
    segments: int | None
    levels: int | None
    edges: tuple[float, ...] | None
    least: int
    confidence: float
    sample: int
    seed: int
    progress: Progress

    def check(self) -> None:
        found = Complaints()
        if self.method not in METHODS:
            found.add("method", self.method, f"one of {', '.join(METHODS)}")
        for key, low, high in (("segments", 1, 200), ("levels", 2, 200), ("least", 1, 10**9), ("sample", 100, 10**7)):
            value = getattr(self, key)
            if value is not None and not (is_number(value) and value == int(value) and low <= value <= high):
                found.add(key, value, f"a whole number from {low:,} to {high:,}")
        if not is_number(self.confidence) or not 0 < self.confidence < 1:
            found.add("confidence", self.confidence, "a number between 0 and 1")
        if not is_number(self.seed) or not 0 <= self.seed < 2**63:
            found.add("seed", self.seed, "a whole number, 0 or more")
        if self.edges is not None and (self.levels is not None or not np.all(np.diff(self.edges) > 0) or not self.edges):
            found.add("edges", list(self.edges), "ascending numbers, and no levels beside them")
        found.raise_if_any()


def fit_log(
    data: Any, *, columns: tuple[Any, ...], wide: bool | Sequence[str], missing: Any, until: Any, database: str | None,
    name: str, command: str, progress: Progress | None, edges: Sequence[float] | None, **options: Any,
) -> Fit:  # fmt: skip
    """See :func:`headwater.fit`."""
    chosen = Options(edges=None if edges is None else tuple(edges), progress=progress or (lambda *_: None), **options)
    chosen.check()
    source = open_source(data, database=database)
    wanted = _wide(Columns(*columns), source.table.columns, wide)
    if wanted.segment is not None and wanted.features:
        raise ProblemError("segment: got features, too; expected one of them: where segments are known, none need be found")
    chosen.progress("reading", 0.0)
    log = read_log(source, wanted, missing=missing, until=until)
    import sklearn.cluster  # noqa: F401 - its threads can only be limited once it is loaded

    with threadpool_limits(1):  # the matrices are small: threads would only wait for each other, and sums would depend on them
        found = _segmented(log, chosen)
        return _finish(log, found, chosen, name=name or source.label, origin=_origin(log, found, chosen, command, until))


def _segmented(log: Log, options: Options) -> Segmented:
    if log.columns.segment is not None:
        return _known(log, options)
    if log.columns.features:
        raise ProblemError("features: not yet")
    if "unit" in log.table.columns:
        return _latent(log, options)
    raise ProblemError(
        "segment: missing; expected one of: segment, a column that says who each row's unit is; features to find segments "
        "from; or unit, a column that says which rows are of the same unit, where units saw several arms"
    )


def _wide(columns: Columns, there: Sequence[str], wide: bool | Sequence[str]) -> Columns:
    if wide is False:
        return columns
    taken = set(columns.named.values())
    return columns._replace(wide=tuple(name for name in there if name not in taken) if wide is True else tuple(wide))


@dataclass(frozen=True)
class Segmented:
    """Counts by segment. ``counts[k, j, m]`` by level may be soft; ``total[k, j]``: sums of rewards; ``effective`` (K, J)."""

    arms: list[str]
    segments: list[str]
    shares: Floats
    levels: Levels
    counts: Floats
    total: Floats
    level_total: Floats
    effective: Floats
    strengths: Floats | None
    method: str
    choice: Choice | None = None
    stability: Stability | None = None
    facts: dict[str, Any] | None = None


def _known(log: Log, options: Options) -> Segmented:
    """The log says each row's segment."""
    options.progress("counting", 0.3)
    counts = count_log(log, edges=options.edges)
    return _from_counts(counts, options, "segment column")


def _from_counts(counts: Counts, options: Options, method: str, **more: Any) -> Segmented:
    levels = fixed_levels(counts) if options.edges is not None else choose_levels(counts, options.levels)
    by_level = levels.merge(counts.n)
    rows = by_level.sum(axis=(0, 2))
    return Segmented(
        counts.arms, counts.segments, rows / rows.sum(), levels, by_level, counts.total.sum(axis=2),
        levels.merge(counts.total).sum(axis=1), by_level.sum(axis=2), None, method, **more,
    )  # fmt: skip


def _latent(log: Log, options: Options) -> Segmented:
    """Segments are hidden kinds of units, found from what several arms paid them."""
    if options.method not in ("auto", "channels"):
        raise ProblemError(f"method: got {shown(options.method)}; expected features, from which it finds segments")
    rng = np.random.default_rng(options.seed)
    options.progress("drawing a sample of units", 0.05)
    unit, arm, rewards, arms, facts = _sample(log, options)
    counts = count_arrays(arm, np.zeros_like(arm), rewards, arms, ["everyone"], options.edges)
    levels = fixed_levels(counts) if options.edges is not None else choose_levels(counts, options.levels)
    units = int(unit.max()) + 1
    ratings = build_ratings(unit, arm, levels.of(rewards), (units, len(arms), levels.size), exact=levels.exact)
    choice = None
    if options.segments is None:
        choice = choose_kinds(
            ratings, rng, most=MOST_KINDS, progress=lambda text, share: options.progress(text, 0.1 + 0.6 * share)
        )
    kinds = options.segments or (choice.chosen if choice else 1)
    options.progress(f"fitting {kinds} kinds", 0.7)
    mixture = fit_mixture(ratings, kinds, rng)
    share = responsibilities(ratings, mixture)
    soft = (ratings.counts.T @ share).reshape(len(arms), levels.size, kinds).transpose(0, 2, 1)
    worth = (ratings.counts.T @ share**2).reshape(len(arms), levels.size, kinds).sum(axis=1)
    level_total = levels.merge(counts.total)[:, 0]
    mean = np.divide(level_total, levels.merge(counts.n)[:, 0], out=np.zeros_like(level_total), where=level_total != 0)
    return Segmented(
        arms, [f"kind {j + 1}" for j in range(kinds)], mixture.p, levels, soft, np.einsum("kjm,km->kj", soft, mean),
        level_total, worth, mixture.strengths, "mixture of channels", choice, None, facts,
    )  # fmt: skip


def _sample(log: Log, options: Options) -> tuple[Ints, Ints, Floats, list[str], dict[str, Any]]:
    """Units' rewards, at home: numbers of unit and arm per reward, the rewards, the arms' names, and what was sampled."""
    from headwater.fitting.counts import naturally

    table, share = sampled(log, options.sample, options.seed)
    rows = log.collect(table.select("unit", "arm", "reward"))
    names = rows["arm"].combine_chunks().dictionary_encode()
    units = rows["unit"].combine_chunks().dictionary_encode()
    there = set(names.dictionary.to_pylist())
    arms = [name for name in log.columns.wide if name in there] or naturally(there)
    place = np.array([arms.index(name) for name in names.dictionary.to_pylist()], dtype=np.int64)
    unit = units.indices.to_numpy().astype(np.int64)
    arm, rewards = place[names.indices.to_numpy()], rows["reward"].to_numpy()
    if len(rewards) == 0 or np.ptp(rewards) == 0:
        raise ProblemError(f"{log.label}: the rewards of the sampled units are all alike; expected rewards that differ")
    pairs = len(np.unique(unit * len(arms) + arm))
    if pairs == len(np.unique(unit)):
        raise ProblemError(
            "unit: no unit saw more than one arm; expected units that saw several, or a segment column or features to tell "
            "kinds apart"
        )
    facts = {"units": log.units, "units_used": len(units.dictionary), "arms_per_unit": round(pairs / len(units.dictionary), 2)}
    return unit, arm, rewards, arms, facts | ({} if share == 1 else {"share_of_units": share})


def _finish(log: Log, found: Segmented, options: Options, *, name: str, origin: dict[str, Any]) -> Fit:
    """Laws with intervals out of the counts, and what is shaky about them."""
    if len(found.arms) < 2:
        raise ProblemError(f"arms: got {shown(found.arms[0])} only; expected at least two arms to choose from")
    laws = arm_laws(found.counts.sum(axis=1), exact=found.levels.exact)
    strengths = find_strengths(found.counts, laws) if found.strengths is None else found.strengths
    outcomes = _outcomes(found)
    channels = [
        make_channel(
            found.counts[k], laws[k], float(strengths[k]), outcomes[k],
            effective=found.effective[k], least=options.least, confidence=options.confidence,
        )
        for k in range(len(found.arms))
    ]  # fmt: skip
    n = found.counts.sum(axis=2)
    stated = np.einsum("kjm,km->kj", found.counts, outcomes)
    loss = np.divide(abs(stated - found.total), n, out=np.zeros_like(n), where=n > 0)
    fit = Fit(
        name, found.arms, found.segments, found.shares, channels, found.levels, loss, found.method, origin, found.choice,
        found.stability, list(log.warnings),
    )  # fmt: skip
    fit.problem  # noqa: B018 - what a problem refuses, such as an arm without a name, is refused here
    return fit


def _outcomes(found: Segmented) -> Floats:
    """The reward that stands for each level of each arm, (K, M): the arm's mean there, all arms' where it has none."""
    n, total = found.counts.sum(axis=1), found.level_total
    everyone = np.divide(total.sum(axis=0), n.sum(axis=0), out=np.zeros(n.shape[1]), where=n.sum(axis=0) > 0)
    if found.levels.exact:
        return np.tile(everyone, (len(n), 1))
    empty = n.sum(axis=0) == 0  # an interval of the user's that no reward fell into
    edges = found.levels.edges
    ends = np.concatenate([[edges[0] - 1], edges, [edges[-1] + 1]])
    everyone = np.where(empty, (ends[:-1] + ends[1:]) / 2, everyone)
    return np.asarray(np.divide(total, n, out=np.tile(everyone, (len(n), 1)), where=n > 0.5))


def _origin(log: Log, found: Segmented, options: Options, command: str, until: Any) -> dict[str, Any]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")  # what makes builds repeatable also makes fits so
    now = datetime.datetime.now(datetime.UTC)
    date = now if epoch is None else datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    out: dict[str, Any] = {"date": date.date().isoformat(), "source": log.label}
    out |= {"command": command} if command else {}
    out |= {"rows": log.rows, "left_out": log.left_out} if log.left_out else {"rows": log.rows}
    out |= {"first": str(log.first), "last": str(log.last)} if log.columns.time else {}
    out |= {"until": str(until)} if until is not None else {}
    return out | (found.facts or {}) | {"seed": options.seed, "confidence": options.confidence, "least": options.least}
