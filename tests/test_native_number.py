"""The native core's numbers: packs against doubles in every build, and the elementary functions against 60 decimal digits."""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater import native
from headwater.arrays import Floats

SMOOTH = ("log", "log1p", "exp", "expm1", "normal_quantile", "log_gamma")
FUNCTIONS = (*SMOOTH, "sqrt", "floor", "absolute", "inverse", "look_ups", "wholes", "order")
BUILDS = native.builds()
SOURCES = Path(__file__).parents[1] / "native"
SPECIAL = [0.0, 1.0, 2.0, 0.5, math.inf, math.nan, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 709.7827128933841]
SPECIAL += [745.1332191019411, 745.1332191019412, 708.4, 708.0, 0.425, 2.0**52, 2.0**51 + 0.5, 4503599627370495.5, 1e300, 60.0]


@cache
def scripted() -> dict[str, Any]:
    """What native/tables.py defines."""
    return runpy.run_path(str(SOURCES / "tables.py"))


def arguments(seed: int, size: int = 4001) -> Floats:
    """Numbers of every size and sign, most of them where the functions bend, and the special ones."""
    rng = np.random.default_rng(seed)
    every = rng.integers(0, 2**64, size, dtype=np.uint64).view(np.float64)
    near_one = 1 + rng.choice([-1.0, 1.0], size) * 2.0 ** rng.uniform(-53, -1, size)
    small = rng.choice([-1.0, 1.0], size) * 2.0 ** rng.uniform(-70, 3, size)
    special = np.array([*SPECIAL, *(-x for x in SPECIAL)])
    return np.concatenate([every, near_one, small, rng.uniform(-760, 760, size), rng.random(size), special])


def same(x: Floats, y: Floats) -> bool:
    """Bit for bit, but for what a NaN carries."""
    return bool(np.all((x.view(np.uint64) == y.view(np.uint64)) | (np.isnan(x) & np.isnan(y))))


