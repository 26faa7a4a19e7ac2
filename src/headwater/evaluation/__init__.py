"""Does what was learned hold on held-out people?

``people`` are those who have a reward for every arm, and the populations made of them; ``replay`` runs policies there;
``events`` are a log of who was shown what, ``estimates`` and ``rejection`` what it says of choices and policies that never ran;
``calibration`` and ``guard`` hold what was stated against the people; ``data`` reads, ``pipeline`` puts it together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.errors import ProblemError
from headwater.evaluation.data import read_crowd, read_events, read_problem
from headwater.evaluation.pipeline import Evaluation, LogEvaluation, evaluate_log, evaluate_people, populations_of
from headwater.evaluation.replay import YARDSTICK
from headwater.policies.rules import Spec

__all__ = ["Evaluation", "LogEvaluation", "evaluate"]

POLICIES = ("ucb1", YARDSTICK, "auto")
HORIZON = 5000


def evaluate(
    problem: Any,
    data: Any,
    *,
    arm: str | None = None,
    reward: str | None = None,
    propensity: str | None = None,
    segment: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    missing: Any = None,
    database: str | None = None,
    held_out: bool = False,
    by: str | None = None,
    mixes: Sequence[Mapping[str, float]] = (),
    markets: int = 5,
    concentration: float = 0.5,
    policies: Sequence[str | Spec] = POLICIES,
    horizon: int | None = None,
    replications: int = 40,
    seed: int = 0,
    checkpoints: Any = None,
    calibrate: bool = True,
    threads: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Evaluation | LogEvaluation:
    """Hold a learned problem against people it was not learned from.

    ``problem``: a problem, a fit, or the path of a problem file. ``data``: a CSV or Parquet file, a table of ``database``, or a
    table in memory, one of

    - full information, a row per person and a column per arm (``missing``: no reward): policies are replayed against the real
      rewards, in populations of these people: as they are, in given ``mixes`` (segment → share), by the values of the column
      ``by``, and in ``markets`` random mixes, drawn from a Dirichlet law of that ``concentration``. ``segment`` is a column
      that says who is of which segment; without it the learned channels say.
    - a log, where ``arm`` and ``reward`` name columns: fixed choices are estimated by ``propensity`` (a column; without it arms
      are taken to have been given out by lot), and policies are replayed with rejection in the order of ``time``. ``unit``
      names the person of each event, where people come more than once: intervals are then over people.

    Data that the problem was learned from is noticed and warned of; where the fit held a part of it out (``hold_out``),
    ``held_out`` evaluates on exactly that part.

    Regret, with its standard error, is against the best arm of each population by the real rewards. The same ``seed`` gives the
    same result.

    >>> import numpy as np, headwater as hw
    >>> coin = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.2, 0.8]]}
    >>> ads = hw.Problem(latent=hw.Discrete(["young", "old"]), arms={"banner": coin, "video": [0.4, 0.2]})
    >>> table = {"banner": [0, 0, 1, 1], "video": [0.4, 0.4, 0.2, 0.2]}
    >>> found = evaluate(ads, table, markets=1, horizon=100, replications=4, calibrate=False)
    >>> [(m.population.name, ads.names[m.best]) for m in found.markets]
    [('as they are', 'banner'), ('market 1', 'video')]
    """
    known, evidence = read_problem(problem)
    if (arm is None) != (reward is None):
        given, lacking = ("arm", "reward") if reward is None else ("reward", "arm")
        raise ProblemError(f"{lacking}: missing; a log needs both columns, and {given} is given")
    if arm is not None and reward is not None:
        if by is not None or mixes:
            raise ProblemError("mix: got a log; expected people with a reward for every arm, to make populations of")
        events, about = read_events(
            known, data, arm=arm, reward=reward, propensity=propensity, segment=segment, time=time, unit=unit,
            missing=missing, database=database, evidence=evidence, held_out=held_out,
        )  # fmt: skip
        runs = min(replications, 20)
        return evaluate_log(
            events, about, policies=policies, horizon=horizon, runs=runs, seed=seed, checkpoints=checkpoints, progress=progress
        )
    if propensity is not None or time is not None or unit is not None:
        raise ProblemError("arm: missing; propensity and time are columns of a log, and so are arm, reward and unit")
    crowd = read_crowd(
        known, data, segment=segment, by=by, missing=missing, database=database, evidence=evidence, held_out=held_out
    )
    populations = populations_of(crowd, mixes=mixes, markets=markets, concentration=concentration, by=by, seed=seed)
    return evaluate_people(
        crowd, populations, policies=policies, horizon=HORIZON if horizon is None else horizon, replications=replications,
        seed=seed, checkpoints=checkpoints, evidence=evidence, calibrate=calibrate, threads=threads, progress=progress,
    )  # fmt: skip
