"""evaluate(): reading people and logs, what is said of them, the command, the page, and the whole way on a known population."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import headwater as hw
from headwater import cli
from headwater.errors import ProblemError
from headwater.evaluation import data as reading
from headwater.evaluation.data import read_crowd, read_problem
from headwater.evaluation.people import as_they_are, make_people
from headwater.evaluation.pipeline import Evaluation, LogEvaluation
from headwater.evaluation.trial import STARTED, Aim, Draw, run_trial
from headwater.report.evaluation_page import write_evaluation
from headwater.report.trial_page import trial_markdown
from headwater.simulation.engine import simulate_counts

KINDS = ["calm", "eager"]
CHANNELS = {"tea": [[0.9, 0.1], [0.2, 0.8]], "milk": [[0.5, 0.5], [0.5, 0.5]], "juice": [[0.3, 0.7], [0.7, 0.3]]}
PROBLEM = hw.Problem(
    latent=hw.Discrete(KINDS),
    arms={name: {"outcomes": [0, 1], "probabilities": rows} for name, rows in CHANNELS.items()},
    distribution=[0.5, 0.5],
    name="drinks",
)


def people(count: int = 400, seed: int = 1) -> dict[str, Any]:
    """A wide table: who, where, and a reward for each arm."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, count)
    table: dict[str, Any] = {name: (rng.random(count) < np.array(rows)[x, 1]).astype(int) for name, rows in CHANNELS.items()}
    return {"who": [KINDS[j] for j in x], "city": np.where(rng.random(count) < 0.3, "north", "south").tolist(), **table}


