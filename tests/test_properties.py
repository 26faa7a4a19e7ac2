"""What must hold on every problem, over random ones of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.arrays import Floats
from headwater.distributions import Finite, Independent
from headwater.expressions import parse
from headwater.problem import Formula
from headwater.pseudo import model_of
from headwater.pseudo.factored import FactoredModel

PHASES = (Phase.explicit, Phase.generate)  # for slow examples: no shrinking
steady = settings(derandomize=True, deadline=None, max_examples=80)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Rewards (K, J) with many equal ones, and a distribution that may miss points."""
    k, j = draw(st.integers(2, 5)), draw(st.integers(1, 7))
    step = draw(st.sampled_from([1.0, 0.1, 1e-3, 1e6]))
    g = np.array(draw(st.lists(st.lists(st.integers(-4, 4), min_size=j, max_size=j), min_size=k, max_size=k)))
    weight = np.array(draw(st.lists(st.integers(0, 5), min_size=j, max_size=j)), dtype=float)
    weight[draw(st.integers(0, j - 1))] += 1
    return g * step, weight / weight.sum()


def discrete(g: Floats, names: list[str] | None = None) -> hw.Problem:
    labels = names or [f"a{k}" for k in range(len(g))]
    return hw.Problem(latent=hw.Discrete(list(range(g.shape[1]))), arms=dict(zip(labels, g, strict=True)))


def brute(g: Floats, k: int) -> Floats:
    """``s[ell, j]``: the most arm ell pays where arm k pays what it pays at j; straight from the definition."""
    scale = 1e-9 * np.max(abs(g), initial=1e-300)
    return np.array([[np.max(row[abs(g[k] - g[k, j]) <= scale]) for j in range(g.shape[1])] for row in g])


def s_at_points(p: hw.Problem, g: Floats, k: int) -> Floats:
    return np.stack([np.asarray(hw.pseudo_reward(p, target=ell, observed=k, reward=g[k])) for ell in range(len(g))])


def full(p: hw.Problem, law: Any) -> tuple[Floats, Floats]:
    a = hw.analyze(p, law, full=True)
    assert a.mu is not None and a.phi is not None
    return a.mu, a.phi


@steady
@given(tables())
def test_s_bounds_is_attained_and_is_the_identity_on_the_diagonal(case: tuple[Floats, Floats]) -> None:
    g, _ = case
    p = discrete(g)
    for k in range(len(g)):
        s = s_at_points(p, g, k)
        assert np.all(s >= g)
        assert np.array_equal(s, brute(g, k))
        assert np.array_equal(s[k], g[k])


@steady
@given(tables())
def test_phi_is_at_least_mu_and_equal_where_x_is_revealed(case: tuple[Floats, Floats]) -> None:
    g, law = case
    p = discrete(g)
    mu, phi = full(p, law)
    scale = 1e-12 * max(1.0, float(np.max(abs(g))))
    assert np.all(phi >= mu[:, None] - scale)
    for k in range(len(g)):
        np.testing.assert_allclose(phi[:, k], brute(g, k) @ law, rtol=0, atol=scale)
    for name in hw.analyze(p, law).invertible:
        np.testing.assert_allclose(phi[:, p.index(name)], mu, rtol=0, atol=scale)


@steady
@given(tables(), st.randoms(use_true_random=False))
def test_relabelling_arms_relabels_results(case: tuple[Floats, Floats], random: Any) -> None:
    g, law = case
    order = list(range(len(g)))
    random.shuffle(order)
    one, two = discrete(g), discrete(g[order], [f"a{k}" for k in order])
    (mu, phi), (mu2, phi2) = full(one, law), full(two, law)
    assert np.allclose(mu[order], mu2, rtol=0, atol=1e-9) and np.allclose(phi[order][:, order], phi2, rtol=0, atol=1e-9)
    a, b = hw.analyze(one, law), hw.analyze(two, law)
    assert a.unique == b.unique and set(a.invertible) == set(b.invertible)
    if a.unique:
        assert a.best == b.best and set(a.competitive) == set(b.competitive)


