"""The database itself, on SQLite and on PostgreSQL: its schema, opening it, backups, checks, and the commands about them."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import insert, inspect, text

from command_line import Run
from headwater.service import batch as batch_module
from headwater.service.checks import check_database
from headwater.service.desk import Desk
from headwater.service.keys import create_key, revoke_key
from headwater.service.operations import Create, Decide, Settle
from headwater.service.store import DatabaseError, Store, _alembic
from headwater.service.tables import campaigns, metadata
from headwater.service.wire import CampaignBody
from service_tools import ADS, PATIENT, Running, pays


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    made = Store(database)
    yield made
    made.close()


@pytest.fixture
def filled(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a campaign of some decisions, most of them paid, and a snapshot that knows some of both."""
    monkeypatch.setattr(batch_module, "SNAPSHOT_EVERY", 20)
    with desk_on(database) as desk:
        fill(desk, 20)
        fill(desk, 5)
    return database


class desk_on:  # noqa: N801 - reads like a function
    def __init__(self, address: str) -> None:
        self.desk = Desk(Store(address))
        self.desk.store.open()

    def __enter__(self) -> Desk:
        self.desk.start()
        return self.desk

    def __exit__(self, *_: object) -> None:
        self.desk.stop()
        self.desk.store.close()


def fill(desk: Desk, count: int) -> None:
    if "ads" not in desk.campaigns:
        body = CampaignBody(id="ads", name="ads", problem=ADS, policy="c-ucb", reward_deadline=1e6)
        desk.submit(Create(body)).result(timeout=PATIENT)
    made = desk.submit(Decide("ads", [None] * count)).result(timeout=PATIENT)
    paid = [(one["id"], pays(one["arm"], 1)) for one in made[1:]]
    assert desk.submit(Settle(paid, many=True)).result(timeout=PATIENT)["counted"] == count - 1


def found(address: str) -> dict[str, list[str]]:
    store = Store(address)
    try:
        with store.read() as connection:
            return dict(check_database(connection))
    finally:
        store.close()


def change(address: str, *statements: str) -> None:
    store = Store(address)
    try:
        with store.write() as connection:
            for statement in statements:
                connection.execute(text(statement))
    finally:
        store.close()


# The schema.


def test_migrations_make_exactly_the_tables(store: Store) -> None:
    store.open()
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}
    assert store.upgrade() == ("0002", "0002")  # once more changes nothing


def test_opening_what_is_empty_old_or_newer(store: Store) -> None:
    assert store.revision() is None
    store.open()
    assert store.revision() == "0002"
    store.open()
    with store.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    newer = "its schema is 9999, which a later release wrote; upgrade headwater itself"
    for act in (store.open, store.upgrade):
        with pytest.raises(DatabaseError, match=newer):
            act()


def test_opening_an_old_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.open()
    monkeypatch.setattr("headwater.service.store._head", lambda config: "0003")
    with pytest.raises(DatabaseError, match="its schema is 0002, this release needs 0003: headwater db upgrade"):
        store.open()


def test_many_open_an_empty_database_at_once(database: str) -> None:
    failed = []

    def opened() -> None:
        store = Store(database)
        try:
            store.open()
        except Exception as error:  # noqa: BLE001 - each is a finding
            failed.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=opened) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENT)
    assert failed == []
    assert found(database) == {}


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://x/y", "--database: got mysql"),
        ("sqlite://", "--database: got a database in memory; expected a file, so that nothing is lost"),
        ("postgresql://a:b:c/d", "--database: this is no address; expected a file, or postgresql://user@host/name"),
    ],
)
def test_addresses_that_are_none(address: str, message: str) -> None:
    with pytest.raises(DatabaseError) as told:
        Store(address)
    assert str(told.value).startswith(message)


def test_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 1000)
    with pytest.raises(DatabaseError, match=r"text\.db: file is not a database"):
        Store(str(tmp_path / "text.db")).open()
    with pytest.raises(DatabaseError, match="unable to open database file"):
        Store(str(tmp_path / "nowhere" / "x.db")).open()
    with pytest.raises(DatabaseError) as told:
        Store("postgresql://nobody:secret@127.0.0.1:1/x").open()
    assert "secret" not in str(told.value)
    assert "connection" in str(told.value)


