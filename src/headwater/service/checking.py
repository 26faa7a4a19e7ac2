"""A full check of the database on demand, while the service runs: in a process beside it, one at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any

from anyio import CapacityLimiter, to_thread

from headwater.errors import HeadwaterError
from headwater.service.campaign import moment
from headwater.service.checks import check_database, damage
from headwater.service.desk import Desk
from headwater.service.store import Store, told
from headwater.service.worker import Allowance, Worker

log = logging.getLogger("headwater.service")

FULL = Allowance(6 * 3600.0)


class Checking:
    """The last check, and the one under way."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.told: dict[str, Any] = {"status": "never"}
        self._worker = Worker(__name__, what="checking the database", who="the service")
        self._limiter = CapacityLimiter(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> dict[str, Any]:
        """Begin one, unless one is under way; what is known of it."""
        if self._task is None or self._task.done():
            self.told = {"status": "running", "began": moment(time.time())}
            self._task = asyncio.create_task(self._run())
        return self.told

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._worker.close()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        address = {"address": self.desk.store.url.render_as_string(hide_password=False)}
        try:
            found = await to_thread.run_sync(
                self._worker.call, "check", address, FULL, limiter=self._limiter, abandon_on_cancel=True
            )
        except (HeadwaterError, RuntimeError) as error:
            self._tell("failed", message=str(error))
            return
        wrong = found["damage"] or any(found["campaigns"].values())
        self._tell("wrong" if wrong else "right", **found)
        if wrong:
            log.error("a full check of the database found: %s", found)
        if found["damage"]:
            self.desk.doubt(found["damage"])

    def _tell(self, status: str, **more: Any) -> None:
        self.told = {"status": status, "began": self.told["began"], "ended": moment(time.time()), **more}


# In the process beside it.


def check(address: str) -> dict[str, Any]:
    """What is wrong with the file, and with each campaign."""
    store = Store(address)
    try:
        with told(store), store.read(patient=True) as connection:
            broken = damage(connection, whole=True)
            return {"damage": broken, "campaigns": {} if broken else dict(check_database(connection))}
    finally:
        store.close()


TASKS = {"check": check}
