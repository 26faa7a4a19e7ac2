"""The same figures as pages one can point at, with plotly; its script travels inside the page, so it works offline."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from headwater.report.analysis_data import AnalysisFigure
from headwater.report.regret_data import RegretFigure
from headwater.report.style import VERDICTS, colour


def analysis_page(data: AnalysisFigure, path: Path) -> None:
    """Write one self-contained HTML page."""
    body = plotly_analysis(data).to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
    title = html.escape(data.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>body{{font-family:system-ui,sans-serif;margin:1.5rem;max-width:75rem}}</style>"
        f"<h1>{title}</h1><p>{html.escape(data.advice)}{_hidden(data)}</p>{body}</html>",
        encoding="utf-8",
    )


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


def plotly_regret(data: RegretFigure) -> Any:
    """Mean regret with 95 % intervals; the legend switches policies on and off."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for curve in data.curves:
        name = html.escape(curve.policy)
        faint = "rgba({},{},{},.18)".format(*(int(curve.colour[i : i + 2], 16) for i in (1, 3, 5)))
        band = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": name}
        figure.add_trace(go.Scatter(x=data.rounds, y=curve.interval_high, **band))
        figure.add_trace(go.Scatter(x=data.rounds, y=curve.interval_low, fill="tonexty", fillcolor=faint, **band))
        line = {"color": curve.colour, "width": 3, "dash": "solid" if curve.policy.startswith("c-") else "dash"}
        figure.add_trace(go.Scatter(x=data.rounds, y=curve.mean, mode="lines", name=name, line=line, legendgroup=name))
    figure.update_xaxes(type="log", title="round")
    figure.update_yaxes(title="mean cumulative regret", rangemode="tozero")
    figure.update_layout(
        template="plotly_white",
        height=430,
        margin={"t": 20, "r": 10, "l": 60},
        legend={"orientation": "h", "y": 1.12, "x": 0},
        hovermode="x unified",
    )
    return figure
