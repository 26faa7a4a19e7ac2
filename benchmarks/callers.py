"""What callers can do to the service: attacks that release 0.1 did not stand, measured again.

    python benchmarks/callers.py                                         # some twelve minutes for each database
    python benchmarks/callers.py --attacks 2 7 --databases sqlite --seconds 2
    python benchmarks/callers.py --write                                 # puts the figures into docs/service.md
    python benchmarks/callers.py --write --attacks 1 --databases postgresql   # only these rows

The service is ``headwater serve``, a process of its own, with a key of each role. Visitors ask for 200 decisions a second over
four campaigns (c-ucb and joint-ucb, K = 3, J = 5), one by one and each with its reward, from another process; attackers are a
third one, which gives way wherever they share a core. Windows without and with an attack take turns against the same server,
and the 99th percentiles' medians are compared: an attack should not make that of the others' decisions more than twice as
long. Everything stays on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select

from arena import LIST, Arena, Compared, Helper, Peak, Place, Row, Server, say
from disks import disk, removed
from headwater.service.store import Store
from headwater.service.tables import campaigns, decisions, rewards
from loads import paid
from service import PAGE, PROBLEM, ROOT
from soak import database

ROWS = 150_000
HEAD = "| attack | release 0.1 | now | 99th percentile without, ms | with, ms | × | commit |\n|---|---|---|---|---|---|---|"


def exports(place: Place) -> list[Row]:
    with place.arena("exports") as arena:
        arena.create("large", PROBLEM, policy="c-ucb")
        start = time.monotonic()
        arena.fill("large", ROWS)
        say(f"    {ROWS:,} decisions with rewards in {time.monotonic() - start:.0f} s")
        slow = {"path": f"{LIST}/large/export?format=csv", "key": arena.keys["read"], "count": 25, "seconds": arena.length}
        found = arena.compare(lambda: slow, "downloads", {"readyz": "/readyz", "list": LIST})
        after = arena.window(probes={"readyz": "/readyz", "list": LIST})
    waits = {name: max(found.probes[name], seen["longest"]) for name, seen in after["probes"].items()}
    begun = sum((Counter(one["told"]) for one in found.attacks), Counter[str]())
    now = f"{found.refused()}; longest wait for /readyz {waits['readyz']:.2f} s, for the list {waits['list']:.2f} s"
    before = "decisions answer 503 after 20 s; lists and /readyz time out, up to a minute after the clients have gone"
    return [Row(f"25 slow exports of {ROWS:,} rows, with a read key", before, f"{now} (downloads: {dict(begun)})", found)]


def head(place: Place) -> list[Row]:
    with place.arena("head") as arena:
        before = arena.server.resident()
        found = arena.compare(lambda: {"seconds": arena.length}, "endless_head", {"healthz": "/healthz"})
        grown = arena.server.resident() - before
    most = max(one["most"] for one in found.attacks) / 1e6
    now = f"{most:.2f} MB taken until it is closed, memory +{grown:.0f} MB, /healthz within {found.probes['healthz']:.2f} s"
    told = "200 MB taken, memory +250 MB, the event loop stood still"
    return [Row("a header without end, no key", told, f"{now}; {found.refused()}", found)]


def half_open(place: Place) -> list[Row]:
    with place.arena("half-open", files=1024) as arena:
        arena.attacker.start("half_open", port=arena.port, count=1500, seconds=13, again=False)
        time.sleep(2)
        seen = arena.window(9.0, {"healthz": "/healthz"})["probes"]["healthz"]
        living = arena.attacker.result()["alive"]
        time.sleep(2)
        found = arena.compare(lambda: {"count": 1500, "seconds": arena.length, "again": True}, "half_open")
        said = len(arena.server.said())
        arena.attacker.start("aborted_logins", port=arena.port, count=20)
        arena.attacker.result()
        time.sleep(1)
        tracebacks = arena.server.said()[said:].count("Traceback")
    fresh = f"a new connection is served within {seen['longest']:.2f} s ({seen['failed']} failed)"
    now = f"{living:,} alive after 13 s; {fresh}; {found.refused()}; {tracebacks} tracebacks after 20 aborted POST /login"
    before = "1,500 alive after 13 s, the service cannot be reached; an aborted POST /login logs two tracebacks"
    return [Row("1,500 connections with half a head or nothing, 1,024 descriptors", before, now, found)]


def wide(arms: int) -> dict[str, Any]:
    """The problem of so many arms: some twenty bytes an arm."""
    return {"latent": {"kind": "discrete", "values": ["a", "b"]}, "arms": {f"arm{k:04}": [k % 2, 1] for k in range(arms)}}


def towers(count: int) -> dict[str, Any]:
    latent = {"kind": "continuous", "support": [0.5, 1.5]}
    return {"latent": latent, "arms": {"x": "x", "one": "1"} | {f"{k}": "x**x**x**x**x" for k in range(count)}}


def creations(arena: Arena, slugs: list[str], problem: dict[str, Any]) -> dict[str, Any]:
    bodies = [{"id": slug, "name": slug, "problem": problem} for slug in slugs]
    asked = [("POST", LIST, body, arena.keys["admin"]) for body in bodies]
    return {"asked": asked, "seconds": arena.length, "at_once": len(asked), "rounds": 1}


def answers(found: Compared, megabytes: float) -> str:
    """What the requests of an attack were told, how long it took, and the memory of the service with its children meanwhile."""
    flat = [one for rounds in found.attacks for some in rounds for one in some]
    told = Counter(f"{status} {re.sub(r'[0-9.,]+ s of', '… s of', message[:110])}".strip() for status, message, _ in flat)
    texts = "; ".join(f"{count} × {text}" for text, count in told.most_common())
    return f"{max(seconds for *_, seconds in flat):.1f} s at most ({texts}); {megabytes:,.0f} MB with children at the peak"


def models(place: Place) -> list[Row]:
    rows, number = list[Row](), iter(range(1_000_000))
    with place.arena("models") as arena:
        arena.create("warm-1", wide(150))
        arena.create("warm-2", towers(0))

        def attacked(name: str, before: str, problem: dict[str, Any], at_once: int = 1) -> list[str]:
            slugs: list[str] = []

            def attack() -> dict[str, Any]:
                some = [f"model-{next(number)}" for _ in range(at_once)]
                slugs.extend(some)
                return creations(arena, some, problem)

            with Peak(arena.server) as peak:
                found = arena.compare(attack, "requests")
            told = [status for window in found.attacks for status, *_ in window[0]]
            there = [slug for slug in slugs if arena.ask("GET", f"{LIST}/{slug}").status_code == 200]
            ghosts = len(set(there) - {slug for slug, status in zip(slugs, told, strict=True) if status == 201})
            now = f"{answers(found, peak.megabytes)}; {found.refused()}"
            rows.append(Row(name, before, now + f"; {ghosts} campaigns exist that were refused", found))
            return there

        size = len(json.dumps(wide(3000))) // 1000
        made = attacked(f"a campaign of 3,000 arms ({size} kB)", "28 s and 1.2 GB", wide(3000))
        attacked("four campaigns with x**x**x**x**x at once", "the others' decisions stop for 10 s", towers(1), 4)
        told = "over a minute, and the campaign appears after the client was told no"
        attacked("forty such arms in one body", told, towers(40))
        arms = 3000 if made else largest(arena)
        for _ in range(3 - len(made)):
            made.append(arena.create(f"model-{next(number)}", wide(arms)))
        rows.append(explanations(arena, made[0], arms))
        seconds = arena.restart()
        start = time.monotonic()
        for slug in made:
            arena.ask("POST", f"{LIST}/{slug}/decisions", {})
        now = f"{seconds:.1f} s until it is ready, {time.monotonic() - start:.1f} s more until each has decided"
        rows.append(Row(f"a restart with three campaigns of {arms:,} arms", "120 s until it is ready", now))
    return rows


def largest(arena: Arena) -> int:
    """The most arms, of some, that the service's limits let through."""
    for arms in (2500, 2000, 1500, 1000, 700, 500, 300):
        status = arena.ask("POST", LIST, {"id": f"try-{arms}", "name": "try", "problem": wide(arms)}).status_code
        say(f"    {arms:,} arms: {status}")
        if status == 201:
            return arms
    raise RuntimeError("even a campaign of 300 arms is refused")


