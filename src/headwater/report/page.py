"""HTML pages, self-contained: they need no network and no other file."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.claims import Check
from headwater.horizons import LongRun
from headwater.paper import LEARNERS, OTHERS, POLICIES, SEED, TWO_ARMS, Panel, learners, walkthrough
from headwater.proofs import Proofs
from headwater.regret_bounds import Bounds
from headwater.report.analysis_data import analysis_figure
from headwater.report.draw import draw_analysis, draw_long_runs, draw_overview, draw_regret, save
from headwater.report.interactive import plotly_regret
from headwater.report.limits import limits, sentences
from headwater.report.long_run import long_figures, long_section
from headwater.report.paper_draw import draw_framework, draw_shrinking
from headwater.report.proofs_page import checks_table, framework_section, theorems_section
from headwater.report.regret_data import RegretFigure, regret_figure
from headwater.report.style import FAMILIES, Look, rough, short
from headwater.report.theorems import theorem_sentences
from headwater.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --yes: #00795a; --no: #b54700; }
@media (prefers-color-scheme: dark) { :root { --yes: #4fd1a5; --no: #ffab70; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1.5rem; max-width: 68rem; }
img { width: 100%; min-width: 38rem; height: auto; background: #fff; border-radius: 6px; }
img.fits { display: block; min-width: 0; max-width: 46rem; margin: 1rem auto; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0 1.2rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
section { margin: 2.5rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; }
.yes { color: var(--yes); font-weight: 600; }
.no { color: var(--no); font-weight: 600; }
.wide { overflow-x: auto; }
.plotly-graph-div { background: #fff; border-radius: 6px; }
.word { white-space: nowrap; }
.number { white-space: nowrap; text-align: right; }
th.number:not(.word) { white-space: normal; }
.wide td:first-child { min-width: 9rem; }
.caption { font-size: .9rem; opacity: .85; margin: .4rem 0; }
.family { font-size: .85rem; font-weight: 600; opacity: .75; padding-top: .8rem; }
.swatch { width: 26px; height: 10px; margin-right: .5rem; background: #fff; border-radius: 2px; }
summary { cursor: pointer; font-weight: 600; }
.note { border-left: 3px solid var(--line); padding-left: .8rem; }
"""


def write_page(panels: Sequence[Panel], output: Path, long_runs: Sequence[LongRun] = (), proofs: Proofs | None = None) -> Path:
    """Write the page about the paper, a PNG and an SVG per figure, and the data; returns where the page is."""
    figures = output / "figures"
    sections = []
    for panel in panels:
        drawing = draw_analysis(analysis_figure(panel.case.problem, panel.analysis, panel.case.problem.distribution))
        for suffix in (".png", ".svg"):
            save(drawing, figures / (panel.case.id + suffix))
        if panel.simulation is not None:
            panel.simulation.save(output / "data" / panel.case.id, command="headwater reproduce", overwrite=True)
            regret = draw_regret(regret_figure(panel.simulation, panel.case.title, limits=panel.bounds))
            for suffix in (".png", ".svg"):
                save(regret, figures / (panel.case.id + "-regret" + suffix))
        sections.append(_section(panel, (figures / f"{panel.case.id}.svg").read_text(encoding="utf-8")))
    runs = [
        regret_figure(panel.simulation, panel.case.problem.name, limits=panel.bounds)
        for panel in panels
        if panel.simulation is not None
    ]
    if runs:
        save(draw_overview(runs), figures / "overview.png")
    text = json.dumps(numbers(panels, long_runs, proofs), indent=2, allow_nan=False)
    (output / "numbers.json").write_text(text, encoding="utf-8")
    page = output / "index.html"
    first = _saved(draw_framework(), output, "framework")
    theorems = "" if proofs is None else theorems_section(panels, proofs, _saved(draw_shrinking(proofs.small), output, "gaps"))
    checks = [*(check for panel in panels for check in panel.checks), *(() if proofs is None else proofs.checks)]
    parts = [framework_section(first), _summary(panels), _past(panels), _long(long_runs, output), theorems, *sections]
    page.write_text(_paper_page(panels, checks, parts), encoding="utf-8")
    return page


