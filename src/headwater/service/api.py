"""The routes under /v1 that have a memory: campaigns, decisions, rewards, and what is known."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal, cast

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from headwater.policies.inference import Holds
from headwater.service import wire
from headwater.service.answers import ServiceError, refusals
from headwater.service.campaign import ARCHIVED, PAUSED, RUNNING, moment
from headwater.service.checking import Checking
from headwater.service.desk import Desk
from headwater.service.exports import Exports
from headwater.service.gate import require
from headwater.service.insight import events_of, refusals_of
from headwater.service.logs import list_views, log_of, log_rows, logged
from headwater.service.metrics import Metrics
from headwater.service.operations import Change, Create, Decide, SetStatus, Settle, SwitchArm, parse_decision
from headwater.service.quick import UNREAD, QuickRoute, json_response
from headwater.service.reading import Reading

router = APIRouter(prefix="/v1", responses=refusals(400, 401, 403, 413, 422, 429, 503))
quick = APIRouter(prefix="/v1", responses=refusals(400, 401, 403, 413, 422, 429, 503), route_class=QuickRoute)

Idempotency = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Any text of yours: asking again with it changes nothing.",
    ),
]
Confidence = Annotated[float, Query(gt=0, lt=1, description="How sure the intervals are to hold.")]
After = Annotated[int, Query(ge=0, le=10**15, description="Decisions after this number.")]
Before = Annotated[
    int | None, Query(ge=1, le=10**15, description="Instead of after: decisions before this number, newest first.")
]
Limit = Annotated[int, Query(ge=1, le=1000)]


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


def _reading(request: Request) -> Reading:
    reading: Reading = request.app.state.reading
    return reading


# Campaigns.


@quick.post("/campaigns", status_code=201, response_model=wire.CampaignView, responses=refusals(409), tags=["campaigns"])
async def create_campaign(request: Request, body: Annotated[wire.CampaignBody, UNREAD]) -> Response:
    """Create a campaign; it decides at once."""
    require(request, "admin")
    raw = cast(bytes, body)  # a large one is read elsewhere
    desk = _desk(request)
    made = await to_thread.run_sync(desk.models.create, raw, limiter=request.app.state.creating)
    view = await desk.do(Create(made.body, made))
    answer = json_response(view, status=201)
    answer.headers["Location"] = f"/v1/campaigns/{view['id']}"
    return answer


@router.get("/campaigns", response_model=wire.Campaigns, tags=["campaigns"])
def list_campaigns(request: Request, status: wire.Status | None = None) -> Response:
    """All campaigns, the latest first."""
    require(request, "read")
    with _desk(request).store.read() as connection:
        views = list_views(connection, status)
    return json_response({"campaigns": views})


@router.get("/campaigns/{id}", response_model=wire.CampaignView, responses=refusals(404), tags=["campaigns"])
def get_campaign(request: Request, id: str) -> JSONResponse:  # noqa: A002 - the name in the path
    """One campaign."""
    require(request, "read")
    with _desk(request).campaign(id) as campaign:
        return JSONResponse(campaign.view())


@router.patch("/campaigns/{id}", response_model=wire.CampaignView, responses=refusals(404), tags=["campaigns"])
async def change_campaign(request: Request, id: str, body: wire.CampaignChange) -> JSONResponse:  # noqa: A002
    """Change settings; what is left out stays. null removes a control, a deadline or a default."""
    require(request, "admin")
    return JSONResponse(await _desk(request).do(Change(id, body)))


def _status_route(verb: str, status: str, text: str) -> None:
    async def route(request: Request, id: str) -> JSONResponse:  # noqa: A002
        require(request, "admin")
        return JSONResponse(await _desk(request).do(SetStatus(id, status)))

    route.__name__, route.__doc__ = f"{verb}_campaign", text
    path = f"/campaigns/{{id}}/{verb}"
    router.post(path, response_model=wire.CampaignView, responses=refusals(404, 409), tags=["campaigns"])(route)


_status_route("pause", PAUSED, "Make no more decisions until it is resumed; rewards go on counting.")
_status_route("resume", RUNNING, "Make decisions again.")
_status_route("archive", ARCHIVED, "End it for good; rewards that still come are counted.")


@router.post("/campaigns/{id}/arms", response_model=wire.CampaignView, responses=refusals(404), tags=["campaigns"])
async def switch_arm(request: Request, id: str, body: wire.ArmChange) -> JSONResponse:  # noqa: A002
    """Switch an arm off or on. What it paid goes on counting as evidence."""
    require(request, "admin")
    return JSONResponse(await _desk(request).do(SwitchArm(id, body.arm, body.enabled)))


# Decisions.


@quick.post(
    "/campaigns/{id}/decisions",
    response_model=wire.Decision | wire.Decisions,
    responses=refusals(404, 409),
    tags=["decisions"],
)
async def decide(
    request: Request,
    id: str,  # noqa: A002
    body: wire.DecideBody | None = None,
    key: Idempotency = None,
) -> Response:
    """Decide once, or for many at once (``count`` or ``units``): then the answer is a list. Durable before it is answered."""
    require(request, "decide")
    body = body or wire.DecideBody()
    many = body.units is not None or body.count is not None
    units: list[str | None] = [*body.units] if body.units is not None else [body.unit] * (body.count or 1)
    made = await _desk(request).do(Decide(id, units, body.shown, key))
    _metrics(request).decisions.labels(id).inc(sum(not one["repeated"] for one in made))
    return json_response({"decisions": made} if many else made[0])


@router.get("/campaigns/{id}/decisions", response_model=wire.Page, responses=refusals(404), tags=["decisions"])
def read_log(
    request: Request,
    id: str,  # noqa: A002
    after: After = 0,
    before: Before = None,
    limit: Limit = 100,
) -> JSONResponse:
    """The decision log with rewards, a page at a time: oldest first, or newest first with ``before``."""
    require(request, "read")
    desk = _desk(request)
    with desk.campaign(id) as campaign:
        log = log_of(campaign)
    with desk.store.read() as connection:
        if before is not None:
            last = min(before - 1, log.decided)
            first = max(last - limit, 0)
            page = [logged(campaign, row) for row in reversed(log_rows(connection, log, first, last - first))]
            return JSONResponse({"decisions": page, "next": first + 1 if first else None})
        rows = log_rows(connection, log, after, limit)
        more = bool(rows) and rows[-1].number < log.decided
        page = [logged(campaign, row) for row in rows]
    return JSONResponse({"decisions": page, "next": rows[-1].number if more else None})


@router.get("/decisions/{id}", response_model=wire.LoggedDecision, responses=refusals(404), tags=["decisions"])
def get_decision(request: Request, id: str) -> JSONResponse:  # noqa: A002
    """One decision and its reward."""
    require(request, "read")
    slug, number = parse_decision(id)
    desk = _desk(request)
    try:
        with desk.campaign(slug) as campaign:
            log = log_of(campaign)
        with desk.store.read() as connection:
            rows = log_rows(connection, log, number - 1, 1)
        if rows:
            return JSONResponse(logged(campaign, rows[0]))
    except ServiceError as error:
        if error.status != 404:
            raise
    raise ServiceError(404, f"there is no decision {id[:100]}")


@router.get(
    "/campaigns/{id}/export",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}, "application/vnd.apache.parquet": {}}}, **refusals(404, 429, 503)},
    tags=["decisions"],
)
async def export_log(request: Request, id: str, format: Literal["csv", "parquet"] = "csv") -> Response:  # noqa: A002
    """The whole decision log as one file."""
    require(request, "read")
    exports: Exports = request.app.state.exports
    return await exports.response(id, format, request.state.caller)


# Rewards.


@quick.post("/decisions/{id}/reward", response_model=wire.RewardAnswer, responses=refusals(404, 409), tags=["rewards"])
async def reward(request: Request, id: str, body: wire.RewardBody) -> Response:  # noqa: A002
    """Count what a decision's arm paid: late and out of order is fine, twice the same is once, another value is refused."""
    require(request, "decide")
    metrics = _metrics(request).rewards
    try:
        told = await _desk(request).do(Settle([(id, body.value)]))
    except ServiceError as error:
        if error.status != 404:
            metrics.labels(id.rpartition(".")[0], "refused").inc()
        raise
    metrics.labels(told.pop("campaign"), told["status"]).inc()
    return json_response(told)


