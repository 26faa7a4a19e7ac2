"""How many decisions the service makes a second, durably, beside a bare FastAPI endpoint that only echoes, in the same run.

    python benchmarks/service.py                # about two minutes; --million adds memory over a million decisions
    python benchmarks/service.py --write        # puts the figures into docs/service.md

Servers are processes of their own; the load comes from this one, over loopback, on keep-alive connections. Every number of
requests and every wait is bounded. SQLite is on the disk of the working folder, with synchronous=FULL.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "service.md"
ECHO = """
from fastapi import FastAPI
from pydantic import BaseModel
import sys, uvicorn

class Body(BaseModel):
    unit: str | None = None

app = FastAPI()

@app.post("/echo")
async def echo(body: Body) -> Body:
    return body

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
"""
PROBLEM = {
    "latent": {"kind": "discrete", "values": ["a", "b", "c", "d", "e"]},
    "arms": {"one": [0, 1.5, 1.5, 4, 2], "two": [3.5, 1.5, 0, 0, 3.5], "three": [4, 3, 3, 0, 0]},
}
LAW = (0.25, 0.17, 0.25, 0.17, 0.16)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(words: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *words])
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def request_bytes(method: str, path: str, body: Any = None, key: str = "") -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(data)}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode() + data


class Connection:
    """One keep-alive connection that sends a request and reads the answer; as little work as HTTP allows."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await self.reader.readexactly(int(length.group(1)) if length else 0)
        return int(head[9:12]), body


async def closed_loop(port: int, request: bytes, connections: int, seconds: float) -> tuple[float, int]:
    """Requests a second that so many connections get answered, each asking again at once; and how many failed."""
    failed = done = 0
    end = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal failed, done
        async with Connection(port) as connection:
            while time.perf_counter() < end:
                status, _ = await connection.ask(request)
                failed += status >= 300
                done += 1

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return done / (time.perf_counter() - start), failed


async def open_loop(port: int, request: bytes, rate: float, seconds: float, connections: int) -> np.ndarray[Any, Any]:
    """Milliseconds from when each request was due to its answer, at a given rate."""
    waits: list[float] = []
    start = time.perf_counter() + 0.1
    due = iter(np.arange(0, seconds, 1 / rate))

    async def one() -> None:
        async with Connection(port) as connection:
            for offset in due:
                at = start + offset
                await asyncio.sleep(max(at - time.perf_counter(), 0))
                await connection.ask(request)
                waits.append(time.perf_counter() - at)

    await asyncio.gather(*(one() for _ in range(connections)))
    return 1e3 * np.array(waits)


def rss(pid: int) -> float:
    """A process's memory, MB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


async def ask_once(port: int, method: str, path: str, body: Any = None) -> Any:
    async with Connection(port) as connection:
        status, answer = await connection.ask(request_bytes(method, path, body))
        assert status < 300, answer
        return json.loads(answer)


async def play(port: int, campaign: str, rounds: int, size: int = 100) -> None:
    """Rounds in batches: decisions, then all their rewards."""
    rng = np.random.default_rng(1)
    arms = {name: np.array(row) for name, row in PROBLEM["arms"].items()}  # type: ignore[attr-defined]
    async with Connection(port) as connection:
        for _ in range(rounds // size):
            path = f"/v1/campaigns/{campaign}/decisions"
            status, answer = await connection.ask(request_bytes("POST", path, {"count": size}))
            assert status == 200, answer
            made = json.loads(answer)["decisions"]
            x = rng.choice(len(LAW), len(made), p=LAW)
            body = [{"decision": one["id"], "value": float(arms[one["arm"]][j])} for one, j in zip(made, x, strict=True)]
            status, answer = await connection.ask(request_bytes("POST", "/v1/rewards", {"rewards": body}))
            assert status == 200 and json.loads(answer)["counted"] == len(made), answer


def measure(policy: str, folder: Path, *, seconds: float, million: bool) -> list[str]:
    lines = []
    echo, port = free_port(), free_port()
    (folder / "echo.py").write_text(ECHO, encoding="utf-8")
    serve = ["-m", "headwater", "serve", "--database", str(folder / f"{policy}.db"), "--port", str(port), "--rate", "0"]
    with running([str(folder / "echo.py"), str(echo)], echo), running(serve, port) as process:
        asyncio.run(
            ask_once(port, "POST", "/v1/campaigns", {"id": "load", "name": "load", "problem": PROBLEM, "policy": policy})
        )
        asyncio.run(play(port, "load", 2000))
        single = request_bytes("POST", "/v1/campaigns/load/decisions", {})
        many = request_bytes("POST", "/v1/campaigns/load/decisions", {"count": 100})
        plain = request_bytes("POST", "/echo", {"unit": "visitor-17"})
        best: dict[str, float] = {}
        for _ in range(3):  # in turn, because other work on the machine comes and goes
            for name, where, request, connections in (
                ("echo", echo, plain, 64), ("single", port, single, 64), ("batch", port, many, 8),
            ):  # fmt: skip
                rate, failed = asyncio.run(closed_loop(where, request, connections, seconds))
                assert failed == 0, (name, failed)
                best[name] = max(best.get(name, 0.0), rate)
            # what is asked for and never paid would pile up
            pending = asyncio.run(ask_once(port, "GET", "/v1/campaigns/load"))["pending"]
        waits = asyncio.run(open_loop(port, single, best["single"] / 2, seconds, 64))
        lines += [
            f"{policy}: echo {best['echo']:,.0f} requests a second, 64 connections",
            f"{policy}: decisions {best['single']:,.0f} a second, 64 connections: {best['single'] / best['echo']:.2f} × echo",
            f"{policy}: batches of 100: {100 * best['batch']:,.0f} decisions a second, 8 connections",
            f"{policy}: at half load ({best['single'] / 2:,.0f} a second): median {np.median(waits):.1f} ms, "
            f"99th percentile {np.quantile(waits, 0.99):.1f} ms",
            f"{policy}: {pending:,} decisions pending by then",
        ]
        if million:
            sizes = []
            for part in range(10):
                asyncio.run(play(port, "load", 100_000))
                sizes.append(rss(process.pid))
                print(f"{(part + 1) * 100_000:,} decisions with rewards: {sizes[-1]:.0f} MB", flush=True)
            lines.append(
                f"{policy}: memory {sizes[0]:.0f} MB after 100,000 decisions with rewards, {sizes[-1]:.0f} MB after 1,000,000"
            )
    check = [sys.executable, "-m", "headwater", "db", "check", "--database", str(folder / f"{policy}.db")]
    if million:
        lines.append("db check: " + subprocess.run(check, check=True, capture_output=True, text=True).stdout.strip())
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="+", default=["c-ucb", "joint-ucb"])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        for policy in options.policies:
            last = policy == options.policies[-1]
            lines += measure(policy, Path(folder), seconds=options.seconds, million=options.million and last)
            print("\n".join(lines), flush=True)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        block = "\n".join(["<!-- load -->", "```", f"{os.cpu_count()} cores", *lines, "```", "<!-- end of load -->"])
        PAGE.write_text(
            re.sub(r"<!-- load -->.*<!-- end of load -->", lambda _: block, text, flags=re.DOTALL), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
