"""Pictures of the page about the paper: its Figure 1, whose file is lost, and regret where gaps shrink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headwater.latent import Discrete
from headwater.paper import TWO_ARMS
from headwater.proofs import OVERLAP, REVEAL, Small
from headwater.pseudo import pseudo_reward
from headwater.report.style import PALETTE, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Round(NamedTuple):
    """One round of a problem: X took ``value``, the arms would pay ``rewards``, and ``pulled`` was chosen.

    Its reward leaves the values ``possible``, and says of the other arm that it would have paid ``pseudo`` at most.
    """

    values: tuple[str, ...]
    value: str
    arms: tuple[str, ...]
    rewards: tuple[float, ...]
    pulled: int
    possible: tuple[str, ...]
    pseudo: float


def example_round(value: str = "x3", pulled: int = 0) -> Round:
    """A round of the paper's two-arm example.

    >>> example_round()[3:]
    ((2.0, 1.5), 0, ('x2', 'x3'), 1.5)
    """
    problem = TWO_ARMS.problem
    latent = problem.latent
    assert isinstance(latent, Discrete)
    values = tuple(str(x) for x in latent.values)
    at = problem.rewards[:, values.index(value)]
    possible = tuple(x for x, r in zip(values, problem.rewards[pulled], strict=True) if r == at[pulled])
    pseudo = pseudo_reward(problem, target=1 - pulled, observed=pulled, reward=float(at[pulled]))
    return Round(values, value, problem.names, tuple(at.tolist()), pulled, possible, float(pseudo))


def draw_framework() -> Figure:
    """The correlated bandit, as the paper's Figure 1: one hidden x a round, and the reward of the arm that is pulled."""
    from matplotlib.figure import Figure

    this = example_round()
    figure = Figure(figsize=(6.6, 2.9), dpi=120)
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axis.set(xlim=(0, 10), ylim=(0.62, 4.95))
    axis.axis("off")
    hidden, shown = "#8A8A8A", PALETTE[0]
    about: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 11, "color": "#444444"}
    _box(axis, (0.2, 2.1), (2.2, 1.5), f"latent X\n$x_t$ = {this.value}", hidden, dashed=True)
    axis.text(1.3, 1.95, "drawn anew\neach round,\nnever seen", **about)
    for k, (arm, reward) in enumerate(zip(this.arms, this.rewards, strict=True)):
        y, taken = 3.4 - 1.9 * k, k == this.pulled
        _box(
            axis,
            (3.4, y),
            (2.6, 1.15),
            f"{arm}\n$g_{k + 1}(x_t)$ = {reward:g}",
            colour(k) if taken else hidden,
            dashed=not taken,
        )
        _arrow(axis, (2.4, 2.85), (3.4, y + 0.57), hidden)
        axis.text(4.7, y - 0.1, "pulled" if taken else "not pulled, not seen\n… and so on up to arm K", **about)
    _box(axis, (7.1, 2.1), (2.7, 1.5), f"policy\nchooses $k_t$,\nsees $r_t$ = {this.rewards[this.pulled]:g}", shown)
    _arrow(axis, (6.0, 3.7), (7.1, 3.1), colour(this.pulled))
    _arrow(axis, (8.4, 3.65), (6.0, 4.2), shown, "arc3,rad=0.3")
    says = f"so X is {' or '.join(this.possible)}:\n{this.arms[1 - this.pulled]} would have\npaid {this.pseudo:g} at most"
    axis.text(8.45, 1.95, says, **about)
    return figure


def _box(
    axis: Axes, at: tuple[float, float], size: tuple[float, float], text: str, shade: str, *, dashed: bool = False
) -> None:
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {"linewidth": 1.8, "linestyle": "--" if dashed else "-", "edgecolor": shade, "facecolor": "white"}
    axis.add_patch(FancyBboxPatch(at, *size, boxstyle="round,pad=0.02,rounding_size=0.12", **look))
    axis.text(at[0] + size[0] / 2, at[1] + size[1] / 2, text, ha="center", va="center", fontsize=12, color="#222222")


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float], shade: str, bend: str = "arc3") -> None:
    look = {"arrowstyle": "-|>", "color": shade, "linewidth": 1.6, "connectionstyle": bend}
    axis.annotate("", xy=end, xytext=start, arrowprops=look)


TITLES = {OVERLAP: "arms that overlap\n(the discrete cases')", REVEAL: "any reward reveals X\n(Example 1's arms)"}


def draw_shrinking(rows: Sequence[Small]) -> Figure:
    """Regret over B sqrt(T log T) against T, a line for each size of the gaps, C-UCB solid and UCB1 dashed."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(6.6, 4.2), layout="constrained", dpi=120)
    axes: Any = figure.subplots(1, 2, sharey=True)
    scales = sorted({row.scale for row in rows})
    for axis, arms in zip(axes, TITLES, strict=True):
        for n, scale in enumerate(scales):
            for policy, dash in (("c-ucb", "-"), ("ucb1", "--")):
                mine = [row for row in rows if (row.arms, row.scale, row.policy) == (arms, scale, policy)]
                t, ratio, error = (np.array([getattr(row, key) for row in mine]) for key in ("horizon", "ratio", "error"))
                axis.plot(t, ratio, dash, color=colour(n), linewidth=2.2 if dash == "-" else 1.3, marker="o", markersize=3)
                axis.fill_between(t, ratio - 1.96 * error, ratio + 1.96 * error, color=colour(n), alpha=0.15, linewidth=0)
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title(TITLES[arms], fontsize=11)
        axis.set_xlabel("rounds T", fontsize=11)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("regret / B √(T log T)", fontsize=11)
    lines = [Line2D([], [], color=colour(n), linewidth=2.2, label=f"c = {scale:g}") for n, scale in enumerate(scales)]
    lines += [Line2D([], [], color="#444444", label="c-ucb"), Line2D([], [], color="#444444", linestyle="--", label="ucb1")]
    figure.legend(handles=lines, frameon=False, fontsize=11, loc="outside upper center", ncols=3)
    return figure
