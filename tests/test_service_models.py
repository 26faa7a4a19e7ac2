"""What takes long is done beside the decisions: models, explanations, exports, and campaigns that nobody asks for."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, insert, select

from headwater.service import reading
from headwater.service.models import SMALL_ARMS, ModelLimits, Models
from headwater.service.store import Store
from headwater.service.tables import campaigns, decisions
from headwater.service.worker import Allowance, Worker
from service_tools import ADS, Running, until


def wide(arms: int) -> dict[str, Any]:
    return {"latent": {"kind": "discrete", "values": ["a", "b"]}, "arms": {f"arm{k:04}": [k % 2, 1] for k in range(arms)}}


def towers(count: int) -> dict[str, Any]:
    """Arms whose rewards cannot be enclosed cheaply."""
    arms = {"x": "x", "one": "1"} | {f"tower{k}": "x**x**x**x**x" for k in range(count)}
    return {"latent": {"kind": "continuous", "support": [0.5, 1.5]}, "arms": arms}


@pytest.fixture
def tight(database: str) -> Iterator[Running]:
    """A service that gives a model little."""
    with Running(database, models=Models(ModelLimits(seconds=1.0, megabytes=20))) as running:
        yield running


def message(service: Running, body: dict[str, Any], status: int = 422) -> str:
    told: str = service.post("/v1/campaigns", body, status)["error"]["message"]
    return told


def test_a_model_that_takes_long_is_refused_and_others_decide_meanwhile(tight: Running) -> None:
    """And what was refused does not appear afterwards."""
    others = tight.campaign()
    tight.decide(others)
    with ThreadPoolExecutor(1) as pool:
        refused: Future[str] = pool.submit(message, tight, {"id": "towers", "name": "towers", "problem": towers(400)})
        made = 0
        while not refused.done():
            tight.decide(others)
            made += 1
    assert refused.result().startswith(
        "problem: making its model takes more than the 1 s of processor time that a campaign of this service gives"
    )
    assert made > 10, "decisions waited for the model"
    assert tight.get("/v1/campaigns/towers", 404)["error"]["code"] == "not_found"
    assert [one["id"] for one in tight.get("/v1/campaigns")["campaigns"]] == [others]


def test_a_model_that_takes_much_memory_is_refused(database: str) -> None:
    with Running(database, models=Models(ModelLimits(megabytes=1))) as service:
        kept = message(service, {"name": "wide", "problem": wide(300)})
        made = message(service, {"name": "wide", "problem": wide(3000)})
    assert kept.startswith("problem: its model takes ") and "MB of memory; a campaign of this service gets 1." in kept
    assert made.startswith("problem: making its model takes more than the 516 MB of memory that a campaign of this service")


def test_a_decision_that_takes_long_is_refused(database: str) -> None:
    limits = ModelLimits(step=1e-7)
    with Running(database, models=Models(limits)) as service:
        said = message(service, {"name": "curves", "problem": towers(0)})
    assert said.startswith("problem: a decision or a reward takes ") and "s of processor time; a campaign of this" in said


def test_a_stored_campaign_that_is_too_large_stops_nobody(database: str) -> None:
    """It was made under other limits: the service starts, others decide, and whoever asks for it is told."""
    with Running(database) as service:
        large, others = service.campaign(id="large", problem=wide(SMALL_ARMS + 50)), service.campaign(id="others")
        assert service.decide(large)["arm"].startswith("arm")
    with Running(database, models=Models(ModelLimits(megabytes=0))) as service:
        assert service.get("/readyz")["status"] == "ready"
        assert service.decide(others)["id"] == "others.1"
        said = service.decide(large, status=422)["error"]["message"]
        assert said.startswith("large: the campaign cannot be used: problem: its model takes ")
        service.decide(others)
    with Running(database) as service:
        assert service.decide(large)["id"] == "large.2"


def test_what_many_ask_at_once_of_a_large_campaign_is_found_once(tight: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty explanations took the memory of sixty."""
    monkeypatch.setattr(reading, "SMALL_ARMS", 2)
    slug, asked = tight.campaign(), list[str]()
    ask = Worker.call

    def counted(self: Worker, task: str, *rest: Any, **more: Any) -> Any:
        asked.append(task)
        return ask(self, task, *rest, **more)

    monkeypatch.setattr(Worker, "call", counted)
    with ThreadPoolExecutor(20) as pool:
        told = list(pool.map(lambda _: tight.get(f"/v1/campaigns/{slug}/explanation")["text"], range(20)))
    assert len(set(told)) == 1
    assert asked.count("tell") < 20 / 2


