"""HTML pages, self-contained: they need no network and no other file."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path

from headwater.paper import SEED, TWO_ARMS, Panel, walkthrough
from headwater.report.analysis_data import analysis_figure
from headwater.report.draw import draw_analysis, draw_overview, draw_regret, save
from headwater.report.interactive import plotly_regret
from headwater.report.regret_data import regret_figure
from headwater.report.style import short
from headwater.simulation import Simulation

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --yes: #00795a; --no: #b54700; }
@media (prefers-color-scheme: dark) { :root { --yes: #4fd1a5; --no: #ffab70; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1.5rem; max-width: 68rem; }
img { width: 100%; min-width: 38rem; height: auto; background: #fff; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0 1.2rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
section { margin: 2.5rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; }
.yes { color: var(--yes); font-weight: 600; }
.no { color: var(--no); font-weight: 600; }
.wide { overflow-x: auto; }
.plotly-graph-div { background: #fff; border-radius: 6px; }
.number { white-space: nowrap; text-align: right; }
.wide td:first-child { min-width: 9rem; }
.note { border-left: 3px solid var(--line); padding-left: .8rem; }
"""


def write_page(panels: Sequence[Panel], output: Path) -> Path:
    """Write the page about the paper, a PNG and an SVG per figure, and the data; returns where the page is."""
    figures = output / "figures"
    sections = []
    for panel in panels:
        drawing = draw_analysis(analysis_figure(panel.case.problem, panel.analysis, panel.case.problem.distribution))
        for suffix in (".png", ".svg"):
            save(drawing, figures / (panel.case.id + suffix))
        if panel.simulation is not None:
            panel.simulation.save(output / "data" / panel.case.id, command="headwater reproduce", overwrite=True)
            regret = draw_regret(regret_figure(panel.simulation, panel.case.title))
            for suffix in (".png", ".svg"):
                save(regret, figures / (panel.case.id + "-regret" + suffix))
        sections.append(_section(panel, (figures / f"{panel.case.id}.svg").read_text(encoding="utf-8")))
    runs = [regret_figure(panel.simulation, panel.case.problem.name) for panel in panels if panel.simulation is not None]
    if runs:
        save(draw_overview(runs), figures / "overview.png")
    numbers = {panel.case.id: panel.to_dict() for panel in panels}
    (output / "numbers.json").write_text(json.dumps(numbers, indent=2, allow_nan=False), encoding="utf-8")
    page = output / "index.html"
    page.write_text(_paper_page(panels, sections), encoding="utf-8")
    return page


def write_report(simulations: Sequence[Simulation], path: Path) -> None:
    """Write one page about any saved simulations."""
    body = "<h1>Simulations</h1>"
    for n, run in enumerate(simulations):
        title = html.escape(run.problem.name or f"simulation {n + 1}")
        about = f"{run.replications:,} runs of {run.horizon:,} rounds, seed {run.seed}, B = {run.reward_range:g}."
        body += f"<section><h2>{title}</h2><p>{about}</p>{_regret(run, f'regret-{n}')}</section>"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_document("Simulations", body), encoding="utf-8")


def _document(title: str, body: str) -> str:
    from plotly.offline import get_plotlyjs

    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><script>{get_plotlyjs()}</script>{body}</html>"
    )


def _paper_page(panels: Sequence[Panel], sections: Sequence[str]) -> str:
    checks = [check for panel in panels for check in panel.checks]
    agree = sum(check.agrees for check in checks)
    links = " ".join(f"<a href='#{html.escape(p.case.id)}'>{html.escape(p.case.problem.name)}</a>" for p in panels)
    seconds = sum(panel.simulation.seconds for panel in panels if panel.simulation is not None)
    body = (
        "<h1>The paper, computed</h1>"
        "<p>Every problem of <em>Correlated Multi-armed Bandits with a Latent Random Source</em>, analysed and simulated by "
        f"headwater in {seconds:.0f} seconds. {agree} of {len(checks)} statements agree with the computation; each difference "
        "is shown where it stands. Bands are 95 % intervals of the mean; all policies of a panel see the same draws of X "
        f"(seed {SEED}).</p>"
        f"<nav>{links}</nav>{_summary(panels)}{''.join(sections)}"
    )
    return _document("Correlated bandits with a latent source: the paper, computed", body)


