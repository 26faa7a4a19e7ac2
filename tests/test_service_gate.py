"""Who may do what: keys, roles, limits, origins, and where the service refuses to listen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, select

from headwater.cli.serve import open_store
from headwater.errors import HeadwaterError, ProblemError
from headwater.service.app import Limits
from headwater.service.desk import Desk
from headwater.service.gate import COOKIE, WRONG_RATE, Buckets
from headwater.service.keys import ROLES, allows, create_key, find_key, list_keys, revoke_key
from headwater.service.server import bind, serve
from headwater.service.sessions import MOST, SECONDS, SignIn, find_session, list_sessions
from headwater.service.store import Store
from headwater.service.tables import sessions
from service_tools import ADS, Running, until


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "service.db")


def make_keys(address: str) -> dict[str, str]:
    store = Store(address)
    store.open()
    with store.write() as connection:
        out = {role: create_key(connection, f"for {role}", role)[0] for role in ROLES}
    store.close()
    return out


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_roles_may_do_what_they_may(address: str) -> None:
    keys = make_keys(address)
    with Running(address) as service:
        body = {"name": "ads", "problem": ADS, "policy": "ucb1"}
        asked = [("GET", "/v1/campaigns", None, "read"), ("POST", "/v1/campaigns", body, "admin"),
                 ("POST", "/v1/campaigns/ads/decisions", None, "decide"), ("GET", "/metrics", None, "read"),
                 ("POST", "/v1/rewards", {"rewards": [{"decision": "x", "value": 1}]}, "decide"),
                 ("POST", "/v1/campaigns/ads/pause", None, "admin"), ("PATCH", "/v1/campaigns/ads", {"floor": 0.1}, "admin"),
                 ("POST", "/v1/campaigns/ads/arms", {"arm": "video", "enabled": True}, "admin"),
                 ("GET", "/v1/campaigns/ads/report", None, "read")]  # fmt: skip
        for method, path, sent, needed in asked:
            for role in (None, *ROLES):
                headers = {} if role is None else bearer(keys[role])
                answer = service.http.request(method, path, json=sent, headers=headers)
                if role is None:
                    assert answer.status_code == 401
                    assert answer.json()["error"]["message"] == "expected a key: Authorization: Bearer hw_…"
                elif allows(role, needed):
                    assert answer.status_code in (200, 201), (role, path, answer.text)
                else:
                    assert answer.status_code == 403
                    wanted = f"this needs a key with the role {needed}; got one with the role {role}"
                    assert answer.json()["error"]["message"] == wanted
        assert service.http.get("/healthz").status_code == service.http.get("/readyz").status_code == 200
        for wrong in ("hw_x_y", keys["admin"] + "x", keys["admin"][:-1], "hw_", "nonsense", "hw__"):
            assert service.http.get("/v1/campaigns", headers=bearer(wrong)).status_code == 401


def test_a_revoked_key_is_forgotten_by_a_running_service(address: str) -> None:
    keys = make_keys(address)
    with Running(address) as service:
        assert service.http.get("/v1/campaigns", headers=bearer(keys["read"])).status_code == 200
        with service.store.write() as connection:
            revoke_key(connection, keys["read"].split("_")[1])
        for _ in range(100):
            if service.http.get("/v1/campaigns", headers=bearer(keys["read"])).status_code == 401:
                break
            time.sleep(0.05)
        else:
            pytest.fail("a revoked key still works")
        assert service.http.get("/v1/campaigns", headers=bearer(keys["decide"])).status_code == 200
        with service.store.write() as connection, pytest.raises(ProblemError, match="expected a key that is in use"):
            revoke_key(connection, "00000000")


def test_the_database_has_only_hashes(address: str) -> None:
    keys = make_keys(address)
    store = Store(address)
    with store.read() as connection:
        known = {key.id: key for key in list_keys(connection)}
    store.close()
    raw = Path(address).read_bytes() + b"".join(path.read_bytes() for path in Path(address).parent.glob("*-wal"))
    for role, text in keys.items():
        assert text.split("_", 2)[2].encode() not in raw
        found = find_key(text, known)
        assert found is not None
        assert found.role == role
    with pytest.raises(ProblemError, match='role: got "king"; expected read, decide or admin'):
        create_key(None, "x", "king")  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="name: expected 1 to 200 printable characters"):
        create_key(None, "\n", "read")  # type: ignore[arg-type]


def test_without_keys_only_this_machine_is_answered(address: str) -> None:
    with Running(address) as service:
        assert service.http.get("/v1/campaigns").status_code == 200
        for headers in (
            {"Host": "evil.example"},
            {"Host": "testserver"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
        ):
            answer = service.http.post("/v1/campaigns", json={"name": "x", "problem": ADS}, headers=headers)
            assert answer.status_code == 403, headers
        assert service.get("/v1/campaigns")["campaigns"] == []
        body = {"name": "x", "problem": ADS, "policy": "ucb1"}
        own = service.http.post("/v1/campaigns", json=body, headers={"Origin": service.url})
        assert own.status_code == 201


def test_large_bodies_are_refused_before_they_are_read(address: str) -> None:
    with Running(address, Limits(rate=0, body=1000)) as service:
        answer = service.http.post("/v1/campaigns", content=b"x" * 1001, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "the body has 1,001 bytes; at most 1,000 are read"

        def chunks() -> Iterator[bytes]:
            for _ in range(20):
                yield b" " * 100

        answer = service.http.post("/v1/campaigns", content=chunks())
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "the body is larger than 1,000 bytes"


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the gate alone: however slow the machine is, nobody gets more requests for it."""
    clock = SimpleNamespace(monotonic=lambda: 0.0, perf_counter=time.perf_counter)
    monkeypatch.setattr("headwater.service.gate.time", clock)


