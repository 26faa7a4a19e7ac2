"""Ten thousand million rounds: what the picture shows, in words and as a table."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import replace

from headwater.horizons import LongRun
from headwater.report.limits import listing
from headwater.report.regret_data import RegretFigure, regret_figure
from headwater.report.style import rough, short


def long_figures(runs: Sequence[LongRun]) -> list[RegretFigure]:
    """The curves of each case, under a title of two short lines."""
    figures = []
    for run in runs:
        case, _, what = run.case.title.partition(": ")
        title = f"{case.rpartition(', ')[2]}\n{what}"
        figures.append(replace(regret_figure(run.simulation, limits=run.bounds), title=title))
    return figures


def sentences(runs: Sequence[LongRun]) -> list[str]:
    """What one sees, a sentence per case, and how many runs it took."""
    out = []
    for run in runs:
        case, horizon = run.case.problem.name.capitalize(), run.simulation.horizon
        end = run.simulation.regret("c-ucb")[:, -1]
        growth = {policy: run.growth(policy) for policy in ("ucb1", "c-ucb")}
        like = {policy: f"like {_with_error(g.slope, g.standard_error)} log t" for policy, g in growth.items()}
        since = f"from round {growth['ucb1'].since:,} on"
        if run.bounds.graves_lai == 0:
            error = float(end.std(ddof=1)) / len(end) ** 0.5
            added = growth["c-ucb"].slope * math.log(horizon / growth["c-ucb"].since)
            out.append(
                f"{case}: after {horizon:,} rounds C-UCB's regret is {_with_error(end.mean(), error)}, of which {short(added)} "
                f"came {since}, while UCB1's grew {like['ucb1']}."
            )
        else:
            least = f"the least that a good policy can have is {short(run.bounds.graves_lai)} log t"
            out.append(f"{case}: {since} regret grows {like['ucb1']} under UCB1 and {like['c-ucb']} under C-UCB; {least}.")
    return [*out, f"Runs: {_runs(runs)}."]


def _with_error(value: float, error: float) -> str:
    return f"{short(value)} ± {rough(error)}"


def _runs(runs: Sequence[LongRun]) -> str:
    parts = []
    for policy, name in (("c-ucb", "C-UCB"), ("ucb1", "UCB1")):
        counts = [len(run.simulation.regret(policy)) for run in runs]
        parts.append(f"{counts[0]} of {name}" if len(set(counts)) == 1 else f"{listing(list(map(str, counts)))} of {name}")
    return " and ".join(parts)


def long_section(runs: Sequence[LongRun], picture: str) -> str:
    """The section of the page: the picture (an address), what it says, and regret decade by decade."""
    horizon = runs[0].simulation.horizon
    words = "".join(f"<li>{html.escape(text)}</li>" for text in sentences(runs))
    return (
        f"<section id=long><h2>{_title(horizon)}</h2><p>On a log axis of rounds, regret like C log t is a straight line, and "
        "bounded regret is flat. The leap engine draws the rounds in which no reward could change the choice together, which "
        "has the same law as playing them one by one. Bands are 95 % intervals of the mean, mostly thinner than the curves; "
        "the dotted line has the least slope that any good policy can have. Policies are independent here, not on the same "
        f"draws of X.</p><img class=fits alt='Mean regret of UCB1 and C-UCB over {horizon:,} rounds' src='{picture}'>"
        f"<ul>{words}</ul>{_table(runs)}</section>"
    )


def _title(horizon: int) -> str:
    return "Ten thousand million rounds" if horizon == 10**10 else f"{horizon:,} rounds"


def _table(runs: Sequence[LongRun]) -> str:
    """Mean regret with its standard error at every second decade, and what it adds for a factor e of rounds."""
    rounds = runs[0].simulation.rounds.tolist()
    shown = [n for n, t in enumerate(rounds) if t in {10**e for e in range(2, 15, 2)} or n == len(rounds) - 1]
    rows = ""
    for run in runs:
        for policy, outcome in run.simulation.to_dict()["policies"].items():
            cells = "".join(
                f"<td class=number>{short(outcome['regret_mean'][n])} <small>± {rough(outcome['regret_se'][n])}</small></td>"
                for n in shown
            )
            growth = run.growth(policy)
            rows += (
                f"<tr><td><a href='#{run.case.id}'>{html.escape(run.case.problem.name)}</a>, "
                f"<span class=word>{policy}</span></td>"
                f"<td class=number>{outcome['replications']}</td>{cells}<td class=number>{short(growth.slope)} "
                f"<small>± {rough(growth.standard_error)}</small></td><td class=number>{short(run.bounds.graves_lai)}</td></tr>"
            )
    heads = "".join(f"<th class=number>at {rounds[n]:,}</th>" for n in shown)
    since = runs[0].growth("c-ucb").since
    return (
        f"<div class=wide><table><tr><th>mean regret</th><th class=number>runs</th>{heads}"
        f"<th class=number>slope per log t from {since:,} on</th><th class=number>Graves–Lai constant</th></tr>{rows}"
        "</table></div>"
    )
