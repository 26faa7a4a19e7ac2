"""The studio over HTTP: analysis, simulation and problem files without any state. What it computes is in ``tasks``.

Bodies are checked for size, depth and unreadable text before anything else looks at them. Everything is computed in processes
beside the service, within limits of processor time and memory; at most two simulations run at a time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from headwater.errors import ProblemError
from headwater.service import tasks
from headwater.service.answers import ServiceError, refusals
from headwater.service.wire import Number
from headwater.service.worker import WARMING, Allowance, Worker

MAX_BYTES = 1_000_000
MAX_DEPTH = 12
MAX_KEY = 200
MAX_TEXT = 10_000
"""Characters of a name or an expression; a problem file as text may have ``MAX_FILE``."""
MAX_FILE = 200_000
QUICK = Allowance(2.0, 1000)
"""What everything but a simulation may take."""
RACE = Allowance(2 * tasks.MAX_SECONDS + 5, 2000)
"""What a simulation may take, beside its own budget: that of two threads, and what comes before it."""
AT_A_TIME = 2
WAITING = 10
"""Requests that are looked at or wait to be."""

_places, _waiting = threading.BoundedSemaphore(AT_A_TIME), threading.BoundedSemaphore(WAITING)
_quick, *_slow = (Worker("headwater.service.tasks") for _ in range(1 + AT_A_TIME))


class Careful(APIRoute):
    """A route whose body is looked over before it is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def careful(request: Request) -> Response:
            await look_over(request)
            return await handle(request)

        return careful


async def look_over(request: Request) -> None:
    """Refuse bodies that are too large, nested too deeply, or hold text that cannot be written down again."""
    size, parts = 0, []
    async for part in request.stream():
        size += len(part)
        if size > MAX_BYTES:
            raise ServiceError(413, f"the body: got more than {MAX_BYTES:,} bytes; expected at most that many")
        parts.append(part)
    request._body = b"".join(parts)  # where starlette keeps a body that was read, for the route to find
    if request._body:
        try:
            data = json.loads(request._body)
        except RecursionError:
            raise ServiceError(400, f"the body: is nested too deeply; expected at most {MAX_DEPTH} levels") from None
        except ValueError:
            return  # not JSON: the route says so
        _check(data, 0)


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ServiceError(400, f"the body: is nested too deeply; expected at most {MAX_DEPTH} levels")
    if isinstance(value, str):
        _check_text(value, "a text", MAX_FILE if depth == 1 else MAX_TEXT)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_text(key, "a key", MAX_KEY)
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)


