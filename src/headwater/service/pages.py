"""The frame of every page: templates that escape everything, static files of this package, and a strict content policy.

Nothing is loaded from elsewhere. Scripts are ES modules in ``static``; no page has one inside it, so the policy forbids them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from headwater.service.answers import ServiceError

__all__ = ["render", "router"]

HERE = Path(__file__).parent
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
PLOTLY = "plotly.min.js"
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
    "Referrer-Policy": "no-referrer",
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


def render(name: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page from a template and what it shows; names in ``context`` are text, never markup."""
    return HTMLResponse(environment.get_template(name).render(**context), status_code=status, headers=HEADERS)


class Asset(NamedTuple):
    content: bytes
    kind: str
    tag: str


@cache
def asset(name: str) -> Asset | None:
    """A file of ``static``, by its plain name; None for any other name."""
    if name == PLOTLY:
        from plotly.offline import get_plotlyjs  # travels inside the wheel

        content = get_plotlyjs().encode()
    elif name in _names():
        content = (HERE / "static" / name).read_bytes()
    else:
        return None
    return Asset(content, TYPES[Path(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:20]}"')


@cache
def _names() -> frozenset[str]:
    return frozenset(path.name for path in (HERE / "static").iterdir() if path.suffix in TYPES)


@router.get("/static/{name}")
def static(name: str, request: Request) -> Response:
    """A script, a style sheet or a picture; browsers ask again whether it changed, and are told in a few bytes."""
    found = asset(name) if name == PLOTLY or name in _names() else None
    if found is None:
        raise ServiceError(404, "there is no such file")
    lasting = "public, max-age=86400" if name == PLOTLY else "no-cache"
    headers = {"ETag": found.tag, "Cache-Control": lasting, "X-Content-Type-Options": "nosniff"}
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


@router.get("/studio")
def studio() -> HTMLResponse:
    """The page on which problems are made, understood and raced."""
    return render("studio.html")
