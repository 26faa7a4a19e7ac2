"""The service in trouble: a database that goes, hangs, fills up, is locked or loses its answers; clocks that jump; requests
that break, leave, or come while it stops. Always: a clear 503, nothing acknowledged lost, nothing counted twice, and recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.engine import make_url

from headwater.service import campaign as campaign_module
from headwater.service import desk as desk_module
from headwater.service import store as store_module
from headwater.service.answers import ServiceError
from headwater.service.batch import Batch
from headwater.service.checks import check_database
from headwater.service.desk import Desk
from headwater.service.operations import Create, Decide, Operation, SetStatus, Settle
from headwater.service.store import Store
from headwater.service.tables import decisions, rewards
from headwater.service.wire import CampaignBody
from service_tools import ADS, PATIENT, Running, pays, until


def sound(store: Store) -> None:
    """The stored counts are those of the logs."""
    with store.read() as connection:
        for slug, found in check_database(connection):
            assert not found, (slug, found)


class Proxy:
    """TCP on loopback to PostgreSQL's own socket: it can be cut, frozen, or lose the answer to a commit."""

    def __init__(self, address: str) -> None:
        url = make_url(address)
        host = url.query.get("host") or url.host
        assert isinstance(host, str)
        self.inner: Any = f"{host}/.s.PGSQL.{url.port or 5432}" if host.startswith("/") else (host, url.port or 5432)
        self.open, self.losing = threading.Event(), False
        self.moving = threading.Event()
        self.open.set()
        self.moving.set()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        port = self.listening.getsockname()[1]
        self.address = url.set(host="127.0.0.1", port=port, query={}).render_as_string(hide_password=False)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                if not self.open.is_set():
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX if isinstance(self.inner, str) else socket.AF_INET)
                server.connect(self.inner)
                pair = (client, server)
                self.pairs.append(pair)
                lost = threading.Event()  # the answer to a commit is to be lost here
                for source, target in (pair, pair[::-1]):
                    threading.Thread(target=self._pump, args=(source, target, source is client, lost), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, asks: bool, lost: threading.Event) -> None:
        wrote = False  # those who only read commit, too
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.moving.wait()
                wrote = wrote or b"INSERT INTO" in data or b"UPDATE campaigns" in data
                if asks and self.losing and wrote and b"COMMIT" in data:
                    self.losing = False
                    lost.set()
                elif not asks and lost.is_set():  # the server has answered, so that it has committed
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self.open.clear()
        for pair in self.pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.moving.set()
        self.cut()
        self.listening.close()
        for pair in self.pairs:
            for one in pair:
                one.close()


@pytest.fixture
def proxy(fresh_postgres: str) -> Iterator[Proxy]:
    made = Proxy(fresh_postgres)
    yield made
    made.close()


@pytest.fixture
def desk(database: str) -> Iterator[Desk]:
    """A desk without HTTP before it, with one campaign."""
    with started(database) as running:
        make(running)
        yield running
        sound(running.store)


@contextlib.contextmanager
def started(address: str) -> Iterator[Desk]:
    store = Store(address)
    store.open()
    running = Desk(store)
    running.start()
    try:
        yield running
    finally:
        running.stop()
        store.close()


def make(running: Desk, **settings: Any) -> str:
    body = {"id": "ads", "name": "ads", "problem": ADS, "policy": "c-ucb", **settings}
    made: str = ask(running, Create(CampaignBody(**body)))["id"]
    return made


def ask(running: Desk, operation: Operation) -> Any:
    return running.submit(operation).result(timeout=PATIENT)


def together(running: Desk, operations: list[Operation]) -> list[Future[Any]]:
    """Let all of them share one transaction."""
    entered, leave = threading.Event(), threading.Event()

    class Hold(Operation):
        def slugs(self) -> set[str]:
            return set()

        def run(self, batch: Batch) -> None:
            entered.set()
            leave.wait(timeout=PATIENT)

    first = running.submit(Hold())
    assert entered.wait(timeout=PATIENT)
    asked = [running.submit(operation) for operation in operations]
    leave.set()
    first.result(timeout=PATIENT)
    return asked


# The database goes, hangs, loses an answer.


