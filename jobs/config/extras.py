"""Reads the extras that Longshore knows: what a job asks for beyond the fields of v1. Pure.

``extras`` is free storage (v1 contract, 1.1), so a key that is not known here is left alone. A known one with a wrong
value is a problem of the config. In a spec that an older release stored, such a value was free storage, and is again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, PydanticKnownError

from clusters.placement.shares import USUAL_GRACE
from clusters.placement.topology import LEVEL_NODE, MOST_LEVEL, NEAREST, Topology
from clusters.vcs.rules import MOST_GRACE, MOST_PRIORITY
from jobs.config import coerce, jsonc
from jobs.config.v1_words import Error, Loc, own_error

DESCRIPTION = (
    "Free storage. Known are `priority` (-100 to 100; above 0 where an admin allows it), `nodeLabels` ({label: value}),"
    ' `avoidNodes` (names), `topology` ({"prefer": level} or {"require": level}), `maxRunSeconds`, `preemptible`,'
    ' `dependsOn` (names, or {"job", "after": "success" or "end"}), `profile` (default or pai), `graceSeconds` (0 to'
    ' 600, as far as the virtual cluster allows), `notice` ({"signal", "seconds"}), `notify` (kinds of notices,'
    " and names of channels) and `secrets` ({name: text}); a wrong value of these is refused."
)
MOST_LABELS = 64
MOST_AVOIDED = 100  # nodes
MOST_AWAITED = 100  # jobs of one dependsOn
MOST_NOTIFIED, MOST_NAME = 10, 40  # kinds and channels of notify, and characters of one
HIDDEN = "(secret)"  # stands in a stored config in place of a secret's value
MAX_SECRETS = 30_000  # bytes of all secrets of a job
NO_TEXTS = "secrets must be an object of names and texts."
AS_TEXT = "Write extras and secrets as objects, not as texts with JSON in them: values are not taken out of a text."
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Nothing but the letters of the word, which no other English word with a c, an r and a t is made of; "secret" in
# another name; and one letter too many, too few or another one.
_LIKE_SECRETS = re.compile(
    "|".join(
        [r"(?=.*c)(?=.*r)(?=.*t)s[secrt]{4,9}", ".*secret.*"]
        + [f"{'secrets'[:at]}.?{'secrets'[to:]}" for at in range(8) for to in (at, at + 1)]
    )
)
_LOC = ("extras",)
SWEEP_KEYS = frozenset({"grid", "list"})  # with one of them ``sweep`` makes many jobs (jobs/config/sweep)


def _named(value: Any) -> Any:
    """A name alone stands for the success of that job."""
    return {"job": value} if isinstance(value, str) and not isinstance(coerce.container(value), dict) else value


class After(BaseModel):
    """A job that must have succeeded, or ended in any way, before this one starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: str = Field(strict=True, min_length=1, pattern=r"^([A-Za-z0-9\-._]+~)?[A-Za-z0-9\-._]+$", max_length=256)
    after: Literal["success", "end"] = "success"


def _level(value: Any) -> int:
    """``node``, or a number of parts of a path."""
    if value == "node":
        return LEVEL_NODE
    try:
        level = coerce.integer(value)
    except (PydanticCustomError, PydanticKnownError):
        level = 0
    if not 1 <= level <= MOST_LEVEL:
        raise PydanticCustomError("level", "not a level")
    return level


_Level = Annotated[
    int | None, BeforeValidator(_level), WithJsonSchema({"type": ["integer", "string"], "enum": [1, 2, 3, "node"]})
]


class Together(BaseModel):
    """How close together its tasks had better be, or must be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prefer: _Level = None
    require: _Level = None

    @model_validator(mode="after")
    def _is_one(self) -> Together:
        if (self.prefer is None) == (self.require is None):
            has = "has neither prefer nor require" if self.prefer is None else "has both prefer and require"
            says = f"topology {has}; it must have one of them."
            raise PydanticCustomError("one_of", "one of them", {"sentence": says, "v1": "must have one key"})
        return self


class Notice(BaseModel):
    """The signal with which a task is told that it ends, and how many seconds before SIGTERM."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signal: Literal["SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP", "SIGTERM"]
    seconds: Annotated[int | None, BeforeValidator(coerce.integer)] = Field(None, ge=0, le=MOST_GRACE)


