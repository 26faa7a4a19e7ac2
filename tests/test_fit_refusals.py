"""What a fit refuses, what it warns about, and the command line: every sentence, no traceback, nothing half-written."""

from __future__ import annotations

import builtins
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from fit_logs import make_log
from headwater import cli

ROWS: dict[str, Any] = {
    "ad": ["a", "b"] * 30,
    "won": [0, 1, 1, 1, 0, 0] * 10,
    "who": ["x", "y", "z"] * 20,
    "name": [f"u{i // 2}" for i in range(60)],
    "age": [20 + i % 7 for i in range(60)],
    "day": list(range(60)),
}
HOW: dict[str, Any] = {"arm": "ad", "reward": "won", "segment": "who"}


def changed(**columns: Any) -> dict[str, Any]:
    return ROWS | columns


@pytest.mark.parametrize(
    ("rows", "how", "expected"),
    [
        (ROWS, HOW | {"arm": "adv"}, 'arm: there is no column "adv"; did you mean "ad"?'),
        (ROWS, HOW | {"segment": "zzz"}, 'segment: there is no column "zzz"; the table has ad, won, who, name, age, day'),
        (ROWS, {"arm": "ad", "segment": "who"}, "reward: missing; expected the name of a column, or a wide table"),
        (ROWS, HOW | {"segment": "won"}, 'reward and segment: got the same column "won"; expected different ones'),
        (ROWS, HOW | {"wide": ["age", "day"]}, "arm: got a column, and a table with one column per arm; expected one or"),
        (ROWS, {"wide": ["age"]}, "arms: got 1 column; expected at least two, one per arm"),
        (ROWS, {"arm": "ad", "reward": "won"}, "segment: missing; expected one of: segment, a column that says who each"),
        (ROWS, HOW | {"features": ["age"]}, "segment: got features, too; expected one"),
        (
            changed(won=["n/a", "1"] * 30),
            HOW,
            'column "won": got text in 30 rows, for example "n/a"; expected numbers (missing=',
        ),
        (changed(won=[[1]] * 60), HOW, 'column "won": got values of type array<int64>; expected numbers'),
        (changed(won=[7] * 60), HOW, 'column "won": every reward is 7; expected rewards that differ'),
        (changed(won=[1.0, float("inf")] * 30), HOW, 'column "won": got infinity in 30 rows; expected finite rewards'),
        (changed(won=[1.0, 2e300] * 30), HOW, 'column "won": got rewards up to 2e+300; expected them within ±1e300'),
        (changed(ad=["a"] * 60), HOW, 'arms: got "a" only; expected at least two arms to choose from'),
        (changed(ad=["a", " "] * 30), HOW, 'arms: got " "; expected a name of 1 to 200 printable characters'),
        (changed(who=[None] * 60), HOW, "a table in memory: no row has all of arm, reward, segment"),
        (pa.table(ROWS).slice(0, 0), HOW, "a table in memory: the table has no rows"),
        (changed(won=[None] * 60), HOW, "a table in memory: no row has all of arm, reward, segment"),
        (ROWS, HOW | {"missing": "x"}, 'missing: got "x"; expected a number, as the rewards are numbers'),
        (ROWS, HOW | {"until": 3}, "until: got no time column; expected one"),
        (ROWS, HOW | {"time": "day", "until": "May"}, 'until: got "May"; expected a value like those of "day" (int64): '),
        (ROWS, HOW | {"time": "day", "until": -1}, "a table in memory: the table has no rows"),
        (ROWS, HOW | {"method": "magic"}, 'method: got "magic"; expected one of auto, channels, kmeans, gaussian, categorical'),
        (ROWS, HOW | {"segments": 0}, "segments: got 0; expected a whole number from 1 to 200"),
        (ROWS, HOW | {"levels": 1}, "levels: got 1; expected a whole number from 2 to 200"),
        (ROWS, HOW | {"least": 0.5}, "least: got 0.5; expected a whole number from 1 to 1,000,000,000"),
        (ROWS, HOW | {"sample": 5}, "sample: got 5; expected a whole number from 100 to 10,000,000"),
        (ROWS, HOW | {"confidence": 1}, "confidence: got 1; expected a number between 0 and 1"),
        (ROWS, HOW | {"seed": -1}, "seed: got -1; expected a whole number, 0 or more"),
        (ROWS, HOW | {"edges": [2, 1]}, "edges: got [2, 1]; expected ascending numbers, and no levels beside them"),
        (ROWS, HOW | {"edges": []}, "edges: got []; expected ascending numbers"),
        (ROWS, HOW | {"edges": [1, float("inf")]}, "edges: got [1, Infinity]; expected ascending numbers"),
        (ROWS, HOW | {"edges": [float("nan")]}, "edges: got [NaN]; expected ascending numbers"),
        (ROWS, HOW | {"edges": [10**400]}, "; expected ascending numbers"),
        (ROWS, HOW | {"edges": ["x", 2]}, 'edges: got ["x", 2]; expected ascending numbers'),
        (ROWS, HOW | {"segments": float("inf")}, "segments: got Infinity; expected a whole number from 1 to 200"),
        (ROWS, HOW | {"seed": 1.5}, "seed: got 1.5; expected a whole number, 0 or more"),
        (ROWS, HOW | {"edges": [1], "levels": 3}, "edges: got [1]; expected ascending numbers, and no levels"),
        (changed(name=list(range(60))), {"arm": "ad", "reward": "won", "unit": "name"}, "unit: no unit saw more than one arm"),
        (ROWS, {"arm": "ad", "reward": "won", "unit": "name", "method": "kmeans"}, 'method: got "kmeans"; expected features'),
        (changed(age=[1] * 60), {"arm": "ad", "reward": "won", "features": ["age"]}, 'features[0]: "age" has one value only'),
        (changed(age=["s"] * 60), {"arm": "ad", "reward": "won", "features": ["age"]}, 'features[0]: "age" has one value only'),
        (
            ROWS,
            {"arm": "ad", "reward": "won", "features": ["who"], "method": "gaussian", "segments": 2},
            'method: got "gaussian"; expected categorical, as the feature "who" is not a number',
        ),
        ({"ad": list(range(2000)), "won": [0, 1] * 1000, "who": ["x"] * 2000}, HOW, "; expected at most 1,000"),
        (
            {"ad": ["a", "b"] * 1000, "won": [0, 1] * 1000, "who": list(range(2000))},
            HOW,
            "; expected at most 1,000; a column that names people is a unit, not a segment",
        ),
        (
            {key: column[:30] for key, column in ROWS.items()},
            {"arm": "ad", "reward": "won", "unit": "name"},
            "a table in memory: got 15 units with rewards; expected at least 20 to find segments from",
        ),
        (
            ROWS,
            {"wide": ["age", "day"], "segments": 40},
            "got 60 units with rewards; expected at least 80 to find segments from",
        ),
        (3, HOW, "data: got 3; expected a path or a table"),
        ({"a": [1, 2], "b": [1]}, HOW, "data: got "),
    ],
)
def test_refused(rows: Any, how: dict[str, Any], expected: str) -> None:
    with pytest.raises(hw.ProblemError) as caught:
        hw.fit(rows, **how)
    assert expected in str(caught.value)


