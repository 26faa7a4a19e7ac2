"""A trial as a piece of Markdown and a picture: a row per draw, and which aims were met."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headwater.evaluation.calibration import channel_calibration, law_calibration, laws_in_words, read_stated
from headwater.evaluation.guard import Degree
from headwater.evaluation.pipeline import LAW_ROUNDS, LAW_RUNS
from headwater.evaluation.trial import SINCE, STARTED, Aim, Trial
from headwater.policies.auto import spec_for
from headwater.report.evaluation_draw import draw_markets
from headwater.report.style import rough, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 140


def draw_trial(trial: Trial) -> Figure:
    """A panel per draw."""
    return draw_markets([draw.market for draw in trial.draws], [f"draw {draw.number}" for draw in trial.draws])


def trial_markdown(trial: Trial) -> str:
    """Facts, a table with a row per draw, and the aims."""
    return "\n\n".join([_facts(trial), _table(trial), *_aims(trial), _stated(trial)]) + "\n"


def replace_block(text: str, name: str, body: str) -> str:
    """``text`` with what stands between the marks of ``name`` replaced.

    >>> replace_block("a\\n<!-- x writes this -->\\nold\\n<!-- until here -->\\nb", "x", "new\\n")
    'a\\n<!-- x writes this -->\\nnew\\n<!-- until here -->\\nb'
    """
    start, end = f"<!-- {name} writes this -->\n", "<!-- until here -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    assert found and closed, f"the marks of {name} are missing"
    return before + start + body + end + after


def _facts(trial: Trial) -> str:
    run, fit = trial.draws[0].market.simulation, trial.fit
    agreement = "" if fit.stability is None else f" (agreement of refits, adjusted Rand: {fit.stability.agreement:.2f})"
    words = (
        f"{trial.control:,} people as control group, {trial.held_out:,} held out. The tool chose {len(fit.segments)} "
        f"segments{agreement} and {fit.levels.size} levels of rewards. {len(trial.draws)} draws of {len(trial.draws[0].arms)} "
        f"arms each, {run.replications} runs of {run.horizon:,} rounds. Mean regret at the end, ± its standard error, in units "
        "of the rewards:"
    )
    return textwrap.fill(words, WIDTH)


def _table(trial: Trial) -> str:
    aims = _listed(trial)
    heads = ["draw", "gap", "model's gap", *trial.policies, *(_short_words(aim) for aim in aims)]
    rows = []
    for n, draw in enumerate(trial.draws):
        market, best = draw.market, draw.market.best
        gap = market.means[best] - np.delete(market.means, best).max()
        model = market.modelled[best] - np.delete(market.modelled, best).max()
        cells = [str(draw.number), f"{gap:.2f}", f"{model:+.2f}"]
        for name in trial.policies:
            regret = market.simulation.regret(name)[:, -1]
            error = regret.std(ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else 0.0
            cells.append(f"{short(float(regret.mean()))} ± {rough(float(error))}")
        rows.append([*cells, *(_mark(aim.values[n], aim.limit) for aim in aims)])
    means = [short(float(trial.regret(name).mean())) for name in trial.policies]
    rows.append(["**mean**", "", "", *means, *(_mark(aim.overall, aim.limit) for aim in aims)])
    lines = [heads, ["---:"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _short_words(aim: Aim) -> str:
    over = "UCB1" if "UCB1" in aim.words else "TS"
    return f"auto / {over}" + (", growth" if "after" in aim.words else "")


def _mark(value: float, limit: float) -> str:
    return f"{value:.2f}" if value <= limit else f"**{value:.2f}**"


def _listed(trial: Trial) -> list[Aim]:
    return trial.aims() if trial.judged else []


def _aims(trial: Trial) -> list[str]:
    """What the columns mean, then an aim a line."""
    aims = _listed(trial)
    gap = (
        "Gap: by how much the best arm's mean is above the second's among these people; the model's gap is what the learned "
        "channels say of the same arm at the true mix, below 0 where they name another one."
    )
    lines = [
        f"- {aim.words[0].upper()}{aim.words[1:]}: aim ≤ {aim.limit:g}; {aim.overall:.2f} on the mean, met in "
        f"{aim.draws_met} of {len(aim.values)} draws: **{'met' if aim.met else 'missed'}**"
        for aim in aims
    ]
    return [textwrap.fill(gap, WIDTH), *(["\n".join(lines)] if lines else []), *_others(trial)]


def _others(trial: Trial) -> list[str]:
    """auto against the Thompson samplings that no aim is about."""
    names = {"ts": "with sd B/2, the yardstick of release 0.1", STARTED: "started from everything the control group paid"}
    words = []
    for name in names if trial.judged else ():
        if name in trial.policies and name != trial.yardstick:
            mine, other = trial.regret("auto"), trial.regret(name)
            ratio = mine.sum() / other.sum() if other.any() else np.inf
            draws = f"less in {np.count_nonzero(mine < other)} of {len(mine)} draws"
            words.append(f"{ratio:.2f} on the mean ({draws}) of Thompson sampling's {names[name]}")
    return [textwrap.fill(f"Regret of auto is {', and '.join(words)}.", WIDTH), _course(trial)] if words else []


def _course(trial: Trial) -> str:
    """When auto's regret grows, and when that of what it is held against: a table with a row per policy."""
    rounds = trial.draws[0].market.simulation.rounds
    places = sorted({int(np.searchsorted(rounds, trial.horizon // part)) for part in (200, 20, SINCE, 1)})
    names = [name for name in (trial.yardstick, STARTED, "auto") if name in trial.policies]
    lines = [["mean regret after round", *(f"{rounds[at]:,}" for at in places)], ["---"] + ["---:"] * len(places)]
    for name in names:
        course = np.mean([draw.market.simulation.regret(str(name)).mean(axis=0) for draw in trial.draws], axis=0)
        lines.append([f"`{name}`", *(short(float(course[at])) for at in places)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _stated(trial: Trial) -> str:
    stated = read_stated(trial.fit.evidence(), trial.people)
    assert stated is not None
    found = channel_calibration(trial.people, stated)
    words = (
        f"Of the learned intervals, stated at {found.confidence:.0%}, {found.cells:.0%} of the cells and {found.means:.0%} of "
        "the means per arm and segment hold on the held-out people."
    )
    laws = []
    for draw in trial.draws:
        people, run = trial.people.of_arms(draw.arms), draw.market.simulation
        if spec_for("auto", people.problem).learns:
            rounds, runs = min(run.horizon, LAW_ROUNDS), min(run.replications, LAW_RUNS)
            laws += law_calibration(people, [draw.market.population], horizon=rounds, runs=runs, seed=run.seed)
    if laws:
        words += " " + laws_in_words(laws)
    return textwrap.fill(words, WIDTH)


def guard_markdown(degrees: Sequence[Degree], horizon: int) -> str:
    """How wrong the model may be: a table with a row per degree."""
    lines = [
        "| turned round | harm a round | guard spoke | regret of auto | trusting | ucb1 |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for degree in degrees:
        mine = f"{short(degree.regret)} ± {rough(degree.regret_se)}"
        trusting = f"{short(degree.trusting)} ± {rough(degree.trusting_se)}"
        cells = [f"{degree.degree:.0%}", short(degree.harm), f"{degree.spoke:.0%}", mine, trusting, short(degree.ucb1)]
        lines.append("| " + " | ".join(cells) + " |")
    words = (
        "How wrong may the model be? In the first draw, what it says of the truly best arm is turned round by degrees (good "
        f"ratings become as rare as bad ones were); the people stay as they are. Harm is what each of {horizon:,} rounds would "
        "cost if the model, told the true mix, were believed; a trusting policy is the same without guard, audit and tolerance."
    )
    return textwrap.fill(words, WIDTH) + "\n\n" + "\n".join(lines) + "\n"
