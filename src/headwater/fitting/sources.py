"""Where logs lie: a CSV or Parquet file, a table of a database, or a table in memory, each as an ibis table.

Nothing is read here. What is asked of the table later runs where it lies: DuckDB for files and memory, otherwise the database.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.complaints import shown
from headwater.errors import ProblemError

if TYPE_CHECKING:
    import ibis

INSTALL = 'pip install "headwater[fit]"'
NUMBER = r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*"
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}


class Source(NamedTuple):
    """A table and the words for where it came from (never with a password). A ``backend`` given is ours to close.

    ``notes``: what a user should know about how it was read.
    """

    table: ibis.Table
    label: str
    backend: Any = None
    notes: tuple[str, ...] = ()

    def close(self) -> None:
        if self.backend is not None:
            self.backend.disconnect()


def open_source(data: Any, *, database: str | None = None) -> Source:
    """The table that ``data`` names: a file, a table of ``database``, or data in memory.

    ``data`` is the path of a CSV or Parquet file (a pattern such as ``logs/*.parquet`` names several), or, with ``database``,
    the name of a table (``schema.table`` too); ``database`` is a DuckDB file or an address such as
    ``postgres://user@host/name``. In Python data may also be an ibis or pyarrow table, a data frame or a mapping of columns.

    >>> open_source({"arm": ["a", "b"], "reward": [0, 1]}).table.columns
    ('arm', 'reward')
    """
    ibis = need_ibis()
    if isinstance(data, ibis.expr.types.Table):
        return Source(data, "a table")
    if isinstance(data, (str, Path)):
        return _database_table(str(data), database) if database is not None else _file(Path(data))
    if database is not None:
        raise ProblemError(f"data: got {shown(data)}; expected the name of a table of {safe_address(database)}")
    table = _in_memory(data)
    backend = _duckdb()
    backend.con.register("log", table)
    with asking():
        return Source(backend.table("log"), "a table in memory", backend)


def need_ibis() -> Any:
    """ibis, or a sentence that says how to get it."""
    try:
        import ibis
        import ibis.expr.types
    except ImportError:
        raise ProblemError(f"fitting needs ibis and DuckDB, which are not installed: {INSTALL}") from None
    return ibis


def _duckdb(*args: Any, **more: Any) -> Any:
    """A connection of our own, which draws no bar of progress over our output."""
    backend = need_ibis().duckdb.connect(*args, **more)
    backend.con.execute("SET enable_progress_bar = false")
    return backend


@contextmanager
def asking() -> Iterator[None]:
    """ibis and a driver disagree, now and then, about names that are going away: not our user's affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def need_sklearn() -> Any:
    """scikit-learn, loaded, or a sentence that says how to get it."""
    try:
        import sklearn
        import sklearn.cluster
        import sklearn.exceptions
        import sklearn.mixture
    except ImportError:
        raise ProblemError(f"fitting needs scikit-learn, which is not installed: {INSTALL}") from None
    return sklearn


def _file(path: Path) -> Source:
    kind = next((kind for suffix, kind in SUFFIXES.items() if path.name.lower().endswith(suffix)), None)
    if kind is None:
        raise ProblemError(f"{path}: got a name that ends in {shown(path.suffix)}; expected a .csv or .parquet file")
    several = any(mark in path.name for mark in "*?[")
    found = sorted(path.parent.glob(path.name)) if several and path.parent.is_dir() else [path]
    for one in found:
        if not one.is_file():
            kind = "is a folder" if one.is_dir() else "is no ordinary file" if one.exists() else "there is no such file"
            raise ProblemError(f"{one}: {kind}; expected a file of logs")
    if not found:
        raise ProblemError(f"{path}: no file has such a name")
    backend = _duckdb()
    names = [str(one) for one in found]
    try:
        with asking():
            if kind == "parquet":
                return Source(backend.read_parquet(names), path.name, backend)
            return _csv(backend, names, path.name)
    except Exception as error:  # noqa: BLE001 - a reader may raise anything on a broken file
        backend.disconnect()
        raise ProblemError(f"{path}: cannot be read as {kind.upper()}: {first_line(error)}") from None


def _csv(backend: Any, names: list[str], label: str) -> Source:
    # Every row decides the types: a text in the millionth row must be found when types are, not when rows are counted.
    table = backend.read_csv(names, sample_size=-1)
    if not all(re.fullmatch(rf"({NUMBER})(_[0-9]+)?", name) for name in table.columns):  # a name that stands twice gets _1
        return Source(table, label, backend)
    table = backend.read_csv(names, sample_size=-1, header=False)
    note = (
        f"the first line holds numbers only and was read as a row; columns are named {table.columns[0]}, {table.columns[1]}, …"
    )
    return Source(table, label, backend, (note,))


def _database_table(name: str, database: str) -> Source:
    ibis = need_ibis()
    if "://" not in database and not Path(database).is_file():
        raise ProblemError(f"database: there is no file {database}; expected one, or an address such as postgres://host/name")
    try:
        with asking():
            backend = ibis.connect(database) if "://" in database else _duckdb(Path(database).resolve(), read_only=True)
    except ImportError as error:
        raise ProblemError(f'database: {first_line(error)}; for PostgreSQL: pip install "headwater[postgres]"') from None
    except Exception as error:  # noqa: BLE001 - every driver has exceptions of its own
        raise ProblemError(f"database: {safe_address(database)} cannot be opened: {first_line(error)}") from None
    schema, _, table = name.rpartition(".")
    try:
        with asking():
            found = backend.table(table, database=schema or None)
    except Exception as error:  # noqa: BLE001 - a missing table or a lack of rights, in each driver's words
        backend.disconnect()
        raise ProblemError(
            f"data: {safe_address(database)} has no table {shown(name)} that can be read: {first_line(error)}"
        ) from None
    return Source(found, f"{name} of {safe_address(database)}", backend)


def _in_memory(data: Any) -> Any:
    import pyarrow as pa

    try:
        table = pa.table(dict(data)) if isinstance(data, Mapping) else data if isinstance(data, pa.Table) else pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise ProblemError(f"data: got {shown(data)}; expected a path or a table: {first_line(error)}") from None
    # a column without a value has no type; as a text it is a column without a value everywhere
    return table.cast(pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in table.schema]))


def safe_address(address: str) -> str:
    """An address without its user and password."""
    scheme, mark, rest = address.partition("://")
    return scheme + mark + rest.rpartition("@")[2].partition("?")[0] if mark else Path(address).name


def first_line(error: BaseException) -> str:
    """What a driver says, in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
