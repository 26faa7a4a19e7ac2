"""Colours and words that every figure shares."""

from __future__ import annotations

# Okabe and Ito's palette, which colour-blind readers can tell apart
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#7A5195", "#444444", "#A65628")
COMPETITIVE = "#C05000"
NON_COMPETITIVE = "#007A5A"
BEST = "#555555"


def colour(k: int) -> str:
    return PALETTE[k % len(PALETTE)]


def verdict(pseudo_gap: float, is_best: bool) -> tuple[str, str]:
    """The word for an arm, and its colour."""
    if is_best:
        return "best", BEST
    return ("non-competitive", NON_COMPETITIVE) if pseudo_gap > 0 else ("competitive", COMPETITIVE)


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
