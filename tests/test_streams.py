"""The generator: known answers, keys that never collide, exact thresholds, uniformity with a stated false-alarm probability."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headwater import native, streams
from headwater.errors import ProblemError

ALARM = 1e-6  # the probability that a right generator fails any one statistical test here; seeds are fixed

seeds = st.integers(0, 2**64 - 1)
counters = st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), st.integers(0, 255), st.integers(0, 2**24 - 1))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # Random123's known answers for philox4x32-10
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_known_answers(counter: str, key: str, words: str) -> None:
    numbers = [int(x, 16) for x in (counter + " " + key).split()]
    expected = tuple(int(x, 16) for x in words.split())
    assert streams.philox(*numbers) == expected
    assert native.philox(*numbers) == expected


@given(counters, seeds)
def test_compiled_uniforms_are_the_python_ones(counter: tuple[int, int, int, int], seed: int) -> None:
    key = streams.seed_words(seed)
    w = streams.philox(*streams.counter_words(*counter), *key)
    expected = streams.join(w[0], w[1]), streams.join(w[2], w[3])
    block, replication, purpose, lane = counter
    assert native.uniforms(seed=seed, replication=replication, block=block, purpose=purpose, lane=lane) == expected
    assert all(0 <= u < 2**53 for u in expected)


@given(counters, counters)
def test_counters_do_not_collide(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> None:
    assert (streams.counter_words(*one) == streams.counter_words(*other)) == (one == other)
    assert all(0 <= word < 2**32 for word in streams.counter_words(*one))


@given(counters, st.integers(0, 3), st.integers(0, 47))
def test_neighbouring_counters_do_not_collide(counter: tuple[int, int, int, int], part: int, bit: int) -> None:
    """One bit of one part: what a layout with overlapping fields would lose."""
    other = list(counter)
    other[part] ^= 1 << (bit % (48, 48, 8, 24)[part])
    assert streams.counter_words(*counter) != streams.counter_words(other[0], other[1], other[2], other[3])


def test_purposes_are_part_of_the_meaning_of_a_seed() -> None:
    purposes = ("LATENT", "NORMAL", "REWARD", "BINARISE", "BETA_SUCCESS", "BETA_FAILURE")
    assert [getattr(streams, name) for name in purposes] == [0, 1, 2, 3, 4, 5]
    assert native.purposes == {name: getattr(streams, name.upper()) for name in native.purposes}


@given(seeds, seeds)
def test_seeds_are_keys(one: int, other: int) -> None:
    assert (streams.seed_words(one) == streams.seed_words(other)) == (one == other)
    low, high = streams.seed_words(one)
    assert high << 32 | low == one


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.uint64])
def test_numpy_seeds(kind: Any) -> None:
    assert streams.seed_words(kind(7)) == (7, 0)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", True, None])
def test_bad_seeds(seed: Any) -> None:
    with pytest.raises(ProblemError, match=r"seed: got .*; expected a whole number from 0 to 2\*\*64 - 1"):
        streams.seed_words(seed)


@given(st.integers(0, 2**53 - 1))
def test_open_unit(u: int) -> None:
    x = streams.to_open_unit(u)
    assert 0.0 < x < 1.0
    assert abs(Fraction(x) - (Fraction(u) + Fraction(1, 2)) / 2**53) <= Fraction(1, 2**54)
    assert native.to_open_unit(u) == x


def test_open_unit_at_the_ends() -> None:
    for to_open_unit in (streams.to_open_unit, native.to_open_unit):
        assert to_open_unit(0) == 2.0**-54
        assert to_open_unit(2**53 - 1) == 1 - 2.0**-53


words = st.integers(0, 2**32 - 1)


@given(words, words, words, words, words, words)
def test_compiled_philox_is_the_python_one(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> None:
    assert native.philox(c0, c1, c2, c3, k0, k1) == streams.philox(c0, c1, c2, c3, k0, k1)


def _words(**fixed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """2**15 pairs along the one part of the key that is not fixed."""
    start = {"block": 3, "replication": 5, "purpose": 0, "lane": 0, "seed": 42} | fixed
    (part,) = {"block", "replication", "lane", "seed"} - set(fixed) if len(fixed) == 3 else {"block"}
    out = []
    for i in range(1 << 15):
        at = start | {part: i}
        out.append(native.uniforms(**at))
    return np.array(out)


@pytest.mark.parametrize("along", ["block", "replication", "lane", "seed"])
def test_uniformity_and_independence(along: str) -> None:
    """Chi-squared, false alarm 1e-6 each: the top 8 bits, the low 8 bits, the two halves jointly, and neighbours jointly."""
    pairs = _words(**{part: 1 for part in ("block", "replication", "lane", "seed") if part != along})
    u, v = pairs.T
    cells = [
        (u >> 45, 256),
        (v >> 45, 256),
        (u & 255, 256),
        (v & 255, 256),
        ((u >> 49) * 16 + (v >> 49), 256),
        ((u[:-1:2] >> 49) * 16 + (u[1::2] >> 49), 256),
        ((u[:-1:2] >> 49) * 16 + (v[1::2] >> 49), 256),
    ]
    for cell, bins in cells:
        assert stats.chisquare(np.bincount(cell, minlength=bins)).pvalue > ALARM


@pytest.mark.parametrize("parts", [("replication", 5, 6), ("purpose", 0, 1), ("seed", 42, 43), ("lane", 0, 1)])
def test_streams_are_unrelated(parts: tuple[str, int, int]) -> None:
    """The same rounds under two keys: a chi-squared test of independence, false alarm 1e-6, and no word in common."""
    name, one, other = parts
    a, b = _words(**{name: one})[:, 0], _words(**{name: other})[:, 0]
    table = np.zeros((16, 16))
    np.add.at(table, (a >> 49, b >> 49), 1)
    assert stats.chi2_contingency(table).pvalue > ALARM
    assert not set(a.tolist()) & set(b.tolist())


weights = st.lists(st.integers(0, 50), min_size=1, max_size=60).filter(any)


@given(weights)
def test_thresholds_are_exact(weight: list[int]) -> None:
    """As many of the 2**53 uniforms as the probability says, to one: cumulative sums are exact, not of rounded floats."""
    p = [Fraction(w / sum(weight)) for w in weight]
    thresholds = [0, *streams.latent_thresholds(np.array(weight) / sum(weight)).tolist(), 2**53]
    assert thresholds == sorted(thresholds)
    for i, width in enumerate(np.diff(np.array(thresholds, dtype=object))):
        assert abs(width - p[i] / sum(p) * 2**53) < 1
        if p[i] == 0:
            assert width == 0, "an atom of probability 0 is never drawn"
    below = Fraction(0)
    for i in range(len(p) - 1):
        below += p[i] / sum(p)
        assert Fraction(thresholds[i + 1] - 1, 2**53) < below <= Fraction(thresholds[i + 1], 2**53)


def test_extreme_probabilities() -> None:
    """Subnormal and huge weights: every sum is exact."""
    assert streams.latent_thresholds(np.array([5e-324, 5e-324])).tolist() == [2**52]
    assert streams.latent_thresholds(np.array([1e308, 1e308, 5e-324])).tolist() == [2**52, 2**53]


def test_thresholds_do_not_drift() -> None:
    """Thousands of equal steps of a number that is no binary fraction: a running float sum drifts, this does not."""
    p = np.full(3000, 0.1)
    thresholds = streams.latent_thresholds(p)
    assert thresholds.tolist() == [-(-(i * 2**53) // 3000) for i in range(1, 3000)]


@pytest.mark.parametrize("p", [[], [0.0, 0.0], [0.5, -0.1], [0.5, math.nan], [math.inf, 1.0]])
def test_bad_probabilities(p: list[float]) -> None:
    with pytest.raises(ProblemError, match=r"probabilities: got .*; expected numbers >= 0 with a positive sum"):
        streams.latent_thresholds(np.array(p))


@given(weights, st.lists(st.integers(0, 2**53 - 1), max_size=20))
def test_guide_table_finds_the_atom_of_a_linear_scan(weight: list[int], uniforms: list[int]) -> None:
    p = np.array(weight) / sum(weight)
    thresholds = streams.latent_thresholds(p)
    guide = streams.guide_table(thresholds)
    bits = len(guide).bit_length() - 1
    assert len(guide) == 2**bits >= 4 * len(p)
    edges = [int(x) + d for x in thresholds for d in (-1, 0, 1)]
    for u in [*uniforms, *(x for x in edges if 0 <= x < 2**53), 0, 2**53 - 1]:
        j = int(guide[u >> (53 - bits)])
        while j < len(thresholds) and u >= thresholds[j]:
            j += 1
        assert j == sum(u >= int(x) for x in thresholds)
        assert p[j] > 0
