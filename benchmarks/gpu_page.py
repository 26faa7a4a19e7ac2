"""The figures of docs/gpu.md, and a summary for docs/performance.md, from what gpu.py measured into benchmarks/gpu.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from leap import slope

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "benchmarks" / "gpu.json"
PAGE = ROOT / "docs" / "gpu.md"
MARK = "<!-- from here on written by benchmarks/gpu_page.py -->\n"

Lines = list[dict[str, Any]]

HEAD = """
```sh
python benchmarks/gpu.py --output benchmarks/gpu.json     # on a machine with a GPU: checks, then measures
python benchmarks/gpu_page.py                             # anywhere: writes what follows
```

One {device}, beside the {cores} cores of the same machine in the same run, {date};
{versions}.

### Equal

{passed} of {count} checks hold, on the paper's discrete problems and {random} random ones with 2 to {arms} arms:

- `ucb1` and `c-ucb`, float64: pulls and rewards of 4,096 replications equal at every one of up to 40 checkpoints, and
  exclusions at the last, in all {exact} cases;
- x_t: {draws};
- `ucb1` and `c-ucb`, float32: mean reward within {single_errors:.2f} standard errors of the CPU's; {single_least:.0%}
  to {single_most:.0%} of the replications equal to the last pull, depending on the problem;
- {other_names}: {other_least:.1%} to {other_most:.1%} of the replications equal to the last pull.

### Fast

Rounds a second, K = 3, J = 5, T = 10,000, two million replications (of the rules that take logarithms: 131,072). *GPU* is
the launches alone; *in all* ends when the results are in the host's memory, as `simulate_counts_cuda` returns them; *ratio* is
that to the CPU engine on all {cores} cores. The first call of a process also compiles. The aim was 2·10¹¹ rounds of `c-ucb` a
second; in float32 the GPU plays {aim}, and it is {aim_in_all} in all.

"""

GROWTH = """
### Growth

`c-ucb`, K = 3, float32, time of the launches. Over replications it grows like R^{empty:.2f} up to 16,384 of them, where
the GPU is not full, and like R^{full:.2f} from 131,072 to {last_count:,}; fitted over all three decades, R^{count:.2f}. Over
rounds, with 131,072 replications, it grows like T^{rounds:.2f} from T = {first_round:,} to {last_round:,}, and like
T^{late:.2f} from 100,000 on.

| replications, T = 10,000 | GPU, rounds a second | in all |
|--:|--:|--:|
{by_count}

| rounds, 131,072 replications | GPU, rounds a second | in all |
|--:|--:|--:|
{by_horizon}

Against the number of arms, float64, T = 4,096, random problems, as many replications as make 17 thousand million rounds × arms
(a million at most). From K = {first_arm} to {last_arm:,} the time of a round grows like K^{filtered:.2f} under `c-ucb` (on
the CPU K^{filtered_cpu:.2f}) and K^{plain:.2f} under `ucb1` (K^{plain_cpu:.2f}), and not evenly: arms leave registers,
then shared memory, then the caches.

| K | `c-ucb`: GPU | in all | CPU | ratio | `ucb1`: GPU | in all | CPU | ratio |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|
{by_arms}
"""

SUMMARY = """\
One {device}, beside the {cores} cores of the same machine in the same run ({date}, `benchmarks/gpu.py`; checks, growth and
all other figures are in [gpu.md](gpu.md)). Rounds a second, K = 3, J = 5, T = 10,000; *in all* includes bringing the results
to the host, and *ratio* is that to the CPU engine on all {cores} cores.

