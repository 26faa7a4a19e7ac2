"""Write src/headwater/native.pyi, what the type checker knows of the compiled core, from the module itself: ``make stub``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from nanobind.stubgen import StubGen

from headwater import native

STUB = Path(__file__).parents[1] / "src" / "headwater" / "native.pyi"
HEAD = '"""The compiled core: what runs once a round. Written by native/stub.py."""\n'
ARRAYS = {"float64": "Floats", "int64": "Ints", "bool": "Bools"}
LOOSE = {"object": "Any", "dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]"}


def stub() -> str:
    """The text of the stub: arrays by our names for them, whatever the module does not say as Any."""
    text = _written(native) + "class gpu:\n" + _as_class(_written(native.gpu))
    for plain, full in LOOSE.items():
        text = re.sub(rf"(: |-> |\[){plain}(?= = |[,)\]:]|$)", rf"\g<1>{full}", text, flags=re.MULTILINE)
    names = sorted(name for name in {*ARRAYS.values(), "AnyInts"} if re.search(rf"\b{name}\b", text))
    imports = "import enum\n" * ("enum." in text) + "from typing import Any\n\nfrom headwater.arrays import "
    text = f"{HEAD}\n{imports}{', '.join(names)}\n\n{text}".replace("**kwargs", "**kwargs: Any")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--config",
        STUB.parents[2] / "pyproject.toml",
        "--stdin-filename",
        STUB,
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def _written(module: Any) -> str:
    """What nanobind writes of a module, but its imports."""
    made = StubGen(module)
    made.put(module)
    text = re.sub(r"Annotated\[NDArray\[numpy\.(\w+?)_?\], dict\([^()]*(?:\([^()]*\)[^()]*)*\)\]", _array, made.get())
    return re.sub(r'^""".*?"""\n|^(?:import|from) .*\n', "", text, flags=re.MULTILINE)


def _as_class(text: str) -> str:
    """A submodule, which a stub cannot hold, as a class of static functions."""
    text = re.sub(r"^def ", "@staticmethod\ndef ", text, flags=re.MULTILINE).replace("headwater.native.", "")
    return "".join(f"    {line}\n" if line else "\n" for line in text.split("\n"))


def _array(found: re.Match[str]) -> str:
    return ARRAYS.get(found[1], "AnyInts")


if __name__ == "__main__":
    STUB.write_text(stub())
