"""Policies against real rewards of held-out people: full information, so that regret can be counted.

Each round draws a person of the population, who pays the arm that is pulled what they really gave it. A policy counts that
reward as the level it falls into, as it would live; regret is counted with the real rewards' means. What is drawn is a function
of (seed, replication, round), the same for every policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headwater import native
from headwater.arrays import Floats, Ints, nearest
from headwater.complaints import shown
from headwater.errors import ProblemError
from headwater.evaluation.people import People, Population
from headwater.policies.auto import spec_for
from headwater.policies.evidence import evidence_of
from headwater.policies.live import Policy
from headwater.policies.rules import Spec, parse_spec
from headwater.policies.table import table_of
from headwater.problem import Problem
from headwater.pseudo.channels import channels_of
from headwater.simulation import Outcome, Simulation, check_number, check_rounds
from headwater.simulation.atoms import Atoms
from headwater.simulation.engine import Model, make_model, oracle_rewards, simulate_counts
from headwater.streams import UNIFORM_BITS

__all__ = ["MAX_HORIZON", "THOMPSON", "YARDSTICK", "Market", "named_specs", "replay", "replay_model", "replay_started"]

MAX_HORIZON = 10**9
YARDSTICK = "ts:sd=estimated"
"""Thompson sampling as others are held against it. With the default, sd = B/2, it explores as if every reward were one end of
the range or the other, and flatters whatever is compared with it."""
THOMPSON = {parse_spec(YARDSTICK).title: "", "ts": ", sd B/2"}
"""The Thompson samplings that comparisons name, by title: the yardstick, and what follows the name of the other one."""


@dataclass(frozen=True)
class Market:
    """One population and what policies did there.

    ``means`` (K,) are the real rewards' means, ``counted`` those of the levels the policies saw, ``modelled`` what the learned
    channels say at the population's mix: where ``modelled`` has another best arm than ``means``, the model is too coarse there.
    """

    population: Population
    means: Floats
    counted: Floats
    modelled: Floats
    simulation: Simulation

    @property
    def best(self) -> int:
        return int(np.argmax(self.means))

    def ratio(self, policy: str, against: str) -> float:
        """Mean regret at the horizon over another policy's."""
        one, other = (float(self.simulation.regret(name)[:, -1].mean()) for name in (policy, against))
        return one / other if other > 0 else float("inf") if one > 0 else 1.0

    def growth(self, policy: str, since: int) -> float:
        """Mean regret from round ``since``, a checkpoint, to the horizon."""
        place = np.flatnonzero(self.simulation.rounds == since)
        if not place.size:
            raise ProblemError(f"since: got {since}; expected a checkpoint, such as {int(self.simulation.rounds[0])}")
        regret = self.simulation.regret(policy).mean(axis=0)
        return float(regret[-1] - regret[place[0]])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the policies as a simulation's are."""
        arms = self.simulation.problem.names
        run = self.simulation.to_dict()

        def named(values: Floats) -> dict[str, float]:
            return dict(zip(arms, values.tolist(), strict=True))

        return {
            "population": self.population.name,
            "effective_people": self.population.effective,
            "mix": self.population.mix.tolist(),
            "best": arms[self.best],
            "means": named(self.means),
            "means_of_levels": named(self.counted),
            "means_by_model": named(self.modelled),
            "model_best": arms[int(np.argmax(self.modelled))],
            **{key: run[key] for key in ("horizon", "replications", "seed", "seconds", "policies", "comparisons")},
        }


def named_specs(policies: Sequence[str | Spec], problem: Problem) -> dict[str, Spec]:
    """Policies by the names they were asked for: ``auto`` keeps its own, whatever it stands for."""
    if isinstance(policies, (str, Spec)) or not policies:
        raise ProblemError(f"policies: got {shown(policies)}; expected a list of at least one policy")
    out: dict[str, Spec] = {}
    for policy in policies:
        spec = spec_for(policy, problem)
        title = "auto" if policy == "auto" else spec.title
        if title in out:
            raise ProblemError(f"policies: got {title} twice; expected each policy once")
        out[title] = spec
    return out


def replay_model(people: People, population: Population, *, believed: Problem | None = None) -> Model:
    """The population as the engine draws from it: a person is an atom, who pays their own level whatever the model says.

    ``believed`` is what policies read instead of the people's problem; it has the same arms and rewards.
    """
    problem, level = people.problem, people.level
    if believed is not None:
        problem, paid = believed, people.counted()
        level = np.stack([nearest(value, row) for value, row in zip(channels_of(problem).values, paid, strict=True)])
    table = table_of(problem)
    deeper = table.cells.shape[1] - 1
    cuts = np.empty((0, 0, 0), dtype=np.int64)
    if table.random is not None:  # one reward of each person for each arm: no chance is left
        cuts = np.where(np.arange(deeper) < level[..., None], 0, 2**UNIFORM_BITS).astype(np.int64)
    atoms = Atoms(
        probability=population.weights,
        level=level,
        cells=table.cells,
        values=table.levels,
        unit=table.units.unit,
        low=table.low,
        span=table.span,
        error=0.0,
        cuts=cuts,
        random=table.random,
    )
    return make_model(atoms, scale=table.scale, evidence=evidence_of(problem))


