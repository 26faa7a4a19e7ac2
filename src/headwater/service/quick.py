"""Routes on the path of every decision: what FastAPI does for a route by reading its signature, done by hand.

The signature still writes the OpenAPI document. A quick route takes the request, its path parameters as texts, ``body`` (a
pydantic model, or nothing) and perhaps ``key``, the Idempotency-Key; it returns a response. The gate hands requests straight to
it (``Lanes``): looking for a route, and the layers around it that none of these needs, cost more than a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.types import Scope

from headwater.service.answers import ServiceError

KEY_LENGTH = 200
UNREAD = "unread"
"""Marks a ``body`` that is handed on as it came, in bytes: whoever reads it does so elsewhere."""


def json_response(body: Any, status: int = 200) -> Response:
    return Response(to_json(body), status_code=status, media_type="application/json")


class QuickRoute(APIRoute):
    """A route without FastAPI's solving of dependencies, which costs more than a decision."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        endpoint: Any = self.endpoint
        hints = get_type_hints(endpoint, include_extras=True)
        unread = UNREAD in getattr(hints["body"], "__metadata__", ())
        adapter, optional = TypeAdapter(hints["body"]), type(None) in getattr(hints["body"], "__args__", ())
        keyed = "key" in hints

        async def handler(request: Request) -> Response:
            raw = await request.body()
            try:
                body = raw if unread else None if optional and not raw.strip() else adapter.validate_json(raw)
            except ValidationError as error:
                raise RequestValidationError(error.errors(include_url=False)) from None
            more = {"key": _key(request)} if keyed else {}
            answer: Response = await endpoint(request, body=body, **request.path_params, **more)
            return answer

        return handler


class Lanes:
    """The quick routes of a router, by their paths."""

    def __init__(self, router: APIRouter) -> None:
        self.routes = [(route, route.get_route_handler()) for route in router.routes if isinstance(route, QuickRoute)]

    def find(self, scope: Scope) -> Callable[[Request], Coroutine[Any, Any, Response]] | None:
        """Who answers, if it is one of them; what the path says is put into the scope."""
        for route, handler in self.routes:
            if scope["method"] in (route.methods or ()) and (found := route.path_regex.match(scope["path"])) is not None:
                scope["path_params"], scope["route"] = found.groupdict(), route
                return handler
        return None


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= KEY_LENGTH:
        raise ServiceError(422, f"Idempotency-Key: got {len(key)} characters; expected 1 to {KEY_LENGTH}")
    return key
