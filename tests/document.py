"""Holds answers of the API against its document, more strictly than the document is for clients: where it names the
fields of an object, an answer has no others."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.http import HttpResponse
from jsonschema_rs import Draft202012Validator

from portal.shared.api.openapi import document

_UNDER = re.compile(r"^(?:rest-server/)?(?=api/)")


def strict(schema: Any) -> Any:
    """A copy in which no object has fields that are not named, where any are."""
    schema = copy.deepcopy(schema)
    for part in _parts(schema):
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    return schema


def operation_of(route: str, method: str) -> tuple[str, dict[str, Any]] | None:
    """The path and the operation that the document has for a route of Django; None for what it does not tell of. What
    v2 has of v1 stands there under v1 alone."""
    if not _UNDER.match(route):
        return None
    path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", _UNDER.sub("", route))
    for known in (path, path.replace("/api/v2/", "/api/v1/")):
        operation = document()["paths"].get(known, {}).get(method.lower())
        if operation is not None:
            return known, operation
    return None


def check(route: str, method: str, answer: HttpResponse) -> None:
    """Raises AssertionError for an answer of which the document does not tell, with an unknown or missing field."""
    found = operation_of(route, method)
    if found is None or _is_of_no_route(answer):
        return
    path, operation = found
    told = operation["responses"].get(str(answer.status_code))
    if told is None and answer.status_code >= 400:  # which of these there may be, test_schemathesis.py asks
        return
    assert told is not None, f"{method} {path} answers {answer.status_code}, of which its document does not tell"
    kind = answer.get("Content-Type", "").partition(";")[0]
    if kind == "application/json" and answer.content:
        wrong = wrong_in(path, method.lower(), str(answer.status_code), json.loads(answer.content))
        assert wrong == [], f"{method} {path}: its document says otherwise"


def _is_of_no_route(answer: HttpResponse) -> bool:
    """Whether it may be the answer to anything, or cannot be read here."""
    return (
        answer.status_code in (304, 405)
        or answer.status_code >= 500
        or answer.streaming
        or "Content-Encoding" in answer
    )


def wrong_in(path: str, method: str, status: str, value: Any) -> list[str]:
    """What an answer has that the document does not say, and the other way round."""
    validator = _validator(path, method, status)
    return [f"{'.'.join(map(str, each.instance_path))}: {each.message}" for each in validator.iter_errors(value)]


def bodies(operation: dict[str, Any]) -> set[str]:
    """The names of the models of which a body is one."""
    shown = next(iter(operation["requestBody"]["content"].values()))["schema"]
    name, shape = _resolved(shown)
    return {each["$ref"].rpartition("/")[2] for each in shape["oneOf"]} if "oneOf" in shape else {name}


def named(path: str, method: str, status: str, value: Any) -> Iterator[str]:
    """The fields of an answer, each as ``JobStatus.waitingReason``."""
    yield from _named(_shape(path, method, status), value)


def all_named() -> set[str]:
    """All fields of answers of which the document tells."""
    found: set[str] = set()
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            for status in operation["responses"]:
                if status.startswith("2") and (shape := _shape(path, method, status)) is not None:
                    _all_named(shape, found, set())
    return found


def _all_named(shape: dict[str, Any], found: set[str], met: set[str]) -> None:
    name, shape = _resolved(shape)
    if name in met:
        return
    for field, inner in shape.get("properties", {}).items():
        found.add(f"{name}.{field}")
        _all_named(inner, found, met | {name})
    for inner in _inner(shape):
        _all_named(inner, found, met | ({name} if name else set()))


def _named(shape: dict[str, Any] | None, value: Any) -> Iterator[str]:
    if shape is None:
        return
    name, shape = _resolved(shape)
    if isinstance(value, dict) and "properties" in shape:
        for field in shape["properties"].keys() & value.keys():
            yield f"{name}.{field}"
            yield from _named(shape["properties"][field], value[field])
    for each in shape.get("anyOf", []) + shape.get("oneOf", []):
        if _fits(each, value):
            yield from _named(each, value)
    if isinstance(value, list) and isinstance(shape.get("items"), dict):
        for one in value:
            yield from _named(shape["items"], one)
    if isinstance(value, dict) and isinstance(shape.get("additionalProperties"), dict):
        for one in value.values():
            yield from _named(shape["additionalProperties"], one)


def _fits(shape: dict[str, Any], value: Any) -> bool:
    return _checking(json.dumps(shape)).is_valid(value)


def _inner(shape: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [shape.get("items"), shape.get("additionalProperties"), *shape.get("anyOf", []), *shape.get("oneOf", [])]
    return [each for each in parts if isinstance(each, dict)]


def _resolved(shape: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "$ref" not in shape:
        return "", shape
    name = shape["$ref"].rpartition("/")[2]
    return name, document()["components"]["schemas"][name]


def _shape(path: str, method: str, status: str) -> dict[str, Any] | None:
    content = document()["paths"][path][method]["responses"][status].get("content", {})
    found: Iterator[dict[str, Any]] = (each["schema"] for kind, each in content.items() if kind == "application/json")
    return next(found, None)


@cache
def _validator(path: str, method: str, status: str) -> Draft202012Validator:
    return _checking(json.dumps(_shape(path, method, status) or {}))


@cache
def _checking(shape: str) -> Draft202012Validator:
    """Knows the models that the shape leads to alone: to read them all takes longer than most tests."""
    schema = strict(json.loads(shape))
    known: dict[str, Any] = {}
    rest = [schema]
    while rest:
        names = {str(part["$ref"]).rpartition("/")[2] for part in _parts(rest.pop()) if "$ref" in part}
        new = {name: _models()[name] for name in names - known.keys()}
        known |= new
        rest += new.values()
    return Draft202012Validator({"components": {"schemas": known}, **schema})


@cache
def _models() -> dict[str, Any]:
    models: dict[str, Any] = strict(document()["components"]["schemas"])
    return models


def _parts(schema: Any) -> list[dict[str, Any]]:
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = [schema] if isinstance(schema, dict) else []
    return [*own, *(part for each in inner for part in _parts(each))]
