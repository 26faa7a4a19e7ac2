"""The same figures as pages one can point at, with plotly; its script travels inside the page, so it works offline."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import Any

import numpy as np

from headwater.report.analysis_data import AnalysisFigure
from headwater.report.regret_data import RegretFigure, spread_labels
from headwater.report.style import BOUND, VERDICTS, colour


def analysis_page(data: AnalysisFigure, path: Path) -> None:
    """Write one self-contained HTML page."""
    body = plotly_analysis(data).to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
    title = html.escape(data.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>body{{font-family:system-ui,sans-serif;margin:1.5rem;max-width:75rem}}</style>"
        f"<h1>{title}</h1><p>{html.escape(data.advice)}{_hidden(data)}</p>{body}{_possible(data)}</html>",
        encoding="utf-8",
    )


def _possible(data: AnalysisFigure) -> str:
    """What regret is possible, sentence by sentence."""
    if not data.possible:
        return ""
    return "<h2>What regret is possible</h2>" + "".join(f"<p>{html.escape(text)}</p>" for text in data.possible)


def _hidden(data: AnalysisFigure) -> str:
    return f" {data.hidden} more arms are not shown." if data.hidden else ""


def plotly_analysis(data: AnalysisFigure) -> Any:
    """Reward functions with the distribution, beside the pseudo-gaps."""
    from plotly.subplots import make_subplots

    gaps = data.pseudo_gaps is not None
    figure = make_subplots(
        rows=1,
        cols=2 if gaps else 1,
        column_widths=[0.63, 0.37] if gaps else None,
        specs=[[{"secondary_y": True}, {}]] if gaps else [[{"secondary_y": True}]],
        horizontal_spacing=0.16,
    )
    _rewards(figure, data)
    if gaps:
        _pseudo_gaps(figure, data)
    figure.update_layout(
        template="plotly_white", height=460, legend={"orientation": "h", "y": -0.2}, margin={"t": 30, "r": 110}
    )
    return figure


def _escaped(names: tuple[str, ...]) -> list[str]:
    """plotly reads a little HTML in labels; a name is text."""
    return [html.escape(name) for name in names]


def _rewards(figure: Any, data: AnalysisFigure) -> None:
    import plotly.graph_objects as go

    arms = _escaped(data.arms)
    if data.style == "heat":
        heat = go.Heatmap(z=data.curves, x=_escaped(data.labels), y=arms, colorscale="Viridis", showscale=False)
        figure.add_trace(heat, row=1, col=1)
        figure.update_yaxes(autorange="reversed", row=1, col=1, secondary_y=False)
        return
    if data.style == "ranges":
        for k, (low, high) in enumerate(data.curves.tolist()):
            line = {"width": 9, "color": colour(k)}
            figure.add_trace(go.Scatter(x=[low, high], y=[arms[k]] * 2, mode="lines", line=line, name=arms[k]), row=1, col=1)
        figure.update_xaxes(title="reward: from the least to the largest", row=1, col=1)
        return
    x = data.x if data.style == "lines" else _escaped(data.labels)
    if data.weight is not None:
        shade = (
            go.Scatter(x=x, y=data.weight, fill="tozeroy", mode="none", name="density of X", fillcolor="rgba(150,150,150,.35)")
            if data.style == "lines"
            else go.Bar(x=x, y=data.weight, name="probability of X", marker_color="rgba(150,150,150,.35)")
        )
        figure.add_trace(shade, row=1, col=1, secondary_y=True)
        top = float(data.weight.max()) * 3.2
        name = "density of X" if data.style == "lines" else "probability of X"
        ticks = {"tickvals": [0, top / 3.2], "ticktext": ["0", f"{top / 3.2:.3g}"]}
        axis = {"range": [0, top], "showgrid": False, "zeroline": False, "title": name, **ticks}
        figure.update_yaxes(**axis, row=1, col=1, secondary_y=True)
    mode = "lines" if data.style == "lines" else "lines+markers"
    for k, curve in enumerate(data.curves):
        line = {"color": colour(k), "width": 3 if data.style == "lines" else 1}
        marker = {"size": 10}
        figure.add_trace(go.Scatter(x=x, y=curve, mode=mode, name=arms[k], line=line, marker=marker), row=1, col=1)
    figure.update_xaxes(title=f"latent value {html.escape(data.x_name)}", row=1, col=1)
    figure.update_yaxes(title="reward", row=1, col=1, secondary_y=False)


def _pseudo_gaps(figure: Any, data: AnalysisFigure) -> None:
    import plotly.graph_objects as go

    assert data.pseudo_gaps is not None
    bars = go.Bar(
        x=data.pseudo_gaps,
        y=_escaped(data.arms),
        orientation="h",
        marker_color=[VERDICTS[word] for word in data.verdicts],
        text=list(data.verdicts),
        cliponaxis=False,
        showlegend=False,
    )
    figure.add_trace(bars, row=1, col=2)
    figure.update_xaxes(title="pseudo-gap to the best arm (above 0: ruled out)", row=1, col=2)
    figure.update_yaxes(autorange="reversed", row=1, col=2)


_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


def plotly_regret(data: RegretFigure) -> Any:
    """Mean regret with 95 % intervals and the bound; the legend switches policies on and off, buttons the scale of regret."""
    import plotly.graph_objects as go

    figure, plain = go.Figure(), {"mode": "lines", "hovertemplate": "%{y:.4~g}"}
    for curve in data.curves:
        name, look = html.escape(curve.policy), curve.look
        faint = "rgba({},{},{},.15)".format(*(int(look.colour[i : i + 2], 16) for i in (1, 3, 5)))
        band = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": name}
        figure.add_trace(go.Scatter(x=data.rounds, y=curve.interval_high, **band))
        figure.add_trace(go.Scatter(x=data.rounds, y=curve.interval_low, fill="tonexty", fillcolor=faint, **band))
        line = {"color": look.colour, "width": look.width, "dash": _DASHES[look.dash]}
        figure.add_trace(go.Scatter(x=data.rounds, y=curve.mean, name=name, line=line, legendgroup=name, **plain))
    if data.bound is not None and data.bound.drawn:
        line = {"color": BOUND, "width": 2, "dash": "dot"}
        label = data.bound.label
        figure.add_trace(go.Scatter(x=data.rounds, y=data.bound.line, name=label, line=line, legendgroup="bound", **plain))
    _label_ends(figure, data)
    figure.update_xaxes(type="log", title="round", range=[0, math.log10(max(float(data.rounds[-1]), 2.0))])
    figure.update_yaxes(title={"text": "mean cumulative regret", "standoff": 8}, rangemode="tozero")
    figure.update_layout(
        template="plotly_white",
        height=520,
        margin={"t": 36, "r": 84, "l": 56, "b": 40},
        legend={"orientation": "h", "y": -0.16, "yanchor": "top", "x": 0, "xanchor": "left"},
        hovermode="x unified",
    )
    return figure


def _label_ends(figure: Any, data: RegretFigure) -> None:
    """Each curve's name where it ends, and buttons for a linear or a log axis of regret: the names move along."""
    import plotly.graph_objects as go

    ends = [(html.escape(curve.policy), curve.look.colour, float(curve.mean[-1])) for curve in data.curves]
    if data.bound is not None and data.bound.drawn:
        ends.append(("bound", BOUND, float(data.bound.line[-1])))
    value = np.array([end for _, _, end in ends])
    top = max(float(np.max([curve.interval_high for curve in data.curves])), float(value.max()), 1e-12) * 1.03
    low = float(np.log10(max(min(value[value > 0].min(initial=top), top / 10) / 3, 1e-12)))
    high = math.log10(top * 1.2)
    linear = spread_labels(value, 0.045 * top)
    log = 10 ** (low + spread_labels(np.log10(np.maximum(value, 10**low)) - low, 0.045 * (high - low)))
    first = len(figure.data)
    for (name, shade, _), place in zip(ends, linear.tolist(), strict=True):
        text = {"mode": "text", "text": [" " + name], "textposition": "middle right", "textfont": {"color": shade, "size": 11}}
        label = go.Scatter(x=data.rounds[-1:], y=[place], cliponaxis=False, hoverinfo="skip", legendgroup=name, **text)
        figure.add_trace(label.update(showlegend=False))
    figure.update_yaxes(range=[0, top])
    labels = list(range(first, first + len(ends)))
    scales = (("linear", linear, [0, top]), ("log", log, [low, high]))
    buttons = [
        {
            "label": scale,
            "method": "update",
            "args": [{"y": [[y] for y in places.tolist()]}, {"yaxis.type": scale, "yaxis.range": limits}, labels],
        }
        for scale, places, limits in scales
    ]
    place = {"x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "pad": {"b": 6, "t": 0}}
    figure.update_layout(
        updatemenus=[{"type": "buttons", "direction": "right", "buttons": buttons, "showactive": True, **place}]
    )
