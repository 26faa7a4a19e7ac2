"""Folders of results, on this machine or on any file system that fsspec knows (``s3://…``, ``memory://…``).

A file is there whole or not at all: locally it is written under another name, flushed to the disk and renamed; an object store
gets it in one request. fsspec is imported only for addresses with a scheme.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Protocol

from headwater.errors import ResultsError

__all__ = ["DRAFT", "Folder", "folder_at"]

DRAFT = ".part"
"""How the name of a file ends that is not whole yet."""


class Folder(Protocol):
    """Files by their names. Everything but ``exists`` and ``names`` raises ``OSError`` where something goes wrong."""

    def __str__(self) -> str: ...

    def below(self, name: str) -> Folder: ...

    def make(self) -> None: ...

    def names(self) -> set[str]:
        """The files in it; none where it does not exist."""
        ...

    def exists(self, name: str) -> bool: ...

    def read(self, name: str) -> bytes: ...

    def writing(self, name: str) -> Any:
        """A context that gives a binary file; the file appears, whole, when the context ends well."""
        ...

    def remove(self, *names: str) -> None:
        """Remove files, where they exist."""
        ...

    def drop(self) -> None:
        """Remove the folder if it is empty."""
        ...


def folder_at(place: str | Path) -> Folder:
    """The folder at a path or an address.

    >>> str(folder_at("results/run").below("chunks"))
    'results/run/chunks'
    """
    text = str(place)
    if "://" not in text:
        return LocalFolder(Path(place))
    if text.startswith("file://"):
        return LocalFolder(Path(text.removeprefix("file://")))
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ResultsError(f'{text}: got an address; expected a path, or: pip install "headwater[dask]"') from None
    try:
        return RemoteFolder(text, *url_to_fs(text))
    except (ImportError, ValueError, OSError) as error:
        raise ResultsError(f"{text}: cannot be opened: {error}") from None


class LocalFolder:
    """A folder of this machine, or one that it mounts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def below(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name)

    def make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def names(self) -> set[str]:
        return {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        draft = self.path / f".{name}.{secrets.token_hex(4)}{DRAFT}"
        try:
            with draft.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path / name)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        self._flush()

    def _flush(self) -> None:
        """The new name, too, must survive a power cut; not every system can be asked."""
        if os.name == "posix":
            number = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def remove(self, *names: str) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def drop(self) -> None:
        if self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()


class RemoteFolder:
    """A folder of an fsspec file system, whose ``pipe_file`` shows an object when all of it has come."""

    def __init__(self, address: str, system: Any, root: str) -> None:
        self.address, self.system, self.root = address.rstrip("/"), system, root.rstrip("/")

    def __str__(self) -> str:
        return self.address

    def below(self, name: str) -> RemoteFolder:
        return RemoteFolder(f"{self.address}/{name}", self.system, f"{self.root}/{name}")

    def make(self) -> None:
        with _asking():
            self.system.makedirs(self.root, exist_ok=True)

    def names(self) -> set[str]:
        with _asking():
            self.system.invalidate_cache()
            try:
                found = self.system.ls(self.root, detail=False)
            except FileNotFoundError:
                return set()
        return {str(path).rsplit("/", 1)[-1] for path in found}

    def exists(self, name: str) -> bool:
        with _asking():
            return bool(self.system.exists(f"{self.root}/{name}"))

    def read(self, name: str) -> bytes:
        with _asking():
            return bytes(self.system.cat_file(f"{self.root}/{name}"))

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        draft = BytesIO()
        yield draft
        with _asking():
            self.system.pipe_file(f"{self.root}/{name}", draft.getvalue())

    def remove(self, *names: str) -> None:
        if there := sorted(self.names() & set(names)):
            with _asking():
                self.system.rm([f"{self.root}/{name}" for name in there])

    def drop(self) -> None:
        with _asking(), suppress(FileNotFoundError):
            if not self.system.ls(self.root, detail=False):
                self.system.rmdir(self.root)


@contextmanager
def _asking() -> Iterator[None]:
    """Every file system has exceptions of its own; here they are all ``OSError``."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
