"""What a connection may send, how slowly, and how many there may be: kept before the application sees anything.

uvicorn's protocol reads a head of any length and waits for the rest of a request for ever. Here the request line, every header
and all of them have a most, checked while they come in; a head, a body and an answer that nobody takes have a time; and where
there are too many connections one that has asked for nothing makes room, or the one whose client was waited for the longest.
What is closed is counted, and said in one line of the log a minute.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headwater.service.answers import error_answer

log = logging.getLogger("headwater.service")

DESCRIPTORS = 8192
"""Open files that the service asks the system for, where it gives fewer at first."""
KEPT_BACK = 300
"""Open files that are not connections: databases, workers, pages."""
SLICE = 16_384
"""Bytes that are parsed before what they are is counted."""
FRAMING = 8
"""Bytes around each byte of a body that may come in chunks of one."""
LINGER = 1.0
"""Seconds for which a refused client may go on sending, so that it sees the answer."""
GRACE = 0.1
"""Seconds that a new connection has to begin in before it counts as one that only stands there."""
QUIET = 60.0
"""Seconds between two lines in the log."""


@dataclass(frozen=True)
class Bounds:
    """What one connection may send, and how many connections there may be."""

    line: int = 8_192
    """Bytes of a request's path and query."""
    header: int = 8_192
    """Bytes of one header."""
    head: int = 32_768
    """Bytes of all headers and the request line."""
    headers: int = 100
    head_seconds: float = 10.0
    """From connecting, or from the first byte of a request, to the end of its head."""
    body_seconds: float = 60.0
    """From there to the end of its body."""
    answer_seconds: float = 120.0
    """Without taking any of an answer that is there to be read."""
    connections: int | None = None
    """At once; None: what the system's limit of open files leaves, at most 4,000."""

    @property
    def most(self) -> int:
        if self.connections is not None:
            return self.connections
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return 4000 if soft == resource.RLIM_INFINITY else max(50, min(4000, soft - KEPT_BACK))


