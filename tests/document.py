"""Holds answers of the API against its document, more strictly than the document is for clients: where it names the
fields of an object, an answer has no others."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from jsonschema_rs import Draft202012Validator

_UNDER = re.compile(r"^(?:rest-server/)?(?=api/)")


@cache
def document() -> dict[str, Any]:
    """The API's document, as clients get it."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


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
    """Raises AssertionError for a status that the document does not know, and for an unknown or missing field."""
    found = operation_of(route, method)
    if found is None or answer.status_code in (304, 405, 500) or answer.streaming or "Content-Encoding" in answer:
        return
    path, operation = found
    told = operation["responses"].get(str(answer.status_code))
    assert told is not None, f"{method} {path} answers {answer.status_code}, of which its document does not tell"
    kind = answer.get("Content-Type", "").partition(";")[0]
    if kind == "application/json" and answer.content:
        wrong = wrong_in(path, method.lower(), str(answer.status_code), json.loads(answer.content))
        assert wrong == [], f"{method} {path}: its document says otherwise"


def wrong_in(path: str, method: str, status: str, value: Any) -> list[str]:
    """What an answer has that the document does not say, and the other way round."""
    validator = _validator(path, method, status)
    return [f"{'.'.join(map(str, each.instance_path))}: {each.message}" for each in validator.iter_errors(value)]


@cache
def _validator(path: str, method: str, status: str) -> Draft202012Validator:
    content = document()["paths"][path][method]["responses"][status]["content"]
    shape = next(each["schema"] for kind, each in content.items() if kind.startswith("application/json"))
    return Draft202012Validator({"components": _components(), **strict(shape)})


@cache
def _components() -> Any:
    return strict(document()["components"])


def _parts(schema: Any) -> list[dict[str, Any]]:
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = [schema] if isinstance(schema, dict) else []
    return [*own, *(part for each in inner for part in _parts(each))]
