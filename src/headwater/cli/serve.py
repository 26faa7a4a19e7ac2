"""The commands about the service: running it, its database, its keys."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.common import Json, check_target, print_json, stopped
from headwater.errors import HeadwaterError, ProblemError

if TYPE_CHECKING:
    from headwater.service.store import Store

SERVE_EXAMPLES = (
    "Examples:  headwater serve --demo   |   headwater serve --database campaigns.db --port 8000   |   "
    "headwater serve --database postgresql://headwater@db/headwater --host 0.0.0.0   (after headwater key create)"
)
Database = Annotated[
    str, typer.Option(help="A file (SQLite), or postgresql://user@host/name.", envvar="HEADWATER_DATABASE", show_default=True)
]


class Role(StrEnum):
    read = "read"
    decide = "decide"
    admin = "admin"


@contextmanager
def open_store(database: str) -> Iterator[Store]:
    """The database until the block ends; a sentence if the service is not installed."""
    try:
        from headwater.service.store import Store
    except ImportError as error:
        raise ProblemError(
            f'the service needs more packages ({error.name} is missing): pip install "headwater[serve]"'
        ) from None
    store = Store(database)
    try:
        yield store
    finally:
        store.close()


def serve(
    database: Database = "headwater.db",
    host: Annotated[str, typer.Option(help="The address to listen on. Beyond this machine only with keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.", min=0, max=65535)] = 8000,
    rate: Annotated[float, typer.Option(help="Requests a second for each key (or address); 0: no limit.", min=0)] = 2000.0,
    body_limit: Annotated[int, typer.Option(help="The largest body of a request, in bytes.", min=1000)] = 8_000_000,
    demo: Annotated[bool, typer.Option("--demo", help="Make a key and a demo campaign with visitors of its own.")] = False,
) -> None:
    """Run the decision service: HTTP under /v1, pages for people, everything durable before it is answered."""
    with open_store(database) as store:
        from headwater.service.app import Limits
        from headwater.service.server import serve as run

        try:
            run(
                store, host=host, port=port, limits=Limits(rate=rate, body=body_limit), demo=demo,
                say=lambda line: typer.echo(line, err=True),
            )  # fmt: skip
        except KeyboardInterrupt:
            stopped(f"what was answered is kept in {store}.")


@contextmanager
def _in_order() -> Iterator[None]:
    """Told to end (SIGTERM), leave as after Ctrl-C: with nothing half done."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


db = typer.Typer(
    no_args_is_help=True, help="The service's database: upgrade, backup, check.", rich_markup_mode=None, add_completion=False
)
key = typer.Typer(
    no_args_is_help=True, help="The service's keys: create, list, revoke.", rich_markup_mode=None, add_completion=False
)


@db.command(epilog="Example:  headwater db upgrade --database postgresql://headwater@db/headwater")
def upgrade(database: Database = "headwater.db") -> None:
    """Bring the schema up to date (a new database gets its tables)."""
    with open_store(database) as store:
        before, after = store.upgrade()
    typer.echo(f"{store}: schema {after}" + (", as before" if before == after else f", before {before or 'none'}"))


@db.command(epilog="Example:  headwater db backup monday.db --database campaigns.db   (a backup can be served like any other)")
def backup(
    output: Annotated[Path, typer.Argument(help="The SQLite file to write.", show_default=False)],
    database: Database = "headwater.db",
) -> None:
    """Copy everything, as of one moment and while the service runs, into one SQLite file."""
    check_target("output", output)
    with _in_order(), _existing(database) as store:
        rows = store.backup(output)
    typer.echo(f"{output}: {rows['campaigns']:,} campaigns, {rows['decisions']:,} decisions, {rows['rewards']:,} rewards")