def explanations(arena: Arena, slug: str, arms: int) -> Row:
    asked = [("GET", f"{LIST}/{slug}/explanation", None, arena.keys["read"])] * 60
    with Peak(arena.server) as peak:
        found = arena.compare(lambda: {"asked": asked, "seconds": arena.length, "at_once": 60}, "requests")
    now = f"{answers(found, peak.megabytes)}; {found.refused()}"
    return Row(f"60 explanations at once of a campaign of {arms:,} arms, with a read key", "5.5 GB", now, found)


def add_idle(address: str, template: str, count: int) -> None:
    """Copies of a campaign with its logs, as another replica might have made them."""
    store = Store(address)
    try:
        with store.write() as connection:
            kept = dict(connection.execute(select(campaigns).where(campaigns.c.slug == template)).mappings().one())
            old, _ = kept.pop("id"), kept.pop("slug")
            first = connection.execute(select(func.max(campaigns.c.id))).scalar_one() + 1
            connection.execute(insert(campaigns), [{**kept, "slug": f"idle-{first + i}"} for i in range(count)])
            new = connection.execute(select(campaigns.c.id).where(campaigns.c.id >= first)).scalars().all()
            for table in (decisions, rewards):
                log = [dict(row) for row in connection.execute(select(table).where(table.c.campaign == old)).mappings()]
                for low in range(0, len(new), 1000):
                    copies = [{**row, "campaign": id_} for id_ in new[low : low + 1000] for row in log]
                    connection.execute(insert(table), copies)
        if store.engine.dialect.name == "postgresql":  # as it would be by itself, minutes later
            with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM ANALYZE")
    finally:
        store.close()