class Crowd:
    """All connections of a server, by what is waited for; each group in the order in which the waiting began."""

    def __init__(self, bounds: Bounds, closed: Callable[[str], None] = lambda why: None) -> None:
        self.bounds, self.most, self.closed = bounds, bounds.most, closed
        self.heads: dict[Connection, float] = {}
        self.bodies: dict[Connection, float] = {}
        self.idle: dict[Connection, float] = {}
        self.stuck: dict[Connection, float] = {}
        self.count = 0
        self._tally: Counter[str] = Counter()
        self._said = -QUIET
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, one: Connection) -> bool:
        """Let a connection in, and out the one whose client was waited for the longest where there are too many."""
        self.count += 1
        if self._timer is None:
            self._timer = one.loop.call_later(1.0, self._sweep, one.loop)
        if self.count <= self.most:
            return True
        if (oldest := self._oldest()) is None:
            return False
        oldest.drop("made room for others")
        return True

    def _oldest(self) -> Connection | None:
        """Whom to send away: who has asked for nothing yet, though there was time to; else whoever was waited for the longest.

        Those who have been served go last: they would come back, behind everybody who waits to be let in.
        """
        strangers = next(iter(self.heads.items()), None)
        if strangers is not None and strangers[1] < time.monotonic() - GRACE:
            return strangers[0]
        oldest = [next(iter(group.items())) for group in (self.idle, self.heads, self.bodies, self.stuck) if group]
        return min(oldest, key=lambda item: item[1])[0] if oldest else None

    def leave(self, one: Connection) -> None:
        self.count -= 1
        for group in (self.heads, self.bodies, self.idle, self.stuck):
            group.pop(one, None)

    def note(self, why: str) -> None:
        """Count a connection that was closed."""
        self._tally[why] += 1
        self.closed(why)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what took too long. O(those)."""
        bounds, now = self.bounds, time.monotonic()
        for one in _overdue(self.heads, now - bounds.head_seconds):
            one.refuse(408, f"no whole request head came in {bounds.head_seconds:g} s", "sent no whole head in time")
        for one in _overdue(self.bodies, now - bounds.body_seconds):
            one.refuse(408, f"the body did not come in {bounds.body_seconds:g} s", "sent no whole body in time")
        for one in _overdue(self.stuck, now - bounds.answer_seconds):
            one.drop("did not read the answer")
        if self._tally and now - self._said >= QUIET:
            log.warning("closed connections: %s", ", ".join(f"{count:,} {why}" for why, count in self._tally.items()))
            self._tally.clear()
            self._said = now
        self._timer = loop.call_later(1.0, self._sweep, loop) if self.count or self._tally else None


def _overdue(group: dict[Connection, float], since: float) -> list[Connection]:
    found = []
    for one, began in group.items():
        if began > since:
            break
        found.append(one)
    return found


class _TooLarge(Exception):  # noqa: N818 - it is the client's error
    """Raised inside the parser, which then stops."""


_BETWEEN, _HEAD, _BODY = "between", "head", "body"


class Connection(HttpToolsProtocol):
    """uvicorn's protocol within bounds."""

    def __init__(self, crowd: Crowd, **given: Any) -> None:
        super().__init__(**given)
        self.crowd, self.bounds = crowd, crowd.bounds
        self._group: dict[Connection, float] | None = None
        self._part = _BETWEEN  # of a request: which comes in now
        self._head = 0  # bytes of its line and headers
        self._around, self._inside = 0, 0  # bytes of it that are not its body, and that are
        self._over: str | None = None  # why nothing more is read
        self._ignored = 0

    # What happens to the connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.crowd.enter(self):
            self._move(self.crowd.heads)
        else:
            self.refuse(503, "too many connections; try again", "were too many at once")

    def connection_lost(self, exc: Exception | None) -> None:
        self._group = None
        self.crowd.leave(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self.crowd.stuck[self] = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.crowd.stuck.pop(self, None)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._group is self.crowd.idle:
            self._move(self.crowd.heads)
        rest = memoryview(data)
        while rest and self._over is None:
            size = len(rest) if self._part == _BODY else SLICE
            self._feed(rest[:size])
            rest = rest[size:]
        if self._over is not None:
            self._ignored += len(rest)
            if self._ignored > self.bounds.head:
                self.transport.abort()

    def _feed(self, data: memoryview) -> None:
        self._around += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # nothing here is upgraded: what was asked for is answered over HTTP/1.1
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooLarge):
                self.refuse(431, str(error.__context__), "sent too large a head")
            else:
                self.refuse(400, "this is not a request in HTTP/1.1", "sent no HTTP")
        if self._over is None and self._around > self.bounds.head + FRAMING * self._inside:
            self.refuse(431, f"headers: got more than {self.bounds.head:,} bytes in all", "sent too large a head")

    # What the parser finds. Whatever these raise stops it.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._part, self._head, self._around, self._inside = _HEAD, 0, 0, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.bounds.line:
            raise _TooLarge(f"the request line: got more than {self.bounds.line:,} bytes")
        self._head += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value)
        self._head += size
        if size > self.bounds.header:
            raise _TooLarge(f"a header: got {size:,} bytes; at most {self.bounds.header:,} are read")
        if self._head > self.bounds.head:
            raise _TooLarge(f"headers: got more than {self.bounds.head:,} bytes in all")
        if len(self.headers) >= self.bounds.headers:
            raise _TooLarge(f"headers: got more than {self.bounds.headers}")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._part = _BODY
        super().on_headers_complete()
        self._place()

    def on_body(self, body: bytes) -> None:
        self._around -= len(body)
        self._inside += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._part = _BETWEEN
        super().on_message_complete()
        self._place()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._place()

    # What is waited for.

    def _place(self) -> None:
        cycle: Any = self.cycle
        if self.pipeline or self._over is not None:
            self._move(None)
        elif self._part == _BODY:
            self._move(self.crowd.bodies)
        elif cycle is not None and not cycle.response_complete:
            self._move(None)
        else:
            self._move(self.crowd.heads if self._part == _HEAD else self.crowd.idle)

    def _move(self, group: dict[Connection, float] | None) -> None:
        if self.transport.is_closing():
            group = None
        if group is self._group:
            return
        if self._group is not None:
            self._group.pop(self, None)
        if group is not None:
            group[self] = time.monotonic()
        self._group = group

    # Ending it.

    def refuse(self, status: int, message: str, why: str) -> None:
        """Answer, if that can still be done, and read nothing more."""
        if self._abandon():
            self.drop(why)
            return
        self._over = why
        self._move(None)
        self.crowd.note(why)
        answer = error_answer(status, message, headers={"Connection": "close"})
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(), *(b"%s: %s" % pair for pair in answer.raw_headers)]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        with suppress(OSError, RuntimeError):
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.abort)

    def drop(self, why: str) -> None:
        """Close it without a word."""
        self._over = why
        self._move(None)
        self.crowd.note(why)
        self._abandon()
        self.transport.abort()

    def _abandon(self) -> bool:
        """Let whoever works on a request of this connection know that nobody waits; whether an answer had begun."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        return bool(cycle.response_started)


def more_descriptors() -> None:
    """Ask the system for more open files than it gives at first, if it lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
