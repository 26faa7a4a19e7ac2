"""Two server processes on one PostgreSQL: no update is lost, each knows what the other did, and the same request at both at
once is one request.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import select

from headwater.client import Client, RefusedError, UnavailableError
from headwater.service.checks import check_database
from headwater.service.store import Store
from headwater.service.tables import decisions, rewards
from service_tools import ADS, PATIENT, pays, until

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from soak import Forge, Server, Soak


class Pair(NamedTuple):
    database: str
    servers: list[Server]
    clients: list[Client]

    def log(self) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
        """Decisions and rewards by name, and the numbers of rewards in order; the stored counts must be those of the logs."""
        store = Store(self.database)
        try:
            with store.read() as connection:
                for slug, found in check_database(connection):
                    assert not found, (slug, found)
                made = {f"ads.{row.number}": row for row in connection.execute(select(decisions))}
                paid = {f"ads.{row.number}": row for row in connection.execute(select(rewards))}
        finally:
            store.close()
        return made, paid, sorted(row.seq for row in paid.values())


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def pair(fresh_postgres: str, forge: Forge) -> Iterator[Pair]:
    servers = [Server(fresh_postgres, forge) for _ in range(2)]
    for server in servers:
        server.start()
    clients = [Client(server.url, timeout=PATIENT) for server in servers]
    clients[0].create_campaign("ads", ADS, id="ads", policy="c-ucb")
    yield Pair(fresh_postgres, servers, clients)
    for client in clients:
        client.close()
    for server in servers:
        server.close()


def test_each_sees_what_the_other_does(pair: Pair) -> None:
    one, other = pair.clients
    made = one.decide_many("ads", 4)
    until(lambda: other.campaign("ads")["decisions"] == 4)
    one.reward(made[2], pays(made[2].arm, 1))
    other.reward(made[0], pays(made[0].arm, 1))  # of a decision that the other one made

    def known(server: Server) -> Any:
        state = server.http.get("/v1/campaigns/ads/state").json()
        return state["rounds"], state["state"]

    until(lambda: known(pair.servers[0]) == known(pair.servers[1]) and known(pair.servers[0])[0] == 2)
    one.switch_arm("ads", "banner", enabled=False)
    until(lambda: other.campaign("ads")["arms"]["banner"] is False)
    assert all(decision.arm != "banner" for decision in other.decide_many("ads", 20))
    other.pause("ads")
    until(lambda: one.campaign("ads")["status"] == "paused")
    with pytest.raises(RefusedError, match="paused"):  # and a change holds at once, whoever made it
        one.decide("ads")
    one.resume("ads")
    assert other.decide("ads").id == "ads.25"


def test_the_same_at_both_at_once_is_one(pair: Pair) -> None:
    together = threading.Barrier(2)

    def both(ask: Callable[[Client], Any]) -> list[Any]:
        def run(client: Client) -> Any:
            together.wait(timeout=PATIENT)
            return ask(client)

        return [future.result(timeout=PATIENT) for future in [pool.submit(run, client) for client in pair.clients]]

    with ThreadPoolExecutor(2) as pool:
        for n in range(25):
            first, second = both(lambda client, n=n: client.decide("ads", key=f"key-{n}"))  # type: ignore[misc]
            assert (first.id, first.arm) == (second.id, second.arm)
            first, second = both(lambda client, n=n: client.decide("ads", unit=f"unit-{n}"))  # type: ignore[misc]
            assert first.id == second.id
            assert sorted([first.repeated, second.repeated]) == [False, True]
            value = pays(first.arm, n % 3)
            assert sorted(both(lambda client, d=first, v=value: client.reward(d, v))) == [False, True]  # type: ignore[misc]
    made, paid, order = pair.log()
    assert (len(made), len(paid)) == (50, 25)
    assert order == list(range(1, 26))


def test_no_update_is_lost_when_one_is_killed(pair: Pair) -> None:
    stop, counted, lock = threading.Event(), {}, threading.Lock()

    def work(n: int) -> None:
        client = pair.clients[n % 2]
        for i in range(10_000):
            if stop.is_set():
                return
            try:
                decision = client.decide("ads", key=f"{n}-{i}")
                client.reward(decision, pays(decision.arm, i % 3))
            except UnavailableError:
                time.sleep(0.05)
                continue
            with lock:
                counted[decision.id] = pays(decision.arm, i % 3)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    try:
        for server in pair.servers:
            before = len(counted)
            until(lambda before=before: len(counted) > before + 20)  # type: ignore[misc]
            server.end()
            time.sleep(0.3)
            server.start()
        before = len(counted)
        until(lambda: len(counted) > before + 20)
    finally:
        stop.set()
        for worker in workers:
            worker.join(timeout=PATIENT)
    made, paid, order = pair.log()
    assert sorted(row.number for row in made.values()) == list(range(1, len(made) + 1))
    assert order == list(range(1, len(paid) + 1))
    assert {name: paid[name].value for name in counted} == counted
    until(lambda: all(client.campaign("ads")["rewards"] == len(paid) for client in pair.clients))
    states = [server.http.get("/v1/campaigns/ads/state").json() for server in pair.servers]
    assert states[0] == states[1]
    assert sum(states[0]["pulls"].values()) == states[0]["rounds"] == len(paid) >= len(counted)


def test_replicas_that_are_killed_again_and_again(fresh_postgres: str, forge: Forge) -> None:
    soak = Soak(fresh_postgres, seed=3, replicas=2, forge=forge)
    soak.run(5, longest=0.3)
    assert soak.check()["wrong"] == []
    assert len(soak.delays) == 5


def test_deadlines_are_kept_by_whoever_is_left(pair: Pair) -> None:
    """Also of a campaign that the other replica never heard of before its maker died."""
    pair.clients[0].create_campaign("short", ADS, id="short", policy="c-ucb", reward_deadline=0.5)
    pair.clients[0].decide_many("short", 3)
    pair.servers[0].end()

    def forgotten() -> bool:
        store = Store(pair.database)
        try:
            with store.read() as connection:
                return len(connection.execute(select(rewards)).all()) == 3
        finally:
            store.close()

    until(forgotten)
    assert pair.clients[1].campaign("short")["pending"] == 0
