"""The service put together: routes, pages, the gate and the desk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.types import ASGIApp

from headwater import __version__
from headwater.service import answers, api, dashboard, login, pages, studio
from headwater.service.checking import Checking
from headwater.service.connections import Bounds
from headwater.service.desk import Desk
from headwater.service.exports import Exports
from headwater.service.gate import Gate
from headwater.service.metrics import Metrics
from headwater.service.models import Models
from headwater.service.reading import Reading
from headwater.service.store import Store

ABOUT = """
Live decisions for correlated bandits: options whose outcomes share one hidden cause.

Create a campaign from a problem, ask it for decisions, tell it the rewards. Everything is durable before it is answered.
Errors have one shape: `{"error": {"code", "message", "details"}}`. Where the service has keys, send one as
`Authorization: Bearer hw_…`.
"""


@dataclass(frozen=True)
class Limits:
    """What one caller may ask for: requests a second (0: no limit), bytes of a body; and what a connection may send."""

    rate: float = 2000.0
    body: int = 8_000_000
    connections: Bounds = field(default_factory=Bounds)


class Service(FastAPI):
    """The application behind its gate, which is the first to see a request."""

    limits: Limits

    def build_middleware_stack(self) -> ASGIApp:
        inner = super().build_middleware_stack()
        rate, body = self.limits.rate, self.limits.body
        gate = Gate(inner, api.quick, desk=self.state.desk, metrics=self.state.metrics, rate=rate, body_limit=body)
        self.state.gate = gate
        return gate


def create_app(store: Store, limits: Limits | None = None, *, models: Models | None = None) -> Service:
    """The application over an open database."""
    limits = limits or Limits()
    metrics = Metrics()
    desk = Desk(store, watch=metrics, models=models)
    reading = Reading(desk)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(desk.start)
        yield
        await app.state.checking.stop()
        await asyncio.to_thread(desk.stop)
        reading.close()
        app.state.exports.close()
        store.close()

    app = Service(
        title="headwater", version=__version__, description=ABOUT, lifespan=life, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json",
    )  # fmt: skip
    app.limits = limits
    app.state.desk, app.state.metrics, app.state.reading, app.state.exports = desk, metrics, reading, Exports(desk)
    app.state.checking, app.state.creating = Checking(desk), CapacityLimiter(2)
    answers.install(app)
    pages.install(app)
    routers = (api.quick, api.router, studio.router, api.open_routes(metrics), pages.router, login.router, dashboard.router)
    for router in routers:
        app.include_router(router)
    return app
