"""The client against a real service, and its retries against one that fails on purpose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from headwater.client import Client, RefusedError, UnavailableError
from service_tools import ADS, Running, pays


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(str(tmp_path_factory.mktemp("client") / "service.db")) as running:
        yield running


def test_from_a_problem_to_a_report(service: Running) -> None:
    with Client(service.url) as client:
        made = client.create_campaign("by client", ADS, policy="c-ucb", seed=3)
        name = made["id"]
        first = client.decide(name, unit="ann")
        assert client.decide(name, unit="ann").id == first.id
        assert client.reward(first, pays(first.arm, 1))
        assert not client.reward(first.id, pays(first.arm, 1))  # counted before
        many = client.decide_many(name, 5)
        assert len({one.id for one in many}) == 5
        assert [one.unit for one in client.decide_many(name, units=["x", "y"])] == ["x", "y"]
        told = client.rewards([*((one, pays(one.arm, 2)) for one in many), ("nothing", 1.0)])
        assert (told.counted, told.repeated, len(told.refused)) == (5, 0, 1)
        assert client.pause(name)["status"] == "paused"
        with pytest.raises(RefusedError, match="the campaign is paused") as caught:
            client.decide(name)
        assert (caught.value.status, caught.value.code) == (409, "paused")
        assert client.resume(name)["status"] == "running"
        assert client.switch_arm(name, "video", enabled=False)["arms"]["video"] is False
        assert client.explanation(name)["rounds"] == 6
        assert client.latent(name, 0.9)["confidence"] == 0.9
        assert client.latent(name, holds="all")["holds"] == "all"
        assert client.report(name)["decisions"] == 8
        assert client.campaign(name)["rewards"] == 6
        assert name in [one["id"] for one in client.campaigns()]
        assert client.archive(name)["status"] == "archived"
        with pytest.raises(RefusedError, match="there is no campaign"):
            client.campaign("gone")


class Flaky(httpx2.BaseTransport):
    """Lets requests through to a service and loses their answers, or refuses, as told: one word a request."""

    def __init__(self, *plan: str) -> None:
        self.plan, self.inner, self.keys = list(plan), httpx2.HTTPTransport(), []  # type: ignore[var-annotated]

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.keys.append(request.headers.get("Idempotency-Key"))
        word = self.plan.pop(0) if self.plan else "through"
        if word == "connect":
            raise httpx2.ConnectError("nobody there")
        if word.isdigit():
            body = {"error": {"code": "x", "message": "later"}} if word != "502" else "a proxy's page"
            return httpx2.Response(int(word), content=json.dumps(body), headers={"Retry-After": "3"})
        answer = self.inner.handle_request(request)
        answer.read()
        if word == "lost":
            raise httpx2.ReadError("cut off")
        return answer

    def close(self) -> None:
        self.inner.close()


@contextmanager
def client_with(service: Running, *plan: str, retries: int = 5) -> Iterator[tuple[Client, Flaky, list[float]]]:
    waits: list[float] = []
    transport = Flaky(*plan)
    with Client(service.url, transport=transport, sleep=waits.append, retries=retries) as client:
        yield client, transport, waits


def test_an_answer_that_was_lost_is_asked_for_again_and_counts_once(service: Running) -> None:
    name = service.campaign()
    plan = ("lost", "503", "502", "connect", "through", "lost", "through")
    with client_with(service, *plan) as (client, transport, waits):
        decision = client.decide(name)
        assert decision.repeated  # the first answer was lost; the decision was not
        assert service.get(f"/v1/campaigns/{name}")["decisions"] == 1
        assert len(set(transport.keys[:5])) == 1
        assert waits[1] == 3.0  # what the service asked for
        assert not client.reward(decision, pays(decision.arm, 0))  # likewise
        assert service.get(f"/v1/campaigns/{name}")["rewards"] == 1


def test_it_gives_up_at_last(service: Running) -> None:
    with client_with(service, *["connect"] * 9, retries=2) as (client, _, waits):
        with pytest.raises(UnavailableError, match="does not answer: nobody there"):
            client.decide("ads")
        assert len(waits) == 2
    for status, retries, message in (("503", 1, "later"), ("502", 0, "HTTP status 502")):
        refused = pytest.raises(UnavailableError, match=f"refuses for now: {message}")
        with client_with(service, *[status] * 9, retries=retries) as (client, _, _), refused:
            client.decide("ads")


def test_a_campaign_is_not_made_twice(service: Running) -> None:
    with client_with(service, "connect", "lost") as (client, _, _):
        with pytest.raises(UnavailableError, match="cut off"):  # it may have been made: whoever asked must look
            client.create_campaign("perhaps", ADS, policy="ucb1")
        assert [one["id"] for one in client.campaigns() if one["name"] == "perhaps"] == ["perhaps"]


def test_errors_tell_everything(service: Running) -> None:
    with Client(service.url) as client, pytest.raises(RefusedError) as caught:
        client.create_campaign("x", {**ADS, "arms": {"a": ["n/a", 1, 1], "b": [1]}})
    assert len(caught.value.details) == 2
    assert caught.value.code == "invalid"


def test_without_httpx2_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    with pytest.raises(Exception, match=r'the client needs httpx2: pip install "headwater\[client\]"'):
        Client("http://127.0.0.1:1")
