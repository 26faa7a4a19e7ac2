"""One HTML page about an evaluation: what came out in plain words, then the pictures and tables it rests on."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headwater.evaluation import Evaluation, LogEvaluation
from headwater.evaluation.calibration import LawCalibration
from headwater.evaluation.replay import Market
from headwater.report import evaluation_draw as draw
from headwater.report.page import document, embedded, regret_section
from headwater.report.style import rough, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PARTS = {"populations": "populations", "stated": "is what was stated so?", "guard": "how wrong may the model be?"}


def write_evaluation(found: Evaluation | LogEvaluation, path: Path) -> None:
    """Write the page, whole: it needs no other file."""
    body = _people_body(found) if isinstance(found, Evaluation) else _log_body(found)
    path.write_text(document("Does it hold?", body), encoding="utf-8")


def _people_body(found: Evaluation) -> str:
    run = found.markets[0].simulation
    who = "known" if found.segments_known else "inferred from each person's own rewards"
    about = (
        f"<p>{found.people:,} held-out people of {html.escape(found.about.label)}, each with a reward for every one of "
        f"{len(found.problem.names)} arms; their segments are {who}. Policies that believe {_name(found)} were replayed "
        f"against the real rewards: {run.replications:,} runs of {run.horizon:,} rounds in each population, seed {run.seed}. "
        "Regret is against the arm that is best there by the real rewards.</p>"
    )
    parts = {"populations": True, "stated": found.channels is not None or bool(found.laws), "guard": bool(found.guard)}
    links = " ".join(f"<a href='#{key}'>{_PARTS[key]}</a>" for key, there in parts.items() if there)
    return (
        f"<h1>Does it hold on held-out people?</h1>{about}{_sentences(found.findings(), found.warnings())}<nav>{links}</nav>"
        "<section id=populations><h2>Populations</h2>"
        f"{_picture(draw.draw_markets(found.markets), 'Regret in every population')}"
        f"{_markets_table(found)}{''.join(_market(market, n) for n, market in enumerate(found.markets))}</section>"
        f"{_stated(found)}{_guard(found)}"
    )


def _name(found: Evaluation | LogEvaluation) -> str:
    return html.escape(found.problem.name or "the learned problem")


def _sentences(findings: Sequence[str], warnings: Sequence[str]) -> str:
    said = "".join(f"<li>{html.escape(line)}</li>" for line in findings)
    shaky = "".join(f"<li>{html.escape(line)}</li>" for line in warnings)
    return f"<ul>{said}</ul>" + (f"<div class=note><strong>Shaky</strong><ul>{shaky}</ul></div>" if shaky else "")


def _picture(figure: Figure, alt: str, *, fits: bool = False) -> str:
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None})
    image = f"<img{' class=fits' if fits else ''} alt='{html.escape(alt)}' src='{embedded(target.getvalue())}'>"
    return image if fits else f"<div class=wide>{image}</div>"


def _markets_table(found: Evaluation) -> str:
    heads = "".join(f"<th class='number word'>{html.escape(name)}</th>" for name in found.policies)
    rows = ""
    for market in found.markets:
        names = market.simulation.problem.names
        model = names[int(np.argmax(market.modelled))]
        best, verdict = names[market.best], "yes" if model == names[market.best] else "no"
        cells = "".join(_regret_cell(market, name) for name in found.policies)
        rows += (
            f"<tr><td>{html.escape(market.population.name)}</td><td class=number>{market.population.effective:,.0f}</td>"
            f"<td class=word>{html.escape(best)}</td><td class='word {verdict}'>{html.escape(model)}</td>{cells}</tr>"
        )
    return (
        "<p>The population counts for as many equally weighted people as the second column says. The model's best arm is what "
        "the learned channels name when told the true mix.</p>"
        "<div class=wide><table><tr><th>population</th><th class=number>people</th><th>best arm</th><th>the model's</th>"
        f"{heads}</tr>{rows}</table></div><p class=caption>Mean regret at the horizon ± its standard error.</p>"
    )


def _regret_cell(market: Market, name: str) -> str:
    regret = market.simulation.regret(name)[:, -1]
    error = float(regret.std(ddof=1)) / len(regret) ** 0.5 if len(regret) > 1 else 0.0
    return f"<td class=number>{short(regret.mean())} <small>± {rough(error)}</small></td>"


def _market(market: Market, n: int) -> str:
    """The curves and pulls of one population, folded away."""
    return (
        f"<details><summary>{html.escape(market.population.name)}: curves and pulls</summary>"
        f"{regret_section(market.simulation, f'market-{n}', None)}</details>"
    )


def _stated(found: Evaluation) -> str:
    if found.channels is None and not found.laws:
        return ""
    parts = ""
    if found.channels is not None:
        rows = "".join(
            f"<tr><td>{html.escape(arm.name)}</td><td class=number>{arm.cells.mean():.0%}</td>"
            f"<td class=number>{arm.means.mean():.0%}</td></tr>"
            for arm in found.channels.arms
        )
        parts += (
            "<h3>The learned channels</h3><p>Each dot is one arm's mean reward in one segment: as learned, and among held-out "
            "people of that segment. It holds if the two differ by no more than both margins together.</p>"
            f"{_picture(draw.draw_calibration(found.channels), 'Learned and held-out means', fits=True)}"
            "<div class=wide><table><tr><th>arm</th><th class=number>cells that hold</th><th class=number>means that hold</th>"
            f"</tr>{rows}</table></div>"
        )
    if found.laws:
        rows = "".join(
            f"<tr><td>{html.escape(law.population)}</td>{law_cells(law)}"
            f"<td class=number>{law.contradicted:.0%}</td><td class=number>{law.doubted:.0%}</td></tr>"
            for law in found.laws
        )
        law = found.laws[0]
        parts += (
            f"<h3>The inferred mix</h3><p>What auto says of each segment's share after {law.rounds:,} rounds, at "
            f"{law.confidence:.0%} confidence, held against the true mix in {law.runs} runs of each population: intervals for "
            "each segment by itself at that moment, and for all segments at once. Where no mix fits the rewards none are "
            "stated, and such runs are counted apart.</p>"
            f"{_picture(draw.draw_laws(found.laws, ()), 'True and inferred shares', fits=True)}"
            "<div class=wide><table><tr><th>population</th><th class=number>for each, hold</th><th class=number>mean width"
            "</th><th class=number>for all, hold</th><th class=number>no mix fits</th><th class=number>guard spoke</th></tr>"
            f"{rows}</table></div>"
        )
    return f"<section id=stated><h2>Is what was stated so?</h2>{parts}</section>"


def law_cells(law: LawCalibration) -> str:
    """What one population's intervals came to; dashes where none was stated."""
    if not law.stated:
        return "<td class=number>–</td>" * 3
    return (
        f"<td class=number>{law.held:.0%}</td><td class=number>{law.width.mean():.2f}</td>"
        f"<td class=number>{law.all_inside:.0%}</td>"
    )


