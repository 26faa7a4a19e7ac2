"""simulate(): what it refuses, what it reports, what it keeps, and the atoms it draws from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import headwater as hw
from headwater import simulation
from headwater.errors import HeadwaterError, ProblemError
from headwater.paper import CASES
from headwater.policies import Policy, make_spec
from headwater.pseudo import model_of
from headwater.simulation import Simulation, load_simulation, log_checkpoints, simulate
from headwater.simulation.atoms import atoms_of
from oracle import drawn_atoms

PAPER = {case.id: case.problem for case in CASES}
ADS = hw.Problem(
    latent=hw.Discrete(["student", "worker", "retiree"]),
    arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]},
    distribution=[0.3, 0.4, 0.3],
    name="two ads",
)
POLICIES = ["ucb1", "c-ucb", "ts"]


@pytest.fixture(scope="module")
def run() -> Simulation:
    return simulate(PAPER["discrete-2"], policies=POLICIES, horizon=400, replications=300, seed=6, checkpoints=[1, 7, 100])


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policies": []}, r"policies: got \[\]; expected a list of at least one policy"),
        ({"policies": "ucb1"}, 'policies: got "ucb1"; expected a list of at least one policy'),
        ({"policies": make_spec("ucb1")}, "policies: got .*; expected a list of at least one policy"),
        ({"policies": None}, "policies: got null; expected a list of at least one policy"),
        ({"policies": ["ucb1", "c-ucb", "ucb1"]}, "policies: got ucb1 twice; expected each policy once"),
        ({"policies": ["ucb2"]}, 'policy: got "ucb2"; expected one of ucb1'),
        ({"policies": [3]}, "policy: got 3; expected one of ucb1"),
        ({"horizon": 0}, r"horizon: got 0; expected a whole number from 1 to 1,099,511,627,776"),
        ({"horizon": 10.0}, "horizon: got 10.0; expected a whole number"),
        ({"horizon": True}, "horizon: got true; expected a whole number"),
        ({"horizon": "10"}, 'horizon: got "10"; expected a whole number'),
        ({"replications": 0}, "replications: got 0; expected a whole number from 1 to 1,000,000,000"),
        ({"replications": -3}, "replications: got -3; expected a whole number"),
        ({"seed": -1}, "seed: got -1; expected a whole number from 0"),
        ({"seed": 2**64}, "seed: got 18446744073709551616; expected a whole number"),
        ({"seed": None}, "seed: got null; expected a whole number"),
        ({"threads": 0}, "threads: got 0; expected a whole number from 1 to"),
        ({"threads": 1.5}, "threads: got 1.5; expected a whole number from 1 to"),
        ({"reward_range": 0}, "reward_range: got 0; expected a number above 0"),
        ({"reward_range": -1.0}, "reward_range: got -1.0; expected a number above 0"),
        ({"reward_range": math.nan}, "reward_range: got NaN; expected a number above 0"),
        ({"reward_range": "4"}, 'reward_range: got "4"; expected a number above 0'),
        ({"checkpoints": [0]}, r"checkpoints: got \[0\]; expected whole numbers from 1 to the horizon 20"),
        ({"checkpoints": [21]}, r"checkpoints: got \[21\]; expected whole numbers from 1 to the horizon 20"),
        ({"checkpoints": [1.5]}, r"checkpoints: got \[1.5\]; expected whole numbers"),
        ({"checkpoints": []}, r"checkpoints: got \[\]; expected whole numbers"),
        ({"checkpoints": ["a"]}, r"checkpoints: got \[.a.\]; expected whole numbers"),
        ({"checkpoints": [True]}, r"checkpoints: got \[true\]; expected whole numbers"),
        ({"checkpoints": [[1], [2, 3]]}, r"checkpoints: got .*; expected whole numbers"),
        ({"distribution": [0.5, 0.5]}, r"distribution"),
        ({"distribution": [0.5, 0.6, -0.1]}, r"distribution"),
    ],
)
def test_bad_arguments(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"policies": ["ucb1"], "horizon": 20, "replications": 2}
    with pytest.raises(ProblemError, match=message):
        simulate(ADS, **(good | change))


def test_a_distribution_is_needed() -> None:
    bare = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": [0, 1], "b": [1, 0]})
    with pytest.raises(ProblemError, match="distribution: missing; a simulation needs to know how likely each value of X is"):
        simulate(bare, policies=["ucb1"], horizon=10, replications=1)
    given = simulate(bare, [0.5, 0.5], policies=["ucb1"], horizon=10, replications=1)
    assert given.gaps.tolist() == [0, 0]


def test_the_empirical_form_needs_finitely_many_rewards() -> None:
    with pytest.raises(ProblemError, match='form: got "empirical"; expected "bernoulli", because these arms have infinitely'):
        simulate(PAPER["continuous-1"], policies=[make_spec("c-kl-ucb", form="empirical")], horizon=10, replications=1)


def test_numpy_numbers_are_numbers(tmp_path: Path) -> None:
    options: dict[str, Any] = {"policies": ["c-ucb"]}
    plain = simulate(ADS, horizon=50, replications=3, seed=200, reward_range=2.0, **options)
    small: dict[str, Any] = {"horizon": np.int32(50), "replications": np.int8(3), "seed": np.uint8(200)}
    numbers = simulate(ADS, reward_range=np.float64(2), **small, **options)
    np.testing.assert_array_equal(plain.regret("c-ucb"), numbers.regret("c-ucb"))
    numbers.save(tmp_path)
    json.dumps(numbers.to_dict(), allow_nan=False)


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 999, 1000, 1001, 50_000, 2**40])
def test_log_checkpoints(horizon: int) -> None:
    rounds = log_checkpoints(horizon)
    assert rounds[0] == 1 and rounds[-1] == horizon
    assert (np.diff(rounds) > 0).all()
    assert len(rounds) <= 12 * math.log10(horizon) + 3


def test_checkpoints_end_at_the_horizon() -> None:
    given = simulate(ADS, policies=["ucb1"], horizon=30, replications=2, checkpoints=[20, 5, 5])
    assert given.rounds.tolist() == [5, 20, 30]
    assert given.horizon == 30
    default = simulate(ADS, policies=["ucb1"], horizon=30, replications=2)
    assert default.rounds.tolist() == log_checkpoints(30).tolist()
    common = np.isin(default.rounds, given.rounds)
    np.testing.assert_array_equal(
        default.regret("ucb1")[:, common], given.regret("ucb1")[:, np.isin(given.rounds, default.rounds)]
    )


def test_a_horizon_of_one() -> None:
    one = simulate(ADS, policies=["ucb1", "c-ts"], horizon=1, replications=1)
    assert one.rounds.tolist() == [1]
    assert one.outcomes["c-ts"].pulls.tolist() == [[[1, 0]]]
    assert one.to_dict()["policies"]["ucb1"]["regret_se"] == [0.0], "one replication has no spread"


# --- what changes nothing --------------------------------------------------------------------------------------------


def test_policies_replications_threads_and_chunks_change_nothing(run: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"horizon": 400, "seed": 6, "checkpoints": [1, 7, 100]}
    alone = simulate(PAPER["discrete-2"], policies=["c-ucb"], replications=300, threads=1, **options)
    fewer = simulate(PAPER["discrete-2"], policies=list(reversed(POLICIES)), replications=37, threads=2, **options)
    monkeypatch.setattr(simulation, "CHUNK", 41)
    monkeypatch.setattr(simulation, "ROUNDS", 0)
    chunked = simulate(PAPER["discrete-2"], policies=POLICIES, replications=300, **options)
    for name in POLICIES:
        for part, other in zip(run.outcomes[name], chunked.outcomes[name], strict=True):
            np.testing.assert_array_equal(part, other)
        for part, other in zip(run.outcomes[name], fewer.outcomes[name], strict=True):
            np.testing.assert_array_equal(part[:37], other)
    for part, other in zip(run.outcomes["c-ucb"], alone.outcomes["c-ucb"], strict=True):
        np.testing.assert_array_equal(part, other)
    np.testing.assert_array_equal(run.oracle, alone.oracle)
    np.testing.assert_array_equal(run.oracle, chunked.oracle)


def test_another_seed_is_another_run(run: Simulation) -> None:
    other = simulate(PAPER["discrete-2"], policies=["ucb1"], horizon=400, replications=300, seed=7, checkpoints=[1, 7, 100])
    assert not np.array_equal(run.oracle, other.oracle)
    assert not np.array_equal(run.regret("ucb1"), other.regret("ucb1"))


def test_a_live_policy_is_a_replication(run: Simulation) -> None:
    problem = PAPER["discrete-2"]
    assert problem.distribution is not None
    atoms = atoms_of(problem, problem.distribution)
    for name in POLICIES:
        policy = Policy(make_spec(name), problem, seed=6, replication=299)
        total = 0.0
        for j in drawn_atoms(atoms.probability, 6, 299, 400):
            arm = problem.index(policy.select())
            total += problem.rewards[arm, j]
            policy.update(arm, float(problem.rewards[arm, j]))
        assert list(policy.pulls.values()) == run.outcomes[name].pulls[299, -1].tolist()
        assert total == pytest.approx(run.outcomes[name].reward[299, -1])


# --- statistics ------------------------------------------------------------------------------------------------------


def test_statistics_by_hand(run: Simulation) -> None:
    found = run.to_dict()
    assert (found["horizon"], found["replications"], found["seed"], found["problem"]) == (400, 300, 6, "discrete case 2")
    assert found["reward_range"] == 4 and found["quantisation_error"] == 0 and found["seconds"] > 0
    assert list(found["policies"]) == POLICIES
    json.dumps(found, allow_nan=False)
    gaps = [0.63, 0.57, 0.0]
    for name in POLICIES:
        ours, outcome = found["policies"][name], run.outcomes[name]
        assert ours["rounds"] == [1, 7, 100, 400]
        for c in range(4):
            regret = sorted(sum(g * n for g, n in zip(gaps, pulls, strict=True)) for pulls in outcome.pulls[:, c].tolist())
            mean = math.fsum(regret) / 300
            assert ours["regret_mean"][c] == pytest.approx(mean)
            spread = math.sqrt(math.fsum((r - mean) ** 2 for r in regret) / 299 / 300)
            assert ours["regret_se"][c] == pytest.approx(spread, abs=1e-12)
            for key, q in (("regret_p05", 0.05), ("regret_p50", 0.5), ("regret_p95", 0.95)):
                at = q * 299
                below, above = regret[math.floor(at)], regret[math.ceil(at)]
                assert ours[key][c] == pytest.approx(below + (at - math.floor(at)) * (above - below))
            realised = run.oracle[:, c] - outcome.reward[:, c]
            assert ours["realised_regret_mean"][c] == pytest.approx(realised.mean())
            assert ours["realised_regret_se"][c] == pytest.approx(realised.std(ddof=1) / math.sqrt(300))
        assert sum(ours["pulls_mean"].values()) == pytest.approx(400)
        assert ours["pulls_mean"]["arm 3"] == pytest.approx(outcome.pulls[:, -1, 2].mean())
        assert ours["excluded_share"]["arm 1"] == pytest.approx(outcome.excluded[:, 0].mean() / 400)
        assert (outcome.excluded == 0).all() or name == "c-ucb"
    assert run.outcomes["c-ucb"].excluded.any()


def test_comparisons_are_paired(run: Simulation) -> None:
    difference = run.regret("c-ucb")[:, -1] - run.regret("ucb1")[:, -1]
    mean, error = difference.mean(), difference.std(ddof=1) / math.sqrt(300)
    assert run.compare("c-ucb", "ucb1") == pytest.approx((mean, error, mean - 1.96 * error, mean + 1.96 * error))
    assert run.compare("ucb1", "c-ucb").difference == pytest.approx(-mean)
    assert run.compare("ts", "ts") == (0, 0, 0, 0)
    first, second = run.to_dict()["comparisons"]
    assert (first["policy"], first["against"], second["policy"]) == ("c-ucb", "ucb1", "ts")
    assert first["difference"] == pytest.approx(mean)


def test_unknown_policies_are_refused(run: Simulation) -> None:
    for ask in (run.regret, run.realised_regret, lambda name: run.compare("ucb1", name)):
        with pytest.raises(ProblemError, match="policy: got kl-ucb; expected one of ucb1, c-ucb, ts"):
            ask("kl-ucb")


@pytest.mark.parametrize("name", ["discrete-1", "discrete-3", "vector-1", "continuous-2"])
def test_realised_and_pseudo_regret_agree_in_mean(name: str) -> None:
    """Their difference is a martingale: within 4.9 standard errors, a false-alarm probability of 1e-6, fixed seed."""
    result = simulate(PAPER[name], policies=["ucb1", "c-ucb"], horizon=300, replications=400, seed=3)
    for policy in ("ucb1", "c-ucb"):
        difference = result.realised_regret(policy) - result.regret(policy)
        error = difference.std(axis=0, ddof=1) / math.sqrt(400)
        slack = 2 * result.quantisation_error * result.rounds + 1e-6
        assert (abs(difference.mean(axis=0)) <= 4.9 * error + slack).all()


def test_rewards_add_up_from_pulls_when_arms_are_constant() -> None:
    problem = hw.Problem(latent=hw.Discrete(["x", "y"]), arms={"a": [1, 1], "b": [2.5, 2.5]}, distribution=[0.2, 0.8])
    result = simulate(problem, policies=["ucb1", "c-ucb", "c-ts"], horizon=100, replications=5)
    for name, outcome in result.outcomes.items():
        np.testing.assert_allclose(outcome.reward, outcome.pulls @ [1, 2.5])
        np.testing.assert_allclose(result.realised_regret(name), result.regret(name))
    # the one pull of a shows that b may pay 2.5; b then rules a out for good
    assert (result.outcomes["c-ucb"].pulls[:, -1] == [1, 99]).all()


def test_policies_with_more_can_be_joined(run: Simulation) -> None:
    options: dict[str, Any] = {"horizon": 400, "seed": 6, "checkpoints": [1, 7, 100]}
    joined = run.with_more(simulate(PAPER["discrete-2"], policies=["kl-ucb"], replications=20, **options))
    assert list(joined.outcomes) == [*POLICIES, "kl-ucb"]
    assert joined.regret("kl-ucb").shape == (20, 4) and joined.realised_regret("kl-ucb").shape == (20, 4)
    expected = joined.regret("kl-ucb")[:, -1] - run.regret("ucb1")[:20, -1]
    assert joined.compare("kl-ucb", "ucb1").difference == pytest.approx(expected.mean())
    with pytest.raises(ProblemError, match="with_more: expected a simulation of the same problem, seed, range and checkpoints"):
        run.with_more(simulate(PAPER["discrete-2"], policies=["kl-ucb"], replications=2, **(options | {"seed": 7})))


# --- files -----------------------------------------------------------------------------------------------------------


def test_save_and_load(run: Simulation, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "results"
    run.save(folder, command="headwater simulate …")
    again = load_simulation(folder)
    assert again.problem == run.problem and again.seed == run.seed and again.best == run.best
    assert again.to_dict() == run.to_dict()
    for name in POLICIES:
        for part, other in zip(run.outcomes[name], again.outcomes[name], strict=True):
            np.testing.assert_array_equal(part, other)
    np.testing.assert_array_equal(run.oracle, again.oracle)
    np.testing.assert_array_equal(run.gaps, again.gaps)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["command"] == "headwater simulate …" and manifest["digest"] == run.problem.digest
    assert {"headwater", "numpy", "scipy", "python"} <= set(manifest["versions"])


def test_saving_again_replaces_only_when_told_to(run: Simulation, tmp_path: Path) -> None:
    run.save(tmp_path)
    other = simulate(ADS, policies=["c-ts"], horizon=20, replications=4)
    with pytest.raises(ProblemError, match="holds a simulation already; choose another folder, or overwrite it"):
        other.save(tmp_path)
    assert load_simulation(tmp_path).to_dict() == run.to_dict()
    with pytest.raises(ProblemError, match=r"manifest\.json: cannot hold a simulation: "):
        other.save(tmp_path / "manifest.json")
    other.save(tmp_path, overwrite=True)
    assert load_simulation(tmp_path).to_dict() == other.to_dict()


@pytest.mark.parametrize("name", ["continuous-2", "vector-2"])
def test_other_kinds_are_saved_too(name: str, tmp_path: Path) -> None:
    result = simulate(PAPER[name], policies=["c-ucb"], horizon=50, replications=3)
    result.save(tmp_path)
    assert load_simulation(tmp_path).to_dict() == result.to_dict()


def _edit(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value is not None}), encoding="utf-8")


def _truncate(folder: Path) -> None:
    path = folder / "trajectories.parquet"
    path.write_bytes(path.read_bytes()[:-200])


def _other_problem(folder: Path) -> None:
    (folder / "problem.toml").write_text(PAPER["discrete-1"].to_toml(), encoding="utf-8")


def _foreign_parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1, 2, 3]}), folder / "trajectories.parquet")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "manifest.json").unlink(), r"manifest.json: cannot be read: .*; expected a folder that headwater"),
        (lambda f: (f / "manifest.json").write_text("{"), "manifest.json: is not JSON"),
        (
            lambda f: (f / "manifest.json").write_text("[]"),
            "manifest.json: expected a headwater-simulation manifest of version 1",
        ),
        (lambda f: _edit(f, format="other"), "manifest.json: expected a headwater-simulation manifest of version 1"),
        (lambda f: _edit(f, version=2), "manifest.json: expected a headwater-simulation manifest of version 1"),
        (lambda f: _edit(f, gaps=None), "do not belong together: KeyError.*gaps"),
        (lambda f: _edit(f, policies=["ucb1", "zz"]), "do not belong together"),
        (lambda f: _edit(f, policies=3), "do not belong together"),
        (lambda f: _edit(f, replications=7), "do not belong together"),
        (lambda f: (f / "trajectories.parquet").unlink(), "trajectories.parquet: cannot be read"),
        (_truncate, "trajectories.parquet: cannot be read"),
        (_foreign_parquet, "do not belong together"),
        (lambda f: (f / "problem.toml").unlink(), "problem.toml"),
        (_other_problem, r"do not belong together: .*problem.toml is of another problem"),
    ],
)
def test_damaged_folders_are_refused(damage: Any, message: str, tmp_path: Path) -> None:
    simulate(ADS, policies=["ucb1", "c-ucb"], horizon=20, replications=3).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(HeadwaterError, match=message):
        load_simulation(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"cannot be read: .*; expected a folder that headwater simulate wrote"):
        load_simulation(tmp_path / "nothing")


# --- interrupts and progress -----------------------------------------------------------------------------------------


class Stop:
    """A progress bar whose owner presses Ctrl-C when the n-th policy of any chunk begins (50 rounds, ten runs a chunk)."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls: list[tuple[int, int]] = []
        self.begun: list[int] = []

    def __call__(self, done: int, total: int) -> None:
        self.calls.append((done, total))
        if done % 250 == 0 and done not in self.begun:  # within a chunk fewer rounds than that are told
            self.begun.append(done)
            if len(self.begun) == self.at:
                raise KeyboardInterrupt


