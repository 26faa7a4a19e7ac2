"""The decision log, read in pages."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, select

from headwater.service.campaign import COUNTERS, Campaign, Config, Counters, moment, spec_of, view_of
from headwater.service.tables import campaigns, decisions, rewards

COLUMNS = (
    "decision", "number", "at", "arm", "choice", "propensity", "source", "version", "known", "unit", "reward", "reward_kind",
    "reward_at",
)  # fmt: skip


def list_views(connection: Connection, status: str | None = None) -> list[dict[str, Any]]:
    """All campaigns as they go over HTTP, the latest first, from what their rows say. O(campaigns)."""
    query = select(campaigns.c.slug, campaigns.c.created, campaigns.c.config, campaigns.c.problem, *COUNTERS)
    query = query.order_by(campaigns.c.id.desc())
    views = []
    for slug, created, text, problem, *counted in connection.execute(
        query if status is None else query.where(campaigns.c.status == status)
    ):
        config = Config.model_validate_json(text)
        views.append(view_of(slug, created, config, Counters(*counted), arm_names(problem), spec_of(config)))
    return views


@lru_cache(maxsize=20_000)
def arm_names(problem: str) -> tuple[str, ...]:
    """The names of the arms of a problem that is stored."""
    return tuple(json.loads(problem)["arms"])


class Log(NamedTuple):
    """The log of a campaign as of a moment: so many rows of decisions and of rewards."""

    campaign: int
    slug: str
    names: tuple[str, ...]
    decided: int
    settled: int


def log_of(campaign: Campaign) -> Log:
    """A campaign's log as it is now, for somebody who holds its lock."""
    return Log(campaign.id, campaign.slug, campaign.names, campaign.counters.decided, campaign.counters.settled)


def log_rows(connection: Connection, log: Log, after: int, most: int) -> list[Row[Any]]:
    """Decisions with their rewards, oldest first. None is later than the log, so that pages read one after the other agree."""
    last = min(after + most, log.decided)
    paid = and_(
        rewards.c.campaign == decisions.c.campaign, rewards.c.number == decisions.c.number, rewards.c.seq <= log.settled
    )
    query = (
        select(decisions, rewards.c.value, rewards.c.kind, rewards.c.at.label("paid_at"))
        .select_from(decisions.outerjoin(rewards, paid))
        .where(decisions.c.campaign == log.campaign, decisions.c.number.between(after + 1, last))
        .order_by(decisions.c.number)
    )
    return list(connection.execute(query).all())


def logged(campaign: Campaign, row: Row[Any]) -> dict[str, Any]:
    """A row of the log as it goes over HTTP."""
    reward = None if row.kind is None else {"value": row.value, "kind": row.kind, "at": moment(row.paid_at)}
    return {**campaign.answer(row._asdict()), "reward": reward}


def table_rows(connection: Connection, log: Log, after: int, most: int) -> list[dict[str, Any]]:
    """A part of the log as flat rows."""
    return [
        {
            "decision": f"{log.slug}.{row.number}",
            "number": row.number,
            "at": moment(row.at),
            "arm": log.names[row.arm],
            "choice": log.names[row.choice],
            "propensity": row.propensity,
            "source": row.source,
            "version": row.version,
            "known": row.known,
            "unit": row.unit,
            "reward": row.value,
            "reward_kind": row.kind,
            "reward_at": None if row.paid_at is None else moment(row.paid_at),
        }
        for row in log_rows(connection, log, after, most)
    ]
