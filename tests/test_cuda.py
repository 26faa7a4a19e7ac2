"""The GPU engine against the CPU engine. Without a GPU the processor plays the kernels' own text, on small cases."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwater as hw
from headwater.errors import ProblemError
from headwater.policies import Spec, make_spec
from headwater.policies.evidence import evidence_of
from headwater.pseudo import model_of
from headwater.simulation import cuda, engine, gpu_driver
from headwater.simulation.atoms import atoms_of
from headwater.simulation.gpu_driver import CREW, FEW, SOLO
from test_engine import Toy, laid_out, same

PRESENT = cuda.missing_gpu() is None and not gpu_driver.emulated()
REPLICATIONS, HORIZON = (5_000, 3_001) if PRESENT else (5, 301)
CHECKPOINTS = np.array([1, 2, 5, 6, 20, 31, HORIZON])


@pytest.fixture(autouse=True)
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if not PRESENT:
        monkeypatch.setenv("HEADWATER_GPU", "emulated")


def toy(arms: int, atoms: int, seed: int = 0) -> engine.Model:
    """Ties, equal arms and atoms of probability 0 are common."""
    rng = np.random.default_rng([arms, atoms, seed])
    weights = rng.integers(0, 6, atoms)
    weights[0] += 1
    return laid_out(Toy((rng.integers(-2, 7, (arms, atoms)) / 10).tolist(), weights.tolist()).problem())[1]


def for_learners(problem: hw.Problem) -> engine.Model:
    assert problem.distribution is not None
    atoms = atoms_of(problem, problem.distribution)
    return engine.make_model(atoms, scale=model_of(problem).reward_range, evidence=evidence_of(problem))


def with_evidence(arms: int, atoms: int) -> engine.Model:
    """A problem that policies which learn the law of X can play."""
    rng = np.random.default_rng([arms, atoms])
    rewards = {f"arm {k}": (rng.integers(0, 5, atoms) / 4).tolist() for k in range(arms)}
    return for_learners(
        hw.Problem(latent=hw.Discrete(list(range(atoms))), arms=rewards, distribution=rng.dirichlet(np.ones(atoms)))
    )


def coins() -> engine.Model:
    """Arms of random rewards, and one whose reward X decides."""
    arms: Any = {
        "one": {"outcomes": [0, 1], "probabilities": [[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]]},
        "two": {"outcomes": [0, 0.5, 1], "probabilities": [[0.5, 0.25, 0.25], [0.3, 0.3, 0.4], [0.1, 0.8, 0.1]]},
        "three": [0, 1, 0.5],
    }
    return for_learners(hw.Problem(latent=hw.Discrete(["a", "b", "c"]), arms=arms, distribution=[0.3, 0.3, 0.4]))


def both(model: engine.Model, spec: Spec, **options: Any) -> tuple[engine.Counts, engine.Counts]:
    common: Any = {"checkpoints": CHECKPOINTS, "replications": REPLICATIONS, "seed": 2**63 + 5, "first": 2**32 - 2}
    common |= {key: options.pop(key) for key in list(options) if key in common}
    return cuda.simulate_counts_cuda(model, spec, **common, **options), engine.simulate_counts(model, spec, **common)


# --- equal to the CPU ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ucb1", "c-ucb"])
@pytest.mark.parametrize(("arms", "atoms"), [(2, 1), (2, 3), (3, 5), (4, 6), (11, 40), (3, 300), (17, 4), (120, 2)])
def test_ucb1_agrees_action_for_action(name: str, arms: int, atoms: int) -> None:
    """Few arms in registers, atoms found by their limits or by the guide; beyond, several threads share a replication."""
    same(*both(toy(arms, atoms), make_spec(name)))


@pytest.mark.parametrize("weights", [[1, 0, 0], [0, 3, 0], [2, 0, 5, 0, 0], [0, 0, 1]])
def test_atoms_of_probability_zero(weights: list[int]) -> None:
    size = len(weights)
    rows = [[float(j) for j in range(size)], [(size - j) / 2 for j in range(size)]]
    same(*both(laid_out(Toy(rows, weights).problem())[1], make_spec("c-ucb")))


def test_every_action_agrees() -> None:
    same(*both(toy(3, 5, 1), make_spec("c-ucb"), checkpoints=np.arange(1, 601)))


@pytest.mark.parametrize("atoms", [5, 30])
def test_draws_are_the_same_bit_for_bit(atoms: int) -> None:
    """Arms that all pay the atom's own number: the reward tells x_t, whichever arm is pulled."""
    rng = np.random.default_rng(atoms)
    row = [float(j) for j in range(atoms)]
    model = laid_out(Toy([row, row], rng.integers(0, 9, atoms).tolist()).problem())[1]
    rounds = np.arange(1, 1001)
    size = 200 if PRESENT else 5
    common: Any = {"checkpoints": rounds, "replications": size, "seed": 9, "first": 2**33 + 7}
    ours = cuda.simulate_counts_cuda(model, make_spec("ucb1"), **common)
    np.testing.assert_array_equal(ours.reward, engine.oracle_rewards(model, 0, **common))