def _guard(found: Evaluation) -> str:
    if not found.guard:
        return ""
    rows = "".join(
        f"<tr><td class=number>{degree.degree:.0%}</td><td class=number>{short(degree.harm)}</td>"
        f"<td class=number>{degree.spoke:.0%}</td>"
        f"<td class=number>{short(degree.regret)} <small>± {rough(degree.regret_se)}</small></td>"
        f"<td class=number>{short(degree.trusting)} <small>± {rough(degree.trusting_se)}</small></td>"
        f"<td class=number>{short(degree.ucb1)}</td></tr>"
        for degree in found.guard
    )
    return (
        "<section id=guard><h2>How wrong may the model be?</h2><p>What the model says of the arm that is truly best is turned "
        f"round by degrees, in the population “{html.escape(found.markets[0].population.name)}”; the people stay as they are. "
        "The second column is what each round would cost if the model were believed for ever; a policy that trusts it has "
        "neither guard nor audit nor tolerance.</p>"
        f"{_picture(draw.draw_guard(found.guard), 'Regret and the guard by how wrong the model is', fits=True)}"
        "<div class=wide><table><tr><th class=number>turned round</th><th class=number>harm a round</th>"
        "<th class=number>guard spoke</th><th class=number>regret of auto</th><th class=number>trusting</th>"
        f"<th class=number>ucb1</th></tr>{rows}</table></div></section>"
    )


def _log_body(found: LogEvaluation) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(row.choice)}</td><td>{row.method}</td><td class=number>{row.value:.4g}</td>"
        f"<td class=number>{row.low:.4g} – {row.high:.4g}</td><td class=number>{row.effective:,.0f}</td></tr>"
        for row in found.estimates.rows
    )
    about = (
        f"<p>{found.events:,} events of {html.escape(found.about.label)}, which paid {found.logged_mean:.4g} on average, held "
        f"against {_name(found)}.</p>"
    )
    estimates = (
        "<section><h2>Choices the log did not make</h2>"
        f"{_picture(draw.draw_estimates(found.estimates.rows, found.logged_mean), 'Estimates of fixed choices', fits=True)}"
        "<div class=wide><table><tr><th>choice</th><th>method</th><th class=number>mean reward</th><th class=number>95 %</th>"
        f"<th class=number>effective events</th></tr>{rows}</table></div>"
        f"<p class=caption>{html.escape(found.intervals_in_words())}</p></section>"
    )
    return f"<h1>What the log says</h1>{about}{_sentences(found.findings(), found.warnings())}{estimates}{_log_replay(found)}"


def _log_replay(found: LogEvaluation) -> str:
    if found.replay is None:
        return ""
    told = found.replay.to_dict()
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td class=number>{row['mean_reward'][-1]:.4g}</td>"
        f"<td class=number>{row['low'][-1]:.4g} – {row['high'][-1]:.4g}</td></tr>"
        for name, row in told["policies"].items()
    )
    return (
        f"<section><h2>Policies replayed on it</h2><p>{told['runs']} runs of {int(found.replay.rounds[-1]):,} rounds, each on "
        f"its own part of the {told['kept']:,} events that are left once every arm is equally likely.</p>"
        f"{_picture(draw.draw_log_replay(found.replay), 'Mean reward of replayed policies', fits=True)}"
        "<div class=wide><table><tr><th>policy</th><th class=number>mean reward a round</th><th class=number>95 %</th></tr>"
        f"{rows}</table></div><p class=caption>Student's intervals over runs, nowhere narrower than those of as many "
        "independent rewards.</p></section>"
    )
