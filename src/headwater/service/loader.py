"""Bringing campaigns into memory beside the thread that decides: models are made, and logs read, in threads here."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from headwater.errors import HeadwaterError
from headwater.service.answers import ServiceError
from headwater.service.batch import catch_up
from headwater.service.campaign import COUNTERS, Campaign, Config, Counters
from headwater.service.models import Models
from headwater.service.store import Store, reason
from headwater.service.tables import campaigns

log = logging.getLogger("headwater.service")

THREADS = 2


class Loaded(NamedTuple):
    """What became of a campaign that was to be loaded: there it is, or why it is not; neither if there is none."""

    slug: str
    campaign: Campaign | None
    error: ServiceError | None


class Loader:
    """Threads that load campaigns, and tell ``done`` what became of each."""

    def __init__(self, store: Store, models: Models, done: Callable[[Loaded], None]) -> None:
        self.store, self.models, self.done = store, models, done
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, name="headwater-loader", daemon=True) for _ in range(THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after what is being loaded; what waits is not."""
        for _ in self._threads:
            self._queue.put(None)
        self.models.close()

    def ask(self, slug: str) -> None:
        self._queue.put(slug)

    def _serve(self) -> None:
        while (slug := self._queue.get()) is not None:
            self.done(self._load(slug))

    def _load(self, slug: str) -> Loaded:
        try:
            return Loaded(slug, self._read(slug), None)
        except SQLAlchemyError as error:
            message = f"the database does not answer ({reason(error)}); try again"
            return Loaded(slug, None, ServiceError(503, message, headers={"Retry-After": "1"}))
        except HeadwaterError as error:
            log.error("the campaign %s cannot be used: %s", slug, error)
            status = error.status if isinstance(error, ServiceError) else 422
            return Loaded(slug, None, ServiceError(status, f"{slug}: the campaign cannot be used: {error}"))
        except Exception:
            log.exception("the campaign %s cannot be read", slug)
            return Loaded(slug, None, ServiceError(500, f"{slug}: the campaign cannot be read; the server's log says why"))

    def _read(self, slug: str) -> Campaign | None:
        with self.store.aside() as connection:
            row = connection.execute(select(campaigns).where(campaigns.c.slug == slug)).first()
        if row is None:
            return None
        problem = self.models.load(row.problem, Config.model_validate_json(row.config))
        campaign = Campaign(row, problem)
        with self.store.aside() as connection:
            counters = Counters(*connection.execute(select(*COUNTERS).where(campaigns.c.id == row.id)).one())
            catch_up(connection, campaign, counters)
        return campaign