def idle(place: Place) -> list[Row]:
    rows, before = list[Row](), "25 % of a core; 99th percentile 16 → 188 ms (SQLite), 32 → 558 ms (PostgreSQL)"
    with place.arena("idle") as arena:
        for slug, settings in (("plain", {}), ("due", {"reward_deadline": 86400.0})):
            arena.create(slug, PROBLEM, policy="c-ucb", **settings)
            made = arena.ask("POST", f"{LIST}/{slug}/decisions", {"count": 5}).json()["decisions"]
            arena.ask("POST", f"/v1/decisions/{made[0]['id']}/reward", {"value": paid(made[0]["arm"], made[0]["id"])})
        quiet, busy = Compared(), {0: arena.server.busy(10.0)}
        for _ in range(4):
            quiet.take(arena.window(), attacked=False)
        there = 0
        for count, told in ((1000, before), (10_000, "–")):
            say(f"    {count:,} idle campaigns")
            for template in ("plain", "due"):
                add_idle(arena.address, template, (count - there) // 2)
            there = count
            used = touch(arena)
            busy[count] = arena.server.busy(10.0)
            found = Compared(without=list(quiet.without))
            for _ in range(4):
                found.take(arena.window(), attacked=True)
            now = f"{busy[count]:.1f} % of a core ({busy[0]:.1f} % without), {used:,} of them used since the start"
            rows.append(Row(f"{count:,} idle campaigns", told, f"{now}; {found.refused()}", found))
    return rows


def touch(arena: Arena) -> int:
    """Let idle campaigns decide once, so that they are in memory; more than are kept there."""
    slugs = [one["id"] for one in arena.ask("GET", LIST).json()["campaigns"] if one["id"].startswith("idle-")][:2500]
    asked: list[Any] = [("POST", f"{LIST}/{slug}/decisions", {}, arena.keys["admin"]) for slug in slugs]
    arena.attacker.start("requests", port=arena.port, asked=asked, seconds=0, at_once=16, rounds=1)
    told = [status for status, *_ in arena.attacker.result()[0]]
    return told.count(200)


def half_load(place: Place) -> list[Row]:
    cells, folder = [], place.folder_of("half-load")
    with Server(place.database(folder), folder, words=("--rate", "0")) as server, Helper() as helper:
        for policy in ("c-ucb", "joint-ucb"):
            body = {"id": policy, "name": policy, "problem": PROBLEM, "policy": policy}
            server.http.post(LIST, json=body).raise_for_status()
            helper.start("half_load", port=server.port, campaign=policy, seconds=place.seconds)
            told = helper.result()
            tops = [statistics.quantiles(waits, n=100)[98] for waits in told["waits"]]
            spread = f"{statistics.median(tops):.1f} ({min(tops):.1f}–{max(tops):.1f}) ms"
            cells.append(f"{policy} {spread} at {told['rate']:,.0f} a second")
    now = "99th percentile " + ", ".join(cells)
    return [Row("half of the saturating load", "99th percentile c-ucb 121 ms, joint-ucb 23 ms (SQLite)", now)]


def wrong_keys(place: Place) -> list[Row]:
    with place.arena("keys") as arena:
        arena.attacker.start("wrong_keys", port=arena.port, seconds=5)
        told = arena.attacker.result()
        found = arena.compare(lambda: {"seconds": arena.length}, "wrong_keys")
    connections = told.pop("connections")
    now = ", ".join(f"{count:,} × {what}" for what, count in sorted(told.items())) + f", over {connections:,} connections"
    return [Row("wrong keys for 5 s", "38,705 answered, never 429", f"{now}; {found.refused()}", found)]


ATTACKS: dict[int, Callable[[Place], list[Row]]] = dict(
    enumerate((exports, head, half_open, models, idle, half_load, wrong_keys, disk, removed), start=1)
)


def measure(kind: str, attacks: list[int], seconds: float) -> list[Row]:
    rows = list[Row]()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".callers-", dir=ROOT)))
        address = stack.enter_context(database(folder, kind)) if kind == "PostgreSQL" else None
        place = Place(kind, folder, seconds, address)
        for number in attacks:
            start = time.monotonic()
            say(f"{kind}, {number}: {ATTACKS[number].__name__.replace('_', ' ')}")
            found = ATTACKS[number](place)
            for row in found:
                say(row.text())
            rows += found
            say(f"    {time.monotonic() - start:.0f} s")
    return rows


