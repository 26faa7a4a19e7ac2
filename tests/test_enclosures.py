"""Enclosures: every value and every slope that can be sampled lies within the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.arrays import Floats
from headwater.enclosures import Enclosure, enclose
from headwater.expressions import Expression, parse

NAMES = ("x", "y")
BOXES = 24
SAMPLES = 16
EVALUATION = 1e-13
"""Slack for the rounding of the evaluation itself, relative."""

leaves = st.sampled_from(["x", "y", "x", "y", "0", "1", "2", "0.5", "3", "pi", "e", "0.1", "1.5", "1e-3", "7"])


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    power = st.tuples(inner, st.sampled_from(["2", "3", "4", "0", "1", "0.5", "1.5", "(-1)", "(-2)", "(-0.5)", "x", "y"]))
    call = st.tuples(st.sampled_from(["exp", "log", "sqrt", "abs", "sin", "cos", "tanh", "floor"]), inner)
    extreme = st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})")
    test = st.tuples(inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    where = st.tuples(test, inner, inner).map(lambda t: f"where({t[0]}, {t[1]}, {t[2]})")
    return st.one_of(
        binary,
        power.map(lambda t: f"({t[0]})**{t[1]}"),
        call.map(lambda t: f"{t[0]}({t[1]})"),
        extreme,
        where,
        test,
        inner.map(lambda a: f"-({a})"),
        inner.map(lambda a: f"({a})*({a})"),
    )


def _deep(levels: int) -> st.SearchStrategy[str]:
    return leaves if levels == 0 else st.one_of(_compound(_deep(levels - 1)), leaves)


texts = _compound(_deep(3))


def _read(text: str) -> Expression:
    """Constant parts with no finite value are refused by the parser: such a text says nothing about enclosures."""
    from headwater import ExpressionError

    try:
        return parse(text, NAMES)
    except ExpressionError as error:
        assert "has no finite value" in str(error)
        return parse("x", NAMES)


def boxes(seed: int) -> tuple[Floats, Floats]:
    """Boxes of every temper, shape (2, BOXES): wide and narrow, with round ends, touching zero, single points."""
    rng = np.random.default_rng(seed)
    centre = rng.choice([0.0, 0.5, 1.0, -1.0, 2.0, 10.0], (2, BOXES)) + rng.normal(size=(2, BOXES)) * rng.choice(
        [0, 1], (2, BOXES)
    )
    width = 10.0 ** rng.uniform(-9, 1.2, (2, BOXES)) * rng.choice([0, 1, 1, 1], (2, BOXES))
    lo, hi = centre - width / 2, centre + width / 2
    lo = np.where(rng.random((2, BOXES)) < 0.2, 0.0, lo)
    round_ends = rng.random((2, BOXES)) < 0.2
    lo, hi = np.where(round_ends, np.floor(lo), lo), np.where(round_ends, np.ceil(hi), hi)
    return np.minimum(lo, hi), np.maximum(lo, hi)


def points(lo: Floats, hi: Floats, seed: int) -> Floats:
    """Corners and points inside, shape (d, SAMPLES, BOXES)."""
    u = np.random.default_rng(seed).random((len(lo), SAMPLES, lo.shape[1]))
    u[:, 0], u[:, 1], u[0, 2], u[1:, 2], u[0, 3], u[1:, 3] = 0.0, 1.0, 0.0, 1.0, 1.0, 0.0
    return np.clip(lo[:, None] + u * (hi - lo)[:, None], lo[:, None], hi[:, None])


def largest_part(expression: Expression, x: Floats) -> Floats:
    """The largest magnitude any operation of the tape takes at each point; NaN counts as infinite."""
    size = np.zeros(x.shape[1:])
    for i in range(len(expression.tape)):
        part = np.broadcast_to(expression.run(i, tuple(x)), size.shape)
        size = np.maximum(size, np.where(np.isnan(part), np.inf, abs(part)))
    return size


def check_values(expression: Expression, e: Enclosure, x: Floats) -> None:
    values = expression(*x)
    size = largest_part(expression, x)
    sure = e.defined & np.isfinite(size)
    assert np.isfinite(values[np.broadcast_to(sure, values.shape)]).all()
    slack = EVALUATION * np.where(sure, abs(values), 0.0)
    outside = sure & ((values < e.lo - slack) | (values > e.hi + slack))
    assert not outside.any(), (expression.text, values[outside][0], np.argwhere(outside)[0])


def check_slopes(expression: Expression, e: Enclosure, x: Floats) -> None:
    """f(q) - f(p) lies in the sum of slope interval × step, one component after the other."""
    values = expression(*x)
    size = largest_part(expression, x)
    p, q = x[:, :-1], x[:, 1:]
    with np.errstate(all="ignore"):
        change = values[1:] - values[:-1]
        ends = np.stack([e.dlo[:, None] * (q - p), e.dhi[:, None] * (q - p)])
        ends = np.where(np.isnan(ends), 0.0, ends)  # an infinite slope over no step
        low, high = ends.min(axis=0).sum(axis=0), ends.max(axis=0).sum(axis=0)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    top = np.maximum(size[1:], size[:-1])
    sure = e.defined & (top < 1e5)
    # rounding of the inner operations reaches the result multiplied by the slopes on its way
    slack = 1e-10 * np.where(sure, 1 + top, 0.0)
    outside = sure & ~((change >= low - slack) & (change <= high + slack))
    assert not outside.any(), (expression.text, change[outside][0], low[outside][0], high[outside][0])


@settings(max_examples=700)
@given(texts, st.integers(0, 2**32 - 1))
def test_values_and_slopes_lie_within_the_bounds(text: str, seed: int) -> None:
    expression = _read(text)
    lo, hi = boxes(seed)
    e = enclose(expression, lo, hi)
    assert e.lo.shape == e.hi.shape == e.defined.shape == (BOXES,)
    assert e.dlo.shape == e.dhi.shape == (2, BOXES)
    assert not any(np.isnan(part).any() for part in e)
    assert (e.lo[e.defined] <= e.hi[e.defined]).all()
    x = points(lo, hi, seed)
    check_values(expression, e, x)
    check_slopes(expression, e, x)


@settings(max_examples=150)
@given(texts, st.integers(0, 2**32 - 1))
def test_values_lie_within_the_bounds_on_boxes_that_reach_infinity(text: str, seed: int) -> None:
    expression = _read(text)
    lo, hi = boxes(seed)
    far = np.random.default_rng(seed).integers(0, 3, lo.shape)
    x = points(np.where(far == 1, lo - 50, lo), np.where(far == 2, hi + 50, hi), seed)
    e = enclose(expression, np.where(far == 1, -np.inf, lo), np.where(far == 2, np.inf, hi))
    assert not any(np.isnan(part).any() for part in e)
    check_values(expression, e, x)


@settings(max_examples=150)
@given(texts, st.integers(0, 2**32 - 1))
def test_a_box_alone_gets_the_bounds_it_gets_among_others(text: str, seed: int) -> None:
    """Shared shortcuts (an exponent that is the same everywhere, a test decided everywhere) may only tighten."""
    expression = _read(text)
    lo, hi = boxes(seed)
    lo, hi = lo[:, :6], hi[:, :6]
    together = enclose(expression, lo, hi)
    for i in range(6):
        alone = enclose(expression, lo[:, i : i + 1], hi[:, i : i + 1])
        assert alone.defined[0] == together.defined[i]
        x = points(lo[:, i : i + 1], hi[:, i : i + 1], seed)
        check_values(expression, alone, x)
        check_slopes(expression, alone, x)


def on(text: str, low: float, high: float) -> Enclosure:
    return enclose(parse(text, ["x"]), np.array([[low]]), np.array([[high]]))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("3", 0, 1),
        ("where(x < 0.5, 1, x)", 0, 0.4),
        ("where(x < 0.5, 1, 2) + 3", 0.6, 1),
        ("min(x, 0.3)", 0.4, 1),
        ("max(0, x)", -1, -0.5),
        ("max(0, x)*7 - 2", -1, 0),
        ("floor(x)", 0.2, 0.8),
        ("floor(x)**2 + exp(floor(x))", 1.1, 1.9),
        ("x < 2", 0, 1),
        ("x**0", -1, 1),
        ("where(0 < x < 1, 5, x)", 0.2, 0.8),
        ("-where(x >= 1, x, 4)/3", 0, 0.5),
        ("sqrt(where(x < 1, 4, x))", 0, 0.5),
        ("sin(max(x, 1))", 0, 1),
    ],
)
def test_flat_pieces_have_slope_exactly_zero(text: str, low: float, high: float) -> None:
    e = on(text, low, high)
    assert e.defined.all()
    assert (e.dlo == 0).all() and (e.dhi == 0).all()


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("where(x < 0.5, 1, 2)", 0, 1),
        ("where(x < 0.5, 1, 2)", 0.5, 0.6),  # the jump is at the left end: not decided there
        ("floor(x)", 0.5, 1),
        ("floor(x) + x", 0.5, 1.5),
        ("x <= 0.5", 0, 1),
        ("x == 0.5", 0, 1),
        ("x != 0.5", 0.5, 0.6),
        ("(0.2 < x < 0.4) * 3", 0, 1),
    ],
)
def test_jumps_have_every_slope(text: str, low: float, high: float) -> None:
    e = on(text, low, high)
    if text.startswith("where") and low == 0.5:
        assert e.dlo[0, 0] == e.dhi[0, 0] == 0  # x < 0.5 is false on all of [0.5, 0.6]
        return
    assert e.dlo[0, 0] == -math.inf and e.dhi[0, 0] == math.inf


@pytest.mark.parametrize(
    ("text", "low", "high", "defined"),
    [
        ("log(x)", 0, 1, False),
        ("log(x)", 1e-300, 1, True),
        ("sqrt(x)", 0, 1, True),
        ("sqrt(x)", -1e-300, 1, False),
        ("1/x", -1, 1, False),
        ("1/x", 0, 1, False),
        ("1/x", -2, -1, True),
        ("x**-1", -1, 1, False),
        ("x**-2", 0.5, 1, True),
        ("x**0.5", 0, 1, True),
        ("x**0.5", -1, 1, False),
        ("x**3", -1, 1, True),
        ("x**x", 0, 1, True),
        ("x**x", -1, 1, False),
        ("x**-0.5", 0, 1, False),
        ("where(x > 0, log(x), 0)", -2, -1, True),
        ("where(x > 0, log(x), 0)", 1, 2, True),
        ("where(log(x) > 0, 1, 0)", -2, -1, False),
        ("min(log(x), 1)", -2, -1, False),
        ("log(log(x))", 0.5, 0.9, False),
    ],
)
def test_where_a_value_may_not_exist(text: str, low: float, high: float, defined: bool) -> None:
    e = on(text, low, high)
    assert bool(e.defined[0]) is defined
    assert not any(np.isnan(part).any() for part in e)


@pytest.mark.parametrize(
    ("text", "low", "high", "least", "most"),
    [
        ("x*x", -1, 2, 0, 4),
        ("(x-.5)*(x-.5)", 0, 1, 0, 0.25),
        ("x**2", -3, 1, 0, 9),
        ("x**3", -2, 1, -8, 1),
        ("abs(x)", -3, 1, 0, 3),
        ("sin(x)", 0, 4, -0.7568024953079282, 1),
        ("cos(x)", -1, 1, 0.5403023058681398, 1),
        ("sin(x)", 100, 200, -1, 1),
        ("sin(x)", 1e300, 1e301, -1, 1),
        ("tanh(x)", -1000, 1000, -1, 1),
        ("exp(x)", -1e4, 0, 0, 1),
        ("exp(-x)", 0, math.inf, 0, 1),
        ("1/x", 2, math.inf, 0, 0.5),
        ("floor(x)", -0.5, 1.5, -1, 1),
        ("min(x, 1 - x)", 0, 1, 0, 1),  # each argument alone
        ("0.5**floor(exp(1000*x))", 0.9, 1, 0, 0),  # the exponent overflows; the value does not
    ],
)
def test_bounds_are_tight_where_interval_arithmetic_can_be(
    text: str, low: float, high: float, least: float, most: float
) -> None:
    e = on(text, low, high)
    assert e.defined.all()
    assert least - 1e-12 <= e.lo[0] <= least and most <= e.hi[0] <= most + 1e-12


def test_rising_is_proved_by_slopes() -> None:
    rising, falling = on("x**3 + x - exp(-x)", -1, 1), on("1 - tanh(x)", 0.1, 0.9)
    assert rising.dlo[0, 0] > 0 and falling.dhi[0, 0] < 0


def test_the_kink_of_abs_gives_both_slopes() -> None:
    e = on("abs(x - 0.5)", 0, 1)
    assert (e.dlo[0, 0], e.dhi[0, 0]) == pytest.approx((-1, 1), rel=1e-15)
    assert on("abs(x - 0.5)", 0.6, 1).dlo[0, 0] == pytest.approx(1, rel=1e-15)
    assert on("abs(x - 0.5)", 0, 0.4).dhi[0, 0] == pytest.approx(-1, rel=1e-15)


def test_a_huge_even_power_keeps_its_sign() -> None:
    e = on("x**9007199254740992", -1, 0.5)
    assert (e.lo[0] <= 0 and e.hi[0] >= 1) and not np.isnan(e.dlo).any()


def test_no_boxes_give_no_bounds() -> None:
    e = enclose(parse("x**2 + y", NAMES), np.empty((2, 0)), np.empty((2, 0)))
    assert e.lo.shape == (0,) and e.dlo.shape == (2, 0)
