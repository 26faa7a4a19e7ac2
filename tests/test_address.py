"""Named tuples that compiled code is handed by their address: the same fields, no reference kept, no reference lost."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from headwater.arrays import Floats, Ints
from headwater.policies import compile as compile_module
from headwater.policies.address import by_address
from headwater.policies.compile import allocating, compiled
from headwater.policies.vectors import largest, size


@by_address
class Inner(NamedTuple):
    many: Floats
    square: Floats


@by_address
class Outer(NamedTuple):
    marks: Ints
    inner: Inner
    last: Floats


def renamed(kind: type) -> type:
    kind.__name__ = kind.__qualname__ = "Twin"
    return kind


@by_address
@renamed
class One(NamedTuple):
    first: Floats
    second: Floats


@by_address
@renamed
class Other(NamedTuple):
    second: Floats
    first: Floats


@compiled
def first_of(pair: One) -> float:
    return float(pair.first[0])


@compiled
def add_up(inner: Inner) -> float:
    total = 0.0
    for i in range(inner.many.size):
        total += inner.many[i] * inner.square[i, i]
    return total


@compiled
def work(outer: Outer) -> float:
    outer.marks[0] += 1
    outer.inner.many[0] += 1.0
    return add_up(outer.inner) + float(outer.last[-1])


@allocating
def keep(outer: Outer) -> Floats:
    copy = outer.inner.many.copy()
    copy[0] += work(outer)
    return copy


@allocating
def hand_out(outer: Outer) -> Floats:
    return outer.last


def made() -> Outer:
    return Outer(np.zeros(2, dtype=np.int64), Inner(np.array([1.0, 2.0]), np.array([[3.0, 0.0], [0.0, 5.0]])), np.array([7.0]))


def test_compiled_and_python_read_and_write_the_same_fields() -> None:
    mine, theirs = made(), made()
    for _ in range(3):
        assert work(mine) == work.py_func(theirs)  # type: ignore[attr-defined]
        assert keep(mine).tolist() == keep.py_func(theirs).tolist()  # type: ignore[attr-defined]
    assert mine.marks.tolist() == [6, 0] and mine.inner.many.tolist() == theirs.inner.many.tolist() == [7.0, 2.0]


@pytest.mark.parametrize("function", [work, keep])
def test_no_reference_is_kept_or_lost(function: object) -> None:
    outer = made()
    arrays = [outer.marks, outer.inner.many, outer.inner.square, outer.last]
    before = [sys.getrefcount(x) for x in arrays]
    for _ in range(100):
        function(outer)  # type: ignore[operator]
    assert [sys.getrefcount(x) for x in arrays] == before


def test_an_array_handed_out_outlives_the_tuple() -> None:
    outer = made()
    array = hand_out(outer)
    del outer
    assert array.tolist() == [7.0]


def test_other_shapes_of_the_same_tuple_are_told_apart() -> None:
    outer = made()
    assert work(outer) == 2.0 * 3.0 + 2.0 * 5.0 + 7.0
    flat = Inner(np.array([1.0, 2.0]), np.asfortranarray(np.array([[3.0, 1.0], [0.0, 5.0]])))
    assert work(outer._replace(inner=flat)) == 2.0 * 3.0 + 2.0 * 5.0 + 7.0


def test_classes_of_one_name_are_told_apart() -> None:
    assert first_of(One(np.array([1.0]), np.array([2.0]))) == 1.0
    assert first_of(Other(np.array([2.0]), np.array([1.0]))) == 1.0  # type: ignore[arg-type]


def test_what_addresses_a_tuple_is_part_of_what_names_cached_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an old cache would go on running what a mended source no longer says."""
    package = tmp_path / "headwater"
    shutil.copytree(Path(compile_module.__file__).parent.parent, package)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_module, "__file__", str(package / "policies" / "compile.py"))
    before = compile_module._cache_folder()
    for name in ("address.py", "vectors.py", "indices.py"):
        path = package / "policies" / name
        path.write_text(path.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
        after = compile_module._cache_folder()
        assert after != before
        before = after


def test_a_field_that_is_not_there_is_refused_when_compiling() -> None:
    @compiled
    def wrong(outer: Outer) -> float:
        return outer.first[0]  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(TypingError, match="Unknown attribute 'first'"):
        wrong(made())


def test_the_largest_entry_is_as_numpys() -> None:
    for x in ([1.0, 3.0, 2.0], [-1.0], [np.nan, 1.0], [1.0, np.nan, 2.0], [np.inf, np.nan], [-np.inf, -np.inf]):
        assert np.array_equal(largest(np.array(x)), np.max(x), equal_nan=True)
        assert np.array_equal(size(np.array(x)), np.max(np.abs(x)), equal_nan=True)
    assert largest(np.zeros(0)) == -np.inf and size(np.zeros(0)) == 0
