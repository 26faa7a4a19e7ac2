"""What the compiled core is made of: what it may call, where its code may run, and what its headers may stand on."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater import native

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "native"
MODULE = native.__file__
SHARED = sorted(path for path in NATIVE.rglob("*.h") if path.parent.name != "glue")
FOLDERS = sorted({path.parent for path in SHARED})
CPU_ONLY = {"registers.h", "lockstep.h"}  # and native/builds: what packs replications into wide registers
WIDE = {"avx2": ["-mavx2"], "avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw"]}
OLD_PROCESSOR = "core2duo"  # of 2006: neither AVX nor SSE4
LIBM = re.compile(
    r"(?:a?(?:sin|cos|tan)h?|atan2|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|pow|sqrt|cbrt|hypot|floor|ceil|trunc|l?l?r(?:ound|int)|nearbyint"
    r"|[lt]?gamma|lgamma_r|erfc?|f(?:mod|ma|min|max|dim|abs)|remainder|ldexp|frexp|modf|scalbl?n|ilogb|nextafter)[fl]?(?:@.*)?"
)


def needs(program: str) -> str:
    """Where this program is; without it the test is skipped, and says so."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def every_header(folder: Path) -> Path:
    """One file that includes every header that a GPU may share."""
    names = [str(path.relative_to(NATIVE)) for path in SHARED if "builds" not in path.parts and path.name not in CPU_ONLY]
    every = folder / "every.cu"
    every.write_text("".join(f'#include "{name}"\n' for name in names))
    return every


def test_the_module_calls_no_mathematics_of_the_system() -> None:
    called = [line.split()[-1] for line in output(needs("nm"), "-D", "--undefined-only", MODULE).splitlines()]
    assert called
    assert [name for name in called if LIBM.fullmatch(name)] == []
    assert LIBM.fullmatch("log1p@GLIBC_2.29") and not LIBM.fullmatch("memcpy@GLIBC_2.14")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="wide builds are for x86-64 alone")
@pytest.mark.parametrize("build", WIDE)
def test_wide_builds_keep_to_their_own_namespace(build: str, tmp_path: Path) -> None:
    """A function that the linker may merge with another build's would bring wide instructions to processors without them."""
    objects = list((ROOT / "build").glob(f"[cn]*/CMakeFiles/build_{build}.dir/native/builds/*.o"))  # not those of sanitizers
    if not objects:
        objects = [tmp_path / "elementary.o"]
        options = ["-std=c++20", "-O1", "-ffp-contract=off", "-fno-math-errno", f"-DHW_BUILD={build}", *WIDE[build]]
        output(needs("g++"), *options, "-c", NATIVE / "builds" / "elementary.cpp", "-o", objects[0])
    for path in objects:
        lines = [line.split(maxsplit=2) for line in output(needs("nm"), "-C", "--defined-only", path).splitlines()]
        weak = [name for _, kind, name in lines if kind in "uvVwW"]
        assert [name for name in weak if f"hw::{build}::" not in name] == [], path
        assert not any("std::" in name for _, _, name in lines), path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_shared_headers_compile_alone_without_a_standard_library(folder: Path) -> None:
    compiler, alone = needs("g++"), ["-nostdinc++", "-ffreestanding", "-U__SSE2__"]
    for path in SHARED:
        if path.parent == folder:
            warned = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
            output(compiler, "-std=c++20", *alone, *warned, "-include", path, "-x", "c++", "/dev/null")


def test_only_the_registers_know_an_instruction() -> None:
    assert [path.name for path in SHARED if re.search(r"#include\s*<", path.read_text())] == ["registers.h"]


def test_shared_headers_compile_for_a_gpu(tmp_path: Path) -> None:
    output(
        needs("nvcc"), "-std=c++20", "-fmad=false", "-ptx", f"-I{NATIVE}", "-o", tmp_path / "every.ptx", every_header(tmp_path)
    )


