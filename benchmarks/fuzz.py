"""Mangled input through the doors that users have: a sentence and status 2, or a 4xx, and nothing else.

    python benchmarks/fuzz.py --write                               # some twenty minutes; CONTRIBUTING.md says what came out
    python benchmarks/fuzz.py --tables 100 --problems 100 --requests 20 --seed 2

Tables go through ``headwater fit`` and ``headwater evaluate``, problem files through ``headwater analyze``, ``pseudo`` and
``simulate``, all in this process; requests through every route of ``headwater serve``, in a process of its own. A finding is a
traceback, an exit status other than 0 and 2, a status 2 without a sentence, an answer of 500, or more than a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from arena import Server, make_keys
from headwater import cli
from headwater.starters import STARTERS
from loads import paid
from service import PROBLEM

ROOT = Path(__file__).parent.parent
LONGEST = 60.0
CELLS = [
    "", "inf", "-inf", "nan", "NaN", "NA", "null", "1e400", "-1e308", "1,5", "1.234,50", "€5", "5 %", "-0", "True", "0x10",
    "1_000", "²", "٣",
    "2020-13-45", "0001-01-01", "9999-12-31T23:59:59.999999", "2024-02-30", "1969-12-31", "now", "12:61", "\0", "=1+1",
    "'", '"', "\t", "\r", "\u202e",
    "é", "e\u0301", " a ", "a.", "x" * 5000, "[1, 2]", "{}", "None", "9" * 400, "1e-320", "\ufeff", "\ud7ff", "😀",
]  # fmt: skip
JUNK: list[Any] = [
    None, True, False, 0, -1, 1e308, -1e-320, 10**400, "", "x", "\0", "é" * 300, "1e400", "../..", [], [[]], {},
    {"": None}, [None] * 50, "NaN",
]  # fmt: skip

PAGES = ("/", "/new", "/studio", "/docs", "/login", "/campaigns/{id}", "/campaigns/{id}/log", "/static/x", "/favicon.ico")
OPTIONS = {
    "unit": ["unit", "arm"], "time": ["time", "reward", "unit"], "missing": ["NA", ""], "until": ["2024-01-15", "inf"],
    "least": ["1", "2"], "levels": ["2", "5"], "edges": ["1", "1,2"], "segments": ["2"], "confidence": ["0.9"],
}  # fmt: skip
PARAMETERS = ("after", "limit", "before", "confidence", "format", "status", "x")


class Found:
    """What came out, by kind; and what should not have."""

    def __init__(self) -> None:
        self.told, self.findings = Counter[str](), list[str]()

    def note(self, what: str, wrong: str = "") -> None:
        self.told[what] += 1
        if wrong:
            self.findings.append(f"{what}: {wrong}")
            print(f"FINDING {what}: {wrong}", flush=True)


def run(words: list[str], found: Found, what: str) -> None:
    """The command line in this process."""
    out, err, status, wrong, start = io.StringIO(), io.StringIO(), 0, "", time.monotonic()
    before = sys.argv
    sys.argv = ["headwater", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        wrong = f"{type(error).__name__}: {error}"
    finally:
        sys.argv = before
    if not wrong and (status not in (0, 2) or (status == 2 and not err.getvalue().strip()) or "Traceback" in err.getvalue()):
        wrong = f"status {status}: {err.getvalue()[-300:]!r}"
    if time.monotonic() - start > LONGEST:
        wrong += f" after {time.monotonic() - start:.0f} s"
    found.note(f"{what}: status {status}", wrong and f"{words}: {wrong}")


def table(rng: random.Random, rows_of: list[int]) -> bytes:
    """A small log with some things wrong with it."""
    names = ["arm", "reward", "segment", "unit", "time", "propensity"]
    odd = rng.choice([0.0, 0.0, 0.0, 0.003, 0.01, 0.05, 0.3])
    rows = []
    for i in range(rng.choice(rows_of)):
        row = [f"a{i % 3}", str(rng.choice([0, 1, 2.5])), f"s{i % 2}", f"u{i // 2}", f"2024-01-{i % 28 + 1:02}", "0.5"]
        rows.append([rng.choice(CELLS) if rng.random() < odd else cell for cell in row])
    if rng.random() < 0.1:
        names[rng.randrange(6)] = rng.choice([*CELLS, "arm"])
    if rng.random() < 0.1 and rows:
        del rng.choice(rows)[rng.randrange(6) :]
    column, value = rng.randrange(6), rng.choice(CELLS)
    if rng.random() < 0.1:
        rows = [[value if k == column else cell for k, cell in enumerate(row)] for row in rows]
    quoted = rng.random() < 0.8
    cells = [['"' + cell.replace('"', '""') + '"' if quoted else cell for cell in row] for row in [names, *rows]]
    comma = rng.choice([",", ",", ",", ";", "\t"])
    text = rng.choice(["\n", "\n", "\r\n"]).join(comma.join(row) for row in cells)
    data = text.encode(rng.choice(["utf-8"] * 8 + ["utf-16", "utf-8-sig"]), "replace")
    if rng.random() < 0.05 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.randbytes(3) + data[at + 2 :]
    return data


def tables(count: int, rng: random.Random, folder: Path, found: Found) -> None:
    problem = folder / "ads.toml"
    problem.write_text(
        '[latent]\nkind = "discrete"\nvalues = ["s0", "s1"]\n'
        + "".join(
            f"[arms.a{k}]\noutcomes = [0, 1, 2.5]\nprobabilities = [[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]]\n" for k in range(3)
        ),
        encoding="utf-8",
    )
    log = folder / "log.csv"
    for _ in range(count):
        fits = rng.random() < 0.75
        log.write_bytes(table(rng, [0, 1, 5, 60, 60, 200, 600] if fits else [0, 60, 600, 600, 600]))
        options = ["--arm", "arm", "--reward", "reward"]
        for name, values in OPTIONS.items():
            if rng.random() < 0.2:
                options += [f"--{name}", rng.choice(CELLS).replace("\0", "0") if rng.random() < 0.1 else rng.choice(values)]
        if rng.random() < 0.9:
            options += ["--segment", "nobody" if rng.random() < 0.05 else "segment"]
        if fits:
            run(["fit", str(log), *options, "--output", str(folder / "p.toml"), "--force"], found, "fit")
        else:
            more = ["--propensity", "reward" if rng.random() < 0.1 else "propensity"]
            more += [word for name in ("segment", "unit", "time") if rng.random() < 0.4 for word in (f"--{name}", name)]
            run(["evaluate", str(problem), str(log), *options[:4], *more, "--replications", "2"], found, "evaluate")


def mangled(text: str, rng: random.Random) -> bytes:
    data = bytearray(text.encode())
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at, length = rng.randrange(len(data) + 1), rng.randint(1, 12)
        how = rng.randrange(5)
        if how == 0:
            del data[at : at + length]
        elif how == 1:
            data[at : at + length] = rng.choice(
                ["[", "]", "=", '"', "inf", "-", "nan", "1e999", "\n", "x", "**", "0", "'", "{", "é"]
            ).encode()
        elif how == 2:
            data[at:at] = data[at : at + length]
        elif how == 3:
            data[at:at] = rng.randbytes(1)
        else:
            data[at : at + length] = rng.choice(CELLS)[:20].encode("utf-8", "replace")
    return bytes(data)


def problems(count: int, rng: random.Random, folder: Path, found: Found) -> None:
    texts = [*STARTERS.values(), json.dumps(PROBLEM)]
    for _ in range(count):
        text = rng.choice(texts)
        path = folder / ("p.json" if text.startswith("{") else "p.toml")
        path.write_bytes(mangled(text, rng))
        which = rng.randrange(10)
        if which < 7:
            run(["analyze", str(path), *rng.choice([[], ["--json"]])], found, "analyze")
        elif which < 9:
            run(
                [
                    "pseudo",
                    str(path),
                    "--observed",
                    rng.choice(["banner", "a", "video"]),
                    "--reward",
                    rng.choice(["0", "1", "1.5", "2"]),
                ],
                found,
                "pseudo",
            )
        else:
            run(["simulate", str(path), "--horizon", "20", "--replications", "2", "--policy", "c-ucb"], found, "simulate")


def changed(value: Any, rng: random.Random) -> Any:
    """Some good JSON with a part of it exchanged."""
    if rng.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(JUNK)
    if isinstance(value, dict):
        key = rng.choice(list(value))
        out = {**value, key: changed(value[key], rng)}
        if rng.random() < 0.1:
            out[rng.choice(["x", "", "id", "problem", "__proto__"])] = rng.choice(JUNK)
        return out
    at = rng.randrange(len(value))
    return [*value[:at], changed(value[at], rng), *value[at + 1 :]]


BODIES: list[Any] = [
    {"name": "ads", "problem": PROBLEM, "policy": "auto", "floor": 0.1, "control": {"arm": "a", "share": 0.1},
     "reward_deadline": 5},
    {"unit": "u", "count": 3, "units": ["a", "b"], "shown": "a"}, {"value": 1},
    {"rewards": [{"decision": "ads.1", "value": 1}]},
    {"arm": "a", "enabled": False}, {"problem": PROBLEM, "policies": ["ucb1"], "horizon": 10, "replications": 2},
    {"problem": PROBLEM, "observed": "a", "reward": 1, "distribution": [0.2] * 5}, {"text": "x"}, {"key": "hw_x"},
]  # fmt: skip


def routes(http: httpx2.Client) -> Iterator[tuple[str, str]]:
    for path, item in http.get("/v1/openapi.json").json()["paths"].items():
        for method in item:
            yield method.upper(), path
    for path in PAGES:
        yield "GET", path
    yield from (("POST", "/login"), ("POST", "/logout"))


def request(http: httpx2.Client, method: str, path: str, rng: random.Random, found: Found) -> None:
    odd = quote(rng.choice(CELLS)[:300] or "-", safe="", errors="replace")
    place = path.replace("{id}", rng.choice(["ads", "ads", "ads.1"]) if rng.random() < 0.6 else odd)
    params = {rng.choice(PARAMETERS): str(rng.choice([*CELLS, 1, -1, 0.5]))[:500]}
    headers: dict[str, str] = {"Idempotency-Key": rng.choice(["a", "x" * 300])} if rng.random() < 0.2 else {}
    body = changed(rng.choice(BODIES), rng) if rng.random() < 0.9 else rng.choice(BODIES)
    content = json.dumps(body, default=str).replace('"NaN"', rng.choice(["NaN", '"NaN"'])).encode()
    if rng.random() < 0.1:
        content = mangled(content.decode(), rng)
    kind = rng.choice(["application/json"] * 8 + ["text/plain", "application/x-www-form-urlencoded"])
    more: dict[str, Any] = (
        {"content": content, "headers": {**headers, "Content-Type": kind}}
        if method in ("POST", "PATCH", "PUT")
        else {"headers": headers}
    )
    start = time.monotonic()
    try:
        answer = http.request(method, place, params=params if rng.random() < 0.4 else None, **more)
    except (httpx2.InvalidURL, UnicodeError):
        found.note("requests: not sent")
        return
    except httpx2.HTTPError as error:
        found.note("requests: lost", f"{method} {place}: {type(error).__name__} {error}")
        return
    slow = time.monotonic() - start > LONGEST
    wrong = answer.status_code >= 500 and answer.status_code != 503
    found.note(
        f"requests: {answer.status_code}", f"{method} {place} {content[:300]!r}: {answer.text[:200]}" if wrong or slow else ""
    )


def requests(count: int, rng: random.Random, folder: Path, found: Found) -> None:
    address = str(folder / "fuzz.db")
    keys = make_keys(address)
    with Server(address, folder, words=("--rate", "0")) as server:
        http = server.http
        http.headers["Authorization"] = f"Bearer {keys['admin']}"
        http.post("/v1/campaigns", json={"id": "ads", "name": "ads", "problem": PROBLEM, "policy": "c-ucb"}).raise_for_status()
        made = http.post("/v1/campaigns/ads/decisions", json={}).json()
        http.post("/v1/rewards", json={"rewards": [{"decision": made["id"], "value": paid(made["arm"], made["id"])}]})
        for method, path in routes(http):
            for _ in range(count):
                request(http, method, path, rng, found)
            if path.endswith(("/archive", "/pause")):
                http.post("/v1/campaigns/ads/resume")
        alive = server.running and http.get("/readyz").status_code == 200
        found.note("requests: the service at the end", "" if alive else "is not ready")
        if (count_of := server.said().count("Traceback")) > 0:
            found.note("requests: tracebacks in the log", f"{count_of}: {server.said()[-1500:]}")


def write(options: argparse.Namespace, found: Found) -> None:
    """Into CONTRIBUTING.md: what was handed in, how it was answered, at which commit."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    sent = sum(count for what, count in found.told.items() if what.startswith("requests: "))
    told = ", ".join(f"{count:,} × {what}" for what, count in sorted(found.told.items()) if "at the end" not in what)
    text = (
        f"At {commit}, seed {options.seed}: {options.tables:,} tables, {options.problems:,} problem files and "
        f"{options.requests:,} requests for each of {sent // max(options.requests, 1)} routes and pages made "
        f"{len(found.findings)} findings ({told})."
    )
    page = ROOT / "CONTRIBUTING.md"
    head, rest = page.read_text(encoding="utf-8").split("<!-- fuzz -->\n", 1)
    tail = rest.split("<!-- end of fuzz -->", 1)[1]
    body = "\n".join(textwrap.wrap(text, 128))
    page.write_text(f"{head}<!-- fuzz -->\n{body}\n<!-- end of fuzz -->{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tables", 2000), ("problems", 2000), ("requests", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put what came out into CONTRIBUTING.md")
    options = parser.parse_args()
    found = Found()
    with tempfile.TemporaryDirectory(prefix="headwater-fuzz-") as place:
        parts: tuple[tuple[Callable[[int, random.Random, Path, Found], None], int], ...] = (
            (tables, options.tables), (problems, options.problems), (requests, options.requests),
        )  # fmt: skip
        for part, count in parts:
            start = time.monotonic()
            if count:
                part(count, random.Random(f"{part.__name__} {options.seed}"), Path(place), found)
            print(f"{part.__name__}: {time.monotonic() - start:.0f} s", flush=True)
    for what, count in sorted(found.told.items()):
        print(f"{count:>7,}  {what}")
    print(f"{len(found.findings)} findings")
    if options.write:
        write(options, found)
    sys.exit(bool(found.findings))


if __name__ == "__main__":
    main()
