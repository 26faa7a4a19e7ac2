"""One shape for everything that goes wrong over HTTP: ``{"error": {"code", "message", "details"}}``.

``code`` is a word for programs, ``message`` a sentence for people, ``details`` one line for each thing wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from headwater.complaints import shown
from headwater.errors import HeadwaterError, ProblemError
from headwater.service.store import reason

log = logging.getLogger("headwater.service")

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    431: "head_too_large",
    500: "internal",
    503: "unavailable",
}


class ServiceError(HeadwaterError):
    """A request that is refused, with the status and the word that say why."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        details: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code or CODES.get(status, "error")
        self.details, self.headers = tuple(details), dict(headers or {})


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str = Field(description="A word for programs.", examples=["conflict"])
    message: str = Field(description="A sentence for people.", examples=["two-ads.7: the reward 1 was counted already"])
    details: list[str] = Field(default_factory=list, description="A line for each thing wrong.")


class ErrorAnswer(BaseModel):
    """The shape of every answer with a status of 400 or more."""

    error: ErrorBody


def error_answer(
    status: int,
    message: str,
    *,
    code: str | None = None,
    details: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body = {"code": code or CODES.get(status, "error"), "message": message, "details": list(details)}
    return JSONResponse({"error": body}, status_code=status, headers=dict(headers or {}))


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of a route's errors."""
    return {status: {"model": ErrorAnswer, "description": HTTPStatus(status).phrase} for status in statuses}


def complaint_lines(found: Sequence[Any]) -> list[str]:
    """pydantic's findings in our words: the field, what came, what was expected."""
    lines = []
    for item in found:
        if item["type"] == "json_invalid":
            lines.append(f"the body: is not JSON: {item.get('ctx', {}).get('error', 'malformed')}")
            continue
        place = [str(part) for part in item["loc"] if part not in ("body", "query", "path", "header")]
        where = ".".join(place) or "the body"
        if item["type"] == "missing":
            lines.append(f"{where}: missing")
        elif item["type"] == "extra_forbidden":
            lines.append(f"{where}: unknown key")
        else:
            reason = item["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            lines.append(f"{where}: got {shown(item.get('input'))}; expected {reason[:1].lower()}{reason[1:]}")
    return lines


def _methods(app: FastAPI, request: Request) -> list[str]:
    """What may be done with a request's path."""
    asked = ({**request.scope, "method": method} for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"))
    return [scope["method"] for scope in asked if any(route.matches(scope)[0] is Match.FULL for route in app.router.routes)]


def answer_to(request: Request, error: Exception) -> JSONResponse:
    """What is answered instead, when a route raises."""
    if isinstance(error, ServiceError):
        return error_answer(error.status, str(error), code=error.code, details=error.details, headers=error.headers)
    if isinstance(error, RequestValidationError):
        lines: Sequence[str] = complaint_lines(error.errors())
        return error_answer(422, lines[0], details=lines)
    if isinstance(error, HeadwaterError):
        lines = error.complaints if isinstance(error, ProblemError) else str(error).splitlines()
        return error_answer(422, lines[0] if lines else "something is wrong", details=lines)
    if isinstance(error, SQLAlchemyError):
        return error_answer(503, f"the database does not answer ({reason(error)}); try again", headers={"Retry-After": "1"})
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        if error.status_code == 405:  # one path may have several routes, and the one that refused knows its own methods only
            headers["Allow"] = ", ".join(_methods(request.app, request))
        return error_answer(error.status_code, str(error.detail), headers=headers)
    if isinstance(error, ClientDisconnect):
        log.info("%s %s: whoever asked has gone", request.method, request.url.path)
        return error_answer(400, "the body did not come whole")
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_answer(500, "something went wrong here; the server's log says what")


def install(app: FastAPI) -> None:
    """Let every error of an app have the one shape."""

    async def handler(request: Request, error: Exception) -> JSONResponse:
        return answer_to(request, error)

    for kind in (HeadwaterError, RequestValidationError, SQLAlchemyError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, handler)