@pytest.mark.parametrize("odd", ["inf", "-infinity", "infinity"])
@pytest.mark.parametrize("numbers", [False, True])
def test_a_time_without_end_is_refused(odd: str, numbers: bool, tmp_path: Path) -> None:
    """DuckDB reads these as dates; Python has none such."""
    rows = [f"a{i % 3},{i * 7 % 2},s{i % 2},{i if numbers else f'2024-01-{i % 28 + 1:02}'}" for i in range(120)]
    rows[7] = f"a1,1,s1,{odd}"
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["arm,won,who,at", *rows]), encoding="utf-8")
    with pytest.raises(hw.ProblemError, match=r'column "at": got a time without end in 1 rows; expected dates of the years'):
        hw.fit(log, arm="arm", reward="won", segment="who", time="at")


def test_files_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    (tmp_path / "sub.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (tmp_path / "log.xls", {}, 'log.xls: got a name that ends in ".xls"; expected a .csv or .parquet file'),
        (tmp_path / "log.csv", {}, "log.csv: there is no such file; expected a file of logs"),
        (tmp_path / "sub.csv", {}, "sub.csv: is a folder; expected a file of logs"),
        (tmp_path / "pipe.csv", {}, "pipe.csv: is no ordinary file; expected a file of logs"),
        (tmp_path / "*.csv.gz", {}, "*.csv.gz: no file has such a name"),
        (tmp_path / "bad.parquet", {}, "bad.parquet: cannot be read as PARQUET: "),
        ("log", {"database": str(tmp_path / "no.db")}, "database: there is no file "),
        ("log", {"database": "nosuch://x"}, "database: nosuch://x cannot be opened: "),
        (ROWS, {"database": "nosuch://x"}, "expected the name of a table of nosuch://x"),
    ]
    for data, how, expected in cases:
        with pytest.raises(hw.ProblemError) as caught:
            hw.fit(data, **HOW, **how)
        assert expected in str(caught.value)


