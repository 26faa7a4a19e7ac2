"""Colours and words that every figure shares."""

from __future__ import annotations

# Okabe and Ito's palette, which colour-blind readers can tell apart
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#7A5195", "#444444", "#A65628")
COMPETITIVE = "#C05000"
NON_COMPETITIVE = "#007A5A"
BEST = "#555555"
VERDICTS = {"best": BEST, "best (tied)": BEST, "competitive": COMPETITIVE, "non-competitive": NON_COMPETITIVE}


def colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def short(value: float) -> str:
    """A number as a table shows it: no exponents, four digits where they say something.

    >>> [short(x) for x in (1886.7, 568.52, 32.218, 0.0353, -0.0)]
    ['1,887', '568.5', '32.2', '0.0353', '0']
    """
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value + 0.0:.3g}"


POLICIES = {
    "ucb1": "#0072B2",
    "c-ucb": "#D55E00",
    "kl-ucb": "#56B4E9",
    "c-kl-ucb": "#E69F00",
    "ts": "#7A5195",
    "c-ts": "#009E73",
}


def policy_colour(title: str) -> str:
    """The same policy has the same colour in every figure; variants of one share it."""
    return POLICIES.get(title.split(" ")[0], PALETTE[sum(map(ord, title)) % len(PALETTE)])