@pytest.mark.parametrize("build", [f"{build}{lanes}" for build in BUILDS for lanes in ("", " scalar")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_packs_are_doubles(name: str, build: str) -> None:
    x = arguments(1)
    assert same(native.elementary(name, x, build), native.elementary(name, x, "scalar"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lanes_do_not_know_their_neighbours(name: str) -> None:
    x = arguments(2, 101)
    y = native.elementary(name, x)
    for size in (0, 1, 3, 7, 8, 9):
        assert same(native.elementary(name, x[5 : 5 + size]), y[5 : 5 + size])


def test_the_widest_build_is_the_default() -> None:
    assert BUILDS[0] == "baseline"
    assert set(BUILDS) <= {"avx512", "avx2", "baseline"}
    x = arguments(3, 11)
    assert same(native.elementary("log", x), native.elementary("log", x, BUILDS[-1]))


def test_an_unknown_build_or_function_is_refused() -> None:
    with pytest.raises(ValueError, match=r"build: got sse9; expected one of builds\(\)"):
        native.elementary("log", np.ones(1), "sse9")
    with pytest.raises(ValueError, match=r"name: got sin; expected a function of native/builds/elementary\.cpp"):
        native.elementary("sin", np.ones(1))


def test_the_tables_are_what_their_script_writes() -> None:
    written = scripted()["header"]()
    assert (SOURCES / "elementary_tables.h").read_text(encoding="utf-8") == written


def exact_log_gamma(x: Decimal) -> Decimal:
    """Stirling's series 40 steps further up: its first missing term is below 1e-40."""
    product, far = Decimal(1), x
    while far < 40:
        product, far = product * far, far + 1
    tables = scripted()
    out: Decimal = (far - Decimal("0.5")) * far.ln() - far + (2 * tables["PI"]).ln() / 2 - product.ln()
    for j, b in enumerate(tables["bernoulli"](20), 1):
        out += b / (2 * j * (2 * j - 1)) / far ** (2 * j - 1)
    return out


EXACT: dict[str, Callable[[Decimal], Decimal]] = {
    "log": Decimal.ln,
    "log1p": lambda x: (1 + x).ln(),
    "exp": Decimal.exp,
    "expm1": lambda x: x.exp() - 1,
    "log_gamma": exact_log_gamma,
}


def errors(name: str, x: Floats) -> list[float]:
    """How far each value is from the exact one, in units in its last place."""
    out = []
    for argument, value in zip(x.tolist(), native.elementary(name, x).tolist(), strict=True):
        exact = EXACT[name](Decimal(argument))
        out.append(float(abs(Decimal(value) - exact) / Decimal(math.ulp(float(exact)))))
    return out


def ranges(name: str) -> list[Floats]:
    """Where each function is measured."""
    rng = np.random.default_rng(7)
    n = 700
    signs = rng.choice([-1.0, 1.0], n)
    if name == "log":
        every = rng.integers(1, 0x7FF0000000000000, n).view(np.float64)
        return [every, 1 + signs * 2.0 ** rng.uniform(-52, -3, n), rng.uniform(0.6, 1.5, n), rng.random(n), np.arange(2.0, n)]
    if name == "log1p":
        return [
            signs * 2.0 ** rng.uniform(-60, -2, n),
            rng.uniform(-0.05, 0.05, n),
            2.0 ** rng.uniform(0, 200, n),
            -rng.random(n),
        ]
    if name == "log_gamma":
        few, far = np.arange(1, 200) / 2, rng.integers(1, 2 * 10**12, 50) / 2
        return [
            few[(few != 1) & (few != 2)],
            far,
            rng.uniform(0, 3, 100),
            rng.uniform(0.9, 2.1, 100),
            2.0 ** rng.uniform(-900, 0, 50),
        ]
    wide = [rng.uniform(-5, 5, n), rng.uniform(-0.05, 0.05, n), rng.uniform(-36, 709.7, n)]
    return [*wide, rng.uniform(-745, -700, n)] if name == "exp" else [*wide, signs * 2.0 ** rng.uniform(-70, -4, n)]


@pytest.mark.parametrize(
    ("name", "bound"), [("log", 0.501), ("log1p", 0.501), ("exp", 0.502), ("expm1", 0.52), ("log_gamma", 4.0)]
)
def test_errors_in_the_last_place(name: str, bound: float) -> None:
    with localcontext(getcontext(), prec=60):
        for x in ranges(name):
            assert max(errors(name, x)) <= bound


def test_log_is_nearly_always_the_c_library_s() -> None:
    rng = np.random.default_rng(11)
    x = np.concatenate([rng.random(20_000), np.arange(1.0, 20_001.0)])
    theirs = np.array([math.log(v) for v in x.tolist()])
    assert np.mean(native.elementary("log", x) != theirs) < 0.02


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("log", [0.0, -0.0, -1.0, -math.inf, math.inf, 1.0], [-math.inf, -math.inf, math.nan, math.nan, math.inf, 0.0]),
        (
            "log1p",
            [-1.0, -2.0, -math.inf, math.inf, 0.0, -0.0, 5e-324],
            [-math.inf, math.nan, math.nan, math.inf, 0.0, -0.0, 5e-324],
        ),
        ("exp", [math.inf, -math.inf, 710.0, -745.2, -745.13, 0.0, -0.0], [math.inf, 0.0, math.inf, 0.0, 5e-324, 1.0, 1.0]),
        (
            "expm1",
            [math.inf, -math.inf, 710.0, -1e308, 0.0, -0.0, -5e-324],
            [math.inf, -1.0, math.inf, -1.0, 0.0, -0.0, -5e-324],
        ),
        ("log_gamma", [1.0, 2.0, math.inf, 0.0], [0.0, 0.0, math.inf, math.inf]),
        ("floor", [-0.0, -0.5, 0.7, -2.0, math.inf, 2.0**52 + 1], [-0.0, -1.0, 0.0, -2.0, math.inf, 2.0**52 + 1]),
    ],
)
def test_special_values(name: str, x: list[float], y: list[float]) -> None:
    for build in ("scalar", *BUILDS):
        assert same(native.elementary(name, np.array(x), build), np.array(y))
        assert np.all(np.isnan(native.elementary(name, np.array([math.nan]), build)))


def test_square_root_and_floor_are_numpy_s() -> None:
    x = arguments(5)
    assert same(native.elementary("floor", x), np.floor(x))
    assert same(native.elementary("absolute", x), np.abs(x))
    with np.errstate(invalid="ignore"):
        assert same(native.elementary("sqrt", x), np.sqrt(x))
