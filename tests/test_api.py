"""What ``import headwater`` promises: the names, their documentation, and that it is quick."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys

import pytest

import headwater

HEAVY = ["scipy", "matplotlib", "numba", "plotly", "pandas", "pyarrow", "dask", "distributed", "fsspec"]


def test_the_names_are_there_sorted_and_once() -> None:
    assert sorted(set(headwater.__all__)) == sorted(headwater.__all__)
    assert {"Problem", "Discrete", "Continuous", "Vector", "Interval", "analyze", "load_problem", "pseudo_reward"} <= set(
        headwater.__all__
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+", headwater.__version__)


@pytest.mark.parametrize("name", headwater.__all__)
def test_every_name_is_documented(name: str) -> None:
    thing = getattr(headwater, name)
    assert thing.__module__.startswith("headwater")
    doc = inspect.getdoc(thing)
    assert doc and not doc.startswith(f"{name}("), f"{name} has only the docstring that dataclass makes"
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for attribute, value in vars(thing).items():
            if inspect.isfunction(value) and not attribute.startswith("_"):
                assert inspect.signature(value).return_annotation is not inspect.Signature.empty, f"{name}.{attribute}"


def test_every_error_is_one_of_ours() -> None:
    errors = [getattr(headwater, name) for name in headwater.__all__ if name.endswith("Error")]
    assert all(issubclass(error, headwater.HeadwaterError) for error in errors)
    assert not issubclass(headwater.HeadwaterError, (ValueError, OSError))  # caught by its own name, not by accident


def test_errors_carry_what_they_found() -> None:
    error = headwater.ProblemError(["one", "two"])
    assert error.complaints == ("one", "two") and str(error) == "one\ntwo"
    assert headwater.ProblemError("alone").complaints == ("alone",)
    assert str(headwater.ExpressionError("bad", 3)) == "bad (at character 3)"


@pytest.mark.parametrize("module", ["headwater", "headwater.cli"])
def test_importing_stays_light(module: str) -> None:
    """Printing help must not pay for what only drawing, simulating and continuous laws use."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(set({HEAVY!r}) & set(sys.modules))))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [] and done.stderr == ""
