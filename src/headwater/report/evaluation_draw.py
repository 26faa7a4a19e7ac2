"""Pictures of an evaluation, with matplotlib: regret in every population, what was learned beside what is so, the guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.evaluation.calibration import ChannelCalibration, LawCalibration
from headwater.evaluation.estimates import Estimate
from headwater.evaluation.guard import Degree
from headwater.evaluation.rejection import LogReplay
from headwater.evaluation.replay import Market
from headwater.report.draw import plain_text
from headwater.report.style import colour, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 20
"""Populations, arms or choices that one picture shows."""
_FLOOR = 1.0


def draw_markets(markets: Sequence[Market], titles: Sequence[str] | None = None) -> Figure:
    """A small panel per population: mean regret over rounds, both axes logarithmic, so that each decade of either is seen."""
    from matplotlib.figure import Figure

    shown = list(markets)[:MOST]
    columns = min(3 if len(shown) in (3, 5, 6, 9) else 4 if len(shown) <= 8 else 5, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(max(2.5 * columns, 6.0), 2.5 * rows + 0.7), layout="constrained", dpi=110)
    axes: Any = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axis in axes.ravel()[len(shown) :]:
        axis.set_visible(False)
    for n, (axis, market) in enumerate(zip(axes.ravel(), shown, strict=False)):
        _regret(axis, market)
        axis.set_title(plain_text(titles[n] if titles else market.population.name), fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=min(len(labels), 7))
    figure.supxlabel("round", fontsize=9)
    figure.supylabel("mean regret", fontsize=9)
    return figure


def _regret(axis: Axes, market: Market) -> None:
    run = market.simulation
    late = run.rounds >= min(100, run.horizon // 100)
    rounds = run.rounds[late]
    for name in run.outcomes:
        regret, style = run.regret(name)[:, late], look(name)
        mean = regret.mean(axis=0)
        error = 1.96 * regret.std(axis=0, ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else np.zeros_like(mean)
        floor = np.maximum(mean, _FLOOR)
        axis.plot(rounds, floor, style.dash, color=style.colour, linewidth=0.7 * style.width, label=plain_text(name))
        axis.fill_between(
            rounds,
            np.maximum(mean - error, _FLOOR),
            np.maximum(mean + error, _FLOOR),
            color=style.colour,
            alpha=0.15,
            linewidth=0,
        )
    axis.set(xscale="log", yscale="log")
    axis.tick_params(labelsize=8)
    axis.minorticks_off()  # their labels would run into one another
    axis.grid(alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)


def draw_calibration(channels: ChannelCalibration) -> Figure:
    """Every arm's mean in every segment: as learned, and among held-out people, with the margins of both."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 5.2), layout="constrained", dpi=120)
    axis: Any = figure.subplots()
    for inside, shade, words in ((True, "#0072B2", "holds"), (False, "#D55E00", "does not")):
        x, y, dx, dy = (
            np.concatenate([getattr(arm, key)[..., arm.means == inside] for arm in channels.arms], axis=-1)
            for key in ("learned", "held_out", "learned_margin", "held_out_margin")
        )
        label = f"{words}: {len(x):,}"
        axis.errorbar(
            x, y, xerr=dx, yerr=dy, fmt="o", ms=3, color=shade, elinewidth=0.5, alpha=0.55, label=label, zorder=2 - inside
        )
    ends = np.array([*axis.get_xlim(), *axis.get_ylim()])
    line = [float(ends.min()), float(ends.max())]
    axis.plot(line, line, ":", color="#777777", linewidth=1.2)
    axis.set(xlim=line, ylim=line, xlabel="mean reward, learned", ylabel="mean reward, held-out people")
    axis.set_title(f"{channels.means:.0%} of the means hold, {channels.confidence:.0%} should", fontsize=10)
    axis.legend(frameon=False, fontsize=9, loc="upper left")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def draw_laws(laws: Sequence[LawCalibration], segments: Sequence[str]) -> Figure:
    """The true share of each segment in each population, and what policies took for the likeliest, on average."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 5.2), layout="constrained", dpi=120)
    axis: Any = figure.subplots()
    for n, law in enumerate(laws[:MOST]):
        half = np.nan_to_num(law.width) / 2  # none where none was stated
        style = {"fmt": "o", "ms": 4, "elinewidth": 0.6, "alpha": 0.4, "color": colour(n)}
        label = plain_text(law.population) if len(laws) <= 8 else None
        axis.errorbar(law.truth, law.likeliest, yerr=half, label=label, **style)
    axis.plot([0, 1], [0, 1], ":", color="#777777", linewidth=1.2)
    top = min(1.0, 1.15 * max(float(max(law.truth.max(), law.likeliest.max())) for law in laws))
    axis.set(
        xlim=(-0.02, top),
        ylim=(-0.02, top),
        xlabel="true share of a segment",
        ylabel="likeliest share (bars: half the interval's width)",
    )
    if len(laws) <= 8:
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def draw_guard(degrees: Sequence[Degree]) -> Figure:
    """Regret by how wrong the model is, with the guard and without; below it how often the guard spoke."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.0), layout="constrained", dpi=120)
    axes: Any = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1.0])
    x = np.array([100 * degree.degree for degree in degrees])
    for words, mean, error, style in (
        ("auto", "regret", "regret_se", look("auto")),
        ("trusting: no guard, audit or tolerance", "trusting", "trusting_se", look("graves-lai")),
    ):
        y = np.array([getattr(degree, mean) for degree in degrees])
        half = 1.96 * np.array([getattr(degree, error) for degree in degrees])
        axes[0].errorbar(x, y, yerr=half, fmt="o" + style.dash, color=style.colour, linewidth=1.8, ms=4, label=words)
    axes[0].plot(x, [degree.ucb1 for degree in degrees], "--", color=look("ucb1").colour, label="ucb1")
    axes[0].set_yscale("symlog", linthresh=10)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("mean regret")
    axes[0].legend(frameon=False, fontsize=9)
    axes[1].plot(x, [100 * degree.spoke for degree in degrees], "o-", color="#444444", ms=4)
    harmful = [100 * degree.degree for degree in degrees if degree.harm > 0]
    if harmful:
        for axis in axes:
            axis.axvspan(harmful[0], 100, color="#D55E00", alpha=0.07, linewidth=0)
        axes[1].text(harmful[0] + 1, 4, "the model names a wrong arm", fontsize=8, color="#A04000")
    axes[1].set(
        ylim=(-4, 104),
        ylabel="guard spoke\n(% of runs)",
        xlabel="share of what the model says of the best arm turned round (%)",
    )
    for axis in axes:
        axis.grid(alpha=0.2)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def draw_estimates(rows: Sequence[Estimate], logged_mean: float) -> Figure:
    """Every fixed choice by each method, with its interval, beside what the log itself paid."""
    from matplotlib.figure import Figure

    choices = list(dict.fromkeys(row.choice for row in rows))[:MOST]
    methods = list(dict.fromkeys(row.method for row in rows))
    figure = Figure(figsize=(7.2, 0.5 * len(choices) + 1.4), layout="constrained", dpi=120)
    axis: Any = figure.subplots()
    for row in rows:
        if row.choice in choices:
            i = methods.index(row.method)
            place = choices.index(row.choice) + 0.22 * (i - (len(methods) - 1) / 2)
            label = row.method if row.choice == choices[0] else None
            arms = [[max(row.value - row.low, 0.0)], [max(row.high - row.value, 0.0)]]  # dr may lie below what can be paid
            axis.errorbar(row.value, place, xerr=arms, fmt="o", ms=4, color=colour(i), label=label)
    axis.axvline(logged_mean, color="#777777", linestyle=":", linewidth=1.2)
    axis.set_yticks(range(len(choices)), [plain_text(choice) for choice in choices])
    axis.invert_yaxis()
    axis.set_xlabel("mean reward (dotted: what the log paid)")
    axis.legend(frameon=False, fontsize=9, loc="best")
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def draw_log_replay(replay: LogReplay) -> Figure:
    """Mean reward a round up to each round, with 95 % intervals; the first ten, which are mostly chance, are left out."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained", dpi=120)
    axis: Any = figure.subplots()
    late = replay.rounds >= min(10, int(replay.rounds[-1]))
    rounds = replay.rounds[late]
    for name, row in replay.to_dict()["policies"].items():
        style, (mean, low, high) = look(name), (np.array(row[key])[late] for key in ("mean_reward", "low", "high"))
        axis.plot(rounds, mean, style.dash, color=style.colour, linewidth=style.width, label=plain_text(name))
        axis.fill_between(rounds, low, high, color=style.colour, alpha=0.12, linewidth=0)
    axis.axhline(replay.lot, color="#777777", linestyle=":", linewidth=1.2, label="arms by lot")
    axis.set(xscale="log", xlabel="round", ylabel="mean reward a round, so far")
    axis.legend(frameon=False, fontsize=9)
    axis.grid(alpha=0.2)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
