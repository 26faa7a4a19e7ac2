"""Draw docs/figures/horizon.png and write the README's words about it: the same runs as ``headwater reproduce`` makes.

Run ``.venv/bin/python benchmarks/long_runs.py``; under a minute.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from headwater.horizons import long_runs
from headwater.report.draw import draw_long_runs, save
from headwater.report.long_run import long_figures, sentences

ROOT = Path(__file__).parent.parent
START, END = "<!-- benchmarks/long_runs.py writes this -->\n", "<!-- until here -->"


def readme(text: str, words: str) -> str:
    """The README with the paragraph between its marks replaced."""
    before, _, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"README.md: expected a paragraph between {START.strip()} and {END}")
    return f"{before}{START}{textwrap.fill(f'*{words}*', 140, break_on_hyphens=False)}\n{END}{after}"


def main() -> None:
    runs = long_runs()
    save(draw_long_runs(long_figures(runs)), ROOT / "docs" / "figures" / "horizon.png")
    words = " ".join(sentences(runs))
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text(encoding="utf-8"), words), encoding="utf-8")
    print(words)


if __name__ == "__main__":
    main()
