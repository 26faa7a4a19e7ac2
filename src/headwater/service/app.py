"""The service put together: routes, pages, the gate and the desk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import JSONResponse

from headwater import __version__
from headwater.service import answers, api, dashboard, login, pages, studio
from headwater.service.answers import error_answer
from headwater.service.desk import Desk
from headwater.service.gate import Gate
from headwater.service.metrics import Metrics
from headwater.service.store import Store, reason

ABOUT = """
Live decisions for correlated bandits: options whose outcomes share one hidden cause.

Create a campaign from a problem, ask it for decisions, tell it the rewards. Everything is durable before it is answered.
Errors have one shape: `{"error": {"code", "message", "details"}}`. Where the service has keys, send one as
`Authorization: Bearer hw_…`.
"""


@dataclass(frozen=True)
class Limits:
    """What one caller may ask for: requests a second (0: no limit), bytes of a body."""

    rate: float = 2000.0
    body: int = 8_000_000


def create_app(store: Store, limits: Limits | None = None) -> FastAPI:
    """The application over an open database."""
    limits = limits or Limits()
    metrics = Metrics()
    desk = Desk(store, watch=metrics)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(desk.start)
        yield
        await asyncio.to_thread(desk.stop)
        store.close()

    app = FastAPI(
        title="headwater", version=__version__, description=ABOUT, lifespan=life, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json",
    )  # fmt: skip
    app.state.desk, app.state.metrics, app.state.desktop = desk, metrics, api.Desktop(desk)
    answers.install(app)

    async def away(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, SQLAlchemyError)
        return error_answer(503, f"the database does not answer ({reason(error)}); try again", headers={"Retry-After": "1"})

    app.add_exception_handler(SQLAlchemyError, away)
    pages.install(app)
    app.include_router(api.quick)  # first, so that they are found first
    app.include_router(api.router)
    app.include_router(studio.router)
    app.include_router(api.open_routes(metrics))
    app.include_router(pages.router)
    app.include_router(login.router)
    app.include_router(dashboard.router)
    app.add_middleware(Gate, desk=desk, metrics=metrics, rate=limits.rate, body_limit=limits.body)
    return app
