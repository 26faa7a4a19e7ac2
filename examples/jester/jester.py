"""From ratings to decisions on Jester: learn from half of the people, decide for the others, in markets with another mix.

    python examples/jester/jester.py jester-data-1.zip                 # about half an hour on two cores
    python examples/jester/jester.py jester-data-1.zip --draws 2 --runs 4 --horizon 2000    # a quick look

Takes people who rated all 100 jokes, half of them as control group. `headwater fit` finds segments and channels; each of ten
draws takes ten jokes at random as arms and a market whose mix of segments is drawn from a Dirichlet(0.5) law. Policies decide
which joke to tell; what they are paid are the real ratings of held-out people.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np

from headwater.arrays import Floats
from headwater.errors import HeadwaterError, ProblemError
from headwater.evaluation.guard import Degree, guard_curve
from headwater.evaluation.trial import POLICIES, Trial, run_trial
from headwater.progress import share_bar
from headwater.report.draw import save
from headwater.report.trial_page import draw_trial, guard_markdown, replace_block, trial_markdown

ROOT = Path(__file__).parent.parent.parent
JOKES, MISSING, LARGEST = 100, 99.0, 10.0
WHERE = (
    "expected Jester data set 1 (K. Goldberg, T. Roeder, D. Gupta, C. Perkins, Eigentaste: A Constant Time Collaborative "
    "Filtering Algorithm, Information Retrieval 4(2), 2001), which its authors at UC Berkeley offer for research under the "
    "name jester-data-1.zip: a table without a header, a row per person, the number of jokes rated and then 100 ratings from "
    "-10 to 10, 99 for none"
)


def read_ratings(path: Path) -> Floats:
    """The ratings (U, 100) of everybody who rated all jokes; refuses what is not the file, and says where one gets it."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
                if len(names) != 1:
                    raise ProblemError(f"{path}: holds {len(names)} CSV files; {WHERE}")
                text = io.TextIOWrapper(archive.open(names[0]), encoding="utf-8")
                table = np.loadtxt(text, delimiter=",", ndmin=2)
        else:
            table = np.loadtxt(path, delimiter=",", ndmin=2)
    except OSError as error:
        raise ProblemError(f"{path}: cannot be read: {error.strerror or 'there is no such file'}; {WHERE}") from None
    except (ValueError, zipfile.BadZipFile) as error:
        raise ProblemError(f"{path}: is no table of numbers ({error}); {WHERE}") from None
    if table.shape[1] != JOKES + 1:
        raise ProblemError(f"{path}: has {table.shape[1]} columns; {WHERE}")
    ratings = table[:, 1:]
    rated = ratings != MISSING
    if np.any(abs(ratings[rated]) > LARGEST):
        raise ProblemError(f"{path}: has a rating of {ratings[rated][np.argmax(abs(ratings[rated]))]:g}; {WHERE}")
    if not np.array_equal(rated.sum(axis=1), table[:, 0]):
        u = int(np.argmax(rated.sum(axis=1) != table[:, 0]))
        raise ProblemError(f"{path}: row {u + 1} says {table[u, 0]:g} ratings and has {rated[u].sum()}; {WHERE}")
    whole: Floats = ratings[rated.all(axis=1)]
    if len(whole) < 1000:
        raise ProblemError(f"{path}: {len(whole)} people rated all jokes, 7,200 should have; {WHERE}")
    return whole


def guard_of(trial: Trial, threads: int | None) -> list[Degree]:
    """The guard by degrees of wrongness, in the first draw."""
    draw = trial.draws[0]
    people, run = trial.people.of_arms(draw.arms), draw.market.simulation
    runs = min(run.replications, 20)
    return guard_curve(people, draw.market.population, horizon=run.horizon, runs=runs, seed=run.seed, threads=threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the path of your copy of jester-data-1.zip, or of the CSV file in it")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--arms", type=int, default=10)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--no-start", action="store_true", help="leave out Thompson sampling started from the control group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--keep", type=Path, help="a folder that keeps every draw: what it holds is not done again")
    parser.add_argument("--again", nargs="+", default=[], help="policies to run again all the same")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    parser.add_argument("--write", action="store_true", help="put the table into docs/jester.md and the figure beside it")
    options = parser.parse_args()
    try:
        ratings = read_ratings(options.data)
        with share_bar() as progress:
            trial = run_trial(
                ratings,
                [f"joke {k + 1}" for k in range(JOKES)],
                arms=options.arms,
                draws=options.draws,
                policies=options.policies,
                horizon=options.horizon,
                replications=options.runs,
                seed=options.seed,
                threads=options.threads,
                progress=progress,
                name="Jester",
                folder=options.keep,
                again=options.again,
                started=not options.no_start,
            )
    except HeadwaterError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    text = trial_markdown(trial)
    if "auto" in options.policies:
        text += "\n" + guard_markdown(guard_of(trial, options.threads), options.horizon)
    print(text)
    if options.json is not None:
        options.json.write_text(json.dumps(trial.to_dict()), encoding="utf-8")
    if options.write:
        page = ROOT / "docs" / "jester.md"
        page.write_text(replace_block(page.read_text(encoding="utf-8"), "examples/jester/jester.py", text), encoding="utf-8")
        save(draw_trial(trial), ROOT / "docs" / "figures" / "jester.png")


if __name__ == "__main__":
    main()