def numbers(panels: Sequence[Panel], long_runs: Sequence[LongRun] = (), proofs: Proofs | None = None) -> dict[str, Any]:
    """Everything the page states, by the ids of cases; long runs under ``horizons``, what proofs rest on under ``proofs``."""
    out: dict[str, Any] = {panel.case.id: panel.to_dict() for panel in panels}
    out |= {"horizons": {run.case.id: run.to_dict() for run in long_runs}} if long_runs else {}
    return out | ({} if proofs is None else {"proofs": proofs.to_dict()})


def _saved(drawing: Figure, output: Path, name: str) -> str:
    """Write a picture into the folder of figures; returns it as an address that needs no file."""
    for suffix in (".png", ".svg"):
        save(drawing, output / "figures" / (name + suffix))
    return embedded((output / "figures" / f"{name}.svg").read_text(encoding="utf-8"))


def _long(runs: Sequence[LongRun], output: Path) -> str:
    """The section about long runs; writes its picture and data."""
    if not runs:
        return ""
    for run in runs:
        run.simulation.save(output / "data" / f"{run.case.id}-horizon", command="headwater reproduce", overwrite=True)
    return long_section(runs, _saved(draw_long_runs(long_figures(runs)), output, "horizon"))


def embedded(svg: str) -> str:
    """A picture as an address that needs no file."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def write_report(simulations: Sequence[Simulation], path: Path) -> None:
    """Write one page about any saved simulations."""
    body = "<h1>Simulations</h1>"
    for n, run in enumerate(simulations):
        title = html.escape(run.problem.name or f"simulation {n + 1}")
        about = f"{run.replications:,} runs of {run.horizon:,} rounds, seed {run.seed}, B = {run.reward_range:g}."
        body += f"<section><h2>{title}</h2><p>{about}</p>{regret_section(run, f'regret-{n}', limits(run.problem))}</section>"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document("Simulations", body), encoding="utf-8")


def document(title: str, body: str) -> str:
    """A page that needs no network: the style and plotly's script travel inside."""
    from plotly.offline import get_plotlyjs

    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style><script>{get_plotlyjs()}</script>{body}</html>"
    )


def _paper_page(panels: Sequence[Panel], checks: Sequence[Check], parts: Sequence[str]) -> str:
    agree = sum(check.agrees for check in checks)
    links = " ".join(f"<a href='#{html.escape(p.case.id)}'>{html.escape(p.case.problem.name)}</a>" for p in panels)
    seconds = sum(panel.simulation.seconds for panel in panels if panel.simulation is not None)
    body = (
        "<h1>The paper, computed</h1>"
        "<p>Every problem of <em>Correlated Multi-armed Bandits with a Latent Random Source</em>, analysed and simulated by "
        f"headwater in {seconds:.0f} seconds. {agree} of {len(checks)} statements agree with the computation; each difference "
        "is shown where it stands. Bands are 95 % intervals of the mean; all policies of a panel see the same draws of X "
        f"(seed {SEED}).</p>"
        f"<nav>{links} {_contents(parts)}</nav>{''.join(parts)}"
    )
    return document("Correlated bandits with a latent source: the paper, computed", body)


def _contents(parts: Sequence[str]) -> str:
    """Links to the sections that are there beside those of the cases."""
    words = {"model": "the model", "past": "past the paper", "long": "long runs", "theorems": "theorems"}
    return " ".join(
        f"<a href='#{id_}'>{word}</a>" for id_, word in words.items() if any(f"id={id_}>" in part for part in parts)
    )


