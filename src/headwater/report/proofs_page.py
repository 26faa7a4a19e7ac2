"""The parts of the page about the paper that are about the model and the theorems, not about one case."""

from __future__ import annotations

import html
from collections.abc import Sequence

from headwater.claims import Check
from headwater.paper import Panel
from headwater.proofs import FLAT, GAPS, OVERLAP, REVEAL, Exclusion, Proofs, Small, worst
from headwater.regret_bounds import theorems
from headwater.report.paper_draw import example_round
from headwater.report.style import rough, short
from headwater.report.theorems import amount, column

THEOREMS = (
    ("1", "C-UCB pulls a non-competitive arm a bounded number of times, however long it runs."),
    ("2", "It pulls a competitive arm at most 8 (B/Δ)² log T times, and a constant."),
    ("3", "So its regret is at most of the order log T for each competitive arm, and a constant for the others."),
    (
        "4",
        "No policy that is good for every law of X can have regret below a constant times log T where an arm is competitive. "
        "The constant that the paper prints is not valid with more than two arms, because pulls of the other arms inform, too; "
        "the Graves–Lai constant is. Where no arm is competitive both are 0.",
    ),
    (
        "5",
        "Whatever the gaps, also if they shrink as T grows, C-UCB's regret is of the order √(T log T), for given K and B. The "
        "order holds, the paper's proof does not.",
    ),
)


def checks_table(checks: Sequence[Check]) -> str:
    """What the paper says beside what comes out."""
    rows = "".join(
        f"<tr><td>{html.escape(check.claim)}</td><td>{html.escape(check.computed)}</td>"
        f"<td class={'yes' if check.agrees else 'no'}>{'yes' if check.agrees else 'no'}</td></tr>"
        for check in checks
    )
    return f"<div class=wide><table><tr><th>The paper says</th><th>Computed</th><th>Agrees?</th></tr>{rows}</table></div>"


def framework_section(picture: str) -> str:
    """The paper's Figure 1, drawn again, with a round of its two-arm example in it."""
    this = example_round()
    return (
        "<section id=model><h2>The model</h2>"
        f"<img class=fits alt='A hidden value of X each round, a reward of each arm, of which one is seen' src='{picture}'>"
        "<p class=caption>The paper's Figure 1, drawn anew (its picture is lost): the reward of arm k at round t is "
        "g<sub>k</sub>(x<sub>t</sub>), where x<sub>t</sub> is a new draw of the latent X. The numbers are a round of its "
        f"two-arm example: X is {html.escape(this.value)}, {html.escape(this.arms[this.pulled])} is pulled.</p></section>"
    )


def theorems_section(panels: Sequence[Panel], found: Proofs, picture: str) -> str:
    """Theorems 1 to 5 in words, their numbers case by case, and what two of their proofs rest on."""
    words = "".join(f"<li><strong>Theorem {number}.</strong> {html.escape(text)}</li>" for number, text in THEOREMS)
    return (
        f"<section id=theorems><h2>The theorems</h2><ul>{words}</ul>"
        "<p>With the slips in their proofs mended they give these numbers, beside the regret that was simulated. The "
        "guarantees are far above it: only their orders mean something.</p>"
        f"{_constants(panels)}{checks_table(found.checks)}{_lemma(found.exclusions, panels)}{_shrinking(found.small, picture)}"
        "</section>"
    )


def _constants(panels: Sequence[Panel]) -> str:
    body = ""
    for panel in panels:
        about = theorems(panel.case.problem, panel.analysis) if panel.bounds is None else panel.bounds.theorems
        assert about.regret is not None
        run = panel.simulation
        regret = "–" if run is None else f"{short(run.regret('c-ucb')[:, -1].mean())} <small>of {run.horizon:,}</small>"
        fourth = [short(panel.bounds.theorem4_printed), short(panel.bounds.graves_lai)] if panel.bounds else ["–", "–"]
        most = [text.replace(" + ", " +<br>") for text in (column(about, 1), column(about, 2), amount(about.regret))]
        cells = [*most, regret, *fourth]
        title = f"<a href='#{panel.case.id}'>{html.escape(panel.case.problem.name)}</a>"
        body += f"<tr><td>{title}</td>{''.join(f'<td class=number>{cell}</td>' for cell in cells)}</tr>"
    heads = (
        "Theorem 1: pulls of a non-competitive arm",
        "Theorem 2: of a competitive arm",
        "Theorem 3: regret of C-UCB",
        "its regret, simulated, and rounds",
        "Theorem 4 as printed, × log T",
        "Graves–Lai constant, × log T",
    )
    head = "".join(f"<th class=number>{words}</th>" for words in heads)
    return f"<div class=wide><table><tr><th>at most</th>{head}</tr>{body}</table></div>"