@db.command(epilog="Example:  headwater db check --database campaigns.db")
def check(database: Database = "headwater.db", as_json: Json = False) -> None:
    """Read the file and both logs from their first row and compare with every count that is stored; status 2 if one differs."""
    from headwater.service.checks import check_database, damage
    from headwater.service.store import damaged, told

    wrong: dict[str, list[str]] = {}
    with _existing(database) as store, told(store), store.read(patient=True) as connection:
        if broken := damage(connection, whole=True):
            if as_json:
                print_json({"campaigns": {}, "damage": broken, "right": False})
            raise ProblemError(damaged(store, broken))
        for slug, found in check_database(connection):
            wrong[slug] = found
            if not as_json:
                typer.echo(f"{slug}: " + ("right" if not found else "; ".join(found)))
    bad = [slug for slug, found in wrong.items() if found]
    if as_json:
        print_json({"campaigns": wrong, "right": not bad})
    if bad:
        raise ProblemError(f"{len(bad)} of {len(wrong)} campaigns are not what their logs say: {', '.join(bad)}")
    if not as_json:
        typer.echo(f"{len(wrong)} campaigns, all as their logs say")


@key.command(epilog="Example:  headwater key create shop-front --role decide")
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.", show_default=False)],
    role: Annotated[
        Role, typer.Option(help="read: look; decide: also decisions and rewards; admin: everything.")
    ] = Role.decide,
    database: Database = "headwater.db",
    output: Annotated[
        Path | None, typer.Option(help="Write it to this new file, which only you may read, instead of printing it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key. It is shown this once; the database keeps a hash."""
    from headwater.service.keys import create_key

    if output is not None:
        check_target("--output", output)
        if output.exists():
            raise ProblemError(f"--output: {output} is there already; a key overwrites nothing")
    with open_store(database) as store:
        store.open()
        with store.write() as connection:
            text, made = create_key(connection, name, role.value)
            if output is not None:
                output.touch(mode=0o600, exist_ok=False)
                output.write_text(text + "\n", encoding="utf-8")
    about = {"id": made.id, "name": made.name, "role": made.role}
    if as_json:
        print_json(about if output is not None else {"key": text, **about})
    elif output is not None:
        typer.echo(f"The key is in {output}; it is not shown again.", err=True)
    else:
        typer.echo(text)
        typer.echo(f"Keep it: it is not shown again. Send it as  Authorization: Bearer {text[:12]}…", err=True)


@key.command("list")
def list_(database: Database = "headwater.db", as_json: Json = False) -> None:
    """The keys, without their secrets."""
    from headwater.service.keys import list_keys

    with _existing(database) as store, store.read() as connection:
        found = list_keys(connection)
    if as_json:
        print_json({"keys": [{"id": k.id, "name": k.name, "role": k.role, "revoked": k.revoked is not None} for k in found]})
        return
    for k in found:
        made = datetime.fromtimestamp(k.created, UTC).strftime("%Y-%m-%d")
        typer.echo(f"{k.id}  {k.role:<7} {made}  {k.name}" + ("  (revoked)" if k.revoked is not None else ""))
    if not found:
        typer.echo("No keys yet: headwater key create NAME --role admin", err=True)


@key.command(epilog="Example:  headwater key revoke 1f0c22ab")
def revoke(
    id: Annotated[str, typer.Argument(help="The id that headwater key list shows.", show_default=False)],  # noqa: A002
    database: Database = "headwater.db",
) -> None:
    """Revoke a key; a running service forgets it within a second."""
    from headwater.service.keys import revoke_key

    with _existing(database) as store, store.write() as connection:
        revoke_key(connection, id)
    typer.echo(f"{id} is revoked", err=True)


@contextmanager
def _existing(database: str) -> Iterator[Store]:
    """A database that has our tables already: a mistyped name makes no new one."""
    with open_store(database) as store:
        if store.sqlite and not Path(str(store.url.database)).is_file():
            raise ProblemError(f"--database: there is no file {store.url.database}")
        if store.revision() is None:
            raise HeadwaterError(f"--database: {store} has no tables of headwater's")
        store.open()
        yield store