SPECS = [
    *(make_spec(name) for name in ("ts", "c-ts", "kl-ucb", "c-kl-ucb", "uniform", "epsilon-greedy")),
    *(make_spec(name, posterior="beta") for name in ("ts", "c-ts")),
    *(make_spec(name, sd="estimated") for name in ("ts", "c-ts")),
    *(make_spec(name, form="empirical") for name in ("kl-ucb", "c-kl-ucb")),
    *(make_spec(name, reference="well-pulled") for name in ("c-ucb", "c-kl-ucb", "c-ts")),
    *(make_spec(name, audit=1.0) for name in ("c-ucb", "c-kl-ucb")),
]
LEARN = [make_spec("joint-ucb"), make_spec("joint-ucb", audit=0.0, guard=0.0), make_spec("latent-ts"), make_spec("graves-lai")]


def by_title(spec: Any) -> str | None:
    return spec.title if isinstance(spec, Spec) else None


@pytest.mark.parametrize("spec", SPECS, ids=by_title)
@pytest.mark.parametrize("arms", [3, 18])
def test_every_index_policy_agrees_action_for_action(spec: Spec, arms: int) -> None:
    same(*both(toy(arms, 4), spec))


@pytest.mark.parametrize("spec", LEARN, ids=by_title)
def test_policies_that_learn_the_law_agree_action_for_action(spec: Spec) -> None:
    same(*both(with_evidence(3, 5), spec, checkpoints=np.array([7, 40, 200])))


@pytest.mark.parametrize("spec", [make_spec("ucb1"), make_spec("c-kl-ucb"), *SPECS[-6:], LEARN[0]], ids=by_title)
def test_random_rewards(spec: Spec) -> None:
    same(*both(coins(), spec))


def test_few_replications_that_need_an_index_seldom() -> None:
    """Between indices KL-UCB goes by bounds: it must decide the same, for long."""
    horizon = np.array([20_000])
    for seed in range(3):
        same(*both(toy(3, 5, seed), make_spec("kl-ucb"), checkpoints=horizon, replications=2))
        same(*both(toy(4, 6, seed), make_spec("c-kl-ucb"), checkpoints=horizon, replications=2))


@pytest.mark.parametrize(
    ("spec", "arms", "way"),
    [
        (make_spec("c-ucb"), 4, FEW),
        (make_spec("c-ucb"), 5, CREW),
        (make_spec("ucb1"), 100, CREW),
        (make_spec("c-ucb", reference="well-pulled"), 3, SOLO),
        (make_spec("kl-ucb"), 3, SOLO),
    ],
    ids=str,
)
def test_ways_to_play(spec: Spec, arms: int, way: int) -> None:
    assert cuda.kind_of(toy(arms, 3), spec, 100, "float64").way == way


@pytest.mark.parametrize("name", ["ucb1", "c-ucb"])
@pytest.mark.parametrize("arms", [3, 9])
def test_float32_agrees_within_noise(name: str, arms: int) -> None:
    size = REPLICATIONS if PRESENT else 40
    ours, theirs = both(toy(arms, 5), make_spec(name), precision="float32", replications=size)
    np.testing.assert_array_equal(ours.pulls.sum(axis=2), theirs.pulls.sum(axis=2))
    noise = math.sqrt((ours.reward[:, -1].var() + theirs.reward[:, -1].var()) / size)
    assert abs(ours.reward[:, -1].mean() - theirs.reward[:, -1].mean()) <= 4 * noise  # the draws are shared: far inside


def test_wide_integers() -> None:
    """Totals that need 64 bits."""
    model = toy(3, 4)
    model = model._replace(table=model.table * 2**40, unit=model.unit / 2**40)
    for name in ("ucb1", "c-ucb"):
        same(*both(model, make_spec(name)))


