"""kill -9 at any moment loses nothing that was acknowledged, and counts nothing twice; SIGTERM ends in good order.

The same soak as benchmarks/soak.py, shorter. Servers are processes; they are forked from one that has loaded everything, so
that a restart takes a moment.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from headwater.client import Client, UnavailableError
from headwater.service.checks import check_database
from headwater.service.store import Store
from headwater.service.tables import decisions
from service_tools import ADS, PATIENT, until

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from soak import Forge, Server, Soak


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


def shaken(database: str, kills: int, forge: Forge) -> None:
    soak = Soak(database, seed=kills, threads=4, forge=forge)
    soak.run(kills, longest=0.3)
    found = soak.check()
    assert found["wrong"] == []
    assert found["kills"] == kills
    assert min(found["decisions"], found["rewards"], found["keys"]) > 0
    check = [sys.executable, "-m", "headwater", "db", "check", "--database", database]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0


def test_killed_again_and_again_over_sqlite(tmp_path: Path, forge: Forge) -> None:
    shaken(str(tmp_path / "service.db"), 15, forge)


def test_killed_again_and_again_over_postgres(fresh_postgres: str, forge: Forge) -> None:
    shaken(fresh_postgres, 8, forge)


def test_sigterm_answers_what_is_under_way(database: str) -> None:
    """Every decision that was answered is there, and the process says that all is well."""
    server, got, stop = Server(database), [], threading.Event()

    def work(n: int) -> None:
        with Client(server.url, retries=0) as client:
            for i in range(10_000):
                if stop.is_set():
                    return
                try:
                    got.append(client.decide("ads", key=f"{n}-{i}").id)
                except UnavailableError:
                    return

    try:
        server.start()
        with Client(server.url, timeout=PATIENT) as client:
            client.create_campaign("ads", ADS, id="ads", policy="c-ucb")
        workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for worker in workers:
            worker.start()
        until(lambda: len(got) >= 30)
        assert server.end(signal.SIGTERM) == 0
    finally:
        stop.set()
        server.close()
    for worker in workers:
        worker.join(timeout=PATIENT)
        assert not worker.is_alive()
    store = Store(database)
    with contextlib.closing(store), store.read() as connection:
        ((slug, found),) = check_database(connection)
        assert (slug, found) == ("ads", [])
        kept = {f"ads.{number}" for number in connection.execute(select(decisions.c.number)).scalars()}
    assert len(got) == len(set(got)) >= 30
    assert set(got) <= kept
