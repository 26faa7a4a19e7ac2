"""The page docs/tournament.md and its figure, from what tournament.py and audit.py measured into results/."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import audit
import tournament

ROOT = Path(__file__).parent.parent
NEW = ("joint-ucb", "latent-ts", "graves-lai")

INTRODUCTION = """# Which policy?

`make tournament` measures everything on this page again (`tournament.py`, `slope.py`, `wrong_models.py` and `audit.py` in
`benchmarks`); it takes hours on two cores. Measured at {commit}.

`hw.make_policy("auto", problem)` gives `joint-ucb`: it needs no listed support, and has the lightest tails of the new policies.
`latent-ts` has still less regret on the random problems, `graves-lai` in some of the paper's cases, but now and then a run of
theirs goes on with the wrong arm for long (see the 99th percentiles). `c-ts (estimated)` estimates each arm's deviation, where
`c-ts` takes B/2: mostly less regret, but an arm that paid the same a few times is believed too soon, and then a run goes wrong
for very long.

## The paper's listed cases

Mean regret ± standard error after {horizon:,} rounds, over {runs:,} runs, on the same draws. The ratios are to C-UCB's. C-UCB
has no audit and trusts the model for ever. The new policies audit every arm that the model excludes, from round 30 on: that is
what `joint-ucb` costs more here than `joint-ucb (audit=0)`, and what saves it where the model is wrong (see the last sections).
How fast an audit's budget grows (0.15 log t) was chosen with these cases and the wrong models below in view.

"""

RANDOM = """
## {count} random problems

2 to 20 arms, 2 to 50 values of X, 2 to 5 rewards an arm; half have deterministic, half random rewards
(`benchmarks/tournament.py` draws them). {runs} runs of {horizon:,} rounds each. *Ratio* is the geometric mean, over the
problems, of mean regret divided by C-UCB's, 0.1 added to both; *worst* the largest such ratio; *worse* counts problems on which
the mean is above C-UCB's by more than three standard errors of the paired difference. The laws of X are uniform over all laws.
`graves-lai` is left out: its programme takes milliseconds with many arms.

"""

LONGER = """
The same {count} problems after {horizon:,} rounds, {runs} runs each.

"""

OTHERS = """
The paper's other problems, {runs} runs of {horizon:,} rounds each. `latent-ts` and `graves-lai` need a support that is listed.
*Difference* is `joint-ucb`'s mean regret less C-UCB's, with its standard error.

"""

NONE_LOST = "\n`{title}` is worse than C-UCB on none of them.\n"
LOST = """
Here `{title}` is worse than C-UCB, which trusts the model and never audits:

| problem | {title} | c-ucb | difference | its standard error |
|---|---|---|---|---|
"""

SLOPE = """
## How near `graves-lai` comes to the lower bound

The growth of its mean regret per unit of log t, from 10⁵ to 10⁷ rounds ({runs} runs), with its default audit and without,
beside the least that any policy can have that is good on every problem:

| case | policy | regret at 10⁵ | at 10⁷ | slope | lower bound |
|---|---|---|---|---|---|
"""

WRONG = """
## When the model is wrong

{models} models with 1 to 3 wrong cells (`benchmarks/wrong_models.py` draws them: 2 to 8 arms, 2 to 12 values of X, half with
deterministic and half with random rewards; at least half of them, told the true law of X, call an arm best that is not),
{runs} runs of {horizon:,} rounds. Regret is divided by UCB1's, which reads no model, or by the median of UCB1's over all models
({floor:.0f}) where that is more. *Rising*: above 2, and more so than at half the rounds. *u and v*: a wrong model by which v is
never best: u = [3, 3, 1], v = [3, 0, 0], where in truth u = [3, 1, 1], v = [3, 3, 0]; there UCB1's own regret is the divisor.
`audited=open-arms,schedule=late` was release 0.1's default.

| policy | mean ratio | worst | above 2 | rising | u and v |
|---|---|---|---|---|---|
"""

AUDIT = """
## What the guard and the audit cost, and what they buy

