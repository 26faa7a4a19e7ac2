"""Segments from features: clusters or mixtures found on a sample of units, then stated as a rule that any database can apply.

k-means and Gaussian mixtures give each segment a quadratic score of the standardised features, a categorical mixture a sum of
a term per feature; a row belongs to the segment with the largest score. Scores are plain arithmetic and CASE expressions, so
that the whole log is counted where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.fitting.counts import bin_of
from headwater.fitting.mixture import Ratings, build_ratings, fit_mixture
from headwater.fitting.sources import need_ibis

CATEGORIES = 50
"""A feature's commonest values that count; others are one value together."""
_QUANTILES = 6
_FULL = 10
_ENOUGH = 5000
"""About so many units are enough to place Gaussians or centres."""


@dataclass(frozen=True)
class Feature:
    """One feature as the sample shows it: a number with its mean, spread and quantiles, or a text with its commonest values."""

    name: str
    column: str
    numeric: bool
    mean: float = 0.0
    sd: float = 1.0
    edges: tuple[float, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def codes(self) -> int:
        """How many values it has as a category: its own, other ones (of a text), and none."""
        return len(self.edges) + 2 if self.numeric else len(self.values) + 2

    def code(self, given: Any) -> Ints:
        """Each value's number as a category; the last number stands for no value."""
        if self.numeric:
            return np.where(np.isnan(given), self.codes - 1, np.searchsorted(self.edges, given, side="right"))
        place = {value: i for i, value in enumerate(self.values)} | {None: self.codes - 1}
        return np.array([place.get(value, len(self.values)) for value in given], dtype=np.int64)

    def standard(self, given: Floats) -> Floats:
        return np.where(np.isnan(given), 0.0, (given - self.mean) / self.sd)

    def standard_expression(self, table: Any) -> Any:
        return need_ibis().coalesce((table[self.column] - self.mean) / self.sd, 0.0)

    def lookup(self, table: Any, entries: Sequence[float]) -> Any:
        """The entry of a row's category, as an expression."""
        ibis = need_ibis()
        column = table[self.column]
        if self.numeric:
            inside = _lookup(bin_of(column, list(self.edges)), entries[:-1])
            return ibis.ifelse(column.isnull(), float(entries[-1]), inside)
        known = [(column == value, float(entry)) for value, entry in zip(self.values, entries, strict=False)]
        return ibis.cases((column.isnull(), float(entries[-1])), *known, else_=float(entries[-2]))

    def describe(self, given: Any, inside: Any) -> tuple[float, str]:
        """How much a segment differs from everyone in this feature, and the words for it."""
        if self.numeric:
            here, all_ = float(np.nanmean(given[inside])), self.mean
            if np.isnan(here):
                return 0.0, ""
            return abs(here - all_) / self.sd, f"{self.name} {here:.3g} on average ({all_:.3g} overall)"
        code = self.code(given)
        names = [*self.values, "other", "none"]
        share = np.bincount(code[inside], minlength=self.codes) / max(int(np.sum(inside)), 1)
        base = np.bincount(code, minlength=self.codes) / len(code)
        top = int(np.argmax((share - base) / np.sqrt(base * (1 - base) + 1e-3)))
        words = f"{self.name} is {names[top]} for {share[top]:.0%} ({base[top]:.0%} overall)"
        return float((share - base)[top] / np.sqrt(base[top] * (1 - base[top]) + 1e-3)), words


def _lookup(number: Any, entries: Sequence[float]) -> Any:
    return need_ibis().cases(*((number == i, float(v)) for i, v in enumerate(entries)), else_=0.0)


def read_features(names: Sequence[str], columns: Sequence[Any]) -> list[Feature]:
    """What the sample's columns (a float array or a list of texts each) say about each feature."""
    out = []
    for i, (name, given) in enumerate(zip(names, columns, strict=True)):
        if isinstance(given, np.ndarray):
            known = given[~np.isnan(given)]
            if not len(known) or np.ptp(known) == 0:
                raise ProblemError(f"features[{i}]: {shown(name)} has one value only in the sample; expected one that differs")
            edges = np.unique(np.quantile(known, np.arange(1, _QUANTILES) / _QUANTILES, method="lower"))
            cut = tuple(edges[edges > known.min()].tolist())
            out.append(Feature(name, f"f{i}", True, float(known.mean()), float(known.std()), cut))
        else:
            values, count = np.unique([value for value in given if value is not None], return_counts=True)
            if len(values) < 2:
                raise ProblemError(f"features[{i}]: {shown(name)} has one value only in the sample; expected one that differs")
            order = np.argsort(-count, kind="stable")[:CATEGORIES]
            out.append(Feature(name, f"f{i}", False, values=tuple(str(values[at]) for at in sorted(order))))
    return out


@dataclass(frozen=True)
class Classifier:
    """A score per segment: ``constant`` (J,) + ``linear`` (J, F) and ``square`` (J, F, F) in the standardised features, or +
    an entry of ``tables[f]`` (codes, J) for each feature's category.
    """

    features: list[Feature]
    constant: Floats
    linear: Floats | None = None
    square: Floats | None = None
    tables: list[Floats] | None = None

    def assign(self, columns: Sequence[Any]) -> Ints:
        """The segment of each unit of a sample, (N,)."""
        if len(self.constant) == 1:
            return np.zeros(len(columns[0]), dtype=np.int64)
        scores = np.tile(self.constant, (len(columns[0]), 1))
        if self.tables is not None:
            for feature, table, given in zip(self.features, self.tables, columns, strict=True):
                scores += table[feature.code(given)]
        else:
            z = np.stack([feature.standard(given) for feature, given in zip(self.features, columns, strict=True)], axis=1)
            assert self.linear is not None
            scores += z @ self.linear.T
            if self.square is not None:
                scores += np.einsum("nf,jfg,ng->nj", z, self.square, z)
        return np.asarray(np.argmax(scores, axis=1))

    def relabelled(self, order: Ints) -> Classifier:
        """The same rule, its segments in another order."""
        linear, square = (None if part is None else part[order] for part in (self.linear, self.square))
        tables = None if self.tables is None else [table[:, order] for table in self.tables]
        return Classifier(self.features, self.constant[order], linear, square, tables)

    def expression(self, table: Any, names: Sequence[str]) -> Any:
        """The name of a row's segment, as an expression on the log's table."""
        ibis = need_ibis()
        if len(names) == 1:
            return ibis.literal(names[0])
        scores = [self._score(table, j) for j in range(len(names))]
        best = ibis.greatest(*scores)
        return ibis.cases(*((score >= best, name) for score, name in zip(scores, names, strict=True)), else_=names[0])

    def _score(self, table: Any, j: int) -> Any:
        total = need_ibis().literal(float(self.constant[j]))
        if self.tables is not None:
            for feature, entries in zip(self.features, self.tables, strict=True):
                total += feature.lookup(table, entries[:, j].tolist())
            return total
        z = [feature.standard_expression(table) for feature in self.features]
        assert self.linear is not None
        for f, weight in enumerate(self.linear[j].tolist()):
            total += z[f] * weight
        if self.square is not None:
            for f in range(len(z)):
                for g in range(f, len(z)):
                    weight = float(self.square[j, f, g] + (self.square[j, g, f] if g > f else 0.0))
                    total += z[f] * z[g] * weight
        return total


def find_segments(
    features: list[Feature], columns: Sequence[Any], kinds: int, method: str, rng: np.random.Generator
) -> Classifier:
    """Segments of a sample, by ``method``: "kmeans" or "gaussian" (numbers only), or "categorical" (numbers in quantiles).

    >>> rng = np.random.default_rng(0)
    >>> age = np.concatenate([rng.normal(20, 2, 200), rng.normal(60, 5, 200)])
    >>> rule = find_segments(read_features(["age"], [age]), [age], 2, "gaussian", rng)
    >>> np.bincount(rule.assign([age]))
    array([200, 200])
    """
    if kinds == 1:
        return Classifier(features, np.zeros(1))
    if method == "categorical":
        return _categorical(features, columns, kinds, rng)
    text = next((feature.name for feature in features if not feature.numeric), None)
    if text is not None:
        raise ProblemError(f"method: got {shown(method)}; expected categorical, as the feature {shown(text)} is not a number")
    z = np.stack([feature.standard(given) for feature, given in zip(features, columns, strict=True)], axis=1)
    z = z[:: max(1, len(z) // _ENOUGH)]
    return (_kmeans if method == "kmeans" else _gaussian)(features, z, kinds, int(rng.integers(2**31)))


def _kmeans(features: list[Feature], z: Floats, kinds: int, seed: int) -> Classifier:
    from sklearn.cluster import KMeans

    centres = KMeans(kinds, n_init=5, random_state=seed).fit(z).cluster_centers_
    return Classifier(features, -np.sum(centres**2, axis=1) / 2, centres)


def _gaussian(features: list[Feature], z: Floats, kinds: int, seed: int) -> Classifier:
    from sklearn.mixture import GaussianMixture

    shape = "full" if z.shape[1] <= _FULL else "diag"
    # k-means itself as a start would always cut across the widest feature, telling or not
    start = {"init_params": "k-means++", "n_init": 8, "random_state": seed}
    found = GaussianMixture(kinds, covariance_type=shape, reg_covar=1e-4, max_iter=200, tol=1e-3, **start).fit(z)
    precision = found.precisions_ if shape == "full" else np.stack([np.diag(row) for row in found.precisions_])
    mean = found.means_
    pulled = np.einsum("jfg,jg->jf", precision, mean)
    constant = np.log(found.weights_) + np.linalg.slogdet(precision)[1] / 2 - np.einsum("jf,jf->j", mean, pulled) / 2
    return Classifier(features, constant, pulled, -precision / 2)


def _categorical(features: list[Feature], columns: Sequence[Any], kinds: int, rng: np.random.Generator) -> Classifier:
    """A latent class model: the mixture of channels, with features for arms and their categories for levels."""
    codes = np.stack([feature.code(given) for feature, given in zip(features, columns, strict=True)], axis=1)
    most = max(feature.codes for feature in features)
    unit, which = np.indices(codes.shape)
    ratings: Ratings = build_ratings(unit.ravel(), which.ravel(), codes.ravel(), (len(codes), len(features), most))
    mixture = fit_mixture(ratings, kinds, rng)
    logs = np.log(np.maximum(mixture.channels, 1e-6))  # a value that the sample lacks decides nothing by itself
    return Classifier(features, np.log(mixture.p), tables=[logs[f, : feature.codes] for f, feature in enumerate(features)])


def describe_segments(features: list[Feature], columns: Sequence[Any], segment: Ints, count: int) -> list[str]:
    """For each segment the features in which it differs most from everyone, in words."""
    out = []
    for j in range(count):
        inside = segment == j
        if not inside.any():
            out.append("")
            continue
        said = sorted((feature.describe(given, inside) for feature, given in zip(features, columns, strict=True)), reverse=True)
        out.append("; ".join(words for amount, words in said[:3] if words and amount > 0.1))
    return out