def _check_text(text: str, what: str, most: int) -> None:
    if len(text) > most:
        raise ServiceError(422, f"the body: got {what} of {len(text):,} characters; expected at most {most:,}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ServiceError(422, f"the body: got {what} with half a surrogate pair; expected Unicode text") from None


router = APIRouter(prefix="/v1", tags=["studio"], route_class=Careful, responses=refusals(400, 401, 403, 413, 422, 429, 503))

_EXAMPLE = {
    "name": "two ads",
    "latent": {"kind": "discrete", "values": ["student", "worker", "retiree"], "probabilities": [0.3, 0.4, 0.3]},
    "arms": {"banner": [1, 2, 2], "video": [1.5, 0, 1.5]},
}
ProblemBody = Annotated[
    dict[str, Any],
    Field(description="A problem, in the shape of a problem file (`headwater schema` prints it).", examples=[_EXAMPLE]),
]
Law = Annotated[
    Any,
    Field(
        description="The distribution of X, instead of the problem's own; in any form a file takes.", examples=[[0.5, 0.2, 0.3]]
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AnalyzeBody(_Body):
    """A problem to analyse."""

    problem: ProblemBody
    distribution: Law = None


class PseudoBody(_Body):
    """An arm, and what it paid."""

    problem: ProblemBody
    observed: str = Field(description="The arm that was pulled.", examples=["banner"])
    reward: Annotated[float, Number] = Field(allow_inf_nan=False, description="What it paid.", examples=[2])


class TomlBody(_Body):
    """A problem to write down."""

    problem: ProblemBody


class ParseBody(_Body):
    """The text of a problem file."""

    text: str = Field(max_length=MAX_FILE, description="TOML, or JSON of the same shape.")


class SimulateBody(_Body):
    """Policies to race."""

    problem: ProblemBody
    policies: list[Annotated[str, Field(max_length=200)]] = Field(
        default=["ucb1", "c-ucb"],
        min_length=1,
        max_length=10,
        description="Names, with options after a colon: `c-ts:posterior=beta`. `auto` is the one we would choose.",
    )
    horizon: int = Field(default=5000, strict=True, ge=1, le=10_000_000, description="Rounds per run.")
    replications: int = Field(default=100, strict=True, ge=1, le=10_000, description="Independent runs.")
    seed: int = Field(default=0, strict=True, ge=0, lt=2**64, description="The same seed gives the same results.")
    reward_range: Annotated[float, Number] | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="B, which scales exploration."
    )
    distribution: Law = None


class Example(BaseModel):
    """A problem to begin with."""

    id: str
    name: str
    note: str
    problem: dict[str, Any]


def _do(task: str, arguments: dict[str, Any]) -> Any:
    """In a process beside the service: nobody can say how long an expression on an interval takes, nor how many ask."""
    with _one_of(_waiting, "more problems wait to be looked at than fit"):
        return _quick.call(task, arguments, QUICK)


def _answer(result: Any) -> Response:
    try:
        text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ProblemError("arms: the rewards are too large: some of the answer is no finite number. Scale them down") from None
    return Response(text, media_type="application/json")


@router.post("/analyze", summary="Means, gaps, competitive arms and the least regret possible")
def analyze(body: AnalyzeBody) -> Response:
    """What `headwater analyze --json` prints. Without any distribution: what holds for every one."""
    tasks.check_extent(body.problem)
    return _answer(_do("analyze", body.model_dump()))


@router.post("/pseudo", summary="The most every other arm could have paid in one round")
def pseudo(body: PseudoBody) -> Response:
    """For each arm, the most it could have paid in a round in which the observed arm paid the reward."""
    tasks.check_extent(body.problem)
    return _answer(_do("pseudo", body.model_dump()))


@router.post(
    "/problems/toml",
    summary="A problem as the text of a problem file",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def to_toml(body: TomlBody) -> PlainTextResponse:
    """`headwater analyze` and all other commands read the text back."""
    tasks.check_extent(body.problem)
    return PlainTextResponse(_do("to_toml", body.model_dump()))


@router.post("/problems/parse", summary="A problem from the text of a problem file")
def parse(body: ParseBody) -> Response:
    """Everything wrong with the text is listed at once."""
    return _answer(_do("parse", body.model_dump()))


@router.get("/examples", summary="Problems to begin with", response_model=list[Example])
def examples() -> list[dict[str, Any]]:
    """The commented files of `headwater new`, and the paper's problems."""
    return tasks.examples()


@router.post("/simulate", summary="Race policies on the same draws of X")
def simulate(body: SimulateBody) -> Response:
    """What `headwater simulate --json` prints, for races that take a few seconds; longer ones are refused."""
    tasks.check_policies(body.policies)
    tasks.check_extent(body.problem)
    with _one_of(_places, f"{AT_A_TIME} simulations are running already"):
        worker = next((worker for worker in _slow if not worker.busy), _slow[0])
        first = {"policies": body.policies, "kind": tasks.kind_of(body.problem)}
        worker.call("warm", first, WARMING)
        return _answer(worker.call("simulate", body.model_dump(), RACE))


@contextmanager
def _one_of(places: threading.BoundedSemaphore, full: str) -> Iterator[None]:
    """One of so many; nobody waits for one, because whoever waits keeps a thread from others."""
    if not places.acquire(blocking=False):
        raise ServiceError(503, f"{full}; try again in a moment", headers={"Retry-After": "2"})
    try:
        yield
    finally:
        places.release()