class Extras(BaseModel):
    """The extras that Longshore knows, but for ``secrets`` (jobs/secrets.py)."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)

    priority: Annotated[int, BeforeValidator(coerce.integer)] = Field(0, ge=-MOST_PRIORITY, le=MOST_PRIORITY)
    node_labels: Annotated[
        dict[StrictStr, StrictStr], Field(max_length=MOST_LABELS), BeforeValidator(coerce.container)
    ] = {}
    max_run_seconds: Annotated[int | None, BeforeValidator(coerce.integer)] = Field(None, ge=1, le=2**31 - 1)
    avoid_nodes: Annotated[
        tuple[StrictStr, ...], Field(max_length=MOST_AVOIDED), BeforeValidator(coerce.container)
    ] = ()
    profile: Literal["default", "pai"] | None = None  # of containers; None: what its virtual cluster has
    preemptible: Annotated[bool, BeforeValidator(coerce.boolean)] = False
    depends_on: Annotated[
        tuple[Annotated[After, BeforeValidator(_named)], ...],
        Field(max_length=MOST_AWAITED),
        BeforeValidator(coerce.container),
    ] = ()
    topology: Annotated[Together | None, BeforeValidator(coerce.container)] = None
    grace_seconds: Annotated[int | None, BeforeValidator(coerce.integer)] = Field(None, ge=0, le=MOST_GRACE)
    notice: Annotated[Notice | None, BeforeValidator(coerce.container)] = None
    # Kinds of notices, and names of channels, in place of the rules of its owner.
    notify: Annotated[
        tuple[Annotated[StrictStr, Field(min_length=1, max_length=MOST_NAME)], ...] | None,
        Field(max_length=MOST_NOTIFIED),
        BeforeValidator(coerce.container),
    ] = None

    @property
    def closeness(self) -> Topology:
        if self.topology is None:
            return NEAREST
        return Topology(self.topology.require or self.topology.prefer or 0, self.topology.require is not None)

    @property
    def grace(self) -> int | None:
        """The seconds between notice and KILL that it asks for; None where it says nothing of them."""
        return USUAL_GRACE if self.grace_seconds is None and self.notice else self.grace_seconds


NOTHING = Extras()


def extras_of(extras: Mapping[str, JsonValue]) -> Extras:
    """What these extras of an accepted config ask for. A wrong value, which an older release stored, asks nothing."""
    if not extras:
        return NOTHING
    try:
        return Extras.model_validate(extras)
    except ValidationError as invalid:
        wrong = {each["loc"][0] for each in invalid.errors(include_url=False)}
        return Extras.model_validate({key: value for key, value in extras.items() if key not in wrong})


def is_misspelt(name: str) -> bool:
    """Whether a name is so close to ``secrets`` that it must be meant. What stands under it would be shown to all."""
    letters = "".join(filter(str.isalpha, unicodedata.normalize("NFKC", name).casefold()))
    return name != "secrets" and _LIKE_SECRETS.fullmatch(letters) is not None


def errors(extras: Any, *, as_text: bool = False) -> Iterator[Error]:
    """What is wrong with the extras of a decoded config, in the shape of pydantic's errors. ``as_text`` says that they
    stood in a text with JSON in it."""
    if not isinstance(extras, dict):
        return
    try:
        asks = Extras.model_validate(extras)
        yield from _twice(asks)
        yield from _too_early(asks)
    except ValidationError as invalid:
        yield from ({**each, "loc": (*_LOC, *each["loc"])} for each in invalid.errors(include_url=False))
    sweep = coerce.container(extras.get("sweep"))
    if isinstance(sweep, dict) and SWEEP_KEYS & sweep.keys():
        says = "This is a sweep of many jobs: send it to /sweeps, or take extras.sweep out for one job."
        yield own_error("sweep", (*_LOC, "sweep"), None, sentence=says, v1="must be sent to /sweeps")
    if "secrets" in extras:
        yield from [_secret(_LOC, AS_TEXT, "must be an object")] if as_text else _secrets(extras["secrets"])
    for name in filter(is_misspelt, extras):
        says = f"{jsonc.shown(name)} would be a note that everybody may read; perhaps secrets is meant."
        yield own_error("secret_name", (*_LOC, name), None, sentence=says, v1="is not allowed")


def _twice(asks: Extras) -> Iterator[Error]:
    seen: set[str] = set()
    for at, name in enumerate(awaited.job for awaited in asks.depends_on):
        if name in seen:
            says = f"{name} stands in dependsOn twice."
            yield own_error("duplicate", (*_LOC, "dependsOn", at), name, sentence=says, position=at)
        seen.add(name)


def _too_early(asks: Extras) -> Iterator[Error]:
    seconds, grace = asks.notice.seconds if asks.notice else None, asks.grace or 0
    if seconds is not None and seconds > grace:
        unsaid = "" if asks.grace_seconds is not None else " that it has where graceSeconds is not given"
        says = f"notice.seconds is {seconds}, which is more than the {grace} seconds of grace{unsaid}."
        yield own_error("notice", (*_LOC, "notice", "seconds"), seconds, sentence=says, v1="is more than graceSeconds")


def _secrets(secrets: Any) -> Iterator[Error]:
    """``extras.secrets`` has texts under names that a shell takes for variables. No sentence shows a value."""
    loc = (*_LOC, "secrets")
    if not isinstance(secrets, dict):
        is_text = isinstance(coerce.container(secrets), dict)
        yield _secret(loc, AS_TEXT if is_text else NO_TEXTS, "must be an object")
        return
    if sum(len(text.encode(errors="replace")) for text in secrets.values() if isinstance(text, str)) > MAX_SECRETS:
        yield _secret(loc, f"The secrets have more than {MAX_SECRETS:,} bytes.", "is too large")
    for name, text in secrets.items():
        if not _VARIABLE.fullmatch(name):
            says = "cannot be the name of a secret: letters, digits and underscores, no digit first."
            yield _secret((*loc, name), f"{jsonc.shown(name)} {says}", "is not allowed")
        elif not isinstance(text, str) or "\0" in text:
            yield _secret((*loc, name), f"The secret {name} must be a text in double quotes.", "must be a string")
        elif text == HIDDEN:
            says = f"The value of the secret {name} is kept in no config; write it again."
            yield _secret((*loc, name), says, "has no value: write it again")


def _secret(loc: Loc, says: str, v1: str) -> Error:
    return own_error("secret", loc, None, sentence=says, v1=v1)