def test_a_write_that_fails_leaves_nothing(store: Store) -> None:
    store.open()
    with pytest.raises(ZeroDivisionError), store.write() as connection:
        connection.execute(text("INSERT INTO keys (id, name, role, hash, created) VALUES ('a', 'b', 'read', 'c', 1)"))
        raise ZeroDivisionError
    with store.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM keys")).scalar_one() == 0


def test_a_reader_has_one_view(store: Store) -> None:
    store.open()
    count = text("SELECT count(*) FROM keys")
    with store.read() as connection:
        assert connection.execute(count).scalar_one() == 0
        with store.write() as other:
            other.execute(text("INSERT INTO keys (id, name, role, hash, created) VALUES ('a', 'b', 'read', 'c', 1)"))
        assert connection.execute(count).scalar_one() == 0
    with store.read() as connection:
        assert connection.execute(count).scalar_one() == 1


def test_whoever_checks_everything_has_time(fresh_postgres: str) -> None:
    store = Store(fresh_postgres)
    shown = text("SHOW statement_timeout")
    for patient, limit in ((False, "15s"), (True, "0"), (False, "15s")):
        with store.read(patient=patient) as connection:
            assert connection.execute(shown).scalar_one() == limit
    store.close()


# Backups.


def test_a_backup_while_it_is_written_to(database: str, tmp_path: Path) -> None:
    with desk_on(database) as desk:
        fill(desk, 50)
        stop = threading.Event()

        def work() -> None:
            for _ in range(2000):
                if stop.is_set():
                    return
                fill(desk, 3)

        writer = threading.Thread(target=work)
        writer.start()
        try:
            rows = [desk.store.backup(tmp_path / f"{n}.db") for n in range(3)]
        finally:
            stop.set()
            writer.join(timeout=PATIENT)
        assert rows[0]["decisions"] >= 50
        assert [one["rewards"] <= two["rewards"] for one, two in itertools.pairwise(rows)] == [True, True]
    for n, counts in enumerate(rows):  # a consistent moment: its counts are those of its logs
        path = tmp_path / f"{n}.db"
        assert found(str(path)) == {"ads": []}
        assert not list(tmp_path.glob(f"{n}.db?*"))
        with Running(str(path)) as service:  # and it can be served
            view = service.get("/v1/campaigns/ads")
            assert (view["decisions"], view["rewards"]) == (counts["decisions"], counts["rewards"])
            assert service.decide("ads")["id"] == f"ads.{counts['decisions'] + 1}"


def test_a_backup_overwrites_nothing(store: Store, tmp_path: Path) -> None:
    store.open()
    (tmp_path / "there.db").write_text("mine")
    with pytest.raises(DatabaseError, match="is there already; a backup overwrites nothing"):
        store.backup(tmp_path / "there.db")
    assert (tmp_path / "there.db").read_text() == "mine"
    with pytest.raises(DatabaseError, match="unable to open"):
        store.backup(tmp_path / "nowhere" / "x.db")


# Tampering.


