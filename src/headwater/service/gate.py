"""The gate: what every request passes before anything looks at it. Size, rate, key, origin; and what is measured of it.

A plain ASGI middleware, because it is on the path of every decision. Where the database has no keys, the service listens on
this machine only and everybody who reaches it may do everything; requests that a page of another site sends are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.service.answers import ServiceError, answer_to, error_answer
from headwater.service.desk import Desk
from headwater.service.keys import Key, allows, find_key
from headwater.service.metrics import Metrics
from headwater.service.pages import for_people, wants_page
from headwater.service.quick import Lanes
from headwater.service.sessions import find_session

COOKIE = "headwater_key"
OPEN = ("/healthz", "/readyz", "/login", "/logout", "/static/", "/favicon.ico")
"""What needs no key."""
MOST_CALLERS = 10_000
WRONG_RATE = 10.0
"""Requests without a key that is known, a second and address, that are answered; twice as many at once."""
TARRY, MOST_TARRY = 0.5, 50
"""Seconds for which the answer to a guess too many is kept back, so that whoever waits for it guesses slowly; and how many are
kept back at the most."""


class Buckets:
    """A bucket of tokens per caller: ``rate`` requests a second, and as many at once as two seconds bring. 0: no limit."""

    def __init__(self, rate: float) -> None:
        self.rate, self.most = rate, max(2 * rate, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """0 if the caller may go on, else the seconds to wait."""
        if self.rate <= 0:
            return 0.0
        now = time.monotonic()
        left, since = self._left.pop(caller, (self.most, now))
        left = min(self.most, left + (now - since) * self.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        self._left[caller] = (left - 1 if wait == 0 else left, now)
        if len(self._left) > MOST_CALLERS:
            self._left.popitem(last=False)
        return wait


class Gate:
    """The middleware, and the way past everything behind it for quick routes."""

    def __init__(self, app: ASGIApp, quick: APIRouter, *, desk: Desk, metrics: Metrics, rate: float, body_limit: int) -> None:
        self.app, self.desk, self.metrics, self.body_limit = app, desk, metrics, body_limit
        self.lanes = Lanes(quick)
        self.buckets, self.wrong = Buckets(rate), Buckets(WRONG_RATE)
        self._kept_back = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        headers = dict(scope["headers"])

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._admit(scope, headers)
            limited = _Limited(receive, self.body_limit, headers)
            if (handler := self.lanes.find(scope)) is None:
                await self.app(scope, limited, sent)
            else:
                await _answer(handler, Request(scope, limited), sent)
        except ServiceError as error:
            if error.status == 429 and "Connection" in error.headers:
                await self._tarry()
            if wants_page(scope):
                await for_people(scope, error.status, str(error), error.headers)(scope, receive, sent)
            else:
                answer = error_answer(error.status, str(error), code=error.code, headers=error.headers)
                await answer(scope, receive, sent)
        finally:
            route = scope.get("route")
            self.metrics.answered(getattr(route, "path", "other"), status, time.perf_counter() - start)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        path, keys, state = scope["path"], self.desk.keys, scope.setdefault("state", {})
        state["role"], state["caller"], state["session"] = None, (scope.get("client") or ("?",))[0], None
        bearer, cookie = _bearer(headers), _cookie(headers)
        key = self._find(state, bearer, cookie) if keys else None
        if key is not None:
            state["role"], state["caller"] = key.role, key.id
        if (wait := self.buckets.take(state["caller"])) > 0:
            raise _too_many(f"more than {self.buckets.rate:g} requests a second", wait)
        if not keys:
            _check_local(headers)
            state["role"] = "admin"
        elif cookie and not bearer:
            check_origin(headers)
        if state["role"] is None and not path.startswith(OPEN):
            self.guess(state["caller"])
            raise ServiceError(401, "expected a key: Authorization: Bearer hw_…", headers={"WWW-Authenticate": "Bearer"})

    def _find(self, state: dict[str, Any], bearer: str, cookie: str) -> Key | None:
        """The key that a request shows, or that its session was begun with."""
        if bearer:
            return find_key(bearer, self.desk.keys)
        session = find_session(cookie, self.desk.sessions) if cookie else None
        key = None if session is None else self.desk.keys.get(session.key)
        if session is None or key is None or key.revoked is not None:
            return None
        state["session"] = session.id
        return key

    async def _tarry(self) -> None:
        if self._kept_back < MOST_TARRY:
            self._kept_back += 1
            try:
                await asyncio.sleep(TARRY)
            finally:
                self._kept_back -= 1

    def guess(self, caller: str) -> None:
        """Count a request without a key that is known; from too many on, each ends its connection."""
        if (wait := self.wrong.take(caller)) > 0:
            raise _too_many(f"more than {self.wrong.rate:g} requests a second without a key that is known", wait, close=True)


def _too_many(message: str, wait: float, *, close: bool = False) -> ServiceError:
    headers = {"Retry-After": str(max(1, round(wait)))}
    return ServiceError(429, message, headers={**headers, "Connection": "close"} if close else headers)


async def _answer(handler: Callable[[Request], Awaitable[Response]], request: Request, send: Send) -> None:
    try:
        answer = await handler(request)
    except Exception as error:  # noqa: BLE001 - as the application's own handlers do
        answer = answer_to(request, error)
    await answer(request.scope, request.receive, send)


def require(request: Request, role: str) -> None:
    """Refuse a request whose key does not allow what the route does."""
    given = request.scope["state"]["role"]
    if given is None or not allows(given, role):
        raise ServiceError(403, f"this needs a key with the role {role}; got one with the role {given}")


class _Limited:
    """Counts a body while it is read."""

    def __init__(self, receive: Receive, limit: int, headers: dict[bytes, bytes]) -> None:
        self.receive, self.left, self.limit = receive, limit, limit
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > limit:
            raise ServiceError(413, f"the body has {int(length):,} bytes; at most {limit:,} are read")

    async def __call__(self) -> Message:
        message = await self.receive()
        self.left -= len(message.get("body", b""))
        if self.left < 0:
            raise HTTPException(413, f"the body is larger than {self.limit:,} bytes")  # which whoever reads it lets through
        return message


def _bearer(headers: dict[bytes, bytes]) -> str:
    """What a program shows as its key; empty for nothing."""
    text = headers.get(b"authorization", b"").decode("latin-1")
    return text[7:].strip() if text[:7].lower() == "bearer " else ""


def _cookie(headers: dict[bytes, bytes]) -> str:
    """What a browser shows as its session; empty for nothing."""
    if b"cookie" not in headers:
        return ""
    try:
        found = SimpleCookie(headers[b"cookie"].decode("latin-1")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _host(text: str) -> str:
    """The host of ``host:port``, without brackets."""
    name = text.rsplit(":", 1)[0] if not text.endswith("]") and ":" in text else text
    return name.strip("[]").lower()


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own.

    >>> [is_loopback(h) for h in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_local(headers: dict[bytes, bytes]) -> None:
    """Without keys: only names of this machine, so that no page of another site can reach the service through its own name."""
    host = headers.get(b"host", b"localhost").decode("latin-1")
    if not is_loopback(_host(host)):
        raise ServiceError(403, "without keys the service answers to localhost only; make one: headwater key create")
    check_origin(headers)


def check_origin(headers: dict[bytes, bytes]) -> None:
    """Refuse what a page of another site sends."""
    origin = headers.get(b"origin")
    if origin is None or (origin == b"null" and b"host" not in headers):
        return
    if origin.partition(b"://")[2] != headers.get(b"host", b""):
        raise ServiceError(403, "a page of another site may not do this")
