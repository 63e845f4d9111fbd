"""What routes of v1 share: they take three kinds of body, answer JSON, and report the first violation in v1's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from base.core.errors import BadRequest, TooLarge
from clusters.users.left import left_by
from portal.shared.api.parsers import MAX_BODY, JsonText, NestedForm, NoForm, UntypedText


class V1View(APIView):
    """Answers JSON whatever the client says it accepts, as v1 does."""

    parser_classes = (JsonText, NestedForm, NoForm, UntypedText)
    renderer: type[JSONRenderer] = JSONRenderer

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        if "indent" in request.META.get("HTTP_ACCEPT", ""):
            return super().perform_content_negotiation(request, force=True)
        return self.renderer(), self.renderer.media_type


class LongJson(JSONRenderer):
    """For answers that may have thousands of lines, of nothing but plain values: four times as fast."""

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return super().render(data, accepted_media_type, renderer_context)
        return long_json(data)


def long_json(data: Any) -> bytes:
    """Plain values as JSON. Two characters that end a line in JavaScript are escaped, as REST framework does."""
    return to_json(data).replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")


def body(request: Request) -> Any:
    """JSON text (a ``str``) or the values of a form. Raises TooLarge before it reads."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BODY:
        raise TooLarge
    return request.data


def fields(request: Request) -> dict[str, Any]:
    """The body as an object, sent as JSON, as a form or as JSON without a type; without a body it is empty. Values of a
    form are texts. Raises BadRequest (with no code when it is not JSON) and TooLarge."""
    data = body(request)
    if isinstance(data, str):
        data = _parsed(data)
    if not isinstance(data, Mapping):
        raise BadRequest('"value" must be an object')
    return dict(data)


def message_response(message: str, status: int = 201) -> Response:
    """The answer to most writes: a sentence."""
    return Response({"message": message}, status=status)


def telling_what_is_left(response: Response, username: str) -> Response:
    """The answer to a new account: where a deleted one of this name left something that is theirs now, a header says
    so, as v1's X-Warning does of a config."""
    if left := left_by([username]).get(username):
        response["X-Warning"] = left.sentence(username)
    return response


def plain(value: float) -> int | float:
    """30.0 is written 30, as JavaScript does."""
    return int(value) if value == int(value) else value


def _parsed(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise BadRequest("The body holds half of a character pair.") from None
    except RecursionError:
        raise BadRequest("The body is nested too deep.") from None
    except json.JSONDecodeError as error:
        sign = text[error.pos : error.pos + 1]
        where = f"Unexpected token {sign} in JSON at position {error.pos}" if sign else "Unexpected end of JSON input"
        unreadable = BadRequest(where)
        unreadable.code = None
        raise unreadable from None
    except ValueError:
        raise BadRequest("The body holds a number of too many digits.") from None