def _summary(panels: Sequence[Panel]) -> str:
    """Mean regret at the horizon, a row per case: the paper's policies and other indices."""
    names = [*POLICIES, *OTHERS]
    rows = ""
    for panel in panels:
        if panel.simulation is None:
            continue
        cells = "".join(_mean_cell(panel.simulation, name) for name in names)
        rows += f"<tr><td>{_link(panel)}</td><td class=number>{panel.simulation.horizon:,}</td>{cells}</tr>"
    if not rows:
        return ""
    heads = "".join(f"<th class='number word'>{name}</th>" for name in names)
    return f"<div class=wide><table><tr><th>mean regret</th><th class=number>rounds</th>{heads}</tr>{rows}</table></div>"


def _link(panel: Panel) -> str:
    return f"<a href='#{panel.case.id}'>{html.escape(panel.case.title)}</a>"


def _mean_cell(run: Simulation, name: str) -> str:
    """The mean regret at the horizon with its standard error; a dash for a policy that was not run."""
    if name not in run.outcomes:
        return "<td class=number>–</td>"
    regret = run.regret(name)[:, -1]
    error = float(regret.std(ddof=1)) / len(regret) ** 0.5 if len(regret) > 1 else 0.0
    return f"<td class=number>{short(regret.mean())} <small>± {rough(error)}</small></td>"


def _past(panels: Sequence[Panel]) -> str:
    """What policies that learn the law of X gain over C-UCB, a row per case, beside the least regret possible."""
    rows = ""
    for panel in panels:
        if panel.simulation is None:
            continue
        run = panel.simulation
        if not learners(panel.case):
            continue
        mean = {name: float(run.regret(name)[:, -1].mean()) for name in ("c-ucb", *LEARNERS) if name in run.outcomes}
        best = min((name for name in mean if name != "c-ucb"), key=lambda name: mean[name])
        ratio = f"{mean[best] / mean['c-ucb']:.2f} <small>{best}</small>" if mean["c-ucb"] else "–"
        cells = "".join(_mean_cell(run, name) for name in ("c-ucb", *LEARNERS))
        constant = "–" if panel.bounds is None else short(panel.bounds.graves_lai)
        rows += (
            f"<tr><td>{_link(panel)}</td>{cells}<td class=number>{ratio}</td><td class=number>{constant}</td>"
            f"<td class=number>{panel.case.learners}</td></tr>"
        )
    if not rows:
        return ""
    heads = "".join(f"<th class='number word'>{name}</th>" for name in ("c-ucb", *LEARNERS))
    return (
        "<section id=past><h2>Past the paper</h2><p>C-UCB reads one arm at a time. These three policies read all counts at "
        "once, as evidence on the law of X: joint-ucb is optimistic over the laws that fit, latent-ts draws one of them, "
        "graves-lai explores at the rates of the lower bound. The last two need a listed support. Shown are mean regret at the "
        "horizon with its standard error, and the ratio to C-UCB's of the best of the three, picked after the fact. They have "
        "fewer runs (last column), because each of their decisions is dearer.</p>"
        f"<div class=wide><table><tr><th>mean regret</th>{heads}<th class=number>best ratio</th>"
        f"<th class=number>Graves–Lai constant</th><th class=number>runs</th></tr>{rows}</table></div>"
        "<p>The Graves–Lai constant C: no policy that is good for every law of X has regret below C log T in the long run. "
        "Where it is 0, bounded regret is possible. (The paper's own lower bound does not hold with more than two arms.)</p>"
        "</section>"
    )


