"""The GPU engine against the CPU engine. Without a GPU the tests run in numba-cuda's simulator, on tiny cases, in a process
of their own: whether numba simulates is settled when it is first imported.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater import streams
from headwater.errors import ProblemError
from headwater.policies import Spec, make_spec
from headwater.simulation import cuda, engine
from headwater.simulation.unroll import specialised, with_products
from test_engine import Toy, laid_out, same

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
PRESENT = SIMULATED or cuda.missing_gpu() is None
on_device = pytest.mark.skipif(not PRESENT, reason="no GPU: test_in_the_simulator runs these")
REPLICATIONS, HORIZON = (3, 61) if SIMULATED else (5_000, 3_001)
CHECKPOINTS = np.array([1, 2, 5, 6, 20, 31, HORIZON])


def toy(arms: int, atoms: int, seed: int = 0) -> engine.Model:
    """Ties, equal arms and atoms of probability 0 are common."""
    rng = np.random.default_rng([arms, atoms, seed])
    weights = rng.integers(0, 6, atoms)
    weights[0] += 1
    return laid_out(Toy((rng.integers(-2, 7, (arms, atoms)) / 10).tolist(), weights.tolist()).problem())[1]


def both(model: engine.Model, spec: Spec, **options: Any) -> tuple[engine.Counts, engine.Counts]:
    common: Any = {"checkpoints": CHECKPOINTS, "replications": REPLICATIONS, "seed": 2**63 + 5, "first": 2**32 - 2}
    common |= {key: options.pop(key) for key in list(options) if key in common}
    return cuda.simulate_counts_cuda(model, spec, **common, **options), engine.simulate_counts(model, spec, **common)


def test_in_the_simulator() -> None:
    if PRESENT:
        pytest.skip("this is the simulator, or there is a GPU")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    done = subprocess.run(command, env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- equal to the CPU ------------------------------------------------------------------------------------------------


@on_device
@pytest.mark.parametrize("name", ["ucb1", "c-ucb"])
@pytest.mark.parametrize(("arms", "atoms"), [(2, 1), (2, 3), (3, 5), (4, 6), (11, 40), (3, 300), (17, 4), (120, 2)])
def test_ucb1_agrees_action_for_action(name: str, arms: int, atoms: int) -> None:
    """Few arms written out, with the table and the atoms in shared memory or not; beyond by loops, the means there or not."""
    same(*both(toy(arms, atoms), make_spec(name)))


@on_device
@pytest.mark.parametrize("weights", [[1, 0, 0], [0, 3, 0], [2, 0, 5, 0, 0], [0, 0, 1]])
def test_atoms_of_probability_zero(weights: list[int]) -> None:
    size = len(weights)
    rows = [[float(j) for j in range(size)], [(size - j) / 2 for j in range(size)]]
    same(*both(laid_out(Toy(rows, weights).problem())[1], make_spec("c-ucb")))


@on_device
def test_every_action_agrees() -> None:
    horizon = 60 if SIMULATED else 600
    same(*both(toy(3, 5, 1), make_spec("c-ucb"), checkpoints=np.arange(1, horizon + 1)))


@on_device
@pytest.mark.parametrize("atoms", [5, 30])
def test_draws_are_the_same_bit_for_bit(atoms: int) -> None:
    """Arms that all pay the atom's own number: the reward tells x_t, whichever arm is pulled."""
    rng = np.random.default_rng(atoms)
    row = [float(j) for j in range(atoms)]
    model = laid_out(Toy([row, row], rng.integers(0, 9, atoms).tolist()).problem())[1]
    rounds = np.arange(1, 41 if SIMULATED else 1001)
    size = 2 if SIMULATED else 200
    common: Any = {"checkpoints": rounds, "replications": size, "seed": 9, "first": 2**33 + 7}
    ours = cuda.simulate_counts_cuda(model, make_spec("ucb1"), **common)
    np.testing.assert_array_equal(ours.reward, engine.oracle_rewards(model, 0, **common))


