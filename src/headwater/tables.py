"""Results as tables in a terminal, with rich. Names from a file are text, never markup."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text as RichText

from headwater.analysis import Analysis
from headwater.arrays import Floats
from headwater.policies.suspects import blame
from headwater.problem import Problem
from headwater.regret_bounds import Bounds
from headwater.report.limits import listing, rates, sentences, too_large
from headwater.report.style import rough, short
from headwater.report.theorems import theorem_sentences
from headwater.terminal import writable

if TYPE_CHECKING:
    from headwater.evaluation import Evaluation, LogEvaluation
    from headwater.experiments import Row
    from headwater.fitting import Fit
    from headwater.paper import Panel
    from headwater.policies import Policy
    from headwater.policies.inference import LatentLaw, Value
    from headwater.proofs import Proofs
    from headwater.simulation import Simulation

MOST = 40


class Text(RichText):
    """A text that standard output can take, so that what is laid out around it has its true width."""

    def __init__(self, text: str, style: str = "") -> None:
        super().__init__(writable(text, sys.stdout.encoding), style)


def _console() -> Console:
    return Console(file=sys.stdout, highlight=False, emoji=False)  # a file, or rich takes its encoding for UTF-8


def print_analysis(problem: Problem, analysis: Analysis, limits: Bounds | None = None) -> None:
    """One row per arm, then a sentence of advice."""
    console = _console()
    table = Table(
        title=Text(f"{problem.name or 'Problem'}: {len(analysis.arms)} arms, {problem.latent.kind} X"),
        title_justify="left",
    )
    for heading in ("arm", "mean", "gap", "pseudo-gap", "verdict", "reveals X"):
        table.add_column(Text(heading), justify="left" if heading in ("arm", "verdict", "reveals X") else "right")
    explored = rates(limits) if limits is not None and limits.upper > 0 else None
    if explored is not None:
        table.add_column("cheapest exploration", justify="right")
    for k in _rows(analysis):
        pulls = [] if explored is None else [_pulls(explored.get(analysis.arms[k]))]
        table.add_row(*_row(analysis, k), *pulls)
    console.print(table)
    if len(analysis.arms) > MOST:
        console.print(f"… {len(analysis.arms) - MOST} more arms; --json has them all.")
    console.print(Text(f"B = {analysis.reward_range:.6g} (the widest arm's reward range; it scales exploration)", style="dim"))
    if analysis.error:
        console.print(Text(f"Numerical error of means and pseudo-gaps: at most about {analysis.error:.1g}", style="dim"))
    console.print(Text(analysis.advice, style="bold"))
    for sentence in [*([] if limits is None else sentences(problem, limits)), *theorem_sentences(problem, analysis, limits)]:
        console.print(Text(sentence))
    if too_large(problem):
        console.print(Text("The least regret possible may take long: hw.bounds(problem) computes it.", style="dim"))


def _pulls(rate: float | None) -> str:
    """How often the cheapest exploration pulls an arm; the best one's pulls cost nothing."""
    return "" if rate is None else f"{short(rate)} × log T" if rate else "hardly ever"


def _rows(analysis: Analysis) -> list[int]:
    order = np.arange(len(analysis.arms)) if analysis.mu is None else np.argsort(-analysis.mu, kind="stable")
    return order[:MOST].tolist() if len(analysis.arms) > MOST else list(range(len(analysis.arms)))


def _row(analysis: Analysis, k: int) -> list[Text]:
    reveals = "yes" if analysis.arms[k] in analysis.invertible else ""
    cells = [analysis.arms[k], "–", "–", "–", "", reveals]
    style = ""
    if analysis.mu is not None and analysis.gap is not None and analysis.pseudo_gap is not None:
        cells[1], cells[2] = _fixed(analysis.mu[k]), _fixed(analysis.gap[k])
        if analysis.gap[k] == 0:
            cells[4], style = ("best" if len(analysis.tied) == 1 else "best (tied)"), "bold"
        else:
            cells[3] = f"{analysis.pseudo_gap[k]:+.4f}"
            cells[4] = "competitive" if analysis.arms[k] in analysis.competitive else "non-competitive"
            style = "yellow" if cells[4] == "competitive" else "green"
    elif analysis.dominance is not None:
        never = analysis.dominance.never.get(k)
        if k in analysis.dominance.always:
            cells[4] = "always best"
        elif never is not None:
            cells[4] = "never best: beaten by " + " + ".join(f"{w:.2g} {analysis.arms[a]}" for a, w in never.items())
        else:
            cells[4] = "undecided" if k in analysis.dominance.undecided else "can be best"
    return [Text(cell, style=style if i in (0, 4) else "") for i, cell in enumerate(cells)]


def _fixed(value: float) -> str:
    """Four decimals, and no minus before a zero."""
    return f"{round(float(value), 4) + 0.0:.4f}"


