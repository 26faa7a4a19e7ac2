"""Figures as PNG or SVG files, with matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.report.analysis_data import AnalysisFigure
from headwater.report.regret_data import RegretFigure, spread_labels
from headwater.report.style import BOUND, VERDICTS, colour, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_analysis(data: AnalysisFigure) -> Figure:
    """Reward functions over X, with the distribution beneath them, beside the pseudo-gaps."""
    from matplotlib.figure import Figure

    gaps = data.pseudo_gaps is not None
    figure = Figure(figsize=(10 if gaps else 6.5, 4.4), layout="constrained", dpi=120)
    axes: Any = figure.subplots(1, 2 if gaps else 1, squeeze=False, width_ratios=[1.7, 1.0] if gaps else None)[0]
    {"lines": _lines, "points": _points, "heat": _heat, "ranges": _ranges}[data.style](figure, axes[0], data)
    if gaps:
        _pseudo_gaps(axes[1], data)
    shown = f"{data.title}  ({data.hidden} more arms not shown)" if data.hidden else data.title
    figure.suptitle(plain_text(shown), fontsize=12, fontweight="bold")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the suffix says which format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script the font lacks is drawn as boxes
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    figure.set_layout_engine("none")  # it is laid out now: a second format need not do it again


def plain_text(text: str) -> str:
    """matplotlib reads $ as mathematics, and leaves names that start with _ out of legends; a name is just text."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def _finish(axis: Axes, data: AnalysisFigure) -> None:
    axis.set_xlabel(f"latent value {data.x_name}")
    axis.set_ylabel(data.y_name)
    axis.spines[["top", "right"]].set_visible(False)
    columns = 3 if len(data.arms) <= 6 else 4
    axis.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderpad=0.2)


def _weight(axis: Axes, data: AnalysisFigure, bars: bool) -> None:
    """The distribution of X in the lower quarter, on a scale of its own."""
    if data.weight is None:
        return
    other: Any = axis.twinx()
    if bars:
        other.bar(data.x, data.weight, width=0.7, color="#BBBBBB", alpha=0.5, zorder=0)
    else:
        other.fill_between(data.x, data.weight, color="#BBBBBB", alpha=0.5, linewidth=0, zorder=0)
    top = max(float(np.max(data.weight)), 1e-300)
    other.set_ylim(0, top * 3.2)
    other.set_ylabel("probability of X" if bars else "density of X", color="#888888", fontsize=9)
    other.tick_params(axis="y", colors="#888888", labelsize=8)
    other.spines[["top"]].set_visible(False)
    other.set_yticks([0, top], ["0", f"{top:.3g}"])
    axis.set_zorder(other.get_zorder() + 1)
    axis.patch.set_visible(False)


def _label(data: AnalysisFigure, k: int) -> str:
    mean = "" if data.means is None else f"  (mean {data.means[k]:.3g})"
    return plain_text(f"{data.arms[k]}{mean}")


def _lines(figure: Figure, axis: Axes, data: AnalysisFigure) -> None:
    _weight(axis, data, bars=False)
    for k, curve in enumerate(data.curves):
        axis.plot(data.x, curve, color=colour(k), linewidth=2.2, label=_label(data, k))
    _finish(axis, data)


def _points(figure: Figure, axis: Axes, data: AnalysisFigure) -> None:
    _weight(axis, data, bars=True)
    markers = "osD^vP*X<>hd"
    for k, curve in enumerate(data.curves):
        shift = (k - (len(data.curves) - 1) / 2) * min(0.12, 0.6 / len(data.curves))
        axis.plot(data.x + shift, curve, color=colour(k), linewidth=1, linestyle=":", alpha=0.7)
        axis.plot(data.x + shift, curve, markers[k % len(markers)], color=colour(k), markersize=8, label=_label(data, k))
    long = max(map(len, data.labels)) > 5
    tilt: dict[str, Any] = {"rotation": 35, "ha": "right"} if long and len(data.labels) > 5 else {}
    axis.set_xticks(data.x, [plain_text(label) for label in data.labels], **tilt)
    _finish(axis, data)


def _heat(figure: Figure, axis: Axes, data: AnalysisFigure) -> None:
    image = axis.imshow(data.curves, aspect="auto", cmap="viridis", interpolation="nearest")
    axis.set_yticks(range(len(data.arms)), [plain_text(_cut(arm)) for arm in data.arms], fontsize=8)
    ticks = np.linspace(0, len(data.labels) - 1, 5).astype(int)
    axis.set_xticks(ticks, [plain_text(_cut(data.labels[i], 14)) for i in ticks], rotation=25, ha="right", fontsize=8)
    axis.set_xlabel(f"latent value {data.x_name}")
    figure.colorbar(image, ax=axis, label=data.y_name, shrink=0.85)


