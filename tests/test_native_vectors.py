"""The largest entry of a vector, as numpy has it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater import native


@given(st.lists(st.floats(), max_size=12))
def test_the_largest_entry(values: list[float]) -> None:
    x = np.array(values, dtype=float)
    np.testing.assert_equal(native.largest(x), np.max(x, initial=-np.inf))
    np.testing.assert_equal(native.magnitude(x), np.max(abs(x), initial=0.0))
