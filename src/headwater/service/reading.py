"""What campaigns know, for whoever looks: computed beside the decisions, from copies, a little at a time.

Nobody who looks holds a campaign still for longer than copying its counts takes. Small campaigns are looked at in threads here,
one at a time; large ones in a process of their own, within limits of processor time and memory, and what was found is good for
as long as it took to find. Whoever asks the same at the same time gets the same answer. Answers are JSON from where they are
found on: that of a large campaign takes many milliseconds to write down.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, NamedTuple

from anyio import CapacityLimiter, to_thread
from sqlalchemy import select

from headwater.arms import Random
from headwater.files import build_problem
from headwater.latent import Continuous, listed
from headwater.problem import Problem
from headwater.service.answers import ServiceError
from headwater.service.campaign import Counters
from headwater.service.desk import Desk
from headwater.service.insight import (
    Facts,
    Glimpse,
    Series,
    explanation_of,
    facts_of,
    glimpse,
    latent_of,
    report_of,
    state_of,
)
from headwater.service.models import SMALL, SMALL_ARMS
from headwater.service.tables import campaigns
from headwater.service.worker import Allowance, Worker

KEPT = 10.0
"""Seconds for which a report is good, unless there is much new; and for which any answer is good at most."""
QUEUE = 100
"""Requests of a kind that may wait."""
PACE = 5e-8
"""Seconds a byte between long answers that many asked for: twenty megabytes a second."""
APART = Allowance(20.0, 2000)
"""What looking at a large campaign may take."""


class Kept(NamedTuple):
    """An answer, until when it is good, and what was known when it was made."""

    until: float
    known: int
    version: int
    answer: bytes


def is_small(problem: Problem) -> bool:
    """Whether looking at a campaign of this problem is a matter of milliseconds."""
    latent = problem.latent
    if isinstance(latent, Continuous) or not listed(latent) or len(problem.arms) > SMALL_ARMS:
        return False
    outcomes = sum(len(arm.outcomes) if isinstance(arm, Random) else 1 for arm in problem.arms.values())
    return outcomes * latent.size <= SMALL


class Reading:
    """The answers about what campaigns know."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        # reports take longest: whoever wants another thing does not wait for them
        self._limits = {name: CapacityLimiter(1) for name in ("look", "report", "series", "apart")}
        self._apart = Worker(__name__, what="looking at this campaign", who="the service")
        self._kept: dict[Hashable, Kept] = {}
        self._asked: dict[Hashable, asyncio.Future[bytes]] = {}
        self._series: dict[str, Series] = {}
        self._door = asyncio.Lock()

    def close(self) -> None:
        self._apart.close()

    async def look(self, slug: str, what: str, **how: Any) -> bytes:
        """``state``, ``explanation`` or ``latent`` of a campaign."""
        return await self._answer((slug, what, *sorted(how.items())), "look", slug, what, how)

    async def report(self, slug: str) -> bytes:
        """Its report, as of a moment ago: computing one takes its time, and many may look."""
        return await self._answer((slug, "report"), "report", slug, "report", {})

    async def series(self, slug: str) -> bytes:
        """Its decisions by arm over time."""
        told: bytes = await self._run("series", self._count, slug)
        return told

    async def _answer(self, key: Hashable, limit: str, slug: str, what: str, how: dict[str, Any]) -> bytes:
        """The answer, or, of what takes long, the one that was found a moment ago or that somebody else waits for."""
        if slug not in self.desk.campaigns:
            await self._run("look", self._bring, slug)
        campaign = self.desk.campaigns.get(slug)
        small = campaign is not None and is_small(campaign.problem)
        if small and what != "report":
            seen = await self._run("look", self._glimpse, slug)
            told: bytes = await self._run(limit, _tell, seen, what, how, None)
            return told
        if (kept := self._fresh(key, slug)) is not None:
            return await self._in_turn(kept)
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(self._find(key, limit, slug, small, what, how))
            task.add_done_callback(lambda _: self._asked.pop(key, None))
        return await self._in_turn(await asyncio.shield(task))

    async def _in_turn(self, answer: bytes) -> bytes:
        """Let those who waited for the same go on one after the other: to send a long answer takes a millisecond, and decisions
        go in between."""
        async with self._door:
            await asyncio.sleep(len(answer) * PACE)
        return answer

    async def _find(self, key: Hashable, limit: str, slug: str, small: bool, what: str, how: dict[str, Any]) -> bytes:
        seen: Glimpse = await self._run("look", self._glimpse, slug)
        start = time.monotonic()
        facts = await self._run(limit, self._facts, seen) if what == "report" else None
        answer: bytes = await (
            self._run(limit, _tell, seen, what, how, facts)
            if small
            else self._run("apart", self._tell_apart, seen, what, how, facts)
        )
        now = time.monotonic()
        good = KEPT if what == "report" else min(now - start, KEPT)
        self._kept = {key: kept for key, kept in self._kept.items() if kept.until > now}
        self._kept[key] = Kept(now + good, _known(seen.counters), seen.counters.version, answer)
        return answer

    def _fresh(self, key: Hashable, slug: str) -> bytes | None:
        kept, campaign = self._kept.get(key), self.desk.campaigns.get(slug)
        if kept is None or campaign is None or kept.until < time.monotonic() or kept.version != campaign.counters.version:
            return None
        return kept.answer if _known(campaign.counters) < 1.05 * kept.known + 5 else None

    async def _run(self, limit: str, work: Callable[..., Any], *arguments: Any) -> Any:
        limiter = self._limits[limit]
        if limiter.statistics().tasks_waiting >= QUEUE:
            raise ServiceError(503, "too many look at campaigns; try again", headers={"Retry-After": "2"})
        return await to_thread.run_sync(work, *arguments, limiter=limiter)

    # In threads.

    def _bring(self, slug: str) -> None:
        """Into memory."""
        with self.desk.campaign(slug):
            pass

    def _glimpse(self, slug: str) -> Glimpse:
        with self.desk.campaign(slug) as campaign:
            return glimpse(campaign)

    def _facts(self, seen: Glimpse) -> Facts:
        with self.desk.store.read() as connection:
            return facts_of(connection, seen)

    def _tell_apart(self, seen: Glimpse, what: str, how: dict[str, Any], facts: Facts | None) -> bytes:
        with self.desk.store.aside() as connection:
            text = connection.execute(select(campaigns.c.problem).where(campaigns.c.id == seen.id)).scalar_one()
        parts = {name: getattr(seen, name) for name in ("id", "slug", "config", "counters", "state", "enabled")}
        arguments = {"text": text, "seen": parts, "what": what, "how": how, "facts": facts}
        answer: bytes = self._apart.call("tell", arguments, APART)
        return answer

    def _count(self, slug: str) -> bytes:
        with self.desk.campaign(slug) as campaign:
            number, names, decided = campaign.id, campaign.names, campaign.counters.decided
        found = self._series.setdefault(slug, Series(len(names)))
        with self.desk.store.aside() as connection:
            found.advance(connection, number, decided)
        return _json(found.to_dict(names))


def _known(counters: Counters) -> int:
    return counters.decided + counters.settled


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _tell(seen: Glimpse, what: str, how: dict[str, Any], facts: Facts | None) -> bytes:
    if facts is not None:
        return _json(report_of(facts, seen))
    tell: dict[str, Callable[..., dict[str, Any]]] = {
        "state": state_of,
        "explanation": explanation_of,
        "latent": latent_of,
    }
    return _json(tell[what](seen, **how))


# In the process beside it.


@lru_cache(maxsize=2)
def _problem(text: str) -> Problem:
    return build_problem(json.loads(text))


def tell_apart(text: str, seen: dict[str, Any], what: str, how: dict[str, Any], facts: Facts | None) -> bytes:
    """As ``_tell``, of a campaign whose problem is made here."""
    return _tell(Glimpse(problem=_problem(text), **seen), what, how, facts)


TASKS = {"tell": tell_apart}
