"""Regret against the number of arms: the families, the measurement, and the page written from what was measured."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import headwater as hw

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
arms = pytest.importorskip("arms")


def test_the_page_is_written_from_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "policies.md"
    shutil.copy(arms.PAGE, copy)
    monkeypatch.setattr(arms, "PAGE", copy)
    monkeypatch.setattr(arms, "FIGURE", tmp_path / "arms.png")
    monkeypatch.setattr(sys, "argv", ["arms", "--page"])
    arms.main()
    assert copy.read_text(encoding="utf-8") == (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    assert 5_000 < (tmp_path / "arms.png").stat().st_size < 1_000_000


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="expected a table between"):
        arms.with_table("nothing", arms.load())


@pytest.mark.parametrize("family", ["discrete", "continuous", "vector"])
def test_families_have_as_many_different_arms_as_asked_for(family: str) -> None:
    problem = arms.FAMILIES[family](np.random.default_rng(3), 12)
    assert len(problem.names) == 12 and len({str(arm) for arm in problem.arms.values()}) == 12
    assert problem.distribution is not None
    again = arms.FAMILIES[family](np.random.default_rng(3), 12)
    assert again == problem


def test_no_arm_of_the_discrete_family_is_invertible() -> None:
    """Five values of X, four rewards: as in the paper's discrete simulation."""
    problem = arms.discrete(np.random.default_rng(1), 40)
    assert hw.analyze(problem).invertible == ()


def test_a_point_is_the_mean_over_problems() -> None:
    point = arms.measure("discrete", 3, problems=2, horizon=400)
    ends = []
    for n in range(2):
        problem = arms.discrete(np.random.default_rng([arms.SEED, n, 3]), 3)
        run = hw.simulate(problem, policies=["c-ucb"], horizon=400, replications=arms.RUNS, seed=n)
        ends.append(float(run.regret("c-ucb")[:, -1].mean()))
    assert point.regret["c-ucb"] == pytest.approx(np.mean(ends))
    assert point.error["c-ucb"] == pytest.approx(abs(ends[0] - ends[1]) / 2)


def test_the_exponent_of_k() -> None:
    points = [arms.Point("discrete", k, 2, 0.0, {"ucb1": 3.0 * k**0.7}, {"ucb1": 0.0}) for k in (3, 30, 300)]
    assert arms.exponent(points, "ucb1") == pytest.approx(0.7)