"""


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return found


def rate(x: float) -> str:
    """Rounds a second, three digits: 2.27·10¹¹."""
    mantissa, exponent = f"{x:.2e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def speeds(report: dict[str, Any]) -> str:
    rows = ["| policy | precision | problem | GPU | in all | CPU | ratio |", "|---|---|---|--:|--:|--:|--:|"]
    for x in report["speed"]:
        cpu, ratio = rate(x["cpu_rounds_per_second"]), x["rounds_per_second"] / x["cpu_rounds_per_second"]
        rates = f"{rate(x['gpu_rounds_per_second'])} | {rate(x['rounds_per_second'])} | {cpu} | {ratio:.0f}"
        rows.append(f"| `{x['policy']}` | {x['precision']} | {x['problem']} | {rates} |")
    return "\n".join(rows) + "\n"


def summary() -> str:
    """What docs/performance.md says."""
    report = read()
    return SUMMARY.format(**report) + speeds({"speed": [x for x in report["speed"] if x["problem"] == "discrete-2"]}).rstrip()


def equal(checks: Lines) -> dict[str, Any]:
    """The numbers of the checks, from what each of them says."""

    def numbers(pattern: str, lines: Lines) -> list[float]:
        found = [re.search(pattern, x["what"]) for x in lines]
        return [float(match[1]) / float(match[2] or 1) if match.lastindex == 2 else float(match[1]) for match in found if match]

    within = [x for x in checks if "s.e." in x["what"]]
    single = [x for x in within if x["what"].startswith("float32")]
    other = [x for x in within if x not in single]
    alike, others = (numbers(r"([\d.]+)% of replications", lines) for lines in (single, other))
    names = {x["problem"] for x in checks if x["problem"].startswith("random")}
    return {
        "passed": sum(x["passed"] for x in checks),
        "count": len(checks),
        "random": len(names),
        "arms": max(int(match[1]) for match in (re.search(r"K = (\d+)", name) for name in names) if match),
        "exact": sum("every checkpoint" in x["what"] for x in checks if x not in other),
        "other_names": ", ".join(dict.fromkeys(f"`{x['policy']}`" for x in other)),
        "draws": next(x["what"] for x in checks if x["problem"] == "x_t"),
        "single_errors": max(numbers(r"s\.e\. \(([\d.e-]+) of ([\d.e-]+)\)", single)),
        "single_least": min(alike) / 100,
        "single_most": max(alike) / 100,
        "other_least": min(others) / 100,
        "other_most": max(others) / 100,
    }


def growth(report: dict[str, Any]) -> str:
    over: dict[str, Lines] = {}
    for x in report["growth"]:
        over.setdefault(x["over"], []).append(x)
    counts, rounds, arms = over["replications"], over["rounds"], over["arms"]

    def exponent(lines: Lines, size: str) -> float:
        return slope([x[size] for x in lines], [x["gpu_seconds"] for x in lines])

    pairs = {policy: [x for x in arms if x["policy"] == policy] for policy in ("c-ucb", "ucb1")}

    def per_round(policy: str, which: str) -> float:
        return slope([x["arms"] for x in pairs[policy]], [1 / x[which] for x in pairs[policy]])

    def plain(lines: Lines, key: str) -> str:
        rates = ((x[key], rate(x["gpu_rounds_per_second"]), rate(x["rounds_per_second"])) for x in lines)
        return "\n".join(f"| {size:,} | {gpu} | {whole} |" for size, gpu, whole in rates)

    def beside(x: dict[str, Any]) -> str:
        cpu, ratio = x["cpu_rounds_per_second"], x["rounds_per_second"] / x["cpu_rounds_per_second"]
        return f"{rate(x['gpu_rounds_per_second'])} | {rate(x['rounds_per_second'])} | {rate(cpu)} | {ratio:.0f}"

    return GROWTH.format(
        empty=exponent([x for x in counts if x["replications"] <= 2**14], "replications"),
        full=exponent([x for x in counts if x["replications"] >= 2**17], "replications"),
        count=exponent(counts, "replications"),
        last_count=counts[-1]["replications"],
        rounds=exponent(rounds, "horizon"),
        late=exponent(rounds[-2:], "horizon"),
        first_round=rounds[0]["horizon"],
        last_round=rounds[-1]["horizon"],
        first_arm=arms[0]["arms"],
        last_arm=arms[-1]["arms"],
        filtered=per_round("c-ucb", "gpu_rounds_per_second"),
        filtered_cpu=per_round("c-ucb", "cpu_rounds_per_second"),
        plain=per_round("ucb1", "gpu_rounds_per_second"),
        plain_cpu=per_round("ucb1", "cpu_rounds_per_second"),
        by_count=plain(counts, "replications"),
        by_horizon=plain(rounds, "horizon"),
        by_arms="\n".join(f"| {x['arms']:,} | {beside(x)} | {beside(y)} |" for x, y in zip(*pairs.values(), strict=True)),
    )


def main() -> None:
    report = read()
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    best = max((x for x in report["speed"] if x["policy"] == "c-ucb"), key=lambda x: x["rounds_per_second"])
    aim = {"aim": rate(best["gpu_rounds_per_second"]), "aim_in_all": rate(best["rounds_per_second"])}
    head = HEAD.format(**{**report, "versions": versions}, **equal(report["checks"]), **aim)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page[: page.index(MARK) + len(MARK)] + head + speeds(report) + growth(report), encoding="utf-8")
    print("docs/gpu.md is written")


if __name__ == "__main__":
    main()
