"""The commands that simulate: what they print, write and refuse; the pages they make."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater import bench, cli, horizons, paper
from headwater.report.page import write_report
from headwater.report.regret_data import regret_figure

ADS = Path(__file__).parent.parent / "examples" / "ads.toml"


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["headwater", *map(str, words)])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


SMALL = ("--horizon", 200, "--replications", 20, "--seed", 3)


def test_simulate_prints_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "simulate", ADS, *SMALL) == 0
    printed = capsys.readouterr()
    assert "20 runs of 200 rounds, seed 3" in printed.out
    assert "c-ucb less ucb1" in printed.out
    assert "best arm pulled" in printed.out


def test_simulate_json_is_one_object_with_the_fixed_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "simulate", ADS, *SMALL, "--policy", "c-ts:posterior=beta", "--checkpoint", 50, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert {"policies", "horizon", "replications", "seed", "seconds"} <= set(result)
    row = result["policies"]["c-ts (beta)"]
    keys = {"rounds", "regret_mean", "regret_se", "regret_p05", "regret_p50", "regret_p95", "pulls_mean"}
    assert keys <= set(row)
    assert row["rounds"] == [50, 200]
    assert sum(row["pulls_mean"].values()) == pytest.approx(200)


def test_simulate_saves_and_report_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "simulate", ADS, *SMALL, "--output", tmp_path / "run", "--plot", tmp_path / "regret.png") == 0
    assert (tmp_path / "regret.png").stat().st_size > 10_000
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == 3
    assert "simulate" in manifest["command"]
    assert call(monkeypatch, "report", tmp_path / "run", "--output", tmp_path / "page.html") == 0
    check_page(tmp_path / "page.html", "ads in a new region")


def check_page(path: Path, *words: str) -> None:
    """Self-contained: nothing is fetched, and every word is there."""
    text = path.read_text(encoding="utf-8")
    body = re.sub(r"<script>.*?</script>", "", text, count=1, flags=re.DOTALL)  # plotly's own script mentions addresses
    assert not re.search(r"""(src|href)=['"]https?:""", body)
    for word in words:
        assert word in body


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["simulate", ADS, "--policy", "nope"],
            'policy: got "nope"; expected one of ucb1, kl-ucb, ts, uniform, epsilon-greedy, c-ucb',
        ),
        (["simulate", ADS, "--policy", "c-ucb:reference=best"], "reference: got"),
        (["simulate", ADS, "--policy", "ucb1:sd=2"], "sd: not an option of ucb1; expected none, it has no options"),
        (["simulate", ADS, "--output", ADS], "cannot hold a simulation"),
        (["reproduce", "--output", ADS], "is a file; expected a folder"),
        (["report", ADS.parent, "--output", "/nowhere/page.html"], "the folder /nowhere does not exist"),
        (["report", "nowhere", "--output", "problem.toml"], "--output: got problem.toml; expected a name that ends in .html"),
        (["simulate", ADS, "--policy", "ts:sd"], "expected option=value"),
        (["simulate", ADS, "--policy", "ts:sd=-1"], "sd: got -1.0; expected a number above 0"),
        (["simulate", ADS, "--policy", "ucb1", "--policy", "ucb1"], "policies: got ucb1 twice"),
        (["simulate", ADS, "--horizon", "0"], "horizon: got 0; expected a whole number from 1"),
        (["simulate", ADS, "--replications", "-3"], "replications: got -3"),
        (["simulate", ADS, "--seed", "-1"], "seed: got -1"),
        (["simulate", ADS, "--checkpoint", "9999999"], "checkpoints: got"),
        (["simulate", ADS, "--plot", "x.pdf"], "--plot: got x.pdf"),
        (["simulate", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["report", "nowhere"], "manifest.json: cannot be read"),
    ],
)
def test_bad_requests_get_a_sentence_and_status_2(
    words: list[Any], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *words) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert "Traceback" not in printed.err


def test_simulating_without_a_distribution_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "p.toml"
    path.write_text('[latent]\nkind = "discrete"\nvalues = [1, 2]\n[arms]\na = "x"\nb = "3 - x"\n', encoding="utf-8")
    assert call(monkeypatch, "simulate", path) == 2
    assert "distribution: missing" in capsys.readouterr().err


