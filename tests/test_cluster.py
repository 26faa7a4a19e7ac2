"""Runs on a cluster and in pieces: real workers, schedulers, signals and full disks, and always the same results."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater import cli, simulation
from headwater.errors import ClusterError, ProblemError, ResultsError
from headwater.policies.rules import Spec, make_spec
from headwater.simulation import Simulation, cluster, jobs, load_simulation, make_job, simulate
from headwater.simulation.chunks import Chunk, run_chunk
from headwater.simulation.folders import folder_at
from headwater.simulation.store import ChunkStore, decode, encode
from service_tools import PATIENT

ROOT = Path(__file__).parent.parent
ADS = ROOT / "examples" / "ads.toml"
PROBLEM = hw.load_problem(ADS)
RUN: dict[str, Any] = {"policies": ["ucb1", "c-ucb"], "horizon": 60, "replications": 95, "seed": 4}
CHUNKS = 30  # ten ranges of replications, for two policies and the best arm


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "CHUNK", 10)
    monkeypatch.setattr(simulation, "ROUNDS", 0)


@pytest.fixture(scope="module")
def whole() -> Simulation:
    return simulate(PROBLEM, **RUN)


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    with cluster.local_cluster(2) as client:
        yield client


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    """The chunks that are run in this process from now on."""
    run: list[Chunk] = []

    def count(chunk: Chunk, *rest: Any, **more: Any) -> Any:
        run.append(chunk)
        return run_chunk(chunk, *rest, **more)

    monkeypatch.setattr(jobs, "run_chunk", count)
    return run


def same(one: Simulation, other: Simulation) -> None:
    """Every bit."""
    assert list(one.outcomes) == list(other.outcomes)
    assert one.problem == other.problem and (one.seed, one.wanted, one.best) == (other.seed, other.wanted, other.best)
    pairs = [(one.oracle, other.oracle), (one.rounds, other.rounds), (one.gaps, other.gaps)]
    for name in one.outcomes:
        pairs += zip(one.outcomes[name], other.outcomes[name], strict=True)
    for a, b in pairs:
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def stop_at(share: float) -> Callable[[int, int], None]:
    """Ctrl-C when this share of the rounds is done."""

    def progress(done: int, total: int) -> None:
        if done >= share * total and not told:
            told.append(done)
            raise KeyboardInterrupt

    told: list[int] = []
    return progress


def chunk_files(folder: Path) -> list[Path]:
    return sorted((folder / "chunks").glob("*.chunk"))


# --- chunks ----------------------------------------------------------------------------------------------------------


def test_a_key_is_the_content() -> None:
    def keys(**change: Any) -> list[str]:
        return [chunk.key for chunk in make_job(PROBLEM, **(RUN | change), portable=True).chunks]

    first = keys()
    assert first == keys() and len(set(first)) == len(first) == 3
    again = subprocess.run(
        [sys.executable, "-c", f"import headwater.simulation as s, headwater as hw; print([c.key for c in s.make_job("
         f"hw.load_problem({str(ADS)!r}), **{RUN!r}, portable=True).chunks])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert again.stdout.strip() == str(first)
    for change in ({"seed": 5}, {"horizon": 61}, {"reward_range": 3.0}, {"checkpoints": [3]}, {"replications": 94}):
        assert not set(keys(**change)) & set(first)
    assert set(keys(policies=["ucb1", "ts"])) & set(first)
    assert len(set(keys(policies=["ts"])) & set(keys(policies=[make_spec("ts", sd="estimated")]))) == 1, "the best arm's alone"
    assert not set(keys(distribution=[0.2, 0.3, 0.4, 0.1])) & set(first)


def test_a_chunk_is_all_that_a_worker_needs(whole: Simulation) -> None:
    for chunk in make_job(PROBLEM, **RUN, portable=True).chunks:
        got = run_chunk(chunk)
        if chunk.spec is None:
            assert got.reward.tobytes() == whole.oracle.tobytes() and got.pulls.shape[2] == 0
        else:
            assert got.pulls.tobytes() == whole.outcomes[chunk.spec.title].pulls.tobytes()


def test_functions_stay_in_this_process(tmp_path: Path) -> None:
    law = {"name": "beta", "a": 2, "b": 2}
    problem = hw.Problem(latent=hw.Continuous([0, 1]), arms={"a": lambda x: x, "b": "0.4"}, distribution=law)
    assert simulate(problem, policies=["ucb1"], horizon=5, replications=2).replications == 2
    with pytest.raises(ProblemError, match="write it as an expression"):
        simulate(problem, policies=["ucb1"], horizon=5, replications=2, folder=tmp_path)


# --- folders and chunks in them --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
def test_a_run_in_a_folder(scheme: str, tmp_path: Path, whole: Simulation, small: None, counted: list[Chunk]) -> None:
    folder = f"{scheme}{tmp_path}/deep/run"
    part = simulate(PROBLEM, **RUN, folder=folder, progress=stop_at(0.5))
    assert 0 < part.replications < 95 and len(counted) < CHUNKS
    assert load_simulation(folder).replications == part.replications
    done = len(counted) - 1  # the last was stopped
    same(simulate(PROBLEM, **RUN, folder=folder, resume=True), whole)
    assert done <= CHUNKS - (len(counted) - done - 1) <= done + 1
    same(load_simulation(folder), whole)
    assert folder_at(folder).names() == {"manifest.json", "problem.toml", "trajectories.parquet"}
    before = len(counted)
    same(simulate(PROBLEM, **RUN, folder=folder, resume=True), whole)
    assert len(counted) == before
    with pytest.raises(ProblemError, match="holds a simulation already"):
        simulate(PROBLEM, **RUN, folder=folder)
    same(simulate(PROBLEM, **RUN, folder=folder, overwrite=True), whole)
    assert len(counted) == before + CHUNKS
    folder_at(folder).remove("manifest.json", "problem.toml", "trajectories.parquet", "never")
    folder_at(folder).drop()
    assert folder_at(folder).names() == set()


def unfinished(folder: Path, share: float = 0.5) -> int:
    """Begin a run, stop it; returns how many chunks it finished."""
    simulate(PROBLEM, **RUN, folder=folder, progress=stop_at(share))
    (folder / "manifest.json").unlink()  # as if it had been killed
    return len(chunk_files(folder))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, _: path.write_bytes(path.read_bytes()[:-7]),
        lambda path, _: path.write_bytes(b""),
        lambda path, _: path.write_bytes(path.read_bytes()[:100] + b"?" + path.read_bytes()[101:]),
        lambda path, other: shutil.copy(other, path),
        lambda path, _: path.unlink(),
    ],
    ids=["cut", "empty", "changed", "foreign", "gone"],
)
def test_a_damaged_chunk_is_done_again(
    damage: Any, tmp_path: Path, whole: Simulation, small: None, counted: list[Chunk]
) -> None:
    done = unfinished(tmp_path)
    damage(*chunk_files(tmp_path)[:2])
    (tmp_path / "chunks" / ".draft.chunk.1234.part").write_bytes(b"half")
    counted.clear()
    same(simulate(PROBLEM, **RUN, folder=tmp_path, resume=True), whole)
    assert len(counted) == CHUNKS - done + 1


def test_only_chunks_are_removed(tmp_path: Path, small: None) -> None:
    unfinished(tmp_path)
    (tmp_path / "chunks" / "diary.txt").write_text("mine", encoding="utf-8")
    simulate(PROBLEM, **RUN, folder=tmp_path, overwrite=True)
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["diary.txt"]


def test_nothing_is_written_twice(tmp_path: Path, whole: Simulation, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in chunk_files(tmp_path)}
    monkeypatch.setattr(ChunkStore, "clear", lambda self: None)
    same(simulate(PROBLEM, **RUN, folder=tmp_path, resume=True), whole)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(chunk_files(tmp_path)) == CHUNKS


def test_an_unfinished_run_is_neither_ignored_nor_lost(tmp_path: Path, small: None, counted: list[Chunk]) -> None:
    done = unfinished(tmp_path)
    with pytest.raises(ResultsError, match=r"holds an unfinished simulation; go on with it \(--resume\) or overwrite it"):
        simulate(PROBLEM, **RUN, folder=tmp_path)
    assert len(chunk_files(tmp_path)) == done
    counted.clear()
    simulate(PROBLEM, **RUN, folder=tmp_path, overwrite=True)
    assert len(counted) == CHUNKS


def test_more_replications_and_policies_add_to_a_run(tmp_path: Path, whole: Simulation, counted: list[Chunk]) -> None:
    simulate(PROBLEM, **(RUN | {"policies": ["c-ucb"], "replications": 256}), folder=tmp_path)
    counted.clear()
    more = RUN | {"replications": 300}
    same(simulate(PROBLEM, **more, folder=tmp_path, resume=True), simulate(PROBLEM, **more))
    assert sorted((chunk.first, str(chunk.spec and chunk.spec.title)) for chunk in counted[:4]) == [
        (0, "ucb1"),
        (256, "None"),
        (256, "c-ucb"),
        (256, "ucb1"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "holds a simulation with seed 4; expected seed 5 to go on with it"),
        ({"horizon": 70}, "holds a simulation of 60 rounds or with other checkpoints; expected the same"),
        ({"reward_range": 2.5}, "holds a simulation with reward_range 9.0; expected 2.5 to go on"),
        ({"distribution": [0.2, 0.3, 0.4, 0.1]}, "holds a simulation of another problem; expected this one"),
    ],
)
def test_only_the_same_run_goes_on(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    simulate(PROBLEM, **RUN, folder=tmp_path)
    with pytest.raises(ResultsError, match=message):
        simulate(PROBLEM, **(RUN | change), folder=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 5}, "holds an unfinished simulation with seed 4; expected seed 5 to go on with it; choose another folder"),
        ({"horizon": 70}, "holds an unfinished simulation of 60 rounds or with other checkpoints; expected the same"),
        ({"reward_range": 2.5}, r"holds an unfinished simulation with reward_range 9\.0; expected 2\.5 to go on"),
        ({"distribution": [0.2, 0.3, 0.4, 0.1]}, "holds an unfinished simulation of another problem; expected this one"),
    ],
)
@pytest.mark.parametrize("told", [True, False], ids=["of this release", "of release 0.1"])
def test_only_the_same_unfinished_run_goes_on(
    change: dict[str, Any], message: str, told: bool, tmp_path: Path, small: None
) -> None:
    """And what was finished of the other one stays."""
    unfinished(tmp_path)
    if not told:  # chunks of release 0.1 do not say of which run they are
        (tmp_path / "chunks" / "run.json").unlink()
        message = "holds an unfinished simulation of another kind or by another release"
    before = chunk_files(tmp_path)
    with pytest.raises(ResultsError, match=message):
        simulate(PROBLEM, **(RUN | change), folder=tmp_path, resume=True)
    assert chunk_files(tmp_path) == before
    same(simulate(PROBLEM, **RUN, folder=tmp_path, resume=True), simulate(PROBLEM, **RUN))


def test_chunks_of_another_release_are_not_passed_over(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished(tmp_path)
    monkeypatch.setattr(jobs, "__version__", "9.9")
    with pytest.raises(ResultsError, match=r"holds an unfinished simulation by headwater \S+; expected 9\.9 to go on"):
        simulate(PROBLEM, **RUN, folder=tmp_path, resume=True)


def test_a_run_begun_with_force_goes_on(tmp_path: Path, small: None, counted: list[Chunk]) -> None:
    simulate(PROBLEM, **RUN, folder=tmp_path)
    other = RUN | {"seed": 5}
    with pytest.raises(KeyboardInterrupt):
        simulate(PROBLEM, **other, folder=tmp_path, overwrite=True, progress=stop_at(0.051))
    assert load_simulation(tmp_path).seed == 4 and len(chunk_files(tmp_path)) == 2
    counted.clear()
    same(simulate(PROBLEM, **other, folder=tmp_path, resume=True), simulate(PROBLEM, **other))


def test_addresses_that_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResultsError, match="nosuch://x/y: cannot be opened: "):
        folder_at("nosuch://x/y")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ResultsError, match=r's3://x: got an address; expected a path, or: pip install "headwater\[dask\]"'):
        folder_at("s3://x")


def test_a_remote_failure_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such bucket")

    monkeypatch.setattr(fsspec.filesystem("memory"), "pipe_file", refuse)
    with pytest.raises(ResultsError, match="cannot be written: RuntimeError: no such bucket; the 0 chunks there are kept"):
        simulate(PROBLEM, **RUN, folder="memory://full")


def test_encoding_is_checked(whole: Simulation) -> None:
    outcome = whole.outcomes["ucb1"]
    data = encode("k", outcome)
    back = decode("k", data)
    assert back is not None and all(a.tobytes() == b.tobytes() for a, b in zip(back, outcome, strict=True))
    assert decode("other", data) is None
    assert all(decode("k", data[:n]) is None for n in range(0, len(data), 97))


# --- a cluster -------------------------------------------------------------------------------------------------------


def test_one_worker_two_and_none_agree(two: Any, whole: Simulation, small: None, tmp_path: Path) -> None:
    same(simulate(PROBLEM, **RUN, client=two), whole)
    told: list[tuple[int, int]] = []
    same(simulate(PROBLEM, **RUN, client=two, folder=tmp_path, progress=lambda *at: told.append(at)), whole)
    same(load_simulation(tmp_path), whole)
    assert told[0] == (0, 11400) and told[-1] == (11400, 11400) and told == sorted(told)
    with cluster.local_cluster(1) as one:
        same(simulate(PROBLEM, **RUN, client=one), whole)


def test_every_kind_of_problem_travels(two: Any) -> None:
    for name, policy in (("routing", "c-ucb"), ("coupons", "ucb1"), ("paper/vector-1", "ucb1")):
        problem = hw.load_problem(ROOT / "examples" / f"{name}.toml")
        run: dict[str, Any] = {"policies": [policy], "horizon": 30, "replications": 5, "seed": 1}
        same(simulate(problem, **run, client=two), simulate(problem, **run))


def test_a_killed_worker_costs_nothing(two: Any, whole: Simulation, small: None, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if 3 * done > total * (1 + len(killed)) and len(killed) < 2:
            pids = [nanny.process.pid for nanny in two.cluster.workers.values() if nanny.process is not None]
            killed.append(next(pid for pid in pids if pid and pid not in killed))
            os.kill(killed[-1], signal.SIGKILL)

    same(simulate(PROBLEM, **RUN, client=two, folder=tmp_path, progress=kill), whole)
    assert len(killed) == 2


def test_an_interrupt_on_a_cluster_keeps_what_is_finished(two: Any, whole: Simulation, small: None, tmp_path: Path) -> None:
    part = simulate(PROBLEM, **RUN, client=two, folder=tmp_path, progress=stop_at(0.6))
    assert 0 < part.replications < 95
    np.testing.assert_array_equal(part.regret("c-ucb"), whole.regret("c-ucb")[: part.replications])
    same(simulate(PROBLEM, **RUN, client=two, folder=tmp_path, resume=True), whole)


class Deadly(Spec):
    """A policy that kills any worker that looks at it."""

    @property
    def learns(self) -> bool:
        if multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return False


def test_a_chunk_that_kills_its_workers_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ATTEMPTS", 2)
    monkeypatch.setattr(cluster, "FAILURES", 0)
    spec = Deadly(make_spec("ucb1").rule)
    job = make_job(PROBLEM, policies=[spec], horizon=5, replications=5, portable=True)
    deadly = [chunk for chunk in job.chunks if chunk.spec is not None]  # others on its worker may be blamed first
    with (
        cluster.local_cluster(1) as client,
        pytest.raises(ClusterError, match="replications 0 to 4 of ucb1: 2 workers died while doing them, perhaps for want of"),
    ):
        list(cluster.run_on_cluster(client, deadly))


def test_what_a_worker_refuses_reaches_the_user(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "__version__", "99")
        with pytest.raises(ClusterError, match=r"the scheduler has headwater [\d.]+; expected headwater 99, as here"):
            simulate(PROBLEM, **RUN, client=two)
        with pytest.raises(ClusterError, match=r"a worker has headwater 99; expected 98, like the client"):
            cluster._work(make_job(PROBLEM, **RUN).setting, None, 0, 1, "98")
    patience = RUN | {"horizon": 2**40}
    with pytest.raises(ProblemError, match="for sums to stay exact"):
        simulate(hw.load_problem(ROOT / "examples" / "routing.toml"), **patience, client=two)


def test_any_failure_on_a_worker_names_the_chunk() -> None:
    chunk = next(iter(make_job(PROBLEM, **RUN).chunks))
    message = "replications 0 to 94 of the best arm: failed on the cluster: OSError: no room; finished chunks are kept"
    with pytest.raises(ClusterError, match=message):
        cluster._failed(OSError("no room\nat all"), chunk, 1)


def test_clients_that_cannot_wait() -> None:
    class Client:
        asynchronous = True

    with pytest.raises(ClusterError, match="client: got an asynchronous one; expected"):
        simulate(PROBLEM, **RUN, client=Client())


# --- the command line ------------------------------------------------------------------------------------------------


def program(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-m", "headwater", *map(str, words)]
    streams: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, start_new_session=True, preexec_fn=heed_interrupts, **streams)


def heed_interrupts() -> None:
    """What a shell starts in the background ignores SIGINT, and so would what that starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end(process: subprocess.Popen[str], status: int) -> str:
    out, err = process.communicate(timeout=PATIENT)
    assert process.returncode == status, (out, err)
    assert "Traceback" not in err, err
    return err


