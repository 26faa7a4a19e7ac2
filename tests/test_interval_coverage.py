"""The grid over which intervals are counted: what it covers, one test over all of its cells, rivals that are what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import interval_coverage
from interval_cells import GRID, OURS, Cell, Outcome
from interval_coverage import Line, failing, honest_methods, keep, kept_lines, known_cells, measure, ratio_of, summary, table
from interval_rivals import RIVALS, Terms, blakers, clipped

interval_coverage.load()


def line(group: str, held: int, number: int = 2000, rival: int = 1900, width: float = 1.0) -> Line:
    """A line in which ``held`` of our intervals and ``rival`` of another method's hold, whose width is ``width`` of ours."""
    counts = {OURS: held, "other": rival}
    return Line(
        group, f"{held} of {number}", "means", 0.95, 0, counts, dict.fromkeys(counts, number), {OURS: 1.0, "other": width}
    )


def test_the_grid_is_of_at_most_sixty_cells_that_have_a_page_and_markers() -> None:
    assert len(GRID.cells) <= interval_coverage.MOST_CELLS
    assert len({(cell.group, cell.name) for cell in GRID.cells}) == len(GRID.cells)
    for group in {cell.group for cell in GRID.cells}:
        text = interval_coverage.PAGES[group].read_text(encoding="utf-8")
        begin, end = f"<!-- coverage: {group} -->\n", "<!-- end of coverage -->"
        assert text.count(begin) == 1 and text.split(begin)[1].count(end) >= 1
    for words in (
        "0.1 %",
        "50 %",
        "34 arms",
        "50 arms",
        "40 segments",
        "adaptive",
        "a rare one",
        "counts",
        "amounts",
        "1 to 50",
    ):
        assert any(words in cell.name for cell in GRID.cells), words
    assert all(cell.runs >= 200 for cell in GRID.cells)


def test_holms_procedure_blames_the_worst_first() -> None:
    assert failing([0.001, 0.5, 0.004]) == [True, False, True]
    assert failing([0.02, 0.5]) == [False, False]


def test_chance_is_allowed_for_over_all_groups_together() -> None:
    """A line that is unlikely by itself fails in a grid of one, and not among sixty."""
    low = next(held for held in range(1880, 1800, -1) if stats.binom.cdf(held, 2000, 0.94) < 0.009)
    alone, among = [line("a", low)], [line("a", low), *(line("b", 1900) for _ in range(59))]
    assert "(fails)" in table("a", alone)[2] and "(fails)" not in table("a", among)[2]
    assert summary("b", [*alone, line("b", 1900)]).startswith("0 of 1 lines fail, 0 of all 2 of the whole grid of 2 cells")
    assert "(fails)" in "".join(table("b", [*among, line("b", 1000)]))


def test_honest_is_who_holds_in_every_cell_and_widths_are_held_against_them() -> None:
    good, bad = line("a", 1900, width=0.5), line("b", 1900, rival=1500, width=0.5)
    assert honest_methods([good]) == {OURS, "other"} and honest_methods([good, bad]) == {OURS}
    assert ratio_of(good, {OURS, "other"}) == 2 and ratio_of(good, {OURS}) == 1
    assert "2.00 times the best honest one's; above 1.3: 1900 of 2000 (means)" in summary("a", [good])
    said = summary("a", [good, bad])
    assert (
        "1.00 times the best honest one's. Beside" in said and "at most 2.00 times as wide (other: 1900 of 2000, means)" in said
    )


def test_what_was_counted_is_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    hits = rng.random(300) < 0.95
    cell = Cell("a", "coin", lambda runs: {"means": Outcome({OURS: hits[:runs]}, {OURS: np.ones(runs)}, 3)}, runs=300)
    lines, path = measure(cell, 300), tmp_path / "folder" / "kept.json"
    assert kept_lines(path, [cell], None) == [] and known_cells(path) == set()
    keep(path, "a", "coin", 200, measure(cell, 200))
    assert kept_lines(path, [cell], None) == [], "fewer runs than are asked for"
    keep(path, "a", "coin", 300, lines)
    assert kept_lines(path, [cell], None) == lines and known_cells(path) == {("a", "coin")}
    assert lines[0].held[OURS] == hits.sum() and "| 300 (3 refused) |" in table("a", lines)[2]


@pytest.mark.parametrize(("trials", "rate"), [(30, 0.1), (147, 0.001), (300, 0.005), (100, 0.5)])
def test_blakers_interval_is_exact_and_within_clopper_and_pearsons(trials: int, rate: float) -> None:
    hits = np.arange(trials + 1)
    ends = np.array([blakers(k, trials) for k in hits])
    held = (ends[:, 0] <= rate) & (rate <= ends[:, 1])
    assert stats.binom.pmf(hits, trials, rate) @ held >= 0.95
    outer = np.array([stats.binomtest(int(k), trials).proportion_ci() for k in hits])
    assert np.all(ends[:, 0] >= outer[:, 0] - 1e-9) and np.all(ends[:, 1] <= outer[:, 1] + 1e-9)
    terms = Terms(np.repeat([0.0, 2.0], [trials - 1, 1]), np.ones(trials), (0.0, 2.0), (0.0, 2.0))
    found = clipped(RIVALS["blaker"](terms), terms)
    assert found == pytest.approx(2 * ends[1])