def replay(
    people: People,
    population: Population,
    *,
    policies: Sequence[str | Spec],
    horizon: int = 20_000,
    replications: int = 40,
    seed: int = 0,
    checkpoints: ArrayLike | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    known: Simulation | None = None,
) -> Market:
    """Run policies that believe the people's problem on a population of them. Time as ``simulate`` takes.

    Outcomes of ``known``, an earlier run in the same setting, are taken from there; one in another setting is passed over.

    >>> import headwater as hw
    >>> from headwater.evaluation.people import as_they_are, make_people
    >>> coin = {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.2, 0.8]]}
    >>> ads = hw.Problem(latent=hw.Discrete(["young", "old"]), arms={"banner": coin, "video": [0.2, 0.4]})
    >>> people = make_people(ads, [[0, 0.2], [1, 0.4], [1, 0.4]])
    >>> market = replay(people, as_they_are(people), policies=["ucb1", "auto"], horizon=100, replications=4)
    >>> market.means.round(2).tolist(), market.simulation.problem.names[market.best]
    ([0.67, 0.33], 'banner')
    """
    specs = named_specs(policies, people.problem)
    check_number("horizon", horizon, 1, MAX_HORIZON)
    check_number("replications", replications, 1, 10**6)
    check_number("seed", seed, 0, 2**64 - 1)
    rounds, begun = check_rounds(checkpoints, horizon), time.perf_counter()
    model = replay_model(people, population)
    means, counted = people.rewards @ population.weights, people.counted() @ population.weights
    best = int(np.argmax(means))
    gaps = means[best] - means
    ready: dict[str, Outcome] = {}
    if known is not None and _same_setting(known, people.problem, gaps, rounds, replications, seed):
        ready = {title: outcome for title, outcome in known.outcomes.items() if title in specs}
    setting: dict[str, Any] = {"checkpoints": rounds, "replications": replications, "seed": seed, "threads": threads}
    missing = {title: spec for title, spec in specs.items() if title not in ready}
    ready |= _played(model, missing, setting, progress)
    oracle = oracle_rewards(model, best, **setting)
    simulation = Simulation(
        problem=people.problem,
        gaps=gaps,
        best=best,
        rounds=rounds,
        seed=seed,
        reward_range=model.scale,
        quantisation_error=0.0,
        oracle=oracle,
        outcomes={title: ready[title] for title in specs},
        seconds=time.perf_counter() - begun,
        wanted=replications,
    )
    return Market(population, means, counted, people.problem.rewards @ population.mix, simulation)


def replay_started(people: People, market: Market, spec: Spec, control: Ints, *, title: str) -> Market:
    """The same market with one more policy, which has counted the ``control`` group's rewards (levels, (K, U)) before round 1.

    It is told what they paid under their own mix, as if it were this market's. Decided live: some microseconds a round.
    """
    run, model, values = market.simulation, replay_model(people, market.population), channels_of(people.problem).values
    size, arms = int(run.rounds[-1]), people.problem.names
    counts = {
        name: [[float(values[k][m]), int(n)] for m, n in enumerate(np.bincount(control[k])) if n] for k, name in enumerate(arms)
    }
    pulls = np.zeros((run.replications, len(run.rounds), len(arms)), dtype=np.int64)
    reward = np.zeros((run.replications, len(run.rounds)))
    for i in range(run.replications):
        policy, paid = Policy(spec, people.problem, seed=run.seed, replication=i), np.zeros(size)
        policy.merge(policy.state() | {"counts": counts})
        chosen = np.zeros((size, len(arms)), dtype=np.int64)
        atoms = native.draw_rounds(model.thresholds, model.guide, seed=run.seed, replication=i, count=size)
        for t, person in enumerate(atoms.tolist()):
            name = policy.select()
            k = policy.problem.index(name)
            paid[t] = values[k][people.level[k, person]]
            policy.update(name, float(paid[t]))
            chosen[t, k] = 1
        pulls[i], reward[i] = np.cumsum(chosen, axis=0)[run.rounds - 1], np.cumsum(paid)[run.rounds - 1]
    outcome = Outcome(pulls, reward, np.full((run.replications, len(arms)), -1, dtype=np.int64))
    return replace(market, simulation=replace(run, outcomes={**run.outcomes, title: outcome}))


def _same_setting(known: Simulation, problem: Problem, gaps: Floats, rounds: Ints, replications: int, seed: int) -> bool:
    """Whether an earlier run drew the same people in the same rounds, and counted regret in the same way."""
    same = (known.problem.digest, known.seed, known.replications) == (problem.digest, seed, replications)
    return same and np.array_equal(known.rounds, rounds) and np.array_equal(known.gaps, gaps)


def _played(
    model: Model, specs: Mapping[str, Spec], setting: dict[str, Any], progress: Callable[[int, int], None] | None
) -> dict[str, Outcome]:
    """Outcomes by title; two names of one policy are played once."""
    distinct, done = list(dict.fromkeys(specs.values())), dict[Spec, Outcome]()
    rounds = setting["replications"] * int(setting["checkpoints"][-1])

    def tell(now: int) -> None:
        if progress is not None:
            progress(len(done) * rounds + now, len(distinct) * rounds)

    for spec in distinct:
        done[spec] = Outcome(*simulate_counts(model, spec, **setting, progress=tell))
    return {title: done[spec] for title, spec in specs.items()}
