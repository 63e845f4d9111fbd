"""``/api/schema`` and ``/api/docs``: the API's document, and the same as a page. Each is made once in a process.

Ours, because the pages of drf-spectacular (with drf-spectacular-sidecar: 9 MB of scripts) show nothing without a
script.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from portal.shared.api import openapi

_DEEPEST = 8  # a shape that holds itself would never end


class DocumentView(SpectacularAPIView):
    def _get_schema_response(self, request: Request) -> Any:
        renderer: Any = type(request.accepted_renderer)
        document, etag = _written(renderer)
        response = HttpResponse(document, content_type=renderer.media_type, headers={"ETag": etag})
        return get_conditional_response(request, etag=etag, response=response)


@cache
def _written(renderer: Any) -> tuple[bytes, str]:
    """The document in this format, and its ETag."""
    document = renderer().render(openapi.document(), renderer_context={})
    return document, f'"{hashlib.sha256(document).hexdigest()[:16]}"'


@csrf_exempt
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "docs/api_docs.html", {"groups": _groups(), "nav": "api"})


@cache
def _groups() -> list[dict[str, Any]]:
    """``[{"name", "operations": [...]}]`` in the order of the routes."""
    schema = openapi.document()
    shapes = schema.get("components", {}).get("schemas", {})
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(path, method, operation, shapes))
    return [{"name": name, "operations": operations} for name, operations in groups.items()]


def _operation(path: str, method: str, operation: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation.get("summary", ""),
        "scope": next((names[0] for each in operation.get("security", []) for names in each.values() if names), ""),
        "text": operation.get("description", ""),
        "parameters": [{**each, "type": _type(each["schema"], shapes)} for each in operation.get("parameters", [])],
        "takes": ", ".join(body),
        "body": list(_fields(next((each["schema"] for each in body.values()), {}), shapes)),
        "answers": [_answer(status, answer, shapes) for status, answer in operation["responses"].items()],
    }


def _answer(status: str, answer: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, dict[str, Any]] = answer.get("content", {})
    media_type = next(iter(content), "")
    schema = content[media_type].get("schema", {}) if content else {}
    fields = list(_fields(schema, shapes)) if status.startswith("2") else []
    return {"status": status, "text": answer["description"], "media_type": media_type, "fields": fields}


def _fields(shape: dict[str, Any], shapes: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield a line for each field; those of an inner object follow it."""
    inner = _object_in(shape, shapes)
    needed = inner.get("required", [])
    for name, field in inner.get("properties", {}).items() if len(above) < _DEEPEST else ():
        path = (*above, name)
        text = field.get("description", "")
        yield {"name": ".".join(path), "type": _type(field, shapes), "required": name in needed, "text": text}
        yield from _fields(field, shapes, path)


def _object_in(shape: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    """The object that a list, a map or a choice of shapes is about; {} without one."""
    shape = _resolved(shape, shapes)
    if "properties" in shape:
        return shape
    inner = [shape[key] for key in ("items", "additionalProperties") if isinstance(shape.get(key), dict)]
    for each in [*inner, *shape.get("anyOf", [])]:
        if inner_object := _object_in(each, shapes):
            return inner_object
    return {}


def _resolved(shape: dict[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    ref = shape.get("$ref")
    return shapes[ref.rsplit("/", 1)[1]] if ref else shape


def _type(shape: dict[str, Any], shapes: dict[str, Any]) -> str:
    shape = _resolved(shape, shapes)
    if "enum" in shape or "const" in shape:
        return " | ".join(map(str, shape.get("enum", [shape.get("const")])))
    if "anyOf" in shape:
        return " or ".join(_type(each, shapes) for each in shape["anyOf"])
    kind = shape.get("type", "any")
    if kind == "array":
        return f"list of {_type(shape.get('items', {}), shapes)}"
    if kind == "object" and isinstance(shape.get("additionalProperties"), dict):
        return f"map of {_type(shape['additionalProperties'], shapes)}"
    return str(kind)