@pytest.mark.parametrize(("at", "kept"), [(2, 10), (3, 20)])
def test_an_interrupt_keeps_whole_chunks(at: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two policies, chunks of ten, both played at once: report n is the n-th chunk's beginning."""
    monkeypatch.setattr(simulation, "CHUNK", 10)
    monkeypatch.setattr(simulation, "ROUNDS", 0)
    options: dict[str, Any] = {"policies": ["ucb1", "c-ucb"], "horizon": 50, "seed": 4}
    part = simulate(ADS, replications=25, progress=Stop(at), **options)
    assert (part.replications, part.wanted) == (kept, 25)
    whole = simulate(ADS, replications=25, **options)
    for name in ("ucb1", "c-ucb"):
        np.testing.assert_array_equal(part.regret(name), whole.regret(name)[:kept])
        np.testing.assert_array_equal(part.realised_regret(name), whole.realised_regret(name)[:kept])


def test_an_interrupt_with_nothing_kept_is_raised() -> None:
    with pytest.raises(KeyboardInterrupt):
        simulate(ADS, policies=["ucb1", "c-ucb"], horizon=50, replications=25, progress=Stop(1))


def test_an_interrupted_run_is_saved_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "CHUNK", 10)
    monkeypatch.setattr(simulation, "ROUNDS", 0)
    part = simulate(ADS, policies=["ucb1"], horizon=50, replications=25, progress=Stop(2))
    part.save(tmp_path)
    again = load_simulation(tmp_path)
    assert (again.replications, again.wanted) == (10, 25)