def test_batches_launches_and_roots_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few replications at a time, few rounds a launch, and counts beyond the table of roots."""
    monkeypatch.setattr(cuda, "BATCH", 2)
    monkeypatch.setattr(cuda, "LAUNCH_ROUNDS", 6)
    monkeypatch.setattr(cuda, "ROOTS", 10)
    told: list[int] = []
    size = 7
    for precision in ("float64", "float32"):
        ours, theirs = both(toy(3, 5), make_spec("c-ucb"), replications=size, progress=told.append, precision=precision)
        if precision == "float64":
            same(ours, theirs)
        assert told == sorted(told) and told[-1] == size * HORIZON and len(told) > HORIZON // 6
        told.clear()


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ProblemError, match='precision: got "half"; expected "float64" or "float32"'):
        both(toy(2, 2), make_spec("ucb1"), precision="half")


# --- what is not for the GPU -----------------------------------------------------------------------------------------


def test_reasons() -> None:
    assert all(cuda.cuda_reason(toy(2, 2), spec) is None for spec in SPECS + LEARN)
    assert cuda.cuda_reason(coins(), make_spec("c-ucb")) is None


# --- without a GPU ---------------------------------------------------------------------------------------------------


def python(code: str, **environment: str) -> str:
    variables = {key: value for key, value in os.environ.items() if key != "HEADWATER_GPU"} | environment
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_gpu_one_sentence_says_so() -> None:
    said = python("from headwater.simulation.cuda import missing_gpu; print(missing_gpu())", CUDA_VISIBLE_DEVICES="")
    assert said.startswith("engine: cuda needs an NVIDIA GPU and the cuda extra: ") and said.count("\n") == 1


def loads(monkeypatch: pytest.MonkeyPatch, library: object) -> None:
    """Pretend that this is CUDA's driver."""
    monkeypatch.delenv("HEADWATER_GPU", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", library)
    gpu_driver._driver.cache_clear()


def no_library(name: str) -> None:
    raise OSError(f"{name}: not found\nat all")


class Silent:
    """A driver that finds no GPU."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0


class Broken:
    """A driver that does not answer."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 999


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (no_library, "its driver cannot be loaded (libcuda.so.1: not found)"),
        (lambda _: Silent(), "the driver does not answer (the driver finds no GPU)"),
        (lambda _: Broken(), "the driver does not answer (engine: the GPU's driver says no to cuInit: ?)"),
    ],
)
def test_without_a_gpu_a_simulation_is_refused(monkeypatch: pytest.MonkeyPatch, library: Any, words: str) -> None:
    with monkeypatch.context() as patch:
        loads(patch, library)
        with pytest.raises(ProblemError) as said:
            both(toy(2, 2), make_spec("ucb1"))
    gpu_driver._driver.cache_clear()
    assert str(said.value) == "engine: cuda needs an NVIDIA GPU and the cuda extra: " + words


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWATER_GPU", raising=False)
    monkeypatch.setattr(gpu_driver, "_driver", lambda: object())
    monkeypatch.setattr(gpu_driver, "_nvrtc", lambda: None)
    monkeypatch.setattr(gpu_driver, "_nvcc", lambda: None)
    assert str(cuda.missing_gpu()).endswith("nor is nvcc; pip install 'headwater[cuda]'")
    monkeypatch.setattr(gpu_driver, "_nvcc", lambda: "nvcc")
    assert cuda.missing_gpu() is None


def test_nothing_imports_cuda_unasked() -> None:
    code = "import sys, headwater, headwater.simulation.cuda; print('cuda.core' in sys.modules)"
    assert python(code) == "False\n"


# --- compiling -------------------------------------------------------------------------------------------------------


def test_what_was_compiled_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def compiled(*given: object) -> bytes:
        asked.append(given)
        return b"code"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(gpu_driver, "_nvrtc", lambda: None)
    monkeypatch.setattr(gpu_driver, "_nvcc", lambda: "nvcc")
    monkeypatch.setattr(gpu_driver, "_by_nvcc", compiled)
    kind = gpu_driver.Kind(FEW, arms=3)
    assert [gpu_driver.binary(kind, "90") for _ in range(2)] == [b"code"] * 2 and len(asked) == 1
    assert gpu_driver.binary(kind._replace(single=True), "90") == b"code" and len(asked) == 2
    tmp_path.joinpath("file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # where nothing can be written
    assert gpu_driver.binary(kind, "90") == b"code" and len(asked) == 3


KINDS = [
    gpu_driver.Kind(FEW, filtered=True, arms=3, atoms=5, cells=60, narrow=True),
    gpu_driver.Kind(CREW, filtered=True, members=64, places=9, single=True),
]


@pytest.mark.skipif(gpu_driver._nvcc() is None and gpu_driver._nvrtc() is None, reason="no compiler for a GPU")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kernels_compile(kind: gpu_driver.Kind) -> None:
    folder, core, nvcc = gpu_driver._sources()[0], gpu_driver._nvrtc(), str(gpu_driver._nvcc())
    made = gpu_driver._by_nvrtc(core, kind, "90", folder) if core else gpu_driver._by_nvcc(nvcc, kind, "90", folder)
    assert made[:4] == b"\x7fELF" and b"prepare" in made and b"play" in made


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'gpu.cu: no such luck' >&2\nexit 1\n")
    nvcc.chmod(0o755)
    with pytest.raises(ProblemError, match=r"engine: nvcc cannot compile for this GPU: gpu.cu: no such luck"):
        gpu_driver._by_nvcc(str(nvcc), KINDS[0], "90", gpu_driver._sources()[0])
