"""Requests and answers of the gateway as plain values. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

from base.core.errors import BadRequest
from base.core.words import whole
from base.files.store.base import Writing, joined, names_of

PREFIXES = ("/webhdfs/v1", "/webhdfs/api/v1")
UNSET = ("", "null", "-1")  # how clients write a number that they leave to the server
DATA = "data"  # the parameter that marks the second step
NO_REDIRECT = "noredirect"  # the parameter that asks for its address in the body
# The parameter of CREATE's first step, which HDFS does not know: how many bytes more there will be, of this file or of
# all that a client is about to write here. What does not fit is refused before the first of them.
LENGTH = "length"


class Unsupported(BadRequest):
    """HDFS can do this, and this gateway cannot."""


@dataclass(frozen=True, slots=True)
class Request:
    """``path`` is the store's; names of ``params`` and ``headers`` are lower case."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    address: str = ""  # of the caller
    url: str = ""  # without the query
    has_body: bool = False

    @property
    def op(self) -> str:
        return self.params.get("op", "").upper()

    def flag(self, name: str) -> bool:
        text = self.params.get(name, "").lower()
        if text not in ("", "true", "false"):
            raise BadRequest(f"Invalid value for webhdfs parameter {name!r}: {text} is not true or false.")
        return text == "true"

    def number(self, name: str, default: int | None = None) -> int | None:
        text = self.params.get(name, "")
        if text in UNSET:
            return default
        if (value := whole(text)) is None:
            raise BadRequest(f"Invalid value for webhdfs parameter {name!r}: {text} is not a number.")
        return value

    def mode(self, default: int) -> int:
        text = self.params.get("permission", "")
        if text in ("", "null"):
            return default
        try:
            return int(text, 8) & 0o1777
        except ValueError:
            raise BadRequest(f"Invalid value for webhdfs parameter 'permission': {text} is not octal.") from None

    @property
    def length(self) -> int | None:
        """Bytes of the body; None when the client does not announce them."""
        return whole(self.headers.get("content-length"))

    def is_second_step(self) -> bool:
        return self.flag(DATA)

    def has_credentials(self) -> bool:
        """Whether the request proves who asks, by more than a name."""
        bearer = self.headers.get("authorization", "").strip().lower().startswith("bearer ")
        return bearer or bool(self.params.get("delegation")) or "cookie" in self.headers

    def second_step(self) -> str:
        """The address of the data, which is where a NameNode would name a DataNode."""
        params = {name: value for name, value in self.params.items() if name != NO_REDIRECT}
        return f"{self.url}?{urlencode({**params, DATA: 'true'})}"


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` is the whole body, or pieces that are sent one by one; an iterator is closed at the end. ``into``: where
    the request's body goes before this answer is sent."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterator[bytes] = b""
    into: Writing | None = None
    told: Callable[[], Mapping[str, Any]] | None = None  # what the body of the answer says once the request's is read


def json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode())


def redirect(request: Request) -> Answer:
    """The first step of two: where the data is read from or sent to."""
    if request.flag(NO_REDIRECT):
        return json_answer({"Location": request.second_step()})
    return Answer(307, {"Location": request.second_step(), "Content-Type": "application/octet-stream"})


def is_ours(path: str) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in PREFIXES)


def path_in(raw_path: bytes) -> str:
    """The store's path in the path of an address. Raises BadRequest, BadPath."""
    try:
        path = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        raise BadRequest("The path is not UTF-8.") from None
    prefix = next(prefix for prefix in reversed(PREFIXES) if path == prefix or path.startswith(f"{prefix}/"))
    return joined(names_of(path.removeprefix(prefix) or "/"))


def params_in(query: bytes) -> dict[str, str]:
    return {name.lower(): value for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