def log(count: int = 9000, seed: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x, chance = rng.integers(0, 2, count), np.array([0.5, 0.3, 0.2])
    arm = rng.choice(3, count, p=chance)
    names = list(CHANNELS)
    paid = [int(rng.random() < CHANNELS[names[k]][j][1]) for k, j in zip(arm, x, strict=True)]
    who = [KINDS[j] for j in x]
    return {"drink": [names[k] for k in arm], "paid": paid, "p": chance[arm], "who": who, "at": np.arange(count)[::-1]}


QUICK: dict[str, Any] = {"horizon": 200, "replications": 4, "markets": 2, "policies": ["ucb1", "ts", "auto"]}


@pytest.fixture(scope="module")
def found() -> Evaluation:
    result = hw.evaluate(PROBLEM, people(), segment="who", by="city", mixes=[{"calm": 1}], **QUICK)
    assert isinstance(result, Evaluation)
    return result


# --- people ----------------------------------------------------------------------------------------------------------


def test_every_kind_of_population_is_replayed(found: Evaluation) -> None:
    names = [market.population.name for market in found.markets]
    assert names == ["as they are", "100 % calm", "city = north", "city = south", "market 1", "market 2"]
    assert found.people == 400 and found.segments_known and found.policies == ["ucb1", "ts", "auto"]
    table = people()
    calm = np.array(table["who"]) == "calm"
    means = [np.array(table[name])[calm].mean() for name in CHANNELS]
    assert np.allclose(found.markets[1].means, means) and found.markets[1].best == 2
    assert [law.population for law in found.laws] == names and len(found.guard) == 7 and found.channels is None


def test_what_comes_out_is_said_in_sentences(found: Evaluation) -> None:
    said = " ".join(found.findings())
    assert re.search(r"auto has \d\.\d\d times the regret of UCB1 \(by population: ", said)
    assert (
        "times the regret of Thompson sampling, sd B/2 (by" in said
        and "What auto infers of the mix of segments, stated at 95%" in said
    )
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["problem"] == "drinks" and len(told["populations"]) == 6 and told["findings"] == found.findings()
    row = told["populations"][1]
    assert row["best"] == "juice" and set(row["policies"]["auto"]) >= {"rounds", "regret_mean", "regret_se"}


def test_the_yardstick_is_thompson_sampling_that_knows_its_deviation() -> None:
    """With sd = B/2 it explores for ever as if every reward were one end of the range: whatever is beside it looks good."""
    result = hw.evaluate(PROBLEM, people(), segment="who", markets=1, horizon=2000, replications=20, calibrate=False)
    assert isinstance(result, Evaluation) and result.policies == ["ucb1", "ts (estimated)", "auto"]
    assert re.search(r"auto has \d+\.\d\d times the regret of Thompson sampling \(by", " ".join(result.findings()))


def test_a_coarse_model_is_said() -> None:
    """Told the true mix the model names another drink; these people all like tea."""
    table = people() | {"tea": [1] * 400}
    result = hw.evaluate(PROBLEM, table, segment="who", markets=0, horizon=50, replications=2)
    assert isinstance(result, Evaluation)
    assert any("In 1 of 1 populations (as they are) the learned model, told the true mix" in line for line in result.findings())
    assert any("As it is, the model names an arm" in line for line in result.findings())


def test_small_populations_and_people_left_out_are_flagged() -> None:
    table = people(60)
    table["tea"] = [99, *table["tea"][1:]]
    result = hw.evaluate(PROBLEM, table, missing=99, calibrate=False, **QUICK)
    assert isinstance(result, Evaluation) and result.people == 59 and not result.segments_known
    said = result.warnings()
    assert any("1 of 60 people were left out: they lack a reward for some arm" in line for line in said)
    assert any("as they are: worth 59 people only" in line for line in said)


def test_inferred_segments_and_the_order_of_people_do_not_matter() -> None:
    table = people()
    crowd = read_crowd(PROBLEM, table)
    direct = make_people(PROBLEM, np.stack([table[name] for name in CHANNELS], axis=1))
    assert np.allclose(np.sort(crowd.people.membership[:, 0]), np.sort(direct.membership[:, 0]))
    assert np.allclose(crowd.people.rewards @ as_they_are(crowd.people).weights, direct.rewards.mean(axis=1))


def test_numbers_in_the_column_of_populations_read_as_they_are_written() -> None:
    crowd = read_crowd(PROBLEM, people(20) | {"year": [2024, 2025] * 10}, by="year")
    assert crowd.labels is not None and set(crowd.labels) == {"2024", "2025"}


def test_a_fit_is_held_against_what_it_states(tmp_path: Path) -> None:
    learned = hw.fit(people(3000, seed=5), wide=list(CHANNELS), segment="who")
    held = people(3000, seed=6)
    from_fit = hw.evaluate(learned, held, segment="who", **(QUICK | {"markets": 0}))
    learned.save(tmp_path / "drinks.toml")
    from_file = hw.evaluate(tmp_path / "drinks.toml", held, segment="who", **(QUICK | {"markets": 0}))
    assert isinstance(from_fit, Evaluation) and isinstance(from_file, Evaluation)
    assert from_fit.channels is not None and from_file.channels is not None
    assert from_fit.channels.means >= 4 / 6 and from_fit.channels.to_dict() == from_file.channels.to_dict()
    assert any("of the means per arm and segment hold on held-out people" in line for line in from_fit.findings())


def test_problems_are_read_from_json_too(tmp_path: Path) -> None:
    path = tmp_path / "drinks.json"
    path.write_text(json.dumps(PROBLEM.to_dict() | {"evidence": {"rows": 3}}), encoding="utf-8")
    problem, evidence = read_problem(path)
    assert problem == PROBLEM and evidence == {"rows": 3} and read_problem(PROBLEM) == (PROBLEM, {})


def test_supports_too_large_for_intervals_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.policies.inference.MAX_POINTS", 1)
    result = hw.evaluate(PROBLEM, people(200), markets=0, horizon=50, replications=2)
    assert isinstance(result, Evaluation) and result.laws == [] and result.guard


# --- logs ------------------------------------------------------------------------------------------------------------


def test_a_log_is_estimated_and_replayed_in_the_order_of_time() -> None:
    columns: dict[str, Any] = {"arm": "drink", "reward": "paid", "propensity": "p", "segment": "who"}
    result = hw.evaluate(PROBLEM, log(), **columns, time="at", replications=4, policies=["ucb1", "auto"])
    assert isinstance(result, LogEvaluation) and result.replay is not None and result.warnings() == []
    truth = {name: (rows[0][1] + rows[1][1]) / 2 for name, rows in CHANNELS.items()}
    for row in result.estimates.rows:
        if row.choice.startswith("always "):
            assert abs(row.value - truth[row.choice.removeprefix("always ")]) < 4.5 * row.standard_error
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["events"] == 9000 and told["replay"]["policies"]["auto"] and "The log paid" in told["findings"][0]
    reversed_log = {key: list(values)[::-1] for key, values in log().items()}
    again = hw.evaluate(PROBLEM, reversed_log, **columns, time="at", replications=4, policies=["ucb1", "auto"])
    assert isinstance(again, LogEvaluation) and again.replay is not None
    assert np.array_equal(again.replay.rewards["auto"], result.replay.rewards["auto"])


def test_a_log_too_small_to_replay_is_still_estimated() -> None:
    small = {key: values[:600] for key, values in log().items()}
    result = hw.evaluate(PROBLEM, small, arm="drink", reward="paid", propensity="p")
    assert isinstance(result, LogEvaluation) and result.replay is None and result.to_dict()["replay"] is None
    assert any("no policy was replayed: log: " in line for line in result.warnings())
    with pytest.raises(ProblemError, match="ask for fewer runs or rounds, or log more events"):
        hw.evaluate(PROBLEM, small, arm="drink", reward="paid", propensity="p", horizon=1000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": "drink"}, "reward: missing; a log needs both columns, and arm is given"),
        ({"reward": "paid"}, "arm: missing; a log needs both columns, and reward is given"),
        ({"arm": "drink", "reward": "paid", "by": "who"}, "mix: got a log; expected people with a reward for every arm"),
        ({"propensity": "p"}, "arm: missing; propensity and time are columns of a log"),
        (
            {"arm": "drink", "reward": "paid", "propensity": "who"},
            'propensity: column "who" holds text; expected probabilities',
        ),
        ({"arm": "drink", "reward": "paid", "propensity": "gaps"}, 'propensity: column "gaps" is empty in 1 rows'),
        ({"arm": "drnk", "reward": "paid"}, 'arm: there is no column "drnk"; did you mean "drink"'),
    ],
)
def test_logs_that_are_refused(change: dict[str, Any], message: str) -> None:
    table = log(300) | {"gaps": [None, *([0.5] * 299)]}
    with pytest.raises(ProblemError, match=message):
        hw.evaluate(PROBLEM, table, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"markets": -1}, "markets: got -1; expected a whole number from 0 to 1,000"),
        ({"policies": ["magic"]}, 'policy: got "magic"; expected one of'),
        ({"mixes": [{"tall": 1}]}, 'mix: got "tall"; expected one of calm, eager'),
        ({"segment": "city", "missing": 9}, 'segments: got "north"; expected one of calm, eager'),
        ({"segment": "where"}, 'segment: there is no column "where"'),
        ({"missing": 7}, "nobody has a reward for every arm; expected such people, or a log"),
    ],
)
def test_people_that_are_refused(change: dict[str, Any], message: str) -> None:
    table = people(200) | {"milk": [0, 7] * 100, "tea": [7, 1] * 100}
    with pytest.raises(ProblemError, match=message):
        hw.evaluate(PROBLEM, table, **change)


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(ProblemError, match="problem: got 7; expected a Problem, a Fit or the path of a problem file"):
        hw.evaluate(7, {})


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_ROWS", 10)
    for table, columns in ((people(40), {}), (log(40), {"arm": "drink", "reward": "paid"})):
        with pytest.raises(ProblemError, match="rewards; an evaluation takes 3 rows at most: give it a part"):
            hw.evaluate(PROBLEM, table, **columns)  # type: ignore[arg-type]