def test_a_check_of_what_is_right(filled: str, run: Run) -> None:
    assert found(filled) == {"ads": []}
    assert run("db", "check", "--database", filled) == (0, "ads: right\n1 campaigns, all as their logs say\n", "")
    told = run("db", "check", "--database", filled, "--json")
    assert json.loads(told.out) == {"campaigns": {"ads": []}, "right": True}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE campaigns SET settled = settled - 1", "rewards: 23 rows, the last is 23, but 22 are stored"),
        ("UPDATE campaigns SET decided = 99", "decisions: 25 rows, the last is 25, but 99 are stored"),
        ("UPDATE campaigns SET refused = 1", "refusals: 0 rows, the last is 0, but 1 are stored"),
        ("UPDATE campaigns SET expired = 25", "expired: 2 decisions up to number 25 still wait"),
        ("DELETE FROM rewards WHERE seq = 3", "rewards: 22 rows, the last is 23, but 23 are stored"),
        ("UPDATE rewards SET arm = 2 - arm WHERE arm <> 1", "have no decision, or another arm"),
        ("UPDATE rewards SET value = 1 WHERE value = 2 AND seq < 19", "counts: what is stored differs from what the log says"),
        ("UPDATE rewards SET value = 77 WHERE seq = 23", "rewards: cannot be counted: reward: got 77"),
        ("UPDATE rewards SET learned = NOT learned WHERE seq = 3", "what is stored differs from what the log says"),
        ("UPDATE decisions SET source = 'holdout' WHERE number = 1", "pending: what is stored differs from what the log says"),
        ("SNAPSHOT", "counts: what is stored differs from what the log says"),
    ],
)
def test_a_check_finds_what_was_changed(filled: str, run: Run, statement: str, message: str) -> None:
    if statement == "SNAPSHOT":
        store = Store(filled)
        with store.write() as connection:
            state: dict[str, Any] = json.loads(connection.execute(text("SELECT snapshot FROM campaigns")).scalar_one())
            name = next(name for name, pairs in state["counts"].items() if pairs)
            state["counts"][name][0][1] += 1
            connection.execute(text("UPDATE campaigns SET snapshot = :text"), {"text": json.dumps(state)})
        store.close()
    else:
        change(filled, statement)
    assert any(message in line for line in found(filled)["ads"]), found(filled)
    told = run("db", "check", "--database", filled)
    assert told.status == 2
    assert message in told.out
    assert told.err == "error: 1 of 1 campaigns are not what their logs say: ads\n"
    told = run("db", "check", "--database", filled, "--json")
    assert told.status == 2
    assert json.loads(told.out)["right"] is False


# The commands.


def test_db_upgrade_and_backup(database: str, tmp_path: Path, run: Run) -> None:
    shown = str(Store(database))
    told = run("db", "upgrade", "--database", database)
    assert (told.status, told.out) == (0, f"{shown}: schema 0002, before none\n")
    assert run("db", "upgrade", "--database", database).out == f"{shown}: schema 0002, as before\n"
    copy = tmp_path / "copy.db"
    assert run("db", "backup", copy, "--database", database).out == f"{copy}: 0 campaigns, 0 decisions, 0 rewards\n"
    told = run("db", "backup", copy, "--database", database)
    assert told.status == 2
    assert "there" in told.err or "exists" in told.err
    assert run("db", "check", "--database", copy).out == "0 campaigns, all as their logs say\n"


def test_commands_want_a_database_that_is_there(fresh_postgres: str, tmp_path: Path, run: Run) -> None:
    for words in (("db", "check"), ("key", "list"), ("key", "revoke", "x"), ("db", "backup", tmp_path / "y.db")):
        told = run(*words, "--database", tmp_path / "no.db")
        assert (told.status, told.err) == (2, f"error: --database: there is no file {tmp_path / 'no.db'}\n")
        told = run(*words, "--database", fresh_postgres)
        assert told.status == 2
        assert "has no tables of headwater's" in told.err
    assert not (tmp_path / "no.db").exists()


def test_keys_from_end_to_end(database: str, run: Run) -> None:
    told = run("key", "create", "shop", "--role", "admin", "--database", database)
    key, _, id_ = told.out.strip(), *told.out.split("_")[:2]
    assert key.startswith("hw_")
    assert "not shown again" in told.err
    other = json.loads(run("key", "create", "look", "--role", "read", "--database", database, "--json").out)
    told = run("key", "list", "--database", database)
    assert key not in told.out
    assert [line.split()[0::3] for line in told.out.splitlines()] == [[id_, "shop"], [other["id"], "look"]]
    with Running(database) as service:
        headers = {"Authorization": f"Bearer {key}"}
        body = {"name": "ads", "problem": ADS, "policy": "c-ucb"}
        assert service.http.post("/v1/campaigns", json=body).status_code == 401
        reader = {"Authorization": f"Bearer {other['key']}"}
        assert service.http.post("/v1/campaigns", json=body, headers=reader).status_code == 403
        assert service.http.post("/v1/campaigns", json=body, headers=headers).status_code == 201
        assert run("key", "revoke", id_, "--database", database) == (0, "", f"{id_} is revoked\n")
        for _ in range(400):  # within a second, where the machine is not busy
            if service.http.get("/v1/campaigns", headers=headers).status_code == 401:
                break
            threading.Event().wait(0.05)
        assert service.http.get("/v1/campaigns", headers=headers).status_code == 401
        assert service.http.get("/v1/campaigns", headers=reader).status_code == 200
    told = run("key", "revoke", id_, "--database", database)
    assert (told.status, told.err) == (2, f'error: id: got "{id_}"; expected a key that is in use (headwater key list)\n')
    assert "(revoked)" in run("key", "list", "--database", database).out
    assert [k["revoked"] for k in json.loads(run("key", "list", "--database", database, "--json").out)["keys"]] == [True, False]
    told = run("key", "create", "", "--database", database)
    assert (told.status, told.err) == (2, "error: name: expected 1 to 200 printable characters, to tell keys apart by\n")