def test_progress_counts_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "CHUNK", 10)
    monkeypatch.setattr(simulation, "ROUNDS", 0)
    bar = Stop(0)
    simulate(ADS, policies=["ucb1", "c-ucb"], horizon=50, replications=25, progress=bar)
    done = [d for d, _ in bar.calls]
    assert done == sorted(done) and done[0] == 0 and done[-1] == 50 * 25 * 2
    assert {total for _, total in bar.calls} == {50 * 25 * 2}


# --- atoms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if case.id.startswith("continuous")], ids=lambda case: case.id)
def test_quantising_is_stated_and_small(case: Any) -> None:
    """The error covers the distance of the atoms' means from scipy's integral, and is below 1e-4 of B."""
    problem = case.problem
    atoms = atoms_of(problem, problem.distribution)
    assert 0 < atoms.error < 1e-4
    assert len(atoms.probability) == 65_536 and atoms.probability.sum() == pytest.approx(1)
    a, b = {"1": (4, 4), "2": (2, 5), "3": (1, 5)}[case.id.split("-")[1]]
    rate = 2.0 if "variant" in case.id else 2.5
    g = [
        lambda x: math.exp(-((x - 0.5) ** 2) / 0.08) / (2 * math.sqrt(2 * math.pi * 0.04)),
        lambda x: 1 - math.exp(-rate * x),
        lambda x: 0.5,
    ]
    for k in range(3):
        exact = stats.beta(a, b).expect(g[k])
        paid = atoms.values[k][atoms.level[k]]
        assert abs(paid @ atoms.probability - exact) <= atoms.error + 1e-9
        # and what the engine counts, in units rounded down
        units = atoms.cells[k, atoms.level[k], -1] * atoms.unit
        assert ((paid - units >= 0) & (paid - units <= atoms.unit * (1 + 1e-6))).all()
    result = simulate(problem, policies=["ucb1"], horizon=10, replications=2)
    assert result.quantisation_error == atoms.error


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_listed_problems_are_exact(case: Any) -> None:
    problem = case.problem
    if case.id.startswith(("continuous", "appendix")):
        return
    atoms = atoms_of(problem, problem.distribution)
    assert atoms.error == 0
    for k in range(len(problem.names)):
        np.testing.assert_array_equal(atoms.values[k][atoms.level[k]], problem.rewards[k])
        np.testing.assert_allclose(atoms.cells[k, atoms.level[k], -1] * atoms.unit, problem.rewards[k], rtol=1e-15)
        for ell in range(len(problem.names)):
            for j in range(problem.rewards.shape[1]):
                alike = problem.rewards[k] == problem.rewards[k, j]
                s = problem.rewards[ell, alike].max()
                assert atoms.cells[k, atoms.level[k, j], ell] * atoms.unit == pytest.approx(problem.rewards[k, j] - s)


