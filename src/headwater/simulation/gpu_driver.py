"""A GPU's memory and its kernels: through CUDA's driver, or played by the processor for tests (``HEADWATER_GPU=emulated``).

Kernels are compiled when they are first asked for, from the headers that the compiled core is made of (native/engines/gpu.cu),
by NVRTC through cuda-core, else by nvcc; what they become is kept in the user's cache folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headwater import native
from headwater.errors import ProblemError

__all__ = ["CREW", "FEW", "SOLO", "Driver", "Emulated", "Kind", "driver", "emulated", "missing"]

FEW, CREW, SOLO = range(3)
"""The ways to play, see native/engines/gpu.h."""
SOURCES = ("native", "../../../native")
"""Where the sources lie from here: in a wheel, and in the repository."""
WANTED = "engine: cuda needs an NVIDIA GPU and the cuda extra: "


class Kind(NamedTuple):
    """What a kernel is compiled for."""

    way: int
    rule: int = 0
    filtered: bool = False
    arms: int = 0
    atoms: int = 0  # 0: any number
    cells: int = 1  # of the table in shared memory
    members: int = 1  # threads that share a replication
    places: int = 1  # arms of each
    single: bool = False  # means in 32 bits
    narrow: bool = False  # sums in 32 bits
    random: bool = False  # random rewards under the filter
    learns: bool = False  # the law of X
    room: int = 0  # bytes in a thread's own memory

    @property
    def threads(self) -> int:
        """Of a block. Several warps that share a replication are a block."""
        return 64 if self.way == SOLO else self.members if self.members > 32 else 128

    @property
    def macros(self) -> dict[str, object]:
        real, count = "float" if self.single else "double", "int" if self.narrow else "hw::Int"
        return {
            "KIND": self.way,
            "RULE": self.rule,
            "FILTERED": int(self.filtered),
            "REAL": real,
            "COUNT": count,
            "ARMS": self.arms,
            "ATOMS": self.atoms,
            "CELLS": self.cells,
            "MEMBERS": self.members,
            "PLACES": self.places,
            "RANDOM": int(self.random),
            "LEARNS": int(self.learns),
            "ROOM": self.room,
            "THREADS": self.threads,
        }


def emulated() -> bool:
    return os.environ.get("HEADWATER_GPU") == "emulated"


def missing() -> str | None:
    """Why no kernel can run, in one sentence; None if one can."""
    if emulated():
        return None
    try:
        _driver()
    except ProblemError as problem:
        return WANTED + str(problem)
    if _nvrtc() is None and _nvcc() is None:
        return WANTED + "cuda-core with NVRTC is not installed, nor is nvcc; pip install 'headwater[cuda]'"
    return None


# --- compiling ----------------------------------------------------------------------------------------------------------


def _nvrtc() -> Any:
    """cuda-core, if NVRTC can be loaded."""
    try:
        import cuda.core
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception:  # noqa: BLE001 - whatever a broken toolkit raises
        return None
    return cuda.core


def _nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


@lru_cache(maxsize=1)
def _sources() -> tuple[Path, str]:
    """The folder of native sources, and a digest of what is there."""
    folder = next(path for name in SOURCES if (path := Path(__file__).parent / name).is_dir()).resolve()
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".cu")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return folder, digest.hexdigest()


def binary(kind: Kind, capability: str) -> bytes:
    """The kernels of a kind, compiled or from the cache. Products and sums are rounded one by one, but for means in 32 bits,
    which are the CPU's within rounding only."""
    folder, sources = _sources()
    core, nvcc = _nvrtc(), _nvcc()
    name = hashlib.sha256(repr((sources, sorted(kind.macros.items()), capability, core is None)).encode()).hexdigest()
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater" / "kernels" / f"{name}.cubin"
    if path.is_file():
        return path.read_bytes()
    compiled = _by_nvrtc(core, kind, capability, folder) if core is not None else _by_nvcc(str(nvcc), kind, capability, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            part.write(compiled)
        Path(part.name).replace(path)
    except OSError:  # a folder that cannot be written: compile again next time
        pass
    return compiled


def _by_nvrtc(core: Any, kind: Kind, capability: str, folder: Path) -> bytes:
    options = core.ProgramOptions(
        name="gpu.cu",
        arch=f"sm_{capability}",
        std="c++20",
        include_path=str(folder / "engines"),
        define_macro=[(f"HW_{name}", str(value)) for name, value in kind.macros.items()],
        fma=kind.single,
        ftz=kind.single,
        device_as_default_execution_space=True,
        diag_suppress=[177, 554],
    )
    source = (folder / "engines" / "gpu.cu").read_text(encoding="utf-8")
    return bytes(core.Program(source, "c++", options).compile("cubin").code)


def _by_nvcc(nvcc: str, kind: Kind, capability: str, folder: Path) -> bytes:
    fused = "true" if kind.single else "false"
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "gpu.cubin"
        command = [nvcc, "-cubin", f"-arch=sm_{capability}", "-std=c++20", f"-fmad={fused}", f"-ftz={fused}", "-w"]
        command += [f"-DHW_{name}={value}" for name, value in kind.macros.items()]
        done = subprocess.run(
            [*command, "-o", str(out), str(folder / "engines" / "gpu.cu")], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ProblemError(f"engine: nvcc cannot compile for this GPU: {_line(done.stderr)}")
        return out.read_bytes()


def _line(text: object) -> str:
    lines = str(text).strip().splitlines()
    return lines[0] if lines else type(text).__name__


# --- CUDA's driver ------------------------------------------------------------------------------------------------------


class Driver:
    """The first GPU."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self("cuInit", 0)
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise ProblemError("the driver finds no GPU")
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.device, self.context = device, context
        self.kernels: dict[Kind, tuple[Any, Any]] = {}
        self.pinned: list[tuple[int, int]] = []  # addresses and sizes of memory that the GPU copies to
        self.enter()

    def __call__(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            said = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(said))
            raise ProblemError(f"engine: the GPU's driver says no to {name}: {(said.value or b'?').decode()}")

    def enter(self) -> None:
        """Make this thread use it."""
        self("cuCtxSetCurrent", self.context)

    @cached_property
    def name(self) -> str:
        text = ctypes.create_string_buffer(100)
        self("cuDeviceGetName", text, 100, self.device)
        return text.value.decode()

    @cached_property
    def capability(self) -> str:
        return "".join(str(self.attribute(code)) for code in (75, 76))

    def attribute(self, code: int) -> int:
        out = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(out), code, self.device)
        return out.value

    def free(self) -> int:
        """Bytes that nobody uses."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def take(self, size: int) -> int:
        out = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(max(size, 64)))
        return out.value

    def give(self, address: int) -> None:
        self("cuMemFree_v2", ctypes.c_uint64(address))

    def send(self, address: int, block: np.ndarray[Any, Any]) -> None:
        self("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(block.ctypes.data), ctypes.c_size_t(block.nbytes))

    def buffers(self, size: int) -> list[np.ndarray[Any, Any]]:
        """Two that ``fetch`` fills, kept for the next run: it takes long to have them."""
        if not self.pinned or self.pinned[0][1] < size:
            for address, _ in self.pinned:
                self("cuMemFreeHost", ctypes.c_void_p(address))
            self.pinned = []
            for _ in range(2):
                out = ctypes.c_void_p()
                self("cuMemHostAlloc", ctypes.byref(out), ctypes.c_size_t(size), 0)
                self.pinned.append((int(out.value or 0), size))
        return [np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(at)) for at, length in self.pinned]

    def fetch(self, block: np.ndarray[Any, Any], address: int, size: int) -> None:
        """Begin to copy to one of the buffers."""
        self("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(block.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(size), None)

    def mark(self) -> Any:
        """What ``wait`` waits for: all that was asked for so far."""
        out = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(out), 2)  # without a time
        self("cuEventRecord", out, None)
        return out

    def wait(self, mark: Any) -> None:
        self("cuEventSynchronize", mark)
        self("cuEventDestroy_v2", mark)

    def play(self, kind: Kind, problem: bytes, launch: bytes, replications: int, tables: int) -> None:
        """Fill the ``tables`` of a launch, then play it."""
        prepare, play = self.kernel(kind)
        given = (ctypes.c_char * len(problem)).from_buffer_copy(problem), (ctypes.c_char * len(launch)).from_buffer_copy(launch)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(x) for x in given))
        for function, count in ((prepare, tables), (play, replications * kind.members)):
            grid = -(-count // kind.threads), 1, 1, kind.threads, 1, 1
            self("cuLaunchKernel", function, *grid, 0, None, pointers, None)

    def kernel(self, kind: Kind) -> tuple[Any, Any]:
        if kind not in self.kernels:
            module, functions = ctypes.c_void_p(), (ctypes.c_void_p(), ctypes.c_void_p())
            self("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(binary(kind, self.capability)))
            for function, name in zip(functions, (b"prepare", b"play"), strict=True):
                self("cuModuleGetFunction", ctypes.byref(function), module, name)
            self.kernels[kind] = functions
        return self.kernels[kind]


class Emulated:
    """The processor in place of a GPU: slow, for tests."""

    name = "emulated by the processor"

    def __init__(self) -> None:
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}

    def enter(self) -> None:
        pass

    def free(self) -> int:
        return 2**28

    def take(self, size: int) -> int:
        block = np.empty(size + 128, dtype=np.uint8)
        address = (block.ctypes.data + 63) // 64 * 64
        self.blocks[address] = block
        return address

    def give(self, address: int) -> None:
        del self.blocks[address]

    def send(self, address: int, block: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(address, block.ctypes.data, block.nbytes)

    def buffers(self, size: int) -> list[np.ndarray[Any, Any]]:
        return [np.empty(size, dtype=np.uint8) for _ in range(2)]

    def fetch(self, block: np.ndarray[Any, Any], address: int, size: int) -> None:
        ctypes.memmove(block.ctypes.data, address, size)

    def mark(self) -> None:
        return None

    def wait(self, mark: None) -> None:
        pass

    def play(self, kind: Kind, problem: bytes, launch: bytes, replications: int, tables: int) -> None:
        done = native.gpu.emulate(
            kind=kind.way,
            arms=kind.arms,
            atoms=kind.atoms,
            members=kind.members,
            filtered=kind.filtered,
            single=kind.single,
            narrow=kind.narrow,
            problem=problem,
            launch=launch,
        )
        assert done, kind


@lru_cache(maxsize=1)
def _driver() -> Driver:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        raise ProblemError(f"its driver cannot be loaded ({_line(problem)})") from None
    try:
        return Driver(library)
    except ProblemError as problem:
        raise ProblemError(f"the driver does not answer ({_line(problem)})") from None


def driver() -> Driver | Emulated:
    """The machine that kernels run on."""
    return Emulated() if emulated() else _driver()
