"""What a simulation found: regret and pulls at checkpoints, their statistics, comparisons, and files of them.

Pseudo-regret counts n_k Δ_k with the exact gaps; realised regret compares the rewards of the same x_t. Memory is
O(replications × checkpoints × K), whatever the horizon.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater import __version__
from headwater.arrays import Floats, Ints
from headwater.errors import ProblemError, ResultsError
from headwater.files import parse_problem
from headwater.problem import Problem
from headwater.simulation.folders import folder_at

FORMAT, VERSION = "headwater-simulation", 1


class Outcome(NamedTuple):
    """One policy: ``pulls`` (N, C, K), realised ``reward`` (N, C), and rounds ``excluded`` (N, K) up to the horizon; -1 where
    they were not counted (the leap engine)."""

    pulls: Ints
    reward: Floats
    excluded: Ints


class Comparison(NamedTuple):
    """The regret of one policy less another's at the horizon, on the same x_t: mean, standard error, 95 % interval."""

    difference: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Simulation:
    """Results of several policies on the same x_t. Replication i is the same for all, also where some have fewer."""

    problem: Problem
    gaps: Floats
    best: int
    rounds: Ints
    seed: int
    reward_range: float
    quantisation_error: float
    oracle: Floats
    outcomes: Mapping[str, Outcome]
    seconds: float
    wanted: int
    engine: str = "step"
    reason: str = ""
    """Why this engine."""
    release: str = __version__
    """Of headwater, by which it was made."""

    def __repr__(self) -> str:
        policies = ", ".join(self.outcomes)
        return (
            f"<Simulation of {policies} on {self.problem.name or 'a problem'}: {self.replications} × {self.horizon:,} rounds>"
        )

    @property
    def horizon(self) -> int:
        return int(self.rounds[-1])

    @property
    def replications(self) -> int:
        return len(self.oracle)

    def regret(self, policy: str) -> Floats:
        """Pseudo-regret, shape (N, C)."""
        return np.asarray(self._outcome(policy).pulls @ self.gaps)

    def realised_regret(self, policy: str) -> Floats:
        """What the best arm would have paid on the same x_t, less what was paid: shape (N, C).

        Engines other than ``step`` take the best arm's mean instead.
        """
        reward = self._outcome(policy).reward
        return np.asarray(self.oracle[: len(reward)] - reward)

    def compare(self, first: str, second: str) -> Comparison:
        """Paired over replications; the common x_t are what makes the interval narrow (the leap engine has none)."""
        one, other = self.regret(first)[:, -1], self.regret(second)[:, -1]
        common = min(len(one), len(other))
        difference = one[:common] - other[:common]
        mean, error = float(difference.mean()), _standard_error(difference)
        return Comparison(mean, error, mean - 1.96 * error, mean + 1.96 * error)

    def with_more(self, other: Simulation) -> Simulation:
        """The same run with the policies of another one on the same draws: same problem, seed and checkpoints."""
        same = (self.problem, self.seed, self.reward_range) == (other.problem, other.seed, other.reward_range)
        if not same or not np.array_equal(self.rounds, other.rounds):
            raise ProblemError("with_more: expected a simulation of the same problem, seed, range and checkpoints")
        longer = self if len(self.oracle) >= len(other.oracle) else other
        outcomes = {**self.outcomes, **other.outcomes}
        return replace(longer, outcomes=outcomes, seconds=self.seconds + other.seconds)

    def _outcome(self, policy: str) -> Outcome:
        if policy not in self.outcomes:
            raise ProblemError(f"policy: got {policy}; expected one of {', '.join(self.outcomes)}")
        return self.outcomes[policy]

    def to_dict(self) -> dict[str, Any]:
        """The results under their fixed JSON keys."""
        names = list(self.outcomes)
        return {
            "problem": self.problem.name,
            "horizon": self.horizon,
            "replications": self.replications,
            "wanted": self.wanted,
            "seed": self.seed,
            "seconds": self.seconds,
            "engine": self.engine,
            "engine_reason": self.reason,
            "reward_range": self.reward_range,
            "quantisation_error": self.quantisation_error,
            "policies": {name: self._statistics(name) for name in names},
            "comparisons": [
                {"policy": name, "against": names[0], **self.compare(name, names[0])._asdict()} for name in names[1:]
            ],
        }

    def _statistics(self, policy: str) -> dict[str, Any]:
        regret, realised, outcome = self.regret(policy), self.realised_regret(policy), self._outcome(policy)
        low, middle, high = np.quantile(regret, [0.05, 0.5, 0.95], axis=0)
        arms, excluded = self.problem.names, outcome.excluded.mean(axis=0) / self.horizon
        return {
            "replications": len(regret),
            "rounds": self.rounds.tolist(),
            "regret_mean": regret.mean(axis=0).tolist(),
            "regret_se": [_standard_error(column) for column in regret.T],
            "regret_p05": low.tolist(),
            "regret_p50": middle.tolist(),
            "regret_p95": high.tolist(),
            "realised_regret_mean": realised.mean(axis=0).tolist(),
            "realised_regret_se": [_standard_error(column) for column in realised.T],
            "pulls_mean": dict(zip(arms, outcome.pulls[:, -1].mean(axis=0).tolist(), strict=True)),
            "excluded_share": None if np.any(outcome.excluded < 0) else dict(zip(arms, excluded.tolist(), strict=True)),
        }

    def save(self, folder: str | Path, *, command: str = "", overwrite: bool = False) -> None:
        """Write ``trajectories.parquet``, ``problem.toml`` and ``manifest.json``; the manifest last, so that a folder with one
        is whole. A folder that holds a simulation is left alone unless ``overwrite``. It may be an address, ``s3://…``."""
        import pyarrow.parquet as pq

        prepare_folder(folder, overwrite=overwrite)
        place, table, text = folder_at(folder), self._table(), self.problem.to_toml()
        manifest = json.dumps(self._manifest(command), indent=2, allow_nan=False)
        try:
            place.remove("manifest.json")
            with place.writing("trajectories.parquet") as file:
                pq.write_table(table, file, compression="zstd")
            for name, content in (("problem.toml", text), ("manifest.json", manifest)):
                with place.writing(name) as file:
                    file.write(content.encode())
        except OSError as error:
            raise ResultsError(f"{folder}: the results cannot be written: {error.strerror or error}") from None

    def _table(self) -> Any:
        """A row per policy, replication and checkpoint."""
        import pyarrow as pa

        tables = []
        for name, outcome in self.outcomes.items():
            n, c = outcome.reward.shape
            columns: dict[str, Any] = {
                "policy": pa.array([name] * (n * c)).dictionary_encode(),
                "replication": np.repeat(np.arange(n), c),
                "round": np.tile(self.rounds, n),
                "regret": self.regret(name).ravel(),
                "reward": outcome.reward.ravel(),
                "best_arm_reward": self.oracle[:n].ravel(),
            }
            for k, arm in enumerate(self.problem.names):
                columns[f"pulls:{arm}"] = outcome.pulls[:, :, k].ravel()
                columns[f"excluded:{arm}"] = np.repeat(outcome.excluded[:, k], c)
            tables.append(pa.table(columns))
        return pa.concat_tables(tables)

    def _manifest(self, command: str) -> dict[str, Any]:
        from importlib.metadata import version

        return {
            "format": FORMAT,
            "version": VERSION,
            "problem": self.problem.name,
            "digest": self.problem.digest,
            "best": self.best,
            "gaps": self.gaps.tolist(),
            "seed": self.seed,
            "horizon": self.horizon,
            "replications": self.replications,
            "wanted": self.wanted,
            "reward_range": self.reward_range,
            "quantisation_error": self.quantisation_error,
            "seconds": self.seconds,
            "engine": self.engine,
            "engine_reason": self.reason,
            "policies": list(self.outcomes),
            "command": command,
            "versions": {"headwater": self.release, "python": platform.python_version()}
            | {name: version(name) for name in ("numpy", "scipy")},
        }


