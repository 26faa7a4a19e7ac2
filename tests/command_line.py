"""The command line called from a test, as if it had been typed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from headwater import cli


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """What the fixture ``run`` gives."""
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["headwater", *map(str, arguments)])
        status = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return call
