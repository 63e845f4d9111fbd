"""Bodies of v1's routes, each described once: a model says what may be sent, checks it, and is shown in the document.

What is wrong is said as v1's server said it: the first violation in the order of the fields, unknown fields last. A
form has only texts, so a number or a truth may be a text everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from rest_framework.request import Request

from base.accounts.passwords import LONGEST
from base.core import words
from base.core.errors import BadRequest
from base.core.values import Matches
from jobs.config import coerce, v1_words
from portal.shared.api.v1 import fields, plain


class V1Body(BaseModel):
    """Fields are named as in Python here, and as v1 names them where they are sent and shown."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


B = TypeVar("B", bound=V1Body)


def read(kind: type[B], request: Request) -> B:
    """The checked body of the request. Raises BadRequest with the first violation, and TooLarge."""
    try:
        return kind.model_validate(fields(request))
    except ValidationError as invalid:
        raise BadRequest(v1_words.first_violation([_first(invalid)])) from None


def limits(*kinds: type[V1Body]) -> dict[str, tuple[int, int]]:
    """{field: (least, most)} of the numbers in these bodies, for a form that asks for the same."""
    bounds = {name: dict(map(_bound, field.metadata)) for kind in kinds for name, field in kind.model_fields.items()}
    return {name: (found["ge"], found["le"]) for name, found in bounds.items() if found.keys() >= {"ge", "le"}}


def _bound(part: Any) -> tuple[str, Any]:
    return next(((name, getattr(part, name)) for name in ("ge", "le") if hasattr(part, name)), ("", None))


def _first(invalid: ValidationError) -> v1_words.Error:
    """The first error, at the field of the innermost object that it is about."""
    error: Any = invalid.errors(include_url=False)[0]
    ctx = {name: plain(value) if isinstance(value, float) else value for name, value in error.get("ctx", {}).items()}
    loc = error["loc"][-1:] if isinstance(error["loc"][-1], str) else error["loc"]
    if error["type"] == "string_too_short" and error["input"]:
        sentence = f"length must be at least {ctx['min_length']} characters long"
        return v1_words.own_error("v1", loc, error["input"], v1=sentence)
    return {**error, "loc": loc, "ctx": ctx}


def invalid_value(sentence: str) -> PydanticCustomError:
    """What a validator raises: what is wrong with a value, in the words that follow its name."""
    return PydanticCustomError("v1", "{v1}", {"v1": sentence})


class V1Matches(Matches):
    """Its sentence may have the value in it."""

    def refusal(self, value: str) -> Exception:
        return invalid_value(self.sentence.format(value=value))


def _storable(value: str) -> str:
    if "\x00" in value:
        raise invalid_value("contains an invalid value")
    return value


def _seen(value: str) -> str:
    if sign := words.unseen(value):
        raise invalid_value(f"has {sign}, a sign that nobody sees")
    return value


def _flag(value: Any) -> Any:
    return coerce.boolean(value.lower() if isinstance(value, str) else value)


def _quota(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        size = value if isinstance(value, int) and not isinstance(value, bool) else words.quota_in(value)
    except (ValueError, TypeError, AttributeError):
        size = None
    if size is None or not words.UNLIMITED <= size < 1 << 63:
        raise invalid_value("must be a number of bytes, a size such as 100g, none, or null")
    return size


_QUOTA: Mapping[str, Any] = {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}
_FLAG: Mapping[str, Any] = {"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["true", "false"]}]}
STORABLE = AfterValidator(_storable)
SEEN = AfterValidator(_seen)  # of short names that lists show
FilledText = Annotated[str, Field(min_length=1), STORABLE]
ShortText = Annotated[str, Field(max_length=255), STORABLE]
Password = Annotated[str, Field(min_length=6, max_length=LONGEST), STORABLE]
Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({**_FLAG})]
Number = Annotated[float, BeforeValidator(coerce.numeric)]
WholeNumber = Annotated[int, BeforeValidator(coerce.integer)]
Quota = Annotated[int | None, BeforeValidator(_quota), WithJsonSchema({**_QUOTA})]
