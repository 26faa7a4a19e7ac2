"""What was decided before is decided now: lives, simulations, stored policies and databases that were recorded."""

from __future__ import annotations

import copy
import json
import lzma
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from service_tools import Running

BENCHMARKS, FOLDER = Path(__file__).parent.parent / "benchmarks", Path(__file__).parent / "goldens"
sys.path.insert(0, str(BENCHMARKS))
import golden_service  # noqa: E402 - it lies with the benchmarks
import goldens  # noqa: E402 - likewise

RECORDS = sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("*.json.xz"))
DATABASES = sorted(path.name.removesuffix(".db.xz") for path in FOLDER.glob("*.db.xz"))


def recorded(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))["cases"]
    return cases


def totals(cases: list[dict[str, Any]]) -> dict[str, goldens.Total]:
    """What comes out for every policy."""
    out: dict[str, goldens.Total] = defaultdict(goldens.Total)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hw.ModelWarning)
        for case in cases:
            for policy, found in goldens.compared(case):
                out[policy].add(found)
    return out


@pytest.mark.parametrize("name", RECORDS)
def test_what_was_recorded_comes_out(name: str) -> None:
    found = totals(recorded(name))
    wrong = {policy: str(total) for policy, total in found.items() if not total.right(goldens.is_exact(policy))}
    assert not wrong
    known = {*goldens.PLAIN, *goldens.FILTERED, *goldens.LEARNING, "graves-lai"}
    assert set(found) == known if name != "stored-0.1.0" else len(found) == 24, "0.1 lacked some options"
    assert all(total.compared["decisions"] > 50 and not total.skipped for total in found.values())


def test_every_release_left_something() -> None:
    assert RECORDS == ["sample", "stored-0.1.0", "stored-0.2.0"] and DATABASES == ["service-0.1.0", "service-0.2.0"]


def _events(case: dict[str, Any], policy: str, kind: str) -> list[list[Any]]:
    return [event for life in case["lives"] if life["policy"] == policy for event in life["events"] if event[0] == kind]


def test_a_difference_is_found() -> None:
    """Of one life one thing each is changed in the record: a decision, a count, an explanation, a refusal, a run."""
    case = next(case for case in recorded("sample") if case["family"] == "ties" and len(case["runs"]) > 0)
    policy = case["runs"][0]["policy"]
    assert goldens.is_exact(policy) and totals([case])[policy].right(exact=True)
    arms = case["problem"].count('"arm ')
    for kind, what in (("select", "decisions"), ("state", "states"), ("explain", "explanations"), ("runs", "runs: pulls")):
        other = copy.deepcopy(case)
        if kind == "runs":
            other["runs"][0]["pulls"][0][-1][0] += 1
        else:
            event = _events(other, policy, kind)[-1 if kind == "state" else 0]
            if kind == "select":
                event[2] = (event[2] + 1) % arms
            elif kind == "state":
                event[1]["replication"] += 1
            else:
                event[2]["arms"][0]["sentence"] = "because."
        total = totals([other])[policy]
        assert total.different[what] == 1 and total.different.total() == 1 and not total.right(exact=True)
        if kind == "select":
            assert total.skipped > 0 and "DIFFERENT" in str(total)


def test_a_tie_of_a_policy_that_learns_is_let_pass() -> None:
    total = goldens.Total()
    total.compared["decisions"], total.different["decisions"], total.ties = 20_000, 2, 2
    assert total.right(exact=False) and not total.right(exact=True)
    total.ties = 1
    assert not total.right(exact=False), "one difference is no tie"
    total.compared["decisions"], total.ties = 10_000, 2
    assert not total.right(exact=False), "too many"


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_goes_on(name: str, tmp_path: Path) -> None:
    path = tmp_path / "service.db"
    path.write_bytes(lzma.decompress((FOLDER / f"{name}.db.xz").read_bytes()))
    expected = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    with Running(str(path)) as service:
        assert golden_service.go_on(service, golden_service.ROUNDS) == expected
