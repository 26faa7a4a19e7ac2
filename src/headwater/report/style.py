"""Colours and words that every figure shares."""

from __future__ import annotations

from typing import NamedTuple

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


def rough(error: float) -> str:
    """A standard error as a table shows it: two digits, no exponents.

    >>> [rough(x) for x in (253.1, 14.2, 0.112, 0.0)]
    ['253', '14', '0.11', '0']
    """
    return f"{error:,.0f}" if error >= 100 else f"{error:.2g}"


class Look(NamedTuple):
    """How a policy is drawn. Policies of one ``family`` stand together: 0 the paper's, 1 other indices, 2 what learns the
    law of X, 3 anything else. ``dash`` is matplotlib's word; without a filter a curve is broken."""

    colour: str
    family: int
    dash: str
    width: float


FAMILIES = ("the paper", "other indices, without and with its filter", "learn the law of X", "others")
POLICIES = {
    "ucb1": Look("#0072B2", 0, "--", 2.4),
    "c-ucb": Look("#D55E00", 0, "-", 2.4),
    "kl-ucb": Look("#56B4E9", 1, "--", 1.4),
    "c-kl-ucb": Look("#C98A00", 1, "-", 1.4),
    "ts": Look("#7A5195", 1, "--", 1.4),
    "c-ts": Look("#009E73", 1, "-", 1.4),
    "uniform": Look("#6B6B6B", 1, ":", 1.4),
    "epsilon-greedy": Look("#8A4B2A", 1, ":", 1.4),
    "auto": Look("#B00020", 2, "-", 3.0),
    "joint-ucb": Look("#111111", 2, "-", 2.8),
    "latent-ts": Look("#CC5F97", 2, "-", 2.2),
    "graves-lai": Look("#7A6A00", 2, "-.", 2.2),
}
VARIANTS = {
    "ts (estimated)": Look("#3B1E5F", 1, "--", 2.0),
    "ts (started)": Look("#B07CC6", 1, "-.", 2.0),
}
"""Variants that stand in one figure with each other."""
BOUND = "#777777"


def look(title: str) -> Look:
    """The same policy looks the same in every figure; most variants of one share its look; what is unknown gets some colour."""
    known = VARIANTS.get(title, POLICIES.get(title.split(" ")[0]))
    return known if known is not None else Look(PALETTE[sum(map(ord, title)) % len(PALETTE)], 3, "-", 2.0)
