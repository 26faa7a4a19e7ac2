"""An evaluation, step by step: read, replay in every population, hold what was stated against it, say what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwater.errors import HeadwaterError
from headwater.evaluation.calibration import (
    ChannelCalibration,
    LawCalibration,
    channel_calibration,
    law_calibration,
    laws_in_words,
    read_stated,
)
from headwater.evaluation.data import Crowd, Rows
from headwater.evaluation.estimates import Estimates, estimate
from headwater.evaluation.events import Events
from headwater.evaluation.guard import Degree, guard_curve
from headwater.evaluation.people import FEW, Population, as_they_are, at_random, by_label, of_mix
from headwater.evaluation.rejection import LogReplay, replay_log
from headwater.evaluation.replay import THOMPSON, Market, named_specs, replay
from headwater.policies.auto import spec_for
from headwater.policies.rules import Spec
from headwater.problem import Problem, Random
from headwater.simulation import check_number

__all__ = ["Evaluation", "LogEvaluation", "evaluate_log", "evaluate_people", "populations_of"]

Progress = Callable[[str, float], None]
LAW_ROUNDS, LAW_RUNS = 20_000, 20
GUARD_ROUNDS, GUARD_RUNS = 5000, 20


@dataclass(frozen=True)
class Evaluation:
    """Policies on held-out people: what each did in every population, and whether what was stated holds.

    ``channels`` is None where the problem states no intervals; ``laws`` and ``guard`` are empty where ``auto`` learns no law.
    """

    problem: Problem
    about: Rows
    people: int
    segments_known: bool
    markets: list[Market]
    channels: ChannelCalibration | None = None
    laws: list[LawCalibration] = field(default_factory=list)
    guard: list[Degree] = field(default_factory=list)

    @property
    def policies(self) -> list[str]:
        return list(self.markets[0].simulation.outcomes)

    def findings(self) -> list[str]:
        """What came out, in plain sentences."""
        out = [*_ratios(self), *_coarse(self)]
        if self.channels is not None:
            out.append(
                f"Of the learned intervals, stated at {self.channels.confidence:.0%}, {self.channels.cells:.0%} of the cells "
                f"and {self.channels.means:.0%} of the means per arm and segment hold on held-out people."
            )
        if self.laws:
            out.append(laws_in_words(self.laws))
        return out + _guarded(self.guard)

    def warnings(self) -> list[str]:
        """What is shaky, in sentences."""
        out = list(self.about.warnings)
        for market in self.markets:
            few = market.population.effective
            if few < FEW:
                out.append(f"{market.population.name}: worth {few:.0f} people only, who decide which arm is best there")
        return out

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what ``--json`` prints."""
        return {
            "problem": self.problem.name,
            "data": self.about.label,
            "learned_from": self.about.learned_from,
            "people": self.people,
            "segments_known": self.segments_known,
            "populations": [market.to_dict() for market in self.markets],
            "channels": None if self.channels is None else self.channels.to_dict(),
            "inferred_mix": [law.to_dict() for law in self.laws],
            "guard": [degree.to_dict() for degree in self.guard],
            "findings": self.findings(),
            "warnings": self.warnings(),
        }


def _ratios(found: Evaluation) -> list[str]:
    """auto, else the last policy, against UCB1 and Thompson sampling."""
    mine = "auto" if "auto" in found.policies else found.policies[-1]
    out = []
    for other, words in (("ucb1", "UCB1"), *((title, f"Thompson sampling{which}") for title, which in THOMPSON.items())):
        if other in found.policies and other != mine:
            ratios = [market.ratio(mine, other) for market in found.markets]
            whole = sum(float(m.simulation.regret(mine)[:, -1].mean()) for m in found.markets)
            base = sum(float(m.simulation.regret(other)[:, -1].mean()) for m in found.markets)
            if base > 0:
                ends = f"{min(ratios):.2f} to {max(ratios):.2f}"
                out.append(f"{mine} has {whole / base:.2f} times the regret of {words} (by population: {ends}).")
    return out