def test_a_missing_extra_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__
    for module, words in (("ibis", "fitting needs ibis and DuckDB"), ("sklearn.cluster", "fitting needs scikit-learn")):

        def refuse(name: str, *rest: Any, module: str = module, **more: Any) -> Any:
            if name == module:
                raise ImportError(name)
            return real(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", refuse)
        with pytest.raises(hw.ProblemError, match=f'{words}.* not installed: pip install "headwater\\[fit\\]"'):
            hw.fit(ROWS, **HOW)
        monkeypatch.setattr(builtins, "__import__", real)


def test_a_missing_driver_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import ibis

    def refuse(*_: Any) -> Any:
        raise ImportError("no module named psycopg")

    monkeypatch.setattr(ibis, "connect", refuse)
    with pytest.raises(
        hw.ProblemError, match=r'database: no module named psycopg; for PostgreSQL: pip install "headwater\[post'
    ):
        hw.fit("t", database="postgres://host/shop", **HOW)


def test_a_query_that_fails_is_a_sentence(tmp_path: Path) -> None:
    """A file that changes under our hands."""
    from headwater.fitting.logs import Columns, read_log
    from headwater.fitting.sources import open_source

    pa.parquet.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    source = open_source(tmp_path / "log.parquet")
    log = read_log(source, Columns(arm="ad", reward="won"))
    (tmp_path / "log.parquet").unlink()
    with pytest.raises(hw.ProblemError, match=r"log\.parquet: the query failed: "):
        log.collect(log.table)
    with pytest.raises(hw.ProblemError, match=r"log\.parquet: the query failed: "):
        read_log(source, Columns(arm="ad", reward="won"))
    source.close()


def test_sampled_units_that_are_all_alike_are_refused() -> None:
    rows = {"ad": ["a", "b"] * 2000, "won": [1, *[0] * 3999], "name": [f"u{i // 2}" for i in range(4000)]}
    with pytest.raises(hw.ProblemError, match="the rewards of the sampled units are all alike; expected rewards that differ"):
        hw.fit(rows, arm="ad", reward="won", unit="name", sample=100)


# ------------------------------------------------------------------ warnings


def doubts(rows: dict[str, Any], **how: Any) -> str:
    return "\n".join(hw.fit(rows, **{**HOW, **how}).warnings)


def test_a_sound_log_has_no_warnings() -> None:
    log = make_log(3, units=2000)
    how: dict[str, Any] = {"arm": "arm", "reward": "reward", "segment": "kind", "unit": "unit", "time": "day"}
    assert hw.fit(log.rows, **how).warnings == []


def test_cells_with_too_little_data_are_pooled_and_flagged() -> None:
    rows: dict[str, Any] = {
        "ad": ["a"] * 100 + ["b"] * 104,
        "won": ([0, 1] * 102),
        "who": ["x", "x", "y", "y"] * 25 + ["x"] * 100 + ["y"] * 4,
    }
    fit = hw.fit(rows | {"who": [*rows["who"][:200], "y", "y", "y", "y"]}, **HOW)
    assert "fewer than 10 rewards: b for y (1 of 4 cells); each gets what its arm and its segment let expect" in "\n".join(
        fit.warnings
    )
    b = fit.channels[1]
    assert b.pooled.tolist() == [False, True]
    assert np.allclose(b.probabilities[1], b.expected[1])
    assert b.mean_high[1] - b.mean_low[1] > b.mean_high[0] - b.mean_low[0]
    unseen = hw.fit({key: column[:200] for key, column in rows.items()} | {"who": rows["who"][:200]}, **HOW)
    assert "never seen: b for y (1 of 4 cells)" in "\n".join(unseen.warnings)
    assert unseen.evidence()["arms"]["b"]["pooled"] == ["y"]


def test_warnings_about_rows_and_arms() -> None:
    assert "10 rows were left out: no reward" in doubts(changed(won=[None if i % 6 == 0 else i % 3 for i in range(60)]))
    assert "20 rows were left out: no segment" in doubts(changed(who=[None, "x", "y"] * 20))
    assert doubts(changed(won=[99, *ROWS["won"][1:]]), missing=99).startswith("1 rows were left out: no reward")
    assert "a: every reward is the same; nothing can be learned from pulling it" in doubts(
        changed(won=[1 if i % 2 == 0 else i % 3 for i in range(60)])
    )
    assert "c: fewer than 10 rewards in all; what it pays is little more than a guess" in doubts(
        changed(ad=["c", *ROWS["ad"][1:]])
    )
    assert "there is one segment only" in doubts(changed(who=["x"] * 60))
    assert "x and y look alike to every arm: only their joint share can be learned" in doubts(
        {"ad": ["a", "a", "b", "b"] * 40, "won": ([0] * 8 + [1] * 8) * 10, "who": ["x", "y"] * 80}
    )
    assert "the segment decides the reward of every arm without exception" in doubts(
        changed(who=[f"s{w}" for w in ROWS["won"]])
    )


def test_warnings_about_repeats_and_time() -> None:
    twice = {key: column * 2 for key, column in ROWS.items()}
    assert "60 rows are repeated: the same unit, arm and reward, for example of unit u0" in doubts(twice, unit="name")
    assert "the same unit, arm, reward and time" in doubts(twice, unit="name", time="day")
    assert "repeated" not in doubts(ROWS, unit="name", time="day")
    apart = changed(ad=["a"] * 30 + ["b"] * 30)
    assert "a ended (29) before b began (30): what differs between them may be the time, not the arm" in doubts(
        apart, time="day"
    )
    drifting = changed(won=[int(i % 10 < 8) if i < 30 else int(i % 10 < 1) for i in range(60)])
    assert "mean rewards moved over time, with 29.5 as the middle: a (" in doubts(drifting, time="day")
    dates = np.datetime64("2026-01-01") + np.arange(60)
    assert "with 2026-01-30 12:00:00 as the middle" in doubts(drifting | {"day": dates.astype("datetime64[s]")}, time="day")
    assert "moved over time" not in doubts(drifting | {"day": [f"{i:02d}" for i in range(60)]}, time="day")


def test_unstable_segments_are_flagged() -> None:
    log = make_log(8, units=600, kinds=1, seen=1.0)
    fit = hw.fit(log.rows, arm="arm", reward="reward", unit="unit", segments=4)
    assert any("the segments are not stable: found again from halves" in line for line in fit.warnings)


# ------------------------------------------------------------------ the command line


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["headwater", "fit", *words])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    return tmp_path


