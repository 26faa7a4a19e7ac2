"""How often the inferred mix holds, and what is said where nothing can be: known and learned channels, corners, few rewards."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, gammaln

import headwater as hw
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError
from headwater.intervals import binomial_intervals
from headwater.policies.anytime import mixture_forecast
from headwater.policies.evidence import evidence_of
from headwater.policies.inference import HOLDS, Holds, LatentLaw, latent_law
from headwater.policies.profile import Profile
from headwater.pseudo.channels import channels_of

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import coverage_mix
from interval_cells import OURS

WAYS: tuple[Holds, ...] = ("each", "all", "always")


def problem_of(law: Floats, observations: Any = None) -> hw.Problem:
    """Arms with the laws ``law`` (K, J, M) over the rewards 0, 1, ...; learned from so many ``observations`` (K, J)."""
    arms: dict[str, Any] = {}
    for k, rows in enumerate(law):
        arms[f"arm {k}"] = {"outcomes": list(range(law.shape[2])), "probabilities": rows.tolist()}
        if observations is not None:
            arms[f"arm {k}"]["observations"] = observations[k].tolist()
    return hw.Problem(latent=hw.Discrete([f"x{j}" for j in range(law.shape[1])]), arms=arms)


def clicks(rate: Floats) -> Floats:
    return np.stack([1 - rate, rate], axis=2)


def law_of(problem: hw.Problem, seen: Ints, holds: Holds = "each", doubted: Any = None) -> LatentLaw:
    nobody = np.zeros(len(problem.names), dtype=np.int64) if doubted is None else np.array(doubted)
    labels = [problem.latent.label(j) for j in range(problem.latent.size)]  # type: ignore[union-attr]
    return latent_law(evidence_of(problem), seen, labels, nobody, 0.95, holds, arms=problem.names)


def draw(law: Floats, p: Floats, pulls: int, rng: np.random.Generator) -> Ints:
    z = np.einsum("j,kjm->km", p, law)
    return rng.multinomial(pulls, z / z.sum(axis=1, keepdims=True))


def misses(held: int, runs: int) -> bool:
    """Whether so few hold with probability below 1 in 1,000 if 94 % do: one point less than stated."""
    return bool(stats.binom.cdf(held, runs, 0.94) < 1e-3)


# Known channels.


@pytest.mark.parametrize(
    ("p", "which"),
    [([0.5, 0.5, 0, 0, 0], 0), ([0.5, 0.5, 0, 0, 0], 1), ([1, 0, 0, 0, 0], 0), ([0.2, 0.2, 0.2, 0.2, 0.2], 3)],
)
def test_an_interval_holds_at_the_corners_of_the_simplex(p: list[float], which: int) -> None:
    """Against one degree of freedom it held in 84 and 88 % of the first two."""
    rng, mix = np.random.default_rng(1), np.array(p, dtype=float)
    law = clicks(np.random.default_rng(0).uniform(size=(4, 5)))
    problem, held = problem_of(law), 0
    for _ in range(300):
        value = law_of(problem, draw(law, mix, 500, rng)).values[which]
        held += value.low <= mix[which] <= value.high
    assert not misses(held, 300), held


@pytest.mark.parametrize("share", [0.001, 0.02, 0.05, 0.3])
def test_few_rewards_that_show_x_itself(share: float) -> None:
    """It holds as often as it should for a coin at any share, and is hardly wider than Clopper and Pearson's."""
    problem = problem_of(np.tile(np.eye(2), (2, 1, 1)))
    covered, n = 0.0, 60
    for hits in range(n + 1):
        value = law_of(problem, np.array([[n - hits, hits], [0, 0]])).values[1]
        if value.low - 1e-9 <= share <= value.high + 1e-9:
            covered += float(stats.binom.pmf(hits, n, share))
        low, high = binomial_intervals(hits, n)
        assert value.high - value.low <= 1.1 * float(high - low)
    assert covered >= 0.945


def test_forty_values_of_which_one_comes() -> None:
    """Against one degree of freedom it held in 77 %."""
    rng = np.random.default_rng(5)
    law = rng.dirichlet(np.ones(4), size=(20, 40))
    problem, mix, held = problem_of(law), np.eye(40)[0], 0
    channels = channels_of(problem)
    for _ in range(150):
        counts = draw(law, mix, 500, rng).ravel().astype(float)
        low, high = Profile(channels, counts).interval([0], 0.95)
        held += low <= 1.0 <= high + 1e-9
    assert not misses(held, 150), held


