"""The page on which policy is best is written from what was measured: here, everything on a tiny scale."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
audit, slope, wrong = pytest.importorskip("audit"), pytest.importorskip("slope"), pytest.importorskip("wrong_models")
page, tournament = pytest.importorskip("tournament_page"), pytest.importorskip("tournament")

NONE = ["--problems", "0", "--panel-horizon", "40", "--panel-runs", "3"]
RANDOM = ["--panel-runs", "0", "--problems", "2", "--runs", "3"]
ALL = ["--policies", "c-ucb", "ucb1", "joint-ucb", "graves-lai", "latent-ts"]
PARTS: list[tuple[Any, str, list[str]]] = [
    (tournament, "panels", [*NONE, *ALL]),
    (tournament, "others", [*NONE, "--cases", "two-arms", "continuous", "--policies", "c-ucb", "ucb1", "joint-ucb"]),
    (tournament, "random", [*RANDOM, "--horizon", "30", "--policies", "c-ucb", "joint-ucb"]),
    (tournament, "longer", [*RANDOM, "--horizon", "60", "--policies", "c-ucb", "joint-ucb", "joint-ucb:audit=0"]),
    (slope, "slope", ["--runs", "2"]),
    (audit, "audit", ["--problems", "1", "--runs", "2", "--horizon", "60"]),
    (wrong, "wrong", ["--models", "2", "--runs", "2", "--horizon", "60", "--processes", "1", "--policies", "joint-ucb"]),
]


def measure(module: Any, folder: Path, name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *words, "--output", str(folder / "results" / f"{name}.json")])
    module.main()


def test_the_page_is_written_from_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slope, "FROM", 20)
    monkeypatch.setattr(slope, "TO", 200)
    monkeypatch.setattr(page, "ROOT", tmp_path)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    for module, name, words in PARTS:
        measure(module, tmp_path, name, words, monkeypatch)
    monkeypatch.setattr(sys, "argv", ["tournament_page.py", "--commit", "commit 123abc"])
    page.main()
    text = (tmp_path / "docs" / "tournament.md").read_text(encoding="utf-8")
    found = {name: json.loads((tmp_path / "results" / f"{name}.json").read_text(encoding="utf-8")) for _, name, _ in PARTS}
    row = found["panels"]["discrete case 2"]["policies"]["joint-ucb"]
    assert f"{row['mean']:.1f} ± {row['se']:.1f}" in text and "over 3 runs" in text and "after 40 rounds" in text
    assert "Measured at commit 123abc." in text
    assert "joint-ucb (audit=0)" in text and "The same 2 problems after 60 rounds" in text
    assert f"| {found['slope']['vector case 2']['bound']:.2f} |" in text
    assert (
        "2 models with 1 to 3 wrong cells" in text
        and f"| joint-ucb | {found['wrong']['summary']['joint-ucb']['mean']:.2f}" in text
    )
    assert len(found["audit"]["wrong"]) == 1 and "1 such problems, 2 runs of 60 rounds" in text
    assert (tmp_path / "docs" / "figures" / "audit.png").stat().st_size > 1000
    capsys.readouterr()


def test_a_tournament_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*RANDOM, "--horizon", "20", "--policies", "c-ucb"]
    measure(tournament, tmp_path, "some", words, monkeypatch)
    before = json.loads((tmp_path / "results" / "some.json").read_text(encoding="utf-8"))
    assert capsys.readouterr().err.count("random ") == 2
    measure(tournament, tmp_path, "some", [*words, "ucb1", "--resume"], monkeypatch)  # another policy: nothing is left alone
    assert capsys.readouterr().err.count("random ") == 2
    measure(tournament, tmp_path, "longer", words, monkeypatch)
    measure(tournament, tmp_path, "longer", [*words, "--horizon", "25", "--resume"], monkeypatch)  # another horizon: the same
    assert capsys.readouterr().err.count("random ") == 4
    measure(tournament, tmp_path, "some", [*words, "--problems", "3", "--resume"], monkeypatch)
    assert capsys.readouterr().err.count("random ") == 1
    after = json.loads((tmp_path / "results" / "some.json").read_text(encoding="utf-8"))
    assert list(after) == ["random 0", "random 1", "random 2"]
    assert after["random 1"]["policies"]["c-ucb"]["mean"] == before["random 1"]["policies"]["c-ucb"]["mean"]


def test_where_a_policy_is_worse_is_said() -> None:
    def row(mean: float, difference: float) -> dict[str, float]:
        return {"mean": mean, "difference": difference, "difference_se": 0.1}

    found = {"random 0": {"policies": {"c-ucb": row(1, 0), "joint-ucb": row(1.2, 0.2)}}}
    assert page.lost(found, "joint-ucb") == [page.NONE_LOST.format(title="joint-ucb")]
    found["random 0"]["policies"]["joint-ucb"] = row(1.4, 0.4)
    assert page.lost(found, "joint-ucb")[1] == "| random 0 | 1.40 | 1.00 | 0.40 | 0.10 |\n"