def print_pseudo(problem: Problem, k: int, reward: float, upper: Floats, lower: Floats) -> None:
    """The most each arm could have paid; where rewards are random, on average given X."""
    table = Table(title=Text(f"When {problem.names[k]} pays {reward:g}, at most"), title_justify="left")
    table.add_column("arm")
    table.add_column("would have paid" if problem.deterministic else "would have paid on average", justify="right")
    for name, value in zip(problem.names, upper.tolist(), strict=True):
        table.add_row(Text(name), f"{value:.10g}")
    console = _console()
    console.print(table)
    slack = float(np.max(upper - lower))
    if slack > 1e-6 * max(float(np.max(abs(upper))), 1e-300):
        console.print(
            Text(
                f"These are upper bounds; the search stopped within {slack:.2g} of a value that is attained.",
                style="dim",
            )
        )


def print_latent(policy: Policy, law: LatentLaw) -> None:
    """One row per value of X, and per group of values that look alike."""
    console = _console()
    title = f"The law of X in {policy.problem.name or 'the problem'}, by {policy.spec.title} after {policy.rounds:,} rewards"
    console.print(Text(title, style="italic"))  # a table's own title would be wrapped to its width
    table = Table()
    table.add_column("value")
    for heading in ("likeliest", "at least", "at most"):
        table.add_column(Text(heading), justify="right")

    def row(name: str, value: Value) -> None:
        ends = (_fixed(value.low), _fixed(value.high)) if value.stated else ("–", "–")
        table.add_row(Text(name), _fixed(value.likeliest), *ends)

    for value in law.values[:MOST]:
        row(value.name, value)
    if law.alike:
        table.add_section()
    for value in law.alike:
        row(f"together: {value.name}", value)
    console.print(table)
    if len(law.values) > MOST:
        console.print(f"… {len(law.values) - MOST} more values; --json has them all.")
    if not law.contradicted:
        console.print(Text(f"Intervals: {law.kind}.", style="dim"))
    for note in law.notes:
        console.print(Text(note, style="bold yellow" if law.contradicted else "dim"))
    if law.alike:
        console.print(Text("Values that stand together look the same to every arm pulled so far: only their sum can be known."))
    console.print(Text(_doubts(policy.doubted, policy.suspects), style="bold yellow" if policy.doubted else "dim"))


def _doubts(doubted: Sequence[str], suspects: Sequence[str]) -> str:
    if not doubted:
        return "No arm's rewards contradict the model."
    return (
        f"The rewards contradict the model, whatever the law of X: it is wrong about {blame(doubted, suspects)}. What "
        f"{listing(doubted)} paid is left out here."
    )


def print_explanation(policy: Policy) -> None:
    """What the policy would do next and why, a line per arm."""
    said = policy.explain()
    console = _console()
    console.print(Text(str(said)), soft_wrap=True)
    if said.doubted:
        console.print(Text(_doubts(said.doubted, said.suspects), style="bold yellow"))


def print_simulation(run: Simulation) -> None:
    """One row per policy, and what the first policy is to the others."""
    console = _console()
    title = f"{run.problem.name or 'Problem'}: {run.replications:,} runs of {run.horizon:,} rounds, seed {run.seed}"
    table = Table(title=Text(title), title_justify="left")
    for heading in ("policy", "mean regret", "± s.e.", "median", "5 % to 95 %", "best arm pulled"):
        table.add_column(Text(heading), justify="left" if heading == "policy" else "right", no_wrap=heading == "policy")
    results = run.to_dict()
    best = [arm for arm, gap in zip(run.problem.names, run.gaps, strict=True) if gap == 0]
    for name, row in results["policies"].items():
        pulls = sum(n for arm, n in row["pulls_mean"].items() if arm in best) / run.horizon
        spread = f"{short(row['regret_p05'][-1])} to {short(row['regret_p95'][-1])}"
        numbers = [short(row[key][-1]) for key in ("regret_mean", "regret_se", "regret_p50")]
        table.add_row(Text(name), *numbers, spread, f"{pulls:.1%}")
    console.print(table)
    paired = "" if run.engine == "leap" else ", paired on the same draws of X"
    for row in results["comparisons"]:
        console.print(
            Text(
                f"{row['policy']} less {row['against']}: {short(row['difference'])} "
                f"({short(row['low'])} to {short(row['high'])}, 95 %{paired})"
            )
        )
    rate = run.horizon * run.replications * len(run.outcomes) / max(run.seconds, 1e-9)
    console.print(Text(f"B = {run.reward_range:.6g}; {run.seconds:.2f} s, {rate:,.3g} rounds a second", style="dim"))
    if run.reason:
        console.print(Text(f"engine: {run.engine}, {run.reason}", style="dim"))
    if run.quantisation_error:
        note = f"X was quantised: that moves no arm's mean by more than {run.quantisation_error:.1g}"
        console.print(Text(note, style="dim"))