def test_the_database_goes_and_comes_back(proxy: Proxy) -> None:
    with Running(proxy.address) as service:
        campaign = service.campaign()
        kept = service.decide(campaign, {"count": 5})["decisions"]
        service.reward(kept[0]["id"], pays(kept[0]["arm"], 1))
        proxy.cut()
        for attempt in range(3):
            told = service.decide(campaign, {"unit": "ann"}, 503, Idempotency_Key="k")["error"]
            assert (told["code"], told["details"]) == ("unavailable", [])
            assert told["message"].startswith("the database does not answer ("), attempt
            assert service.reward(kept[1]["id"], pays(kept[1]["arm"], 1), 503)["error"]["code"] == "unavailable"
        assert service.get("/healthz")["status"] == "ok"
        assert service.get("/readyz", 503)["error"]["message"].startswith("the database does not answer")
        assert service.get(f"/v1/campaigns/{campaign}/state")["rounds"] == 1  # what is in memory can be read
        assert service.get(f"/v1/campaigns/{campaign}/decisions", 503)["error"]["code"] == "unavailable"
        proxy.open.set()
        until(lambda: service.http.get("/readyz").status_code == 200)
        made = service.decide(campaign, {"unit": "ann"}, Idempotency_Key="k")
        assert made["id"] == f"{campaign}.6"
        assert service.reward(kept[1]["id"], pays(kept[1]["arm"], 1))["status"] == "counted"
        page = service.get(f"/v1/campaigns/{campaign}/decisions")["decisions"]
        assert [(one["id"], one["arm"]) for one in page[:5]] == [(one["id"], one["arm"]) for one in kept]
        assert [one["reward"] is not None for one in page] == [True, True, False, False, False, False]
        sound(service.store)


def test_a_cut_in_the_middle_of_many_requests(proxy: Proxy) -> None:
    with Running(proxy.address) as service, ThreadPoolExecutor(8) as pool:
        campaign = service.campaign()
        stop, got = threading.Event(), []

        def work(n: int) -> None:
            for i in range(2000):
                if stop.is_set():
                    return
                answer = service.http.post(
                    f"/v1/campaigns/{campaign}/decisions", json={}, headers={"Idempotency-Key": f"{n}-{i}"}
                )
                assert answer.status_code in (200, 503), answer.text
                if answer.status_code == 200:
                    got.append(answer.json())
                else:
                    time.sleep(0.01)

        workers = [pool.submit(work, n) for n in range(8)]
        for _ in range(5):
            before = len(got)
            until(lambda before=before: len(got) > before + 20)  # type: ignore[misc]
            proxy.cut()
            time.sleep(0.1)
            proxy.open.set()
        stop.set()
        for worker in workers:
            worker.result(timeout=PATIENT)
        until(lambda: service.http.get("/readyz").status_code == 200)
        with service.store.read() as connection:
            arms = {row.number: row.arm for row in connection.execute(select(decisions))}
        names = list(ADS["arms"])
        assert len({one["id"] for one in got}) == len(got)
        assert all(names[arms[int(one["id"].rpartition(".")[2])]] == one["arm"] for one in got)
        assert service.get(f"/v1/campaigns/{campaign}")["decisions"] == len(arms)
        sound(service.store)


def test_a_database_that_hangs_keeps_nobody(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "PATIENCE", 1.0)
    monkeypatch.setattr(desk_module, "SILENCE", 1.0)
    with Running(proxy.address) as service:
        campaign = service.campaign()
        proxy.moving.clear()
        told = service.decide(campaign, None, 503, Idempotency_Key="k")["error"]
        assert told["message"].startswith("the database has not answered yet; try again: nothing counts twice")
        assert service.get("/healthz")["status"] == "ok"
        until(lambda: service.http.get("/readyz").status_code == 503)
        assert "no word for" in service.get("/readyz", 503)["error"]["message"]
        proxy.moving.set()
        until(lambda: service.http.get("/readyz").status_code == 200)
        first = service.decide(campaign, None, Idempotency_Key="k")  # what was asked for was done in the end
        assert (first["id"], first["repeated"]) == (f"{campaign}.1", True)
        sound(service.store)


