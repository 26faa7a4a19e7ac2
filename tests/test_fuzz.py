"""Mangled input: only headwater's own errors may come out, with words in them; no traceback, no warning, no hang."""

from __future__ import annotations

import json
import math
import tomllib
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater import ExpressionError, HeadwaterError, Problem, ProblemError
from headwater.expressions import FUNCTIONS, parse
from headwater.files import build_problem, parse_problem
from headwater.starters import STARTERS

MORE = {
    "random": STARTERS["discrete"].replace("# [arms", "[arms").replace("# outcomes", "outcomes").replace("# prob", "prob"),
    "sample": STARTERS["continuous"]
    .replace("distribution = {", "# distribution = {", 1)
    .replace("# distribution = { sample", "distribution = { sample"),
    "half open": STARTERS["continuous"].replace("[0, 1]", "[0, inf]"),
    "grid": STARTERS["vector"].replace("{ low = 0, high = 1 }", "[0, 1]").replace('{ name = "uniform" }', "[0.5, 0.5]"),
}
TEXTS = [*STARTERS.values(), *MORE.values()]

words = ["[", "]", "{", "}", "=", ",", '"', "'", "#", "\n", "-", ".", "0", "9", "inf", "nan", "true", "e", "x", " ", "\\", "\0"]
words += [
    "[arms]",
    "[latent]",
    "[[arms]]",
    "1979-05-27",
    '"""',
    "1e999",
    "-1",
    "kind",
    "=[",
    "\u00e9",
    "\u200b",
    "_",
    "0x",
    "**",
]
edits = st.tuples(
    st.sampled_from(["delete", "insert", "replace", "duplicate", "drop line", "double line", "swap lines", "cut"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 12),
    st.sampled_from(words),
)


def mangle(text: str, edit: tuple[str, float, int, str]) -> str:
    how, where, length, word = edit
    at = int(where * (len(text) + 1))
    lines = text.split("\n")
    row = int(where * len(lines))
    match how:
        case "delete":
            return text[:at] + text[at + length :]
        case "insert":
            return text[:at] + word + text[at:]
        case "replace":
            return text[:at] + word + text[at + length :]
        case "duplicate":
            return text[: at + length] + text[at:]
        case "drop line":
            return "\n".join(lines[:row] + lines[row + 1 :])
        case "double line":
            return "\n".join(lines[: row + 1] + lines[row:])
        case "swap lines":
            other = (row + length) % len(lines)
            lines[row], lines[other] = lines[other], lines[row]
            return "\n".join(lines)
        case _:
            return text[:at]


def check_refusal(error: HeadwaterError) -> None:
    assert isinstance(error, ProblemError)
    assert error.complaints and all(line.strip() for line in error.complaints)
    assert all(len(line) < 2_500 for line in error.complaints)


def check_problem(problem: Problem) -> None:
    """What was taken is a problem through and through."""
    assert len(problem.arms) >= 2
    assert len(problem.digest) == 64
    assert parse_problem(problem.to_toml()) == problem
    if problem.distribution is None or problem.latent.kind != "discrete":
        return
    assert np.isfinite(problem.rewards).all()
    assert math.isclose(math.fsum(problem.distribution.spec(problem.latent)["probabilities"]), 1, abs_tol=1e-12)


@settings(max_examples=1500)
@given(st.sampled_from(TEXTS), st.lists(edits, min_size=1, max_size=4))
def test_mangled_toml(text: str, changes: list[tuple[str, float, int, str]]) -> None:
    for edit in changes:
        text = mangle(text, edit)
    try:
        problem = parse_problem(text)
    except HeadwaterError as error:
        check_refusal(error)
    else:
        check_problem(problem)


@settings(max_examples=500)
@given(st.sampled_from(TEXTS), st.lists(edits, min_size=1, max_size=3))
def test_mangled_json(text: str, changes: list[tuple[str, float, int, str]]) -> None:
    text = json.dumps(tomllib.loads(text))
    for edit in changes:
        text = mangle(text, edit)
    try:
        parse_problem(text, json_text=True)
    except HeadwaterError as error:
        check_refusal(error)


# one or two values of a good problem exchanged for something else

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.sampled_from([0, 1, -1, 1e308, -1e308, 1e-320, 1e60, math.inf, math.nan]),
    st.text(max_size=6),
    st.sampled_from(
        ["x", "x1", "1/x", "inf", "log(x)", "x**x", "exp(exp(x))", "uniform", "norm", "discrete", "vector", "sample"]
    ),
    st.lists(st.one_of(st.floats(), st.integers(-2, 2), st.none(), st.text(max_size=2)), max_size=4),
    st.dictionaries(st.sampled_from(["low", "high", "x", "x1", "name", "sample", "weights"]), st.floats(), max_size=3),
    st.just(np.datetime64("2020-01-01")),
    st.just(b"bytes"),
    st.just(np.array(2.0)),
    st.just(np.array([[1.0, 2.0], [3.0, np.nan]])),
    st.just({1, 2}),
    st.just({(1, 2): 3}),
    st.just(1j),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def put(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    try:
        inner = put(data[path[0]], path[1:], value)
    except (KeyError, IndexError, TypeError):  # an earlier change took this place away
        return data
    if isinstance(data, dict):
        return data | {path[0]: inner}
    return [*data[: path[0]], inner, *data[path[0] + 1 :]] if isinstance(data, list) else data


@settings(max_examples=1500)
@given(st.sampled_from(TEXTS), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), junk), min_size=1, max_size=2))
def test_values_of_the_wrong_type(text: str, changes: list[tuple[float, Any]]) -> None:
    data: Any = tomllib.loads(text)
    spots = places(data)
    for where, value in changes:
        data = put(data, spots[int(where * len(spots))], value)
    try:
        problem = build_problem(data)
    except HeadwaterError as error:
        check_refusal(error)
    else:
        check_problem(problem)


