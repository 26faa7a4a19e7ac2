"""Callers of the service, each in a process of its own: visitors, whose decisions are timed, and those who disturb them.

``callers.py`` starts this file, writes a line of JSON with a task, and reads a line with what came of it. Every count of
connections and every wait is bounded.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from service import PROBLEM, Connection, closed_loop, open_loop, request_bytes

CONNECTIONS = 64
PATIENCE = 30.0
"""Seconds after which a visitor gives up."""
MOST_HEAD = 200_000_000
LOST = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError)


class Pool:
    """Keep-alive connections; one that was closed while nobody used it is replaced, as every client does."""

    def __init__(self, port: int) -> None:
        self.port, self.room = port, asyncio.Semaphore(CONNECTIONS)
        self.free: list[Connection] = []
        self.replaced = 0

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        async with self.room:
            while self.free:
                connection = self.free.pop()
                try:
                    return await self._ask(connection, request)
                except (ConnectionError, asyncio.IncompleteReadError):
                    self.replaced += 1
            return await self._ask(await Connection(self.port).__aenter__(), request)

    async def _ask(self, connection: Connection, request: bytes) -> tuple[int, bytes]:
        try:
            answer = await connection.ask(request)
        except BaseException:
            connection.writer.close()
            raise
        self.free.append(connection)
        return answer

    def close(self) -> None:
        for connection in self.free:
            connection.writer.close()


def paid(arm: str, decision: str) -> float:
    row: list[float] = PROBLEM["arms"][arm]  # type: ignore[index]
    return float(row[int(decision.rpartition(".")[2]) * 7919 % len(row)])


async def visitors(
    port: int, key: str, campaigns: list[str], rate: float, seconds: float, probes: dict[str, str]
) -> dict[str, Any]:
    """Decisions at a rate, one by one, each with its reward: milliseconds from when each was due to its answer.

    Meanwhile ``probes`` (names and paths) are asked for ten times a second, on fresh connections: the longest wait, and
    how many were not answered.
    """
    pool, waits, told = Pool(port), list[float](), Counter[str]()
    begin = time.perf_counter() + 0.1

    async def ask(path: str, body: Any) -> tuple[str, Any]:
        """The status, or what went wrong, and the answer."""
        try:
            async with asyncio.timeout(PATIENCE):
                status, answer = await pool.ask(request_bytes("POST", path, body, key))
        except LOST as error:
            return type(error).__name__, None
        return str(status), json.loads(answer)

    async def one(campaign: str, at: float) -> None:
        status, made = await ask(f"/v1/campaigns/{campaign}/decisions", {})
        waits.append(1e3 * (time.perf_counter() - at))
        told[status] += 1
        if status == "200":
            await ask(f"/v1/decisions/{made['id']}/reward", {"value": paid(made["arm"], made["id"])})

    async def all_visitors() -> None:
        tasks = []
        for i, offset in enumerate(np.arange(0, seconds, 1 / rate)):
            await asyncio.sleep(max(begin + offset - time.perf_counter(), 0))
            tasks.append(asyncio.create_task(one(campaigns[i % len(campaigns)], float(begin + offset))))
        await asyncio.gather(*tasks)

    watched = await asyncio.gather(all_visitors(), *(probe(port, path, key, begin + seconds) for path in probes.values()))
    pool.close()
    return {"waits": waits, "told": told, "probes": dict(zip(probes, watched[1:], strict=True)), "replaced": pool.replaced}


async def probe(port: int, path: str, key: str, end: float) -> dict[str, float]:
    longest, failed = 0.0, 0
    while (start := time.perf_counter()) < end:
        try:
            async with asyncio.timeout(PATIENCE), Connection(port) as connection:
                status, _ = await connection.ask(request_bytes("GET", path, key=key))
                failed += status != 200
        except LOST:
            failed += 1
        longest = max(longest, time.perf_counter() - start)
        await asyncio.sleep(0.1)
    return {"longest": longest, "failed": failed}


async def requests(
    port: int, asked: list[tuple[str, str, Any, str]], seconds: float, at_once: int, rounds: int = 1000
) -> list[list[tuple[int, str, float]]]:
    """These requests (method, path, body, key), so many at once; again and again while there is time. Of each round the status,
    the beginning of the message and the seconds of each."""
    end, told = time.perf_counter() + seconds, list[list[tuple[int, str, float]]]()
    data, room = [request_bytes(*one) for one in asked], asyncio.Semaphore(at_once)

    async def one(request: bytes) -> tuple[int, str, float]:
        async with room:
            start = time.perf_counter()
            try:
                async with asyncio.timeout(300), Connection(port) as connection:
                    status, answer = await connection.ask(request)
            except LOST as error:
                return 0, type(error).__name__, time.perf_counter() - start
            message = json.loads(answer).get("error", {}).get("message", "")
            return status, message, time.perf_counter() - start

    while len(told) < rounds and (not told or time.perf_counter() < end):
        told.append(list(await asyncio.gather(*(one(request) for request in data))))
    return told


async def downloads(port: int, path: str, key: str, count: int, seconds: float) -> dict[str, Any]:
    """So many downloads at once that read two kilobytes a second each, and leave when the time is over."""
    loop, got, statuses = asyncio.get_running_loop(), 0, Counter[str]()
    end = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal got
        with socket.socket() as slow, suppress(OSError):
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            await loop.sock_connect(slow, ("127.0.0.1", port))
            await loop.sock_sendall(slow, request_bytes("GET", path, key=key))
            while time.perf_counter() < end:
                with suppress(TimeoutError):
                    part = await asyncio.wait_for(loop.sock_recv(slow, 1024), max(end - time.perf_counter(), 0.01))
                    if part.startswith(b"HTTP/1.1 "):
                        statuses[part[9:12].decode()] += 1
                    if not part:
                        return
                    got += len(part)
                await asyncio.sleep(0.5)

    await asyncio.gather(*(one() for _ in range(count)))
    return {"bytes": got, "told": statuses}


def endless_head(port: int, seconds: float) -> dict[str, Any]:
    """A header without end on one connection, and on another once that is closed: bytes taken of the first, and connections."""
    end, taken = time.perf_counter() + seconds, list[int]()
    while time.perf_counter() < end:
        sent = 0
        with socket.create_connection(("127.0.0.1", port), timeout=5) as one, suppress(OSError):
            sent += one.send(b"GET /v1/campaigns HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
            while sent < MOST_HEAD and time.perf_counter() < end:
                sent += one.send(bytes(65_536).replace(b"\0", b"a"))
        taken.append(sent)
        time.sleep(0.2)
    return {"first": taken[0], "most": max(taken), "connections": len(taken)}


def half_open(port: int, count: int, seconds: float, again: bool) -> dict[str, Any]:
    """So many connections with half a head, or nothing; how many live at the end. ``again``: whoever is closed comes back
    within a second."""

    def opened(i: int) -> socket.socket | None:
        with suppress(OSError):
            one = socket.create_connection(("127.0.0.1", port), timeout=2)
            one.setblocking(False)
            if i % 2:
                one.send(b"POST /v1/campaigns/visitors-0/decisions HTTP/1.1\r\nHost: 127.0")
            return one
        return None

    end = time.perf_counter() + seconds
    held = [opened(i) for i in range(count)]
    refused = held.count(None)
    turn = 0
    while (left := end - time.perf_counter()) > 0:
        time.sleep(min(left, 0.02))
        turn += 1
        for i in range(turn % 50, count if again else 0, 50):
            one = held[i]
            if not alive(one):
                if one is not None:
                    one.close()
                held[i] = opened(i)
    living = sum(alive(one) for one in held)
    for one in held:
        if one is not None:
            one.close()
    return {"alive": living, "refused": refused}


def alive(one: socket.socket | None) -> bool:
    """Whether the other end neither closed it nor said a word."""
    try:
        if one is not None:
            one.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def aborted_logins(port: int, count: int) -> None:
    """Forms of which half comes, and then a reset."""
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as one:
            one.send(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200\r\n\r\nkey=hw_")
            time.sleep(0.05)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def wrong_keys(port: int, seconds: float) -> dict[str, int]:
    """Wrong keys as fast as one connection takes them, twenty at a time; another connection where it is closed."""
    told, end = Counter[str](), time.perf_counter() + seconds
    while time.perf_counter() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as one:
            while time.perf_counter() < end and (answers := _twenty(one)):
                told.update(answers)
        told["connections"] += 1
    return dict(told)


def _twenty(one: socket.socket) -> list[str]:
    """The statuses of twenty requests; fewer where the connection is closed meanwhile."""
    one.sendall(request_bytes("GET", "/v1/campaigns", key="hw_00000000_" + "a" * 43) * 20)
    data, found = b"", list[bytes]()
    while len(found) < 20 and (part := one.recv(262_144)):
        data += part
        found = re.findall(rb"HTTP/1\.1 (\d{3}) ", data)
    return [status.decode() for status in found]


async def half_load(port: int, campaign: str, seconds: float) -> dict[str, Any]:
    """The saturating rate of decisions, and the waits at half of it, three times."""
    request = request_bytes("POST", f"/v1/campaigns/{campaign}/decisions", {})
    best = max([(await closed_loop(port, request, CONNECTIONS, seconds))[0] for _ in range(2)])
    waits = [(await open_loop(port, request, best / 2, seconds, CONNECTIONS)).tolist() for _ in range(3)]
    return {"rate": best / 2, "waits": waits}


TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task
    for task in (
        visitors, requests, downloads, endless_head, half_open, aborted_logins, wrong_keys, half_load,
    )
}  # fmt: skip


def main() -> None:
    if sys.argv[1:] == ["aside"]:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for line in sys.stdin:
        name, arguments = json.loads(line)
        told = TASKS[name](**arguments)
        print(json.dumps(asyncio.run(told) if asyncio.iscoroutine(told) else told), flush=True)


if __name__ == "__main__":
    main()
