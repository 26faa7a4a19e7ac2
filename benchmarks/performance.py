"""Measure everything that docs/performance.md states, and write that page: ``make bench``.

``python benchmarks/performance.py many`` measures the sections that are named, and leaves the others as they are.

Ratios are between programs that ran side by side in this one run; absolute times belong to the machine it ran on.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gpu_page
import leap
import live
import many
import peers
import scaling
from headwater import bench

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
HEAD = """\
# Performance

Written by `make bench` (`benchmarks/performance.py`) on a machine with {cores} cores, Python {python}. Ratios are between
programs that ran side by side in that run; absolute times belong to that machine, which other work may have shared.

## Simulation and live decisions, beside C

`headwater bench`: the yardstick is a C program of ours (`src/headwater/bench/yardstick.c`), one replication at a time,
`cc -O3 -march=native`, on every core. Best of nine for each; the mean pulls of both must agree, or the benchmark fails.

```
{engine}
```

## Decisions that read all evidence

`benchmarks/live.py`: one update and one select of `joint-ucb`, live; and a simulated round. Five levels an arm, or three random
rewards. An arm's index is solved anew only while bounds leave open which is largest: with a hundred arms on a thousand values
of X, for most arms where one pays what it never paid before. Processor time, one thread. The aims: 2 microseconds a simulated
round with three arms, and 20 milliseconds a decision with a hundred, which the mean meets and not every 95th percentile.

```
{live}
```

## Horizons

`benchmarks/leap.py`: the paper's discrete cases, simulated by the leap engine and, beside it, round by round. Time grows like a
power of log T instead of T. Best of three, or of one where that takes long. The targets are in
seconds on the clock; growth is fitted to processor time, on all cores together, which other work hardly changes.

![Time of both engines against the number of rounds](figures/leap.png)

```
{leap}
```

## On a GPU

{gpu}

## Other libraries

`benchmarks/peers.py`: UCB1 on three arms, one process. river's and pymab's policies are asked for an arm and told its reward,
one round at a time, like our live policy.

```
{peers}
```

## Starting

| what | seconds |
|---|---|
{starting}

## Many arms, large supports

`benchmarks/many.py`. Where a table of all pairs of arms would take more than 0.5 GB, rows of it are made for the arms that
lead, from the rewards themselves, and only arms whose index can win are looked at; every decision is the same. Each size is
measured in a process of its own, whose peak memory is that of everything: Python, the rewards (0.8 GB at K = J = 10,000), the
problem, the tables, six policies simulated and one asked live. Times are of the processor, one thread, best of three; a
simulation is 100,000 + 30 K rounds of ucb1 and c-ucb, 10,000 + 3 K rounds of the others, one run: for few arms
the engine is made for many runs at once, which these times do not show.

![Time a round against K and J](figures/many.png)

```
{many}
```

## Analysis against K and J

`benchmarks/scaling.py`. Analysing one distribution costs O(K J) time and memory; expected pseudo-rewards for every observed
arm cost O(K² J) time and no more memory.

![Time and memory of an analysis](figures/scaling.png)

```
{scaling}
```
"""


def captured(function: Callable[[], object]) -> str:
    """What a function prints, while it also reaches the terminal."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        function()
    print(text.getvalue(), end="")
    return text.getvalue().strip()


def engine() -> None:
    bench.run(quick=False, say=print)


def seconds(*words: str) -> float:
    """The best of three runs of a command."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "headwater", *words], check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    return best


def starting() -> str:
    root = Path(__file__).parent.parent
    small = ["--horizon", "1000", "--replications", "10", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        paper = 0.0
        for scale in ("0.001", "1"):  # a short one first, which compiles
            start = time.perf_counter()
            words = [sys.executable, "-m", "headwater", "reproduce", "--output", folder, "--scale", scale]
            subprocess.run(words, check=True, capture_output=True)
            paper = time.perf_counter() - start
    rows = {
        "`headwater --help`": seconds("--help"),
        "`headwater analyze examples/ads.toml`": seconds("analyze", str(root / "examples" / "ads.toml")),
        "`headwater simulate examples/ads.toml`, 10 runs of 1,000 rounds, compiled code cached": seconds(
            "simulate", str(root / "examples" / "ads.toml"), *small
        ),
        "`headwater reproduce`: the whole paper, compiled code cached": paper,
    }
    text = "\n".join(f"| {name} | {value:.2f} |" for name, value in rows.items())
    print(text)
    return text


MEASURED: dict[str, Callable[[], str]] = {
    "engine": lambda: captured(engine),
    "live": lambda: captured(live.main),
    "leap": lambda: captured(leap.run),
    "gpu": gpu_page.summary,
    "peers": lambda: captured(peers.main),
    "starting": starting,
    "many": lambda: captured(many.main),
    "scaling": lambda: captured(scaling.main),
}


def main(names: list[str]) -> None:
    """Measure the sections named, or all; a section is what stands from one heading to the next."""
    wanted = names or list(MEASURED)
    machine = {"cores": os.cpu_count(), "python": platform.python_version()}
    old = {part.partition("\n")[0]: part for part in PAGE.read_text(encoding="utf-8").split("\n## ")}
    page = []
    for part in HEAD.split("\n## "):
        name = next((name for name in MEASURED if f"{{{name}}}" in part), "")
        keep = part.partition("\n")[0] in old and name not in wanted
        text = old[part.partition("\n")[0]] if keep else part.format(**machine, **({name: MEASURED[name]()} if name else {}))
        page.append(text.rstrip("\n") + "\n")
    PAGE.write_text("\n## ".join(page), encoding="utf-8")
    print("docs/performance.md is written")


if __name__ == "__main__":
    main(sys.argv[1:])