def here() -> str:
    """The commit that is measured; with a + where something is changed since."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def write(found: dict[str, list[Row]]) -> None:
    """Put rows into the page, each with its commit; those of attacks that were not measured now stay."""
    text, commit = PAGE.read_text(encoding="utf-8"), here()
    kept = re.search(r"<!-- callers -->(.*)<!-- end of callers -->", text, re.DOTALL)
    assert kept is not None
    parts = []
    for kind in ("SQLite", "PostgreSQL"):
        _, _, old = kept[1].partition(f"**{kind}**")
        lines = {line.split(" | ")[0]: line for line in old.partition("**")[0].splitlines() if line.startswith("| ")}
        lines.pop("| attack", None)
        lines |= {row.markdown().split(" | ")[0]: f"{row.markdown()} {commit} |" for row in found.get(kind, [])}
        parts.append("\n".join([f"**{kind}**, {os.cpu_count()} cores", "", HEAD, *lines.values()]))
    block = "\n".join(["<!-- callers -->", "\n\n".join(parts), "<!-- end of callers -->"])
    PAGE.write_text(text[: kept.start()] + block + text[kept.end() :], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", type=int, nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--databases", nargs="+", choices=["sqlite", "postgresql"], default=["sqlite", "postgresql"])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each window")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/service.md")
    options = parser.parse_args()
    kinds = [kind for kind in ("SQLite", "PostgreSQL") if kind.lower() in options.databases]
    found = {kind: measure(kind, options.attacks, options.seconds) for kind in kinds}
    if options.write:
        write(found)


if __name__ == "__main__":
    main()