def prepare_folder(folder: str | Path, *, overwrite: bool) -> None:
    """Make the folder for a simulation; refuse one that holds a simulation already."""
    place = folder_at(folder)
    try:
        if place.exists("manifest.json") and not overwrite:
            raise ProblemError(f"{folder}: holds a simulation already; choose another folder, or overwrite it (--force)")
        place.make()
    except OSError as error:
        raise ProblemError(f"{folder}: cannot hold a simulation: {error.strerror or error}") from None


def load_simulation(folder: str | Path) -> Simulation:
    """Read what ``Simulation.save`` wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place, path = folder_at(folder), f"{folder}/manifest.json"
    try:
        manifest = json.loads(place.read("manifest.json"))
    except OSError as error:
        raise ProblemError(
            f"{path}: cannot be read: {error.strerror or error}; expected a folder that headwater simulate wrote"
        ) from None
    except ValueError as error:
        raise ProblemError(f"{path}: is not JSON: {error}") from None
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
        raise ProblemError(f"{path}: expected a {FORMAT} manifest of version {VERSION}")
    try:
        problem = parse_problem(place.read("problem.toml").decode())
    except (OSError, ValueError) as error:
        raise ProblemError(f"{folder}/problem.toml: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        data = pq.read_table(pa.BufferReader(place.read("trajectories.parquet")))
    except (OSError, ValueError) as error:
        raise ProblemError(f"{folder}/trajectories.parquet: cannot be read: {error}") from None
    try:
        return _assemble(manifest, problem, data)
    except (KeyError, TypeError, ValueError) as error:
        raise ProblemError(f"{folder}: manifest.json and trajectories.parquet do not belong together: {error!r}") from None


def _assemble(manifest: dict[str, Any], problem: Problem, data: Any) -> Simulation:
    if manifest["digest"] != problem.digest:
        raise ValueError("problem.toml is of another problem")
    policy = np.array(data["policy"].to_pylist())
    outcomes: dict[str, Outcome] = {}
    rounds, oracle = np.unique(data["round"].to_numpy()), np.empty((0, 0))
    for name in manifest["policies"]:
        rows = data.filter(policy == name)
        if not rows.num_rows:
            raise ValueError(f"no rows of {name}")
        shape = (-1, len(rounds))
        pulls = np.stack([rows[f"pulls:{arm}"].to_numpy().reshape(shape) for arm in problem.names], axis=2)
        excluded = np.stack([rows[f"excluded:{arm}"].to_numpy().reshape(shape)[:, -1] for arm in problem.names], axis=1)
        outcomes[name] = Outcome(pulls, rows["reward"].to_numpy().reshape(shape), excluded)
        best = rows["best_arm_reward"].to_numpy().reshape(shape)
        oracle = best if len(best) > len(oracle) else oracle
    if len(oracle) != manifest["replications"] or rounds[-1] != manifest["horizon"]:
        raise ValueError(f"{len(oracle)} replications of {rounds[-1]} rounds")
    return Simulation(
        problem=problem,
        gaps=np.array(manifest["gaps"]),
        best=int(manifest["best"]),
        rounds=rounds,
        seed=int(manifest["seed"]),
        reward_range=float(manifest["reward_range"]),
        quantisation_error=float(manifest["quantisation_error"]),
        oracle=oracle,
        outcomes=outcomes,
        seconds=float(manifest["seconds"]),
        wanted=int(manifest["wanted"]),
        engine=str(manifest.get("engine", "step")),
        reason=str(manifest.get("engine_reason", "")),
        release=str(manifest["versions"]["headwater"]),
    )


def _standard_error(values: Floats) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