def test_reproduce_writes_the_page_and_the_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(horizons, "RUNS", {case: {"ucb1": 2, "c-ucb": 3} for case in horizons.RUNS})
    assert call(monkeypatch, "reproduce", "--scale", 0.01, "--output", tmp_path, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {case.id for case in paper.CASES} | {"horizons", "proofs"}
    assert json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8")) == printed
    words = (
        "100,000,000 rounds",
        "The paper says",
        "Step by step",
        "0.9996",
        "Past the paper",
        "best ratio",
        "constant regret possible",
        "The model",
        "What Theorems 1 to 5 say here",
        "How often the best arm is excluded",
        "Gaps that shrink with T",
    )
    check_page(tmp_path / "index.html", *words, *paper.LEARNERS, *(case.title for case in paper.CASES))
    for name in ("overview.png", "horizon.png", "horizon.svg", "framework.png", "framework.svg", "gaps.png", "gaps.svg"):
        assert (tmp_path / "figures" / name).stat().st_size > 5_000
    for case in horizons.LONG:
        again = hw.load_simulation(tmp_path / "data" / f"{case.id}-horizon")
        assert (again.engine, again.horizon, list(again.outcomes)) == ("leap", 10**8, ["ucb1", "c-ucb"])
    for case in paper.CASES:
        for name in (f"{case.id}.png", f"{case.id}.svg", f"{case.id}-regret.png", f"{case.id}-regret.svg"):
            assert (tmp_path / "figures" / name).stat().st_size > 5_000
        again = hw.load_simulation(tmp_path / "data" / case.id)
        assert list(again.outcomes) == [*paper.POLICIES, *paper.OTHERS, *paper.learners(case)]
        assert (printed[case.id]["bounds"] is None) == case.id.startswith(("continuous", "appendix"))
        means = printed[case.id]["simulation"]["policies"]["c-ucb"]["regret_mean"]
        np.testing.assert_allclose(again.regret("c-ucb").mean(axis=0), means)


def test_the_walkthrough_is_the_papers_example() -> None:
    last = paper.walkthrough()[-1]
    assert (last.round, last.pseudo_reward) == (10, 1.5)
    assert last.mean == pytest.approx(1.7)
    assert "non-competitive" in last.verdict


def test_a_page_shows_names_as_text(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    problem = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={nasty: [1, 0], "b": [0, 1]}, distribution=[0.5, 0.5], name=nasty)
    run = hw.simulate(problem, policies=["ucb1"], horizon=50, replications=3)
    write_report([run], tmp_path / "page.html")
    assert nasty not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_figure_bands_contain_the_mean() -> None:
    run = hw.simulate(hw.load_problem(ADS), policies=["ucb1", "c-ucb"], horizon=300, replications=30, seed=2)
    for curve in regret_figure(run).curves:
        assert np.all(curve.interval_low <= curve.mean) and np.all(curve.mean <= curve.interval_high)
        assert np.all(curve.run_low <= curve.run_high)


def test_bench_measures_and_agrees_with_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The C program and the engine agree on mean pulls (bench refuses otherwise); no time is asserted."""
    monkeypatch.setattr(bench, "HORIZON", 300)
    assert call(monkeypatch, "bench", "--quick", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["engine"]) == 4
    assert len(result["live"]) == 2


def test_bench_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "HORIZON", 50)
    monkeypatch.setattr("shutil.which", lambda _: None)
    said: list[str] = []
    rows = bench.compare_engine(1, said.append)
    assert any("no C compiler" in line for line in said)
    assert all("ratio" not in row for row in rows)


def test_pictures_of_unusual_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        'name = "価格 $x$"\n[latent]\nkind = "discrete"\nvalues = ["α", "β"]\nprobabilities = [0.5, 0.5]\n'
        '[arms]\n"_hidden" = [1, 2]\n"🎯" = [2, 1]\n',
        encoding="utf-8",
    )
    for name in ("a.png", "a.svg", "a.html"):
        assert call(monkeypatch, "analyze", path, "--plot", tmp_path / name) == 0
        assert (tmp_path / name).stat().st_size > 5_000
    assert "_hidden" in (tmp_path / "a.html").read_text(encoding="utf-8")
