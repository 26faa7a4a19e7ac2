"""Problem files: TOML and JSON, everything wrong with its place, and the schema."""

from __future__ import annotations

import json
import math
import os
import threading
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headwater import Continuous, Discrete, Interval, Problem, ProblemError, Vector, files, load_problem
from headwater.files import build_problem, parse_problem, schema
from headwater.starters import STARTERS

EXAMPLES = sorted(path for path in (Path(__file__).parents[1] / "examples").rglob("*.toml") if path.parent.name != "sweeps")

GOOD: dict[str, Any] = {
    "latent": {"kind": "discrete", "values": ["a", "b"]},
    "arms": {"one": [1, 2], "two": [2, 1]},
}
KINDS = '"discrete", "continuous" or "vector"'


def complaints(data: Any) -> tuple[str, ...]:
    with pytest.raises(ProblemError) as caught:
        build_problem(data)
    return caught.value.complaints


def changed(**changes: Any) -> dict[str, Any]:
    return GOOD | changes


def latent(**keys: Any) -> dict[str, Any]:
    return changed(latent={"kind": "discrete", "values": ["a", "b"]} | keys)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (None, ["the problem: got null; expected a table with latent and arms"]),
        ([1], ["the problem: got [1]; expected a table with latent and arms"]),
        (
            {},
            ["latent: missing; expected a table that describes X", "arms: missing; expected a table of at least two arms"],
        ),
        (changed(nmae="x"), ["nmae: unknown key; expected name, latent, arms, reward_range or evidence"]),
        (changed(discrete=1), ["discrete: unknown key; expected name, latent, arms, reward_range or evidence"]),
        (latent(vlaues=[]), ["latent.vlaues: unknown key; expected kind, values or probabilities"]),
        (latent(vector=[]), ["latent.vector: unknown key; expected kind, values or probabilities"]),
        (latent(support=[0, 1]), ["latent.support: unknown key; expected kind, values or probabilities"]),
        (
            changed(latent={"kind": "continuous", "support": [0, 1], "probabilities": [1]}, arms={"a": "x", "b": "-x"}),
            ["latent.probabilities: unknown key; expected kind, support or distribution", "latent.probabilities: got [1]"],
        ),
        (
            changed(latent={"kind": "vector", "components": {"x": [0]}, "values": 1}, arms={"a": "x", "b": "-x"}),
            ["latent.values: unknown key; expected kind, components, probabilities or distribution"],
        ),
        (changed(latent={"kind": "discrete"}), ["latent.values: missing; expected the values X can take"]),
        (changed(latent={"kind": "continuous"}), ["latent.support: missing; expected two numbers, the lower end first"]),
        (changed(latent={"kind": "vector"}), ["latent.components: missing; expected a table of components"]),
        (changed(latent={}), [f"latent.kind: got null; expected {KINDS}"]),
        (changed(latent={"kind": "discreet", "values": [1]}), [f'latent.kind: got "discreet"; expected {KINDS}']),
        (changed(latent={"kind": ["discrete"], "values": [1]}), [f'latent.kind: got ["discrete"]; expected {KINDS}']),
        (changed(latent={"kind": None}), [f"latent.kind: got null; expected {KINDS}"]),
        (changed(latent=[1]), ["latent: got [1]; expected input should be a valid dictionary"]),
        (changed(name=3), ["name: got 3; expected input should be a valid string"]),
        (changed(name="\x07"), ["name: got "]),
        (changed(arms=[1, 2]), ["arms: got [1, 2]; expected a table of at least two arms"]),
        (changed(arms={}), ["arms: got 0; expected at least two"]),
        (changed(reward_range=0), ["reward_range: got 0; expected a number above 0"]),
        (changed(reward_range="2"), ['reward_range: got "2"; expected a number above 0']),
        (latent(probabilities=[0.5, 0.6]), ["latent.probabilities: the probabilities sum to 1.1; expected 1 (within 1e-9)"]),
        (latent(probabilities=[0, 0]), ["latent.probabilities: the probabilities sum to 0; expected 1 (within 1e-9)"]),
        (latent(probabilities="x"), ['latent.probabilities: got "x"; expected a list of probabilities']),
        (
            changed(
                latent={
                    "kind": "vector",
                    "components": {"x": [0, 1]},
                    "probabilities": [0.5, 0.5],
                    "distribution": {"sample": [[0]]},
                },
                arms={"a": "x", "b": "-x"},
            ),
            ["latent: got both probabilities and distribution; expected one of them"],
        ),
        (
            {"latent": GOOD["latent"], "reward_range": -1},
            ["arms: missing; expected", "reward_range: got -1; expected a number"],
        ),
        (
            {"latent": {"kind": "discrete", "values": []}, "arms": {"one": [1]}, "reward_range": 0, "extra": 1},
            ["extra: unknown", "latent.values: got []", "arms: got 1; expected at least two", "reward_range: got 0"],
        ),
        (dict([(1, 2), *GOOD.items()]), ["1: got"]),
    ],
)
def test_refused(data: Any, expected: list[str]) -> None:
    got = complaints(data)
    assert len(got) == len(expected), got
    for line in expected:
        assert any(g.startswith(line) for g in got), (line, got)


