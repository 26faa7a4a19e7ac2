"""What a campaign decides with: its problem, with every table that its policy reads. Made beside the thread that decides.

Small listed problems are made at once, in whichever thread asks: their size says how long it takes. For all others nobody can
tell beforehand, so that a process of its own makes them, within limits of processor time and memory, and hands them on.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError

from headwater.errors import HeadwaterError, SizeError
from headwater.files import build_problem, parse_problem
from headwater.policies import AUTO, Policy, spec_for
from headwater.problem import Problem
from headwater.service.answers import ServiceError, complaint_lines
from headwater.service.campaign import Config, check_settings, spec_of, warm_up
from headwater.service.tasks import KINDS, extent, kind_of
from headwater.service.wire import CampaignBody
from headwater.service.worker import WARMING, Allowance, Worker

SMALL = 10_000
"""Arms times values of X (times outcomes) up to which a listed problem is made at once: some milliseconds."""
SMALL_ARMS = 100
SMALL_TEXT = 50_000
"""Bytes of a campaign's JSON up to which it is read at once."""
MOST_TEXT = 5_000_000
"""Characters of a problem, as JSON, that a campaign may have."""
WAIT = 30.0
"""Seconds that whoever makes a campaign waits for another that is being made."""
TRIED = 20
"""Arms whose rewards are tried."""


@dataclass(frozen=True)
class ModelLimits:
    """What the model of one campaign may take."""

    seconds: float = 10.0
    """Processor time to make it."""
    megabytes: int = 256
    """Memory that it takes for as long as the campaign is in use."""
    step: float = 0.1
    """Processor time of one decision, or of one reward."""

    @property
    def allowance(self) -> Allowance:
        """While it is made, several times its memory may be needed."""
        return Allowance(self.seconds, 4 * self.megabytes + 512)


class Made(NamedTuple):
    """A campaign that was asked for, ready to be stored: settings, the problem as JSON, and the problem itself."""

    body: CampaignBody
    config: Config
    text: str
    problem: Problem


def small(data: Any) -> bool:
    """Whether a problem's data says by its size that it is made in some milliseconds."""
    found = extent(data)
    return found.listed and found.arms <= SMALL_ARMS and found.cells <= SMALL and found.text <= SMALL_TEXT


def make(body: CampaignBody) -> tuple[Made, Policy]:
    """A campaign from what was asked for, and its policy; everything wrong with it that can be said without the database."""
    problem = build_problem(body.problem, name=body.name if body.name.isprintable() else "")
    spec = spec_for(body.policy, problem)
    policy = Policy(spec, problem, reward_range=body.reward_range, seed=body.seed)
    config = Config(**body.model_dump(exclude={"id", "problem"}), spec=spec.to_dict())
    check_settings(config, problem, policy)
    text = json.dumps(problem.to_dict())
    if len(text) > MOST_TEXT:
        raise ServiceError(413, f"problem: has {len(text):,} characters; at most {MOST_TEXT:,} are kept")
    return Made(body.model_copy(update={"problem": {}}), config, text, problem), policy


class Models:
    """Makes campaigns' models, within ``limits``. ``loaded`` is called when functions of another kind of policy are there."""

    def __init__(self, limits: ModelLimits | None = None, loaded: Callable[[], None] = lambda: None) -> None:
        self.limits, self.loaded = limits or ModelLimits(), loaded
        self._warm: set[tuple[str, str, str]] = set()
        self._creating, self._loading = (
            Worker(__name__, what="problem: making its model", who="a campaign of this service") for _ in range(2)
        )

    def create(self, raw: bytes) -> Made:
        """A campaign from the body of a request."""
        if len(raw) <= SMALL_TEXT:
            body = read_body(raw)
            if small(body.problem):
                quick, _ = make(body)
                self._warm_up(quick.config, quick.problem)
                return quick
        self._creating.call("warm", {"raw": raw}, WARMING, wait=WAIT)
        made: Made = self._creating.call("create", {"raw": raw, "limits": self.limits}, self.limits.allowance, wait=WAIT)
        self._warm_up(made.config, made.problem, explain=False)
        return made

    def load(self, text: str, config: Config) -> Problem:
        """The problem of a campaign that is stored, with its tables."""
        problem: Problem
        if whole := (len(text) <= SMALL_TEXT and small(data := json.loads(text))):
            problem = build_problem(data)
        else:
            settings = {"text": text, "config": config}
            self._loading.call("warm", settings, WARMING)
            problem = self._loading.call("load", {**settings, "limits": self.limits}, self.limits.allowance)
        self._warm_up(config, problem, explain=whole)
        return problem

    def _warm_up(self, config: Config, problem: Problem, *, explain: bool = True) -> None:
        spec = spec_of(config)
        warm_up(spec, problem, config.reward_range, explain=explain)
        kind = (spec.rule.code, spec.reference, problem.latent.kind)
        if kind not in self._warm:
            self._warm.add(kind)
            self.loaded()

    def close(self) -> None:
        """End the processes."""
        self._creating.close()
        self._loading.close()