def test_a_commit_whose_answer_is_lost(proxy: Proxy) -> None:
    with Running(proxy.address) as service:
        campaign = service.campaign()
        proxy.losing = True
        told = service.decide(campaign, {"count": 2}, 503, Idempotency_Key="k")["error"]["message"]
        assert told.endswith("try again: nothing counts twice, a decision if it has the same Idempotency-Key")
        made = service.decide(campaign, {"count": 2}, Idempotency_Key="k")["decisions"]
        assert [(one["id"], one["repeated"]) for one in made] == [(f"{campaign}.1", True), (f"{campaign}.2", True)]
        value = pays(made[0]["arm"], 2)
        proxy.losing = True
        service.reward(made[0]["id"], value, 503)
        assert service.reward(made[0]["id"], value)["status"] == "repeated"
        view = service.get(f"/v1/campaigns/{campaign}")
        assert (view["decisions"], view["rewards"]) == (2, 1)
        assert service.get(f"/v1/campaigns/{campaign}/state")["rounds"] == 1
        proxy.losing = True
        service.post(f"/v1/campaigns/{campaign}/pause", None, 503)
        assert service.decide(campaign, None, 409)["error"]["code"] == "paused"
        sound(service.store)


# The disk is full, the file is locked.


def test_a_full_database_file(tmp_path: Path) -> None:
    with Running(str(tmp_path / "full.db")) as service:
        campaign = service.campaign()
        limit = _pages(service.store, 0)
        made = []
        _pages(service.store, limit + 5)
        for _ in range(100):
            answer = service.http.post(f"/v1/campaigns/{campaign}/decisions", json={"count": 100})
            if answer.status_code != 200:
                break
            made += answer.json()["decisions"]
        assert answer.json()["error"]["message"].startswith(
            "the database does not answer (database or disk is full); try again"
        )
        assert service.get(f"/v1/campaigns/{campaign}")["decisions"] == len(made)
        assert service.get("/healthz")["status"] == "ok"
        _pages(service.store, 10**9)
        fresh = service.decide(campaign)
        assert fresh["id"] == f"{campaign}.{len(made) + 1}"
        assert service.get("/readyz") == {"status": "ready"}
        sound(service.store)


def _pages(store: Store, most: int) -> int:
    """Let the file have so many pages at most; how many it has."""
    with store._writer.connect() as connection:  # the one connection that writes
        if most:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {most}")
        return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())


