"""Which engine runs what: chosen, refused, said, stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import headwater as hw
from headwater.cli import app
from headwater.errors import ProblemError
from headwater.policies.rules import make_spec
from headwater.pseudo import model_of
from headwater.simulation.atoms import atoms_of
from headwater.simulation.engine import expected_rewards, make_model
from headwater.simulation.engines import LEVELS, LONG, choose_engine, leap_reason

ADS = hw.Problem(
    latent=hw.Discrete(["student", "worker", "retiree"]),
    arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]},
    distribution=[0.3, 0.4, 0.3],
)
COINS = hw.Problem(
    latent=hw.Discrete(["x", "y"]),
    arms={"sure": [0.2, 0.6], "coin": {"outcomes": [0, 1], "probabilities": [[0.9, 0.1], [0.3, 0.7]]}},
    distribution=[0.5, 0.5],
)
MANY = hw.Problem(
    latent=hw.Discrete([f"x{j}" for j in range(LEVELS + 1)]),
    arms={"steps": [j / LEVELS for j in range(LEVELS + 1)], "flat": [0.4] * (LEVELS + 1)},
    distribution=[1 / (LEVELS + 1)] * (LEVELS + 1),
)


def model(problem: hw.Problem) -> Any:
    assert problem.distribution is not None
    return make_model(atoms_of(problem, problem.distribution), scale=model_of(problem).reward_range)


def specs(*names: str) -> list[Any]:
    return [make_spec(name) for name in names]


@pytest.mark.parametrize(
    ("problem", "names", "horizon", "engine", "words"),
    [
        (ADS, ("ucb1", "c-ucb"), LONG - 1, "step", "every policy sees the same x_t"),
        (ADS, ("ucb1", "c-ucb", "kl-ucb", "c-kl-ucb"), LONG, "leap", "every policy decides by counts alone"),
        (ADS, ("ucb1", "c-ts"), LONG, "step", "leaping is not possible (policy: got c-ts;"),
        (MANY, ("ucb1",), LONG, "step", "more than 64 different rewards"),
        (COINS, ("ucb1", "kl-ucb"), LONG, "leap", "every policy decides by counts alone"),
        (COINS, ("c-ucb",), LONG, "step", "with random rewards"),
    ],
)
def test_auto_chooses_and_says_why(problem: hw.Problem, names: Any, horizon: int, engine: str, words: str) -> None:
    choice = choose_engine("auto", model(problem), specs(*names), horizon)
    assert choice.engine == engine and words in choice.reason


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (make_spec("ts"), ADS),
        (make_spec("c-ts", sd="estimated"), ADS),
        (make_spec("joint-ucb"), ADS),
        (make_spec("kl-ucb", form="empirical"), ADS),
        (make_spec("c-ucb", reference="well-pulled"), ADS),
        (make_spec("c-ucb", audit=1), ADS),
        (make_spec("c-ucb"), COINS),
    ],
    ids=lambda x: getattr(x, "title", ""),
)
def test_what_cannot_leap_is_refused_with_a_reason(spec: Any, problem: hw.Problem) -> None:
    reason = leap_reason(model(problem), spec)
    assert reason is not None and spec.title in reason
    with pytest.raises(ProblemError, match="engine: leap cannot do this: policy: got "):
        hw.simulate(problem, policies=[spec], horizon=100, replications=2, engine="leap")


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProblemError, match=r'engine: got "fast"; expected one of auto, step, leap, cuda'):
        hw.simulate(ADS, policies=["ucb1"], horizon=10, replications=1, engine="fast")
    monkeypatch.setattr("headwater.simulation.cuda.cuda_reason", lambda model, spec: "arms: got 3; expected 2")
    with pytest.raises(ProblemError, match=r"engine: cuda cannot do this: arms: got 3; expected 2"):
        hw.simulate(ADS, policies=["ucb1"], horizon=10, replications=1, engine="cuda")


def test_leaping_through_the_front_door(tmp_path: Path) -> None:
    run = hw.simulate(ADS, policies=["ucb1", "c-ucb"], horizon=10**9, replications=20, seed=3, folder=tmp_path / "run")
    assert run.engine == "leap" and "1,000,000,000 rounds" in run.reason
    assert np.all(run.outcomes["ucb1"].pulls[:, -1].sum(axis=1) == 10**9)
    row = run.to_dict()["policies"]["c-ucb"]
    assert row["excluded_share"] is None, "which rounds excluded an arm is not known"
    assert row["realised_regret_mean"][-1] == pytest.approx(row["regret_mean"][-1], abs=6 * row["realised_regret_se"][-1])
    assert hw.load_simulation(tmp_path / "run").to_dict() == run.to_dict()
    again = hw.simulate(ADS, policies=["ucb1", "c-ucb"], horizon=10**9, replications=20, seed=3)
    np.testing.assert_array_equal(run.regret("ucb1"), again.regret("ucb1"))
    with pytest.raises(ProblemError, match="holds a simulation by the engine leap; expected step"):
        hw.simulate(
            ADS, policies=["c-ucb"], horizon=10**9, replications=20, seed=3, folder=tmp_path / "run", resume=True, engine="step"
        )


def test_the_mean_of_an_arm() -> None:
    assert expected_rewards(model(ADS), 0) == pytest.approx(1.7)
    assert expected_rewards(model(COINS), 1) == pytest.approx(0.4)


def test_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "ads.toml"
    file.write_text(ADS.to_toml(), encoding="utf-8")
    arguments = ["simulate", str(file), "--horizon", str(10**10), "--replications", "10", "--seed", "1"]
    found = CliRunner().invoke(app, [*arguments, "--json"])
    result = json.loads(found.stdout)
    assert result["engine"] == "leap" and "10,000,000,000 rounds" in result["engine_reason"]
    shown = CliRunner().invoke(app, arguments)
    assert "engine: leap, 10,000,000,000 rounds" in shown.stdout and "paired" not in shown.stdout
    stepped = CliRunner().invoke(app, ["simulate", str(file), "--horizon", "50", "--replications", "3"])
    assert "engine: step, fewer than 10,000,000 rounds" in stepped.stdout and "paired" in stepped.stdout