@pytest.mark.parametrize(("tasks", "limit"), [("spends", "1 s of processor time"), ("hoards", "50 MB of memory")])
def test_looking_that_takes_much_is_refused_and_others_decide(
    tasks: str, limit: str, tight: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spends.py").write_text("def tell(**_):\n    while True:\n        pass\n\n\nTASKS = {'tell': tell}\n")
    (tmp_path / "hoards.py").write_text("def tell(**_):\n    return len(bytes(10**8))\n\n\nTASKS = {'tell': tell}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(reading, "SMALL_ARMS", 2)
    monkeypatch.setattr(reading, "APART", Allowance(1.0, 50))
    tight.app.state.reading._apart = Worker(tasks, what="looking at this campaign", who="the service")
    slug = tight.campaign()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(tight.get, f"/v1/campaigns/{slug}/explanation", 422)
        until(lambda: bool(tight.decide(slug)) and asked.done())
    said = asked.result()["error"]
    assert said["code"] == "too_large"
    assert said["message"].startswith(f"looking at this campaign takes more than the {limit} that the service gives; simplify")


# Exports.


def fill(store: Store, slug: str, rows: int) -> None:
    """Decisions as a busy day would leave them."""
    with store.write() as connection:
        (one,) = (dict(row) for row in connection.execute(select(decisions)).mappings())
        connection.execute(insert(decisions), [{**one, "number": n} for n in range(2, rows + 1)])
        connection.execute(campaigns.update().where(campaigns.c.slug == slug).values(decided=rows))


def test_slow_downloads_keep_nobody_waiting(database: str) -> None:
    """Twenty-five clients who do not read, more than there are connections to the database: 20,000 rows each."""
    with Running(database) as service:
        slug, others = service.campaign(id="log"), service.campaign(id="others")
        service.decide(slug)
    store = Store(database)
    fill(store, slug, 20_000)
    store.close()
    with Running(database) as service, ExitStack() as held:
        request = f"GET /v1/campaigns/{slug}/export?format=csv HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for _ in range(25):
            slow = held.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", service.port))
            slow.sendall(request)
            assert slow.recv(12) == b"HTTP/1.1 200"
        until(lambda: service.app.state.exports.under_way == 25)
        one_more = service.get(f"/v1/campaigns/{slug}/export", 429)
        assert one_more["error"]["message"] == "25 exports of yours are under way; read those first"
        for n in range(5):
            assert service.decide(others)["id"] == f"others.{n + 1}"
            assert len(service.get("/v1/campaigns")["campaigns"]) == 2
            service.get("/readyz")
            service.get(f"/v1/campaigns/{slug}/decisions?after=19990")
        engines = (service.store.engine, service.store._writer, service.store._aside)
        until(lambda: sum(engine.pool.checkedout() for engine in engines) == 0)  # type: ignore[attr-defined]
        held.close()
        until(lambda: service.app.state.exports.under_way == 0)


def test_cells_that_a_spreadsheet_would_run_are_quoted(database: str) -> None:
    problem = {**ADS, "arms": {f"{sign}arm": row for sign, row in zip("=+-", ADS["arms"].values(), strict=True)}}
    with Running(database) as service:
        slug = service.campaign(problem=problem)
        for unit in ("\tunit", "\runit", "=unit", "plain"):
            service.decide(slug, {"unit": unit})
        rows = service.http.get(f"/v1/campaigns/{slug}/export").text
    for quoted in ("'\tunit", "'\runit", "'=unit", ",plain", "'=arm"):
        assert quoted in rows


# Idle campaigns.


def test_waiting_costs_nothing_that_grows_with_campaigns(database: str) -> None:
    """The queries of a look around, and of a second of waiting, with one campaign and with five hundred."""
    with Running(database) as service:
        service.decide(service.campaign(reward_deadline=86400.0))
        told = list[str]()

        def said(_: Any, __: Any, statement: str, *___: Any) -> None:
            told.append(statement)

        event.listen(service.store._watch, "before_cursor_execute", said)

        def looks(count: int) -> list[str]:
            start = len(told)
            until(lambda: sum("FROM keys" in one for one in told[start:]) > count)
            return told[start:]

        looks(3)  # what was changed is looked at once more
        few = looks(4)
        with service.store.write() as connection:
            kept = dict(connection.execute(select(campaigns)).mappings().one())
            del kept["id"], kept["slug"]
            connection.execute(insert(campaigns), [{**kept, "slug": f"idle-{i}"} for i in range(500)])
            assert connection.execute(select(func.count()).select_from(campaigns)).scalar_one() == 501
        for i in range(20):
            service.decide(f"idle-{i}")
        looks(3)
        many = looks(4)
        assert len(many) <= len(few) + 3, "a look around asks more than it did"


# Numbers.


@pytest.mark.parametrize("count", [True, "5", 2.5, None, [1]])
def test_what_is_no_whole_number_is_no_count(database: str, count: Any) -> None:
    with Running(database) as service:
        slug = service.campaign()
        if count is None:
            service.decide(slug, {"count": None})
            return
        error = service.decide(slug, {"count": count}, 422)["error"]
        assert error["message"].startswith("count: "), json.dumps(error)
        for value in (True, "5"):
            service.reward(service.decide(slug)["id"], value, 422)
