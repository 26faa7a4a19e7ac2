"""The API's reference as data: what the OpenAPI document says of every operation, with an example to try."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.routing import APIRoute

from headwater.service.keys import ROLES

METHODS = ("get", "post", "put", "patch", "delete")
TITLES = {
    "campaigns": "Campaigns",
    "decisions": "Decisions",
    "rewards": "Rewards",
    "knowledge": "What is known",
    "studio": "Studio: without any memory",
    "operations": "Operations",
}


class Parameter(NamedTuple):
    name: str
    place: str
    kind: str
    required: bool
    text: str


class Operation(NamedTuple):
    """One operation; ``curl`` is without the address, which stands before the path."""

    anchor: str
    method: str
    path: str
    summary: str
    text: str
    role: str | None
    parameters: tuple[Parameter, ...]
    fields: tuple[Parameter, ...]
    body: str | None
    curl: str
    errors: tuple[tuple[str, str], ...]


class Group(NamedTuple):
    name: str
    title: str
    operations: tuple[Operation, ...]


def reference(app: FastAPI) -> tuple[Group, ...]:
    """Every operation, by tag. Made once."""
    if not hasattr(app.state, "reference"):
        app.state.reference = _make(app)
    made: tuple[Group, ...] = app.state.reference
    return made


def _make(app: FastAPI) -> tuple[Group, ...]:
    document = app.openapi()
    roles = dict(_roles(app))
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                tag = methods[method].get("tags", ["operations"])[0]
                made = _operation(path, method, methods[method], roles.get((path, method)), document)
                groups.setdefault(tag, []).append(made)
    order = [*(tag for tag in TITLES if tag in groups), *(tag for tag in groups if tag not in TITLES)]
    return tuple(Group(tag, TITLES.get(tag, tag.capitalize()), tuple(groups[tag])) for tag in order)


def _roles(app: FastAPI) -> list[tuple[tuple[str, str], str]]:
    """The role that each route asks for: the one word of ROLES in its code, where it calls ``require``."""
    found = []
    for route in _api_routes(app.routes):
        code = getattr(route.endpoint, "__code__", None)
        if code is not None and "require" in code.co_names + code.co_freevars:
            role = next((word for word in code.co_consts if word in ROLES), None)
            found += [((route.path, method.lower()), role) for method in route.methods or () if role is not None]
    return found


def _api_routes(routes: Iterable[Any]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif (router := getattr(route, "original_router", None)) is not None:  # FastAPI keeps included routers whole
            yield from _api_routes(router.routes)


def _operation(path: str, method: str, said: dict[str, Any], role: str | None, document: dict[str, Any]) -> Operation:
    schema = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    body = None if schema is None else example_of(schema, document)
    described = said.get("description", "")
    summary = said.get("summary", "")
    if summary == summary.title():  # FastAPI made it from the name
        summary = summary.capitalize()
    parameters = tuple(_parameter(one, document) for one in said.get("parameters", []))
    return Operation(
        anchor=re.sub(r"[^a-z0-9]+", "-", f"{method} {path}".lower()).strip("-"),
        method=method.upper(),
        path=path,
        summary=summary,
        text=described,
        role=role,
        parameters=parameters,
        fields=() if schema is None else _fields(schema, document),
        body=None if body is None else _pretty(body),
        curl=_curl(path, method, body),
        errors=tuple(
            (status, answer.get("description", "")) for status, answer in said.get("responses", {}).items() if status[0] in "45"
        ),
    )


def _pretty(body: Any) -> str:
    """JSON as a person would write it: lists of plain entries on one line."""
    text = json.dumps(body, indent=2, ensure_ascii=False)
    return re.sub(r"\[[^][{}]*\]", lambda found: re.sub(r"\s*\n\s*", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text)


def _curl(path: str, method: str, body: Any) -> str:
    """What follows the address in a call by curl."""
    filled = path.replace("{id}", "two-ads.7" if path.startswith("/v1/decisions/") else "two-ads")
    parts = [filled] if method == "get" else [filled, "-X", method.upper()]
    if body is not None:
        parts += ["-H", "Content-Type: application/json", "-d", json.dumps(body, ensure_ascii=False)]
    return " ".join(part if part in ("-X", "-H", "-d") else shlex.quote(part) for part in parts)


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """What a reference refers to; of several choices the first that is not null."""
    while True:
        if "$ref" in schema:
            found = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
            schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
        elif choices := [one for one in schema.get("anyOf", schema.get("oneOf", ())) if one.get("type") != "null"]:
            schema = {**choices[0], **{key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}}
        else:
            return schema


def _kind(schema: dict[str, Any], document: dict[str, Any]) -> str:
    """A type in words: number, text, one of …"""
    found = _resolved(schema, document)
    if "enum" in found:
        return " or ".join(json.dumps(value) for value in found["enum"])
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list"}
    kind = found.get("type", "any JSON")
    limits = [
        f"{word} {found[key]:,.12g}"
        for key, word in (("minimum", "from"), ("maximum", "to"))
        if key in found and found[key] < 1e9
    ]
    word = " ".join([words.get(kind, kind), *limits])
    return f"{word} or null" if any(one.get("type") == "null" for one in schema.get("anyOf", ())) else word


def _parameter(said: dict[str, Any], document: dict[str, Any]) -> Parameter:
    schema = said.get("schema", {})
    text = said.get("description", "") or schema.get("description", "")
    default = schema.get("default")
    told = f"{text} Default: {json.dumps(default)}." if default is not None else text
    return Parameter(said["name"], said["in"], _kind(schema, document), said.get("required", False), told.strip())


def _fields(schema: dict[str, Any], document: dict[str, Any]) -> tuple[Parameter, ...]:
    """The keys of a body."""
    found = _resolved(schema, document)
    required = found.get("required", [])
    listed = []
    for name, said in found.get("properties", {}).items():
        text, default = said.get("description", ""), said.get("default")
        told = f"{text} Default: {json.dumps(default)}." if default is not None else text
        listed.append(Parameter(name, "body", _kind(said, document), name in required, told.strip()))
    return tuple(sorted(listed, key=lambda field: not field.required))


def example_of(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """A value that fits a schema: its own example where it has one."""
    found = _resolved(schema, document)
    for key in ("examples", "enum"):
        if found.get(key):
            return found[key][0]
    if "const" in found:
        return found["const"]
    kind = found.get("type")
    if kind == "object":
        properties = found.get("properties", {})
        wanted = found.get("required") or list(properties)[:2]
        return {name: example_of(properties[name], document) for name in wanted if name in properties}
    if kind == "array":
        return [example_of(found.get("items", {}), document)]
    return found.get("default", {"string": "text", "integer": 1, "number": 0.1, "boolean": True}.get(str(kind)))
