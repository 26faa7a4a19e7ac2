"""Signing in: a form that takes a key and begins a session, whose cookie no script can read."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from headwater.service.answers import ServiceError
from headwater.service.desk import TICK, Desk
from headwater.service.gate import COOKIE, check_origin
from headwater.service.keys import find_key
from headwater.service.pages import render
from headwater.service.sessions import SECONDS, SignIn, SignOut

MOST_BYTES = 10_000

router = APIRouter(include_in_schema=False)


def local_path(text: str) -> str:
    r"""A path of this site to go on to; the first page for anything that a browser may take for another site's.

    >>> [local_path(text) for text in ("/campaigns/a?b=1", "//evil.example", "/\\evil.example", "https://x", "/\t/x")]
    ['/campaigns/a?b=1', '/', '/', '/', '/']
    """
    plain = text.isprintable() and text.isascii() and not any(c in text for c in " \\")
    return text if plain and text.startswith("/") and not text.startswith("//") else "/"


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(local_path(path), status_code=303, headers={"Cache-Control": "no-store"})


@router.get("/login")
def login(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the address
    """The form; where there are no keys there is nothing to sign in to."""
    desk: Desk = request.app.state.desk
    if not desk.keys:
        return _go(next)
    return render("login.html", request=request, next=local_path(next), wrong="")


@router.post("/login")
async def enter(request: Request) -> Response:
    """Look at the key; if it is one, begin a session and go on."""
    check_origin(dict(request.scope["headers"]))
    body = await request.body()
    if len(body) > MOST_BYTES:
        raise ServiceError(413, f"the body: got {len(body):,} bytes; expected at most {MOST_BYTES:,}")
    form = parse_qs(body.decode("utf-8", "replace"))
    text, wanted = form.get("key", [""])[0].strip(), local_path(form.get("next", ["/"])[0])
    desk: Desk = request.app.state.desk
    if (key := find_key(text, desk.keys)) is None:
        request.app.state.gate.guess(request.scope["state"]["caller"])
        wrong = "This key is not known here, or is no longer in use." if text else "Paste a key first."
        return render("login.html", request=request, status=401, next=wanted, wrong=wrong)
    cookie, session = await desk.do(SignIn(key.id))
    desk.sessions = {**desk.sessions, session.id: session}
    if not desk.store.sqlite:  # the next request may reach another replica
        await asyncio.sleep(2 * TICK)
    answer = _go(wanted)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, cookie, max_age=SECONDS, path="/", httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
async def leave(request: Request) -> Response:
    """End the session: its cookie opens nothing any more, wherever it was copied to."""
    desk: Desk = request.app.state.desk
    if (session := request.scope["state"]["session"]) is not None:
        await desk.do(SignOut(session))
        desk.sessions = {id_: one for id_, one in desk.sessions.items() if id_ != session}
    answer = _go("/login")
    secure = request.url.scheme == "https"
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=secure)
    return answer