@steady
@given(tables(), st.randoms(use_true_random=False))
def test_permuting_the_support_changes_nothing(case: tuple[Floats, Floats], random: Any) -> None:
    g, law = case
    order = list(range(g.shape[1]))
    random.shuffle(order)
    one, two = discrete(g), discrete(g[:, order])
    (mu, phi), (mu2, phi2) = full(one, law), full(two, law[order])
    assert np.allclose(mu, mu2, rtol=0, atol=1e-9) and np.allclose(phi, phi2, rtol=0, atol=1e-9)
    assert hw.analyze(one, law).competitive == hw.analyze(two, law[order]).competitive or not hw.analyze(one, law).unique


@steady
@given(tables())
def test_splitting_a_point_in_two_changes_nothing(case: tuple[Floats, Floats]) -> None:
    g, law = case
    twice, half = np.repeat(g, 2, axis=1), np.repeat(law, 2) / 2
    for x, y in zip(full(discrete(g), law), full(discrete(twice), half), strict=True):
        assert np.allclose(x, y, rtol=0, atol=1e-9)


SHAPES = ("x*x - 2*x", "abs(x - 1)", "floor(x/2)", "where(x > 1, 3, x)", "min(x, 2)", "7", "x/3", "exp(-x)")


@steady
@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=7, unique=True),
    st.lists(st.sampled_from(SHAPES), min_size=2, max_size=4),
)
def test_tables_expressions_and_functions_agree(values: list[int], texts: list[str]) -> None:
    latent = hw.Discrete(values)
    forms = [parse(t, ["x"]) for t in texts]
    by_text = hw.Problem(latent=latent, arms={f"a{i}": t for i, t in enumerate(texts)})
    by_call = hw.Problem(latent=latent, arms={f"a{i}": (lambda x, f=f: f(x)) for i, f in enumerate(forms)})
    by_table = hw.Problem(latent=latent, arms={f"a{i}": f(np.array(values, dtype=float)).tolist() for i, f in enumerate(forms)})
    law = np.full(len(values), 1 / len(values))
    want = full(by_table, law)
    for other in (by_text, by_call):
        for x, y in zip(want, full(other, law), strict=True):
            assert np.array_equal(x, y)
        assert hw.analyze(other).to_dict() == hw.analyze(by_table).to_dict()


terms = st.one_of(
    st.builds("{}*{}".format, st.integers(-3, 3), st.sampled_from(["a", "b", "c"])),
    st.builds("0.1*{}".format, st.sampled_from(["a", "b", "c"])),
    st.sampled_from(["a*b", "abs(b - c)", "max(a, c)", "c*c/2", "-(a - 1)", "0.5", "where(a > b, 1, 0)"]),
)
sums = st.lists(terms, min_size=1, max_size=4).map(" + ".join)
axis = st.lists(st.integers(-3, 3), min_size=1, max_size=3, unique=True)
weights = st.lists(st.integers(1, 5), min_size=3, max_size=3)


@steady
@given(st.tuples(axis, axis, axis), st.lists(sums, min_size=2, max_size=3), st.tuples(weights, weights, weights))
def test_factored_vectors_agree_with_listed_ones(
    axes: tuple[list[int], ...], arms: list[str], weight: tuple[list[int], ...]
) -> None:
    parts = [np.array(w[: len(x)], dtype=float) / sum(w[: len(x)]) for w, x in zip(weight, axes, strict=True)]
    latent = hw.Vector(dict(zip("abc", axes, strict=True)))
    p = hw.Problem(latent=latent, arms={f"arm{i}": t for i, t in enumerate(arms)})
    listed, factored = model_of(p), FactoredModel(p)
    law = Independent(tuple(parts))
    scale = 1e-9 * max(1.0, float(np.max(abs(p.rewards))))
    np.testing.assert_allclose(factored.ranges, listed.ranges, rtol=0, atol=scale)
    np.testing.assert_allclose(factored.means(law).value, listed.means(law).value, rtol=0, atol=scale)
    np.testing.assert_allclose(listed.means(law).value, p.rewards @ law.joint(), rtol=0, atol=scale)
    for k in range(len(arms)):
        assert factored.payable(k).shape == listed.payable(k).shape
        np.testing.assert_allclose(factored.payable(k), listed.payable(k), rtol=0, atol=scale)
        r = p.rewards[k]
        np.testing.assert_allclose(factored.pseudo(k, r), listed.pseudo(k, r), rtol=0, atol=scale)
        np.testing.assert_allclose(factored.pseudo(k, r), brute(p.rewards, k), rtol=0, atol=scale)
        np.testing.assert_allclose(factored.phi(k, law).value, listed.phi(k, law).value, rtol=0, atol=scale)
        np.testing.assert_allclose(listed.phi(k, Finite(law.joint())).value, listed.phi(k, law).value, rtol=0, atol=scale)