def wait_for(condition: Callable[[], Any], *processes: subprocess.Popen[Any]) -> Any:
    limit = time.monotonic() + PATIENT
    while not (found := condition()):
        assert time.monotonic() < limit
        assert all(process.poll() is None for process in processes), [process.communicate() for process in processes]
        time.sleep(0.01)
    return found


LONG: dict[str, Any] = {
    "policies": ["ucb1", "c-ucb"],
    "horizon": 20_000,
    "replications": 256 * 15,
    "seed": 8,
    "checkpoints": [9],
}
WORDS = ("simulate", ADS, "--horizon", 20_000, "--replications", 256 * 15, "--seed", 8, "--checkpoint", 9)


@pytest.fixture(scope="module")
def long() -> Simulation:
    return simulate(PROBLEM, **LONG)


@pytest.mark.parametrize("more", [(), ("--workers", 2)], ids=["here", "workers"])
def test_ctrl_c_and_resume(more: tuple[Any, ...], tmp_path: Path, long: Simulation) -> None:
    """To the whole group, as a terminal sends it."""
    process = program(*WORDS, "--output", tmp_path / "run", *more)
    wait_for(lambda: len(chunk_files(tmp_path / "run")) > 12, process)
    os.killpg(process.pid, signal.SIGINT)
    err, kept = end(process, 130), len(chunk_files(tmp_path / "run"))
    assert kept > 12 and "--resume goes on." in err
    if (tmp_path / "run" / "manifest.json").exists():  # workers may have finished no range for every policy
        part = load_simulation(tmp_path / "run")
        assert f"Stopped: kept {part.replications} of 3840 replications of every policy." in err
        assert 256 <= part.replications < 3840 and kept >= 3 * part.replications / 256
        np.testing.assert_array_equal(part.regret("ucb1"), long.regret("ucb1")[: part.replications])
    end(program(*WORDS, "--output", tmp_path / "run", "--resume", *more), 0)
    same(load_simulation(tmp_path / "run"), long)
    assert not chunk_files(tmp_path / "run")


