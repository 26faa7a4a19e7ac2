"""The desk: one thread through which every change goes, so that many requests share one transaction (group commit).

Requests wait while a transaction is written to the disk; the next takes some of every campaign's. Nothing is answered before
the transaction that holds it has ended. Where one fails, what is in memory is thrown away and made again from the database, and
everybody in it is told to try again. (The answer to a commit may be lost: then it happened, and trying again finds it.)

The thread never makes a model, and never waits for a connection or a lock that anybody holds for long: campaigns that are not
in memory are loaded elsewhere, and what is asked of them waits meanwhile.
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
from headwater.problem import Problem
from headwater.service import changes
from headwater.service.answers import ServiceError
from headwater.service.batch import Batch, catch_up
from headwater.service.campaign import COUNTERS, Campaign, Counters
from headwater.service.keys import Key, list_keys
from headwater.service.lines import Lines
from headwater.service.loader import Loaded, Loader
from headwater.service.models import Models
from headwater.service.operations import Expire, Operation
from headwater.service.sessions import Session, list_sessions
from headwater.service.store import Store, damaged, reason
from headwater.service.tables import campaigns

log = logging.getLogger("headwater.service")

AnyFuture = Future[Any] | asyncio.Future[Any]

MOST = 1000
"""Operations in one transaction."""
SLICE = 0.05
"""Seconds that the operations of one transaction may take together, where it is not one alone that does."""
LONGEST = 20_000
"""Operations that may wait; more are refused, so that nobody waits for ever."""
LONGEST_OF_ONE = 5_000
"""Operations of one campaign that may wait."""
AT_HOME = 2_000
"""Campaigns in memory beyond which those that nobody asked for the longest are put away."""
BROKEN = 30.0
"""Seconds after which a campaign that could not be loaded is tried again."""
EXPIRING = 50
"""Campaigns whose deadlines are settled at a time."""
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

    __slots__ = ("error", "future", "line", "loop", "operation", "result", "rows")

    def __init__(self, operation: Operation, future: AnyFuture, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.operation, self.future, self.loop = operation, future, loop
        self.rows, self.line = operation.rows, min(operation.slugs(), default="")
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
    """The thread, its lines, and the campaigns in memory."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.time,
        watch: Watch | None = None,
        models: Models | None = None,
    ) -> None:
        self.store, self.clock, self.watch = store, clock, watch or Watch()
        self.models = models or Models()
        self.campaigns: dict[str, Campaign] = {}
        self.keys: dict[str, Key] = {}  # as of a moment ago; while the database is away, those of before go on
        self.sessions: dict[str, Session] = {}  # likewise
        self._problems: dict[int, Problem] = {}  # of the campaigns in memory, and of those thrown away after a failure
        self._parked: dict[str, list[Asked]] = {}  # what waits for a campaign that is being loaded
        self._broken: dict[str, tuple[float, ServiceError]] = {}  # until when campaigns are not tried again, and why
        self._expiring: set[str] = set()
        self._news: set[str] = set()  # campaigns that came into memory since the last look
        self._seen = 0  # rows with later stamps were changed since the last look
        self._trouble: str | None = None
        self._damage: str | None = None  # for which there is no getting over
        self._queue: queue.SimpleQueue[Asked | Loaded | None] = queue.SimpleQueue()
        self._lines: Lines[Asked] = Lines()
        self._waiting: dict[str, int] = {}  # operations of each line that are not answered
        self._thread = threading.Thread(target=self._serve, name="headwater-desk", daemon=True)
        self._loader = Loader(store, self.models, self._queue.put)
        self._door = threading.Lock()  # nothing is queued once it stops
        self._stopping = False
        self._looked = 0.0

    def start(self) -> None:
        """Begin. Campaigns come into memory when somebody asks for them, or when a deadline of theirs passes."""
        with self.store.watch() as connection:
            self._learn_keys(connection)
            self._seen = changes.horizon(connection)
        try:
            self.store.probe()
        except SQLAlchemyError as error:  # the disk is full, perhaps: it is looked at again and again
            self._lost(error)
        self._looked = time.monotonic()
        self._loader.start()
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, then end."""
        with self._door:
            self._stopping = True
            self._queue.put(None)
        self._thread.join()
        self._loader.stop()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def trouble(self) -> str | None:
        """Why nothing can be decided, while it cannot."""
        if self._damage is not None:
            return self._damage
        silent = time.monotonic() - self._looked
        trouble = f"no word for {silent:.0f} s" if self._trouble is None and silent > SILENCE else self._trouble
        return None if trouble is None else f"the database does not answer: {trouble}"

    def doubt(self, found: list[str]) -> None:
        """Write nothing more: what a look at the database found would lose it."""
        self._damage = damaged(self.store, found)
        log.error("%s", self._damage)

    def _put(self, asked: Asked) -> None:
        with self._door:
            if self._stopping:
                raise _later("the service is stopping")
            if self._damage is not None:
                raise ServiceError(503, self._damage)
            if self._queue.qsize() + len(self._lines) > LONGEST or self._waiting.get(asked.line, 0) > LONGEST_OF_ONE:
                raise _later("too many requests wait for the database")
            self._waiting[asked.line] = self._waiting.get(asked.line, 0) + 1
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
                    campaign.used = time.monotonic()
                    yield campaign
                    return
            finally:
                campaign.lock.release()
        raise _later(_SLOW)

    # The thread.

    def _serve(self) -> None:
        looked = 0.0
        while not (self._stopping and self._queue.empty() and not self._lines):
            self._gather()
            if asked := self._lines.take(MOST, SLICE):
                self._answer(asked)
            if time.monotonic() - looked >= TICK:
                self._look_around()
                looked = self._looked = time.monotonic()
        for waiting in self._parked.values():
            self._refuse(waiting, _later("the service is stopping"))

    def _gather(self) -> None:
        """Take in what came; when nothing waits, wait for something, but not for ever."""
        came: list[Asked] = []
        with contextlib.suppress(queue.Empty):
            one = self._queue.get_nowait() if self._lines else self._queue.get(timeout=TICK)
            while True:
                if isinstance(one, Loaded):
                    self._loaded(one)
                elif one is not None:
                    came.append(one)
                one = self._queue.get_nowait()
        self._lines.put(came)

    def _park(self, asked: list[Asked], absent: set[str]) -> None:
        """Let those wait whose campaigns are not in memory, until they are."""
        for one in asked:
            slug = next(slug for slug in sorted(one.operation.slugs()) if slug in absent)
            until, error = self._broken.get(slug, (0.0, None))
            if error is not None and time.monotonic() < until:
                self._refuse([one], error)
                continue
            if slug not in self._parked:
                self._loader.ask(slug)
            self._parked.setdefault(slug, []).append(one)

    def _loaded(self, told: Loaded) -> None:
        waiting = self._parked.pop(told.slug, [])
        if told.error is not None:
            if told.error.status != 503:
                self._broken[told.slug] = (time.monotonic() + BROKEN, told.error)
            self._refuse(waiting, told.error)
            return
        if told.campaign is not None:
            self._make_room()
            self.campaigns[told.slug], self._problems[told.campaign.id] = told.campaign, told.campaign.problem
            self._news.add(told.slug)
        self._lines.put(waiting)

    def _make_room(self) -> None:
        """Put away campaigns that nobody asked for lately: the database has everything."""
        if len(self.campaigns) >= AT_HOME:
            oldest = sorted(self.campaigns.values(), key=lambda campaign: campaign.used)[: max(AT_HOME // 10, 1)]
            for campaign in oldest:
                self._put_away(campaign)

    def _put_away(self, campaign: Campaign) -> None:
        self.campaigns.pop(campaign.slug, None)
        self._problems.pop(campaign.id, None)
        self._lines.forget(campaign.slug)

    def _answer(self, asked: list[Asked], *, again: bool = True) -> None:
        start = time.perf_counter()
        try:
            absent = self._transact(asked)
        except Exception as error:  # noqa: BLE001 - whatever it was, everybody must be told
            self._fail(asked, error, again)
            return
        self._found()
        self.watch.committed(len(asked), time.perf_counter() - start)
        if absent:
            self._park([one for one in asked if one.operation.slugs() & absent], absent)
            asked = [one for one in asked if not one.operation.slugs() & absent]
        self._tell(asked)

    def _refuse(self, asked: list[Asked], error: Exception) -> None:
        for one in asked:
            one.error = error
        self._tell(asked)

    def _tell(self, asked: list[Asked]) -> None:
        """Wake everybody, each event loop once."""
        loops: dict[asyncio.AbstractEventLoop, list[Asked]] = {}
        with self._door:
            for one in asked:
                left = self._waiting.pop(one.line, 1) - 1
                if left > 0:
                    self._waiting[one.line] = left
        for one in asked:
            if one.loop is None:
                one.tell()
            else:
                loops.setdefault(one.loop, []).append(one)
        for loop, waiting in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop has ended, and everybody in it
                loop.call_soon_threadsafe(_tell, waiting)

    def _transact(self, asked: list[Asked]) -> set[str]:
        """Run them in one transaction, but those of campaigns that are not in memory, which are returned."""
        batch = None
        try:
            with self.store.write() as connection:
                batch = Batch(connection, self.campaigns, self._problems, self.clock())
                batch.lock({slug for one in asked for slug in one.operation.slugs()})
                for one in asked:
                    if batch.absent and one.operation.slugs() & batch.absent:
                        continue
                    start = time.perf_counter()
                    try:
                        one.result = one.operation.run(batch)
                    except HeadwaterError as error:  # refused, and nothing changed
                        one.error = error
                    self._lines.took(one, time.perf_counter() - start)
                batch.write()
        except BaseException:
            for slug in batch.campaigns if batch is not None else ():
                self.campaigns.pop(slug, None)
            raise
        finally:
            if batch is not None:
                batch.unlock()
        return batch.absent

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
        """Take in what other processes wrote, and settle what is due. O(campaigns that changed or are due)."""
        due: list[str] = []
        try:
            with self.store.watch() as connection:
                self._learn_keys(connection)
                self._follow(connection)
                late = select(campaigns.c.slug).where(campaigns.c.next_due <= self.clock()).order_by(campaigns.c.next_due)
                due = list(connection.execute(late).scalars())
            if self._trouble is not None:  # reading alone does not show that it is over: the disk may be full
                self.store.probe()
                self._found()
        except SQLAlchemyError as error:
            self._lost(error)
            return
        except Exception:  # whatever it was, the desk goes on
            log.exception("looking at the database failed")
        now = time.monotonic()
        broken = {slug for slug, (until, _) in self._broken.items() if until > now}
        due = [slug for slug in due if slug not in self._expiring and slug not in broken]
        for slug in due[: max(EXPIRING - len(self._expiring), 0)]:
            self._expiring.add(slug)
            self._expire(slug)

    def _learn_keys(self, connection: Connection) -> None:
        self.keys = {key.id: key for key in list_keys(connection)}
        self.sessions = list_sessions(connection, self.clock())

    def _expire(self, slug: str) -> None:
        future: Future[Any] = Future()
        future.add_done_callback(lambda done: self._expired(slug, done))
        with self._door:
            self._waiting[slug] = self._waiting.get(slug, 0) + 1
        self._lines.put([Asked(Expire(slug), future)])

    def _expired(self, slug: str, done: Future[Any]) -> None:
        """Go on where there may be more. Runs in the desk's own thread, which tells all futures."""
        if done.exception() is None and done.result() == Expire.most:
            self._expire(slug)
        else:
            self._expiring.discard(slug)

    def _follow(self, connection: Connection) -> None:
        """Bring the campaigns in memory up to date whose rows were written since the last look."""
        seen = changes.horizon(connection)
        changed = (campaigns.c.changed >= self._seen) | campaigns.c.slug.in_(self._news)
        for slug, *counted in connection.execute(select(campaigns.c.slug, *COUNTERS).where(changed)).all():
            campaign, counters = self.campaigns.get(slug), Counters(*counted)
            if campaign is not None and campaign.counters != counters:
                self._refresh(connection, campaign, counters)
        self._seen = seen
        self._news.clear()

    def _refresh(self, connection: Connection, campaign: Campaign, counters: Counters) -> None:
        try:
            with campaign.lock:
                catch_up(connection, campaign, counters)
        except SQLAlchemyError:
            self.campaigns.pop(campaign.slug, None)
            raise
        except Exception:
            self._put_away(campaign)
            log.exception("the campaign %s cannot be read", campaign.slug)


@dataclass
class Look(Operation):
    """Bring a campaign into memory."""

    slug: str

    def slugs(self) -> set[str]:
        return {self.slug}

    def run(self, batch: Batch) -> None:
        if self.slug not in batch.campaigns:
            raise ServiceError(404, f'there is no campaign "{self.slug[:80]}"')
