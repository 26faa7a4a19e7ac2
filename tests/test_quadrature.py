"""Quadrature: kinks, jumps and singular ends against closed forms; the error estimate must not lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Floats
from headwater.quadrature import integrate

NONE = np.empty(0)
Case = tuple[Callable[[Floats], Floats], list[float], float]

CASES: dict[str, Case] = {
    "constant": (lambda u: np.full_like(u, 3.0), [], 3.0),
    "polynomial": (lambda u: u**9, [], 0.1),
    "kink": (lambda u: abs(u - 1 / 3), [], (1 / 9 + 4 / 9) / 2),
    "two kinks": (lambda u: np.minimum(np.maximum(u, 0.2), 0.7), [], 0.2 * 0.2 + (0.7**2 - 0.2**2) / 2 + 0.3 * 0.7),
    "jump at a break": (lambda u: np.where(u < 0.3, 1.0, 5.0), [0.3], 0.3 + 3.5),
    "jump nobody told": (lambda u: np.where(u < 0.3, 1.0, 5.0), [], 0.3 + 3.5),
    "singular end": (lambda u: u**0.25, [], 0.8),
    "infinite end": (lambda u: u**-0.25, [], 4 / 3),
    "logarithm": (lambda u: np.log(u), [], -1.0),
    "both ends": (lambda u: np.sqrt(u * (1 - u)), [], np.pi / 8),
    "waves": (lambda u: np.sin(40 * u), [], (1 - np.cos(40)) / 40),
    "breaks outside are ignored": (lambda u: u, [-1.0, 0.0, 0.5, 1.0, 2.0], 0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_closed_forms(name: str) -> None:
    f, breaks, truth = CASES[name]
    value, error = integrate(lambda u: f(u)[None], np.array(breaks), tolerance=1e-10)
    assert value.shape == (1,)
    assert abs(value[0] - truth) <= 1e-10
    # where the integrand itself is infinite the last halving gains little, and the estimate is short by up to a half
    assert abs(value[0] - truth) <= (2 if name == "infinite end" else 1) * error + 1e-14 * max(1, abs(truth))


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("name", ["kink", "singular end", "infinite end", "waves", "jump nobody told"])
def test_the_error_estimate_is_honest_at_every_tolerance(name: str, tolerance: float) -> None:
    f, breaks, truth = CASES[name]
    value, error = integrate(lambda u: f(u)[None], np.array(breaks), tolerance=tolerance)
    assert abs(value[0] - truth) <= max(2 * error, tolerance)


def test_vector_valued() -> None:
    value, error = integrate(lambda u: np.stack([u, abs(u - 0.4), np.ones_like(u)]), NONE, tolerance=1e-12)
    np.testing.assert_allclose(value, [0.5, (0.16 + 0.36) / 2, 1.0], rtol=0, atol=1e-12)
    assert error <= 1e-11


def test_an_exhausted_budget_says_so() -> None:
    def rough(u: Floats) -> Floats:
        return np.sign(np.sin(1000 * u))[None]

    spent: list[int] = []

    def counted(u: Floats) -> Floats:
        spent.append(u.size)
        return rough(u)

    truth = integrate(rough, np.arange(1, 400) * np.pi / 1000, tolerance=1e-12)
    short = integrate(counted, NONE, tolerance=1e-12, budget=500)
    assert truth.error < 1e-12
    assert short.error > 1e-3
    assert abs(short.value[0] - truth.value[0]) <= short.error
    assert sum(spent) <= 2_000


def test_rounding_is_not_chased() -> None:
    """A large constant carries rounding far above the tolerance; halving panels cannot remove it."""
    spent: list[int] = []

    def offset(u: Floats) -> Floats:
        spent.append(u.size)
        return (1e9 + u)[None]

    value, error = integrate(offset, NONE, tolerance=1e-12)
    assert abs(value[0] - 1e9 - 0.5) < 1e-6 and error < 1e-6
    assert sum(spent) < 1_000


def test_a_zero_function_with_the_least_tolerance_ends() -> None:
    value, error = integrate(lambda u: np.zeros((2, len(u))), NONE, tolerance=0.0)
    assert np.array_equal(value, [0, 0]) and error == 0


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6, unique=True),
    st.lists(st.floats(-5, 5), min_size=7, max_size=7),
)
def test_steps_at_breaks_are_exact(at: list[float], heights: list[float]) -> None:
    cuts = np.sort(at)
    h = np.array(heights)
    value, _ = integrate(lambda u: h[np.searchsorted(cuts, u, side="right")][None], cuts, tolerance=1e-12)
    truth = np.diff(np.concatenate([[0.0], cuts, [1.0]])) @ h[: len(cuts) + 1]
    assert abs(value[0] - truth) <= 1e-13 * 40