LINE = ["log.parquet", "--arm", "ad", "--reward", "won", "--segment", "who"]


def test_the_command_writes_a_problem(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert run([*LINE, "--json"], monkeypatch) == 0
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert said["evidence"]["date"] == "1970-01-02"
    assert said["evidence"]["command"] == "headwater fit log.parquet --arm ad --reward won --segment who --json"
    assert "The problem is in problem.toml" in printed.err
    assert hw.load_problem("problem.toml").to_dict() == {key: value for key, value in said.items() if key != "evidence"}
    assert run([*LINE, "--name", "ads", "--output", "ads.toml"], monkeypatch) == 0
    table = capsys.readouterr().out
    assert "ads: 2 arms, 3 segments (segment column)" in table and "33%" in table
    assert hw.load_problem("ads.toml").name == "ads"


def test_the_command_takes_lists(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log.parquet", "--arms", "age,day", "--unit", "name", "--edges", "10,21.5,30", "--segments", "2", "--json"],
               monkeypatch) == 0  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    assert list(said["arms"]) == ["age", "day"] and said["evidence"]["levels"]["edges"] == [10, 21.5, 30]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([*LINE, "--output", "p.json"], "--output: got p.json; expected a name that ends in .toml"),
        ([*LINE, "--output", "no/p.toml"], "--output: the folder no does not exist; make it first"),
        ([*LINE, "--edges", "1,x"], "--edges: got 1,x; expected numbers separated by commas"),
        ([*LINE[:-1], "nobody"], 'segment: there is no column "nobody"'),
        (["none.csv", "--arm", "a"], "none.csv: there is no such file"),
        (["/dev/zero", "--arm", "a"], '/dev/zero: got a name that ends in ""; expected a .csv or .parquet file'),
    ],
)
def test_the_command_refuses(
    words: list[str], expected: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words, monkeypatch) == 2
    assert expected in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["log.parquet"]


