"""The page about a fit, in plain words with pictures: how many kinds, what each likes, what tells them apart, what to expect in
new markets, and what is shaky.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np

from headwater.fitting import Fit
from headwater.fitting.result import write_whole
from headwater.report.fit_data import HORIZON, Outlook, Telling, tell_apart
from headwater.report.fit_pictures import (
    bits_picture,
    choice_picture,
    heat_picture,
    mean_rewards,
    pairs_picture,
    saving_picture,
)
from headwater.report.interactive import plotly_regret
from headwater.report.limits import listing
from headwater.report.page import document
from headwater.report.regret_data import regret_figure
from headwater.report.style import rough, short

_CONFIG = {"displayModeBar": False, "responsive": True}
_FEW = 3
_HARD = 50
"""So many rewards of the most telling arm, or more, make two segments hard to tell apart."""


def write_fit_page(fit: Fit, outlook: Outlook, path: Path) -> None:
    """Write the page, whole or not at all."""
    telling = tell_apart(fit)
    sections = [
        _summary(fit, outlook, telling),
        _likes(fit),
        _apart(fit, telling),
        _markets(fit, outlook),
        _shaky(fit, telling),
        _made(fit),
    ]
    write_whole(path, document(f"Learned: {fit.name}", f"<h1>{_text(fit.name)}</h1>" + "".join(sections)))


def _text(value: Any) -> str:
    return html.escape(str(value))


def _plot(figure: Any, element: str) -> str:
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, div_id=element, config=_CONFIG)
    return text


def _kinds(fit: Fit, number: int | None = None) -> str:
    word = "kind" if fit.method == "mixture of channels" else "segment"
    n = len(fit.segments) if number is None else number
    return f"{n} {word}{'' if n == 1 else 's'}"


def _summary(fit: Fit, outlook: Outlook, telling: Telling) -> str:
    rewards = sum(channel.counts.sum() for channel in fit.channels)
    lines = [
        f"{_origin(fit)} {rewards:,.0f} rewards of {len(fit.arms)} arms were counted, and {_kinds(fit)} of units "
        f"{'found' if fit.method != 'segment column' else 'given'}.",
    ]
    if len(fit.segments) > 1:
        best = [fit.arms[k] for k in np.argmax(mean_rewards(fit), axis=0)]
        different = len(set(best))
        lines.append(
            f"They like different things: {different} of the arms are the best one for some of them."
            if different > 1
            else f"{best[0]} is the best arm for every one of them: there is little to adapt."
        )
        top = int(np.argmax(telling.bits))
        lines.append(
            f"{fit.arms[top]} tells most about who is there: one of its rewards gives {telling.bits[top]:.2f} of the "
            f"{telling.of:.2f} bits there are to know."
        )
    share = outlook.saving
    lines.append(
        f"If this is right, {outlook.chosen} (the policy <em>auto</em>) will have about {np.median(share):.0%} of UCB1's "
        f"regret over {HORIZON:,} rounds in a new market ({share.min():.0%} to {share.max():.0%} in {len(share)} mixes tried)."
    )
    lines.append(
        f"<span class=no>{len(fit.warnings)} {'thing is' if len(fit.warnings) == 1 else 'things are'} shaky</span>: "
        "<a href='#shaky'>see below</a>."
        if fit.warnings
        else "<span class=yes>Nothing was found to be shaky.</span>"
    )
    return f"<p>{' '.join(line if '<' in line else _text(line) for line in lines)}</p>"


def _origin(fit: Fit) -> str:
    used, units = fit.origin.get("units_used"), fit.origin.get("units")
    sample = f" Segments were learned from {used:,} of about {units:,} units." if used and units and used < units else ""
    return f"Learned from {fit.origin['source']} on {fit.origin['date']}.{sample}"


def _likes(fit: Fit) -> str:
    """A row per segment, then the heat map."""
    mean, rows = mean_rewards(fit), ""
    for j, name in enumerate(fit.segments):
        order = np.argsort(-mean[:, j], kind="stable")
        liked = "<br>".join(_interval(fit, int(k), j) for k in order[:_FEW])
        least = _interval(fit, int(order[-1]), j)
        who = f"<br><small>{_text(fit.profiles[j])}</small>" if fit.profiles and fit.profiles[j] else ""
        firm = "" if fit.stability is None else f"<td class=number>{fit.stability.segments[j]:.0%}</td>"
        cells = f"<td class=number>{fit.shares[j]:.1%}</td><td>{liked}</td><td>{least}</td>{firm}"
        rows += f"<tr><td>{_text(name)}{who}</td>{cells}</tr>"
    head = "" if fit.stability is None else "<th class=number>found again</th>"
    again = (
        ""
        if fit.stability is None
        else " <em>Found again</em>: the members that a segment shares with its nearest when segments are learned from random "
        "halves of the units."
    )
    return (
        "<section id=likes><h2>Who likes what</h2>"
        f"<div class=wide><table><tr><th>segment</th><th class=number>share</th><th>likes most</th><th>likes "
        f"least</th>{head}</tr>"
        f"{rows}</table></div><p class=caption>Mean rewards with {100 * fit.origin['confidence']:g} % intervals; shares "
        f"are those "
        f"of the control group, and a new market's may differ: that is what a policy finds out. "
        f"{_text(fit.intervals_in_words())} They rest on the segment's own rewards of the arm; a mean is also drawn towards "
        f"what arm and segment let expect.{again}</p>"
        f"<p>{_text(fit.effects_in_words())}</p>"
        f"{_plot(heat_picture(fit), 'heat')}</section>"
    )


def _interval(fit: Fit, k: int, j: int) -> str:
    channel = fit.channels[k]
    mark = "*" if channel.pooled[j] else ""
    ends = f"{short(channel.mean_low[j])} to {short(channel.mean_high[j])}"
    return f"{_text(fit.arms[k])}: <span class=word>{short(channel.mean[j])}{mark} <small>({ends})</small></span>"


def _apart(fit: Fit, telling: Telling) -> str:
    if len(fit.segments) == 1:
        return ""
    order = np.argsort(-telling.bits, kind="stable")
    best = listing([_text(fit.arms[k]) for k in order[:_FEW]])
    weak = [fit.arms[k] for k in order if telling.bits[k] < 0.01]
    none = f" {len(weak)} arms tell next to nothing (below 0.01 bits)." if weak else ""
    needed = np.where(np.eye(len(fit.segments), dtype=bool), -1.0, telling.rewards)
    i, j = np.unravel_index(int(np.argmax(needed)), needed.shape)
    pair = f"{_text(fit.segments[min(i, j)])} and {_text(fit.segments[max(i, j)])}"
    hardest = (
        f"{pair} cannot be told apart by any arm."
        if np.isinf(needed[i, j])
        else f"Hardest to tell apart are {pair}: it takes about {needed[i, j]:,.0f} rewards of "
        f"{_text(fit.arms[telling.by[i, j]])}, if all came from units of one segment."
    )
    return (
        f"<section id=apart><h2>What tells segments apart</h2><p>One reward tells most when it comes from {best}.{none} "
        f"{hardest}"
        " A policy need not know who a unit is, only how large each segment is; what no arm tells apart, it can learn "
        "only as a "
        f"sum.</p>{_plot(bits_picture(fit, telling, order), 'bits')}{_plot(pairs_picture(fit, telling), 'pairs')}</section>"
    )


def _markets(fit: Fit, outlook: Outlook) -> str:
    rows = ""
    for market, share in zip(outlook.markets, outlook.saving, strict=True):
        order = np.argsort(-market.mix, kind="stable")[:_FEW]
        mix = ", ".join(f"{_text(fit.segments[j])} {market.mix[j]:.0%}" for j in order)
        rest = ", …" if len(fit.segments) > _FEW else ""
        rivals = ", ".join(map(_text, market.competitive[:4])) + (
            f" and {len(market.competitive) - 4} more" if len(market.competitive) > 4 else ""
        )
        numbers = "".join(
            f"<td class=number>{short(mean)} <small>± {rough(se)}</small></td>" for mean, se in market.regret.values()
        )
        rows += (
            f"<tr><td>{_text(market.title)}<br><small>{mix}{rest}</small></td><td>{_text(market.best)}</td>"
            f"<td>{rivals or 'none'}</td>{numbers}<td class=number>{share:.0%}</td></tr>"
        )
    heads = "".join(f"<th class='number word'>{name}</th>" for name in outlook.markets[0].regret)
    often: dict[str, int] = {}
    for market in outlook.markets:
        often[market.best] = often.get(market.best, 0) + 1
    ranked = sorted(often.items(), key=lambda pair: -pair[1])
    winners = listing([f"{_text(name)} in {n}" for name, n in ranked[:5]])
    data = regret_figure(outlook.run)
    return (
        "<section id=markets><h2>What to expect in new markets</h2><p>Who is there, in which shares, is not known beforehand. "
        f"Here are {len(outlook.markets)} mixes, the control group's own and others drawn at random; the best arm is "
        f"{winners}. "
        "<em>Competitive</em> arms are those that the best arm's rewards alone cannot rule out: they have to be tried. "
        "Regret is "
        f"simulated on the learned problem, {outlook.run.replications} runs of {outlook.run.horizon:,} rounds; auto is "
        f"{_text(outlook.chosen)} here.</p>{_plot(saving_picture(outlook), 'saving')}"
        "<div class=wide><table><tr><th>mix</th><th>best</th><th>competitive</th>"
        f"{heads}<th class=number>auto's part of ucb1's</th></tr>{rows}</table></div>"
        f"<h3>Regret round by round, in the control group's mix</h3>{_plot(plotly_regret(data), 'regret')}"
        "<p class=caption>Bands are 95 % intervals of the mean. These are predictions of the learned problem: it is "
        "right about "
        "itself. headwater evaluate asks held-out people.</p></section>"
    )


def _shaky(fit: Fit, telling: Telling) -> str:
    items = [f"<li>{_text(warning)}</li>" for warning in fit.warnings]
    hard = int(np.sum(np.triu(telling.rewards >= _HARD, 1)))
    pairs = len(fit.segments) * (len(fit.segments) - 1) // 2
    if hard:
        items.append(
            f"<li>{hard} of {pairs} pairs of segments take {_HARD} rewards or more of even the most telling arm to tell "
            f"apart</li>"
        )
    body = f"<ul>{''.join(items)}</ul>" if items else "<p>Nothing was found.</p>"
    return f"<section id=shaky><h2>What is shaky</h2>{body}{_losses(fit)}</section>"


def _losses(fit: Fit) -> str:
    """What cutting rewards into levels cost."""
    levels = fit.levels
    if levels.exact:
        return "<p>Rewards take few values, and were counted as they are.</p>"
    cut = ", ".join(f"{edge:.4g}" for edge in levels.edges)
    worst = np.argsort(-fit.mean_loss.max(axis=1), kind="stable")[:5]
    width = max(float(np.ptp(channel.outcomes)) for channel in fit.channels)
    rows = "".join(
        f"<tr><td>{_text(fit.arms[k])}</td><td>{_text(fit.segments[int(np.argmax(fit.mean_loss[k]))])}</td>"
        f"<td class=number>{short(float(fit.mean_loss[k].max()))}</td>"
        f"<td class=number>{fit.mean_loss[k].max() / width:.2%}</td></tr>"
        for k in worst
    )
    return (
        f"<p>Rewards were cut into {levels.size} levels, at {cut}. That keeps {1 - levels.spread_lost:.1%} of their "
        f"variance and "
        f"{1 - min(levels.information_lost, 1):.1%} of what they tell about arm and segment. Every arm's overall mean is "
        f"kept; for "
        "a segment it moves by at most:</p><div class=wide><table><tr><th>arm</th><th>segment</th><th class=number>moved "
        "by</th>"
        f"<th class=number>of the range</th></tr>{rows}</table></div>"
    )


def _made(fit: Fit) -> str:
    rows = "".join(
        f"<tr><td>{_text(key.replace('_', ' '))}</td><td>{_text(_plain(value))}</td></tr>"
        for key, value in (fit.origin | {"method": fit.method}).items()
    )
    return f"<section id=made><h2>How it was made</h2><div class=wide><table>{rows}</table></div>{_choice(fit)}</section>"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(part)}" for key, part in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _choice(fit: Fit) -> str:
    choice = fit.choice
    if choice is None or len(choice.kinds) < 2:
        return ""
    return (
        f"<p>{_kinds(fit, choice.chosen)}: the fewest that explain held-out units about as well as the best number does "
        f"(ringed; bars are standard errors of the difference to the best).</p>{_plot(choice_picture(choice), 'choice')}"
    )