def test_atoms_of_a_continuum_never_underestimate() -> None:
    """Excesses are never above what the exact pseudo-reward says."""
    problem = PAPER["continuous-2"]
    assert problem.distribution is not None
    atoms = atoms_of(problem, problem.distribution)
    for k in range(3):
        at = np.unique(np.linspace(0, len(atoms.values[k]) - 1, 300).astype(int))
        value = atoms.values[k][at]
        for ell in range(3):
            s = np.asarray(hw.pseudo_reward(problem, target=ell, observed=k, reward=value))
            excess = atoms.cells[k, at, ell] * atoms.unit
            assert (excess <= value - s + 1e-12).all()
            assert (excess >= value - s - 2.1 * atoms.unit).all() or ell == k


def test_sample_distributions() -> None:
    """A sample is its own list of atoms, for listed and for continuous X."""
    line = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": "x", "b": "1 - x"})
    law = {"sample": [0.1, 0.2, 0.9], "weights": [1, 1, 2]}
    result = simulate(line, law, policies=["ucb1", "c-ucb"], horizon=2000, replications=20, seed=2, checkpoints=[2000])
    assert result.gaps == pytest.approx([0, 0.05]) and result.best == 0
    assert result.quantisation_error == pytest.approx(0, abs=1e-12)
    # 40,000 draws of x: the oracle's mean is within 4.9 standard errors of 0.525 (false alarm 1e-6)
    assert result.oracle.sum() / 40_000 == pytest.approx(0.525, abs=4.9 * 0.38 / 200)
    grid = hw.Problem(latent=hw.Vector({"x": [0, 1], "y": [0, 1, 2]}), arms={"a": "x + y", "b": "y - x"})
    sample = {"sample": [[0, 1], [1, 2], [1, 0]]}
    listed = simulate(grid, sample, policies=["c-ucb"], horizon=50, replications=2)
    assert listed.gaps == pytest.approx([0, 4 / 3])


