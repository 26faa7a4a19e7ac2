"""How scalar functions and kernels become machine code, and where that code is kept between processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

_F = TypeVar("_F", bound=Callable[..., Any])


def _cache_folder() -> str:
    """Where compiled code is kept: a folder per version of the sources, or nothing where no folder can be written.

    numba looks only at the file a function stands in, so a change to the scalar functions would go unnoticed.
    """
    package = Path(__file__).parent.parent
    modules = [*sorted((package / "policies").glob("*.py")), *sorted((package / "simulation").glob("*.py"))]
    sources = [path.read_bytes() for path in modules]
    kernels = [text for text in sources if b"policies.compile import" in text]
    others = ("streams.py", "policies/indices.py", "policies/compile.py", "policies/address.py")
    fixed = [(package / name).read_bytes() for name in others]
    digest = hashlib.sha256(b"".join([*fixed, *kernels])).hexdigest()[:16]
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "headwater" / f"compiled-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder) if os.access(folder, os.W_OK) else ""


_CACHE = _cache_folder()
_DONE: dict[Callable[..., Any], Any] = {}


def compiled(function: _F) -> _F:
    """Compile for the CPU, cached on disk. IEEE arithmetic: no fastmath, and division by zero is not an error.

    Such a function makes no array and returns none, and in return counts no references: two atomic operations for every array
    of every call would take longer than most calls (measured: 27 ns against 2 with five arrays). A scalar function that several
    modules ask for is compiled once.
    """
    return _compile(function, counting=False)


def allocating(function: _F) -> _F:
    """As ``compiled``, for the outermost functions, which make the arrays that the others work on."""
    return _compile(function, counting=True)


def _compile(function: _F, *, counting: bool) -> _F:
    if function in _DONE:
        return cast(_F, _DONE[function])
    before = getattr(numba_config, "CACHE_DIR", "")
    setattr(numba_config, "CACHE_DIR", _CACHE)  # noqa: B010 - read while decorating; other users of numba keep their own
    try:
        options: dict[str, Any] = {"_nrt": counting}  # numba's own name for it, which its type hints leave out
        _DONE[function] = numba.njit(nogil=True, error_model="numpy", cache=bool(_CACHE), **options)(function)
        return cast(_F, _DONE[function])
    finally:
        setattr(numba_config, "CACHE_DIR", before)  # noqa: B010


def inlined(function: _F) -> _F:
    """Compile into the caller before LLVM sees it: a call, even a tiny one, keeps a loop from vectorising."""
    return cast(_F, numba.njit(nogil=True, error_model="numpy", inline="always")(function))
