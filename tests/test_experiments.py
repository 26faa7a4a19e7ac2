"""Experiment files: what they mean, what they refuse, and the sweeps they make."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import headwater as hw
from headwater import cli, experiments, simulation
from headwater.errors import ProblemError, ResultsError
from headwater.experiments import load_experiment, run_experiment
from headwater.policies import make_spec
from headwater.simulation import Tally, jobs, load_simulation, simulate
from headwater.simulation.chunks import run_chunk
from headwater.simulation.cluster import local_cluster

ROOT = Path(__file__).parent.parent
ADS = """
[latent]
kind = "discrete"
values = [1, 2, 3]
probabilities = [0.3, 0.4, 0.3]
[arms]
a = [1, 2, 2]
b = [1.5, 0, 1.5]
"""
SWEEP = """
problems = ["one.toml", "more/two.toml"]
horizon = [20, 30]
replications = 25
seed = 3
policies = ["ucb1", { name = "c-ts", posterior = ["normal", "beta"] }]
"""
NAMES = [f"{name}-horizon-{horizon}-replications-25-seed-3" for name in ("one", "two") for horizon in (20, 30)]
POLICIES = ["ucb1", "c-ts", "c-ts (beta)"]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(simulation, "CHUNK", 10)
    monkeypatch.setattr(simulation, "ROUNDS", 0)
    (tmp_path / "more").mkdir()
    (tmp_path / "one.toml").write_text('name = "one"\n' + ADS, encoding="utf-8")
    (tmp_path / "more" / "two.toml").write_text(
        'name = "two"\n' + ADS.replace("0.3, 0.4, 0.3", "0.5, 0.25, 0.25"), encoding="utf-8"
    )
    (tmp_path / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    return tmp_path / "sweep.toml"


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["headwater", *map(str, words)])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def check(output: Path, sweep: Path) -> None:
    """Every run is what simulate() finds, and the summary says so."""
    with (output / "summary.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [name for name in NAMES for _ in POLICIES]
    assert [row["policy"] for row in rows] == POLICIES * 4
    stored = pq.read_table(output / "summary.parquet").to_pylist()
    assert [row["regret_mean"] for row in stored] == [float(row["regret_mean"]) for row in rows]
    specs = [make_spec("ucb1"), make_spec("c-ts"), make_spec("c-ts", posterior="beta")]
    for at, name in enumerate(NAMES):
        problem = hw.load_problem(sweep.parent / ("one.toml" if at < 2 else "more/two.toml"))
        known = simulate(problem, policies=specs, horizon=(20, 30)[at % 2], replications=25, seed=3)
        found = load_simulation(output / name)
        for policy, row in zip(POLICIES, rows[3 * at : 3 * at + 3], strict=True):
            assert found.regret(policy).tobytes() == known.regret(policy).tobytes()
            about = known.to_dict()["policies"][policy]
            assert float(row["regret_mean"]) == about["regret_mean"][-1] and float(row["regret_p95"]) == about["regret_p95"][-1]
            assert float(row["regret_se"]) == about["regret_se"][-1] and float(row["regret_p50"]) == about["regret_p50"][-1]
            assert row["horizon"] == str(known.horizon) and row["problem"] == problem.name
        assert {path.name for path in (output / name).iterdir()} == {"manifest.json", "problem.toml", "trajectories.parquet"}


def test_a_sweep(sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    output = sweep.parent / "out"
    assert call(monkeypatch, "sweep", sweep, "--output", output) == 0
    printed = capsys.readouterr()
    assert "one: 25 runs of 20 rounds, seed 3" in printed.out and "c-ts (beta)" in printed.out
    assert f"The runs and summary.csv are in {output}" in printed.err
    check(output, sweep)
    assert call(monkeypatch, "sweep", sweep, "--output", output) == 2
    assert "holds a simulation already" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "run_chunk", None)  # nothing is left to run
        assert call(patch, "sweep", sweep, "--output", output, "--resume", "--json") == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["experiment"] == "sweep" and len(found["runs"]) == 12 and found["runs"][0]["policy"] == "ucb1"
    check(output, sweep)


def test_a_sweep_on_workers(sweep: Path) -> None:
    told: list[Tally] = []
    with local_cluster(2) as client:
        rows, whole = run_experiment(load_experiment(sweep), sweep.parent / "out", client=client, progress=told.append)
    assert whole and len(rows) == 12
    check(sweep.parent / "out", sweep)
    assert told[0].chunks == 0 and told[-1].chunks == told[-1].chunks_in_all == 4 * 3 * 4


def test_a_stopped_sweep_goes_on(sweep: Path) -> None:
    output = sweep.parent / "out"

    def stop(tally: Tally) -> None:
        if tally.chunks == 18:
            raise KeyboardInterrupt

    rows, whole = run_experiment(load_experiment(sweep), output, progress=stop)
    assert not whole and {row.run for row in rows} == {NAMES[0]}
    with pytest.raises(ResultsError, match="holds an unfinished simulation; go on with it"):
        load_experiment(sweep).runs[1].job.open(output / NAMES[1])
    told: list[Tally] = []
    rows, whole = run_experiment(load_experiment(sweep), output, resume=True, progress=told.append)
    assert whole and len(rows) == 12 and (told[0].chunks, told[0].found) == (18, 18)
    check(output, sweep)


def test_ctrl_c_shows_what_is_there(sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(chunk: Any, *rest: Any, **more: Any) -> Any:
        if chunk.setting.checkpoints[-1] == 30:
            raise KeyboardInterrupt
        return run_chunk(chunk, *rest, **more)

    monkeypatch.setattr(jobs, "run_chunk", stop)
    output = sweep.parent / "out"
    assert call(monkeypatch, "sweep", sweep, "--output", output) == 130
    printed = capsys.readouterr()
    assert f"Stopped; what was finished is in {output}: --resume goes on." in printed.err and "runs of 20 rounds" in printed.out
    monkeypatch.setattr(jobs, "run_chunk", run_chunk)
    assert call(monkeypatch, "sweep", sweep, "--output", output, "--resume") == 0
    check(output, sweep)


def test_parameters_multiply(sweep: Path) -> None:
    text = SWEEP.replace("seed = 3", "seed = [3, 4, 3]\nreward_range = [1, 2.5]\ncheckpoints = [5]\nname = 'all'")
    more = '{ name = "ts", sd = ["estimated", 0.3] }, "auto", "kl-ucb:form=empirical",'
    sweep.write_text(text.replace('"ucb1",', more), encoding="utf-8")
    found = load_experiment(sweep)
    assert found.name == "all" and len(found.runs) == len({run.name for run in found.runs}) == 2 * 2 * 2 * 2
    assert found.runs[1].name == "one-horizon-20-replications-25-seed-3-range-2.5"
    job = found.runs[1].job
    assert job.setting.checkpoints == (5, 20) and job.setting.reward_range == 2.5
    titles = ["ts (estimated)", "ts (sd=0.3)", "joint-ucb", "kl-ucb (empirical)", "c-ts", "c-ts (beta)"]
    assert [spec.title for spec in job.specs] == titles


def test_problems_of_one_name_are_told_apart(sweep: Path) -> None:
    (sweep.parent / "more" / "one.toml").write_text(ADS, encoding="utf-8")
    sweep.write_text(SWEEP.replace('"more/two.toml"', '"more/one.toml"'), encoding="utf-8")
    assert {run.name.split("-horizon")[0] for run in load_experiment(sweep).runs} == {"one", "more-one"}


def test_every_mistake_is_said_at_once(
    sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = ADS.replace("probabilities = [0.3, 0.4, 0.3]\n", "")
    (sweep.parent / "bare.toml").write_text(bare, encoding="utf-8")
    (sweep.parent / "bad.toml").write_text(ADS.replace("[1, 2, 2]", '[1, "n/a"]'), encoding="utf-8")
    sweep.write_text(
        """
