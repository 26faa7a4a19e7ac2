"""The pages of campaigns: all of them, a new one, one of them live. What they show comes from the API; here is their frame."""

from __future__ import annotations

from concurrent.futures import wait
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from headwater.service.campaign import ARCHIVED, Campaign
from headwater.service.desk import Desk, Look
from headwater.service.gate import require
from headwater.service.logs import list_views
from headwater.service.pages import render
from headwater.service.reference import reference

MOST_LEADERS = 100
"""Campaigns that are loaded for the page to say what was paid most often."""
LEADERS_SECONDS = 3.0
"""How long the page waits for them."""
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
    ("epsilon-greedy", "classical: the best mean so far, one round in ten by lot"),
    ("uniform", "an A/B test: every arm with the same chance, for ever"),
)

router = APIRouter(include_in_schema=False)


def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def leader(campaign: Campaign) -> dict[str, Any] | None:
    """The arm that was paid most often among those that are on, and its share of the rewards."""
    pulls = campaign.policy.known.pulls
    on = [k for k, name in enumerate(campaign.names) if name not in campaign.config.disabled]
    best = max(on, key=lambda k: int(pulls[k]))
    return {"arm": campaign.names[best], "share": int(pulls[best]) / int(pulls.sum())} if pulls[best] else None


def _add_leaders(desk: Desk, views: list[dict[str, Any]]) -> None:
    """Say of the latest campaigns who leads, as far as that is known within a moment; the others are loaded meanwhile."""
    asked = [desk.submit(Look(view["id"])) for view in views[:MOST_LEADERS] if view["id"] not in desk.campaigns]
    wait(asked, timeout=LEADERS_SECONDS)
    for view in views:
        campaign = desk.campaigns.get(view["id"])
        view["leader"], view["loading"] = None, campaign is None
        if campaign is not None:
            with campaign.lock:
                view["leader"] = leader(campaign)


@router.get("/")
def show_campaigns(request: Request) -> HTMLResponse:
    """All campaigns, the latest first."""
    require(request, "read")
    desk = _desk(request)
    with desk.store.read() as connection:
        views = list_views(connection)
    _add_leaders(desk, views)
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
