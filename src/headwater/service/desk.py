"""The desk: one thread through which every change goes, so that many requests share one transaction (group commit).

Requests queue up while a transaction is written to the disk; the next transaction takes them all. Nothing is answered before
the transaction that holds it has ended. Where one fails, what is in memory is thrown away and made again from the database, and
everybody in it is told to try again. (The answer to a commit may be lost: then it happened, and trying again finds it.)
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

from sqlalchemy import Connection, select
from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError, SQLAlchemyError

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
SILENCE = 5.0
"""Seconds without such a look after which the database counts as away."""
PATIENCE = 20.0
"""Seconds that anybody waits; a database that hangs without an error keeps nobody longer."""

_OF_ONE = (DataError, IntegrityError, ProgrammingError)
"""What the database says of one operation, rather than of itself: a value that it cannot hold, a row that another process was
quicker to write."""


class Asked:
    """An operation that somebody waits for: a thread by a ``Future``, or a coroutine on ``loop`` by one of its own."""

    __slots__ = ("error", "future", "loop", "operation", "result")

    def __init__(self, operation: Operation, future: AnyFuture, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.operation, self.future, self.loop = operation, future, loop
        self.result: Any = None
        self.error: Exception | None = None

    def tell(self) -> None:
        if self.future.done():  # whoever asked has gone; what was asked for is done all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


_TWICE = "nothing counts twice, a decision if it has the same Idempotency-Key"
_SLOW = f"the database has not answered yet; try again: {_TWICE}"


def _later(message: str) -> ServiceError:
    return ServiceError(503, message, headers={"Retry-After": "1"})


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(_later(_SLOW))


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
        self._trouble: str | None = None
        self._odd: set[tuple[str, Counters]] = set()  # campaigns that cannot be read, as they are now
        self._queue: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="headwater-desk", daemon=True)
        self._door = threading.Lock()  # nothing is queued once it stops
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
        self._looked = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, then end."""
        with self._door:
            self._stopping = True
            self._queue.put(None)
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def trouble(self) -> str | None:
        """Why the database does not answer, while it does not."""
        silent = time.monotonic() - self._looked
        return f"no word for {silent:.0f} s" if self._trouble is None and silent > SILENCE else self._trouble

    def _put(self, asked: Asked) -> None:
        with self._door:
            if self._stopping:
                raise _later("the service is stopping")
            if self._queue.qsize() > LONGEST:
                raise _later("too many requests wait for the database")
            self._queue.put(asked)

    def submit(self, operation: Operation) -> Future[Any]:
        """Queue an operation; the future has its result once it is durable."""
        future: Future[Any] = Future()
        self._put(Asked(operation, future))
        return future

    async def do(self, operation: Operation) -> Any:
        """As ``submit``, for a coroutine."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._put(Asked(operation, future, loop))
        timer = loop.call_later(PATIENCE, _give_up, future)
        try:
            return await future
        finally:
            timer.cancel()

    @contextmanager
    def campaign(self, slug: str) -> Iterator[Campaign]:
        """A campaign as it is now, held still; from the database if it is not in memory."""
        for _ in range(100):
            campaign = self.campaigns.get(slug)
            if campaign is None:
                try:
                    self.submit(Look(slug)).result(timeout=PATIENCE)
                except TimeoutError:
                    raise _later(_SLOW) from None
                continue
            if not campaign.lock.acquire(timeout=PATIENCE):
                raise _later(_SLOW)
            try:
                if self.campaigns.get(slug) is campaign:  # else a transaction failed meanwhile, and what it changed is void
                    yield campaign
                    return
            finally:
                campaign.lock.release()
        raise _later(_SLOW)

    # The thread.

    def _serve(self) -> None:
        looked = 0.0
        while not (self._stopping and self._queue.empty()):
            asked = self._gather()
            if asked:
                self._answer(asked)
            if time.monotonic() - looked >= TICK:
                self._look_around()
                looked = self._looked = time.monotonic()

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

    def _answer(self, asked: list[Asked], *, again: bool = True) -> None:
        start = time.perf_counter()
        try:
            self._transact(asked)
        except Exception as error:  # noqa: BLE001 - whatever it was, everybody must be told
            self._fail(asked, error, again)
            return
        self._found()
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

    def _fail(self, asked: list[Asked], error: Exception, again: bool) -> None:
        """Tell everybody that the database is away; or, where it was something else, find out whose fault it was."""
        if isinstance(error, SQLAlchemyError) and not isinstance(error, _OF_ONE):
            self._lost(error)
            self.watch.failed()
            for one in asked:
                one.error = _later(f"the database does not answer ({self._trouble}); try again: {_TWICE}")
            self._tell(asked)
        elif again:  # each for itself, and from the start: another process may have been quicker
            for one in asked:
                one.result, one.error = None, None
                self._answer([one], again=False)
        else:
            log.error("%s failed", type(asked[0].operation).__name__, exc_info=error)
            asked[0].error = ServiceError(500, "something went wrong here; the server's log says what")
            self._tell(asked)

    def _lost(self, error: Exception) -> None:
        before, self._trouble = self._trouble, reason(error)
        if before is None:  # once, not for every request
            log.error("the database does not answer: %s", self._trouble)

    def _found(self) -> None:
        if self._trouble is not None:
            log.warning("the database answers again")
        self._trouble = None

    def _look_around(self) -> None:
        """Take in what other processes wrote, and settle what is due."""
        due: list[str] = []
        try:
            with self.store.read() as connection:
                self.keys = {key.id: key for key in list_keys(connection)}
                query = select(campaigns.c.id, campaigns.c.slug, *COUNTERS)
                for row in connection.execute(query).all():
                    self._refresh(connection, row.slug, row.id, Counters(*row[2:]))
                due = [slug for slug, campaign in self.campaigns.items() if campaign.is_due(connection, self.clock())]
            if self._trouble is not None:  # reading alone does not show that it is over: the disk may be full
                self.store.probe()
                self._found()
        except SQLAlchemyError as error:
            self._lost(error)
            return
        except Exception:  # whatever it was, the desk goes on
            log.exception("looking at the database failed")
        for slug in due:
            while True:
                asked = Asked(Expire(slug), Future())
                self._answer([asked])
                if asked.result != Expire.most:
                    break

    def _refresh(self, connection: Connection, slug: str, row: int, counters: Counters) -> None:
        """Bring one campaign up to date; also one that another process made, so that its deadlines are kept."""
        campaign = self.campaigns.get(slug)
        if campaign is None and (counters.status == ARCHIVED or (slug, counters) in self._odd):
            return
        if campaign is not None and campaign.counters == counters:
            return
        try:
            campaign = campaign or load(connection, row)
            with campaign.lock:
                catch_up(connection, campaign, counters)
            self.campaigns[slug] = campaign
        except SQLAlchemyError:
            self.campaigns.pop(slug, None)
            raise
        except Exception:
            self.campaigns.pop(slug, None)
            self._odd.add((slug, counters))
            log.exception("the campaign %s cannot be read", slug)


@dataclass
class Look(Operation):
    """Bring a campaign into memory."""

    slug: str

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> None:
        if self.slug not in batch.campaigns:
            raise ServiceError(404, f'there is no campaign "{self.slug[:80]}"')
