"""An evaluation as tables in a terminal, with rich. Names from a file are text, never markup."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.evaluation import Evaluation, LogEvaluation
from headwater.report.style import rough, short


def print_evaluation(found: Evaluation | LogEvaluation) -> None:
    """A table, then what came out in sentences, then what is shaky."""
    console = Console(highlight=False, emoji=False)
    if isinstance(found, Evaluation):
        _people(console, found)
    else:
        _log(console, found)
    for line in found.findings():
        console.print(Text(line))
    for line in found.warnings():
        console.print(Text(f"warning: {line}", style="yellow"))


def _people(console: Console, found: Evaluation) -> None:
    run = found.markets[0].simulation
    size = f"{found.people:,} held-out people, {run.replications:,} runs of {run.horizon:,} rounds"
    console.print(Text(f"{found.problem.name or 'Problem'}: {size}", style="italic"))
    table = Table()
    for heading in ("population", "best arm", "the model's"):
        table.add_column(heading)
    for name in found.policies:
        table.add_column(Text(f"regret of\n{name}"), justify="right")
    for market in found.markets:
        names = market.simulation.problem.names
        model = names[int(np.argmax(market.modelled))]
        cells = []
        for policy in found.policies:
            regret = market.simulation.regret(policy)[:, -1]
            error = float(regret.std(ddof=1)) / len(regret) ** 0.5 if len(regret) > 1 else 0.0
            cells.append(f"{short(regret.mean())} ± {rough(error)}")
        style = "green" if model == names[market.best] else "yellow"
        table.add_row(Text(market.population.name), Text(names[market.best]), Text(model, style=style), *cells)
    console.print(table)


def _log(console: Console, found: LogEvaluation) -> None:
    console.print(Text(f"{found.problem.name or 'Problem'}: {found.events:,} events", style="italic"))
    table = Table()
    for heading in ("choice", "method", "mean reward", "95 %", "effective events"):
        table.add_column(heading, justify="left" if heading in ("choice", "method") else "right")
    for row in found.estimates.rows:
        ends = f"{row.low:.4g} to {row.high:.4g}"
        table.add_row(Text(row.choice), row.method, f"{row.value:.4g}", ends, f"{row.effective:,.0f}")
    console.print(table)