def test_a_killed_client_is_resumed(tmp_path: Path, long: Simulation) -> None:
    process = program(*WORDS, "--output", tmp_path)
    wait_for(lambda: len(chunk_files(tmp_path)) > 4, process)
    process.kill()
    process.communicate()
    same(simulate(PROBLEM, **LONG, folder=tmp_path, resume=True), long)


def test_a_killed_scheduler(tmp_path: Path, long: Simulation) -> None:
    where = tmp_path / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}

    def dask(kind: str, *words: str) -> subprocess.Popen[Any]:
        common = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(where))
        return subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{kind}", *common, *words], **quiet)

    scheduler, worker = dask("scheduler", "--port", "0"), dask("worker", "--no-nanny", "--nthreads", "1")
    try:
        found = wait_for(
            lambda: where.exists() and re.search(r'"address": "(tcp:[^"]+)"', where.read_text(encoding="utf-8")), scheduler
        )
        process = program(*WORDS, "--output", tmp_path / "run", "--cluster", found[1])
        wait_for(lambda: len(chunk_files(tmp_path / "run")) > 4, process)
        scheduler.kill()
        err = end(process, 2)
    finally:
        for child in (scheduler, worker):
            child.kill()
            child.wait()
    assert "error: the Dask scheduler was lost" in err and "--resume goes on from there" in err
    kept = len(chunk_files(tmp_path / "run"))
    assert kept > 4
    same(simulate(PROBLEM, **LONG, folder=tmp_path / "run", resume=True), long)