def _ranges(figure: Figure, axis: Axes, data: AnalysisFigure) -> None:
    for k, (low, high) in enumerate(data.curves):
        axis.plot([low, high], [k, k], color=colour(k), linewidth=6, solid_capstyle="butt", alpha=0.6)
        if data.means is not None:
            axis.plot(data.means[k], k, "o", color=colour(k), markersize=9, label=_label(data, k))
    axis.set_yticks(range(len(data.arms)), [plain_text(arm) for arm in data.arms])
    axis.invert_yaxis()
    axis.set_xlabel("reward: from the least to the largest" + ("" if data.means is None else ", with the mean"))
    axis.spines[["top", "right"]].set_visible(False)


def _pseudo_gaps(axis: Axes, data: AnalysisFigure) -> None:
    assert data.pseudo_gaps is not None
    reach = max(float(np.max(abs(data.pseudo_gaps))), 1e-12)
    shades = [VERDICTS[word] for word in data.verdicts]
    for k, gap in enumerate(data.pseudo_gaps.tolist()):
        axis.barh(k, gap, color=shades[k], height=0.55)
        if not data.verdicts[k].startswith("best"):
            side = 1 if gap > 0 else -1
            axis.text(gap + side * 0.04 * reach, k, f"{gap:+.3g}", va="center", ha="left" if side > 0 else "right", fontsize=9)
    axis.axvline(0, color="#333333", linewidth=1)
    low, high = min(float(np.min(data.pseudo_gaps)), 0.0), max(float(np.max(data.pseudo_gaps)), 0.0)
    axis.set_xlim(low - (0.45 if low < 0 else 0.1) * reach, high + (0.45 if high > 0 else 0.1) * reach)
    join = "\n" if len(data.arms) <= 6 else ": "  # two lines each would run into one another
    labels = [plain_text(f"{_cut(arm)}{join}{word}") for arm, word in zip(data.arms, data.verdicts, strict=True)]
    axis.set_yticks(range(len(data.arms)), labels, fontsize=10 if len(data.arms) <= 6 else 8)
    for tick, shade in zip(axis.get_yticklabels(), shades, strict=True):
        tick.set_color(shade)
    axis.tick_params(axis="y", length=0)
    axis.invert_yaxis()
    axis.set_xlabel("pseudo-gap\n(above 0: ruled out)")
    axis.spines[["top", "right", "left"]].set_visible(False)


def _cut(name: str, most: int = 24) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def draw_regret(data: RegretFigure) -> Figure:
    """Mean regret on a log axis of rounds with 95 % intervals, beside the pulls per arm at the horizon."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.8), layout="constrained", dpi=120)
    axes: Any = figure.subplots(1, 2, width_ratios=[1.9, 1.0])
    _regret_curves(axes[0], data, [curve.policy for curve in data.curves])
    axes[0].set(xlabel="round", ylabel="mean cumulative regret (95 % interval)")
    axes[0].grid(alpha=0.25)
    _label_ends(axes[0], data)
    if data.bound is not None:
        axes[0].text(0.02, 0.98, data.bound.note, transform=axes[0].transAxes, va="top", fontsize=9, color="#555555")
    _pulls(axes[1], data)
    figure.suptitle(plain_text(f"{data.title}: {data.runs}"), fontsize=12, fontweight="bold")
    return figure


def _regret_curves(axis: Axes, data: RegretFigure, policies: Sequence[str]) -> None:
    """Means, bands and the bound, on a log axis of rounds."""
    for curve in data.curves:
        if curve.policy in policies:
            shade, dash, width = curve.look.colour, curve.look.dash, curve.look.width
            axis.plot(data.rounds, curve.mean, dash, color=shade, linewidth=width, label=plain_text(curve.policy))
            axis.fill_between(data.rounds, curve.interval_low, curve.interval_high, color=shade, alpha=0.15, linewidth=0)
    if data.bound is not None and data.bound.drawn:
        label = "Graves–Lai bound, slope C log t"
        axis.plot(data.rounds, data.bound.line, ":", color=BOUND, linewidth=1.8, label=label)
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.spines[["top", "right"]].set_visible(False)


def _label_ends(axis: Axes, data: RegretFigure) -> None:
    """Each curve's name where it ends, the names pushed apart until they can be read."""
    names = [plain_text(curve.policy) for curve in data.curves]
    ends, shades = [float(curve.mean[-1]) for curve in data.curves], [curve.look.colour for curve in data.curves]
    if data.bound is not None and data.bound.drawn:
        names, ends, shades = [*names, "bound"], [*ends, float(data.bound.line[-1])], [*shades, BOUND]
    top = axis.get_ylim()[1]
    for name, end, place, shade in zip(names, ends, spread_labels(np.array(ends), 0.052 * top), shades, strict=True):
        axis.annotate(
            name,
            xy=(float(data.rounds[-1]), end),
            xytext=(1.04, float(place) / top),
            textcoords=axis.transAxes,
            va="center",
            fontsize=9,
            color=shade,
            arrowprops={"arrowstyle": "-", "color": shade, "linewidth": 0.7, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0},
        )


