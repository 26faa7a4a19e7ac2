"""Is what was stated right on held-out people: the intervals of the learned channels, and those of the inferred law of X?

A learned interval holds the truth with its confidence. Held-out people show the truth only up to their own chance, so that what
is counted is how often the held-out figure lies within both margins, taken together as independent errors add up:
sqrt(learned² + held-out²). Of intervals that are right, that is the case in the stated share of cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from headwater.arrays import Bools, Floats
from headwater.errors import ProblemError
from headwater.evaluation.people import People, Population
from headwater.evaluation.replay import replay_model
from headwater.policies.auto import spec_for
from headwater.policies.evidence import evidence_of
from headwater.policies.inference import latent_law
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
    "read_stated",
]


class Stated(NamedTuple):
    """What a fit states of each arm's cells: ``low`` and ``high`` (J, M) at ``confidence``, and those of the means (J,)."""

    confidence: float
    low: list[Floats]
    high: list[Floats]
    mean_low: list[Floats]
    mean_high: list[Floats]


class ArmCalibration(NamedTuple):
    """One arm: which cells (J, M) and means (J,) hold on held-out people; the means there, with their own margin (J,)."""

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
    return stated


def channel_calibration(people: People, stated: Stated) -> ChannelCalibration:
    """Hold every learned cell, and every arm's mean in every segment, against the held-out people of that segment."""
    z = -float(ndtri((1 - stated.confidence) / 2))
    share = people.membership
    size = share.sum(axis=0)
    # people who belong to a segment in part are worth less than their number
    worth = np.divide(size**2, np.sum(share**2, axis=0), out=np.zeros_like(size), where=size > 0)
    out = []
    counted = people.counted()
    for k, (name, arm) in enumerate(people.problem.arms.items()):
        assert isinstance(arm, Random)
        hot = (counted[k][:, None] == arm.outcomes).astype(float)
        seen = np.divide(share.T @ hot, size[:, None], out=arm.probabilities.copy(), where=size[:, None] > 0)
        p = arm.probabilities
        own = z * np.sqrt(np.maximum(p * (1 - p), 1e-12) / np.maximum(worth[:, None], 1e-12))
        cells = _within(seen, p, stated.low[k], stated.high[k], own)
        mean, held = p @ arm.outcomes, seen @ arm.outcomes
        spread = np.maximum(seen @ arm.outcomes**2 - held**2, 0.0)
        margin = z * np.sqrt(spread / np.maximum(worth, 1e-12))
        means = _within(held, mean, stated.mean_low[k], stated.mean_high[k], margin)
        learned = (stated.mean_high[k] - stated.mean_low[k]) / 2
        out.append(ArmCalibration(name, cells, means, mean, learned, held, margin))
    return ChannelCalibration(stated.confidence, out)


def _within(seen: Floats, centre: Floats, low: Floats, high: Floats, own: Floats) -> Bools:
    margin = np.where(seen > centre, high - centre, centre - low)
    return np.asarray(abs(seen - centre) <= np.sqrt(np.maximum(margin, 0.0) ** 2 + own**2) + 1e-12)


class LawCalibration(NamedTuple):
    """What policies inferred of one population's mix of segments at the horizon, over ``runs`` runs.

    ``all_inside``: the share of runs in which every segment's interval holds its true share, which should be at least
    ``confidence``; ``inside`` (J,) by segment; ``width`` (J,) of the intervals; ``contradicted``: runs in which no mix fits.
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

    def to_dict(self) -> dict[str, Any]:
        out = self._asdict()
        return out | {key: out[key].tolist() for key in ("inside", "width", "truth", "likeliest")}


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
        laws = [
            latent_law(known, seen, people.segments, doubted, confidence)
            for seen, doubted in zip(minds.seen, minds.doubted, strict=True)
        ]
        ends = np.array([[(v.low, v.high, v.likeliest) for v in law.values] for law in laws])
        inside = (ends[..., 0] <= population.mix + 1e-9) & (population.mix - 1e-9 <= ends[..., 1])
        out.append(
            LawCalibration(
                population.name,
                confidence,
                runs,
                float(inside.all(axis=1).mean()),
                inside.mean(axis=0),
                (ends[..., 1] - ends[..., 0]).mean(axis=0),
                float(np.mean([law.contradicted for law in laws])),
                population.mix,
                ends[..., 2].mean(axis=0),
            )
        )
    return out