def _coarse(found: Evaluation) -> list[str]:
    wrong = [m for m in found.markets if int(np.argmax(m.modelled)) != m.best]
    if not wrong:
        return ["In every population the learned model, told the true mix, names the truly best arm."]
    names, worst = ", ".join(m.population.name for m in wrong[:5]), max(wrong, key=lambda m: _lost(m))
    return [
        f"In {len(wrong)} of {len(found.markets)} populations ({names}) the learned model, told the true mix, names an arm "
        f"that is not best, by up to {_lost(worst):.3g} a round: it is too coarse there, and only real rewards can decide."
    ]


def _guarded(degrees: Sequence[Degree]) -> list[str]:
    """From which degree on the model misleads, and how often the guard speaks there."""
    misled = [degree for degree in degrees if degree.harm > 0]
    if not misled:
        return []
    first, last = misled[0], degrees[-1]
    begin = f"Once {first.degree:.0%} of what the model says of the best arm is turned round, it names another arm"
    if first.degree == 0:
        begin = f"As it is, the model names an arm in “as they are” that costs {first.harm:.3g} a round"
    then = f"with {last.degree:.0%} turned round it does in {last.spoke:.0%}"
    return [f"{begin}, and the guard speaks in {first.spoke:.0%} of runs; {then}."]


def _lost(market: Market) -> float:
    return float(market.means.max() - market.means[int(np.argmax(market.modelled))])


def populations_of(
    crowd: Crowd,
    *,
    mixes: Sequence[Mapping[str, float]] = (),
    markets: int = 5,
    concentration: float = 0.5,
    by: str | None = None,
    seed: int = 0,
) -> list[Population]:
    """The people as they are; in each mix; by the values of a column; and in ``markets`` random mixes."""
    check_number("markets", markets, 0, 1000)
    people = crowd.people
    out = [as_they_are(people), *(of_mix(people, mix) for mix in mixes)]
    if crowd.labels is not None:
        out += by_label(people, crowd.labels, by or "label")
    return out + at_random(people, count=markets, concentration=concentration, seed=seed)