def _pulls(axis: Axes, data: RegretFigure) -> None:
    shown = [k for k in range(len(data.arms)) if not data.best[k]][:12]
    height = 0.8 / max(len(data.curves), 1)
    for i, curve in enumerate(data.curves):
        where = [row + (i - (len(data.curves) - 1) / 2) * height for row in range(len(shown))]
        axis.barh(where, [float(curve.pulls[k]) for k in shown], height=height * 0.9, color=curve.look.colour)
    axis.set_xscale("symlog", linthresh=1)
    axis.set_yticks(range(len(shown)), [plain_text(_cut(data.arms[k])) for k in shown])
    axis.invert_yaxis()
    axis.set_xlabel(f"mean pulls of the arms that are not best\n(of {int(data.rounds[-1]):,} rounds)")
    axis.spines[["top", "right"]].set_visible(False)


SHOWN = ("ucb1", "c-ucb", "joint-ucb")
"""The policies of the overview: the paper's two, and one that goes past them."""


def draw_overview(figures: Sequence[RegretFigure], policies: Sequence[str] = SHOWN) -> Figure:
    """Small multiples: the mean regret of a few policies and the bound, one panel per problem."""
    from matplotlib.figure import Figure

    columns = 5 if len(figures) > 4 and len(figures) % 4 else min(max(len(figures), 1), 4)
    rows = -(-len(figures) // columns)
    figure = Figure(figsize=(2.9 * columns, 2.5 * rows + 0.8), layout="constrained", dpi=110)
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.ravel()[len(figures) :]:
        axis.set_visible(False)
    legend: dict[str, Any] = {}
    for axis, data in zip(axes.ravel(), figures, strict=False):
        _regret_curves(axis, data, policies)
        legend |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        axis.set_title(plain_text(data.title), fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.2)
        if data.bound is not None and not data.bound.drawn:
            word = "bound shows in longer runs" if data.bound.constant else "constant regret possible"
            axis.text(0.04, 0.93, word, transform=axis.transAxes, va="top", fontsize=8, color="#555555")
    figure.legend(legend.values(), legend.keys(), frameon=False, fontsize=9, loc="outside upper center", ncols=len(legend) or 1)
    figure.supxlabel("round", fontsize=9)
    figure.supylabel("mean cumulative regret", fontsize=9)
    return figure


def draw_long_runs(figures: Sequence[RegretFigure]) -> Figure:
    """A panel per case on one scale of regret, so that slopes compare; narrow enough for a telephone."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 3.9), layout="constrained", dpi=200)
    axes: Any = figure.subplots(1, len(figures), sharey=True, squeeze=False)[0]
    top = 1.15 * max(float(curve.interval_high[-1]) for data in figures for curve in data.curves)
    for axis, data in zip(axes, figures, strict=True):
        _regret_curves(axis, data, [curve.policy for curve in data.curves])
        assert data.bound is not None
        if data.bound.constant == 0:
            axis.plot(data.rounds, np.zeros_like(data.rounds), ":", color=BOUND, linewidth=1.8)
        axis.set_ylim(-0.02 * top, top)
        axis.set_xlim(float(data.rounds[0]), float(data.rounds[-1]))
        axis.set_title(f"{plain_text(data.title)}\nC = {short(data.bound.constant)}", fontsize=11)
        axis.grid(alpha=0.25)
        axis.tick_params(labelsize=10)
        axis.set_xticks([1e2, 1e6, 1e10] if data.rounds[-1] == 1e10 else [float(data.rounds[0]), float(data.rounds[-1])])
        axis.minorticks_off()
        first, *_, last = axis.get_xticklabels()
        first.set_ha("left")  # else neighbours' run into one another
        last.set_ha("right")
        _end_values(axis, data, top)
    axes[0].yaxis.set_major_formatter("{x:,.0f}")
    axes[0].set_ylabel("mean regret (units of reward)", fontsize=11)
    figure.supxlabel("round", fontsize=11)
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    names = [name.replace("Graves–Lai bound, slope C log t", "Graves–Lai: least slope, C log t") for name in handles]
    figure.legend(handles.values(), names, frameon=False, fontsize=11, loc="outside upper center", ncols=len(names))
    return figure


def _end_values(axis: Axes, data: RegretFigure, top: float) -> None:
    """Where each curve ends, in numbers: the highest above its curve, the others below where there is room."""
    highest = max(float(curve.mean[-1]) for curve in data.curves)
    for curve in data.curves:
        end = float(curve.mean[-1])
        above = end == highest or end < 0.15 * top
        lowest = float(np.interp(0.65, np.linspace(0, 1, len(curve.mean)), curve.mean))  # rounds are equally spaced here
        axis.annotate(
            short(end),
            (float(data.rounds[-1]), end if above else lowest),
            xytext=(-2, 5 if above else -5),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            fontsize=11,
            fontweight="bold",
            color=curve.look.colour,
        )