# --- the command and the page ----------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headwater", *map(str, arguments)])
        status: Any = 0
        try:
            cli.main()
        except SystemExit as stop:
            status = stop.code or 0
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A problem, people, and a log."""
    problem, wide, events = tmp_path / "drinks.toml", tmp_path / "people.csv", tmp_path / "log.csv"
    problem.write_text(PROBLEM.to_toml(), encoding="utf-8")
    pacsv.write_csv(pa.table(people()), wide)
    pacsv.write_csv(pa.table(log()), events)
    return problem, wide, events


def test_the_command_prints_a_table_and_writes_a_page(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    quick = ["--horizon", 100, "--replications", 2, "--markets", 1]
    status, out, err = run("evaluate", *files[:2], "--mix", "calm=3, eager=1", "--segment", "who", *quick, "--output", page)
    assert status == 0, err
    assert "75 % calm, 25 % eager" in out and "market 1" in out and "400 held-out people" in out
    assert f"The page is {page}" in err
    text = page.read_text(encoding="utf-8")
    assert text.count("<img") >= 3 and "How wrong may the model be?" in text and "http://" not in text.split("</script>", 1)[1]


def test_the_command_prints_json_and_nothing_else(run: Run, files: tuple[Path, Path, Path]) -> None:
    problem, wide, events = files
    quick = ["--policy", "ucb1", "--horizon", 60, "--replications", 2, "--markets", 0, "--no-calibrate", "--json"]
    status, out, _ = run("evaluate", problem, wide, *quick)
    told = json.loads(out)
    assert status == 0 and list(told["populations"][0]["policies"]) == ["ucb1"] and told["guard"] == []
    status, out, _ = run("evaluate", problem, events, "--arm", "drink", "--reward", "paid", "--propensity", "p", "--json")
    assert status == 0 and json.loads(out)["events"] == 9000


def test_a_log_gets_a_table_and_a_page(run: Run, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "log.html"
    status, out, err = run(
        "evaluate", files[0], files[2], "--arm", "drink", "--reward", "paid", "--replications", 4, "--output", page
    )
    assert status == 0, err
    assert "always tea" in out and "snips" in out and "warning: no propensities are logged" in out
    assert "Policies replayed on it" in page.read_text(encoding="utf-8")
    for said in (" ".join(out.split()), page.read_text(encoding="utf-8").replace("&#x27;", "'")):
        assert (
            "Intervals are stated at 95 %, each by itself: Gaffke's, which of clicks are Clopper and Pearson's, over events."
            in said
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "page.pdf"], "--output: got page.pdf; expected a name that ends in .html"),
        (["--mix", "calm"], "--mix: got calm; expected segment=share, such as young=0.7,old=0.3"),
        (["--mix", "calm=much"], "--mix: got calm=much; expected segment=share"),
        (["--segment", "nobody"], 'segment: there is no column "nobody"'),
        (["--horizon", "0"], "horizon: got 0; expected a whole number"),
    ],
)
def test_bad_options(run: Run, files: tuple[Path, Path, Path], arguments: list[str], message: str) -> None:
    status, out, err = run("evaluate", *files[:2], *arguments)
    assert status == 2 and out == "" and err.startswith("error: ") and message in err and "Traceback" not in err


def test_a_page_of_one_policy_without_calibration(tmp_path: Path) -> None:
    result = hw.evaluate(PROBLEM, people(150), markets=0, horizon=20, replications=1, policies=["ts"], calibrate=False)
    write_evaluation(result, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "is what was stated so?" not in text and "Populations" in text
    small = {key: values[:400] for key, values in log().items()}
    write_evaluation(hw.evaluate(PROBLEM, small, arm="drink", reward="paid"), tmp_path / "log.html")
    assert "Policies replayed" not in (tmp_path / "log.html").read_text(encoding="utf-8")


# --- the whole way ---------------------------------------------------------------------------------------------------


def population(count: int, arms: int, seed: int) -> np.ndarray:
    """Ratings (U, K) of four kinds of people, 1 to 5."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.normal(3, 1.0, (4, arms)), rng.integers(0, 4, count)
    return np.clip(np.rint(taste[kind] + rng.normal(0, 1, (count, arms))), 1, 5)


