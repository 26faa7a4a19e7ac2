"""What analysis says: the figures of the paper (corrected), ties, keys, and what holds without a distribution."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.paper import CASES

BUMP = "exp(-(x - 0.5)**2 / (2 * 0.2**2)) / (2 * sqrt(2 * pi * 0.2**2))"
BY_ID = {case.id: case.problem for case in CASES}


def flat(problem: hw.Problem, distribution: Any = None, *, full: bool = False) -> dict[str, Any]:
    """The analysis as its user reads it, through strict JSON."""
    body = json.loads(json.dumps(hw.analyze(problem, distribution, full=full).to_dict(), allow_nan=False))
    assert isinstance(body, dict)
    return body


def continuous(a: float, b: float, rate: float = 2.5) -> dict[str, Any]:
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={"1": BUMP, "2": f"1 - exp(-{rate} * x)", "3": "0.5"})
    return flat(p, {"name": "beta", "a": a, "b": b})


def near(got: dict[str, float], want: dict[str, float], digits: float) -> None:
    for arm, value in want.items():
        assert abs(got[arm] - value) <= digits, (arm, got[arm], value)


# The figures of ERRATA.md


@pytest.mark.parametrize(
    ("case", "means", "best", "gaps", "pseudo", "competitive"),
    [
        ("discrete-1", (2.075, 1.35, 1.75), "arm 1", (0, 0.725, 0.325), (0, 0.35, 0.325), []),
        ("discrete-2", (1.63, 1.69, 2.26), "arm 3", (0.63, 0.57, 0), (0.31, -0.40, 0), ["arm 2"]),
        ("discrete-3", (1.70, 1.675, 2.00), "arm 3", (0.30, 0.325, 0), (-0.30, -0.30, 0), ["arm 1", "arm 2"]),
    ],
)
def test_discrete_cases(
    case: str,
    means: tuple[float, ...],
    best: str,
    gaps: tuple[float, ...],
    pseudo: tuple[float, ...],
    competitive: list[str],
) -> None:
    a = flat(BY_ID[case])
    names = ["arm 1", "arm 2", "arm 3"]
    near(a["means"], dict(zip(names, means, strict=True)), 1e-12)
    near(a["gaps"], dict(zip(names, gaps, strict=True)), 1e-12)
    near(a["pseudo_gaps"], dict(zip(names, pseudo, strict=True)), 1e-12)
    assert (a["best"], a["unique"], a["reward_range"]) == (best, True, 4)
    assert a["competitive"] == competitive
    assert a["non_competitive"] == [n for n in names if n not in (best, *competitive)]
    assert a["C"] == len(competitive)
    assert a["reveal_x"] == []


@pytest.mark.parametrize(
    ("law", "rate", "means", "best", "pseudo", "competitive"),
    [
        ((4, 4), 2.5, (0.7556, 0.6877, 0.5), "1", {"2": -0.0353, "3": 0.2556}, ["2"]),
        ((4, 4), 2.0, (0.7556,), "1", {"2": 0.040, "3": 0.2556}, []),
        ((2, 5), 2.5, (0.5204, 0.4732, 0.5), "1", {"2": -0.3117, "3": 0.0204}, ["2"]),
        ((1, 5), 2.5, (0.2979, 0.3041, 0.5), "3", {"1": -0.4974, "2": -0.4179}, ["1", "2"]),
    ],
)
def test_continuous_cases(
    law: tuple[int, int],
    rate: float,
    means: tuple[float, ...],
    best: str,
    pseudo: dict[str, float],
    competitive: list[str],
) -> None:
    a = continuous(*law, rate)
    near(a["means"], dict(zip("123", means, strict=False)), 5.1e-5)
    near(a["pseudo_gaps"], pseudo, 5.1e-4 if rate == 2 else 5.1e-5)
    assert (a["best"], a["competitive"]) == (best, competitive)
    assert round(a["reward_range"], 3) == 0.954 or rate == 2
    assert a["error"] <= 1e-8
    assert a["reveal_x"] == ["2"]


@pytest.mark.parametrize(("rate", "all_hold"), [(1.011, False), (1.013, True), (2.246, True), (2.248, False), (2.5, False)])
def test_the_continuous_claims_hold_together_only_for_some_rates(rate: float, all_hold: bool) -> None:
    one, two, three = continuous(4, 4, rate), continuous(2, 5, rate), continuous(1, 5, rate)
    holds = (
        (one["best"], one["non_competitive"]) == ("1", ["2", "3"])
        and (two["best"], two["competitive"], two["non_competitive"]) == ("1", ["2"], ["3"])
        and (three["best"], three["competitive"]) == ("3", ["1", "2"])
    )
    assert holds == all_hold


def test_vector_cases() -> None:
    a = flat(BY_ID["vector-1"])
    near(a["means"], {"arm 1": 0.02, "arm 2": -0.02}, 1e-12)
    near(a["pseudo_gaps"], {"arm 2": -1.068}, 5.1e-4)
    assert a["competitive"] == ["arm 2"] and a["reward_range"] == 4
    b = flat(BY_ID["vector-2"])
    near(b["gaps"], {"arm 2": 0.04}, 1e-12)
    near(b["pseudo_gaps"], {"arm 2": 0.01143}, 5.1e-6)
    assert b["non_competitive"] == ["arm 2"] and b["reward_range"] == 4


def test_two_arm_example() -> None:
    a = flat(BY_ID["two-arms"])
    near(a["means"], {"arm 1": 1.7, "arm 2": 0.9}, 1e-12)
    near(a["expected_pseudo_rewards"]["arm 2"], {"arm 1": 1.5}, 1e-12)
    assert a["non_competitive"] == ["arm 2"] and a["best"] == "arm 1"


# Keys and shapes

ALWAYS = {"arms", "reward_range", "reveal_x", "advice"}
UNDER = {"best", "unique", "means", "gaps", "pseudo_gaps", "expected_pseudo_rewards", "competitive", "non_competitive"}
FREE = {"always_best", "never_best", "undecided"}


def test_keys_under_a_distribution() -> None:
    a = flat(BY_ID["discrete-1"])
    assert set(a) >= ALWAYS | UNDER | {"C", "error"}
    assert list(a["means"]) == list(a["gaps"]) == list(a["pseudo_gaps"]) == a["arms"] == ["arm 1", "arm 2", "arm 3"]
    assert {t: list(v) for t, v in a["expected_pseudo_rewards"].items()} == {arm: ["arm 1"] for arm in a["arms"]}


def test_keys_without_one() -> None:
    p = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"1": [0, 1], "2": [1, 0], "3": [0.4, 0.4]})
    a = flat(p)
    assert set(a) == ALWAYS | FREE
    assert a["reveal_x"] == ["1", "2"]
    assert a["never_best"].keys() == {"3"} and a["always_best"] == [] and a["undecided"] == []
    found = hw.analyze(p)
    assert found.best is None and found.mu is None and found.competitive == [] and found.non_competitive == []


def test_full_gives_every_pair() -> None:
    for id_ in ("discrete-2", "continuous-2", "vector-1"):
        a, b = flat(BY_ID[id_], full=True), flat(BY_ID[id_])
        phi = a["expected_pseudo_rewards"]
        assert all(list(phi[ell]) == a["arms"] for ell in a["arms"])
        for ell in a["arms"]:
            assert phi[ell][ell] == a["means"][ell]
            assert phi[ell][a["best"]] == b["expected_pseudo_rewards"][ell][a["best"]]
            assert all(value >= a["means"][ell] - 1e-9 for value in phi[ell].values())
        assert {key: a[key] for key in UNDER - {"expected_pseudo_rewards"}} == {
            key: b[key] for key in UNDER - {"expected_pseudo_rewards"}
        }


def test_the_argument_goes_before_the_problems_own_distribution() -> None:
    p = BY_ID["discrete-1"]
    assert flat(p, [0, 0, 0, 1, 0])["means"] == {"arm 1": 4, "arm 2": 0, "arm 3": 0}
    with pytest.raises(hw.ProblemError, match=r"sum to 0\.9"):
        hw.analyze(p, [0.1, 0.2, 0.25, 0.25, 0.1])


def test_labels_may_name_probabilities() -> None:
    p = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"1": [0, 1], "2": [1, 0]})
    assert flat(p, {"b": 1.0})["best"] == "1"


# Ties and edges


def test_ties_are_not_unique_and_stay_competitive() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [0, 1, 0], "b": [1, 0, 1], "c": [0, 0, 0]})
    a = hw.analyze(p, [0.25, 0.5, 0.25])
    assert a.best == "a" and a.unique is False and a.competitive == ["b"]
    assert "tie" in a.advice


def test_a_tie_by_rounding_alone_is_a_tie() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [0.3, 0.3], "b": [0.1 + 0.2, 0.1 + 0.2]})
    assert hw.analyze(p, [0.5, 0.5]).unique is False
    q = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1]})
    assert hw.analyze(q, [1 / 3, 1 / 3, 1 / 3]).unique is False


def test_a_small_gap_is_no_tie() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [0, 1], "b": [1 + 1e-9, 0]})
    a = hw.analyze(p, [0.5, 0.5])
    assert a.best == "b" and a.unique is True


def test_a_pseudo_gap_of_exactly_zero_is_competitive() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [1, 1], "b": [1, 0], "c": [0.9, 0]})
    a = hw.analyze(p, [0.3, 0.7])
    assert a.pseudo_gap is not None and a.pseudo_gap[1] == 0
    assert a.competitive == ["b"] and a.non_competitive == ["c"] and a.unique is True


def test_zero_up_to_rounding_is_competitive() -> None:
    p = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms={"a": [0.3] * 3, "b": [0.1 + 0.2, 0, 0]})
    assert hw.analyze(p, [0.2, 0.3, 0.5]).competitive == ["b"]


def test_reward_range_is_the_widest_arm_or_what_was_given() -> None:
    arms = {"a": [0, 3, 3.5], "b": [-2, 0, 1], "c": [10, 10, 10]}
    assert hw.analyze(hw.Problem(latent=hw.Discrete([1, 2, 3]), arms=arms), [0.2, 0.3, 0.5]).reward_range == 3.5
    p = hw.Problem(latent=hw.Discrete([1, 2, 3]), arms=arms, reward_range=7)
    assert hw.analyze(p, [0.2, 0.3, 0.5]).to_dict()["reward_range"] == 7


def test_advice_says_how_many() -> None:
    assert "Both other arms are non-competitive" in hw.analyze(BY_ID["discrete-1"]).advice
    assert hw.analyze(BY_ID["discrete-2"]).advice.startswith("1 of 2 other arms is non-competitive")
    assert "competitive: C-UCB's regret grows like UCB1's" in hw.analyze(BY_ID["discrete-3"]).advice
    assert "The other arm is non-competitive" in hw.analyze(BY_ID["two-arms"]).advice
    free = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [0, 1], "b": [1, 0]})
    assert "depends on the distribution" in hw.analyze(free).advice
    always = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [2, 1], "b": [1, 0]})
    assert "a is best whatever" in hw.analyze(always).advice
    never = hw.Problem(latent=hw.Discrete([1, 2]), arms={"a": [0, 1], "b": [1, 0], "c": [0.4, 0.4]})
    assert "c can never be best" in hw.analyze(never).advice


def test_all_arms_constant() -> None:
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "0.5", "b": "0.25"}, distribution="uniform")
    a = flat(p)
    assert a["best"] == "a" and a["reward_range"] == 0 and a["non_competitive"] == ["b"]
    near(a["means"], {"a": 0.5, "b": 0.25}, 1e-15)


def test_a_large_offset_changes_nothing_but_the_means() -> None:
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "1e9 + x", "b": "1e9 + 0.5*(1 - x)"})
    a = flat(p, "uniform")
    near(a["gaps"], {"a": 0, "b": 0.25}, 1e-5)
    assert a["non_competitive"] == ["b"] and a["unique"]


def test_expectations_on_infinite_supports() -> None:
    """Quantiles run off to infinity, where x*exp(-x) has no value of its own."""
    arms = {"a": "x*exp(-x)", "b": "1/(1+x**2)", "c": "tanh(x)", "d": "exp(-x)"}
    p = hw.Problem(latent=hw.Continuous([0, np.inf]), arms=arms)
    a = flat(p, "expon", full=True)
    near(a["means"], {"a": 0.25, "b": 0.6214496242358134, "c": np.pi / 2 - 1, "d": 0.5}, 1e-9)
    phi = a["expected_pseudo_rewards"]
    for ell in "abcd":
        assert abs(phi[ell]["d"] - a["means"][ell]) <= 1e-8  # exp(-x) and 1/(1+x²) reveal x
        assert abs(phi[ell]["b"] - a["means"][ell]) <= 1e-8
    both = hw.Problem(latent=hw.Continuous([-np.inf, np.inf]), arms={"a": "exp(-x**2)", "b": "tanh(x)"})
    b = flat(both, {"name": "normal", "mean": 0, "sd": 1})
    near(b["means"], {"a": 1 / np.sqrt(3), "b": 0}, 1e-9)
