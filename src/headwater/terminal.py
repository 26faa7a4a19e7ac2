"""Standard output and standard error as they are found: closed, full, or in an encoding that lacks what we would write.

What is printed is a result, so what cannot be printed ends the program. Messages are not: what nobody hears changes nothing.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from headwater.errors import HeadwaterError

_PLAIN = {
    "…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "±": "+-", "→": "->", "≤": "<=", "≥": ">=", "²": "^2",
    "³": "^3", "“": '"', "”": '"', "‘": "'", "’": "'", "φ": "phi", "π": "pi", "µ": "u", "μ": "mu", "Δ": "Delta",
    "ℓ": "l", "∞": "infinity", "√": "sqrt",
}  # fmt: skip
UNREAD = 1
"""The exit status where whoever read our output has stopped, as ``head`` does."""


class Stream:
    """A text stream that takes every character, and says in words what goes wrong where what it writes is ``needed``."""

    def __init__(self, inner: TextIO, *, needed: bool) -> None:
        self._inner, self._needed = inner, needed

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # typer would write there, in an encoding that it likes better
            raise AttributeError(name)
        return getattr(self._inner, name)

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # so typer asks whether this is a stream of bytes
            raise TypeError(f"got {type(text).__name__}; expected a text")
        if text:  # of none a full disk complains, too, and typer would not hear it
            self._attempt(lambda: self._inner.write(writable(text, self._inner.encoding)))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._inner.flush)

    def _attempt(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except OSError as error:
            if self._needed and isinstance(error, BrokenPipeError):
                sys.exit(UNREAD)
            if self._needed:
                raise HeadwaterError(f"standard output cannot be written: {error.strerror or error}") from None

    def settle(self) -> None:
        """Where it cannot be written, what it holds goes nowhere: Python would try again, and fail, as the program ends."""
        try:
            self._inner.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._inner.fileno())
            os.close(nowhere)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Print through streams that take every character, and say things to nobody where there is no standard error."""
    out, err = sys.stdout, _nowhere() if sys.stderr is None else sys.stderr
    streams = [Stream(err, needed=False)] if out is None else [Stream(err, needed=False), Stream(out, needed=True)]
    sys.stderr, sys.stdout = cast(list[TextIO | None], [*streams, None][:2])
    try:
        yield
    finally:
        for stream in streams:
            stream.settle()
        sys.stdout, sys.stderr = out, err


def need_output() -> None:
    """Refuse to begin without standard output: the first file opened would take its place, and get what libraries print."""
    if sys.stdout is None:
        raise HeadwaterError("standard output is closed; expected it to be open (> /dev/null throws away what is printed)")


def _nowhere() -> TextIO:
    """A standard error that goes nowhere, in the place of a closed one, so that no other file comes to stand there."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != 2:
        os.dup2(nowhere, 2)
        os.close(nowhere)
    return open(2, "w", encoding="utf-8", closefd=False)


def writable(text: str, encoding: str | None) -> str:
    """``text`` without what an encoding lacks: readable signs instead, and for letters of other scripts their numbers.

    >>> writable("φ is 3 ± 1 for é…", "ascii"), writable("é – 価", "latin-1")
    ('phi is 3 +- 1 for e...', 'é - \\\\u4fa1')
    """
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_instead(char, encoding) for char in text)
    return text


def _instead(char: str, encoding: str) -> str:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        bare = "".join(part for part in unicodedata.normalize("NFKD", char) if not unicodedata.combining(part))
        return _PLAIN.get(char) or (bare if bare.isascii() else char.encode("ascii", "backslashreplace").decode())
    return char