def test_the_whole_way_saves_on_a_population_with_known_kinds() -> None:
    """Fit on half of the people, replay on the others in new markets: the learned model is right here, so that auto must have
    at most half of Thompson sampling's regret. (The draws are fixed by the seed.)"""
    table = population(2400, 12, seed=3)
    told: list[float] = []
    trial = run_trial(
        table,
        [f"film {k}" for k in range(12)],
        arms=5,
        draws=3,
        horizon=2000,
        replications=6,
        policies=["ucb1", "ts", "auto"],
        progress=lambda words, share: told.append(share),
    )
    assert (trial.control, trial.held_out, len(trial.draws), trial.since) == (1200, 1200, 3, 500)
    assert 3 <= len(trial.fit.segments) <= 7 and max(told) <= 1.0
    aims = trial.aims()
    assert [aim.limit for aim in aims] == [0.25, 0.5, 1.0] and all(aim.met for aim in aims[:2])
    draw = trial.draws[0]
    assert len(draw.arms) == 5 and draw.market.simulation.problem.names == draw.arms
    told_dict = json.loads(json.dumps(trial.to_dict(), allow_nan=False))
    assert len(told_dict["draws"]) == 3 and told_dict["aims"][0]["met"]
    again = run_trial(table, [f"film {k}" for k in range(12)], arms=5, draws=1, horizon=2000, replications=2, policies=["ts"])
    assert np.array_equal(again.draws[0].market.simulation.regret("ts"), draw.market.simulation.regret("ts")[:2])
    assert again.to_dict()["aims"] == []


