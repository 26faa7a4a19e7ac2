"""What the paper's proofs rest on: exclusions of the best arm, and gaps that shrink."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import headwater as hw
from headwater import proofs
from headwater.paper import CASES, INVERTIBLE, SEED, TWO_ARMS, Panel, reproduce
from headwater.proofs import (
    OVERLAP,
    REVEAL,
    Proofs,
    exclusions_of,
    false_share,
    law_with_gaps,
    lemma,
    look_at_proofs,
    shrinking,
)
from headwater.report.paper_draw import draw_shrinking, example_round
from headwater.report.proofs_page import theorems_section
from headwater.report.style import short

DISCRETE_3 = next(case for case in CASES if case.id == "discrete-3")


@pytest.fixture(scope="module")
def panels() -> list[Panel]:
    few = [replace(case, replications=40, others=2, learners=2) for case in (TWO_ARMS, DISCRETE_3)]
    return reproduce(few, scale=0.1)


@pytest.fixture(scope="module")
def found(panels: list[Panel]) -> Proofs:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "RUNS", {1_000: 40, 10_000: 20, 30_000: 16})
        told: list[float] = []
        out = look_at_proofs(panels, progress=lambda title, share: told.append(share))
    assert told == sorted(told) and told[0] == 0 and told[-1] < 1
    return out


# the lemma


def test_exclusions_are_counted_round_by_round(panels: list[Panel]) -> None:
    """Against the live policy on the same rewards: in which rounds it would not have pulled the best arm."""
    run = panels[1].simulation
    assert run is not None
    until = 100
    short = hw.simulate(run.problem, policies=["c-ucb"], horizon=until, replications=40, seed=run.seed)
    first = exclusions_of(panels[1])[0]
    assert (first.since, first.until) == (1, until)
    shares = short.outcomes["c-ucb"].excluded[:, run.best] / until
    assert first.share == pytest.approx(float(shares.mean())) and 0 < first.share < 0.5
    assert first.runs == float((shares > 0).mean())


def test_decades_add_up_to_all_rounds(panels: list[Panel]) -> None:
    for panel in panels:
        rows, run = exclusions_of(panel), panel.simulation
        assert run is not None
        assert [row.since for row in rows] == [1, 101, 1001] and rows[-1].until == run.horizon == 2000
        rounds = sum(row.share * (row.until - row.since + 1) for row in rows)
        assert rounds == pytest.approx(float(run.outcomes["c-ucb"].excluded[:, run.best].mean()))


def test_the_bound_of_the_lemma(panels: list[Panel]) -> None:
    """Case 3: least gap 0.3 / 4, K = 3; it says nothing before the round where 2 t exp(-t gap² / 6) falls below 1."""
    rows = exclusions_of(panels[1])
    gap = 0.3 / 4
    t = np.arange(1, 101)
    by_hand = t * np.exp(-t * gap**2 / 6)
    assert rows[0].printed == pytest.approx(float(np.minimum(by_hand, 1).mean()))
    assert rows[0].corrected == pytest.approx(float(np.minimum(2 * by_hand, 1).mean()))
    before, after = (2 * t * math.exp(-t * gap**2 / 6) for t in (rows[0].says - 1, rows[0].says))
    assert after < 1 <= before
    # with two arms K - 1 is 1: both are the same
    assert all(row.printed == row.corrected for row in exclusions_of(panels[0]))
    assert lemma(10, 1.0, 2) == pytest.approx(10 * math.exp(-10 / 4))


# Theorem 5


@pytest.mark.parametrize("g", [DISCRETE_3.problem.rewards, INVERTIBLE.problem.rewards])
def test_laws_with_given_gaps(g: np.ndarray) -> None:
    for gap in (0.0, 1e-3, 0.5):
        law = law_with_gaps(g, gap)
        assert law is not None and law.min() >= 0 and law.sum() == pytest.approx(1)
        np.testing.assert_allclose((g @ law)[-1] - (g @ law)[:-1], gap, atol=1e-9)
    assert law_with_gaps(g, 3.9) is None


def test_gaps_shrink_like_the_root_of_log_t_over_t(found: Proofs) -> None:
    for row in found.small:
        assert row.gap == pytest.approx(row.scale * 4 * math.sqrt(math.log(row.horizon) / row.horizon))
    assert {(row.arms, row.policy) for row in found.small} == {(a, p) for a in (OVERLAP, REVEAL) for p in ("ucb1", "c-ucb")}


def test_ratios_are_regret_over_the_order(found: Proofs) -> None:
    """Of the first gaps: the same simulation again."""
    row = found.small[0]
    law = law_with_gaps(DISCRETE_3.problem.rewards, row.gap)
    again = hw.simulate(DISCRETE_3.problem, law, policies=["ucb1"], horizon=row.horizon, replications=40, seed=SEED)
    order = 4 * math.sqrt(row.horizon * math.log(row.horizon))
    assert row.ratio == pytest.approx(float(again.regret("ucb1")[:, -1].mean()) / order)


def test_the_largest_ratio_is_flat_where_arms_overlap_and_falls_where_they_reveal_x(found: Proofs) -> None:
    """20 and 16 runs at the last two horizons: the standard errors are below 0.03, so a false alarm needs over four of them."""
    flat = [row.ratio for row in proofs.worst(found.small, OVERLAP, "ucb1").values()]
    assert max(flat) / min(flat) < 1.25
    overlap, reveal = (list(proofs.worst(found.small, arms, "c-ucb").values())[-1].ratio for arms in (OVERLAP, REVEAL))
    assert reveal < 0.5 * overlap


def test_the_false_step_of_the_proof() -> None:
    """Counted by hand for T = 1000: t exp(-9 t log T / 2T) against t^-2."""
    over = [t * math.exp(-4.5 * t * math.log(1000) / 1000) > t**-2 for t in range(1, 1001)]
    assert false_share(1000) == pytest.approx(np.mean(over)) and 0.6 < false_share(1000) < 0.7


def test_the_statements_of_the_proofs(found: Proofs) -> None:
    lemma_holds, order, step, series = found.checks
    assert lemma_holds.agrees and "in no case is the share of rounds above" in lemma_holds.computed
    assert "largest regret / B √(T log T) at T = 1,000, 10,000, 30,000" in order.computed
    assert not step.agrees and "for 64% of the t" in step.computed
    assert not series.agrees and series.computed == "π²/6 = 1.6449, not 4.2899"


def test_a_bound_that_is_broken_is_said() -> None:
    broken = proofs.Exclusion("case", 1, 100, share=0.5, error=0.01, runs=1.0, printed=0.3, corrected=0.6, says=1)
    (check,) = proofs._lemma([broken])
    assert not check.agrees and check.computed.startswith("in case is the share of rounds above the bound's mean")
    assert proofs._lemma([]) == []


def test_gaps_that_no_law_makes_are_left_out() -> None:
    rows = shrinking(scale=1e-4)
    assert {row.horizon for row in rows} == {100} and max(row.scale for row in rows) < 4  # no law has gaps that large


# the page


def test_the_section_says_what_the_numbers_say(found: Proofs, panels: list[Panel]) -> None:
    page = theorems_section(panels, found, "picture.svg")
    assert "Theorem 5." in page and "src='picture.svg'" in page and "820.5 × log T +<br>1,422,225" in page
    case_3 = page[page.index("discrete case 3") :]
    assert ">5.17</td><td class=number>4.53</td>" in case_3[: case_3.index("</tr>")]
    first = next(row for row in found.exclusions if row.case == "discrete-3")
    assert f"<td class=number>{short(100 * first.share)} %<br><small>≤ 1</small></td>" in page
    body = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(body) == ["exclusions", "shrinking_gaps", "checks"] and body["exclusions"][0]["case"] == "two-arms"


def test_the_picture_has_a_line_for_every_size_of_gaps(found: Proofs) -> None:
    drawing = draw_shrinking(found.small)
    assert [len(axis.lines) for axis in drawing.axes] == [2 * len(proofs.GAPS)] * 2


def test_figure_1_is_a_round_of_the_two_arm_example() -> None:
    this = example_round("x1", pulled=1)
    assert (this.rewards, this.possible, this.pseudo) == ((1.0, 1.5), ("x1", "x3"), 2.0)
