"""Held-out people who have a reward for every arm, and the populations that can be made of them by weighting.

A population is one weight per person. People are counted into segments by ``membership`` (U, J): a known segment is a row of 0
and 1, an unknown one the posterior that the learned channels give from the person's own rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Floats, Ints, nearest
from headwater.complaints import is_number, normalised, shown
from headwater.errors import ProblemError
from headwater.latent import Continuous
from headwater.problem import Problem, Random
from headwater.pseudo import model_of
from headwater.pseudo.channels import channels_of
from headwater.pseudo.finite import FiniteModel

__all__ = [
    "FEW",
    "People",
    "Population",
    "as_they_are",
    "at_random",
    "by_label",
    "check_listed",
    "label_places",
    "levels_of",
    "make_people",
    "of_mix",
]

FEW = 100
"""The effective number of people below which a population is flagged: its true means are then a matter of who was in it."""


@dataclass(frozen=True)
class People:
    """U held-out people: ``rewards`` (K, U) as they were, ``level`` (K, U) as the problem counts them, ``membership`` (U, J).

    ``known`` says whether the segments were given, not inferred.
    """

    problem: Problem
    rewards: Floats
    level: Ints
    membership: Floats
    known: bool

    @property
    def count(self) -> int:
        return len(self.membership)

    @property
    def segments(self) -> tuple[str, ...]:
        latent = self.problem.latent
        assert not isinstance(latent, Continuous)
        return tuple(latent.label(j) for j in range(latent.size))

    def of_arms(self, names: Sequence[str]) -> People:
        """The same people and segments with some of the arms only; at least two."""
        places, problem = [self.problem.index(name) for name in names], self.problem
        part = Problem(
            latent=problem.latent,
            arms={problem.names[k]: problem.arms[problem.names[k]] for k in places},
            distribution=problem.distribution,
            name=problem.name,
        )
        return People(part, self.rewards[places], self.level[places], self.membership, self.known)

    def counted(self) -> Floats:
        """Everybody's rewards as the problem counts them: the values of their levels, (K, U)."""
        return np.stack([value[row] for value, row in zip(channels_of(self.problem).values, self.level, strict=True)])


class Population(NamedTuple):
    """A weight for every person; the weights sum to one. ``mix`` (J,) is the share of each segment under them."""

    name: str
    weights: Floats
    mix: Floats

    @property
    def effective(self) -> float:
        """How many equally weighted people would be as informative: 1 / Σ w²."""
        return float(1.0 / np.sum(self.weights**2))


def make_people(problem: Problem, rewards: Any, *, segments: Sequence[Any] | None = None) -> People:
    """People from their rewards (U, K), in the order of the problem's arms.

    A reward is counted as the level between whose edges it lies, for arms without edges as the nearest. ``segments`` (U,) are
    labels of X where they are known.

    >>> import headwater as hw
    >>> coin = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.2, 0.8]]}
    >>> ads = hw.Problem(latent=hw.Discrete(["young", "old"]), arms={"banner": coin, "video": [0, 1]})
    >>> people = make_people(ads, [[0.1, 0], [0.9, 1]])
    >>> people.level.tolist(), people.membership.round(2).tolist()
    ([[0, 1], [0, 1]], [[1.0, 0.0], [0.0, 1.0]])
    """
    check_listed(problem)
    try:
        table = np.array(rewards, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"rewards: got {shown(rewards)}; expected a table of numbers, a row per person") from None
    count = len(problem.names)
    if table.ndim != 2 or table.shape[1] != count or not len(table):
        raise ProblemError(f"rewards: got shape {table.shape}; expected (people, {count}), a column for each of {count} arms")
    if not np.isfinite(table).all():
        u, k = np.argwhere(~np.isfinite(table))[0].tolist()
        raise ProblemError(
            f"rewards[{u}]: {problem.names[k]} is missing; a replay needs a reward of every person for every arm: leave out "
            "people who lack one, or evaluate the log of who was shown what"
        )
    levels = np.stack([levels_of(problem, k, row) for k, row in enumerate(table.T)])
    membership = _posterior(problem, levels) if segments is None else _given(problem, segments, len(table))
    for part in (table, levels, membership):
        part.setflags(write=False)
    return People(problem, table.T, levels, membership, segments is not None)


def check_listed(problem: Problem) -> None:
    """Refuse a problem whose X is not a list of values."""
    if not isinstance(model_of(problem), FiniteModel):
        raise ProblemError(f"problem: got {problem.latent.kind} X; expected one whose values are listed, such as fit writes")


def levels_of(problem: Problem, k: int, rewards: Floats) -> Ints:
    """Which of arm k's levels each of its rewards counts as: as it would live, but with no reward refused."""
    arm = list(problem.arms.values())[k]
    if isinstance(arm, Random) and arm.edges is not None:
        rewards = arm.outcomes[np.searchsorted(arm.edges, rewards, side="right")]
    return nearest(channels_of(problem).values[k], rewards)


