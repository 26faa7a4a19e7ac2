"""A real Chromium for tests of pages: found on this machine, watched for anything that goes wrong in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import service_tools

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENT = 1000 * service_tools.PATIENT
"""Milliseconds that a page may take for anything."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "no browser: none of chromium, chromium-browser and google-chrome is in PATH"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser until the ``with`` block ends; skipped, loudly, where there is none."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser tests: playwright is not installed")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


def watched(page: Page, address: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """What goes wrong in a page from now on: errors, warnings and requests to anybody but ``address``.

    ``allowed``: parts of the messages that a test expects, as a refusal that the browser notes in its console.
    """
    trouble: list[str] = []

    def note(text: str) -> None:
        if not any(part in text for part in allowed):
            trouble.append(text)

    page.on("console", lambda message: note(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: note(str(error)))
    page.on("request", lambda request: note(request.url) if not request.url.startswith((address, "blob:")) else None)
    return trouble


@contextmanager
def opened(
    browser: Browser, address: str, path: str, *, allowed: tuple[str, ...] = (), ready: str = "body[data-ready]", **options: Any
) -> Iterator[Page]:
    """A page, ready; afterwards, that nothing went wrong in it and that it asked nobody else for anything."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENT)
    trouble = watched(page, address, allowed)
    page.goto(address + path)
    page.wait_for_selector(ready)
    yield page
    context.close()
    assert trouble == []


def expect(found: Any) -> Any:
    """What must come to be true of something on a page, on however busy a machine."""
    from playwright.sync_api import expect as expected

    expected.set_options(timeout=PATIENT)
    return expected(found)
