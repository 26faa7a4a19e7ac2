"""Problem files: TOML (or JSON of the same shape) to a :class:`Problem`, and the JSON Schema of that shape.

pydantic checks the frame (which keys, which kind) and prints the schema; what stands inside the frame is checked where
Python users' input is, so that both get the same words, and everything wrong is said in one go.
"""

from __future__ import annotations

import json
import os
import stat
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from headwater.complaints import Complaints, shown
from headwater.distributions import as_distribution
from headwater.errors import ProblemError
from headwater.latent import Continuous, Discrete, Latent, Vector
from headwater.noise import ALIASES, MAX_BINS, PARAMETERS
from headwater.problem import Problem, check_outline

MAX_BYTES = 200_000_000
PATIENCE = 10.0
"""Seconds to wait for somebody to open the other end of a named pipe."""

_NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
_NESTED: dict[str, Any] = {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "array"}]}}
_END: dict[str, Any] = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}]}
_LAW: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": {"type": "number"},
    "examples": [{"name": "beta", "a": 4, "b": 4}],
}
_SAMPLE: dict[str, Any] = {
    "type": "object",
    "properties": {"sample": _NESTED, "weights": _NUMBERS},
    "required": ["sample"],
    "additionalProperties": False,
}
_RANDOM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcomes": _NUMBERS,
        "probabilities": _NESTED,
        "edges": _NUMBERS,
        "observations": _NESTED,
        "mean_high": _NESTED,
    },
    "required": ["outcomes", "probabilities"],
    "additionalProperties": False,
}
_NOISY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reward": {"anyOf": [_NESTED, {"type": "string"}]},
        "noise": {
            "type": "object",
            "properties": {"name": {"enum": sorted([*PARAMETERS, *ALIASES])}, "values": _NUMBERS, "probabilities": _NUMBERS},
            "required": ["name"],
            "additionalProperties": {"type": "number"},
            "examples": [{"name": "uniform", "low": -1, "high": 1}],
        },
        "bins": {"type": "integer", "minimum": 2, "maximum": MAX_BINS},
    },
    "required": ["reward", "noise"],
    "additionalProperties": False,
}
_COMPONENT: dict[str, Any] = {
    "anyOf": [
        _NUMBERS,
        {
            "type": "object",
            "properties": {"low": _END, "high": _END},
            "required": ["low", "high"],
            "additionalProperties": False,
        },
    ]
}


class _Frame(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DiscreteLatent(_Frame):
    """X takes one of finitely many values."""

    kind: Literal["discrete"]
    values: Annotated[Any, WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1})]
    probabilities: Annotated[Any, WithJsonSchema(_NUMBERS)] = None


class ContinuousLatent(_Frame):
    """X takes any value of an interval."""

    kind: Literal["continuous"]
    support: Annotated[Any, WithJsonSchema({"type": "array", "items": _END, "minItems": 2, "maxItems": 2})]
    distribution: Annotated[Any, WithJsonSchema({"anyOf": [_LAW, _SAMPLE]})] = None


class VectorLatent(_Frame):
    """X is a vector of finite components and intervals."""

    kind: Literal["vector"]
    components: Annotated[Any, WithJsonSchema({"type": "object", "additionalProperties": _COMPONENT, "minProperties": 1})]
    probabilities: Annotated[
        Any, WithJsonSchema({"anyOf": [_NESTED, {"type": "object", "additionalProperties": _NUMBERS}]})
    ] = None
    distribution: Annotated[Any, WithJsonSchema({"anyOf": [_SAMPLE, {"type": "object", "additionalProperties": _LAW}]})] = None


LatentFrame = Annotated[DiscreteLatent | ContinuousLatent | VectorLatent, Field(discriminator="kind")]
_ARMS = {
    "type": "object",
    "additionalProperties": {"anyOf": [_NESTED, {"type": "string"}, _RANDOM, _NOISY]},
    "minProperties": 2,
}


