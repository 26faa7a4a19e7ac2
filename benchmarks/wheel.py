"""Build the sources and a wheel for this machine into dist/, and try the wheel in an empty environment: ``make wheel``.

The wheel is built out of the sources' archive, so that this holds all it takes. Wheels for older systems and for ARM are
cibuildwheel's to build: ``[tool.cibuildwheel]`` in pyproject.toml.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt"))


def main() -> None:
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="headwater-wheel-") as place:
        seconds = processor_time(
            run, sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT, cwd=place, quiet=True
        )
        (wheel,) = DIST.glob("*.whl")
        (archive,) = DIST.glob("*.tar.gz")
        size, sources = (f"{path.stat().st_size / 1e6:.1f} MB" for path in (wheel, archive))
        print(f"{wheel.name}: {size}, compiled in {seconds:.0f} processor-seconds; {archive.name}: {sources}")
        check_files(wheel)
        run(sys.executable, "-m", "venv", f"{place}/venv", cwd=place)
        python = f"{place}/venv/bin/python"
        run(python, *PIP, str(wheel), cwd=place)
        run(python, ROOT / "benchmarks" / "try_installed.py", cwd=place)


def check_files(wheel: Path) -> None:
    """A wheel holds the package alone, and one compiled module."""
    names = zipfile.ZipFile(wheel).namelist()
    compiled = [name for name in names if name.endswith((".so", ".pyd", ".dylib"))]
    strange = [
        name for name in names if not name.startswith(("headwater/", "headwater-")) or name.endswith((".cpp", ".h", ".o"))
    ]
    if len(compiled) != 1 or strange:
        sys.exit(f"{wheel.name}: got the modules {compiled} and the files {strange}; expected one module and no other files")


def run(*command: str | Path, cwd: str, quiet: bool = False) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=quiet, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed.\n{(done.stdout or '') + (done.stderr or '') if quiet else ''}")


def processor_time(call: Callable[..., None], *args: Any, **named: Any) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call(*args, **named)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
