"""Take the pictures of docs/service.md: the demo campaign and the studio, in a real browser.

python benchmarks/screenshots.py        # needs playwright and Chromium; about a minute once everything is compiled
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
WAIT = 120.0


def main() -> None:
    chromium = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if chromium is None:
        sys.exit("no Chromium here: install it first")
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "headwater", "serve", "--demo", "--port", "0", "--database", f"{folder}/demo.db"]
        server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            address = next(found for line in server.stderr if (found := re.search(r"http://\S+/login#key=\S+", line)))[0]
            time.sleep(WAIT)  # visitors of the past and some of now
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
                page = browser.new_page(viewport={"width": 1280, "height": 1000})
                page.goto(address)
                page.wait_for_url("**/")
                page.goto(address.split("/login")[0] + "/campaigns/demo")
                page.wait_for_timeout(12_000)  # a report takes a moment
                page.screenshot(path=FIGURES / "campaign.png")
                page.goto(address.split("/login")[0] + "/studio")
                page.get_by_role("button", name="Race").click()
                page.wait_for_timeout(8_000)
                page.screenshot(path=FIGURES / "studio.png", full_page=True)
                browser.close()
        finally:
            server.terminate()
            server.wait(timeout=30)


if __name__ == "__main__":
    main()