def _summary(panels: Sequence[Panel]) -> str:
    """Mean regret at the horizon, a row per case."""
    names = list(dict.fromkeys(name for p in panels if p.simulation for name in p.simulation.outcomes))
    if not names:
        return ""
    rows = ""
    for panel in panels:
        if panel.simulation is None:
            continue
        cells = ""
        for name in names:
            regret = panel.simulation.regret(name)[:, -1]
            error = float(regret.std(ddof=1)) / len(regret) ** 0.5
            cells += f"<td class=number>{short(regret.mean())} <small>± {error:.2g}</small></td>"
        link = f"<a href='#{panel.case.id}'>{html.escape(panel.case.title)}</a>"
        rows += f"<tr><td>{link}</td><td class=number>{panel.simulation.horizon:,}</td>{cells}</tr>"
    heads = "".join(f"<th class=number>{html.escape(name)}</th>" for name in names)
    return f"<div class=wide><table><tr><th>mean regret</th><th class=number>rounds</th>{heads}</tr>{rows}</table></div>"


def _section(panel: Panel, svg: str) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(check.claim)}</td><td>{html.escape(check.computed)}</td>"
        f"<td class={'yes' if check.agrees else 'no'}>{'yes' if check.agrees else 'no'}</td></tr>"
        for check in panel.checks
    )
    note = f"<p class=note>{html.escape(panel.case.note)}</p>" if panel.case.note else ""
    picture = base64.b64encode(svg.encode()).decode()
    title = html.escape(panel.case.title)
    regret = "" if panel.simulation is None else _regret(panel.simulation, f"regret-{panel.case.id}")
    steps = _walkthrough() if panel.case is TWO_ARMS else ""
    return (
        f"<section id='{html.escape(panel.case.id)}'><h2>{title}</h2>"
        f"<div class=wide><img alt='Reward functions and pseudo-gaps: {title}' "
        f"src='data:image/svg+xml;base64,{picture}'></div>{regret}"
        f"<div class=wide><table><tr><th>The paper says</th><th>Computed</th><th>Agrees?</th></tr>{rows}</table></div>"
        f"{note}{steps}<p>{html.escape(panel.analysis.advice)}</p></section>"
    )


def _walkthrough() -> str:
    """The two-arm example, round by round."""
    rows = "".join(
        f"<tr><td>{step.round}</td><td>{step.reward:g}</td><td>{step.mean:.3f}</td><td>{step.pseudo_reward:.3f}</td>"
        f"<td>{html.escape(step.verdict)}</td></tr>"
        for step in walkthrough()
    )
    return (
        "<h3>Step by step</h3><p>Ten pulls of arm 1, and what each says about arm 2, which is never pulled here.</p>"
        "<div class=wide><table><tr><th>pull</th><th>arm 1 pays</th><th>arm 1's mean</th>"
        f"<th>arm 2's empirical pseudo-reward</th><th>so arm 2 is</th></tr>{rows}</table></div>"
    )


def _regret(run: Simulation, element: str) -> str:
    """The regret curves, and a table of regret and pulls at the horizon."""
    figure = plotly_regret(regret_figure(run))
    plot = figure.to_html(
        full_html=False, include_plotlyjs=False, div_id=element, config={"displayModeBar": False, "responsive": True}
    )
    arms = run.problem.names[:8]
    rows = ""
    for name, row in run.to_dict()["policies"].items():
        pulls = "".join(f"<td class=number>{row['pulls_mean'][arm]:,.1f}</td>" for arm in arms)
        spread = f"{short(row['regret_p05'][-1])} – {short(row['regret_p95'][-1])}"
        mean = f"{short(row['regret_mean'][-1])} ± {row['regret_se'][-1]:.2g}"
        rows += (
            f"<tr><td>{html.escape(name)}</td><td class=number>{row['replications']:,}</td><td class=number>{mean}</td>"
            f"<td class=number>{spread}</td>{pulls}</tr>"
        )
    heads = "".join(f"<th class=number>pulls of {html.escape(arm)}</th>" for arm in arms)
    return (
        f"{plot}<div class=wide><table><tr><th>policy</th><th class=number>runs</th><th class=number>mean regret at "
        f"{run.horizon:,}</th><th class=number>5 % – 95 % of runs</th>{heads}</tr>{rows}</table></div>"
    )