@quick.post("/rewards", response_model=wire.RewardsAnswer, tags=["rewards"])
async def reward_many(request: Request, body: wire.RewardsBody) -> Response:
    """Count many rewards, of any campaigns. Each is counted or refused for itself; the answer says which were refused."""
    require(request, "decide")
    told = await _desk(request).do(Settle([(item.decision, item.value) for item in body.rewards], many=True))
    metrics = _metrics(request).rewards
    for status, count in (("counted", told["counted"]), ("repeated", told["repeated"]), ("refused", len(told["refused"]))):
        metrics.labels("batch", status).inc(count)
    return json_response(told)


# What is known.


def _found(answer: bytes) -> Response:
    return Response(answer, media_type="application/json")


@router.get("/campaigns/{id}/state", response_model=dict[str, Any], responses=refusals(404), tags=["knowledge"])
async def read_state(request: Request, id: str) -> Response:  # noqa: A002
    """What the policy has counted; ``state`` is what ``headwater explain --state`` and Python's from_state read."""
    require(request, "read")
    return _found(await _reading(request).look(id, "state"))


@router.get("/campaigns/{id}/explanation", response_model=dict[str, Any], responses=refusals(404), tags=["knowledge"])
async def read_explanation(request: Request, id: str) -> Response:  # noqa: A002
    """What would be shown next, and where every arm stands, in words."""
    require(request, "read")
    return _found(await _reading(request).look(id, "explanation"))


