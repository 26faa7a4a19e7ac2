"""A problem evaluated on what it was learned from: noticed, warned of, and avoided by a part that is held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

import headwater as hw
from command_line import runner
from headwater.errors import ProblemError
from headwater.evaluation.data import read_events, read_problem

NAMES = ["tea", "milk", "juice"]


def visits(count: int = 3000, seed: int = 1, people: int = 600) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    who = rng.integers(0, people, count)
    arm = rng.integers(0, 3, count)
    rate = np.array([[0.2, 0.5, 0.4], [0.6, 0.3, 0.4]])[who % 2, arm]
    paid = np.where(rng.random(count) < rate, np.round(rng.exponential(3, count), 2), 0.0)
    return {
        "visitor": [f"v{u}" for u in who],
        "kind": [("old", "young")[u % 2] for u in who],
        "drink": [NAMES[k] for k in arm],
        "paid": paid,
        "chance": np.full(count, 1 / 3),
    }


LONG: dict[str, Any] = {"arm": "drink", "reward": "paid"}
DATA = visits()


def shuffled(data: dict[str, Any]) -> dict[str, Any]:
    order = np.random.default_rng(0).permutation(len(data["paid"]))
    return {key: [column[i] for i in order] for key, column in data.items()}


def checked(fit: Any, data: Any, **options: Any) -> Any:
    keep: dict[str, Any] = {**LONG, "policies": ["ucb1"], "replications": 2, "horizon": None} | options
    return hw.evaluate(fit, data, **keep)


def test_the_same_data_has_one_digest_whatever_it_comes_as(tmp_path: Path) -> None:
    table = pa.table(DATA)
    pacsv.write_csv(table, tmp_path / "log.csv")
    papq.write_table(table, tmp_path / "log.parquet")
    sources: list[Any] = [DATA, shuffled(DATA), tmp_path / "log.csv", tmp_path / "log.parquet", table]
    digests = {hw.fit(data, **LONG, segment="kind").evidence()["digest"] for data in sources}
    digests |= {hw.fit(DATA, **LONG, unit="visitor", segments=2).evidence()["digest"]}
    assert len(digests) == 1 and all(len(digest) == 16 for digest in digests)
    others = [visits(seed=2), visits(2999), DATA | {"paid": [*DATA["paid"][:-1], 77.0]}]
    assert not digests & {hw.fit(data, **LONG, segment="kind").evidence()["digest"] for data in others}


def test_a_log_that_was_learned_from_is_noticed_whatever_columns_are_named() -> None:
    learned = hw.fit(DATA, **LONG, segment="kind")
    for options in ({}, {"segment": "kind"}, {"propensity": "chance", "unit": "visitor"}):
        found = checked(learned, shuffled(DATA), **options)
        assert found.to_dict()["learned_from"] == "all"
        assert any(
            "the problem was learned from this very data" in line and "--hold-out 0.3" in line for line in found.warnings()
        )
    fresh = checked(learned, visits(seed=7))
    assert fresh.to_dict()["learned_from"] == "none" and not any("learned from" in line for line in fresh.warnings())
    by_hand = checked(learned.problem, DATA)
    assert by_hand.to_dict()["learned_from"] is None and not any("learned from" in line for line in by_hand.warnings())


@pytest.mark.parametrize("unit", ["visitor", None])
def test_what_is_held_out_is_what_was_not_learned_from(unit: str | None, tmp_path: Path) -> None:
    learned = hw.fit(DATA, **LONG, segment="kind", unit=unit, hold_out=0.3, seed=4)
    counts = sum(np.asarray(arm["counts"]).sum() for arm in learned.evidence()["arms"].values())
    told = learned.evidence()["hold_out"]
    assert told["by"] == ("unit" if unit else "row") and told["share"] == 0.3 and told["seed"] == 4
    learned.save(tmp_path / "drinks.toml")
    problem, evidence = read_problem(tmp_path / "drinks.toml")
    for options in ({}, {"segment": "kind"}, {"propensity": "chance"}):
        events, about = read_events(problem, DATA, **LONG, **options, evidence=evidence, held_out=True)
        assert events.count + counts == 3000 and 0.25 * 3000 < events.count < 0.35 * 3000
        assert about.learned_from == "none" and (events.unit is None) == (unit is None)
    found = checked(tmp_path / "drinks.toml", DATA, held_out=True)
    assert found.events == events.count and found.units == (None if events.unit is None else len(np.unique(events.unit)))
    whole = checked(tmp_path / "drinks.toml", DATA)
    assert whole.to_dict()["learned_from"] == "part"
    assert any("70% of this data is what the problem was learned from" in line for line in whole.warnings())


def test_units_are_held_out_whole_and_in_any_order() -> None:
    learned = hw.fit(DATA, **LONG, segment="kind", unit="visitor", hold_out=0.3)
    again = hw.fit(shuffled(DATA), **LONG, segment="kind", unit="visitor", hold_out=0.3)
    assert learned.to_toml() == again.to_toml()
    rows = {"drink": NAMES * 1000, "paid": [0, 1, 1] * 1000, "visitor": [f"v{i // 3}" for i in range(3000)]}
    rows["kind"] = ["a", "b", "b"] * 1000
    split = hw.fit(rows, **LONG, segment="kind", unit="visitor", hold_out=0.5)
    events, _ = read_events(split.problem, rows, **LONG, evidence=split.evidence(), held_out=True)
    assert events.unit is not None and set(np.bincount(events.unit)) == {3}
    assert hw.fit(rows, **LONG, segment="kind", unit="visitor", hold_out=0.5, seed=1).origin != split.origin


def test_people_with_a_reward_for_every_arm_can_be_held_out() -> None:
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 2, 800)
    table = {name: (rng.random(800) < np.array([0.2, 0.7])[(kind + k) % 2]).astype(int) for k, name in enumerate(NAMES)}
    quick: dict[str, Any] = {"policies": ["ucb1"], "horizon": 50, "replications": 2, "markets": 0, "calibrate": False}
    for extra, unit in (({}, None), ({"who": [f"p{i}" for i in range(800)]}, "who")):
        learned = hw.fit(table | extra, wide=NAMES, segments=2, hold_out=0.4, unit=unit)
        part = hw.evaluate(learned, table | extra, held_out=True, **quick)
        whole = hw.evaluate(learned, table | extra, **quick)
        assert isinstance(part, hw.Evaluation) and isinstance(whole, hw.Evaluation)
        assert part.people + learned.origin["rows"] / 3 == 800 and part.about.learned_from == "none"
        assert whole.people == 800 and whole.about.learned_from == "part"


@pytest.mark.parametrize(
    ("options", "data", "message"),
    [
        ({}, DATA, "held-out: the problem was fitted without a part held out; fit it again with --hold-out 0.3"),
        ({"hold_out": 0.3}, visits(seed=9), "held-out: a table in memory is not the data that the problem was learned from"),
        ({"hold_out": 0.3}, shuffled(DATA), "held-out: the rows of a table in memory do not stand in the order"),
        (
            {"hold_out": 0.3, "unit": "visitor"},
            DATA | {"visitor": [f"w{name}" for name in DATA["visitor"]]},
            "or its units have other names; expected the very same data, or a fit that names units",
        ),
    ],
)
def test_misuse_is_refused(options: dict[str, Any], data: dict[str, Any], message: str) -> None:
    learned = hw.fit(DATA, **LONG, segment="kind", **options)
    with pytest.raises(ProblemError, match=message):
        checked(learned, data, held_out=True)


@pytest.mark.parametrize("share", [0, 1, -0.5, "much"])
def test_shares_that_are_none_are_refused(share: Any) -> None:
    with pytest.raises(ProblemError, match=r"hold_out: got .*; expected a share between 0 and 1"):
        hw.fit(DATA, **LONG, segment="kind", hold_out=share)


def test_the_commands_fit_and_evaluate_hold_out_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pacsv.write_csv(pa.table(DATA), tmp_path / "log.csv")
    fit = "fit log.csv --arm drink --reward paid --segment kind --unit visitor --hold-out 0.3 --output drinks.toml"
    evaluate = "evaluate drinks.toml log.csv --arm drink --reward paid --replications 2 --policy ucb1"
    call, told = runner(monkeypatch, capsys), []
    for line in (fit, f"{evaluate} --held-out --unit visitor --json", f"{evaluate} --json --output page.html", evaluate):
        outcome = call(*line.split())
        assert outcome.status == 0, outcome.err
        told.append(outcome.out)
    held, whole = json.loads(told[1]), json.loads(told[2])
    assert held["learned_from"] == "none" and held["units"] > 100 and whole["learned_from"] == "part"
    for text in (told[3], (tmp_path / "page.html").read_text(encoding="utf-8")):
        assert "of this data is what the problem was learned from" in " ".join(text.split())
