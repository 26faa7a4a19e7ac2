"""What becomes of the service when its disk is full, and its database damaged or removed. On SQLite, unless said otherwise."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg

from arena import LIST, Place, Row, Server, say
from loads import paid
from service import PROBLEM
from soak import database


def plain_campaign(server: Server, rows: int) -> None:
    server.http.post(LIST, json={"id": "plain", "name": "plain", "problem": PROBLEM, "policy": "c-ucb"}).raise_for_status()
    for _ in range(0, rows, 1000):
        made = server.http.post(f"{LIST}/plain/decisions", json={"count": min(rows, 1000)}).json()["decisions"]
        told = [{"decision": one["id"], "value": paid(one["arm"], one["id"])} for one in made]
        server.http.post("/v1/rewards", json={"rewards": told}).raise_for_status()


def state(server: Server, tries: int = 20) -> str:
    """What the service says of itself, and what becomes of some decisions."""
    if not server.running:
        return f"serve ends: {last_line(server.said())}"
    told = [f"/readyz {brief(server.http.get('/readyz'))}"]
    made = Counter(brief(server.http.post(f"{LIST}/plain/decisions", json={})) for _ in range(tries))
    told += [f"{count} decisions {what}" for what, count in made.most_common()]
    return ", ".join([*told, f"/readyz then {brief(server.http.get('/readyz'))}"])


def brief(answer: httpx2.Response) -> str:
    message = answer.json().get("error", {}).get("message", "")
    return f"{answer.status_code} ({message[:100]})" if message else str(answer.status_code)


def last_line(text: str) -> str:
    """Without the folder where this happens to run."""
    return re.sub(r"(sqlite:\S*/|postgresql\S*: )", "…/", (text.strip().splitlines() or [""])[-1])[:160]


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "callers", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass


def full_disk(place: Place) -> list[Row]:
    if os.geteuid() != 0:
        say("SKIPPED: a full disk: only root can mount a small one")
        return []
    folder, logs = place.folder_of("full-disk"), place.folder_of("full-disk-logs")
    with small_disk(folder, 4), Server(str(folder / "campaigns.db"), logs) as server:
        plain_campaign(server, 1000)
        server.end(signal.SIGKILL)  # the log stays, as it does where the disk was full
        fill_up(folder / "filler")
        seconds = server.start()
        now = f"after {seconds:.1f} s {state(server)}"
        if server.running:
            (folder / "filler").unlink()
            start = time.monotonic()
            while server.http.get("/readyz").status_code != 200 and time.monotonic() - start < 30:
                time.sleep(0.1)
            now += f"; with room again /readyz 200 after {time.monotonic() - start:.1f} s"
    return [Row("a full disk at the start", "/readyz 200 until the first write fails", now)]


def overwrite(path: Path) -> None:
    """Random bytes in its middle fifth, in whole pages."""
    pages = path.stat().st_size // 8192
    with path.open("r+b") as file:
        file.seek(2 * pages // 5 * 8192)
        file.write(random.Random(1).randbytes(max(pages // 5, 1) * 8192))


def check(address: str) -> str:
    words = [sys.executable, "-m", "headwater", "db", "check", "--database", address]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return f"db check: status {done.returncode}, {last_line(done.stdout + done.stderr)}"


def damaged(place: Place) -> list[Row]:
    folder = place.folder_of("damaged")
    before = "–"
    if place.postgres is not None:
        with database(folder, "PostgreSQL") as address, Server(address, folder) as server:
            plain_campaign(server, 20_000)
            with psycopg.connect(address) as connection:
                (name,) = connection.execute("SELECT pg_relation_filepath('decisions')").fetchone() or ("",)
        overwrite(folder / "pg" / name)
        with database(folder, "PostgreSQL") as address, Server(address, folder) as server:
            return [Row("pages of the decisions overwritten, then served", before, f"{state(server)}; {check(address)}")]
    good, bad = folder / "good.db", folder / "bad.db"
    with Server(str(good), folder) as server:
        plain_campaign(server, 20_000)
    shutil.copy(good, bad)
    overwrite(bad)
    with Server(str(bad), folder) as server:
        rows = [Row("a database whose pages were overwritten, served", before, f"{state(server)}; {check(str(bad))}")]
    with Server(str(good), folder) as server:
        state(server)
        overwrite(good)
        rows.append(Row("the same while it is served", before, f"{state(server)}; {check(str(good))}"))
    return rows


def disk(place: Place) -> list[Row]:
    return [*([] if place.postgres else full_disk(place)), *damaged(place)]


def removed(place: Place) -> list[Row]:
    if place.postgres is not None:
        return []
    folder = place.folder_of("removed")
    path, told, unready = folder / "campaigns.db", Counter[int](), float("inf")
    with Server(str(path), folder) as server:
        plain_campaign(server, 1000)
        state(server)
        path.unlink()
        start = time.monotonic()
        while (spent := time.monotonic() - start) < 5:
            told[server.http.post(f"{LIST}/plain/decisions", json={}).status_code] += 1
            if server.http.get("/readyz").status_code != 200:
                unready = min(unready, spent)
    now = f"{told.pop(200, 0):,} decisions acknowledged in 5 s, others {dict(told)}; /readyz 503 after {unready:.2f} s"
    return [Row("the SQLite file removed while it is served", "all acknowledged, and gone", now)]