def test_shared_headers_compile_at_run_time_for_a_gpu(tmp_path: Path) -> None:
    """NVRTC needs no GPU, and has no header of its own."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed")
    try:
        _, program = nvrtc.nvrtcCreateProgram(every_header(tmp_path).read_bytes(), b"every.cu", 0, None, None)
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    options = [b"--std=c++20", b"--fmad=false", b"--gpu-architecture=compute_80", b"--device-as-default-execution-space"]
    options.append(f"-I{NATIVE}".encode())
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()


PLAY = """
import ctypes, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("headwater.native", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)

def array(*shape, numbers=None):
    kind = ctypes.c_int64
    for n in reversed(shape):
        kind = kind * n
    whole = memoryview(kind())
    if 0 in shape:
        return whole
    for i, number in enumerate(numbers or []):
        whole.cast("B").cast("q")[i] = number
    return whole.cast("B").cast("q", shape)

pays = [[1, 2, 2, 0], [1, 0, 2, 1], [0, 2, 1, 2]]
hints = [[m - max(b for a, b in zip(x, y) if a == m) for y in pays] + [m] for x in pays for m in range(3)]
rewards = native.Rewards(array(3, 3, 4, numbers=sum(hints, [])), 1.0, 0.0, 2.0)
below = [share * 2**53 // 10 for share in (2, 5, 6)]
source = native.Source(array(3, numbers=below), array(0), array(3, 4, numbers=sum(pays, [])), array(0, 0, 0), 7)
told = []
for rule in ("ucb1", "kl-ucb", "ts", "ts-beta", "epsilon-greedy"):
    settings = native.Settings(rule=native.RULES[rule], seed=7, scale=2.0, sd=1.0, epsilon=0.1, filtered=1)
    for engine in ("serial", "lockstep"):
        pulls = array(20, 1, 3)
        seat = native.Seat(settings, pulls, array(20, 1), array(20, 3))
        native.play(native.Model(rewards), source, array(1, numbers=[300]), [seat], 0, array(2), 1, engine)
        told.append(pulls.tolist())
print(json.dumps([native.builds(), told]))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="wide builds are for x86-64 alone")
def test_a_processor_without_avx_gets_the_baseline_and_equal_results() -> None:
    """Without numpy, which asks for a newer processor than we do."""
    emulator, python = needs("qemu-x86_64"), os.path.realpath(sys.executable)
    builds, here = json.loads(output(python, "-c", PLAY, MODULE))
    old, there = json.loads(output(emulator, "-cpu", OLD_PROCESSOR, python, "-c", PLAY, MODULE))
    assert (old, builds[0]) == (["baseline"], "baseline")
    assert there == here
    assert here[::2] == here[1::2]  # the serial engine and the lanes


def test_importing_the_core_starts_no_thread() -> None:
    """Services fork their workers, and a thread does not live on in a fork."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("only Linux lists a process's threads")
    code = "import os, sys; from headwater import native; print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules)"
    assert output(sys.executable, "-c", code).split() == ["1", "False"]


def test_without_a_compiler_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    command: list[Any] = [needs("cmake"), "-S", ROOT, "-B", tmp_path / "build", f"-DPython_EXECUTABLE={sys.executable}"]
    done = subprocess.run(command, env={**os.environ, "CXX": str(tmp_path / "none")}, capture_output=True, text=True)
    assert done.returncode != 0
    assert (
        "headwater's core is C++20 and no compiler was found: install one (Debian, Ubuntu: apt install g++; Fedora: "
        "dnf install gcc-c++; macOS: xcode-select --install) or a wheel of headwater, which needs none."
    ) in " ".join(done.stderr.split())
    assert done.stderr.count("CMake Error") == 1


def test_the_stub_says_what_the_module_has() -> None:
    written = (ROOT / "src" / "headwater" / "native.pyi").read_text()
    told = {name for node in ast.parse(written).body for name in names_of(node)}
    assert told == {name for name in dir(native) if not name.startswith("_")}
    pytest.importorskip("nanobind", reason="nanobind is not installed")
    assert written == runpy.run_path(str(NATIVE / "stub.py"))["stub"](), "native.pyi is out of date: run make stub"


def names_of(node: ast.stmt) -> list[str]:
    """What a statement of the stub declares."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []
