"""One HTML page about the paper, self-contained: it needs no network and no other file."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path

from headwater.paper import Panel
from headwater.report.analysis_data import analysis_figure
from headwater.report.draw import draw_analysis, save

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --yes: #00795a; --no: #b54700; }
@media (prefers-color-scheme: dark) { :root { --yes: #4fd1a5; --no: #ffab70; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1.5rem; max-width: 68rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0 1.2rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
section { margin: 2.5rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; }
.yes { color: var(--yes); font-weight: 600; }
.no { color: var(--no); font-weight: 600; }
.note { border-left: 3px solid var(--line); padding-left: .8rem; }
"""


def write_page(panels: Sequence[Panel], output: Path) -> Path:
    """Write the page, a PNG and an SVG per case, and the numbers as JSON; returns where the page is."""
    figures = output / "figures"
    sections = []
    for panel in panels:
        figure = draw_analysis(analysis_figure(panel.case.problem, panel.analysis, panel.case.problem.distribution))
        for suffix in (".png", ".svg"):
            save(figure, figures / (panel.case.id + suffix))
        sections.append(_section(panel, (figures / f"{panel.case.id}.svg").read_text(encoding="utf-8")))
    numbers = {panel.case.id: panel.to_dict() for panel in panels}
    (output / "analysis.json").write_text(json.dumps(numbers, indent=2, allow_nan=False), encoding="utf-8")
    page = output / "index.html"
    page.write_text(_page(panels, sections), encoding="utf-8")
    return page


def _page(panels: Sequence[Panel], sections: Sequence[str]) -> str:
    checks = [check for panel in panels for check in panel.checks]
    agree = sum(check.agrees for check in checks)
    links = " ".join(f"<a href='#{html.escape(p.case.id)}'>{html.escape(p.case.id)}</a>" for p in panels)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>Correlated bandits with a latent source: the paper, computed</title><style>{_STYLE}</style>"
        "<h1>The paper, computed</h1>"
        f"<p>Every problem of <em>Correlated Multi-armed Bandits with a Latent Random Source</em>, analysed by headwater. "
        f"{agree} of {len(checks)} statements agree with the computation; each difference is shown.</p>"
        f"<nav>{links}</nav>{''.join(sections)}</html>"
    )


def _section(panel: Panel, svg: str) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(check.claim)}</td><td>{html.escape(check.computed)}</td>"
        f"<td class={'yes' if check.agrees else 'no'}>{'yes' if check.agrees else 'no'}</td></tr>"
        for check in panel.checks
    )
    note = f"<p class=note>{html.escape(panel.case.note)}</p>" if panel.case.note else ""
    picture = base64.b64encode(svg.encode()).decode()
    title = html.escape(panel.case.title)
    return (
        f"<section id='{html.escape(panel.case.id)}'><h2>{title}</h2>"
        f"<img alt='Reward functions and pseudo-gaps: {title}' src='data:image/svg+xml;base64,{picture}'>"
        f"<table><tr><th>The paper says</th><th>Computed</th><th>Agrees?</th></tr>{rows}</table>"
        f"{note}<p>{html.escape(panel.analysis.advice)}</p></section>"
    )