def test_no_keys_yet(database: str, run: Run) -> None:
    run("db", "upgrade", "--database", database)
    told = run("key", "list", "--database", database)
    assert (told.out, told.err) == ("", "No keys yet: headwater key create NAME --role admin\n")


def test_a_database_of_release_01_is_upgraded_with_what_is_in_it(database: str) -> None:
    store = Store(database)
    with store.write() as connection:
        config = _alembic()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        row = {"created": 1.0, "status": "running", "version": 1, "problem": "{}", "config": "{}", "settled": 0, "refused": 0}
        row |= {"snapshot_decided": 0, "snapshot_settled": 0}
        places = f"({', '.join(['id', 'slug', 'decided', 'expired', *row])}) VALUES (:id, :slug, :decided, :expired, "
        connection.execute(
            text(f"INSERT INTO campaigns {places}{', '.join(f':{name}' for name in row)})"),
            [
                {**row, "id": 1, "slug": "hasty", "decided": 2, "expired": 1},
                {**row, "id": 2, "slug": "all-expired", "decided": 1, "expired": 1},
                {**row, "id": 3, "slug": "patient", "decided": 1, "expired": 0},
            ],
        )
        made = "INSERT INTO decisions (campaign, number, at, arm, choice, source, version, known, due) VALUES "
        for campaign, number, due in ((1, 1, "5"), (1, 2, "6"), (2, 1, "5"), (3, 1, "NULL")):
            connection.execute(text(f"{made}({campaign}, {number}, 1, 0, 0, 'policy', 1, 0, {due})"))
    assert store.upgrade() == ("0001", "0002")
    with store.read() as connection:
        rows = connection.execute(text("SELECT slug, changed, next_due FROM campaigns ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [("hasty", 0, 0.0), ("all-expired", 0, None), ("patient", 0, None)]
    store.close()


# Files.


@pytest.fixture
def damaged(filled: str) -> str:
    """A database of which a page in the middle was overwritten."""
    if filled.startswith("postgresql"):
        pytest.skip("PostgreSQL checks its pages itself")
    page = 4096
    data = bytearray(Path(filled).read_bytes())
    for n in range(2, len(data) // page):
        data[n * page : (n + 1) * page] = bytes(range(256)) * (page // 256)
    Path(filled).write_bytes(data)
    return filled


def test_a_damaged_file_is_not_served(damaged: str, run: Run) -> None:
    told = run("serve", "--database", damaged, "--port", "0")
    assert told.status == 2
    assert f"{Store(damaged)}: it is damaged: " in told.err
    assert told.err.endswith("Keep a copy, run headwater db check, and restore a backup\n")
    told = run("db", "check", "--database", damaged)
    assert (told.status, told.out) == (2, "")
    assert "it is damaged: " in told.err
    told = run("db", "check", "--database", damaged, "--json")
    assert told.status == 2
    assert json.loads(told.out)["right"] is False and json.loads(told.out)["damage"]
    assert run("db", "backup", damaged + ".copy", "--database", damaged).status == 2
    assert [path.name for path in Path(damaged).parent.glob("*.copy*")] == []


def test_a_database_that_lacks_its_last_rows_is_not_served(filled: str, run: Run) -> None:
    change(filled, "DELETE FROM rewards WHERE seq = 23")
    told = run("serve", "--database", filled, "--port", "0")
    assert told.status == 2
    assert "it is damaged: ads: its logs end elsewhere than its counters say. Keep a copy" in told.err


def test_a_full_check_while_it_is_served(filled: str) -> None:
    with Running(filled) as service:
        assert service.get("/v1/check") == {"status": "never"}

        def checked() -> dict[str, Any]:
            assert service.http.post("/v1/check").status_code == 202
            while (told := service.get("/v1/check"))["status"] == "running":
                time.sleep(0.02)
            return dict(told)

        right = checked()
        assert (right["status"], right["damage"], right["campaigns"]) == ("right", [], {"ads": []})
        assert right["began"] < right["ended"]
        service.decide("ads")
        change(filled, "UPDATE rewards SET value = 1 WHERE value = 2 AND seq < 19")
        wrong = checked()
        assert (wrong["status"], wrong["damage"]) == ("wrong", [])
        assert wrong["campaigns"]["ads"] == ["counts: what is stored differs from what the log says"]
        service.get("/readyz")


def test_what_is_found_later_stops_it(filled: str) -> None:
    with Running(filled) as service:
        service.decide("ads")
        service.desk.doubt(["page 7 is never used", "page 8 is never used"])
        wanted = f"{service.store}: it is damaged: page 7 is never used (and 1 more). Keep a copy, run headwater db check"
        assert wanted in service.decide("ads", status=503)["error"]["message"]
        assert wanted in service.get("/readyz", 503)["error"]["message"]
        assert service.get("/v1/campaigns/ads")["decisions"] == 26  # what can be read is read


def test_files_are_their_owners_only(tmp_path: Path, run: Run) -> None:
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"
    with Running(str(live)) as service:
        service.decide(service.campaign())
        assert run("db", "backup", copy, "--database", live).status == 0
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    key = tmp_path / "key"
    told = run("key", "create", "shop", "--output", key, "--database", live)
    assert (told.status, told.out) == (0, "")
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().startswith("hw_")
    told = run("key", "create", "shop", "--output", key, "--database", live)
    assert (told.status, told.err) == (2, f"error: --output: {key} is there already; a key overwrites nothing\n")


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_backup_that_is_stopped_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    live = tmp_path / "live.db"
    store = Store(str(live))
    store.open()
    with store.write() as connection:
        row = {"created": 1.0, "status": "running", "version": 1, "config": "{}", "decided": 0, "settled": 0, "expired": 0}
        row |= {"refused": 0, "snapshot_decided": 0, "snapshot_settled": 0}
        connection.execute(insert(campaigns), [{**row, "slug": f"c{n}", "problem": "x" * 20_000} for n in range(8000)])
    store.close()
    words = [sys.executable, "-m", "headwater", "db", "backup", str(tmp_path / "copy.db"), "--database", str(live)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "copy.db.part-wal").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(sign)
    told = process.communicate()[1]
    assert process.returncode in (130, 143), told
    assert [path.name for path in tmp_path.iterdir()] == ["live.db"]
    assert "Traceback" not in told


def test_who_stops_the_service_is_told_that_all_is_kept(tmp_path: Path) -> None:
    """It said "nothing was kept", as commands do that write at their end."""
    live = tmp_path / "live.db"
    words = [sys.executable, "-m", "headwater", "serve", "--database", str(live), "--port", "0"]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what a shell starts in the background ignores it
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(2)]
    process.send_signal(signal.SIGINT)
    rest = process.communicate()[1]
    assert process.returncode == 130 and told[0].startswith("headwater listens on ")
    assert rest.splitlines()[-1] == f"Stopped; what was answered is kept in sqlite:///{live}." and "Traceback" not in rest


def test_with_all_keys_revoked_nobody_is_let_in(tmp_path: Path) -> None:
    live = tmp_path / "live.db"
    store = Store(str(live))
    store.open()
    with store.write() as connection:
        _, key = create_key(connection, "gone", "admin")
    with store.write() as connection:
        revoke_key(connection, key.id)
    store.close()
    words = [sys.executable, "-m", "headwater", "serve", "--database", str(live), "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(2)]
    process.terminate()
    process.communicate()
    assert told[1] == "All its keys are revoked: nobody is let in until there is another (headwater key create makes one).\n"