MANY_FAULTS = """
title = "faulty"
name = 7
reward_range = -2

[latent]
kind = "discrete"
values = [1, 2, nan, 2]
order = "up"

[arms]
only = [1, 2]
"""

MORE_FAULTS = """
title = "faulty"
reward_range = 0
[latent]
kind = "vector"
components = { x1 = [0, 1], x2 = { low = 0, high = 1 } }
probabilities = { x1 = [0.5, 0.6], x9 = [1] }
distribution = { x2 = { name = "bta" } }
[arms]
sum = "x1 + x3"
table = [1, 2]
bad = "x1 +"
undefined = "log(x2 - 2)"
"" = "x1"
"""


def test_a_file_with_many_faults_names_them_all() -> None:
    with pytest.raises(ProblemError) as caught:
        parse_problem(MANY_FAULTS)
    places = [line.split(":")[0] for line in caught.value.complaints]
    for place in ["title", "name", "reward_range", "latent.order", "latent.values[2]", "latent.values[3]", "arms"]:
        assert place in places, place
    with pytest.raises(ProblemError) as caught:
        parse_problem(MORE_FAULTS)
    text = str(caught.value)
    for part in (
        "title: unknown key",
        "reward_range: got 0",
        "latent.distribution.x1: the probabilities sum to 1.1",
        'latent.distribution: got "x9"',
        'latent.distribution.x2.name: got "bta"',
        "arms.sum: unknown name 'x3'",
        "arms.table: got [1, 2]; expected an expression",
        "arms.bad: this does not read",
        "arms.undefined: the reward at",
        'arms: got ""',
    ):
        assert part in text, part
    assert len(caught.value.complaints) == 10


# reading


def test_the_starters_are_good() -> None:
    discrete, continuous, vector = (parse_problem(STARTERS[kind]) for kind in ("discrete", "continuous", "vector"))
    assert isinstance(discrete.latent, Discrete) and discrete.names == ("banner", "video") and discrete.name == "two ads"
    assert isinstance(continuous.latent, Continuous) and len(continuous.arms) == 3
    assert isinstance(vector.latent, Vector) and vector.latent.parts[1] == Interval(0, 1)
    assert all(problem.distribution is not None for problem in (discrete, continuous, vector))


def test_the_commented_lines_of_the_starters_are_good_too() -> None:
    text = STARTERS["discrete"]
    random = text.replace("# [arms.coupon]", "[arms.coupon]").replace("# outcomes", "outcomes").replace("# prob", "prob")
    assert not parse_problem(random).deterministic
    assert parse_problem(text.replace("[latent]", "reward_range = 2\n[latent]", 1)).reward_range == 2
    lines = STARTERS["continuous"].splitlines()
    lines = [line.removeprefix("# ") if "sample" in line else line for line in lines if not line.startswith("distribution")]
    assert parse_problem("\n".join(lines)).distribution is not None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_read_and_written_back(path: Path) -> None:
    problem = load_problem(path)
    assert parse_problem(problem.to_toml(), name=path.stem) == problem


@pytest.mark.parametrize("kind", STARTERS)
def test_json_of_the_same_shape(kind: str, tmp_path: Path) -> None:
    toml, as_json = tmp_path / "p.toml", tmp_path / "p.JSON"
    toml.write_text(STARTERS[kind], encoding="utf-8")
    as_json.write_text(json.dumps(tomllib.loads(STARTERS[kind])), encoding="utf-8")
    assert load_problem(toml) == load_problem(str(as_json))


def test_json_spells_infinity() -> None:
    text = '{"latent": {"kind": "continuous", "support": [0, "inf"]}, "arms": {"a": "exp(-x)", "b": "1 - exp(-x)"}}'
    problem = parse_problem(text, json_text=True)
    assert problem.latent == Continuous([0, math.inf])
    assert parse_problem(problem.to_toml()) == problem
    both = text.replace('[0, "inf"]', '["-inf", "+inf"]').replace("exp(-x)", "tanh(x)")
    assert parse_problem(both, json_text=True).latent == Continuous([-math.inf, math.inf])


def test_the_file_gives_a_name_when_the_text_does_not(tmp_path: Path) -> None:
    path = tmp_path / "my ads.toml"
    path.write_text(parse_problem(STARTERS["discrete"].replace("name =", "# name =")).to_toml())
    assert load_problem(path).name == "my ads"
    path.write_text(STARTERS["discrete"])
    assert load_problem(path).name == "two ads"
    odd = tmp_path / "odd\x1bname.toml"
    odd.write_text(path.read_text().replace("name =", "# name ="))
    assert load_problem(odd).name == ""


def test_the_order_of_arms_and_components_survives_writing() -> None:
    vector = Vector({"b": {"low": 0, "high": 1}, "a": [0, 1]})
    problem = Problem(latent=vector, arms={"first": "a", "then": "b"})
    assert parse_problem(problem.to_toml()) == problem
    coupon = {"outcomes": [0, 3], "probabilities": [[0.9, 0.1], [0.5, 0.5]]}
    problem = Problem(latent=Discrete(["a", "b"]), arms={"z [x] = 1": coupon, "a.b": [1, 2], "é\"'": [2, 1]}, name='quo"te\\')
    again = parse_problem(problem.to_toml())
    assert again == problem and again.names == problem.names


def test_line_ends_and_marks_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b"\xef\xbb\xbf" + STARTERS["discrete"].replace("\n", "\r\n").encode())
    assert load_problem(path) == parse_problem(STARTERS["discrete"])


# what is not a problem file at all


def refused(path: Path | str) -> str:
    with pytest.raises(ProblemError) as caught:
        load_problem(path)
    return str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(tmp_path / "absent.toml").endswith("absent.toml: cannot be read: No such file or directory")
    assert refused(tmp_path).endswith("cannot be read: Is a directory")
    assert "cannot be read" in refused("a\0b")
    assert "cannot be read" in refused("a" * 5000)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"name = \xff\xfe")
    assert refused(binary).endswith("binary.toml: is not UTF-8 text (byte 7)")
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert refused(empty).startswith("latent: missing")
    empty_json = tmp_path / "empty.json"
    empty_json.write_text("")
    assert "empty.json: this is not JSON: Expecting value" in refused(empty_json)


def test_files_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.toml"
    path.write_text(STARTERS["discrete"])
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    assert f"the file has {path.stat().st_size:,} bytes; at most 100 are read" in refused(path)


@pytest.mark.skipif(os.name != "posix", reason="devices and named pipes are POSIX's")
def test_what_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that never ends is read up to the limit, a pipe that nobody writes to is not waited for for ever."""
    monkeypatch.setattr(files, "MAX_BYTES", 100_000)
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    assert refused("/dev/zero") == "/dev/zero: has more than 100,000 bytes; at most so many are read"
    assert refused("/dev/null").startswith("latent: missing")
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert refused(pipe) == f"{pipe}: is a pipe that nobody writes to; expected a file, or a writer in 0.05 s"


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX's")
def test_a_pipe_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)

    def written(data: bytes, slow: bool) -> Any:
        """What comes of a pipe that somebody else writes to, in two pieces where they are slow."""

        def write() -> None:
            with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
                file.write(data[: 10 if slow else None])
                opened.wait(0.1)
                file.write(data[10:] if slow else b"")

        opened, writer = threading.Event(), threading.Thread(target=write)
        writer.start()
        try:
            return load_problem(pipe)
        finally:
            writer.join()

    good = STARTERS["discrete"].encode()
    assert written(good, slow=False) == written(good, slow=True) == parse_problem(STARTERS["discrete"])
    monkeypatch.setattr(files, "MAX_BYTES", 100_000)
    with pytest.raises(ProblemError, match=r"pipe\.toml: has more than 100,000 bytes"):
        written(b"#" * 300_000, slow=False)


@pytest.mark.parametrize(
    ("text", "json_text", "expected"),
    [
        ("latent = ", False, "this is not TOML: Invalid value (at "),
        ("[arms]\na = 1\na = 2\nb = 3", False, "this is not TOML: Cannot overwrite a value (at line 3, column 6)"),
        ("[arms]\n[arms]", False, "this is not TOML: Cannot declare ('arms',) twice"),
        ("a = " + "[" * 100_000, False, "this is not TOML: "),
        ("a = " + "1" * 5000, False, "this is not TOML: "),
        ("{", True, "this is not JSON: Expecting property name"),
        ('{"arms": {"a": [1], "a": [2]}}', True, 'this is not JSON: the key "a" stands twice'),
        ("[" * 100_000, True, "this is not JSON: "),
        ("[1]", True, "the problem: got [1]; expected a table with latent and arms"),
        ("null", True, "the problem: got null"),
        ("NaN", True, "the problem: got NaN"),
        ('{"latent": 1e999, "arms": {}}', True, "latent: got Infinity"),
    ],
)
def test_text_that_is_no_problem(text: str, json_text: bool, expected: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_problem(text, json_text=json_text)
    assert str(caught.value).startswith(expected)


# the schema


def resolve(node: Any, root: dict[str, Any]) -> Any:
    while isinstance(node, dict) and "$ref" in node:
        node = root["$defs"][node["$ref"].removeprefix("#/$defs/")]
    return node


def accepts(node: Any, value: Any, root: dict[str, Any]) -> bool:
    """As much of JSON Schema as the schema uses; an unknown word in it fails."""
    node = resolve(node, root)
    known = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "enum", "const", "minItems"}
    known |= {
        "maxItems",
        "minProperties",
        "exclusiveMinimum",
        "minimum",
        "maximum",
        "discriminator",
        "title",
        "description",
        "default",
        "examples",
    }
    assert set(node) <= known | {"$defs"}, set(node) - known
    types: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "number": (int, float),
        "integer": int,
        "null": type(None),
    }
    wanted = node.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    checks = [
        not wanted or any(isinstance(value, types[t]) and not isinstance(value, bool) for t in wanted),
        "enum" not in node or value in node["enum"],
        "const" not in node or value == node["const"],
        all(any(accepts(n, value, root) for n in node[key]) for key in ("anyOf", "oneOf") if key in node),
    ]
    if isinstance(value, list):
        checks += [len(value) >= node.get("minItems", 0), len(value) <= node.get("maxItems", math.inf)]
        checks += [accepts(node["items"], v, root) for v in value if "items" in node]
    if isinstance(value, dict):
        more = node.get("additionalProperties", True)
        checks += [key in value for key in node.get("required", [])] + [len(value) >= node.get("minProperties", 0)]
        for key, v in value.items():
            rule = node.get("properties", {}).get(key, more)
            checks.append(rule if isinstance(rule, bool) else accepts(rule, v, root))
    if "exclusiveMinimum" in node and isinstance(value, (int, float)):
        checks.append(value > node["exclusiveMinimum"])
    if isinstance(value, (int, float)):
        checks += [value >= node.get("minimum", -math.inf), value <= node.get("maximum", math.inf)]
    return all(checks)


def test_the_schema_is_a_json_schema() -> None:
    root = schema()
    assert json.loads(json.dumps(root, allow_nan=False)) == root
    assert root["type"] == "object" and root["additionalProperties"] is False and root["required"] == ["latent", "arms"]
    assert set(root["properties"]) == {"name", "latent", "arms", "reward_range", "evidence"}
    assert {d["properties"]["kind"]["const"] for d in root["$defs"].values()} == {"discrete", "continuous", "vector"}


RANDOM = {"outcomes": [0, 1], "probabilities": [[1, 0], [0, 1]]}
ACCEPTED: list[Any] = [
    GOOD,
    changed(arms={"a": [1, 2], "b": RANDOM}, reward_range=2.5),
    changed(arms={"a": [1, 2], "b": {"reward": [1, 2], "noise": {"name": "uniform", "low": -1, "high": 1}, "bins": 8}}),
    {"latent": {"kind": "continuous", "support": [0, "inf"]}, "arms": {"a": "exp(-x)", "b": "0"}},
    {
        "latent": {"kind": "continuous", "support": [0, 1], "distribution": {"sample": [0.5], "weights": [1]}},
        "arms": {"a": "x", "b": "0"},
    },
    {
        "latent": {"kind": "vector", "components": {"x": [0, 1]}, "distribution": {"sample": [[0], [1]]}},
        "arms": {"a": "x", "b": [1, 2]},
    },
    {
        "latent": {"kind": "vector", "components": {"x": [0, 1], "y": [0, 1]}, "probabilities": [[0.5, 0], [0, 0.5]]},
        "arms": {"a": "x", "b": [[1, 2], [3, 4]]},
    },
    *(tomllib.loads(text) for text in STARTERS.values()),
    *(tomllib.loads(path.read_text()) for path in EXAMPLES),
]


@pytest.mark.parametrize("data", ACCEPTED)
def test_the_schema_accepts_what_is_read(data: Any) -> None:
    assert isinstance(build_problem(data), Problem)
    assert accepts(schema(), data, schema())


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        changed(extra=1),
        changed(reward_range=0),
        changed(arms={"a": [1, 2]}),
        changed(arms={"a": [1, 2], "b": {"outcomes": [1]}}),
        changed(arms={"a": [1, 2], "b": {"reward": [1, 2]}}),
        changed(arms={"a": [1, 2], "b": {"reward": [1, 2], "noise": {"name": "uniform", "low": 0, "high": 1}, "bins": 1}}),
        changed(arms={"a": [1, 2], "b": {"reward": [1, 2], "noise": {"low": -1, "high": 1}}}),
        latent(kind="other"),
        latent(values=[]),
        {"latent": {"kind": "continuous", "support": [0]}, "arms": {"a": "x", "b": "0"}},
        {"latent": {"kind": "continuous", "support": [0, "huge"]}, "arms": {"a": "x", "b": "0"}},
    ],
)
def test_the_schema_refuses_what_is_refused(data: Any) -> None:
    assert complaints(data)
    assert not accepts(schema(), data, schema())