problems = ["bare.toml", "one.toml", "nowhere.toml", "bad.toml", "one.toml"]
horizon = [10, 0]
seed = "x"
colour = 1
policies = ["ucb1", "nope", { posterior = "beta" }, { name = "c-ts", posterior = ["normal", "gamma"] }, "c-ts"]
""",
        encoding="utf-8",
    )
    assert call(monkeypatch, "sweep", sweep, "--output", sweep.parent / "out") == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "Traceback" not in printed.err and not (sweep.parent / "out").exists()
    for line in (
        "horizon: got [10, 0]; expected a whole number from 1, or a list of them",
        'seed: got "x"; expected a whole number from 0, or a list of them',
        "colour: unknown key; expected name, problems, policies, horizon",
        "problems[2] (nowhere.toml): ",
        'problems[3] (bad.toml): arms.a[1]: got "n/a"; expected a finite number',
        'problems[4]: got "one.toml" twice; expected each problem once',
        'policies[1]: policy: got "nope"; expected one of ucb1',
        'policies[2]: policy: got ""; expected one of ucb1',
        'policies[3]: posterior: got "gamma"; expected "normal" or "beta"',
        "bare: distribution: missing; a simulation needs to know",
    ):
        assert f"error: {line}" in printed.err, line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "problems: missing; expected a list of problem files\npolicies: missing; expected a list of policies"),
        ("problems = []\npolicies = ['ucb1']", r"problems: got \[\]; expected a list of problem files"),
        ("problems = ['one.toml']\npolicies = 'ucb1'", 'policies: got "ucb1"; expected a list of policies'),
        ("problems = ['one.toml']\npolicies = ['ucb1', 'ucb1']", "one: policies: got ucb1 twice; expected each policy once"),
        ("problems = ", "this is not TOML"),
    ],
)
def test_files_that_are_no_experiments(text: str, message: str, sweep: Path) -> None:
    sweep.write_text(text, encoding="utf-8")
    with pytest.raises(ProblemError, match=message):
        load_experiment(sweep)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"none\.toml: cannot be read: "):
        load_experiment(tmp_path / "none.toml")


def test_a_summary_that_cannot_be_written(sweep: Path) -> None:
    output = sweep.parent / "out"
    (output / "summary.csv").mkdir(parents=True)
    with pytest.raises(ResultsError, match=r"summary\.csv cannot be written: "):
        run_experiment(load_experiment(sweep), output)


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "sweeps").glob("*.toml")), ids=lambda path: path.stem)
def test_examples_are_experiments(path: Path) -> None:
    assert len(load_experiment(path).runs) >= 2
    assert experiments.ExperimentFile.model_json_schema()["required"] == ["problems", "policies"]