def test_factored_arm_laws_are_right() -> None:
    """24 coins, never listed: each arm's law by hand, and the atoms' marginals."""
    p = np.linspace(0.2, 0.8, 24)
    problem = hw.Problem(
        latent=hw.Vector({f"x{i}": [0, 1] for i in range(24)}),
        arms={"a": "x0 + x1", "b": "2*x2 - x3", "c": "x4*x5 + x6", "total": " + ".join(f"x{i}" for i in range(24))},
        distribution={f"x{i}": [1 - q, q] for i, q in enumerate(p)},
    )
    assert problem.distribution is not None
    atoms = atoms_of(problem, problem.distribution)
    assert atoms.error == 0 and atoms.probability.sum() == pytest.approx(1) and (atoms.probability > 0).all()
    both = p[4] * p[5]
    poisson = np.ones(1)
    for q in p:
        poisson = np.convolve(poisson, [1 - q, q])
    laws: list[dict[float, float]] = [
        {0: (1 - p[0]) * (1 - p[1]), 1: p[0] * (1 - p[1]) + p[1] * (1 - p[0]), 2: p[0] * p[1]},
        {-1: (1 - p[2]) * p[3], 0: (1 - p[2]) * (1 - p[3]), 1: p[2] * p[3], 2: p[2] * (1 - p[3])},
        {0: (1 - both) * (1 - p[6]), 1: both * (1 - p[6]) + (1 - both) * p[6], 2: both * p[6]},
        {float(n): float(w) for n, w in enumerate(poisson)},
    ]
    for k, law in enumerate(laws):
        weight = np.bincount(atoms.level[k], weights=atoms.probability, minlength=len(law))
        assert dict(zip(atoms.values[k].tolist(), weight, strict=True)) == pytest.approx(law, abs=1e-12)
    result = simulate(problem, policies=["ucb1", "c-ucb"], horizon=200, replications=20)
    mu = [sum(v * w for v, w in law.items()) for law in laws]
    assert result.gaps == pytest.approx(max(mu) - np.array(mu))


