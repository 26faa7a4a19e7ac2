"""The paper's theorems in words and numbers: what each says of a problem, and what to think of it."""

from __future__ import annotations

from headwater.analysis import Analysis
from headwater.latent import listed
from headwater.problem import Problem
from headwater.regret_bounds import Bounds, Guarantee, Theorems, theorems
from headwater.report.limits import listing
from headwater.report.style import short

ALIKE = 1e-6
"""The relative difference up to which two constants are one."""
NAMED = 3
"""Arms up to which each is named; of more, the largest number is given."""


def theorem_sentences(problem: Problem, analysis: Analysis, found: Bounds | None) -> list[str]:
    """Theorems 1 to 5 for C-UCB on an analysed problem, a sentence or two each. Empty without a distribution."""
    if analysis.gap is None:
        return []
    about = theorems(problem, analysis) if found is None else found.theorems
    if about.regret is None or about.worst_case is None:
        why = "have one best arm" if problem.deterministic else "have no random rewards"
        return [f"The paper's Theorems 1, 2, 3 and 5 are about problems that {why}.", *_fourth(problem, found)]
    return [
        *_pulls(about),
        f"Theorem 3: so C-UCB's regret is at most {amount(about.regret)}. These are guarantees, far above simulations.",
        *_fourth(problem, found),
        "Theorem 5: whatever the gaps, also if they shrink as T grows, C-UCB's regret is of the order √(T log T), for given K "
        "and B. That is an order without a constant, as a step of the paper's proof is false. Here the gaps stay, all of them "
        f"large in the proof's sense from round {about.worst_case.since:,} on, and log T says more.",
    ]


def amount(bound: Guarantee) -> str:
    """A guarantee as a table shows it.

    >>> amount(Guarantee(2, None, 393.97, 174615.7)), amount(Guarantee(1, 42594, 0.0, 127783.2))
    ('394.0 × log T + 174,616', '127,783')
    """
    return f"{short(bound.log)} × log T + {short(bound.constant)}" if bound.log else short(bound.constant)


def _pulls(about: Theorems) -> list[str]:
    """Theorems 1 and 2: how often the arms of either kind are pulled."""
    out = []
    for number, kind, end in ((1, "non-competitive", ", however long it runs"), (2, "competitive", "")):
        bounds = {arm: amount(bound) for arm, bound in about.pulls.items() if bound.theorem == number}
        if not bounds:
            what = None
        elif len(bounds) > NAMED:
            what = f"each of the {len(bounds)} {kind} arms at most {column(about, number)} times"
        elif len(set(bounds.values())) > 1:
            what = f"the {kind} arms, {listing([f'{arm} at most {most} times' for arm, most in bounds.items()])},"
        else:
            are, each = ("is", "") if len(bounds) == 1 else ("are", "each ")
            what = f"{listing(list(bounds))}, which {are} {kind}, {each}at most {next(iter(bounds.values()))} times"
        said = f"is about {kind} arms: there are none" if what is None else f"C-UCB pulls {what} on average{end}"
        out.append(f"Theorem {number}{':' if what else ''} {said}.")
    return out


def column(about: Theorems, number: int) -> str:
    """The largest of Theorem 1's or 2's bounds on pulls, for a table."""
    mine = [bound for bound in about.pulls.values() if bound.theorem == number]
    return amount(max(mine, key=lambda bound: (bound.log, bound.constant))) if mine else "–"


def _fourth(problem: Problem, found: Bounds | None) -> list[str]:
    """Theorem 4 as printed beside the Graves-Lai constant."""
    if found is None:
        words = "Theorem 4 compares laws of rewards: it is computed where the values of X can be listed."
        return [] if listed(problem.latent) else [words]
    printed, right, arms = found.theorem4_printed, found.graves_lai, len(problem.names)
    if printed == right == 0:
        return ["Theorem 4: its lower bound is 0 × log T, as the Graves–Lai constant is: bounded regret is possible."]
    says = f"Theorem 4: no good policy has less regret than {short(printed)} × log T in the long run"
    if found.theorem4 is not None:
        return [f"{says}; with two arms that is the Graves–Lai constant."]
    if printed <= right * (1 + ALIKE):
        return [f"{says}. So it is here, but not with {arms} arms as a rule; the Graves–Lai constant is {short(right)}."]
    return [
        f"{says}, it says. With {arms} arms that is not so, because pulls of the others inform, too: "
        f"the Graves–Lai constant is {short(right)}."
    ]
