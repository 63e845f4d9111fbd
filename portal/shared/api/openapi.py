"""Makes the OpenAPI document of the API: how it names operations, who may use them, and which errors each can answer.

An operation declares its own answers with ``extend_schema``; ``errors(409, 413)`` adds what only it can answer. What
follows from the form of an operation is added here: 401 where a token may be needed, 400 and 413 where there is a body,
400 where there is a query, 403 as a token may lack the scope (``bearer`` has it), 404 where the path names something.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, Literal, NotRequired, get_args, get_origin

from django.conf import settings
from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiResponse
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import model_json_schema
from typing_extensions import TypedDict, is_typeddict  # pydantic reads no other TypedDict before Python 3.12

from portal.shared.api.scopes import scope_of

Endpoint = tuple[str, str, str, Callable[..., Any]]
_one_at_once = Lock()
Direction = Literal["request", "response"]

_TITLES = {
    400: "The request cannot be understood. A body that is not JSON has no `code`.",
    401: "Guests may not do this: send `Authorization: Bearer <token>`.",
    403: "You may not do this, or your token lacks the scope.",
    404: "There is no such thing; `code` says which.",
    409: "The name is taken, or something else stands against it.",
    413: "The body is longer than 100 kB; no `code`.",
    429: "Too many wrong passwords, or too much asked for, from here.",
    500: "Something went wrong here.",
    503: "The node does not answer.",
}
_BODIES = ("application/json", "application/x-www-form-urlencoded")
_WORD = re.compile(r"[A-Za-z0-9]+")
_GUEST: dict[str, list[str]] = {}
_REF = "#/components/schemas/{model}"
_MANY = {list: "s", dict: "sByName"}  # what is added to a name for several


def document() -> dict[str, Any]:
    """The document, made once in a process, and by one thread: with the first one drf-spectacular loads its extensions,
    and fails when two threads do that."""
    with _one_at_once:
        return _document()


@cache
def _document() -> dict[str, Any]:
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


class Error(TypedDict):
    """Every error. Messages are those of the older system, character for character."""

    code: NotRequired[str]
    message: str


class Message(TypedDict):
    """A sentence that says what was done."""

    message: str


def errors(*statuses: int) -> dict[int, OpenApiResponse]:
    """Answers for ``extend_schema(responses={200: ..., **errors(409)})``."""
    return {status: OpenApiResponse(Error, _TITLES[status]) for status in statuses}


class Schema(AutoSchema):
    def get_operation_id(self) -> str:
        """``getUserUsernameJobsJob``: the method and all of the path, so that no two are the same."""
        path = self.path.removeprefix("/api/").removeprefix("v1/")
        return self.method.lower() + "".join(word[0].upper() + word[1:] for word in _WORD.findall(path))

    def get_tags(self) -> list[str]:
        parts = [part for part in self.path.split("/") if part and part not in {"api", "v1", "v2"}]
        return ["jobs" if "jobs" in parts else parts[0]]

    def get_auth(self) -> list[dict[str, Any]]:
        if not self.view.get_authenticators():
            return []
        named = {name: given for each in super().get_auth() for name, given in each.items()}
        named[Bearer.name] = [str(scope_of(self.path, self.method))]
        return [*({name: given} for name, given in named.items()), _GUEST]

    def map_parsers(self) -> list[Any]:
        """What a body is to be sent as. Any text is read as JSON, whatever its type, and a multipart body counts as an
        empty object: v1's clients rely on that, and nobody is to learn it."""
        return [each for each in super().map_parsers() if each in _BODIES]

    def _get_response_bodies(self, direction: Direction = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status in self._possible():
            if str(status) not in bodies:
                bodies[str(status)] = self._get_response_for_code(
                    errors(status)[status], str(status), direction=direction
                )
        return dict(sorted(bodies.items()))

    def _possible(self) -> set[int]:
        statuses = {401, 403} if self.view.get_authenticators() else set()
        if self.method in {"POST", "PUT", "PATCH"} or self._get_parameters_in("query"):
            statuses |= {400, 413} if self.method != "GET" else {400}
        return statuses | {404} if "{" in self.path else statuses

    def _get_parameters_in(self, place: str) -> list[dict[str, Any]]:
        return [each for each in self._get_parameters() if each["in"] == place]


class Bearer(OpenApiAuthenticationExtension):
    target_class = "portal.shared.api.auth.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}


class Session(OpenApiAuthenticationExtension):
    target_class = "portal.shared.api.auth.PageSession"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


class Shapes(PydanticExtension):
    """Models: in requests what has a default may be left out, in answers it is always there."""

    priority = 1

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        mode: Literal["validation", "serialization"] = "validation" if direction == "request" else "serialization"
        return _shown(auto_schema, model_json_schema(self.target, ref_template=_REF, mode=mode))


class TypedAnswers(OpenApiSerializerExtension):
    """TypedDicts, which views return as they are; and lists and maps (by name) of those or of models."""

    priority = 1

    @classmethod
    def _matches(cls, target: Any) -> bool:
        if get_origin(target) not in (list, dict):
            return is_typeddict(target)
        inner = get_args(target)[-1]
        return is_typeddict(inner) or (isinstance(inner, type) and issubclass(inner, BaseModel))

    def get_name(self, auto_schema: AutoSchema, direction: Direction) -> str:
        origin, inner = get_origin(self.target), get_args(self.target)
        return f"{inner[-1].__name__}{_MANY[origin]}" if origin else str(self.target.__name__)

    def get_identity(self, auto_schema: AutoSchema, direction: Direction) -> str:
        return self.get_name(auto_schema, direction)

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        return _shown(auto_schema, TypeAdapter(self.target).json_schema(ref_template=_REF, mode="serialization"))


def _shown(auto_schema: AutoSchema, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, with those that it refers to as components of their own."""
    for name, part in schema.pop("$defs", {}).items():
        component = ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, object=name, schema=part)
        auto_schema.registry.register_on_missing(component)
    return schema


def once(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Each route under one address: no ``/rest-server`` twins, and nothing of v2 or before v1 that v1 has too."""
    v1 = {(_view(callback), method) for path, _, method, callback in endpoints if path.startswith("/api/v1/")}
    return [each for each in endpoints if _is_shown(each, v1)]


def _is_shown(endpoint: Endpoint, v1: set[tuple[Any, str]]) -> bool:
    path, _, method, callback = endpoint
    if path.endswith(("/jobs/validate", "/jobs/stop")):  # with another method it is a job of that name
        return path.startswith("/api/v1/") and method == "POST"
    return path.startswith("/api/v1/") or (path.startswith("/api/v2/") and (_view(callback), method) not in v1)


def _view(callback: Any) -> Any:
    return getattr(callback, "cls", callback)


def plain_routes(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Adds the two routes that are not views of REST framework."""
    result["paths"]["/api/v1"] = {"get": _plain("getApi", "The API's root", "text/html; charset=utf-8")}
    result["paths"]["/healthz"] = {"get": _plain("getHealthz", "Is it well?", "application/json", 503)}
    return result


def _plain(name: str, summary: str, media_type: str, *others: int) -> dict[str, Any]:
    answer = {"description": "", "content": {media_type: {"schema": {}}}}
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["portal"],
        "responses": {str(status): answer for status in (200, *others)},
    }