keys = st.sampled_from(
    [
        "latent",
        "arms",
        "name",
        "kind",
        "values",
        "support",
        "components",
        "probabilities",
        "distribution",
        "a",
        "x",
        "low",
        "high",
    ]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from(["discrete", "continuous", "vector", "x", "1 - x", "inf", "beta", "uniform", ""]),
)
nested = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)), max_leaves=20
)
frames = st.fixed_dictionaries(
    {
        "latent": st.one_of(
            nested,
            st.fixed_dictionaries({"kind": st.just("discrete"), "values": nested}, optional={"probabilities": nested}),
            st.fixed_dictionaries({"kind": st.just("continuous"), "support": nested}, optional={"distribution": nested}),
            st.fixed_dictionaries(
                {"kind": st.just("vector"), "components": nested}, optional={"probabilities": nested, "distribution": nested}
            ),
        ),
        "arms": nested,
    },
    optional={"reward_range": nested, "name": nested},
)


@settings(max_examples=500)
@given(st.one_of(nested, frames))
def test_random_data(data: Any) -> None:
    try:
        problem = build_problem(data)
    except HeadwaterError as error:
        check_refusal(error)
    else:
        check_problem(problem)


pieces = [
    *FUNCTIONS,
    "x",
    "y",
    "(",
    ")",
    "(",
    ")",
    ",",
    "+",
    "-",
    "*",
    "/",
    "**",
    "<",
    "<=",
    "==",
    "!=",
    "=",
    ".",
    "1",
    "0",
    "2.5",
]
pieces += [
    "1e300",
    "1e-300",
    "9",
    " ",
    "__",
    "lambda",
    "and",
    "or",
    "not",
    "in",
    "is",
    "if",
    "else",
    "for",
    "[",
    "]",
    "'",
    "\\",
]
pieces += [
    "\n",
    "\t",
    "ｘ",
    "²",
    "True",
    "None",
    "...",
    "1j",
    "//",
    "%",
    "@",
    ":=",
    "await",
    "yield",
    "f''",
    "#",
    "\ud800",
    "_",
    "e",
]


@settings(max_examples=1500)
@given(st.one_of(st.lists(st.sampled_from(pieces), max_size=25).map("".join), st.text(max_size=60)))
@example("x" * 2000)
@example("-" * 2000)
@example("(" * 2000)
@example("9**" * 600 + "9")
@example("0x" + "f" * 1990)
@example("1" * 2000)
@example("not " * 490 + "x")
@example("x if x else " * 160 + "x")
@example("min(" * 490)
@example("x==" * 660 + "x")
@example("1e-999999999999")
@example("2**-1e308")
@example("x**1e308**1e308")
def test_random_expressions(text: str) -> None:
    x = np.array([-1.0, 0.0, 0.5, 2.0])
    try:
        f = parse(text, ["x", "y"])
    except ExpressionError as error:
        assert 1 <= error.position <= len(text) + 1
        return
    assert f(x, x).shape == (4,)
    assert f.linear is None or all(np.isfinite(part).all() for part in f.linear)
    assert f.terms()