def _lemma(rows: Sequence[Exclusion], panels: Sequence[Panel]) -> str:
    """The share of rounds in which the best arm is excluded, decade by decade, beside what the lemma allows."""
    names = {panel.case.id: html.escape(panel.case.problem.name) for panel in panels}
    decades = sorted({row.since for row in rows})
    body = ""
    for case in dict.fromkeys(row.case for row in rows):
        mine = {row.since: row for row in rows if row.case == case}
        cells = "".join(_share(mine.get(since)) for since in decades)
        says = next(iter(mine.values())).says
        body += f"<tr><td><a href='#{case}'>{names[case]}</a></td>{cells}<td class=number>{says:,}</td></tr>"
    heads = "".join(f"<th class=number>from round {since:,}</th>" for since in decades)
    return (
        "<h3>How often the best arm is excluded</h3><p>The event E<sub>1</sub>(t): that the rewards of the most-pulled "
        "arm exclude the best one. The proofs bound its probability by t exp(−tΔ²/2K), Δ the least gap in units of B, and "
        "lack a factor K − 1. Shown is the share of rounds in which it happened under C-UCB, up to the next power of ten "
        "or the end; below it the mean of the bound, as printed and with that factor, 1 at most. The last column has the "
        "round from which on the bound says anything.</p>"
        f"<div class=wide><table><tr><th>share of rounds</th>{heads}<th class=number>bound is below 1 from</th></tr>{body}"
        "</table></div>"
    )


def _share(row: Exclusion | None) -> str:
    if row is None:
        return "<td class=number>–</td>"
    share = f"{short(100 * row.share)} %" if row.share else "0"
    bounds = " and ".join(dict.fromkeys(_part(value) for value in (row.printed, row.corrected)))
    return f"<td class=number>{share}<br><small>≤ {bounds}</small></td>"


def _part(share: float) -> str:
    """A bound on a share.

    >>> [_part(x) for x in (1.0, 0.99999, 0.9984, 0.0331, 1e-9)]
    ['1', '1', '99.8 %', '3.31 %', '0']
    """
    return "1" if share > 0.9995 else f"{short(100 * share)} %" if share > 1e-6 else "0"


def _shrinking(rows: Sequence[Small], picture: str) -> str:
    """Theorem 5's experiment: the picture and the largest ratio at each horizon."""
    body = ""
    for arms, policy in ((arms, policy) for arms in (OVERLAP, REVEAL) for policy in ("c-ucb", "ucb1")):
        found = worst(rows, arms, policy)
        cells = "".join(
            f"<td class=number>{row.ratio:.3f} <small>± {rough(row.error)}, c = {row.scale:g}</small></td>"
            for row in found.values()
        )
        body += f"<tr><td>arms that {arms}, <span class=word>{policy}</span></td>{cells}</tr>"
    horizons = sorted({row.horizon for row in rows})
    heads = "".join(f"<th class=number>T = {horizon:,}</th>" for horizon in horizons)
    runs = ", ".join(f"{next(row.replications for row in rows if row.horizon == horizon)}" for horizon in horizons)
    return (
        "<h3>Gaps that shrink with T</h3><p>For each T another law of X, under which both other arms are c B √(log T / T) "
        f"below the best, c from {min(GAPS):g} to {max(GAPS):g}. Where regret is of the order √(T log T), regret / B √(T "
        f"log T) is flat; it is called so if its largest value over c changes by less than {FLAT:.0%} from the last T but "
        "two to the last. Where any reward reveals X, C-UCB's regret is of a smaller order. (At the smallest T, gaps of c "
        "≥ 2 need laws so far from the tie that other arms are non-competitive.)</p>"
        f"<img class=fits alt='Regret over B √(T log T) against T, for gaps of several sizes' src='{picture}'>"
        f"<div class=wide><table><tr><th>largest over c</th>{heads}</tr>{body}</table></div>"
        f"<p class=caption>Runs at each T: {runs}. Bands are 95 % intervals.</p>"
    )
