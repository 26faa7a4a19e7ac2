"""Finished chunks in a folder: each written once, whole, and checked when it is read.

A file carries a digest of its chunk's key and its content. One that was cut off, changed or renamed is not read: its chunk is
done again. Beside them stands which run they are of, so that another one that would go on there can be told what differs.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from io import BytesIO

import numpy as np

from headwater import __version__
from headwater.errors import ResultsError
from headwater.simulation.chunks import Chunk, Setting
from headwater.simulation.folders import DRAFT, Folder
from headwater.simulation.results import Outcome

__all__ = ["ChunkStore"]

MAGIC = b"headwater-chunk-1\n"
SUFFIX = ".chunk"
RUN = "run.json"
"""Says of which run the chunks are: its setting, and the release that did them."""


class ChunkStore:
    """The chunks in a folder; ``keys`` are those that were there when it was opened, and those written since."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        try:
            self.keys = {name.removesuffix(SUFFIX) for name in folder.names() if name.endswith(SUFFIX)}
        except OSError as error:
            raise ResultsError(f"{folder}: cannot be read: {error.strerror or error}") from None

    def read(self, chunk: Chunk) -> Outcome | None:
        """What a chunk's replications did, or None where that has to be computed."""
        if chunk.key not in self.keys:
            return None
        try:
            outcome = decode(chunk.key, self.folder.read(chunk.key + SUFFIX))
        except OSError:
            outcome = None
        if outcome is None:
            self.keys.discard(chunk.key)
        return outcome

    def run(self) -> tuple[Setting, str] | None:
        """The setting of the run that the chunks are of, and the release; None where that is not known."""
        try:
            told = json.loads(self.folder.read(RUN))
            return Setting(**told["setting"] | {"checkpoints": tuple(told["setting"]["checkpoints"])}), str(told["headwater"])
        except (OSError, ValueError, KeyError, TypeError):  # chunks of release 0.1, or a file that was cut off
            return None

    def write(self, chunk: Chunk, outcome: Outcome) -> None:
        try:
            if not self.keys:
                self.folder.make()
                with self.folder.writing(RUN) as file:
                    file.write(json.dumps({"setting": asdict(chunk.setting), "headwater": __version__}).encode())
            with self.folder.writing(chunk.key + SUFFIX) as file:
                file.write(encode(chunk.key, outcome))
        except OSError as error:
            raise ResultsError(
                f"{self.folder}: {chunk} cannot be written: {error.strerror or error}; the {len(self.keys)} chunks there are "
                "kept: make room, and go on with --resume"
            ) from None
        self.keys.add(chunk.key)

    def clear(self) -> None:
        """Remove all chunks, and what is left of those half written; nothing else that may be there."""
        try:
            self.folder.remove(*(name for name in self.folder.names() if name.endswith((SUFFIX, DRAFT)) or name == RUN))
            self.folder.drop()
        except OSError as error:
            raise ResultsError(f"{self.folder}: cannot be removed: {error.strerror or error}") from None
        self.keys.clear()


def encode(key: str, outcome: Outcome) -> bytes:
    """A chunk's file: a mark, a digest, and the arrays as numpy writes them."""
    buffer = BytesIO()
    np.savez_compressed(buffer, **outcome._asdict())
    body = buffer.getvalue()
    return MAGIC + _digest(key, body) + b"\n" + body


def decode(key: str, data: bytes) -> Outcome | None:
    """The arrays of a chunk's file; None where it is not whole or not this chunk's."""
    digest, _, body = data.removeprefix(MAGIC).partition(b"\n")
    if not data.startswith(MAGIC) or digest != _digest(key, body):
        return None
    with np.load(BytesIO(body), allow_pickle=False) as arrays:
        return Outcome(**{name: arrays[name] for name in Outcome._fields})


def _digest(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + body).hexdigest().encode()