def read_body(raw: bytes) -> CampaignBody:
    """The body of a request for a campaign, or everything that is wrong with its shape."""
    try:
        return CampaignBody.model_validate_json(raw)
    except ValidationError as error:
        lines = complaint_lines(error.errors(include_url=False))
        raise ServiceError(422, lines[0], details=lines) from None


# In the process beside it.


def _warm(raw: bytes = b"", text: str = "", config: Config | None = None) -> None:
    """Load the functions that the next call will run, on a small problem of the same kind, before any clock runs."""
    with suppress(HeadwaterError, ValueError, RecursionError):  # what is wrong is said by the next call
        body: Any = json.loads(raw) if raw else {"problem": json.loads(text)}
        data, named = (body.get("problem"), body.get("policy", AUTO)) if isinstance(body, dict) else (None, AUTO)
        problem = parse_problem(KINDS[kind_of(data)])
        warm_up(spec_of(config) if config is not None else spec_for(str(named), problem), problem, None)


def _create(raw: bytes, limits: ModelLimits) -> Made:
    made, policy = make(read_body(raw))
    check_limits(policy, limits)
    return made


def _load(text: str, config: Config, limits: ModelLimits) -> Problem:
    problem = build_problem(json.loads(text))
    check_limits(Policy(spec_of(config), problem, reward_range=config.reward_range, seed=config.seed), limits)
    return problem


def check_limits(policy: Policy, limits: ModelLimits) -> None:
    """Refuse a model that takes too much memory, or too long for a decision or a reward."""
    arrays: list[pickle.PickleBuffer] = []
    pickle.dumps(policy.problem, protocol=5, buffer_callback=arrays.append)
    megabytes = (sum(array.raw().nbytes for array in arrays) + policy.memory) / 2**20
    if megabytes > limits.megabytes:
        raise SizeError(
            f"problem: its model takes {megabytes:,.0f} MB of memory; a campaign of this service gets {limits.megabytes:,}. "
            "Leave out arms, or use a policy that needs less (c-ucb)"
        )
    seconds = _longest_step(policy)
    if seconds > limits.step:
        raise SizeError(
            f"problem: a decision or a reward takes {seconds:.2g} s of processor time; a campaign of this service gets "
            f"{limits.step:g}. Simplify its expressions, leave out arms, or use a policy that needs less (c-ucb)"
        )


def _longest_step(policy: Policy) -> float:
    """Processor seconds of the slowest of some rewards, with the decision after it."""
    longest, rounds = 0.0, 0
    for name, (low, high) in list(zip(policy.names, policy.model.ranges.tolist(), strict=True))[:TRIED]:
        for reward in (low, (low + high) / 2, high):
            start = time.thread_time()  # the process's own clock stands still between ticks once its time is limited
            with suppress(HeadwaterError):  # an arm may not pay what lies in the middle
                policy.update(name, reward)
            policy.select()
            rounds += 1
            if rounds > 1:  # the first loads what all others find
                longest = max(longest, time.thread_time() - start)
    return longest


TASKS = {"warm": _warm, "create": _create, "load": _load}