@router.get("/campaigns/{id}/latent", response_model=dict[str, Any], responses=refusals(404), tags=["knowledge"])
async def read_latent(request: Request, id: str, confidence: Confidence = 0.95, holds: Holds = "each") -> Response:  # noqa: A002
    """Who comes: the likeliest mix of X, an interval for every value, and what looks alike.

    `holds` says what has the confidence: `each` interval by itself, at this moment; `all` of them at once, at this moment; or
    all of them `always`. `kind` says so in words. Where no mix fits, `contradicted` is true and the ends are null.
    """
    require(request, "read")
    return _found(await _reading(request).look(id, "latent", confidence=confidence, holds=holds))


@router.get("/campaigns/{id}/report", response_model=dict[str, Any], responses=refusals(404), tags=["knowledge"])
async def read_report(request: Request, id: str) -> Response:  # noqa: A002
    """Which arm is best and how sure that is, means with intervals, regret avoided against UCB1, alarms."""
    require(request, "read")
    return _found(await _reading(request).report(id))


@router.get("/campaigns/{id}/series", response_model=dict[str, Any], responses=refusals(404), tags=["knowledge"])
async def read_series(request: Request, id: str) -> Response:  # noqa: A002
    """Decisions by arm over time."""
    require(request, "read")
    return _found(await _reading(request).series(id))


@router.get("/campaigns/{id}/events", response_model=dict[str, Any], responses=refusals(404), tags=["knowledge"])
def read_events(request: Request, id: str) -> JSONResponse:  # noqa: A002
    """What happened to the campaign, and the rewards that were refused, latest first."""
    require(request, "read")
    desk = _desk(request)
    with desk.campaign(id) as campaign:
        number, slug = campaign.id, campaign.slug
    with desk.store.read() as connection:
        return JSONResponse({"events": events_of(connection, number), "refusals": refusals_of(connection, number, slug)})


@router.get("/campaigns/{id}/problem", response_model=dict[str, Any], responses=refusals(404), tags=["campaigns"])
def read_problem(request: Request, id: str) -> JSONResponse:  # noqa: A002
    """The problem, in the shape of a problem file."""
    require(request, "read")
    with _desk(request).campaign(id) as campaign:
        problem = campaign.problem
    return JSONResponse(problem.to_dict())


# The database.


@router.post("/check", status_code=202, response_model=wire.Check, tags=["operations"])
async def start_check(request: Request) -> JSONResponse:
    """Begin a full check of the database, unless one is under way: every count against the logs from their first row."""
    require(request, "admin")
    checking: Checking = request.app.state.checking
    return JSONResponse(checking.start(), status_code=202)


@router.get("/check", response_model=wire.Check, tags=["operations"])
async def read_check(request: Request) -> JSONResponse:
    """What the last full check found, or that it is under way."""
    require(request, "read")
    checking: Checking = request.app.state.checking
    return JSONResponse(checking.told)


def ready(desk: Desk) -> str | None:
    """Why the service cannot decide now; None if it can."""
    if not desk.alive:
        return "the desk has ended"
    return desk.trouble


def open_routes(metrics: Metrics) -> APIRouter:
    """Health, readiness and metrics, which stand outside /v1."""
    outside = APIRouter(tags=["operations"])

    @outside.get("/healthz", response_model=dict[str, str])
    async def healthz() -> JSONResponse:
        """Whether the process answers."""
        return JSONResponse({"status": "ok", "at": moment(time.time())})

    @outside.get("/readyz", response_model=dict[str, str], responses=refusals(503))
    async def readyz(request: Request) -> JSONResponse:
        """Whether decisions can be made."""
        if (trouble := ready(_desk(request))) is not None:
            raise ServiceError(503, trouble, headers={"Retry-After": "1"})
        return JSONResponse({"status": "ready"})

    @outside.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **refusals(401, 403)})
    def read_metrics(request: Request) -> Response:
        """Counts and times for Prometheus."""
        require(request, "read")
        return Response(metrics.text(_desk(request)), media_type="text/plain; version=0.0.4; charset=utf-8")

    return outside