def evaluate_people(
    crowd: Crowd,
    populations: Sequence[Population],
    *,
    policies: Sequence[str | Spec],
    horizon: int,
    replications: int,
    seed: int = 0,
    checkpoints: Any = None,
    evidence: Mapping[str, Any] | None = None,
    calibrate: bool = True,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Replay policies in every population; where ``calibrate``, hold what is stated and inferred against the people, too."""
    tell = progress or (lambda *_: None)
    people, markets = crowd.people, []
    named_specs(policies, people.problem)
    share = 0.75 if calibrate else 1.0
    for n, population in enumerate(populations):

        def step(done: int, total: int, n: int = n, name: str = population.name) -> None:
            tell(f"replaying: {name}", share * (n + done / total) / len(populations))

        markets.append(
            replay(
                people,
                population,
                policies=policies,
                horizon=horizon,
                replications=replications,
                seed=seed,
                checkpoints=checkpoints,
                threads=threads,
                progress=step,
            )
        )
    found = Evaluation(people.problem, crowd.about, people.count, people.known, markets)
    return _calibrated(found, crowd, populations, evidence or {}, seed, threads, tell) if calibrate else found


def _calibrated(
    found: Evaluation,
    crowd: Crowd,
    populations: Sequence[Population],
    evidence: Mapping[str, Any],
    seed: int,
    threads: int | None,
    tell: Progress,
) -> Evaluation:
    people = crowd.people
    horizon, runs = found.markets[0].simulation.horizon, found.markets[0].simulation.replications
    stated = read_stated(evidence, people)
    channels = None if stated is None else channel_calibration(people, stated)
    laws: list[LawCalibration] = []
    guard: list[Degree] = []
    if spec_for("auto", people.problem).learns:
        tell("what is inferred of the mix", 0.75)
        try:
            laws = law_calibration(
                people, populations, horizon=min(horizon, LAW_ROUNDS), runs=min(runs, LAW_RUNS), seed=seed, threads=threads
            )
        except HeadwaterError:  # more values of X than intervals are computed for: an evaluation does without
            laws = []
        arm = list(people.problem.arms.values())[found.markets[0].best]
        if isinstance(arm, Random):
            tell("how wrong the model may be", 0.85)
            guard = guard_curve(
                people,
                populations[0],
                horizon=min(horizon, GUARD_ROUNDS),
                runs=min(runs, GUARD_RUNS),
                seed=seed,
                threads=threads,
            )
    return Evaluation(found.problem, found.about, found.people, found.segments_known, found.markets, channels, laws, guard)


@dataclass(frozen=True)
class LogEvaluation:
    """What a log says: estimates of fixed choices, and policies replayed on it; ``replay`` is None where it was refused.

    ``units`` is how many people the events are of, None where the log names none.
    """

    problem: Problem
    about: Rows
    events: int
    logged_mean: float
    estimates: Estimates
    replay: LogReplay | None
    refused: list[str]
    units: int | None = None

    def findings(self) -> list[str]:
        """What came out, in plain sentences."""
        sharpest = {row.choice: row for row in self.estimates.rows}  # the last method of each choice
        best = max(sharpest.values(), key=lambda row: row.value)
        out = [
            f"The log paid {self.logged_mean:.4g} an event. {best.choice[0].upper()}{best.choice[1:]} is estimated to pay "
            f"{best.value:.4g} ({best.low:.4g} to {best.high:.4g}, {best.method})."
        ]
        if self.replay is not None:
            rows = self.replay.to_dict()["policies"]
            words = ", ".join(
                f"{name} {row['mean_reward'][-1]:.4g} ± {row['standard_error'][-1]:.2g}" for name, row in rows.items()
            )
            out.append(
                f"Mean reward a round over {int(self.replay.rounds[-1]):,} rounds: {words}; arms by lot {self.replay.lot:.4g}."
            )
        return out

    def intervals_in_words(self) -> str:
        """Which intervals are stated, in a sentence."""
        over = "events" if self.units is None else f"{self.units:,} units"
        return (
            f"Intervals are stated at 95 %, each by itself: Gaffke's, which of clicks are Clopper and Pearson's, over {over}. "
            "No arm is taken to pay more, or less, than the problem says or the log shows."
        )

    def warnings(self) -> list[str]:
        """What is shaky or was refused, in sentences."""
        return [*self.about.warnings, *self.estimates.refused, *self.refused]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what ``--json`` prints."""
        return {
            "problem": self.problem.name,
            "data": self.about.label,
            "learned_from": self.about.learned_from,
            "events": self.events,
            "units": self.units,
            "logged_mean": self.logged_mean,
            "intervals": self.intervals_in_words(),
            "estimates": [row._asdict() for row in self.estimates.rows],
            "replay": None if self.replay is None else self.replay.to_dict(),
            "findings": self.findings(),
            "warnings": self.warnings(),
        }


def evaluate_log(
    events: Events,
    about: Rows,
    *,
    policies: Sequence[str | Spec],
    horizon: int | None,
    runs: int,
    seed: int = 0,
    checkpoints: Any = None,
    progress: Progress | None = None,
) -> LogEvaluation:
    """Estimate fixed choices and replay policies; what the log is too small for is refused with a sentence."""
    tell = progress or (lambda *_: None)
    named_specs(policies, events.problem)
    found, refused, replayed = estimate(events), [], None
    try:
        replayed = replay_log(
            events,
            policies=policies,
            horizon=horizon,
            runs=runs,
            seed=seed,
            checkpoints=checkpoints,
            progress=lambda done, total: tell("replaying the log", done / total),
        )
    except HeadwaterError as error:
        if horizon is not None:  # who asks for so many rounds should be told, not left without
            raise
        refused = [f"no policy was replayed: {error}"]
    units = None if events.unit is None else int(events.unit.max()) + 1
    return LogEvaluation(events.problem, about, events.count, float(events.reward.mean()), found, replayed, refused, units)