FULL = """
import resource, sys
import headwater as hw
from headwater import cli, simulation
simulation.CHUNK, simulation.ROUNDS = 10, 0
def fill(done, total):
    if 2 * done > total:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
try:
    hw.simulate(hw.load_problem(sys.argv[1]), folder=sys.argv[2], progress=fill, **eval(sys.argv[3]))
except hw.ResultsError as error:
    print(error)
"""


def test_a_full_disk_leaves_what_is_finished(tmp_path: Path, whole: Simulation, small: None, counted: list[Chunk]) -> None:
    """The system itself refuses to write, from the middle of the run on."""
    command = [sys.executable, "-W", "error", "-c", FULL, str(ADS), str(tmp_path), repr(RUN)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = len(chunk_files(tmp_path))
    assert re.search(rf"chunks: replications .* of .* cannot be written: .*; the {kept} chunks there are kept: make room", said)
    assert 10 < kept < CHUNKS and len(list((tmp_path / "chunks").iterdir())) == kept + 1  # beside them stands the run's setting
    same(simulate(PROBLEM, **RUN, folder=tmp_path, resume=True), whole)
    assert len(counted) == CHUNKS - kept


def test_a_disk_too_full_for_the_results(tmp_path: Path, whole: Simulation, small: None, counted: list[Chunk]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done: int, total: int) -> None:
        if done == total:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))

    try:
        with pytest.raises(ResultsError, match="the results cannot be written: "):
            simulate(PROBLEM, **RUN, folder=tmp_path, progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(chunk_files(tmp_path)) == CHUNKS and not (tmp_path / "trajectories.parquet").exists()
    counted.clear()
    same(simulate(PROBLEM, **RUN, folder=tmp_path, resume=True), whole)
    assert not counted


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["headwater", *map(str, words)])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "nonsense"], '--cluster: got "nonsense"; expected an address such as tcp://scheduler:8786'),
        (["--cluster", "tcp://127.0.0.1:1"], "--cluster: got tcp://127.0.0.1:1; expected the address of a Dask scheduler that"),
        (["--workers", "0"], "--workers: got 0; expected a whole number from 1 to 1,024"),
        (["--workers", "2", "--cluster", "tcp://a:1"], "--workers: got --cluster, too; expected one of them"),
        (["--resume"], "--resume: got no --output; expected the folder that holds the unfinished simulation"),
        (["--resume", "--force", "--output", "x"], "--resume: got --force, too; expected one of them"),
        (["--output", "nosuch://x/y"], "nosuch://x/y: cannot be opened: Protocol not known"),
    ],
)
def test_bad_requests(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    assert call(monkeypatch, "simulate", ADS, *words) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and message in printed.err and printed.out == ""
    assert "Traceback" not in printed.err


def test_what_answers_may_be_no_scheduler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import socket
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                peer.recv(1 << 16)

        thread = threading.Thread(target=answer)
        thread.start()
        assert call(monkeypatch, "simulate", ADS, "--cluster", address) == 2
        thread.join()
    assert "within 8 s: something else does" in capsys.readouterr().err


def test_without_dask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for words in (("--workers", 2), ("--cluster", "tcp://127.0.0.1:1")):
        assert call(monkeypatch, "simulate", ADS, *words) == 2
        assert capsys.readouterr().err == (
            'error: Dask is not installed; for --cluster, --workers and client: pip install "headwater[dask]"\n'
        )
