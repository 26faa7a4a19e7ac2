"""The desk: one thread through which every change goes, so that many requests share one transaction (group commit).

Requests queue up while a transaction is written to the disk; the next transaction takes them all. Nothing is answered before
the transaction that holds it has ended. Where one fails, nothing of it happened: what is in memory is thrown away and made
again from the database, and everybody in it is told to try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from headwater.errors import HeadwaterError
from headwater.service.answers import ServiceError
from headwater.service.batch import Batch, catch_up, load
from headwater.service.campaign import ARCHIVED, COUNTERS, Campaign, Counters, warm_up
from headwater.service.keys import Key, list_keys
from headwater.service.operations import Expire, Operation
from headwater.service.store import Store, reason
from headwater.service.tables import campaigns

log = logging.getLogger("headwater.service")

AnyFuture = Future[Any] | asyncio.Future[Any]

MOST = 1000
"""Operations in one transaction."""
LONGEST = 20_000
"""Operations that may wait; more are refused, so that nobody waits for ever."""
TICK = 0.25
"""Seconds between looks at what other processes wrote, and at deadlines."""


class Asked:
    """An operation that somebody waits for: a thread by a ``Future``, or a coroutine on ``loop`` by one of its own."""

    __slots__ = ("error", "future", "loop", "operation", "result")

    def __init__(self, operation: Operation, future: AnyFuture, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.operation, self.future, self.loop = operation, future, loop
        self.result: Any = None
        self.error: Exception | None = None

    def tell(self) -> None:
        if self.future.cancelled():  # whoever asked has gone; what was asked for is done all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def _tell(asked: list[Asked]) -> None:
    for one in asked:
        one.tell()


class Watch:
    """What the desk tells whoever measures it; see ``metrics``."""

    def committed(self, count: int, seconds: float) -> None:
        pass

    def failed(self) -> None:
        pass


class Desk:
    """The thread, its queue, and the campaigns in memory."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time, watch: Watch | None = None) -> None:
        self.store, self.clock, self.watch = store, clock, watch or Watch()
        self.campaigns: dict[str, Campaign] = {}
        self.keys: dict[str, Key] = {}  # as of a moment ago; while the database is away, those of before go on
        self.trouble: str | None = None  # why the database does not answer, while it does not
        self._queue: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="headwater-desk", daemon=True)
        self._stopping = False
        self._looked = 0.0

    def start(self) -> None:
        """Load every campaign that is not archived, and begin."""
        with self.store.read() as connection:
            self.keys = {key.id: key for key in list_keys(connection)}
            query = select(campaigns.c.id, campaigns.c.slug, *COUNTERS).where(campaigns.c.status != ARCHIVED)
            for row in connection.execute(query).all():
                campaign = load(connection, row.id)
                warm_up(campaign.policy.spec, campaign.problem, campaign.config.reward_range)
                catch_up(connection, campaign, Counters(*row[2:]))
                self.campaigns[row.slug] = campaign
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, then end."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _check(self) -> None:
        if self._stopping:
            raise ServiceError(503, "the service is stopping", headers={"Retry-After": "1"})
        if self._queue.qsize() > LONGEST:
            raise ServiceError(503, "too many requests wait for the database", headers={"Retry-After": "1"})

    def submit(self, operation: Operation) -> Future[Any]:
        """Queue an operation; the future has its result once it is durable."""
        self._check()
        future: Future[Any] = Future()
        self._queue.put(Asked(operation, future))
        return future

    async def do(self, operation: Operation) -> Any:
        """As ``submit``, for a coroutine."""
        self._check()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(Asked(operation, future, loop))
        return await future

    @contextmanager
    def campaign(self, slug: str) -> Iterator[Campaign]:
        """A campaign as it is now, held still; from the database if it is not in memory."""
        campaign = self.campaigns.get(slug)
        if campaign is None:
            self.submit(Look(slug)).result(timeout=30)
            campaign = self.campaigns[slug]
        with campaign.lock:
            yield campaign

    # The thread.

    def _serve(self) -> None:
        while True:
            asked = self._gather()
            if asked:
                self._answer(asked)
            if self._stopping and not asked:
                return
            if time.monotonic() - self._looked >= TICK:
                self._look_around()
                self._looked = time.monotonic()

    def _gather(self) -> list[Asked]:
        """What waits; when nothing does, wait for something, but not for ever."""
        found: list[Asked] = []
        try:
            first = self._queue.get(timeout=TICK)
            while True:
                if first is not None:
                    found.append(first)
                if len(found) >= MOST:
                    return found
                first = self._queue.get_nowait()
        except queue.Empty:
            return found

    def _answer(self, asked: list[Asked]) -> None:
        start = time.perf_counter()
        try:
            self._transact(asked)
        except Exception as error:  # noqa: BLE001 - whatever it was, everybody must be told
            self._fail(asked, error)
            return
        self.trouble = None
        self.watch.committed(len(asked), time.perf_counter() - start)
        self._tell(asked)

    def _tell(self, asked: list[Asked]) -> None:
        """Wake everybody, each event loop once."""
        loops: dict[asyncio.AbstractEventLoop, list[Asked]] = {}
        for one in asked:
            if one.loop is None:
                one.tell()
            else:
                loops.setdefault(one.loop, []).append(one)
        for loop, waiting in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended, and everybody in it
                loop.call_soon_threadsafe(_tell, waiting)

    def _transact(self, asked: list[Asked]) -> None:
        batch = None
        try:
            with self.store.write() as connection:
                batch = Batch(connection, self.campaigns, self.clock())
                batch.lock({slug for one in asked for slug in one.operation.slugs()})
                for one in asked:
                    try:
                        one.result = one.operation.run(batch)
                    except HeadwaterError as error:  # refused, and nothing changed
                        one.error = error
                batch.write()
        except BaseException:
            for slug in batch.campaigns if batch is not None else ():
                self.campaigns.pop(slug, None)
            raise
        finally:
            if batch is not None:
                batch.unlock()

    def _fail(self, asked: list[Asked], error: Exception) -> None:
        """Nothing of it happened. Where it was not the database, find out which operation it was."""
        if isinstance(error, SQLAlchemyError):
            self.trouble = reason(error)
            log.error("the database failed: %s", self.trouble)
            self.watch.failed()
            message = f"the database does not answer ({self.trouble}); nothing was recorded, try again"
            for one in asked:
                one.error = ServiceError(503, message, headers={"Retry-After": "1"})
            self._tell(asked)
        elif len(asked) == 1:
            asked[0].error = error
            self._tell(asked)
        else:
            for one in asked:
                one.result, one.error = None, None
                self._answer([one])

    def _look_around(self) -> None:
        """Take in what other processes wrote, and settle what is due."""
        try:
            with self.store.read() as connection:
                self.keys = {key.id: key for key in list_keys(connection)}
                query = select(campaigns.c.id, campaigns.c.slug, *COUNTERS)
                for row in connection.execute(query).all():
                    campaign, counters = self.campaigns.get(row.slug), Counters(*row[2:])
                    if campaign is not None and campaign.counters != counters:
                        with campaign.lock:
                            catch_up(connection, campaign, counters)
                due = [slug for slug, campaign in self.campaigns.items() if campaign.is_due(connection, self.clock())]
            self.trouble = None
        except SQLAlchemyError as error:
            self.trouble = reason(error)
            return
        for slug in due:
            while True:
                asked = Asked(Expire(slug), Future())
                self._answer([asked])
                if asked.result != Expire.most:
                    break


@dataclass
class Look(Operation):
    """Bring a campaign into memory."""

    slug: str

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> None:
        if self.slug not in batch.campaigns:
            raise ServiceError(404, f'there is no campaign "{self.slug[:80]}"')
