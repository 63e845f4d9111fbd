"""Values as answers of the API and rows of the history write them. Pure. It does without REST framework, so that the
scheduler and the workers need not load it to read nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, overload
from zoneinfo import ZoneInfo

from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema, core_schema

_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def one_of(*words: str) -> Any:
    """``Annotated[str, one_of("a", "b")]`` of an answer: its text is one of these."""
    return Field(json_schema_extra={"enum": [*words]})


@overload
def milliseconds(at: datetime) -> int: ...
@overload
def milliseconds(at: None) -> None: ...
@overload
def milliseconds(at: datetime | None) -> int | None: ...
def milliseconds(at: datetime | None) -> int | None:
    """A time as the API writes it: whole milliseconds since 1970, computed without a float, which would round."""
    return None if at is None else (at - _EPOCH) // _MILLISECOND


def local_time(time: int, zone: tzinfo | None) -> datetime:
    """The moment that is so many milliseconds after 1970 began, in a zone."""
    return (_EPOCH + timedelta(milliseconds=time)).astimezone(zone)


def zone_of(name: str) -> ZoneInfo | None:
    """The time zone of this name; None where there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone, or a folder of them
        return None


Moment = Annotated[int, BeforeValidator(milliseconds)]  # of a datetime: milliseconds since 1970
MomentOrNull = Annotated[int | None, BeforeValidator(milliseconds)]
OrNull = Annotated[str | None, BeforeValidator(lambda text: text or None)]  # of a text, which may be empty


class V1Answer(BaseModel):
    """An answer that is described once: its fields are named as they are sent, and shown in the document. Each is the
    attribute of its name, of the value that it says, unless it is ``called`` otherwise."""

    model_config = ConfigDict(from_attributes=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def of(cls, value: object) -> Any:
        """The answer that says this of a value: plain values, of the type that is shown as this model."""
        return cls.model_validate(value).model_dump(by_alias=True)


def called(path: str, **more: Any) -> Any:
    """The field is this attribute of the value, or one of an attribute: ``row.name``."""
    return Field(validation_alias=AliasPath(*path.split(".")), **more)


def absent() -> Any:
    """``Field(default_factory=absent)``: may be left out, which is None here, and null is refused."""
    return None


@dataclass(frozen=True, slots=True)
class Matches:
    """In an annotation: all of a text matches ``pattern``, which the document shows; ``sentence`` says that it does
    not."""

    pattern: str
    sentence: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def refusal(self, value: str) -> Exception:
        return ValueError(self.sentence)

    def _check(self, value: str) -> str:
        if not re.fullmatch(self.pattern, value, re.ASCII):
            raise self.refusal(value)
        return value
