"""A real service on loopback for tests: uvicorn in a thread, on a port of its own, over SQLite or a real PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx2

from headwater.service.app import Limits, create_app
from headwater.service.desk import Desk
from headwater.service.models import Models
from headwater.service.server import bind, server_of
from headwater.service.store import Store

ADS: dict[str, Any] = {
    "name": "two ads",
    "latent": {"kind": "discrete", "values": ["student", "worker", "retiree"]},
    "arms": {"banner": [1, 2, 2], "video": [1.5, 0, 1.5], "poster": [0, 1, 3]},
}


class Running:
    """A service until the ``with`` block ends; requests go through ``http``."""

    def __init__(self, address: str, limits: Limits | None = None, *, models: Models | None = None) -> None:
        self.store = Store(address)
        self.store.open()
        self.app = create_app(self.store, limits or Limits(rate=0), models=models)
        self.server, self.socket = server_of(self.app), bind("127.0.0.1", 0)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def __enter__(self) -> Running:
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            time.sleep(0.01)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx2.Client(base_url=self.url, timeout=600)  # compiling takes a while
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.server.should_exit = True
        self.thread.join()

    @property
    def desk(self) -> Desk:
        desk: Desk = self.app.state.desk
        return desk

    def post(self, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        """What the service answers, which must have this status."""
        answer = self.http.post(path, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    def campaign(self, **settings: Any) -> str:
        """A new campaign's id."""
        body = {"name": "ads", "problem": ADS, "policy": "c-ucb", **settings}
        made: str = self.post("/v1/campaigns", body, 201)["id"]
        return made

    def decide(self, campaign: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        return self.post(f"/v1/campaigns/{campaign}/decisions", body, status, **headers)

    def reward(self, decision: str, value: Any, status: int = 200) -> Any:
        return self.post(f"/v1/decisions/{decision}/reward", {"value": value}, status)


PATIENT = 120.0
"""Seconds that a test waits for what must come, on however busy a machine."""


def until(true: Callable[[], bool]) -> None:
    """Wait for what must become true."""
    end = time.monotonic() + PATIENT
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def pays(arm: str, x: int) -> float:
    """What an arm of ADS pays for the x-th kind of person."""
    return float(ADS["arms"][arm][x])