@on_device
@pytest.mark.parametrize("name", ["ts", "c-ts", "kl-ucb", "c-kl-ucb"])
@pytest.mark.parametrize("arms", [3, 18])
def test_other_rules_agree_but_for_last_bits(name: str, arms: int) -> None:
    """A logarithm whose last bit differs changes a decision only where two indices meet: hardly ever in a short run."""
    ours, theirs = both(toy(arms, 4), make_spec(name), checkpoints=np.array([HORIZON // 10, HORIZON // 3]))
    agree = (ours.pulls == theirs.pulls).all(axis=(1, 2))
    assert agree.mean() > (0.6 if SIMULATED else 0.95)
    np.testing.assert_array_equal(ours.excluded[agree], theirs.excluded[agree])


@on_device
@pytest.mark.parametrize("name", ["ucb1", "c-ucb"])
@pytest.mark.parametrize("arms", [3, 9])
def test_float32_agrees_within_noise(name: str, arms: int) -> None:
    size = 20 if SIMULATED else REPLICATIONS
    ours, theirs = both(toy(arms, 5), make_spec(name), precision="float32", replications=size)
    np.testing.assert_array_equal(ours.pulls.sum(axis=2), theirs.pulls.sum(axis=2))
    noise = math.sqrt((ours.reward[:, -1].var() + theirs.reward[:, -1].var()) / size)
    assert abs(ours.reward[:, -1].mean() - theirs.reward[:, -1].mean()) <= 4 * noise  # the draws are shared: far inside


@on_device
def test_wide_integers() -> None:
    """Totals that need 64 bits."""
    model = toy(3, 4)
    model = model._replace(table=model.table * 2**40, unit=model.unit / 2**40)
    for name in ("ucb1", "c-ucb"):
        same(*both(model, make_spec(name)))


@on_device
def test_batches_launches_and_roots_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few replications at a time, few rounds a launch, and counts beyond the table of roots."""
    monkeypatch.setattr(cuda, "BATCH", 2)
    monkeypatch.setattr(cuda, "LAUNCH_ROUNDS", 6)
    monkeypatch.setattr(cuda, "ROOTS", 10)
    told: list[int] = []
    size = 3 if SIMULATED else 7
    for precision in ("float64", "float32"):
        ours, theirs = both(toy(3, 5), make_spec("c-ucb"), replications=size, progress=told.append, precision=precision)
        if precision == "float64":
            same(ours, theirs)
        assert told == sorted(told) and told[-1] == size * HORIZON and len(told) > HORIZON // 6
        told.clear()


@on_device
def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ProblemError, match='precision: got "half"; expected "float64" or "float32"'):
        both(toy(2, 2), make_spec("ucb1"), precision="half")


# --- what is not for the GPU -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (make_spec("joint-ucb"), "policy: got joint-ucb; expected an index policy"),
        (make_spec("ts", posterior="beta"), r"policy: got ts \(beta\); expected ucb1, kl-ucb"),
        (make_spec("c-ts", sd="estimated"), r"policy: got c-ts \(estimated\); expected .* its sd not estimated"),
        (make_spec("kl-ucb", form="empirical"), r"policy: got kl-ucb \(empirical\); expected ucb1"),
        (make_spec("c-ucb", reference="well-pulled"), 'reference: got "well-pulled"; expected "most-pulled"'),
        (make_spec("c-ucb", audit=0.1), "audit: got 0.1; expected 0 on the GPU"),
    ],
    ids=lambda x: x.title if isinstance(x, Spec) else "",
)
def test_reasons(spec: Spec, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        both(toy(2, 2), spec)


def test_random_rewards_are_refused() -> None:
    coin: Any = {"outcomes": [0, 1], "probabilities": [[0.5, 0.5], [0.2, 0.8]]}
    problem = hw.Problem(latent=hw.Discrete(["a", "b"]), arms={"one": coin, "two": [0, 1]}, distribution=[0.5, 0.5])
    reason = cuda.cuda_reason(laid_out(problem)[1], make_spec("ucb1"))
    assert reason == "arms: got random rewards; expected rewards that X determines on the GPU"
    assert cuda.cuda_reason(toy(2, 2), make_spec("c-ts")) is None


# --- without a GPU ---------------------------------------------------------------------------------------------------


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_gpu_one_sentence_says_so() -> None:
    said = python(
        "from headwater.simulation.cuda import missing_gpu; print(missing_gpu())",
        NUMBA_ENABLE_CUDASIM="0",
        CUDA_VISIBLE_DEVICES="",
    )
    assert said.startswith("engine: cuda needs an NVIDIA GPU and the cuda extra: ") and said.count("\n") == 1


@pytest.mark.skipif(PRESENT, reason="there is a GPU, or a simulated one")
def test_without_a_gpu_a_simulation_is_refused() -> None:
    with pytest.raises(ProblemError, match="engine: cuda needs an NVIDIA GPU and the cuda extra: "):
        both(toy(2, 2), make_spec("ucb1"))


def test_without_numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "headwater.simulation.cuda_kernel", None)
        assert "numba.cuda cannot be imported (" in str(cuda.missing_gpu())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert str(cuda.missing_gpu()).endswith("numba-cuda is not installed; pip install 'headwater[cuda]'")


def test_a_driver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.simulation import cuda_kernel

    def broken() -> bool:
        raise OSError("no such device\nat all")

    monkeypatch.setattr(cuda_kernel, "SIMULATED", False)
    monkeypatch.setattr(cuda_kernel.cuda, "is_available", broken)
    assert str(cuda.missing_gpu()).endswith("the driver does not answer (no such device)")


@pytest.mark.parametrize("simulated", ["0", "1"])
def test_imports_where_numpy_has_no_row_stack(simulated: str) -> None:
    """numpy 2.5 removed it; numba-cuda up to 0.30 asks for it."""
    code = (
        "import numpy as np\n"
        "if hasattr(np, 'row_stack'): del np.row_stack\n"
        "import headwater.simulation.cuda_kernel as kernel\n"
        "kernel.SIMULATED or __import__('numba.cuda.cudaimpl')\n"  # what a first compilation imports
        "print(kernel.SIMULATED, hasattr(np, 'row_stack'))"
    )
    assert python(code, NUMBA_ENABLE_CUDASIM=simulated) == f"{simulated == '1'} False\n"


def test_nothing_imports_cuda_unasked() -> None:
    code = "import sys, headwater, headwater.simulation.cuda; print('numba.cuda' in sys.modules)"
    assert python(code) == "False\n"


# --- writing out -----------------------------------------------------------------------------------------------------

SIZE, TWICE = 3, False


def _folded(values, flip):  # type: ignore[no-untyped-def]
    """Loops, arrays, choices of constants: everything that a kernel uses."""
    kept = cuda.local.array(SIZE, float)  # type: ignore[attr-defined]
    for k in range(SIZE):
        kept[k] = values[k] * (2 if TWICE else 1)
    out = 0
    for step in range(flip):
        for k in range(SIZE):
            if k == 0 and TWICE:
                out += 100
            elif k % 2 and not TWICE:
                out += kept[k] if step else -kept[k]
            else:
                out += kept[SIZE - 1 - k] + 0 * step
    return out


class _Local:
    @staticmethod
    def array(size: int, _kind: object) -> list[float]:
        return [0.0] * size


class _Cuda:
    local = _Local


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_written_out_a_function_means_the_same(size: int, twice: bool) -> None:
    constants = {"SIZE": size, "TWICE": twice, "cuda": _Cuda}
    plain, written = (specialised(_folded, constants, unroll=unroll) for unroll in (False, True))
    values = [3.0, -1.0, 4.0, 1.0, -5.0][:size]
    assert written(values, 3) == plain(values, 3)
    names = written.__code__.co_varnames
    assert "kept" not in names and f"kept_{size - 1}" in names and "k" not in names


def test_products_are_replaced() -> None:
    from headwater.policies.indices import ucb1_index

    assert with_products(ucb1_index, lambda a, b: 100 + a + b)(1, 2, 3) == 106


@given(st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6))
def test_the_generator_multiplies_words(words: list[int]) -> None:
    """On the GPU its products are of 32-bit words: nothing is lost."""
    on_words = with_products(streams.philox, lambda a, b: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF))
    assert on_words(*words) == streams.philox(*words)