class ProblemFile(_Frame):
    """A headwater problem: the latent X and what each arm pays for each of its values."""

    name: str = ""
    latent: LatentFrame
    arms: Annotated[Any, WithJsonSchema(_ARMS)]
    reward_range: Annotated[Any, WithJsonSchema({"type": "number", "exclusiveMinimum": 0})] = None
    evidence: Annotated[dict[str, Any] | None, WithJsonSchema({"type": "object"})] = None


def schema() -> dict[str, Any]:
    """The JSON Schema of a problem file."""
    return ProblemFile.model_json_schema()


def load_problem(path: str | Path) -> Problem:
    """Read a problem from a ``.toml`` or ``.json`` file."""
    return load_with_evidence(path)[0]


def load_with_evidence(path: str | Path) -> tuple[Problem, Mapping[str, Any]]:
    """A problem file's problem, and the evidence that it states, which is empty in one that was not learned."""
    path = Path(path)
    text = read_text(path)
    try:
        data = _decode(text, json_text=path.suffix.lower() == ".json")
    except ProblemError as error:
        raise ProblemError(f"{path}: {error}") from None
    problem = build_problem(data, name=path.stem if path.stem.isprintable() else "")
    return problem, data.get("evidence") or {}


def read_text(path: Path) -> str:
    """The text of a file that a user names, or a sentence."""
    try:
        return read_bytes(path).decode("utf-8-sig")  # some editors put a mark before the text
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:  # ValueError: a name no file can have
        raise ProblemError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_bytes(path: Path) -> bytes:
    """All of a file, a pipe or a device, if that is at most ``MAX_BYTES``: what has no end is not read to its end.

    Raises ``OSError`` and ``ValueError`` as ``Path.read_bytes`` does.
    """
    about = path.stat()
    if about.st_size > MAX_BYTES:
        raise ProblemError(f"{path}: the file has {about.st_size:,} bytes; at most {MAX_BYTES:,} are read")
    if stat.S_ISFIFO(about.st_mode):
        found = _from_pipe(path)
    else:
        with path.open("rb") as file:
            found = file.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise ProblemError(f"{path}: has more than {MAX_BYTES:,} bytes; at most so many are read")
    return found


def _from_pipe(path: Path) -> bytes:
    """What comes out of a pipe. One with a name is refused where nobody comes to write: opening it would wait for ever."""
    pipe, end, named = os.open(path, os.O_RDONLY | os.O_NONBLOCK), time.monotonic() + PATIENCE, path.resolve().is_fifo()
    with os.fdopen(pipe, "rb", buffering=0) as file:
        while (begun := file.read(1 << 16)) == b"" and named:
            if time.monotonic() > end:
                raise ProblemError(f"{path}: is a pipe that nobody writes to; expected a file, or a writer in {PATIENCE:g} s")
            time.sleep(0.02)
        os.set_blocking(pipe, True)
        parts = [begun or b""]  # None: somebody is there, and has written nothing so far
        while (room := MAX_BYTES + 1 - sum(map(len, parts))) and (part := file.read(min(room, 1 << 20))):
            parts.append(part)
        return b"".join(parts)


def parse_problem(text: str, *, name: str = "", json_text: bool = False) -> Problem:
    """Read a problem from the text of a TOML (or JSON) file. ``name`` is used when the text gives none."""
    return build_problem(_decode(text, json_text=json_text), name=name)


def _decode(text: str, *, json_text: bool) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates) if json_text else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if json_text else "TOML"
        raise ProblemError(f"this is not {kind}: {str(error) or 'nested too deeply'}") from None


