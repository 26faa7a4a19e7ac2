"""Is what was stated right on held-out people: the intervals of the learned channels, and those of the inferred law of X?

A learned interval holds the truth with its confidence. Held-out people show the truth only up to their own chance, for which
they have an exact interval of their own. What is counted is how often the two figures are no farther apart than both errors
together allow: if more was seen than learned, the root of the sum of squares of how far the learned interval reaches up and of
how far the held-out one reaches down (the square-and-add intervals of Newcombe, 1998; Zou and Donner, 2008). Of intervals that
are right, that is the case in at least about the stated share of cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwater.arrays import Bools, Floats
from headwater.errors import ProblemError
from headwater.evaluation.people import People, Population
from headwater.evaluation.replay import replay_model
from headwater.intervals import binomial_intervals, mean_intervals
from headwater.policies.auto import spec_for
from headwater.policies.evidence import evidence_of
from headwater.policies.inference import Holds, LatentLaw, latent_law
from headwater.policies.rules import Spec
from headwater.problem import Random
from headwater.simulation.minds import simulate_minds

__all__ = [
    "ArmCalibration",
    "ChannelCalibration",
    "LawCalibration",
    "Stated",
    "channel_calibration",
    "law_calibration",
    "laws_in_words",
    "read_stated",
]


class Stated(NamedTuple):
    """What a fit states of each arm's cells: ``low`` and ``high`` (J, M) at ``confidence``, and those of the means (J,).

    ``own``: the shares (J, M) of the cell's own rewards that intervals rest on, where the fit says; the law may be shrunk.
    """

    confidence: float
    low: list[Floats]
    high: list[Floats]
    mean_low: list[Floats]
    mean_high: list[Floats]
    own: list[Floats] | None = None


class ArmCalibration(NamedTuple):
    """One arm: which cells (J, M) and means (J,) hold on held-out people; the means (J,), learned and there, and how far their
    intervals reach below and above, each (2, J).
    """

    name: str
    cells: Bools
    means: Bools
    learned: Floats
    learned_margin: Floats
    held_out: Floats
    held_out_margin: Floats


class ChannelCalibration(NamedTuple):
    """The share of cells, and of means per arm and segment, that hold; ``confidence`` of them should."""

    confidence: float
    arms: list[ArmCalibration]

    @property
    def cells(self) -> float:
        return float(np.mean(np.concatenate([arm.cells.ravel() for arm in self.arms])))

    @property
    def means(self) -> float:
        return float(np.mean(np.concatenate([arm.means for arm in self.arms])))

    def to_dict(self) -> dict[str, Any]:
        rows = {arm.name: {"cells": float(arm.cells.mean()), "means": float(arm.means.mean())} for arm in self.arms}
        return {"confidence": self.confidence, "cells": self.cells, "means": self.means, "arms": rows}


def read_stated(evidence: Mapping[str, Any], people: People) -> Stated | None:
    """What the evidence of a problem file states, None where it states no intervals of these arms and levels."""
    arms, problem = evidence.get("arms"), people.problem
    if not isinstance(arms, Mapping) or not set(problem.names) <= set(arms):
        return None
    keys = ("low", "high", "mean_low", "mean_high")
    try:
        found = {key: [np.array(arms[name][key], dtype=float) for name in problem.names] for key in keys}
        stated = Stated(float(evidence.get("confidence", 0.95)), **found)
    except (KeyError, TypeError, ValueError):
        return None
    for low, arm in zip(stated.low, problem.arms.values(), strict=True):
        if not isinstance(arm, Random) or low.shape != arm.probabilities.shape:
            return None
    return stated._replace(own=_own_shares(arms, people))


def _own_shares(arms: Mapping[str, Any], people: People) -> list[Floats] | None:
    """The shares of each level among a cell's own rewards, the learned law where it has none."""
    out = []
    for name, arm in people.problem.arms.items():
        assert isinstance(arm, Random)
        try:
            counts = np.array(arms[name]["counts"], dtype=float)
        except (KeyError, TypeError, ValueError):
            return None
        if counts.shape != arm.probabilities.shape:
            return None
        n = counts.sum(axis=1, keepdims=True)
        out.append(np.divide(counts, n, out=arm.probabilities.copy(), where=n > 0))
    return out


def channel_calibration(people: People, stated: Stated) -> ChannelCalibration:
    """Hold every learned cell, and every arm's mean in every segment, against the held-out people of that segment."""
    share = people.membership
    size = share.sum(axis=0)
    # people who belong to a segment in part are worth less than their number
    worth = np.divide(size**2, np.sum(share**2, axis=0), out=np.zeros_like(size), where=size > 0)
    out = []
    counted, sure = people.counted(), stated.confidence
    for k, (name, arm) in enumerate(people.problem.arms.items()):
        assert isinstance(arm, Random)
        hot = (counted[k][:, None] == arm.outcomes).astype(float)
        seen = np.divide(share.T @ hot, size[:, None], out=arm.probabilities.copy(), where=size[:, None] > 0)
        own = arm.probabilities if stated.own is None else stated.own[k]
        hits = np.clip(seen * worth[:, None], 0.0, worth[:, None])
        there = binomial_intervals(hits, worth[:, None], confidence=sure)
        cells = _agree(own, (stated.low[k], stated.high[k]), seen, there)
        mean, held = arm.probabilities @ arm.outcomes, seen @ arm.outcomes
        ends = float(arm.outcomes.min()), float(arm.outcomes.max())
        there = mean_intervals(arm.outcomes, hits, low=ends[0], high=ends[1], confidence=sure)
        here = stated.mean_low[k], stated.mean_high[k]
        means = _agree(np.clip(own @ arm.outcomes, *here), here, held, there)
        margins = np.stack([mean - here[0], here[1] - mean]), np.stack([held - there[0], there[1] - held])
        out.append(ArmCalibration(name, cells, means, mean, np.maximum(margins[0], 0), held, np.maximum(margins[1], 0)))
    return ChannelCalibration(stated.confidence, out)