def _posterior(problem: Problem, levels: Ints) -> Floats:
    """P(segment | a person's levels) (U, J) under the learned channels; the prior is the control group's mix where it is known.

    People whose rewards the channels call impossible belong to every segment as the prior says.
    """
    channels, model = channels_of(problem), model_of(problem)
    assert isinstance(model, FiniteModel)
    size, law = channels.g.shape[1], problem.distribution
    prior = np.full(size, 1.0 / size) if law is None else model.probabilities(law)
    with np.errstate(divide="ignore"):
        score = np.tile(np.log(prior), (levels.shape[1], 1))
        for k in range(len(levels)):
            score += np.log(channels.matrix(k))[levels[k]]
    top = score.max(axis=1, keepdims=True)
    out = np.exp(score - np.where(np.isfinite(top), top, 0.0))
    out[~np.isfinite(top[:, 0])] = prior
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def label_places(problem: Problem, segments: Sequence[Any], count: int) -> Ints:
    """Which value of X each of ``count`` labels names."""
    latent = problem.latent
    assert not isinstance(latent, Continuous)
    places = {latent.label(j): j for j in range(latent.size)}
    labels = [str(label) for label in segments]
    if len(labels) != count:
        raise ProblemError(f"segments: got {len(labels)} labels; expected {count}, one per row")
    unknown = sorted({label for label in labels if label not in places})
    if unknown:
        raise ProblemError(f"segments: got {shown(unknown[0])}; expected one of {', '.join(list(places)[:20])}")
    return np.array([places[label] for label in labels], dtype=np.int64)


def _given(problem: Problem, segments: Sequence[Any], count: int) -> Floats:
    out = np.zeros((count, problem.rewards.shape[1]))
    out[np.arange(count), label_places(problem, segments, count)] = 1.0
    return out


def as_they_are(people: People) -> Population:
    """Everybody counts the same."""
    return _population(people, "as they are", np.ones(people.count))


def of_mix(people: People, mix: Mapping[str, float] | Sequence[float] | Floats, name: str = "") -> Population:
    """People re-weighted so that segment j has the share ``mix[j]``; those of one segment stay to each other as they are.

    A person's weight is Σ_j mix_j · membership_j / (all membership of j).
    """
    shares = _shares(people, mix)
    size = people.membership.sum(axis=0)
    empty = np.flatnonzero((size <= 0) & (shares > 0))
    if empty.size:
        segment = people.segments[int(empty[0])]
        raise ProblemError(
            f"mix: got {shares[empty[0]]:.3g} of {segment}, where nobody is; expected shares of segments with people"
        )
    ratio = np.divide(shares, size, out=np.zeros_like(shares), where=size > 0)
    return _population(people, name or _words(people, shares), people.membership @ ratio)


def at_random(people: People, *, count: int, concentration: float = 0.5, seed: int = 0) -> list[Population]:
    """Populations whose mix of segments is drawn from a Dirichlet law; the n-th is a function of (seed, n) alone.

    A small ``concentration`` makes markets of few segments, a large one markets that are alike. Segments with nobody in them
    have no part.
    """
    if not is_number(concentration) or not 0 < concentration < np.inf:
        raise ProblemError(f"concentration: got {shown(concentration)}; expected a number above 0")
    there = people.membership.sum(axis=0) > 0
    out = []
    for n in range(count):
        mix = np.zeros(len(there))
        # a gamma draw of a tiny shape may be 0 everywhere: the largest of them then has everything
        draw = np.random.default_rng([seed, n]).standard_gamma(concentration, int(there.sum()))
        mix[there] = draw if draw.sum() > 0 else np.eye(len(draw))[0]
        out.append(of_mix(people, normalised(mix), f"market {n + 1}"))
    return out


def by_label(people: People, labels: Sequence[Any], column: str = "label") -> list[Population]:
    """A population for every value of a column, made of the people who have it."""
    if len(labels) != people.count:
        raise ProblemError(f"{column}: got {len(labels)} values; expected {people.count}, one per person")
    names = np.array([str(label) for label in labels])
    return [_population(people, f"{column} = {name}", (names == name).astype(float)) for name in np.unique(names).tolist()]


def _population(people: People, name: str, weights: Floats) -> Population:
    scaled = normalised(np.asarray(weights, dtype=float))
    return Population(name, scaled, scaled @ people.membership)


def _shares(people: People, mix: Mapping[str, float] | Sequence[float] | Floats) -> Floats:
    names = people.segments
    if isinstance(mix, Mapping):
        unknown = [key for key in mix if key not in names]
        if unknown:
            raise ProblemError(f"mix: got {shown(unknown[0])}; expected one of {', '.join(names[:20])}")
        mix = [mix.get(name, 0.0) for name in names]
    if not all(is_number(share) and 0 <= share < np.inf for share in mix) or len(mix) != len(names) or not sum(mix):
        raise ProblemError(f"mix: got {shown(list(mix))}; expected {len(names)} shares of 0 or more that are not all 0")
    return normalised(np.array(mix, dtype=float))


def _words(people: People, shares: Floats) -> str:
    order = [j for j in np.argsort(-shares, kind="stable").tolist() if shares[j] > 0]
    parts = [f"{100 * shares[j]:.0f} % {people.segments[j]}" for j in order[:3]]
    return ", ".join(parts) + (" and others" if len(order) > 3 else "")
