"""The decision log as one file, CSV or Parquet, read a page at a time.

Pages are read and written as text in one process for all exports, beside the one that decides: two dozen of them at once made
decisions wait for Python's lock. Nothing is held while a client is slow. All pages show the log as it was when the first was
asked for: both logs are only ever added to.
"""

from __future__ import annotations

import csv
import io
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi.responses import FileResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from headwater.service.answers import ServiceError
from headwater.service.desk import Desk
from headwater.service.logs import COLUMNS, Log, log_of, table_rows
from headwater.service.store import Store
from headwater.service.worker import LAST, Allowance, Worker

PAGE = 500
"""Rows that are read at a time: some five milliseconds of work."""
REST = 3.0
"""Where there are several exports, how often as long as a page took the database is left to others after it."""
ONE = Allowance(60.0)
"""What reading a page may take."""
AT_A_TIME, OF_ONE = 100, 25
"""Exports under way, in all and for one caller."""
FORMULA = tuple("=+-@\t\r\n")
"""What a formula, or a cell that hides one, begins with."""


class Exports:
    """All exports of a service: one page at a time is read for them, and there are not too many."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._under_way: Counter[str] = Counter()  # by caller
        self._worker = Worker(__name__, what="a page of this log", who="the service", nice=LAST)
        self._limiter = CapacityLimiter(1)

    def close(self) -> None:
        self._worker.close()

    @property
    def under_way(self) -> int:
        return self._under_way.total()

    def begin(self, caller: str) -> None:
        self._under_way[caller] += 1

    def end(self, caller: str) -> None:
        self._under_way[caller] -= 1
        if not self._under_way[caller]:
            del self._under_way[caller]

    async def response(self, slug: str, kind: str, caller: str) -> StreamingResponse | FileResponse:
        """The whole log of a campaign as a file."""
        if self._under_way[caller] >= OF_ONE:
            raise ServiceError(429, f"{OF_ONE} exports of yours are under way; read those first", headers={"Retry-After": "10"})
        if self.under_way >= AT_A_TIME:
            raise ServiceError(503, f"{AT_A_TIME} exports are under way; try again later", headers={"Retry-After": "10"})
        log = await to_thread.run_sync(self._log, slug)
        attach = {"Content-Disposition": f'attachment; filename="{slug}.{kind}"'}
        if kind == "csv":
            return CsvExport(self, caller, log, headers=attach)
        folder = tempfile.TemporaryDirectory(prefix="headwater-")
        self.begin(caller)
        try:
            path = await self._parquet(log, Path(folder.name) / f"{slug}.parquet")
        except BaseException:
            self.end(caller)
            folder.cleanup()
            raise
        return ParquetExport(self, caller, folder, path, headers=attach)

    def _log(self, slug: str) -> Log:
        with self.desk.campaign(slug) as campaign:
            return log_of(campaign)

    async def pages(self, log: Log, kind: str) -> AsyncIterator[Any]:
        """The rows, a page at a time: texts, or tables."""
        address = self.desk.store.url.render_as_string(hide_password=False)
        for low in range(0, log.decided, PAGE):
            place = {"address": address, "log": log, "low": low}
            yield await to_thread.run_sync(self._page, kind, place, limiter=self._limiter)

    def _page(self, kind: str, place: dict[str, Any]) -> Any:
        start = time.monotonic()
        page = self._worker.call(kind, place, ONE)
        if self.under_way > 1:
            time.sleep(REST * (time.monotonic() - start))
        return page

    async def _parquet(self, log: Log, path: Path) -> Path:
        """A file in row groups of a page each."""
        from pyarrow import parquet

        with parquet.ParquetWriter(path, _schema()) as writer:
            async for table in self.pages(log, "parquet"):
                await to_thread.run_sync(writer.write_table, table, limiter=self._limiter)
        return path


class CsvExport(StreamingResponse):
    """The log as CSV while it is read."""

    def __init__(self, exports: Exports, caller: str, log: Log, headers: dict[str, str]) -> None:
        self.exports, self.caller = exports, caller
        super().__init__(self._parts(log), media_type="text/csv; charset=utf-8", headers=headers)

    async def _parts(self, log: Log) -> AsyncIterator[str]:
        yield csv_page([], header=True)
        async for text in self.exports.pages(log, "csv"):
            yield text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.exports.begin(self.caller)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.exports.end(self.caller)


class ParquetExport(FileResponse):
    """A file that is gone once it was sent, or whoever asked for it left."""

    def __init__(
        self, exports: Exports, caller: str, folder: tempfile.TemporaryDirectory[str], path: Path, headers: dict[str, str]
    ) -> None:
        self.exports, self.caller, self.folder = exports, caller, folder
        super().__init__(path, media_type="application/vnd.apache.parquet", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.exports.end(self.caller)
            self.folder.cleanup()


def csv_page(rows: list[dict[str, Any]], *, header: bool = False) -> str:
    """Rows as CSV. A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    if header:
        writer.writeheader()
    for row in rows:
        texts = {name: "'" + row[name] for name in ("arm", "choice", "unit") if row[name] and row[name].startswith(FORMULA)}
        writer.writerow({**row, **texts})
    return out.getvalue()


def _schema() -> Any:
    """The columns of a table, as pyarrow has them."""
    import pyarrow as pa

    whole, real = {"number", "version", "known"}, {"propensity", "reward"}
    kinds = [(name, pa.int64() if name in whole else pa.float64() if name in real else pa.string()) for name in COLUMNS]
    return pa.schema(kinds)


# In the process beside the service.


@lru_cache(maxsize=1)
def _store(address: str) -> Store:
    return Store(address)


def _rows(address: str, log: Log, low: int) -> list[dict[str, Any]]:
    with _store(address).aside() as connection:
        return table_rows(connection, log, low, PAGE)


def _text(address: str, log: Log, low: int) -> str:
    return csv_page(_rows(address, log, low))


def _table(address: str, log: Log, low: int) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(_rows(address, log, low), schema=_schema())


TASKS = {"csv": _text, "parquet": _table}
