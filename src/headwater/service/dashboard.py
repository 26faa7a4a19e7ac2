"""The pages of campaigns: all of them, a new one, one of them live. What they show comes from the API; here is their frame."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from headwater.policies.kernel import PULLS
from headwater.service.campaign import ARCHIVED, Campaign
from headwater.service.desk import Desk
from headwater.service.gate import require
from headwater.service.pages import render
from headwater.service.reference import reference
from headwater.service.tables import campaigns

MOST_LEVELS = 12
"""Rewards of an arm up to which each has a button."""
POLICIES = (
    ("auto", "the one we would choose for the problem"),
    ("joint-ucb", "uses every reward about every arm"),
    ("c-ucb", "UCB1 among the arms that rewards have not ruled out"),
    ("c-kl-ucb", "the same with tighter intervals"),
    ("c-ts", "the same with Thompson sampling"),
    ("latent-ts", "draws the mix of X from its posterior"),
    ("ucb1", "classical: ignores that arms are correlated"),
    ("kl-ucb", "classical, with tighter intervals"),
    ("ts", "classical Thompson sampling"),
)

router = APIRouter(include_in_schema=False)


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def leader(campaign: Campaign) -> dict[str, Any] | None:
    """The arm that was paid most often among those that are on, and its share of the rewards."""
    pulls = campaign.policy.counts[PULLS]
    on = [k for k, name in enumerate(campaign.names) if name not in campaign.config.disabled]
    best = max(on, key=lambda k: int(pulls[k]))
    return {"arm": campaign.names[best], "share": int(pulls[best]) / int(pulls.sum())} if pulls[best] else None


@router.get("/")
def show_campaigns(request: Request) -> HTMLResponse:
    """All campaigns, the latest first."""
    require(request, "read")
    desk = _desk(request)
    with desk.store.read() as connection:
        slugs = connection.execute(select(campaigns.c.slug).order_by(campaigns.c.id.desc())).scalars().all()
    views = []
    for slug in slugs:
        with desk.campaign(slug) as campaign:
            views.append({**campaign.view(), "leader": leader(campaign)})
    current = [view for view in views if view["status"] != ARCHIVED]
    ended = [view for view in views if view["status"] == ARCHIVED]
    return render("campaigns.html", request=request, current=current, ended=ended, base=_base(request), keyed=bool(desk.keys))


@router.get("/campaigns/new")
def show_new(request: Request) -> HTMLResponse:
    """The form from which a campaign is made."""
    require(request, "read")
    return render("new.html", request=request, policies=POLICIES)


def payable(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """For every arm the rewards that it can pay, where these are a few, and the least and the most of them."""
    policy = campaign.policy
    levels = policy.table.levels if policy.table is not None and policy.many is None else None
    found: dict[str, dict[str, Any]] = {}
    for k, (name, ends) in enumerate(zip(campaign.names, policy.model.ranges.tolist(), strict=True)):
        few = levels is not None and len(levels[k]) <= MOST_LEVELS
        found[name] = {"values": levels[k].tolist() if levels is not None and few else None, "range": ends}
    return found


@router.get("/campaigns/{id}")
def show_campaign(request: Request, id: str) -> HTMLResponse:  # noqa: A002 - the name in the path
    """One campaign, live."""
    require(request, "read")
    desk = _desk(request)
    with desk.campaign(id) as campaign:
        view, pays = campaign.view(), payable(campaign)
    first = next(iter(pays.values()))
    example = first["values"][-1] if first["values"] else first["range"][1]
    return render(
        "campaign.html", request=request, view=view, pays=pays, base=_base(request), keyed=bool(desk.keys), example=example
    )


@router.get("/docs")
def show_docs(request: Request) -> HTMLResponse:
    """The API's reference, from the OpenAPI document."""
    desk = _desk(request)
    return render("docs.html", request=request, groups=reference(request.app), base=_base(request), keyed=bool(desk.keys))
