"""The paper's cases, as data: identities, and where the paper and arithmetic part."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headwater.paper import CASES, LEARNERS, TWO_ARMS, compare, learners, reproduce

KNOWN = {
    ("vector-1", "s21(r) > g1(r) only if r = 2"),
    ("vector-1", "s12(r) > g2(r) only if r = 2"),
    ("continuous-1", "arm 2 and arm 3 are non-competitive"),
    ("vector-2", "the probabilities .48, .5 and seven times .0028 sum to 1"),
}


def test_ids_are_unique_and_plain() -> None:
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids)
    assert all(id_ == id_.lower() and " " not in id_ for id_ in ids)
    assert len({case.title for case in CASES}) == len(CASES)


def test_every_case_comes_with_its_distribution_and_claims() -> None:
    for case in CASES:
        assert case.problem.distribution is not None and case.claims and case.problem.name
        assert case.problem.to_toml()


def test_the_paper_is_right_but_for_four_claims() -> None:
    wrong = {(panel.case.id, check.claim) for panel in compare() for check in panel.checks if not check.agrees}
    assert wrong == KNOWN


def test_discrepancies_show_the_numbers() -> None:
    computed = {(panel.case.id, check.claim): check.computed for panel in compare() for check in panel.checks}
    assert computed["continuous-1", "arm 2 and arm 3 are non-competitive"] == "pseudo-gap of arm 2: -0.0353, arm 3: +0.2556"
    assert computed["vector-2", "the probabilities .48, .5 and seven times .0028 sum to 1"] == "0.9996"
    assert computed["vector-1", "arm 2's gap is 0.04"] == "0.0400"
    assert computed["discrete-1", "arm 1 is optimal"] == "arm 1 (means 2.0750, 1.3500, 1.7500)"
    turned = "s(r) is above r at -2, -1, 0, equal at 1, below only at 2"
    assert computed["vector-1", "s21(r) > g1(r) only if r = 2"] == turned
    assert computed["vector-1", "s12(r) > g2(r) only if r = 2"] == turned
    assert computed["vector-1", "r = 2 from arm 2 identifies X as (1, -1)"] == "arm 2 pays 2 at (1, -1)"


def test_one_case_at_a_time_and_as_json() -> None:
    (panel,) = compare([TWO_ARMS])
    body = json.loads(json.dumps(panel.to_dict(), allow_nan=False))
    assert body["title"] == "The two-arm example"
    assert body["checks"] == [
        {
            "paper": "arm 2 is non-competitive with respect to arm 1",
            "computed": "pseudo-gap of arm 2: +0.2000",
            "agrees": True,
        }
    ]


def test_cases_leave_out_what_their_x_does_not_allow() -> None:
    fewer = {"continuous": LEARNERS[:1], "appendix": ()}
    for case in CASES:
        assert learners(case) == fewer.get(case.id.partition("-")[0], LEARNERS)


def test_listed_cases_come_with_the_bound() -> None:
    constants = {panel.case.id: panel.bounds.graves_lai for panel in compare() if panel.bounds is not None}
    assert set(constants) == {case.id for case in CASES if not case.id.startswith(("continuous", "appendix"))}
    bounded = {"example-1", "two-arms", "discrete-1", "vector-2"}  # no competitive arm
    assert {id_ for id_, c in constants.items() if c == 0} == bounded


def test_the_readme_counts_the_statements() -> None:
    """All that are checked: those of the cases and the four of the proofs. What agrees takes the whole reproduction to say."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    found = re.search(r"(\d+) of (\d+)\s+statements agree", text)
    assert found is not None
    assert int(found[2]) == sum(len(case.claims) for case in CASES) + 4
    static = sum(not check.agrees for panel in compare() for check in panel.checks)
    in_runs = ("discrete-3 is not below", "continuous-1 is not flat", "continuous-2: what UCB1 explores")
    in_proofs = ("a step of Theorem 5's", "its series")
    assert int(found[2]) - int(found[1]) == static + len(in_runs) + len(in_proofs)


def test_reproduce_tells_how_far_it_is_and_runs_every_policy() -> None:
    told: list[float] = []
    (panel,) = reproduce([TWO_ARMS], scale=0.005, progress=lambda title, share: told.append(share))
    assert told == sorted(told) and told[-1] == 1 and told[0] >= 0
    assert panel.simulation is not None
    runs = {name: len(panel.simulation.regret(name)) for name in panel.simulation.outcomes}
    assert (runs["c-ucb"], runs["ts"], runs["joint-ucb"]) == (500, TWO_ARMS.others, TWO_ARMS.learners)
