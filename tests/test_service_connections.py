"""What one connection may send, how slowly, and how many there may be; no key is shown in any of these."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater.service.app import Limits
from headwater.service.connections import Bounds
from service_tools import ADS, PATIENT, Running, until


def serving(folder: Path, **bounds: Any) -> Running:
    return Running(str(folder / "service.db"), Limits(rate=0, connections=Bounds(**bounds)))


def dial(service: Running, *parts: bytes) -> socket.socket:
    """A connection over which these bytes were sent."""
    made = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENT)
    try:
        for part in parts:
            made.sendall(part)
    except OSError:
        made.close()
        raise
    return made


def answered(connection: socket.socket) -> tuple[int, Any]:
    """The status and the body of the answer, when the other side has closed."""
    got = b""
    try:
        while part := connection.recv(65536):
            got += part
    except ConnectionResetError:
        pass
    connection.close()
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, json.loads(body) if body else None


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One that waits: what is long or in many pieces takes its time on a busy machine."""
    with serving(tmp_path_factory.mktemp("connections"), head_seconds=PATIENT, body_seconds=PATIENT) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("hasty"), head_seconds=1.0, body_seconds=1.0) as running:
        yield running


def request_line(size: int) -> bytes:
    return b"GET /healthz?" + b"q" * size + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def with_headers(*headers: bytes) -> bytes:
    lines = [b"GET /healthz HTTP/1.1", b"Host: localhost", b"Connection: close", *headers, b"", b""]
    return b"\r\n".join(lines)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (request_line(9_000), "the request line: got more than 8,192 bytes"),
        (with_headers(b"X: " + b"x" * 9_000), "a header: got 9,001 bytes; at most 8,192 are read"),
        (with_headers(*(b"X%d: " % i + b"x" * 4_000 for i in range(9))), "headers: got more than 32,768 bytes in all"),
        (with_headers(*(b"X%d: x" % i for i in range(120))), "headers: got more than 100"),
    ],
)
def test_heads_have_a_size(service: Running, sent: bytes, said: str) -> None:
    status, body = answered(dial(service, sent))
    assert (status, body["error"]["code"], body["error"]["message"]) == (431, "head_too_large", said)


@pytest.mark.parametrize(
    "sent", [request_line(8_000), with_headers(b"X: " + b"x" * 8_000, *(b"X%d: x" % i for i in range(90)))]
)
def test_large_heads_that_fit_are_read(service: Running, sent: bytes) -> None:
    assert answered(dial(service, sent))[0] == 200


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        b"GET /healthz HTTP/1.1\r\nX: ",
        b"POST /v1/rewards HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"POST /v1/rewards HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: ",
    ],
)
def test_a_head_without_end_is_cut_off_before_it_is_kept(service: Running, start: bytes) -> None:
    connection = dial(service, start)
    sent = 0
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while sent < 50_000_000:
            sent += connection.send(b"x" * 65536)
    connection.close()
    assert sent < 10_000_000  # of which most lies in the buffers of the system
    assert service.get("/healthz")["status"] == "ok"


def test_a_body_in_chunks_of_one_byte_is_read(service: Running) -> None:
    body = json.dumps({"name": "by the byte", "problem": ADS, "policy": "ucb1"}).encode()
    body += b" " * 40_000  # so that its framing is far larger than a head may be
    head = b"POST /v1/campaigns HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, made = answered(dial(service, head, b"".join(b"1\r\n%c\r\n" % byte for byte in body), b"0\r\n\r\n"))
    assert (status, made["id"]) == (201, "by-the-byte")


def test_nonsense_is_told_so_in_the_one_shape(service: Running) -> None:
    status, body = answered(dial(service, b"\x16\x03\x01 hello\r\n\r\n"))
    assert (status, body["error"]["message"]) == (400, "this is not a request in HTTP/1.1")


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_head_has_a_time(hasty: Running, sent: bytes) -> None:
    status, body = answered(dial(hasty, sent))
    assert (status, body["error"]["message"]) == (408, "no whole request head came in 1 s")


def test_a_body_has_a_time(hasty: Running) -> None:
    head = b"POST /v1/campaigns HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    status, body = answered(dial(hasty, head))
    assert (status, body["error"]["message"]) == (408, "the body did not come in 1 s")


def test_a_request_that_comes_slowly_but_in_time_is_answered(tmp_path: Path) -> None:
    with serving(tmp_path, head_seconds=PATIENT) as service:
        connection = dial(service)
        for byte in with_headers():
            connection.sendall(bytes([byte]))
        assert answered(connection)[0] == 200


def test_where_there_are_too_many_the_oldest_idle_makes_room(tmp_path: Path) -> None:
    with serving(tmp_path, connections=20, head_seconds=PATIENT) as service, ExitStack() as stack:
        crowd = [stack.enter_context(dial(service, b"GET /")) for _ in range(60)]
        assert service.get("/healthz")["status"] == "ok"
        assert crowd[0].recv(1) == b""  # the first to come is the first to go
        until(lambda: "made room" in service.http.get("/metrics").text)
        crowd[-1].sendall(b"healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answered(crowd[-1])[0] == 200


def test_those_whose_requests_are_answered_are_not_sent_away(tmp_path: Path) -> None:
    with serving(tmp_path, connections=3) as service, ExitStack() as stack:
        campaign = service.campaign()
        service.http.close()
        until(lambda: len(service.server.server_state.connections) == 0)
        asking = b"POST /v1/campaigns/%s/decisions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % campaign.encode()
        with service.desk.campaign(campaign):  # until the block ends nothing is decided
            asked = [stack.enter_context(dial(service, asking)) for _ in range(3)]
            until(lambda: len(service.server.server_state.tasks) == 3)
            status, body = answered(dial(service))
        assert (status, body["error"]["message"]) == (503, "too many connections; try again")
        assert [answered(one)[0] for one in asked] == [200, 200, 200]


def test_an_answer_that_nobody_reads_has_a_time(tmp_path: Path) -> None:
    with serving(tmp_path, answer_seconds=0.5) as service:
        campaign = service.campaign()
        for _ in range(20):
            service.decide(campaign, {"count": 1000})
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", service.port))
        asking = b"GET /v1/campaigns/%s/decisions?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n" % campaign.encode()
        connection.sendall(20 * asking)
        until(lambda: "did not read the answer" in service.http.get("/metrics").text)
        connection.close()


@pytest.mark.parametrize("path", [b"/login", b"/v1/campaigns", b"/v1/simulate", b"/v1/rewards"])
def test_who_leaves_half_way_leaves_no_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture, path: bytes) -> None:
    caplog.set_level(logging.INFO, "headwater.service")
    with serving(tmp_path) as service:
        head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{" % path
        dial(service, head).close()
        until(lambda: any("whoever asked has gone" in record.getMessage() for record in caplog.records))
        until(lambda: not service.server.server_state.connections)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


def test_many_that_are_closed_make_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path) as service:
        for _ in range(50):
            assert answered(dial(service, b"nonsense\r\n\r\n"))[0] == 400
        until(lambda: any("closed connections" in record.getMessage() for record in caplog.records))
        counted = service.http.get("/metrics").text
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    assert 'headwater_connections_closed_total{why="sent no HTTP"} 50.0' in counted
