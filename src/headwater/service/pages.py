"""The frame of every page: templates that escape everything, static files of this package, and a strict content policy.

Nothing is loaded from elsewhere. Scripts are ES modules in ``static``; no page has one inside it, so the policy forbids them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from headwater.service.answers import ServiceError

__all__ = ["for_people", "install", "render", "router", "wants_page"]

HERE = Path(__file__).parent
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # no-referrer would hide the origin of our own forms as well
    "Cache-Control": "no-store",
}

environment = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
router = APIRouter(include_in_schema=False)


def render(name: str, *, request: Request | None = None, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from a template and what it shows; names in ``context`` are text, never markup."""
    signed_in = bool(request is not None and request.scope.get("state", {}).get("session"))
    text = environment.get_template(name).render(signed_in=signed_in, **context)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def code_in_text(text: str) -> Markup:
    """Text of a docstring: what stands between backticks is code, an empty line begins a paragraph.

    >>> code_in_text("a `<b>` & ``c``")
    Markup('<p>a <code>&lt;b&gt;</code> &amp; <code>c</code></p>')
    """
    parts = [re.sub(r"(`{1,2})(.+?)\1", r"<code>\2</code>", str(escape(part))) for part in re.split(r"\n\s*\n", text.strip())]
    return Markup("".join(f"<p>{part}</p>" for part in parts))


environment.filters["prose"] = code_in_text
environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # the order of arms is theirs


# What goes wrong, for people.


def wants_page(scope: MutableMapping[str, Any]) -> bool:
    """Whether a request is a person's, who follows a link; what is under /v1 is for programs."""
    if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith(("/v1/", "/static/")):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def for_people(scope: MutableMapping[str, Any], status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """What went wrong as a page; whoever has no key is led to where one is given."""
    if status == HTTPStatus.UNAUTHORIZED:
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = quote(scope["path"] + (f"?{query}" if query else ""), safe="/")
        return RedirectResponse(f"/login?next={wanted}", status_code=303, headers={"Cache-Control": "no-store"})
    if message == HTTPStatus(status).phrase and status == HTTPStatus.NOT_FOUND:
        message = "there is nothing at this address"
    page = render("error.html", status=status, code=status, title=HTTPStatus(status).phrase, message=message)
    page.headers.update(headers or {})
    return page


def install(app: FastAPI) -> None:
    """Let an app's errors be pages where a person asked; its handlers for programs are those it has now."""

    def wrapped(handler: Callable[[Request, Any], Any]) -> Callable[[Request, Any], Awaitable[Response]]:
        async def handle(request: Request, error: Exception) -> Response:
            answer: Response = await handler(request, error)
            if not wants_page(request.scope):
                return answer
            kept = {name: value for name, value in answer.headers.items() if name in ("retry-after", "allow")}
            return for_people(request.scope, answer.status_code, json.loads(bytes(answer.body))["error"]["message"], kept)

        return handle

    for kind, handler in list(app.exception_handlers.items()):
        app.exception_handlers[kind] = wrapped(handler)


class Asset(NamedTuple):
    content: bytes
    kind: str
    tag: str


@cache
def asset(name: str) -> Asset:
    """A file of ``static``, by its plain name."""
    content = (HERE / "static" / name).read_bytes()
    return Asset(content, TYPES[Path(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:20]}"')


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in (HERE / "static").iterdir() if path.suffix in TYPES)


@router.get("/static/{name}")
def static(name: str, request: Request) -> Response:
    """A script, a style sheet or a picture; browsers ask again whether it changed, and are told in a few bytes."""
    if name not in _names():
        raise ServiceError(404, "there is no such file")
    found = asset(name)
    headers = {"ETag": found.tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


@router.get("/studio")
def studio(request: Request) -> HTMLResponse:
    """The page on which problems are made, understood and raced."""
    return render("studio.html", request=request)
