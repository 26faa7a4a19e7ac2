"""Games and live policies in several threads at once: the same results as in one. ``make sanitize`` looks on for races."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np

from headwater import native
from headwater.arrays import Floats, Ints

ROUNDS = np.array([50, 400])
PAYS = np.array([[1, 2, 2, 0], [1, 0, 2, 1], [0, 2, 1, 2]])


def model_of(pays: Ints) -> native.Model:
    """Arms that pay ``pays[k, j]``, a level each, at atom j, and what each of these rewards says of the other arms."""
    arms, levels = len(pays), int(pays.max()) + 1
    table = np.zeros((arms, levels, arms + 1), dtype=np.int64)
    for k in range(arms):
        for m in range(levels):
            at = pays[k] == m
            table[k, m, :arms] = [m - (pays[ell, at].max() if at.any() else 0) for ell in range(arms)]
            table[k, m, arms] = m
    return native.Model(native.Rewards(table, 1.0, 0.0, float(levels - 1)))


def source_of(pays: Ints, p: Floats, seed: int) -> native.Source:
    thresholds = (np.cumsum(p)[:-1] * 2.0**53).astype(np.int64)
    return native.Source(thresholds, np.empty(0, dtype=np.int64), pays, np.empty((0, 0, 0), dtype=np.int64), seed)


MODEL = model_of(PAYS)
SOURCE = source_of(PAYS, np.array([0.2, 0.3, 0.1, 0.4]), 7)


def settings_of(rule: str) -> native.Settings:
    return native.Settings(rule=native.RULES[rule], seed=7, scale=2.0, sd=1.0, epsilon=0.1, filtered=1)


def play(rule: str, engine: str, first: int) -> Ints:
    pulls = np.zeros((20, len(ROUNDS), len(PAYS)), dtype=np.int64)
    reward, excluded = np.zeros(pulls.shape[:2], dtype=np.int64), np.zeros((20, len(PAYS)), dtype=np.int64)
    seat = native.Seat(settings_of(rule), pulls, reward, excluded)
    native.play(MODEL, SOURCE, ROUNDS, [seat], first, np.zeros(2, dtype=np.int64), 1, engine)
    return pulls


def decide(rule: str, replication: int) -> Ints:
    live, arms = native.Live(MODEL, settings_of(rule), replication), []
    for t in range(200):
        arms.append(live.select())
        live.pay(arms[-1], int(PAYS[arms[-1], t * t % 4]))
    return np.array(arms)


def test_games_in_threads_are_games_in_one() -> None:
    games = [
        (rule, engine, first) for rule in ("ucb1", "ts", "kl-ucb") for engine in ("serial", "lockstep") for first in (0, 20)
    ]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda game: play(*game), games))
    for game, pulls in zip(games, together, strict=True):
        assert np.array_equal(pulls, play(*game))
        assert (pulls.sum(axis=2) == ROUNDS).all()


def test_live_policies_in_threads_are_those_in_one() -> None:
    asked = list(product(("ucb1", "ts", "epsilon-greedy"), range(4)))
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda one: decide(*one), asked))
    assert all(np.array_equal(arms, decide(*one)) for one, arms in zip(asked, together, strict=True))
