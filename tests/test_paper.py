"""The paper's cases, as data: identities, and where the paper and arithmetic part."""

from __future__ import annotations

import json

from headwater.paper import CASES, TWO_ARMS, compare

KNOWN = {
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


def test_the_paper_is_right_but_for_two_claims() -> None:
    wrong = {(panel.case.id, check.claim) for panel in compare() for check in panel.checks if not check.agrees}
    assert wrong == KNOWN


def test_discrepancies_show_the_numbers() -> None:
    computed = {(panel.case.id, check.claim): check.computed for panel in compare() for check in panel.checks}
    assert computed["continuous-1", "arm 2 and arm 3 are non-competitive"] == "pseudo-gap of arm 2: -0.0353, arm 3: +0.2556"
    assert computed["vector-2", "the probabilities .48, .5 and seven times .0028 sum to 1"] == "0.9996"
    assert computed["vector-1", "arm 2's gap is 0.04"] == "0.0400"
    assert computed["discrete-1", "arm 1 is optimal"] == "arm 1 (means 2.0750, 1.3500, 1.7500)"


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