def build_problem(data: Any, *, name: str = "") -> Problem:
    """A problem from parsed data in the shape of a problem file; everything wrong is reported at once.

    >>> build_problem({"latent": {"kind": "discrete", "values": ["a"]}, "arms": {"v": ["n/a"]}, "extra": 1})
    Traceback (most recent call last):
    ...
    headwater.errors.ProblemError: extra: unknown key; expected name, latent, arms, reward_range or evidence
    arms: got 1; expected at least two
    arms.v[0]: got "n/a"; expected a finite number
    """
    found = Complaints()
    if not isinstance(data, Mapping):
        raise ProblemError(f"the problem: got {shown(data)}; expected a table with latent and arms")
    try:
        ProblemFile.model_validate(dict(data))
    except ValidationError as error:
        _translate(error, found)
    latent, law = _build_latent(data.get("latent"), found)
    given = data.get("name")
    body = {"arms": data.get("arms", {}), "reward_range": data.get("reward_range")}
    title = given if isinstance(given, str) and given else name
    missing = "arms" not in data  # said already
    if latent is None:
        check_outline({"one": 1, "other": 1} if missing else body["arms"], body["reward_range"], found)
        found.raise_if_any()
        raise AssertionError("a latent that cannot be built has a complaint")
    try:
        problem = Problem(latent=latent, distribution=law, name=title, **body)
    except ProblemError as error:
        found.lines += [line for line in error.complaints if not (missing and line.startswith("arms:"))]
        found.raise_if_any()
        raise
    found.raise_if_any()
    return problem


def _build_latent(frame: Any, found: Complaints) -> tuple[Latent | None, Any]:
    """The support and the distribution, as far as they can be made out."""
    if not isinstance(frame, Mapping):
        return None, None
    kinds: dict[Any, tuple[type[Latent], str]] = {
        "discrete": (Discrete, "values"),
        "continuous": (Continuous, "support"),
        "vector": (Vector, "components"),
    }
    maker, key = kinds.get(frame.get("kind") if isinstance(frame.get("kind"), str) else None, (None, ""))
    if maker is None or key not in frame:
        return None, None
    try:
        latent = maker(frame[key])
    except ProblemError as error:
        found.lines += error.complaints
        return None, None
    p, law = frame.get("probabilities"), frame.get("distribution")
    if isinstance(latent, Vector) and isinstance(p, Mapping) and isinstance(law, Mapping):
        return latent, as_distribution(latent, {**p, **law}, found, "latent.distribution")
    if p is not None and law is not None:
        found.say("latent: got both probabilities and distribution; expected one of them")
    if p is not None:
        return latent, as_distribution(latent, p, found, "latent.probabilities")
    return latent, None if law is None else as_distribution(latent, law, found, "latent.distribution")


def _translate(error: ValidationError, found: Complaints) -> None:
    """pydantic's findings in our words."""
    for item in error.errors(include_url=False):
        loc = item["loc"]
        place = [str(part) for i, part in enumerate(loc) if i != 1 or loc[0] != "latent"]  # there stands the kind
        where = ".".join(place) or "the problem"
        if item["type"] == "extra_forbidden":
            found.say(f"{where}: unknown key; expected {_keys(loc)}")
        elif item["type"] == "missing":
            found.say(f"{where}: missing; expected {_meaning(place[-1])}")
        elif item["type"].startswith("union_tag"):
            kind = item["input"].get("kind") if isinstance(item["input"], Mapping) else item["input"]
            found.add(f"{where}.kind", kind, '"discrete", "continuous" or "vector"')
        else:
            found.add(where, item["input"], item["msg"].lower())


def _keys(loc: tuple[int | str, ...]) -> str:
    frames: dict[Any, type[BaseModel]] = {
        "discrete": DiscreteLatent,
        "continuous": ContinuousLatent,
        "vector": VectorLatent,
    }
    *most, last = frames.get(loc[1] if len(loc) > 2 else None, ProblemFile).model_fields
    return f"{', '.join(most)} or {last}"


def _meaning(key: str) -> str:
    meanings = {
        "latent": "a table that describes X",
        "arms": "a table of at least two arms",
        "values": "the values X can take",
        "support": "two numbers, the lower end first",
        "components": "a table of components",
    }
    return meanings.get(key, "a value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise ValueError(f"the key {shown(key)} stands twice")
        out[key] = value
    return out
