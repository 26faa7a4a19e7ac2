"""The same log in PostgreSQL and at hand: the same problem. A real server, from a wheel; skipped, loudly, where none starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from fit_logs import Log, make_log

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: no PostgreSQL to compare with")


@pytest.fixture(scope="module")
def address(postgres: str) -> str:
    return postgres


@pytest.fixture(scope="module")
def log() -> Log:
    return make_log(3, noise=1.0)


@pytest.fixture(scope="module")
def table(address: str, log: Log) -> str:
    kinds = {"day": "int", "reward": "double precision", "age": "double precision"}
    columns = ", ".join(f"{name} {kinds.get(name, 'text')}" for name in log.rows)
    with psycopg.connect(address) as connection:
        connection.execute("create schema shop")
        connection.execute(f"create table shop.events ({columns})")
        with connection.cursor().copy("copy shop.events from stdin") as copy:
            for row in zip(*log.rows.values(), strict=True):
                copy.write_row([value.item() if isinstance(value, np.generic) else value for value in row])
    return "shop.events"


@pytest.mark.parametrize(
    "how",
    [
        {"segment": "kind"},
        {"segment": "kind", "levels": 5, "time": "day", "until": 60, "unit": "unit"},
        {"unit": "unit", "segments": 2, "edges": [0.5, 1.5]},
        {"features": ["age", "city"], "unit": "unit", "segments": 3},
        {"features": ["age"], "segments": 3, "method": "kmeans"},
        {"features": ["age"], "segments": 3, "unit": "unit", "sample": 200},
    ],
    ids=lambda how: "-".join(map(str, how)),
)
def test_postgres_and_duckdb_give_one_problem(address: str, table: str, log: Log, how: dict[str, Any], tmp_path: Path) -> None:
    here = hw.fit(log.rows, arm="arm", reward="reward", **how)
    there = hw.fit(table, database=address, arm="arm", reward="reward", **how)
    assert there.problem.digest == here.problem.digest
    assert there.warnings == here.warnings
    same = ("choice", "stability", "levels", "arms")
    assert {k: there.evidence().get(k) for k in same} == {k: here.evidence().get(k) for k in same}


def test_wide_and_missing_values(address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute("create table ratings (who text, tea int, milk int, water int)")
        for i in range(60):
            row = (f"u{i}", i % 3, 99 if i % 7 == 0 else i % 2, (i * i) % 3)
            connection.execute("insert into ratings values (%s, %s, %s, %s)", row)
    rows = {"who": [f"u{i}" for i in range(60)], "tea": [i % 3 for i in range(60)]}
    rows |= {"milk": [99 if i % 7 == 0 else i % 2 for i in range(60)], "water": [(i * i) % 3 for i in range(60)]}
    how: dict[str, Any] = {"wide": True, "unit": "who", "missing": 99, "segments": 2}
    assert hw.fit("ratings", database=address, **how).problem.digest == hw.fit(rows, **how).problem.digest


def test_what_a_database_refuses(address: str, table: str) -> None:
    with pytest.raises(hw.ProblemError, match=r'data: .* has no table "shop\.nothing" that can be read'):
        hw.fit("shop.nothing", database=address, arm="arm", reward="reward", segment="kind")
    with pytest.raises(hw.ProblemError, match='until: got "x"; expected a value like those of "day"'):
        hw.fit(table, database=address, arm="arm", reward="reward", segment="kind", time="day", until="x")
    with pytest.raises(hw.ProblemError, match=r"database: postgres://127\.0\.0\.1:1/x cannot be opened") as caught:
        hw.fit("t", database="postgres://me:secret@127.0.0.1:1/x?connect_timeout=1", arm="arm", reward="reward")
    assert "secret" not in str(caught.value)
