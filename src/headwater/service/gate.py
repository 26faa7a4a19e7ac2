"""The gate: what every request passes before anything looks at it. Size, rate, key, origin; and what is measured of it.

A plain ASGI middleware, because it is on the path of every decision. Where the database has no keys, the service listens on
this machine only and everybody who reaches it may do everything; requests that a page of another site sends are refused.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.service.answers import ServiceError, answer_to, error_answer
from headwater.service.desk import Desk
from headwater.service.keys import allows, find_key
from headwater.service.metrics import Metrics
from headwater.service.pages import for_people, wants_page
from headwater.service.quick import Lanes

COOKIE = "headwater_key"
OPEN = ("/healthz", "/readyz", "/login", "/logout", "/static/", "/favicon.ico")
"""What needs no key."""
MOST_CALLERS = 10_000


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
        self.buckets = Buckets(rate)

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
            if wants_page(scope):
                await for_people(scope, error.status, str(error), error.headers)(scope, receive, sent)
            else:
                answer = error_answer(error.status, str(error), code=error.code, headers=error.headers)
                await answer(scope, receive, sent)
        finally:
            route = scope.get("route")
            self.metrics.answered(getattr(route, "path", "other"), status, time.perf_counter() - start)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        path = scope["path"]
        keys = self.desk.keys
        state = scope.setdefault("state", {})
        state["role"], state["caller"] = None, (scope.get("client") or ("?",))[0]
        if not keys:
            _check_local(headers)
            state["role"] = "admin"
        else:
            text, by_cookie = _key_text(headers)
            key = find_key(text, keys) if text else None
            if key is not None:
                state["role"], state["caller"], state["signed_in"] = key.role, key.id, by_cookie
            if by_cookie:
                check_origin(headers)
            if key is None and not path.startswith(OPEN):
                raise ServiceError(401, "expected a key: Authorization: Bearer hw_…", headers={"WWW-Authenticate": "Bearer"})
        if (wait := self.buckets.take(state["caller"])) > 0:
            message = f"more than {self.buckets.rate:g} requests a second"
            raise ServiceError(429, message, headers={"Retry-After": str(max(1, round(wait)))})


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


def _key_text(headers: dict[bytes, bytes]) -> tuple[str, bool]:
    """What stands for a key, and whether it came by a cookie."""
    bearer = headers.get(b"authorization", b"").decode("latin-1")
    if bearer[:7].lower() == "bearer ":
        return bearer[7:].strip(), False
    try:
        cookie = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        cookie = None
    return (cookie.value, True) if cookie is not None else ("", False)


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
    if not is_loopback(_host(host)) and host != "testserver":
        raise ServiceError(403, "without keys the service answers to localhost only; make one: headwater key create")
    check_origin(headers)


def check_origin(headers: dict[bytes, bytes]) -> None:
    """Refuse what a page of another site sends."""
    origin = headers.get(b"origin")
    if origin is None or (origin == b"null" and b"host" not in headers):
        return
    if origin.partition(b"://")[2] != headers.get(b"host", b""):
        raise ServiceError(403, "a page of another site may not do this")