def _agree(one: Floats, ends: tuple[Floats, Floats], other: Floats, others: tuple[Floats, Floats]) -> Bools:
    """Whether two figures, each with its interval, are no farther apart than both intervals together allow."""
    up = np.hypot(np.maximum(ends[1] - one, 0.0), np.maximum(other - others[0], 0.0))
    down = np.hypot(np.maximum(one - ends[0], 0.0), np.maximum(others[1] - other, 0.0))
    return np.asarray((other - one <= up + 1e-12) & (one - other <= down + 1e-12))


class LawCalibration(NamedTuple):
    """What policies inferred of one population's mix of segments after ``rounds`` rounds, over ``runs`` runs.

    In a share ``contradicted`` of the runs no mix fitted and nothing was stated; in a share ``doubted`` the guard had spoken
    against some arm. The rest is of the ``stated`` other runs: ``inside`` (J,), how often each segment's interval at this
    moment holds its true share, which should be ``confidence`` of them or more; ``all_inside``, how often those intervals do
    that are stated for all segments at once; ``width`` (J,) of the former. All are nan where nothing was stated.
    """

    population: str
    confidence: float
    runs: int
    all_inside: float
    inside: Floats
    width: Floats
    contradicted: float
    truth: Floats
    likeliest: Floats
    rounds: int
    stated: int
    doubted: float

    @property
    def held(self) -> float:
        """Of the intervals of single segments that were stated, the share that holds."""
        return float(np.mean(self.inside))

    def to_dict(self) -> dict[str, Any]:
        out = self._asdict()
        out |= {key: out[key].tolist() for key in ("inside", "width", "truth", "likeliest")}
        if not self.stated:
            none = [None] * len(self.truth)
            out |= {"all_inside": None, "inside": none, "width": none}
        return out


def laws_in_words(laws: Sequence[LawCalibration]) -> str:
    """How often what was stated of the mix held, in a sentence or two."""
    runs, stated = sum(law.runs for law in laws), sum(law.stated for law in laws)
    rounds, sure = max(law.rounds for law in laws), laws[0].confidence
    out = ""
    if stated:
        held = sum(law.held * law.stated for law in laws if law.stated) / stated
        together = sum(law.all_inside * law.stated for law in laws if law.stated) / stated
        out = (
            f"What auto infers of the mix of segments, stated at {sure:.0%} after {rounds:,} rounds for each segment by itself "
            f"at that moment, holds for {held:.0%} of the segments over {stated} runs; what it states for all segments at "
            f"once, in {together:.0%} of these runs. "
        )
    return f"{out}In {runs - stated} of {runs} runs no mix fits the rewards after {rounds:,} rounds, and none is stated."


def law_calibration(
    people: People,
    populations: Sequence[Population],
    *,
    policy: str | Spec = "auto",
    horizon: int = 2000,
    runs: int = 20,
    seed: int = 0,
    confidence: float = 0.95,
    threads: int | None = None,
) -> list[LawCalibration]:
    """Let a policy learn in each population, and hold the intervals of its ``latent()`` against the true mix."""
    spec = spec_for(policy, people.problem)
    if not spec.learns:
        raise ProblemError(f"policy: got {spec.title}; expected one that learns the law of X, such as joint-ucb")
    known = evidence_of(people.problem)
    out = []
    for population in populations:
        model = replay_model(people, population)
        minds = simulate_minds(model, spec, horizon=horizon, replications=runs, seed=seed, threads=threads)
        found: dict[Holds, list[LatentLaw]] = {"each": [], "all": []}
        for seen, doubted in zip(minds.seen, minds.doubted, strict=True):
            for holds, laws in found.items():
                laws.append(latent_law(known, seen, people.segments, doubted, confidence, holds))
        each, together = (_ends(laws) for laws in found.values())
        stated = ~np.isnan(each[:, 0, 0])
        inside, all_inside = (
            (ends[stated, :, 0] <= population.mix + 1e-9) & (population.mix - 1e-9 <= ends[stated, :, 1])
            for ends in (each, together)
        )
        some, nothing = bool(stated.any()), np.full(len(population.mix), np.nan)
        out.append(
            LawCalibration(
                population.name,
                confidence,
                runs,
                float(all_inside.all(axis=1).mean()) if some else np.nan,
                inside.mean(axis=0) if some else nothing,
                (each[stated, :, 1] - each[stated, :, 0]).mean(axis=0) if some else nothing,
                float(1 - stated.mean()),
                population.mix,
                each[..., 2].mean(axis=0),
                horizon,
                int(stated.sum()),
                float(minds.doubted.any(axis=1).mean()),
            )
        )
    return out


def _ends(laws: Sequence[LatentLaw]) -> Floats:
    """Low, high and likeliest of every value, (N, J, 3)."""
    return np.array([[(v.low, v.high, v.likeliest) for v in law.values] for law in laws])