@pytest.mark.parametrize("policy", ["ucb1", "joint-ucb"])
def test_an_interval_holds_where_a_policy_chose(policy: str) -> None:
    rng, held = np.random.default_rng(7), 0
    law = clicks(rng.uniform(0.05, 0.9, size=(4, 3)))
    problem, mix = problem_of(law), np.array([0.6, 0.3, 0.1])
    for seed in range(60):
        playing = hw.make_policy(policy, problem, seed=seed)
        for x, u in zip(rng.choice(3, 200, p=mix).tolist(), rng.random(200).tolist(), strict=True):
            arm = playing.select()
            playing.update(arm, float(u < law[problem.index(arm), x, 1]))
        held += sum(v.low <= t <= v.high for v, t in zip(playing.latent().values, mix, strict=True))
    assert stats.binom.cdf(held // 3, 60, 0.94) > 1e-3, held  # values of one run depend: as if they were one


def test_four_things_are_named_apart() -> None:
    law = clicks(np.random.default_rng(0).uniform(size=(4, 3)))
    problem = problem_of(law)
    seen = draw(law, np.array([0.5, 0.3, 0.2]), 400, np.random.default_rng(1))
    found = [law_of(problem, seen, holds) for holds in WAYS]
    for one, wider in itertools.pairwise(found):
        assert all(b.low <= a.low + 1e-6 and a.high <= b.high + 1e-6 for a, b in zip(one.values, wider.values, strict=True))
    for holds, one in zip(WAYS, found, strict=True):
        assert one.holds == holds and one.kind == f"95 % confidence, {HOLDS[holds]}"
        assert str(one).startswith(f"The law of X (95 % confidence, {HOLDS[holds]}):")
        assert one.to_dict()["holds"] == holds and one.to_dict()["kind"] == one.kind
        assert one.fit > 0.01 and one.heterogeneity == 0 and not one.contradicted
    policy = hw.make_policy("c-ucb", problem)
    assert policy.latent(holds="always").holds == "always"
    with pytest.raises(ProblemError, match='holds: got "sometimes"; expected "each", "all" or "always"'):
        policy.latent(holds="sometimes")  # type: ignore[arg-type]


def test_two_values_are_one_share() -> None:
    """All at once is no more than each where there are two."""
    problem = problem_of(np.tile(np.eye(2), (2, 1, 1)))
    seen = np.array([[30, 20], [0, 0]])
    each, every = law_of(problem, seen), law_of(problem, seen, "all")
    assert [(v.low, v.high) for v in each.values] == [(v.low, v.high) for v in every.values]


# At all times.


def test_the_averaged_likelihood_is_bounded_from_below() -> None:
    """Against the integral over one share, and exact where rewards show X."""
    rows, n = np.array([[0.9, 0.3], [0.1, 0.7], [0.6, 0.2], [0.4, 0.8]]), np.array([60.0, 40.0, 20.0, 30.0])

    def likelihood(q: float) -> float:
        prior = -0.5 * np.log(q * (1 - q)) - betaln(0.5, 0.5)
        return float(np.exp(n @ np.log(rows @ np.array([q, 1 - q])) + prior + 110))

    exact = np.log(integrate.quad(likelihood, 0, 1, limit=200)[0]) - 110
    assert exact - 3 < mixture_forecast(rows, n, np.array([0.5, 0.5])) <= exact
    k = np.array([5.0, 3.0, 0.0])
    dirichlet = gammaln(k + 0.5).sum() - gammaln(k.sum() + 1.5) - (3 * gammaln(0.5) - gammaln(1.5))
    assert mixture_forecast(np.eye(3), k, k / 8) == pytest.approx(dirichlet, abs=1e-5)


def test_many_arms_are_not_paid_for_one_by_one() -> None:
    """The forecast of each arm by itself pays for fifty, the averaged likelihood for three values."""
    rng = np.random.default_rng(2)
    law = clicks(rng.uniform(size=(50, 3)))
    problem, mix = problem_of(law), np.array([0.5, 0.3, 0.2])
    seen = draw(law, mix, 100, rng)
    found = law_of(problem, seen, "always")
    alone = law_of(problem_of(law[:5]), 10 * draw(law[:5], mix, 100, rng), "always")
    assert all(v.low <= t <= v.high for v, t in zip(found.values, mix, strict=True))
    assert np.mean([v.high - v.low for v in found.values]) < 1.5 * np.mean([v.high - v.low for v in alone.values])


# What cannot be said.


def test_a_contradicted_model_states_no_interval() -> None:
    law = clicks(np.array([[0.2, 0.3], [0.2, 0.3], [0.5, 0.5]]))
    problem = problem_of(law)
    for holds in WAYS:
        found = law_of(problem, np.array([[100, 300], [300, 100], [0, 0]]), holds)
        assert found.contradicted and found.fit < 1e-3 and not any(v.stated for v in found.values)
        assert "No intervals are stated" in found.notes[0] and "no arm is doubted" in found.notes[1]
        assert str(found).startswith("No law of X fits these rewards") and "(" not in str(found).splitlines()[-3]
        body = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert body["values"]["x0"]["low"] is None and body["values"]["x0"]["high"] is None
    rest = law_of(problem, np.array([[100, 300], [300, 100], [0, 0]]), doubted=[1, 0, 0])
    assert (
        not rest.contradicted
        and rest.notes[0] == "The rewards of arm 0 contradict the model and are left out; the others fit it."
    )


def test_a_contradiction_is_no_accident() -> None:
    """Where the model is right: of 500 looks 7 would speak with probability below 1 in 1,000 if each did in 0.3 %."""
    rng = np.random.default_rng(3)
    for law in (clicks(rng.uniform(size=(4, 3))), clicks(np.full((30, 3), 0.01) * rng.uniform(0.2, 2, (30, 3)))):
        channels = channels_of(problem_of(law))
        fits = [Profile(channels, draw(law, rng.dirichlet(np.ones(3)), 60, rng).ravel().astype(float)).fit for _ in range(500)]
        assert sum(fit < 1e-3 for fit in fits) <= 6 and stats.binom.sf(6, 500, 0.003) < 1e-3


def test_what_nothing_can_be_said_of_is_named() -> None:
    law = clicks(np.array([[0.2, 0.2, 0.7], [0.4, 0.4, 0.1]]))
    problem = problem_of(law)
    found = law_of(problem, np.array([[50, 50], [50, 30]]))
    assert found.groups == (("x0", "x1"),)
    assert law_of(problem, np.zeros((2, 2), dtype=np.int64)).notes == ("Nothing is known yet.",)
    few = law_of(problem, np.array([[1, 0], [0, 0]]))
    assert few.notes == ("Of x0, x1 and x2 nothing can be said yet.",)
    only = law_of(problem, np.array([[1, 0], [0, 0]]), doubted=[1, 0])
    assert only.notes == ("Nothing is known but from arms that contradict the model.",)


# Learned channels.


def learned(law: Floats, rows: int, rng: np.random.Generator) -> hw.Problem:
    """The laws of a control group with ``rows`` rewards a cell, as frequencies with a little of all arms' law."""
    counts = rng.multinomial(rows, law) + 2 * law.mean(axis=(0, 1))
    return problem_of(counts / counts.sum(axis=2, keepdims=True), np.full(law.shape[:2], rows))


@pytest.mark.parametrize("pulls", [10, 200, 20_000])
@pytest.mark.parametrize("rows", [20, 200])
def test_an_interval_holds_on_learned_channels_at_every_horizon(pulls: int, rows: int) -> None:
    rng, held = np.random.default_rng(11), 0
    for _ in range(100):
        law, mix = rng.dirichlet(np.ones(3), size=(6, 3)), rng.dirichlet(np.ones(3))
        found = law_of(learned(law, rows, rng), draw(law, mix, pulls, rng))
        assert not found.contradicted
        held += found.values[1].low <= mix[1] <= found.values[1].high
    assert not misses(held, 100), held


def test_the_control_group_bounds_what_rewards_can_tell() -> None:
    rng = np.random.default_rng(4)
    law, mix = rng.dirichlet(np.ones(3), size=(6, 3)), np.array([0.5, 0.3, 0.2])
    widths = []
    for rows, pulls in ((30, 2_000), (30, 200_000), (3000, 200_000)):
        found = law_of(learned(law, rows, np.random.default_rng(1)), draw(law, mix, pulls, np.random.default_rng(2)))
        widths.append(np.mean([v.high - v.low for v in found.values]))
    assert widths[1] > 0.5 * widths[0] and widths[2] < 0.5 * widths[1]


def test_errors_of_frequencies_do_not_draw_the_mix_together() -> None:
    """Fifty arms that hardly tell segments apart, laws as they were counted: a slope is weakened, and it held in 2 %."""
    rng, held, mix = np.random.default_rng(3), 0, np.array([0.9, 0.1])
    for _ in range(40):
        base = rng.uniform(0.2, 0.8, (50, 1))
        law = clicks(base + 0.05 * rng.normal(size=(50, 2)))
        counts = rng.multinomial(200, law) + 1e-6
        problem = problem_of(counts / counts.sum(axis=2, keepdims=True), np.full((50, 2), 200))
        value = law_of(problem, draw(law, mix, 1000, rng)).values[0]
        held += value.low <= 0.9 <= value.high
    assert not misses(held, 40), held


def test_laws_that_hardly_differ_say_nothing() -> None:
    rng = np.random.default_rng(3)
    law = clicks(np.tile(rng.uniform(0.2, 0.8, (30, 1)), 2))
    counts = rng.multinomial(50, law) + 1e-6
    found = law_of(
        problem_of(counts / counts.sum(axis=2, keepdims=True), np.full((30, 2), 50)), draw(law, np.array([0.9, 0.1]), 1000, rng)
    )
    assert [(v.low, v.high) for v in found.values] == [(0, 1), (0, 1)] and "nothing can be said yet" in found.notes[-1]


def test_cells_that_were_not_estimated_say_nothing() -> None:
    law = clicks(np.array([[0.1, 0.9], [0.8, 0.3]]))
    seen = np.array([[400, 600], [500, 500]])
    for rows in (0, 9):
        found = law_of(problem_of(law, np.full((2, 2), rows)), seen)
        assert all(v.high - v.low > 0.9 for v in found.values)


def test_arms_that_pay_the_public_otherwise_are_allowed_for_and_said() -> None:
    """Overdispersion beyond the control group's own error: what ignores it holds in 40 %."""
    rng, held, said = np.random.default_rng(6), 0, 0
    for _ in range(100):
        law, mix = rng.dirichlet(np.ones(3), size=(8, 3)), rng.dirichlet(np.ones(3))
        z = np.einsum("j,kjm->km", mix, law)
        public = np.array([rng.dirichlet(row * 50) for row in z])
        found = law_of(learned(law, 1000, rng), rng.multinomial(5000, public))
        held += found.values[0].low <= mix[0] <= found.values[0].high
        said += any("Arms pay otherwise than their learned laws say" in note for note in found.notes)
    assert not misses(held, 100) and said > 90


def test_learned_channels_can_be_contradicted() -> None:
    law = clicks(np.array([[0.1, 0.2], [0.1, 0.3], [0.2, 0.1]]))
    problem = problem_of(law, np.full((3, 2), 500))
    found = law_of(problem, np.array([[100, 900], [900, 100], [800, 200]]))
    assert found.contradicted and found.heterogeneity > 0.2 and not found.values[0].stated


def test_what_holds_always_is_refused_on_learned_channels() -> None:
    problem = problem_of(clicks(np.array([[0.1, 0.9], [0.8, 0.3]])), np.full((2, 2), 50))
    with pytest.raises(ProblemError, match='holds: got "always"; expected "each" or "all", for the channels were learned'):
        law_of(problem, np.array([[4, 6], [5, 5]]), "always")


# The grid.


@pytest.mark.parametrize(("number", "runs"), [(2, 40), (6, 40), (8, 10), (12, 40), (13, 10), (15, 30), (19, 40)])
def test_a_small_part_of_the_grid(number: int, runs: int) -> None:
    """Cells of benchmarks/coverage_mix.py, few runs of each: a right 94 % would be below once in 10,000 times a cell."""
    for kind, found in coverage_mix.measure(number, runs).items():
        assert found.chance() > 1e-4, (coverage_mix.CELLS[number].name(), kind, found.coverage())
        assert found.refused <= 2


def test_the_table_says_what_failed_and_which_is_the_narrowest() -> None:
    good, bad = coverage_mix.Tally(refused=10), coverage_mix.Tally()
    for i in range(40):
        good.add(OURS, (0.0, 0.5), 0.25)
        good.add("wide", (0.0, 1.0), 0.25)
        good.add("narrow", (0.0, 0.1), 0.25)
        bad.add(OURS, (0.0, 0.4), 0.1 if i < 20 else 0.9)
    cell = coverage_mix.CELLS[0]
    text = coverage_mix.table([(cell, "each", good), (cell, "all", bad)])
    assert "| each | 40 | 20.0% | 100.0% | 0.50 | wide 100% at 2.00, narrow 0% at 0.20 |" in text[2]
    assert "50.0% **too few**" in text[3]
    assert (
        "1 of 2 lines have too few" in text[-1] and "somewhere: narrow (each)" in text[-1] and "at most 1.00 times" in text[-1]
    )