def test_more_requests_than_allowed_are_told_to_wait(address: str, no_time_passes: None) -> None:
    with Running(address, Limits(rate=5)) as service:
        answers = [service.http.get("/v1/campaigns") for _ in range(30)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 20
        refused = answers[10:]
        assert refused[0].json()["error"]["message"] == "more than 5 requests a second"
        assert int(refused[0].headers["Retry-After"]) >= 1


@pytest.mark.parametrize("how", ["bearer", "cookie", "login", "nothing"])
def test_guessing_keys_is_ended(address: str, how: str, no_time_passes: None) -> None:
    keys = make_keys(address)
    with Running(address) as service:

        def guess() -> Any:
            if how == "login":
                return service.http.post("/login", data={"key": "hw_x_y"})
            header = {"bearer": bearer("hw_x_y"), "cookie": {"Cookie": f"{COOKIE}=x_y"}, "nothing": {}}[how]
            return service.http.get("/v1/campaigns", headers=header)

        most = int(2 * WRONG_RATE)
        answers = [guess() for _ in range(most + 6)]
        refused = answers[most:]
        assert [answer.status_code for answer in answers] == [401] * most + [429] * 6
        assert refused[0].json()["error"]["message"] == "more than 10 requests a second without a key that is known"
        assert refused[0].headers["Connection"] == "close" and int(refused[0].headers["Retry-After"]) >= 1
        assert service.http.get("/v1/campaigns", headers=bearer(keys["read"])).status_code == 200


def test_a_session_ends_where_it_is_signed_out(database: str) -> None:
    keys = make_keys(database)
    with Running(database) as service:

        def sign_in(key: str) -> str:
            answer = service.http.post("/login", data={"key": key})
            assert answer.status_code == 303
            service.http.cookies.clear()
            return str(answer.headers["set-cookie"].partition(";")[0])

        def status(cookie: str) -> int:
            return service.http.get("/v1/campaigns", headers={"Cookie": cookie}).status_code

        one, other, third = sign_in(keys["admin"]), sign_in(keys["admin"]), sign_in(keys["read"])
        assert keys["admin"] not in one and keys["admin"].split("_", 2)[2] not in one
        assert [status(cookie) for cookie in (one, other, third, f"{COOKIE}={keys['admin']}")] == [200, 200, 200, 401]
        assert service.http.post("/logout", headers={"Cookie": one}).status_code == 303
        assert [status(cookie) for cookie in (one, other, third)] == [401, 200, 200]  # also where it was copied to
        with service.store.write() as connection:
            stored = {row.id: row.hash for row in connection.execute(select(sessions))}
            revoke_key(connection, keys["read"].split("_")[1])
        assert len(stored) == 2 and not any(secret in other + third for secret in stored.values())
        until(lambda: status(third) == 401)
        assert service.http.post("/logout", headers={"Cookie": "nonsense"}).status_code == 303
    with Running(database) as service:
        assert status(other) == 200  # a restart ends nothing


def test_sessions_expire_and_are_not_too_many(database: str) -> None:
    text = make_keys(database)["read"]
    store, now = Store(database), [1000.0]
    desk = Desk(store, clock=lambda: now[0])
    desk.start()
    key = text.split("_")[1]
    made = [desk.submit(SignIn(key)).result() for _ in range(MOST + 5)]
    with store.read() as connection:
        kept = list_sessions(connection, now[0])
        assert len(kept) == MOST
        assert find_session(made[-1][0], kept) == made[-1][1]
        assert find_session(made[-1][0] + "x", kept) is None
        assert list_sessions(connection, now[0] + SECONDS) == {}
    now[0] += SECONDS
    desk.submit(SignIn(key)).result()
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(sessions)).scalar_one() == 1
    desk.stop()
    store.close()


def test_buckets_refill(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("headwater.service.gate.time.monotonic", lambda: now[0])
    buckets = Buckets(10)
    assert [buckets.take("a") for _ in range(20)] == [0.0] * 20
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0.0  # others are not held up
    now[0] = 0.1
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0
    assert Buckets(0).take("a") == 0.0


def test_it_does_not_listen_beyond_this_machine_without_keys(address: str) -> None:
    with pytest.raises(ProblemError, match=r"--host: got 0\.0\.0\.0, but the database has no keys; make one first"):
        serve(Store(address), host="0.0.0.0", port=0, limits=Limits())
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(ProblemError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"):
            serve(Store(address), host="127.0.0.1", port=taken.getsockname()[1], limits=Limits())
    with pytest.raises(ProblemError, match="cannot listen on no such host"):
        bind("no such host", 1)


def test_databases_that_are_none() -> None:
    for text, message in (
        ("mysql://x/y", "got mysql; expected a file"),
        ("sqlite://", "got a database in memory; expected a file"),
        ("://nowhere", "this is no address"),
    ):
        with pytest.raises(HeadwaterError, match=message), open_store(text):
            pass