def test_aims_are_about_the_better_thompson_sampling() -> None:
    """Ratings near 3 on a scale from 1 to 5 deviate by 0.5, not by B/2 = 2: the old yardstick loses several times as much."""
    rng = np.random.default_rng(5)
    table = np.clip(np.rint(4 * (rng.normal(3, 0.3, 6) + rng.normal(0, 0.5, (400, 6)))) / 4, 1, 5)
    table[0], table[1] = 1, 5
    setting: dict[str, Any] = {"arms": 4, "draws": 2, "horizon": 1000, "replications": 8, "segments": 2, "started": True}
    trial = run_trial(table, list("abcdef"), **setting, policies=["ucb1", "ts", "ts:sd=estimated", "auto"])
    assert trial.policies == ["ucb1", "ts", "ts (estimated)", "auto", STARTED] and trial.yardstick == "ts (estimated)"
    assert np.all(trial.regret("ts") > 1.5 * trial.regret("ts (estimated)"))
    aims = trial.aims()
    assert aims[1].words == "regret of auto over Thompson sampling's"
    assert aims[1].values == (trial.regret("auto") / trial.regret("ts (estimated)")).tolist()
    said = " ".join(trial_markdown(trial).split())
    old = trial.regret("auto").sum() / trial.regret("ts").sum()
    assert f"Regret of auto is {old:.2f} on the mean (less in " in said and "with sd B/2, the yardstick of release 0.1" in said
    assert "Thompson sampling's started from everything the control group paid." in said
    assert re.search(r"\| mean regret after round \| \d \| \d\d \| 250 \| 1,000 \| .*`ts \(started\)` .* \| `auto` \|", said)
    assert [aim.words for aim in replace(trial, draws=[without(draw) for draw in trial.draws]).aims()][1].endswith(", sd B/2")


def without(draw: Draw) -> Draw:
    """A draw in which nobody estimated a deviation."""
    run = draw.market.simulation
    outcomes = {name: outcome for name, outcome in run.outcomes.items() if name != "ts (estimated)"}
    return draw._replace(market=replace(draw.market, simulation=replace(run, outcomes=outcomes)))


def test_what_a_folder_keeps_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def watched(model: Any, spec: Any, **options: Any) -> Any:
        done.append(spec.title)
        return simulate_counts(model, spec, **options)

    monkeypatch.setattr("headwater.evaluation.replay.simulate_counts", watched)
    table, names = population(200, 6, seed=3), list("abcdef")
    setting: dict[str, Any] = {"arms": 3, "draws": 2, "horizon": 40, "replications": 2, "segments": 2}
    first = run_trial(table, names, **setting, policies=["ucb1"], folder=tmp_path / "kept")
    assert done == ["ucb1"] * 2
    more = run_trial(table, names, **setting, policies=["ucb1", "ts"], folder=tmp_path / "kept")
    assert done == ["ucb1"] * 2 + ["ts"] * 2 and np.array_equal(first.regret("ucb1"), more.regret("ucb1"))
    run_trial(table, names, **setting, policies=["ucb1", "ts"], folder=tmp_path / "kept", again=["ts"])
    assert done[4:] == ["ts"] * 2
    run_trial(table, names, **(setting | {"replications": 3}), policies=["ucb1", "ts"], folder=tmp_path / "kept")
    assert done[6:] == ["ucb1", "ts"] * 2, "another setting"


def test_an_aim_is_met_on_the_mean_and_in_nine_of_ten() -> None:
    assert Aim("x", 0.5, [0.1] * 9 + [0.9], 0.2).met
    assert not Aim("x", 0.5, [0.1] * 8 + [0.9] * 2, 0.2).met
    assert not Aim("x", 0.5, [0.1] * 10, 0.6).met


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratings": np.zeros((10, 3))}, r"ratings: got shape \(10, 3\); expected a whole table of \(people, 4 arms\)"),
        ({"ratings": np.full((10, 4), np.nan)}, "expected a whole table"),
        ({"arms": 5}, "arms: got 5; expected a whole number from 2 to 4"),
        ({"draws": 0}, "draws: got 0"),
        ({"horizon": 3}, "horizon: got 3"),
    ],
)
def test_trials_that_are_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"ratings": population(40, 4, 1), "arms": 2} | change
    with pytest.raises(ProblemError, match=message):
        run_trial(given.pop("ratings"), list("abcd"), **given)