def test_the_command_overwrites_nothing_by_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither what somebody wrote by hand nor what an earlier fit did, which may have been changed by hand since."""
    mine, page = folder / "problem.toml", folder / "page.html"
    for kept, words in ((mine, LINE), (mine, [*LINE, "--output", "./problem.toml"]), (page, [*LINE, "--page", "page.html"])):
        kept.write_text("mine", encoding="utf-8")
        assert run(words, monkeypatch) == 2
        name = words[-1] if words[-2].startswith("--") and words is not LINE else "problem.toml"
        option = "--page" if kept is page else "--output"
        told = f"error: {option}: {Path(name)} is there already; choose another name, or overwrite it (--force)"
        assert told in capsys.readouterr().err and kept.read_text(encoding="utf-8") == "mine"
        kept.unlink()
    assert sorted(path.name for path in folder.iterdir()) == ["log.parquet"]
    assert run(LINE, monkeypatch) == 0
    first = mine.read_text(encoding="utf-8")
    assert run([*LINE, "--name", "again"], monkeypatch) == 2 and mine.read_text(encoding="utf-8") == first
    page.write_text("mine", encoding="utf-8")
    assert run([*LINE, "--name", "again", "--page", "page.html", "--force"], monkeypatch) == 0
    assert hw.load_problem(mine).name == "again" and page.stat().st_size > 1000


def test_a_password_is_not_written_down(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.cli.fit import _command

    monkeypatch.setattr(sys, "argv", ["headwater", "fit", "t", "--database", "postgres://me:secret@host/shop?x=1"])
    assert _command("postgres://me:secret@host/shop?x=1") == "headwater fit t --database postgres://host/shop"


def test_a_failed_write_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = hw.fit(ROWS, **HOW)
    Path("p.toml").write_text("old", encoding="utf-8")

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(hw.ProblemError, match=r"p\.toml: cannot be written: No space left on device"):
        fit.save("p.toml")
    assert Path("p.toml").read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["log.parquet", "p.toml"]


# ------------------------------------------------------------------ any table at all

kinds = [st.integers(-2, 2), st.floats(width=32), st.sampled_from(["a", "b", ""]), st.booleans(), st.none()]


@st.composite
def tables(draw: Any) -> dict[str, Any]:
    """Some rows of a sound log, some of its columns replaced by anything."""
    rows = draw(st.sampled_from([0, 1, 2, 20, 60]))
    out: dict[str, Any] = {name: column[:rows] for name, column in ROWS.items()}
    for name in draw(st.sets(st.sampled_from(sorted(ROWS)), max_size=3)):
        kind = st.one_of(st.none(), draw(st.sampled_from(kinds)))
        out[name] = pa.array(draw(st.lists(kind, min_size=rows, max_size=rows)))
    return out


ways: list[dict[str, Any]] = [
    HOW,
    {"arm": "ad", "reward": "won", "unit": "name"},
    {"arm": "ad", "reward": "won", "features": ["age"]},
    {"arm": "ad", "reward": "won", "features": ["age", "who"], "unit": "name"},
    {"wide": ["won", "age", "day"]},
    {"wide": ["won", "age"], "unit": "name", "segment": "who"},
    {"wide": True},
]
more = st.fixed_dictionaries(
    {},
    optional={
        "time": st.just("day"), "missing": st.sampled_from([1, "a", 99]), "until": st.sampled_from([30, "a"]),
        "segments": st.integers(1, 3), "levels": st.integers(2, 4), "least": st.integers(1, 30),
        "method": st.sampled_from(["auto", "kmeans", "gaussian", "categorical", "channels"]),
    },
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(rows=tables(), how=st.sampled_from(ways), more=more)
def test_any_table_gives_a_problem_or_a_sentence(rows: dict[str, Any], how: dict[str, Any], more: dict[str, Any]) -> None:
    try:
        fit = hw.fit(rows, **(how | more))
    except hw.HeadwaterError as error:
        assert str(error)
        return
    assert len(fit.problem.arms) >= 2
    assert np.all(np.isfinite([channel.mean_low for channel in fit.channels]))
