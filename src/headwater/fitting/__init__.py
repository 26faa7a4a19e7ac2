"""From the log of a control group to a problem: what each arm pays to each kind of unit, and how many kinds there are.

``sources`` opens a file or a database, ``logs`` gives every log one shape and checks it, ``counts`` counts rewards where they
lie, ``levels`` makes few levels of many rewards, ``mixture`` and ``features`` find segments where none are given, ``channels``
makes laws with intervals out of counts, ``identity`` tells the same data again, ``result`` is what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.fitting.pipeline import fit_log
from headwater.fitting.result import Fit, Stability

__all__ = ["Fit", "Stability", "fit"]


def fit(
    data: Any,
    *,
    arm: str | None = None,
    reward: str | None = None,
    segment: str | None = None,
    unit: str | None = None,
    features: Sequence[str] = (),
    time: str | None = None,
    wide: bool | Sequence[str] = False,
    missing: Any = None,
    until: Any = None,
    database: str | None = None,
    method: str = "auto",
    segments: int | None = None,
    levels: int | None = None,
    edges: Sequence[float] | None = None,
    least: int = 10,
    confidence: float = 0.95,
    sample: int = 20_000,
    hold_out: float | None = None,
    seed: int = 0,
    name: str = "",
    command: str = "",
    progress: Any = None,
) -> Fit:
    """Learn a problem from a log: the latent X are segments of units, each arm's reward is random given the segment.

    ``data``: a CSV or Parquet file, the name of a table of ``database`` (a DuckDB file or an address such as
    ``postgres://host/name``), or a table in memory. ``arm`` and ``reward`` name columns, a row per reward; or ``wide`` says
    that there is a column per arm (True: all columns not named otherwise), and a row per unit. ``missing``: no reward.

    Segments come from one of: ``segment``, a column; ``features``, columns they are found from; or what each ``unit`` was paid
    by several arms (the rows of a wide table are units). ``segments``: how many to find, by default chosen on held-out data.
    ``method``: "channels" (rewards), "kmeans", "gaussian" or "categorical" (features), by default what the columns allow.

    ``levels``: how many levels many different rewards are cut into, ``edges``: where. ``least``: a cell with fewer rewards is
    pooled. ``confidence`` of the intervals. ``sample``: the most units that segments are learned from. ``time`` is checked for
    drift and for arms that were never on at the same time; ``until`` leaves out what came later. ``hold_out``: a share of the
    units (of the rows, where none are named) that nothing is learned from, for :func:`headwater.evaluate` to find again by
    ``held_out=True``. The same ``seed`` gives the same fit.

    >>> log = {"ad": ["plain", "bold"] * 40, "who": ["young"] * 40 + ["old"] * 40, "won": [0, 1] * 20 + [1, 0, 0, 0] * 10}
    >>> learned = fit(log, arm="ad", reward="won", segment="who")
    >>> learned.segments, learned.problem
    (['old', 'young'], <Problem a table in memory: 2 arms, discrete X>)
    >>> learned.channels[0].mean.round(2)  # bold: for the old, for the young
    array([0.02, 0.98])
    """
    return fit_log(
        data, columns=(arm, reward, segment, unit, tuple(features), time), wide=wide, missing=missing, until=until,
        database=database, method=method, segments=segments, levels=levels, edges=edges, least=least, confidence=confidence,
        sample=sample, hold_out=hold_out, seed=seed, name=name, command=command, progress=progress,
    )  # fmt: skip