def test_a_disk_that_refuses_to_write(tmp_path: Path) -> None:
    """The system itself refuses; once there is room again, readiness comes back without anybody asking for a decision."""
    with Running(str(tmp_path / "refused.db")) as service:
        campaign = service.campaign()
        first = service.decide(campaign)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            told = service.decide(campaign, None, 503, Idempotency_Key="k")["error"]["message"]
            assert told.startswith("the database does not answer (")
            time.sleep(3 * desk_module.TICK)  # reading works, which does not make it ready
            service.get("/readyz", 503)
            service.reward(first["id"], pays(first["arm"], 1), 503)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        until(lambda: service.http.get("/readyz").status_code == 200)
        assert service.decide(campaign, None, Idempotency_Key="k")["id"] == f"{campaign}.2"
        assert service.reward(first["id"], pays(first["arm"], 1))["status"] == "counted"
        sound(service.store)


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    """Ready is only who has written: nobody has to ask for a decision to find out."""
    service = Running(str(tmp_path / "full.db"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with service:
            told = service.get("/readyz", 503)["error"]["message"]
            assert told.startswith("the database does not answer: ")
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            until(lambda: service.http.get("/readyz").status_code == 200)
            service.decide(service.campaign())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["live.db", "live.db-wal"])
def test_a_file_that_is_removed_while_it_is_served(tmp_path: Path, name: str) -> None:
    """What is written to it would be gone with the process: nothing is acknowledged until it is back."""
    with Running(str(tmp_path / "live.db")) as service:
        campaign = service.campaign()
        first = service.decide(campaign)
        (tmp_path / name).rename(tmp_path / "away")
        for _ in range(3):
            told = service.decide(campaign, status=503)["error"]["message"]
            assert f"{name} is not the file that was opened; put that back, or restore a backup" in told
        service.reward(first["id"], pays(first["arm"], 1), 503)
        assert name in service.get("/readyz", 503)["error"]["message"]
        (tmp_path / name).write_bytes(b"")  # another file of that name is not it either
        service.decide(campaign, status=503)
        (tmp_path / "away").rename(tmp_path / name)
        until(lambda: service.http.get("/readyz").status_code == 200)
        assert service.reward(first["id"], pays(first["arm"], 1))["status"] in ("counted", "repeated")
        service.decide(campaign)
        sound(service.store)


def test_a_locked_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BUSY", PATIENT)
    with Running(str(tmp_path / "locked.db")) as service, ThreadPoolExecutor(1) as pool:
        campaign = service.campaign()
        other = sqlite3.connect(tmp_path / "locked.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waits = pool.submit(service.decide, campaign)
        time.sleep(0.3)
        assert not waits.done()
        other.execute("ROLLBACK")
        assert waits.result()["id"] == f"{campaign}.1"
    monkeypatch.setattr(store_module, "BUSY", 0.5)
    with Running(str(tmp_path / "locked.db")) as service:
        service.get(f"/v1/campaigns/{campaign}/state")
        other.execute("BEGIN IMMEDIATE")
        told = service.decide(campaign, None, 503)["error"]["message"]
        assert told.startswith("the database does not answer (database is locked); try again")
        assert service.get(f"/v1/campaigns/{campaign}")["decisions"] == 1
        other.execute("ROLLBACK")
        other.close()
        until(lambda: service.http.get("/readyz").status_code == 200)
        assert service.decide(campaign)["id"] == f"{campaign}.2"
        sound(service.store)


def test_readers_do_not_keep_the_desk_from_writing(desk: Desk) -> None:
    """However many slow downloads hold a connection each."""
    with contextlib.ExitStack() as held:
        for _ in range(20):
            held.enter_context(desk.store.read()).execute(select(decisions.c.number).limit(1))
        assert ask(desk, Decide("ads", [None]))[0]["id"] == "ads.1"


# Clocks.


@pytest.mark.parametrize("default", [None, 1.5])
def test_deadlines_when_clocks_jump(database: str, monkeypatch: pytest.MonkeyPatch, default: float | None) -> None:
    monkeypatch.setattr(campaign_module, "SWEEP", 0.0)
    problem = {**ADS, "arms": {name: [*row[:2], 1.5] for name, row in ADS["arms"].items()}}
    with started(database) as desk:
        clock = [1e9]
        desk.clock = lambda: clock[0]
        make(desk, problem=problem, reward_deadline=60, default_reward=default)

        def settled() -> dict[int, str]:
            with desk.store.read() as connection:
                return {row.number: row.kind for row in connection.execute(select(rewards))}

        ask(desk, Decide("ads", [None] * 3))  # due at 60
        clock[0] += 1e7
        ask(desk, Decide("ads", [None] * 2))  # due far ahead, once the clock is put right
        until(lambda: set(settled()) == {1, 2, 3})
        clock[0] -= 1e7
        ask(desk, Decide("ads", [None] * 2))  # due at 60, behind what is due far ahead
        ask(desk, Settle([("ads.6", 1.5)]))
        time.sleep(3 * desk_module.TICK)
        assert set(settled()) == {1, 2, 3, 6}
        clock[0] -= 1e6  # back, too: nothing is due, nothing is undone
        time.sleep(3 * desk_module.TICK)
        assert set(settled()) == {1, 2, 3, 6}
        clock[0] += 1e6 + 61
        until(lambda: set(settled()) == {1, 2, 3, 6, 7})
        with pytest.raises(ServiceError, match="came too late"):
            ask(desk, Settle([("ads.7", 1.0)]))
        clock[0] += 1e7
        until(lambda: set(settled()) == set(range(1, 8)))
        kind = "forgotten" if default is None else "default"
        assert settled() == {n: "paid" if n == 6 else kind for n in range(1, 8)}
        sound(desk.store)
    with started(database) as desk:  # a process that starts in the middle of it finds the order by itself
        clock = [1e9 + 1e7]
        desk.clock = lambda: clock[0]
        ask(desk, Decide("ads", [None]))
        clock[0] -= 1e7
        ask(desk, Decide("ads", [None]))
    with started(database) as desk:
        desk.clock = lambda: 1e9 + 100
        until(lambda: set(settled()) == {1, 2, 3, 4, 5, 6, 7, 9})
        sound(desk.store)


# Operations that break, and what shares a transaction with them.


class Break(Operation):
    """Changes what is in memory, and then breaks."""

    def slugs(self) -> set[str]:
        return {"ads"}

    def run(self, batch: Batch) -> None:
        Decide("ads", [None] * 7).run(batch)
        raise ZeroDivisionError("by zero")


def test_an_operation_that_breaks_fails_alone(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    first = ask(desk, Decide("ads", [None] * 3))
    value = pays(first[0]["arm"], 1)
    seen = [desk.campaigns["ads"]]
    asked = together(
        desk,
        [
            Decide("ads", ["ann"], key="a"),
            Settle([(first[0]["id"], value)]),
            Settle([(first[1]["id"], pays(first[1]["arm"], 1)), (first[0]["id"], value)], many=True),
            Break(),
            Decide("ads", [None] * 2, key="b"),
            Settle([("ads.1", 77.0)]),
        ],
    )
    made = asked[0].result(timeout=PATIENT)
    assert [one["id"] for one in made] == ["ads.4"]
    assert asked[1].result(timeout=PATIENT)["status"] == "counted"
    assert asked[2].result(timeout=PATIENT) == {"counted": 1, "repeated": 1, "refused": []}
    with pytest.raises(ServiceError, match="the server's log says what") as told:
        asked[3].result(timeout=PATIENT)
    assert told.value.status == 500
    assert "by zero" in caplog.text
    assert [one["id"] for one in asked[4].result(timeout=PATIENT)] == ["ads.5", "ads.6"]
    with pytest.raises(ServiceError, match="was counted already"):
        asked[5].result(timeout=PATIENT)
    with desk.campaign("ads") as campaign:
        assert campaign is not seen[0]
        view = campaign.view()
        assert (view["decisions"], view["rewards"], view["refused"]) == (6, 2, 1)
        assert campaign.policy.waiting == 4


def test_a_reader_never_sees_what_was_rolled_back(desk: Desk) -> None:
    entered, leave, seen = threading.Event(), threading.Event(), []

    class Slow(Break):
        def run(self, batch: Batch) -> None:
            Decide("ads", [None] * 7).run(batch)
            entered.set()
            leave.wait(timeout=PATIENT)
            raise ZeroDivisionError

    def read() -> None:
        with desk.campaign("ads") as campaign:
            seen.append((campaign.view()["decisions"], campaign.policy.waiting))

    asked = desk.submit(Slow())
    assert entered.wait(timeout=PATIENT)
    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.1)
    leave.set()
    reader.join(timeout=PATIENT)
    with pytest.raises(ServiceError):
        asked.result(timeout=PATIENT)
    assert seen == [(0, 0)]


def test_what_shares_a_transaction_is_counted_once(desk: Desk) -> None:
    """A unit's decision is looked up and its reward is told again, and a key comes twice, all in the same transaction."""
    first = ask(desk, Decide("ads", ["ann"]))[0]
    value = pays(first["arm"], 1)
    ask(desk, Settle([(first["id"], value)]))
    seen = desk.campaigns["ads"]
    asked = together(
        desk,
        [
            Decide("ads", ["ann"]),
            Settle([(first["id"], value)]),
            Decide("ads", [None], key="k"),
            Decide("ads", [None], key="k"),
            Decide("ads", ["bob"]),
            Decide("ads", ["bob", "ann"]),
        ],
    )
    told = [one.result(timeout=PATIENT) for one in asked]
    assert told[0][0]["id"] == told[5][1]["id"] == first["id"]
    assert told[1]["status"] == "repeated"
    assert (told[2][0]["id"], told[3][0]["id"], told[3][0]["repeated"]) == ("ads.2", "ads.2", True)
    assert told[4][0]["id"] == told[5][0]["id"] == "ads.3"
    assert desk.campaigns["ads"] is seen  # and nothing had to be done again


def test_what_the_database_cannot_hold_fails_alone(desk: Desk) -> None:
    """PostgreSQL has no longer units than the column, and no text with a NUL in it."""
    odd = [Decide("ads", ["a" * 300]), Settle([("a\0b.1", 1.0)]), Decide("a\0b", [None])]
    asked = together(desk, [Decide("ads", [None]), *odd, Decide("ads", [None])])
    assert [asked[i].result(timeout=PATIENT)[0]["id"][:4] for i in (0, 4)] == ["ads.", "ads."]
    if not desk.store.sqlite:
        with pytest.raises(ServiceError, match="the server's log says what"):
            asked[1].result(timeout=PATIENT)
    for one in asked[2:4]:
        with pytest.raises(ServiceError, match="there is no"):
            one.result(timeout=PATIENT)
    assert desk.trouble is None
    with pytest.raises(ServiceError, match="unit: got a text with a NUL in it"):
        Decide("ads", ["a\0b"])


def test_a_name_that_another_process_takes_first(database: str) -> None:
    with started(database) as one, started(database) as other:
        both = [desk.submit(Create(CampaignBody(name="ads", problem=ADS, policy="c-ucb"))) for desk in (one, other) * 3]
        slugs = sorted(asked.result(timeout=PATIENT)["id"] for asked in both)
        assert slugs == ["ads", *(f"ads-{n}" for n in range(2, 7))]
        taken = [desk.submit(Create(CampaignBody(id="x", name="x", problem=ADS, policy="c-ucb"))) for desk in (one, other)]
        failed = [asked.exception(timeout=PATIENT) for asked in taken]
        assert [error is None for error in failed].count(True) == 1
        assert "expected one that no other campaign has" in str(next(error for error in failed if error is not None))


def test_a_campaign_that_cannot_be_read_stops_nobody(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """As a later release might have written it."""
    make(desk, id="odd")
    with desk.store.write() as connection:
        connection.exec_driver_sql("UPDATE campaigns SET config = '{}', version = 2 WHERE slug = 'odd'")
    until(lambda: "the campaign odd cannot be read" in caplog.text)
    assert ask(desk, Decide("ads", [None]))[0]["id"] == "ads.1"
    with pytest.raises(ServiceError):
        ask(desk, Decide("odd", [None]))
    assert desk.alive
    with desk.store.write() as connection:
        connection.exec_driver_sql("DELETE FROM events")
        connection.exec_driver_sql("DELETE FROM campaigns WHERE slug = 'odd'")


# Requests that leave, and the end.


def test_a_request_that_leaves_is_done_all_the_same(database: str) -> None:
    with Running(database) as service:
        campaign = service.campaign()
        port = int(service.url.rpartition(":")[2])
        for n in range(20):
            body = b'{"unit": "u%d"}' % n
            with socket.create_connection(("127.0.0.1", port)) as raw:
                head = f"POST /v1/campaigns/{campaign}/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                raw.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: service.get(f"/v1/campaigns/{campaign}")["decisions"] == 20)
        assert service.decide(campaign, {"unit": "u7"})["repeated"]
        sound(service.store)


def test_a_coroutine_that_is_cancelled(desk: Desk) -> None:
    async def both() -> Any:
        left, stays = (asyncio.create_task(desk.do(Decide("ads", [None], key=key))) for key in "ab")
        await asyncio.sleep(0)
        left.cancel()
        return (await asyncio.gather(left, stays, return_exceptions=True))[1]

    assert asyncio.run(both())[0]["id"] == "ads.2"
    assert ask(desk, Decide("ads", [None], key="a"))[0]["id"] == "ads.1"


def test_stopping_answers_everybody(database: str) -> None:
    """Whoever got in before the end has a result that is durable; whoever comes later is told so at once."""
    with started(database) as desk:
        make(desk)
        got: list[str] = []
        refused = threading.Event()

        def work() -> None:
            for _ in range(100_000):
                try:
                    asked = desk.submit(Decide("ads", [None]))
                except ServiceError as error:
                    assert (error.status, str(error)) == (503, "the service is stopping")
                    refused.set()
                    return
                got.append(asked.result(timeout=PATIENT)[0]["id"])

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        until(lambda: len(got) > 50)
        desk.stop()
        for worker in workers:
            worker.join(timeout=PATIENT)
            assert not worker.is_alive()
        assert refused.is_set()
        with desk.store.read() as connection:
            kept = set(connection.execute(select(decisions.c.number)).scalars())
        assert {f"ads.{n}" for n in kept} == set(got)
        assert len(got) == len(set(got))
        sound(desk.store)


def test_too_many_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "LONGEST", -1)
    with pytest.raises(ServiceError, match="too many requests wait for the database"):
        desk.submit(SetStatus("ads", "paused"))
    with pytest.raises(ServiceError, match="too many requests wait for the database"):
        asyncio.run(desk.do(SetStatus("ads", "paused")))
