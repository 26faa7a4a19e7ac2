"""The pictures of the page about a fit, with plotly."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from headwater.arrays import Floats, Ints
from headwater.fitting import Fit
from headwater.fitting.channels import Channel
from headwater.fitting.mixture import Choice
from headwater.report.fit_data import Outlook, Telling
from headwater.report.style import PALETTE, look, short

_LAYOUT: dict[str, Any] = {"template": "plotly_white", "font": {"size": 12}}


def mean_rewards(fit: Fit) -> Floats:
    """Of each arm for each segment, (K, J)."""
    return np.stack([channel.mean for channel in fit.channels])


def _cut(name: str, most: int = 26) -> str:
    """A name as a label: cut when long, and text, not markup."""
    return html.escape(name if len(name) <= most else name[: most - 1] + "…")


def _worth(channel: Channel, j: int) -> str:
    """Said where rewards depend on each other, or on who is of a kind."""
    return f" worth {channel.effective[j]:,.0f}" if channel.effective[j] < 0.99 * channel.counts[j].sum() else ""


def heat_picture(fit: Fit) -> Any:
    """Mean rewards, arm by segment; pointing at a cell shows its interval and how many rewards it rests on."""
    import plotly.graph_objects as go

    mean = mean_rewards(fit)
    words = [
        [
            f"{html.escape(name)}, {html.escape(fit.segments[j])}: {short(channel.mean[j])}<br>{short(channel.mean_low[j])} to "
            f"{short(channel.mean_high[j])}, from {channel.counts[j].sum():,.0f} "
            f"rewards{_worth(channel, j)}{' (pooled)' if channel.pooled[j] else ''}"
            for j in range(len(fit.segments))
        ]
        for name, channel in zip(fit.arms, fit.channels, strict=True)
    ]
    small = len(fit.segments) <= 8
    figure = go.Figure(
        go.Heatmap(
            z=mean, x=[_cut(name) for name in fit.segments], y=[_cut(name) for name in fit.arms], colorscale="Viridis",
            hovertext=words, hoverinfo="text", text=[[short(v) for v in row] for row in mean] if small else None,
            texttemplate="%{text}" if small else None, colorbar={"thickness": 12, "title": {"text": "mean"}},
        )
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", automargin=True, type="category")
    figure.update_xaxes(type="category", side="top", automargin=True)
    height = 90 + max(24 if len(fit.arms) <= 30 else 15, 10) * len(fit.arms)
    return figure.update_layout(**_LAYOUT, height=max(height, 240), margin={"t": 50, "r": 10, "l": 10, "b": 20})


def bits_picture(fit: Fit, telling: Telling, order: Ints) -> Any:
    """What one reward of each arm tells about the segment, the most telling first."""
    import plotly.graph_objects as go

    shown = order[:25]
    bars = go.Bar(
        x=telling.bits[shown], y=[_cut(fit.arms[k]) for k in shown], orientation="h", marker_color=PALETTE[0],
        hovertemplate="%{y}: %{x:.3f} bits<extra></extra>",
    )  # fmt: skip
    figure = go.Figure(bars)
    figure.update_yaxes(autorange="reversed", automargin=True, type="category")
    more = f" (the first 25 of {len(order)} arms)" if len(order) > len(shown) else ""
    figure.update_xaxes(title=f"bits about the segment in one reward{more}", rangemode="tozero")
    return figure.update_layout(**_LAYOUT, height=110 + 24 * len(shown), margin={"t": 20, "r": 20, "l": 10, "b": 50})


def pairs_picture(fit: Fit, telling: Telling) -> Any:
    """How many rewards tell each pair of segments apart."""
    import plotly.graph_objects as go

    count = len(fit.segments)
    off = np.where(np.eye(count, dtype=bool), np.nan, np.minimum(telling.rewards, 1e6))
    words = [
        [
            "" if i == j else f"{html.escape(fit.segments[i])} and {html.escape(fit.segments[j])}: {off[i, j]:,.0f} rewards of "
            f"{html.escape(fit.arms[telling.by[i, j]])}"
            for j in range(count)
        ]
        for i in range(count)
    ]  # fmt: skip
    names = [_cut(name, 18) for name in fit.segments]
    ticks = [1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000]
    figure = go.Figure(
        go.Heatmap(
            z=np.log10(off), x=names, y=names, hovertext=words, hoverinfo="text", colorscale="Cividis", reversescale=True,
            text=[["" if np.isnan(v) else f"{v:,.0f}" for v in row] for row in off] if count <= 10 else None,
            texttemplate="%{text}" if count <= 10 else None,
            colorbar={"thickness": 12, "tickvals": np.log10(ticks), "ticktext": [f"{t:,}" for t in ticks],
                      "title": {"text": "rewards"}},
        )
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", automargin=True, type="category")
    figure.update_xaxes(type="category", automargin=True)
    title = {"text": "rewards of the most telling arm that tell two segments apart", "font": {"size": 13}, "x": 0}
    return figure.update_layout(
        **_LAYOUT, title=title, height=max(260, 120 + 26 * count), margin={"t": 40, "r": 10, "l": 10, "b": 40}
    )


def saving_picture(outlook: Outlook) -> Any:
    """Predicted regret of each policy in each market, on a log scale."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = [market.title for market in outlook.markets]
    for policy, symbol in zip(outlook.markets[0].regret, ("circle-open", "diamond-open", "circle"), strict=True):
        mean = [max(market.regret[policy][0], 0.1) for market in outlook.markets]
        title = f"auto ({outlook.chosen})" if policy == "auto" else policy
        marker = {"symbol": symbol, "size": 11, "color": look(outlook.chosen if policy == "auto" else policy).colour}
        hover = f"%{{y}}, {title}: %{{x:.3~g}}<extra></extra>"
        figure.add_trace(go.Scatter(x=mean, y=names, mode="markers", name=title, marker=marker, hovertemplate=hover))
    figure.update_xaxes(type="log", title=f"predicted regret after {outlook.run.horizon:,} rounds", dtick=1)
    figure.update_yaxes(autorange="reversed", automargin=True, type="category")
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    return figure.update_layout(
        **_LAYOUT, height=140 + 24 * len(names), legend=legend, margin={"t": 40, "r": 20, "l": 10, "b": 50}
    )


def choice_picture(choice: Choice) -> Any:
    """How well each number of segments explains held-out units, against the best; the chosen one ringed."""
    import plotly.graph_objects as go

    line = go.Scatter(
        x=choice.kinds, y=[-b for b in choice.behind], error_y={"array": choice.error}, mode="lines+markers",
        line={"color": PALETTE[0]}, hovertemplate="%{x}: %{y:.4~g}<extra></extra>", showlegend=False,
    )  # fmt: skip
    at = choice.kinds.index(choice.chosen)
    mark = go.Scatter(
        x=[choice.chosen], y=[-choice.behind[at]], mode="markers", hoverinfo="skip", showlegend=False,
        marker={"size": 16, "symbol": "circle-open", "line": {"width": 3}, "color": PALETTE[1]},
    )  # fmt: skip
    figure = go.Figure([line, mark])
    figure.update_xaxes(title="how many")
    figure.update_yaxes(title="log-likelihood of a held-out unit, less the best", automargin=True)
    return figure.update_layout(**_LAYOUT, height=340, margin={"t": 20, "r": 20, "l": 10, "b": 50})