def print_fit(fit: Fit) -> None:
    """The mean reward of every arm for every segment with its interval, the largest of each segment in bold, how large the
    effects of arms and segments are, and what is shaky.
    """
    console = _console()
    many = "segment" if len(fit.segments) == 1 else "segments"
    title = f"{fit.name}: {len(fit.arms)} arms, {len(fit.segments)} {many} ({fit.method})"
    console.print(Text(title, style="italic"))
    table = Table()
    table.add_column(f"mean reward\n({100 * fit.origin['confidence']:g} % interval)")
    shown = np.argsort(-fit.shares, kind="stable")[:8].tolist() if len(fit.segments) > 8 else range(len(fit.segments))
    for j in shown:
        table.add_column(Text(f"{fit.segments[j]}\n{fit.shares[j]:.0%}"), justify="right")
    means = np.stack([channel.mean for channel in fit.channels])
    for k, name in enumerate(fit.arms[:MOST]):
        best = [means[k, j] == means[:, j].max() for j in shown]
        cells = [_stated_mean(fit, k, j, style="bold green" if top else "") for j, top in zip(shown, best, strict=True)]
        table.add_row(Text(name), *cells)
    console.print(table)
    if len(fit.arms) > MOST or len(fit.segments) > 8:
        console.print(f"{len(fit.arms)} arms and {len(fit.segments)} segments in all; the file and --json have them.")
    console.print(Text(fit.intervals_in_words()))
    console.print(Text(fit.effects_in_words()))
    for warning in fit.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def _stated_mean(fit: Fit, k: int, j: int, style: str) -> Text:
    channel = fit.channels[k]
    text = Text(short(channel.mean[j]), style=style)
    text.append(f"\n{short(channel.mean_low[j])} to {short(channel.mean_high[j])}", style="not bold default")
    return text


def print_evaluation(found: Evaluation | LogEvaluation) -> None:
    """A table, then what came out in sentences, then what is shaky."""
    from headwater.evaluation import Evaluation

    console = _console()
    if isinstance(found, Evaluation):
        _held_out_people(console, found)
    else:
        _choices(console, found)
    for line in found.findings():
        console.print(Text(line))
    for line in found.warnings():
        console.print(Text(f"warning: {line}", style="yellow"))


def _held_out_people(console: Console, found: Evaluation) -> None:
    run = found.markets[0].simulation
    size = f"{found.people:,} held-out people, {run.replications:,} runs of {run.horizon:,} rounds"
    console.print(Text(f"{found.problem.name or 'Problem'}: {size}", style="italic"))
    table = Table()
    for heading in ("population", "best arm", "the model's"):
        table.add_column(Text(heading))
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


def _choices(console: Console, found: LogEvaluation) -> None:
    console.print(Text(f"{found.problem.name or 'Problem'}: {found.events:,} events", style="italic"))
    table = Table()
    for heading in ("choice", "method", "mean reward", "95 %", "effective events"):
        table.add_column(Text(heading), justify="left" if heading in ("choice", "method") else "right")
    for row in found.estimates.rows:
        ends = f"{row.low:.4g} to {row.high:.4g}"
        table.add_row(Text(row.choice), row.method, f"{row.value:.4g}", ends, f"{row.effective:,.0f}")
    console.print(table)
    console.print(Text(found.intervals_in_words()))


def print_sweep(rows: Sequence[Row]) -> None:
    """A table per run, one row per policy."""
    console = _console()
    for _, group in groupby(rows, key=lambda row: row.run):
        first, *rest = group
        title = f"{first.problem or first.run}: {first.replications:,} runs of {first.horizon:,} rounds, seed {first.seed}"
        table = Table(title=Text(title), title_justify="left", caption=f"{first.seconds:.2f} s", caption_justify="right")
        for heading in ("policy", "mean regret", "± s.e.", "median", "95 %"):
            table.add_column(Text(heading), justify="left" if heading == "policy" else "right", no_wrap=heading == "policy")
        for row in (first, *rest):
            numbers = (row.regret_mean, row.regret_se, row.regret_p50, row.regret_p95)
            table.add_row(Text(row.policy), *map(short, numbers))
        console.print(table)


def print_panels(panels: Sequence[Panel], proofs: Proofs) -> None:
    """What the paper says of each of its cases and in its proofs, and what comes out."""
    table = Table(title=Text("The paper's problems"), title_justify="left")
    for heading in ("case", "the paper says", "computed", "agrees"):
        table.add_column(Text(heading))
    for title, checks in [*((panel.case.title, panel.checks) for panel in panels), ("The theorems", proofs.checks)]:
        for n, check in enumerate(checks):
            mark = Text("yes", style="green") if check.agrees else Text("no", style="bold yellow")
            table.add_row(Text(title if n == 0 else ""), Text(check.claim), Text(check.computed), mark)
        table.add_section()
    _console().print(table)
