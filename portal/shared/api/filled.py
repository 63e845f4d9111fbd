"""Answers that are described once: a model names what is answered, takes it from a value of a lower floor, and is shown
in the document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from base.core.values import milliseconds

Moment = Annotated[int, BeforeValidator(milliseconds)]  # of a datetime: milliseconds since 1970
OrNull = Annotated[str | None, BeforeValidator(lambda text: text or None)]  # of a text, which may be empty


class V1Answer(BaseModel):
    """Fields are named as they are sent. Each is the attribute of its name, unless it is ``called`` otherwise."""

    model_config = ConfigDict(from_attributes=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def of(cls, value: object) -> Any:
        """The answer that says this of a value: plain values, of the type that is shown as this model."""
        return cls.model_validate(value).model_dump(by_alias=True)


def called(path: str, **more: Any) -> Any:
    """The field is this attribute of the value, or one of an attribute: ``row.name``."""
    return Field(validation_alias=AliasPath(*path.split(".")), **more)