def test_reward_range_is_the_problems_unless_given() -> None:
    own = simulate(ADS, policies=["ucb1"], horizon=20, replications=2)
    assert own.reward_range == model_of(ADS).reward_range == 1.5
    wide = hw.Problem(latent=ADS.latent, arms={"banner": [1, 2, 2], "video": [1.5, 0, 1.5]}, reward_range=9)
    assert simulate(wide, [0.3, 0.4, 0.3], policies=["ucb1"], horizon=20, replications=2).reward_range == 9
    assert simulate(wide, [0.3, 0.4, 0.3], policies=["ucb1"], horizon=20, replications=2, reward_range=2).reward_range == 2


def test_b_of_one_has_the_regret_errata_states() -> None:
    """ERRATA 10: B = 1 cuts UCB1 to 52 / 67 / 106 at T = 5000; within three standard errors of a difference of two means."""
    for number, printed in ((1, 52), (2, 67), (3, 106)):
        result = simulate(
            PAPER[f"discrete-{number}"],
            policies=["ucb1"],
            horizon=5000,
            replications=500,
            seed=1,
            reward_range=1,
            checkpoints=[5000],
        )
        regret = result.regret("ucb1")[:, -1]
        error = math.sqrt(2) * regret.std(ddof=1) / math.sqrt(500)
        assert abs(regret.mean() - printed) < 3 * error + 0.5
