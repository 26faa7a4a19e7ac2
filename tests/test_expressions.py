"""The expression language: what it means (against numpy), and what it refuses, with the place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater import ExpressionError, HeadwaterError
from headwater.expressions import CONSTANTS, FUNCTIONS, MAX_LENGTH, MAX_OPERATIONS, check_name, parse

X = np.array([-2.5, -1.0, -0.3, 0.0, 0.2, 0.5, 1.0, 1.7, 40.0])
Y = np.array([1.0, -1.0, 2.0, 0.0, 0.2, 3.0, -0.7, 1.7, 2.0])
Reference = Callable[[Any, Any], Any]

MEANINGS: list[tuple[str, Reference]] = [
    ("x + y", lambda x, y: x + y),
    ("x - y", lambda x, y: x - y),
    ("x * y", lambda x, y: x * y),
    ("x / y", lambda x, y: x / y),
    ("x ** y", lambda x, y: x**y),
    ("+x", lambda x, y: +x),
    ("-x", lambda x, y: -x),
    ("exp(x)", lambda x, y: np.exp(x)),
    ("log(x)", lambda x, y: np.log(x)),
    ("sqrt(x)", lambda x, y: np.sqrt(x)),
    ("abs(x)", lambda x, y: np.abs(x)),
    ("sin(x)", lambda x, y: np.sin(x)),
    ("cos(x)", lambda x, y: np.cos(x)),
    ("tanh(x)", lambda x, y: np.tanh(x)),
    ("floor(x)", lambda x, y: np.floor(x)),
    ("min(x, y)", lambda x, y: np.minimum(x, y)),
    ("max(x, y)", lambda x, y: np.maximum(x, y)),
    ("min(x, y, 0.1, x*y)", lambda x, y: np.minimum.reduce([x, y, 0.1 + 0 * x, x * y])),
    ("max(x, y, 0.1, x*y)", lambda x, y: np.maximum.reduce([x, y, 0.1 + 0 * x, x * y])),
    ("where(x < y, x, 7)", lambda x, y: np.where(x < y, x, 7)),
    ("where(x, 1, 2)", lambda x, y: np.where(x != 0, 1, 2)),
    ("where(x > 0, log(x), 0)", lambda x, y: np.where(x > 0, np.log(x), 0)),
    ("x < y", lambda x, y: x < y),
    ("x <= y", lambda x, y: x <= y),
    ("x > y", lambda x, y: x > y),
    ("x >= y", lambda x, y: x >= y),
    ("x == y", lambda x, y: x == y),
    ("x != y", lambda x, y: x != y),
    ("0 < x < 1", lambda x, y: (x > 0) & (x < 1)),
    ("x < y < 2 != x", lambda x, y: (x < y) & (y < 2) & (x != 2)),
    ("pi * x + e", lambda x, y: math.pi * x + math.e),
    ("1 + 2*x", lambda x, y: 1 + 2 * x),
    ("(1 + 2)*x", lambda x, y: 3 * x),
    ("x - y - 1", lambda x, y: (x - y) - 1),
    ("x / y / 2", lambda x, y: (x / y) / 2),
    ("x / (y / 2)", lambda x, y: x / (y / 2)),
    ("2**3**2 * x", lambda x, y: 512.0 * x),
    ("-x**2", lambda x, y: -(x**2)),
    ("(-x)**2", lambda x, y: x**2),
    ("x**-1", lambda x, y: x**-1.0),
    ("2**-x", lambda x, y: 2.0**-x),
    ("--x", lambda x, y: x),
    ("-+-x", lambda x, y: x),
    ("x + y < 1", lambda x, y: x + y < 1),
    ("-(x < y)", lambda x, y: -1.0 * (x < y)),
    ("\t x   +\t1 ", lambda x, y: x + 1),
    ("1e3*x + .5 + 1. + 1E-2 + 0x10 + 1_000", lambda x, y: 1e3 * x + 0.5 + 1 + 0.01 + 16 + 1000),
    ("3", lambda x, y: 3 + 0 * x),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_means_what_numpy_means(text: str, meaning: Reference) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(meaning(X, Y), dtype=float)
    got = parse(text, ["x", "y"])(X, Y)
    assert got.dtype == np.float64 and got.shape == X.shape
    np.testing.assert_allclose(got, expected, rtol=1e-14, atol=0)


def test_every_function_and_constant_has_a_meaning_above() -> None:
    texts = " ".join(text for text, _ in MEANINGS)
    assert all(f"{name}(" in texts for name in FUNCTIONS)
    assert set(CONSTANTS) == {"pi", "e"}


def test_broadcasts_and_never_returns_its_argument() -> None:
    f = parse("x", ["x", "y"])
    x = np.array([1.0, 2.0])
    out = f(x, np.zeros((3, 1)))
    assert out.shape == (3, 2)
    out[:] = 9
    assert x.tolist() == [1, 2]
    assert parse("1", ["x"])(np.array(3.0)).shape == ()


def test_scalars_integers_and_the_empty_array() -> None:
    f = parse("x**2 + 1", ["x"])
    assert f(np.array([], dtype=float)).shape == (0,)
    assert f(np.array([3])).tolist() == [10.0]  # integers are numbers too
    assert float(parse("x**-1", ["x"])(np.array(2))) == 0.5


def test_equal_parts_are_one_operation() -> None:
    f = parse("(x - .5)*(x - .5)", ["x"])
    assert f.tape[-1].code == "mul" and f.tape[-1].args[0] == f.tape[-1].args[1]
    assert len(f.tape) == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*3 + 4", 10.0),
        ("-2**2", -4.0),
        ("max(1, 2, 3)", 3.0),
        ("where(1 < 2, 5, 6)", 5.0),
        ("exp(0) + sqrt(4) - floor(1.5)", 2.0),
        ("(1 < 2) + (2 < 1)", 1.0),
        ("pi - pi", 0.0),
        ("3*1", 3.0),  # the result equals the first operand: the second is not the answer
        ("5 - 0", 5.0),
        ("min(1, 2)", 1.0),
        ("0*x*0 + 0", 0.0),
    ],
)
def test_constants_are_folded(text: str, value: float) -> None:
    f = parse(text, ["x"])
    if "x" not in text.replace("exp", "").replace("max", ""):
        assert f.tape[-1].code == "const" and f.tape[-1].value == value
        assert f.linear is not None and f.linear[1] == value
        assert f.scope() == frozenset()
    assert f(X).tolist() == [value] * len(X)


def test_scope_names_the_variables_that_matter() -> None:
    f = parse("a + 2*c", ["a", "b", "c"])
    assert f.scope() == {0, 2}


REFUSALS: list[tuple[str, int, str]] = [
    ("", 1, "does not read as an expression"),
    ("   ", 4, "does not read as an expression"),
    ("x +", 4, "does not read as an expression"),
    ("1 2", 1, "does not read as an expression"),
    ("x.real", 1, "an attribute"),
    ("1 + x.__class__", 5, "an attribute"),
    ("(1).__class__", 1, "an attribute"),
    ("__import__(x)", 1, "__import__ is not a function here"),
    ("1 + __builtins__", 5, "unknown name '__builtins__'"),
    ("x__", 1, "unknown name 'x__'"),
    ("x[0]", 2, "'[' is not part"),
    ("lambda: x", 7, "':' is not part"),
    ("lambda x", 9, "does not read"),
    ("(y := x)", 4, "':' is not part"),
    ("[x for x in y]", 1, "'[' is not part"),
    ("max(x for x in y)", 1, "takes two or more arguments"),
    ('"text"', 1, "is not part"),
    ("'text'", 1, "is not part"),
    ('f"{x}"', 2, "is not part"),
    ("x and y", 1, "'and' / 'or' (write a product of comparisons, or nested where) is not part"),
    ("1 + (x or y)", 6, "'and' / 'or'"),
    ("not x", 1, "this is not part"),
    ("x if y else 1", 1, "'if … else' is not part"),
    ("x in y", 1, "'in' and 'is' are not part"),
    ("x is y", 1, "'in' and 'is' are not part"),
    ("x is not y", 1, "'in' and 'is' are not part"),
    ("x not in y", 1, "'in' and 'is' are not part"),
    ("x // y", 1, "the operator FloorDiv is not part"),
    ("2 + x // y", 5, "the operator FloorDiv is not part"),
    ("x % y", 3, "'%' is not part"),
    ("x @ y", 3, "'@' is not part"),
    ("x << y", 1, "the operator LShift is not part"),
    ("x | y", 3, "'|' is not part"),
    ("x & y", 3, "'&' is not part"),
    ("x ^ y", 3, "'^' is not part"),
    ("~x", 1, "'~' is not part"),
    ("x; y", 2, "';' is not part"),
    ("x # note", 3, "'#' is not part"),
    ("x\n+ y", 2, "'\\n' is not part"),
    ("x \\\n+ y", 3, "is not part"),
    ("x\x00", 2, "is not part"),
    ("x\r", 2, "is not part"),
    ("x\f", 2, "is not part"),
    ("ｘ + 1", 1, "'ｘ' is not part"),  # a full-width x, which Python would read as x
    ("x − 1", 3, "'−' is not part"),  # a minus sign that is not one
    ("х + 1", 1, "is not part"),  # a Cyrillic letter
    ("x²", 2, "'²' is not part"),
    ("True", 1, "True is not part of the expression language; write 1 or 0"),
    ("x + None", 5, "None is not part"),
    ("...", 1, "this is not part"),
    ("2j*x", 1, "this is not part"),
    ("x, y", 1, "a comma outside a function's parentheses is not part"),
    ("()", 1, "a comma outside"),
    ("*x", 1, "does not read"),
    ("x = 1", 1, "does not read"),
    ("x < = 1", 5, "does not read"),
    ("min(x)", 1, "min takes two or more arguments, got 1"),
    ("1 + max()", 5, "max takes two or more arguments, got 0"),
    ("exp()", 1, "exp takes one argument, got 0"),
    ("exp(x, y)", 1, "exp takes one argument, got 2"),
    ("where(x, y)", 1, "where takes three arguments (condition, value if true, value if false), got 2"),
    ("exp(x=1)", 1, "exp takes plain arguments only"),
    ("max(x, key=y)", 1, "max takes plain arguments only"),
    ("min(*x)", 1, "min takes plain arguments only"),
    ("max(**x)", 1, "max takes plain arguments only"),
    ("exp(x)(y)", 1, "this is not a function here"),
    ("x(y)", 1, "x is not a function here; expected one of exp, log"),
    ("x.exp(y)", 1, "this is not a function here"),
    ("eval(x)", 1, "eval is not a function here"),
    ("(exp)", 2, "exp is a function: write exp(…)"),
    ("1 + z", 5, "unknown name 'z'; expected one of x, y, pi, e"),
    ("9**9**9", 1, "has no finite value"),
    ("x + 9**9**9", 5, "has no finite value"),
    ("1/0", 1, "has no finite value"),
    ("x*log(-1)", 3, "has no finite value (nan)"),
    ("0**-1", 1, "has no finite value"),
    ("1e999", 1, "this number is too large"),
    ("1" + "0" * 400, 1, "this number is too large"),
    ("10**400", 1, "has no finite value"),
    ("0777", 1, "does not read"),
    ("  x + z", 7, "unknown name 'z'"),  # counted in what was written, leading blanks included
    ("(yield)", 2, "this is not part"),
    ("await x", 1, "this is not part"),
    ("print x", 1, "does not read"),
]


@pytest.mark.parametrize(("text", "position", "message"), REFUSALS, ids=[repr(text[:20]) for text, _, _ in REFUSALS])
def test_refuses_with_the_position(text: str, position: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, ["x", "y"])
    assert message in str(caught.value)
    if "does not read" in message:  # the place is the Python parser's, and moves a little between its versions
        assert 1 <= caught.value.position <= len(text) + 1
    else:
        assert caught.value.position == position
    assert str(caught.value).endswith(f"(at character {caught.value.position})")


def test_overlong_text() -> None:
    fits = "x + " * 499 + "1+1"
    assert len(fits) == MAX_LENGTH - 1
    assert parse(fits, ["x"])(np.array(1.0)) == 501
    with pytest.raises(
        ExpressionError, match=r"the expression has 2001 characters; at most 2000 are read \(at character 2001\)"
    ):
        parse("x" * 2001, ["x"])
    with pytest.raises(ExpressionError, match="1000000 characters"):
        parse("(" * 1_000_000, ["x"])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "x" + ")" * 5000,
        "(" * 990 + "x" + ")" * 990,
        "(" * 150 + "x" + ")" * 150 + "(",
        "-" * 5000 + "x",
        "-" * 1999 + "x",
        "x**" * 600 + "x",
        "exp(" * 300 + "x" + ")" * 300,
        "-(" * 80 + "x" + ")" * 80,
        "where(x," * 100 + "x" + ",x)" * 100,
        "(" * 1999,
        "x<" * 999,
    ],
    ids=lambda text: f"{text[:6]}…{len(text)}",
)
def test_deep_nesting_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"characters; at most|nested|does not read"):
        parse(text, ["x"])


def test_a_long_sum_is_not_deep() -> None:
    names = [f"x{i}" for i in range(250)]
    f = parse(" + ".join(names), names)
    assert f.linear is not None and f.linear[0].tolist() == [1.0] * 250
    assert len(f.terms()) == 250
    with pytest.raises(ExpressionError, match="nested more than 60 deep"):
        parse("exp(" * 61 + "x" + ")" * 61, ["x"])
    assert parse("abs(" * 60 + "x" + ")" * 60, ["x"])(np.array(-1.0)) == 1


def test_too_many_operations() -> None:
    # (x+1)*2+1)*… stays short in text only when each step is new: 2 characters an operation
    text = "x" + "*x" * 999
    assert len(text) <= MAX_LENGTH and len(parse(text, ["x"]).tape) == MAX_OPERATIONS
    assert "more than 1000 operations" in _refusal("x" + "*x" * 999 + "-", ["x"], last="1")


def _refusal(text: str, names: list[str], last: str) -> str:
    import headwater.expressions as language

    limit, language.MAX_LENGTH = language.MAX_LENGTH, 10_000
    try:
        with pytest.raises(ExpressionError) as caught:
            parse(text + last, names)
    finally:
        language.MAX_LENGTH = limit
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x", None),
        ("x1", None),
        ("snr_db", None),
        ("X", None),
        ("_x", "expected a letter"),
        ("1x", "expected a letter"),
        ("a__b", "expected a letter"),
        ("a b", "expected a letter"),
        ("x\n", "expected a letter"),
        ("é", "expected a letter"),
        ("", "expected a letter"),
        ("a" * 101, "expected a letter"),
        ("exp", "function or constant"),
        ("where", "function or constant"),
        ("pi", "function or constant"),
        ("e", "function or constant"),
        ("lambda", "reserved"),
        ("in", "reserved"),
        ("True", "reserved"),
        ("None", "reserved"),
    ],
)
def test_names_of_variables(name: str, why: str | None) -> None:
    got = check_name(name)
    assert got is None if why is None else got is not None and why in got
    if why is None:
        assert parse(f"2*{name}", [name])(np.array(1.0)) == 2


# linear and additive structure: whatever is claimed must evaluate to the same

smooth = st.sampled_from(["x", "y", "z", "1", "2", "0.5", "3", "x", "y"])


def _affine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    other = st.tuples(st.sampled_from(["abs", "sin", "exp", "-"]), inner).map(lambda t: f"{t[0]}({t[1]})")
    return st.one_of(pair, pair, pair, other)


atoms = st.sampled_from(["x", "y", "x", "0", "1", "2", "0.5", "3", "pi", "e", "1.5"])


def _any(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "**", "<", "<=", ">", ">=", "==", "!="])
    functions = st.sampled_from(["exp", "log", "sqrt", "abs", "sin", "cos", "tanh", "floor", "-", "+"])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, operators, inner, operators, inner).map(lambda t: f"({' '.join(t)})"),  # precedence and chains
        st.tuples(functions, inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(st.sampled_from(["min", "max", "where"]), inner, inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]}, {t[3]})"
        ),
    )


expression_texts = st.recursive(atoms, _any, max_leaves=8)
combinations = st.recursive(smooth, _affine, max_leaves=10)
VALUES = np.random.default_rng(5).uniform(0.5, 2.0, (3, 12))


@settings(max_examples=600)
@given(combinations)
def test_linear_and_terms_evaluate_to_the_same(text: str) -> None:
    try:
        f = parse(text, ["x", "y", "z"])
    except ExpressionError as error:
        assert "has no finite value" in str(error)
        return
    value = f(*VALUES)
    assume(bool(np.isfinite(value).all()))
    parts = [factor * np.broadcast_to(f.run(i, tuple(VALUES)), value.shape) for factor, i in f.terms()]
    scale = 1 + np.max(np.abs(parts), axis=0) + abs(value)
    assume(bool(np.isfinite(scale).all()))
    np.testing.assert_allclose(np.sum(parts, axis=0) / scale, value / scale, atol=1e-12)
    if f.linear is not None:
        coefficients, constant = f.linear
        scale = 1 + np.abs(coefficients).sum() * 2 + abs(constant) + abs(value)
        np.testing.assert_allclose((coefficients @ VALUES + constant) / scale, value / scale, atol=1e-12)


def test_factors_of_terms_stay_finite() -> None:
    for text in ("1e200*(1e200*(1e-300*x))", "((1e-300*x)/1e-200)/1e-200", "(x*1e-300)*1e200*1e200"):
        f = parse(text, ["x"])
        x = np.array([0.0, 1.0, 2.0])
        parts = [factor * f.run(i, (x,)) for factor, i in f.terms()]
        np.testing.assert_allclose(np.sum(parts, axis=0), f(x), rtol=1e-12)


# against Python itself, on numbers


def python(text: str, x: float, y: float) -> float | None:
    """What Python makes of the same text; ``None`` where it has no finite real value somewhere."""
    language = {name: getattr(math, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "pi", "e")}
    more = {"abs": abs, "min": min, "max": max, "where": lambda c, a, b: a if c else b, "x": x, "y": y}
    try:
        value = eval(text, {"__builtins__": {}}, language | more)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


@settings(max_examples=1500)
@given(expression_texts, st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.5, 0.3]), st.sampled_from([0.0, 1.0, -2.0, 0.7]))
def test_agrees_with_python(text: str, x: float, y: float) -> None:
    expected = python(text, x, y)
    if expected is None:
        return
    try:
        f = parse(text, ["x", "y"])
    except ExpressionError as error:  # Python is lazy: where(1, 2, 1/x) is fine there, 1/0 anywhere is not here
        assert "has no finite value" in str(error)
        return
    got = f(np.array([x, x]), np.array(y))
    np.testing.assert_allclose(got, [expected, expected], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "coefficients", "constant"),
    [
        ("x", [1, 0], 0),
        ("3", [0, 0], 3),
        ("2*(x - 3*y)/4 + 1", [0.5, -1.5], 1),
        ("x*2*3", [6, 0], 0),
        ("x - x", [0, 0], 0),
        ("-x", [-1, 0], 0),
        ("(x - x + 2)*y", [0, 2], 0),
        ("y/(x - x + 2)", [0, 0.5], 0),
    ],
)
def test_linear(text: str, coefficients: list[float], constant: float) -> None:
    got = parse(text, ["x", "y"]).linear
    assert got is not None and got[0].tolist() == coefficients and got[1] == constant


@pytest.mark.parametrize(
    "text", ["x*y", "x*x", "1/x", "x**1", "abs(x)", "min(x, y)", "x/(y - y)", "1e308*(10*x)", "(1e308*(10*x))*0", "x < y"]
)
def test_not_linear(text: str) -> None:
    assert parse(text, ["x", "y"]).linear is None


@settings(max_examples=1500)
@given(st.text(alphabet="xye0123456789.+-*/(),<>=! \t_absincoqrtmwhflp", max_size=40))
def test_any_text_is_read_or_refused_with_a_position_in_it(text: str) -> None:
    try:
        value = parse(text, ["x", "y"])(X, Y)
    except ExpressionError as error:
        assert 1 <= error.position <= len(text) + 1
        assert isinstance(error, HeadwaterError)
    else:
        assert value.shape == X.shape