SMOOTH = (
    "x",
    "x*x",
    "1 - x",
    "sin(9*x)",
    "abs(x - 0.4)",
    "where(x < 0.6, x, 0)",
    "0.3",
    "exp(-x)",
    "floor(4*x)",
    "max(x, 0.5)",
)


@settings(derandomize=True, deadline=None, max_examples=12, phases=PHASES)
@given(
    st.lists(st.sampled_from(SMOOTH), min_size=2, max_size=3),
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.floats(0, 1), min_size=1, max_size=12),
)
def test_continuous_properties(texts: list[str], a: int, b: int, sample: list[float]) -> None:
    p = hw.Problem(latent=hw.Continuous([0, 1]), arms={f"a{i}": t for i, t in enumerate(texts)})
    for law in ({"name": "beta", "a": a, "b": b}, {"sample": sample}):
        found = hw.analyze(p, law, full=True)
        assert found.mu is not None and found.phi is not None and found.error is not None
        assert np.all(found.phi >= found.mu[:, None] - 2 * found.error - 1e-12)
        for name in found.invertible:
            # A sample may sit where x*x is stationary: rewards within 1e-12 are one, so x is known to 1e-6 there. That moves an
            # arm by 1e-6 times its slope, at most 9 here, and by a whole jump where one lies within that.
            slack = 9e-6 if "sample" in law else 1e-8 + 2 * found.error
            steady = [not ("sample" in law and ("where" in text or "floor" in text)) for text in texts]
            np.testing.assert_allclose(found.phi[steady, p.index(name)], found.mu[steady], rtol=0, atol=slack)
        order = list(range(len(texts)))[::-1]
        back = hw.Problem(latent=p.latent, arms={f"a{i}": texts[i] for i in order})
        mu, phi = full(back, law)
        np.testing.assert_allclose(phi, found.phi[order][:, order], rtol=0, atol=1e-8)
        np.testing.assert_allclose(mu, found.mu[order], rtol=0, atol=1e-9)


LINEAR = ("x + 0.1*y", "y + 0.1*x", "x - y", "0.5", "2*z - x", "x + z", "z")


@settings(derandomize=True, deadline=None, max_examples=12, phases=PHASES)
@given(st.lists(st.sampled_from(LINEAR), min_size=2, max_size=3), st.integers(0, 2**32 - 1))
def test_interval_vector_properties(texts: list[str], seed: int) -> None:
    latent = hw.Vector({"x": hw.Interval(0, 1), "y": hw.Interval(-1, 1), "z": [0, 0.5, 2]})
    p = hw.Problem(latent=latent, arms={f"a{i}": t for i, t in enumerate(texts)})
    rng = np.random.default_rng(seed)
    x = np.stack([rng.random(50), rng.uniform(-1, 1, 50), rng.choice([0, 0.5, 2], 50)])
    g = np.stack([arm.expression(*x) for arm in p.arms.values() if isinstance(arm, Formula)])
    for k in range(len(texts)):
        s = s_at_points(p, g, k)
        assert np.all(s >= g - 1e-12)
        np.testing.assert_allclose(s[k], g[k], rtol=0, atol=1e-12)
    sample = {"sample": x.T.tolist()}
    mu, phi = full(p, sample)
    np.testing.assert_allclose(mu, g.mean(axis=1), rtol=0, atol=1e-12)
    assert np.all(phi >= mu[:, None] - 1e-12)
