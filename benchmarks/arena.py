"""A service as a user runs it, visitors of some campaigns, somebody who disturbs them, and what that does to the visitors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import httpx2
import psycopg

from headwater.service.keys import ROLES, create_key
from headwater.service.store import Store
from loads import paid
from service import PROBLEM, free_port

RATE = 200.0
"""Decisions a second of all visitors."""
POLICIES = ("c-ucb", "joint-ucb", "c-ucb", "joint-ucb")
START = 300.0
"""Seconds that a server may take to answer, on however busy a machine."""
PAIRS = 5
LIST = "/v1/campaigns"
MOST = 2.0
"""By how much an attack may lengthen the 99th percentile of the others' decisions."""


def say(text: str) -> None:
    print(text, flush=True)


class Helper:
    """A process that does the tasks of ``loads.py``, one at a time. Those who disturb stand ``aside`` when the service or its
    visitors want a processor: they have a machine of their own where it matters."""

    def __init__(self, *, aside: bool = False) -> None:
        words = [sys.executable, str(Path(__file__).with_name("loads.py")), *(["aside"] if aside else [])]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, task: str, **arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([task, arguments]) + "\n")
        self.process.stdin.flush()

    def result(self) -> Any:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError("a process of callers ended; what it says is above")
        return json.loads(line)

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Server:
    """``headwater serve``; what it says on standard error is kept."""

    def __init__(self, address: str, folder: Path, *, files: int | None = None, words: tuple[str, ...] = ()) -> None:
        self.address, self.port, self.log = address, free_port(), folder / "stderr.txt"
        self.words = ["-m", "headwater", "serve", "--database", address, "--port", str(self.port), *words]
        self.files = files
        self.process: subprocess.Popen[bytes] | None = None
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=600)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.http.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, path: str = "/readyz") -> float:
        """Seconds until it answered there, with whatever status, or ended."""
        begun = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, *self.words], stdout=log, stderr=log)
        if self.files is not None:
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (self.files, self.files))
        while self.running and time.monotonic() - begun < START:
            with contextlib.suppress(httpx2.TransportError):
                self.http.get(path)
                break
            time.sleep(0.05)
        return time.monotonic() - begun

    def end(self, sign: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None and self.running:
            self.process.send_signal(sign)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def busy(self, seconds: float) -> float:
        """Per cent of a core that it takes."""

        def ticks() -> int:
            words = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            return int(words[11]) + int(words[12])

        before = ticks()
        time.sleep(seconds)
        return 100 * (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds

    def resident(self) -> float:
        """MB of the process itself."""
        return _field(Path(f"/proc/{self.pid}/status"), "VmRSS")

    def memory(self) -> float:
        """MB of the process and of those it started, what they share counted once."""
        return sum(_field(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in _family(self.pid))


def _field(path: Path, name: str) -> float:
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}:\s+(\d+) kB", path.read_text(encoding="ascii"), re.MULTILINE)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0  # it has ended


def _family(pid: int) -> list[int]:
    out = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            out += [one for child in children.read_text(encoding="ascii").split() for one in _family(int(child))]
    return out


class Peak:
    """The most memory that a server and its children took while the block lasted."""

    def __init__(self, server: Server) -> None:
        self.server, self.megabytes, self._over = server, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self.megabytes = max(self.megabytes, self.server.memory())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@dataclass
class Compared:
    """99th percentiles of windows without and with an attack, in milliseconds; and what else was seen with it."""

    without: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    probes: dict[str, float] = field(default_factory=dict)
    attacks: list[Any] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.during) / statistics.median(self.without)

    def cells(self) -> list[str]:
        """Both medians with the least and the most of their windows, and the ratio of the medians."""
        spread = [f"{statistics.median(some):.1f} ({min(some):.1f}–{max(some):.1f})" for some in (self.without, self.during)]
        return [*spread, f"{self.ratio:.2f}"]

    def take(self, found: dict[str, Any], *, attacked: bool) -> float:
        waits = sorted(found["waits"])
        p99 = waits[int(0.99 * len(waits))]
        (self.during if attacked else self.without).append(p99)
        if attacked:
            self.failed.update({status: count for status, count in found["told"].items() if status != "200"})
            for name, seen in found["probes"].items():
                self.probes[name] = max(self.probes.get(name, 0.0), seen["longest"])
        return float(p99)

    def refused(self) -> str:
        """The decisions that were not made meanwhile."""
        count = sum(self.failed.values())
        return f"{count:,} decisions failed" + (f" ({dict(self.failed)})" if count else "")


class Row(NamedTuple):
    """An attack: what became of it with release 0.1, what becomes of it now, and the visitors' waits."""

    attack: str
    before: str
    now: str
    compared: Compared | None = None

    def text(self) -> str:
        cells = [f"{self.attack}. 0.1: {self.before}. Now: {self.now}."]
        if self.compared is not None:
            without, during, ratio = self.compared.cells()
            mark = "" if self.compared.ratio <= MOST else f"  MORE THAN {MOST:g}"
            cells.append(f"  99th percentile without {without} ms, with {during} ms: × {ratio}{mark}")
        return "\n".join(cells)

    def markdown(self) -> str:
        waits = self.compared.cells() if self.compared is not None else ["–"] * 3
        return (
            "| " + " | ".join(re.sub(r"([|*])", r"\\\1", cell) for cell in (self.attack, self.before, self.now, *waits)) + " |"
        )


class Arena:
    """One server on a database of its own, keys of every role, campaigns, their visitors and an attacker."""

    def __init__(self, address: str, folder: Path, seconds: float, *, files: int | None = None) -> None:
        self.seconds, self.server = seconds, Server(address, folder, files=files)
        self.address, self.port, self.keys = address, self.server.port, make_keys(address)
        self.victims, self.attacker = Helper(), Helper(aside=True)
        self.campaigns: list[str] = []

    def __enter__(self) -> Arena:
        self.server.start()
        if not self.server.running:
            raise RuntimeError(f"the server ended at once: {self.server.said()[-2000:]}")
        for i, policy in enumerate(POLICIES):  # compiling, if there is anything to compile
            self.campaigns.append(self.create(f"visitors-{i}", PROBLEM, policy=policy))
        self.window(1.0)
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self.server, self.victims, self.attacker):
            one.__exit__()

    def ask(self, method: str, path: str, body: Any = None, role: str = "admin") -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.keys[role]}"}
        return self.server.http.request(method, path, json=body, headers=headers)

    def create(self, slug: str, problem: Any, **settings: Any) -> str:
        answer = self.ask("POST", "/v1/campaigns", {"id": slug, "name": slug, "problem": problem, **settings})
        assert answer.status_code == 201, answer.text
        return slug

    def fill(self, slug: str, rows: int) -> None:
        """Decisions with their rewards, 1,000 at a time."""
        for _ in range(0, rows, 1000):
            made = self.ask("POST", f"/v1/campaigns/{slug}/decisions", {"count": 1000}).json()["decisions"]
            told = [{"decision": one["id"], "value": paid(one["arm"], one["id"])} for one in made]
            self.ask("POST", "/v1/rewards", {"rewards": told}).raise_for_status()

    def window(self, seconds: float | None = None, probes: dict[str, str] | None = None) -> dict[str, Any]:
        """The visitors' waits."""
        arguments = {"campaigns": self.campaigns, "rate": RATE, "seconds": seconds or self.seconds, "probes": probes or {}}
        self.victims.start("visitors", port=self.port, key=self.keys["decide"], **arguments)
        found: dict[str, Any] = self.victims.result()
        return found

    def compare(self, attack: Callable[[], dict[str, Any]], task: str, probes: dict[str, str] | None = None) -> Compared:
        """Windows without and with an attack in turn. ``attack`` makes the arguments of each; it is over before the next."""
        out = Compared()
        for _ in range(PAIRS):
            quiet = out.take(self.window(), attacked=False)
            self.attacker.start(task, port=self.port, **attack())
            time.sleep(0.3)
            loud = out.take(self.window(probes=probes), attacked=True)
            out.attacks.append(self.attacker.result())
            say(f"    {task}: p99 {quiet:.1f} ms without, {loud:.1f} ms with")
            time.sleep(2.0)
        return out

    @property
    def length(self) -> float:
        """Seconds that an attack lasts: a little longer than the window, which begins a little later."""
        return self.seconds + 0.7

    def restart(self) -> float:
        self.server.end()
        return self.server.start()


def make_keys(address: str) -> dict[str, str]:
    store = Store(address)
    try:
        store.open()
        with store.write() as connection:
            return {role: create_key(connection, role, role)[0] for role in ROLES}
    finally:
        store.close()


@dataclass
class Place:
    """Where databases of one kind are made, and how long a window is."""

    kind: str
    folder: Path
    seconds: float
    postgres: str | None = None

    def folder_of(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def database(self, folder: Path) -> str:
        """The address of an empty one."""
        if self.postgres is None:
            return str(folder / "campaigns.db")
        name = "callers_" + folder.name.replace("-", "_")
        with psycopg.connect(self.postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return urlunsplit(urlsplit(self.postgres)._replace(path=f"/{name}"))

    @contextlib.contextmanager
    def arena(self, name: str, *, files: int | None = None) -> Iterator[Arena]:
        folder = self.folder_of(name)
        with Arena(self.database(folder), folder, self.seconds, files=files) as arena:
            yield arena