def _section(panel: Panel, svg: str) -> str:
    said = theorem_sentences(panel.case.problem, panel.analysis, panel.bounds)
    theorems = "".join(f"<li>{html.escape(text)}</li>" for text in said)
    note = f"<p class=note>{html.escape(panel.case.note)}</p>" if panel.case.note else ""
    title = html.escape(panel.case.title)
    regret = "" if panel.simulation is None else regret_section(panel.simulation, f"regret-{panel.case.id}", panel.bounds)
    steps = _walkthrough() if panel.case is TWO_ARMS else ""
    return (
        f"<section id='{html.escape(panel.case.id)}'><h2>{title}</h2>"
        f"<div class=wide><img alt='Reward functions and pseudo-gaps: {title}' "
        f"src='{embedded(svg)}'></div>{regret}"
        f"{checks_table(panel.checks)}{note}{steps}<p>{html.escape(panel.analysis.advice)}</p>"
        f"<details><summary>What Theorems 1 to 5 say here</summary><ul>{theorems}</ul></details></section>"
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


def regret_section(run: Simulation, element: str, found: Bounds | None) -> str:
    """The regret curves, what the bound says, and a table of regret and pulls at the horizon: it is the legend, too."""
    data = regret_figure(run, limits=found)
    plot = plotly_regret(data).to_html(
        full_html=False, include_plotlyjs=False, div_id=element, config={"displayModeBar": False, "responsive": True}
    )
    arms, results = run.problem.names[:8], run.to_dict()["policies"]
    base = results["c-ucb"]["regret_mean"][-1] if "c-ucb" in results and len(results) > 1 else 0.0
    rows, family, columns = "", -1, 4 + bool(base) + len(arms)
    several = len({curve.look.family for curve in data.curves}) > 1
    for curve in data.curves:
        row = results[curve.policy]
        if several and curve.look.family != family:
            family = curve.look.family
            rows += f"<tr><th class=family colspan={columns}>{FAMILIES[family]}</th></tr>"
        pulls = "".join(f"<td class=number>{row['pulls_mean'][arm]:,.1f}</td>" for arm in arms)
        spread = f"{short(row['regret_p05'][-1])} – {short(row['regret_p95'][-1])}"
        mean = f"{short(row['regret_mean'][-1])} ± {rough(row['regret_se'][-1])}"
        ratio = f"<td class=number>{row['regret_mean'][-1] / base:.2f}</td>" if base else ""
        rows += (
            f"<tr><td>{_swatch(curve.look)}{html.escape(curve.policy)}</td><td class=number>{row['replications']:,}</td>"
            f"<td class=number>{mean}</td>{ratio}<td class=number>{spread}</td>{pulls}</tr>"
        )
    heads = "".join(f"<th class=number>pulls of<br>{html.escape(arm)}</th>" for arm in arms)
    against = "<th class=number>ratio to c-ucb</th>" if base else ""
    return (
        f"{plot}{_caption(run, data, found)}<div class=wide><table><tr><th>policy</th><th class=number>runs</th>"
        f"<th class=number>mean regret at {run.horizon:,}</th>{against}<th class=number>5 % – 95 % of runs</th>{heads}</tr>"
        f"{rows}</table></div>"
    )


def _swatch(look: Look) -> str:
    """A piece of a policy's curve, so that the table is a legend."""
    dashes = {"-": "", "--": " stroke-dasharray='6 3'", "-.": " stroke-dasharray='7 3 2 3'", ":": " stroke-dasharray='2 3'"}[
        look.dash
    ]
    return (
        "<svg class=swatch viewBox='0 0 26 10' aria-hidden=true>"
        f"<path d='M1 5h24' stroke='{look.colour}' stroke-width='{look.width:g}'{dashes}/></svg>"
    )


def _caption(run: Simulation, data: RegretFigure, found: Bounds | None) -> str:
    """What the line of the bound means, or why there is none."""
    if found is None or data.bound is None:
        return ""
    line = f"{data.bound.note}. "
    if data.bound.drawn:
        line = (
            "The dotted line is C log t, which would be 0 at round 1, from where the exploration it stands for fits in half of "
            "the rounds. It holds in the long run: only its slope means anything. "
        )
    words = " ".join(sentences(run.problem, found))
    return f"<p class=caption>{html.escape(line[0].upper() + line[1:] + words)}</p>"