A *wrong* model calls the truly best arm bad: its rewards are mixed, in the model, with its worst one until it looks worse
than the second best. {wrong} such problems, {runs} runs of {horizon:,} rounds, `joint-ucb`. Trusting such a model costs
{trusting:.0f} times UCB1's regret. *Right* models are the same problems, described truly, and the paper's five listed cases.
The guard's error rate is {guard:g} throughout; the default audit is {default:g}. *Late* is release 0.1's default: no audit
before round 1,000, next to no growth of the budget after it, and none of an arm that the model calls no better than the
most-pulled one *whatever X is* until something contradicts the model.

![Regret by audit](figures/audit.png)

| audit | wrong: regret / UCB1's | wrong: mean of the ratios | wrong: worst ratio | right: regret / trusting |
|---|---|---|---|---|
"""


def panels_table(found: dict[str, Any], commit: str) -> str:
    first = next(iter(found.values()))
    titles = list(first["policies"])
    lines = [
        INTRODUCTION.format(horizon=first["horizon"], runs=first["policies"]["c-ucb"]["runs"], commit=commit),
        "| case | " + " | ".join(titles) + " | best new / C-UCB |\n",
        "|---" * (len(titles) + 2) + "|\n",
    ]
    for name, entry in found.items():
        rows = entry["policies"]
        cells = [f"{rows[t]['mean']:.1f} ± {rows[t]['se']:.1f}" for t in titles]
        best = min((t for t in NEW if t in rows), key=lambda t: rows[t]["mean"])
        ratio = rows[best]["mean"] / rows["c-ucb"]["mean"]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ratio:.3f} ({best}) |\n")
    lines.append(
        "\nThe 99th percentile of the same runs:\n\n| case | "
        + " | ".join(titles)
        + " |\n"
        + "|---" * (len(titles) + 1)
        + "|\n"
    )
    for name, entry in found.items():
        lines.append(f"| {name} | " + " | ".join(f"{entry['policies'][t]['p99']:.0f}" for t in titles) + " |\n")
    return "".join(lines)


def others_table(found: dict[str, Any]) -> str:
    first = next(iter(found.values()))
    titles = list(first["policies"])
    lines = [
        OTHERS.format(horizon=first["horizon"], runs=first["policies"]["c-ucb"]["runs"]),
        "| case | " + " | ".join(titles) + " | difference |\n" + "|---" * (len(titles) + 2) + "|\n",
    ]
    for name, entry in found.items():
        rows = entry["policies"]
        cells = [f"{rows[t]['mean']:.1f} ± {rows[t]['se']:.1f}" for t in titles]
        mine = rows["joint-ucb"]
        lines.append(f"| {name} | {' | '.join(cells)} | {mine['difference']:.1f} ± {mine['difference_se']:.1f} |\n")
    return "".join(lines)


def random_table(found: dict[str, Any], words: str) -> str:
    entries = list(found.values())
    lines = [
        words.format(count=len(entries), horizon=entries[0]["horizon"], runs=entries[0]["policies"]["c-ucb"]["runs"]),
        "| policy | ratio | worst | worse | mean regret |\n|---|---|---|---|---|\n",
    ]
    for title, row in tournament.summary(found).items():
        ratio, worst = row["geometric_mean_ratio"], row["worst_ratio"]
        lines.append(f"| {title} | {ratio:.3f} | {worst:.2f} | {row['worse']} | {row['mean_regret']:.1f} |\n")
    for title in entries[0]["policies"]:
        if title.startswith("joint-ucb"):
            lines += lost(found, title)
    return "".join(lines)


def lost(found: dict[str, Any], title: str) -> list[str]:
    """Where a policy is worse than C-UCB beyond noise."""
    rows = []
    for name, entry in found.items():
        mine, theirs = entry["policies"][title], entry["policies"]["c-ucb"]
        if mine["difference"] > 3 * mine["difference_se"]:
            cells = (mine["mean"], theirs["mean"], mine["difference"], mine["difference_se"])
            rows.append(f"| {name} | {' | '.join(f'{x:.2f}' for x in cells)} |\n")
    return [LOST.format(title=title), *rows] if rows else [NONE_LOST.format(title=title)]


def slope_table(found: dict[str, Any]) -> str:
    lines = [SLOPE.format(runs=next(iter(found.values()))["runs"])]
    for name, entry in found.items():
        for title, row in entry["policies"].items():
            first, last = row["regret"]
            slope = f"{row['slope']:.2f} ± {row['se']:.2f}"
            lines.append(f"| {name} | {title} | {first:.1f} | {last:.1f} | {slope} | {entry['bound']:.2f} |\n")
    return "".join(lines)


def wrong_section(found: dict[str, Any]) -> str:
    head = WRONG.format(models=len(found["rows"]), runs=found["runs"], horizon=found["horizon"], floor=found["floor"])
    lines = []
    for title, row in found["summary"].items():
        one = next(r for r in found["rows"] if r["model"] == "u and v")
        cells = (row["mean"], row["worst"], one[title][1] / one["ucb1"][1])
        counts = f"{row['above_2']} | {row['above_2_and_rising']}"
        lines.append(f"| {title} | {cells[0]:.2f} | {cells[1]:.2f} | {counts} | {cells[2]:.2f} |\n")
    return head + "".join(lines)


def audit_rows(found: dict[str, Any]) -> dict[str, list[float]]:
    rows = {key.removeprefix("joint-ucb "): row for key, row in audit.summary(found).items() if key.startswith("joint-ucb ")}
    return {title: [row[x] for x in ("wrong", "wrong_mean_ratio", "wrong_worst", "right")] for title, row in rows.items()}


def audit_section(found: dict[str, Any]) -> str:
    from headwater.policies.rules import AUDIT as DEFAULT

    rows = audit_rows(found)
    head = AUDIT.format(
        wrong=len(found["wrong"]),
        runs=found["runs"],
        horizon=found["horizon"],
        trusting=rows["trusting"][0],
        guard=found["guard"],
        default=DEFAULT,
    )
    names = {"trusting": "no guard, 0", "late": f"{DEFAULT:g}, late (release 0.1)"}
    lines = [f"| {names.get(t, t)} | " + " | ".join(f"{x:.2f}" for x in row) + " |\n" for t, row in rows.items()]
    return head + "".join(lines)


def draw_audit(found: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = {float(t): row for t, row in audit_rows(found).items() if t not in ("trusting", "late")}
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(list(rows), [row[0] for row in rows.values()], "o-", color="#d55e00", label="wrong model: regret / UCB1's")
    axes.plot(
        list(rows), [row[3] for row in rows.values()], "s-", color="#0072b2", label="right model: regret / trusting the model"
    )
    axes.axhline(1.0, color="#555555", linestyle=":", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="audit", title="What an audit costs, and what it buys (joint-ucb)")
    ticks = [0.25, 0.5, 1, 2, 4]
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks], minor=False)
    axes.set_yticks([0.2, 0.5, 1, 1.5, 2], ["0.2", "0.5", "1", "1.5", "2"])
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_minor_formatter("")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=110)


def head() -> str:
    """The commit that is measured, in words."""
    told = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return f"commit {told.stdout.strip() or 'unknown'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default=head(), help="at which commit the results were measured, if not at this one")
    options = parser.parse_args()
    read = {
        name: json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("panels", "others", "random", "longer", "slope", "audit", "wrong")
    }
    text = panels_table(read["panels"], options.commit) + others_table(read["others"])
    text += random_table(read["random"], RANDOM) + random_table(read["longer"], LONGER)
    text += slope_table(read["slope"]) + wrong_section(read["wrong"]) + audit_section(read["audit"])
    (ROOT / "docs" / "tournament.md").write_text(text, encoding="utf-8")
    draw_audit(read["audit"], ROOT / "docs" / "figures" / "audit.png")


if __name__ == "__main__":
    main()
