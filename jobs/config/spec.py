"""Reads a job config: from its text to a JobSpec, or to every problem in it. Pure.

The classes are the schema: names, defaults and limits of the v1 job config (v1 contract, 1.1), in the order in
which the v1 server checked them, so that its first violation is ours too. ``read_config`` takes text and
``read_value`` a body that is already decoded; both raise ``InvalidConfig`` with all problems, in document order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from base.core.errors import BadRequest, InvalidConfig, Problem, TooLarge
from clusters.vcs.rules import DEFAULT_VC
from jobs.config import coerce, jsonc, v1_words
from jobs.config.editing import mends
from jobs.config.extras import DESCRIPTION, Extras, extras_of
from jobs.config.problems import MOST_READ, PORT_MAX, across, problems_of

MAX_CONFIG_BYTES = 100 * 1024
MAX_FULL_NAME = 256  # of <user>~<job>
MAX_ROLE_TASKS = 50_000
MAX_TASKS = 100_000  # of all roles together
INT_MAX = 2**31 - 1  # what the v1 launcher could hold

IsGiven = Callable[[int, int], bool]

Int = Annotated[int, BeforeValidator(coerce.integer)]
Text = Annotated[str, Field(strict=True)]
Seen = AfterValidator(coerce.seen)
Addressable = AfterValidator(coerce.addressable)
Name = Annotated[str, Field(strict=True, min_length=1, pattern=r"^[A-Za-z0-9._~]+$", max_length=255), Addressable]
EnvName = Annotated[str, AfterValidator(coerce.env_name)]
ExtraName = Annotated[str, AfterValidator(coerce.extra_name)]


def _up_to_memory(value: int, info: ValidationInfo) -> int:
    memory = info.data.get("memory_mb")
    if memory is not None and value > memory:
        raise PydanticCustomError("shm_over_memory", "more than memoryMB", {"le": memory})
    return value


def _v1_name(name: str) -> str:
    return to_camel(name).replace("Mb", "MB")


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_v1_name, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _decode(cls, value: Any) -> Any:
        return coerce.container(value)


class PortSpec(_Spec):
    label: Name
    begin_at: Int = Field(0, ge=0, le=PORT_MAX)  # 0: any free ports
    port_number: Int = Field(1, ge=1, le=PORT_MAX)


_ADDED = PortSpec(label="http"), PortSpec(label="ssh")


class RoleSpec(_Spec):
    name: Name
    task_number: Int = Field(1, ge=1, le=MAX_ROLE_TASKS)
    cpu_number: Int = Field(1, ge=1, le=INT_MAX)
    memory_mb: Int = Field(100, ge=100, le=INT_MAX)
    shm_mb: Annotated[Int, AfterValidator(_up_to_memory)] = Field(64, ge=0)
    gpu_number: Int = Field(0, ge=0, le=INT_MAX)
    port_list: Annotated[tuple[PortSpec, ...], BeforeValidator(coerce.container)] = ()
    command: str = Field(strict=True, min_length=1, pattern=r"\S")
    min_failed_task_count: Annotated[Int, Field(ge=1)] | None = 1  # None: failures never fail the job
    min_succeeded_task_count: Annotated[Int, Field(ge=1)] | None = None  # None: wait for all

    @property
    def all_ports(self) -> tuple[PortSpec, ...]:
        """The ports of each task of the role: those of the config, and one ``http`` and one ``ssh`` unless the config
        has them; fixed ranges first, as v1 lists them."""
        own = {port.label for port in self.port_list}
        added = tuple(port for port in _ADDED if port.label not in own)
        return tuple(sorted(self.port_list + added, key=lambda port: port.begin_at == 0))


class JobSpec(_Spec):
    job_name: Annotated[str, Addressable] = Field(
        strict=True, min_length=1, pattern=r"^[A-Za-z0-9\-._]+$", max_length=255
    )
    image: Annotated[str, Field(strict=True, min_length=1, pattern=r"^\S+$"), AfterValidator(coerce.image_name), Seen]
    auth_file: Text = ""
    data_dir: Text = ""
    output_dir: Text = ""
    code_dir: Text = ""
    task_roles: Annotated[tuple[RoleSpec, ...], Field(min_length=1), BeforeValidator(coerce.container)]
    gpu_type: Annotated[str, Seen] = Field("", strict=True, pattern=r"^\S*$", max_length=256)
    # None when it is not given. A null in the config is refused, as in v1.
    kill_all_on_completed_task_number: Annotated[int | None, BeforeValidator(coerce.integer)] = None
    virtual_cluster: Text = DEFAULT_VC
    retry_count: Int = Field(0, ge=-2, le=INT_MAX)
    job_envs: Annotated[dict[EnvName, JsonValue], BeforeValidator(coerce.container)] = {}
    extras: Annotated[
        dict[ExtraName, JsonValue], Field(description=DESCRIPTION), BeforeValidator(coerce.container)
    ] = {}

    @cached_property
    def asked(self) -> Extras:
        """What its extras ask of Longshore."""
        return extras_of(self.extras)

    @property
    def total_tasks(self) -> int:
        return sum(role.task_number for role in self.task_roles)

    @property
    def total_gpus(self) -> int:
        return sum(role.task_number * role.gpu_number for role in self.task_roles)

    def asks_no_more_than(self, other: JobSpec) -> bool:
        """Whether no role has more tasks, and no task more of anything, than the role of that name has there."""
        there = {role.name: role for role in other.task_roles}
        return all(
            (before := there.get(role.name)) is not None
            and role.task_number <= before.task_number
            and role.cpu_number <= before.cpu_number
            and role.gpu_number <= before.gpu_number
            and role.memory_mb <= before.memory_mb
            and role.shm_mb <= before.shm_mb
            for role in self.task_roles
        )

    @property
    def effective_virtual_cluster(self) -> str:
        return self.virtual_cluster or DEFAULT_VC

    @property
    def is_debug(self) -> bool:
        """Whether a container whose command failed is kept for a while (v1 contract, 5.8)."""
        return self.job_envs.get("isDebug") is True

    @property
    def wants_rdma(self) -> bool:
        """Whether its containers ask for InfiniBand (v1 contract, 5.9)."""
        return self.job_envs.get("paiAzRDMA") is True

    @property
    def kill_all_after(self) -> int:
        """How many tasks of any role must exit 0 for the job to succeed (v1 contract, 4.5); 0 when the counts of the
        roles decide. A config with such counts is of the later generation, which ignored the old field."""
        counts = {(role.min_failed_task_count, role.min_succeeded_task_count) for role in self.task_roles}
        return max(self.kill_all_on_completed_task_number or 0, 0) if counts == {(1, None)} else 0

    def role(self, name: str) -> RoleSpec:
        """The role of this name. Raises KeyError when the job has none."""
        for role in self.task_roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def to_json(self) -> dict[str, JsonValue]:
        """The normalised form that is stored: each field that has a value, under its v1 name."""
        not_given = {"kill_all_on_completed_task_number"} if self.kill_all_on_completed_task_number is None else None
        return self.model_dump(mode="json", by_alias=True, exclude=not_given)

    @classmethod
    def from_json(cls, data: Mapping[str, JsonValue]) -> JobSpec:
        """The spec that ``to_json`` stored, maybe in an older release."""
        return cls.model_validate(data, by_alias=True, by_name=False, context=coerce.STORED)


def _any_port(first: int, number: int) -> bool:
    return True


def read_config(
    text: str, *, name_from_url: str | None = None, username: str = "", is_given: IsGiven = _any_port
) -> JobSpec:
    """The spec of the job that ``text`` asks for: JSON, in which comments and trailing commas are allowed.

    ``name_from_url`` wins over the name in the text. With ``username`` the length of the full name is checked too.
    ``is_given`` says whether any node gives out so many fixed ports from the first on.
    Raises TooLarge above MAX_CONFIG_BYTES and InvalidConfig with every problem; its code is None when the text is not
    JSON at all.
    """
    return _read(parse(text), name_from_url, username, is_given)


def parse(text: str) -> jsonc.Document:
    """The document that a text is, whatever it asks for. Raises TooLarge and InvalidConfig as ``read_config`` does."""
    if len(text) > MAX_CONFIG_BYTES or len(text.encode(errors="surrogatepass")) > MAX_CONFIG_BYTES:
        raise TooLarge
    if not text.strip():
        raise InvalidConfig(_EMPTY, [Problem(1, 1, "", "The config is empty.")])
    try:
        return jsonc.parse(text)
    except jsonc.NotJson as fault:
        problem = Problem(fault.line, fault.column, "", fault.message, mends.comma(text) if fault.is_syntax else None)
        raise InvalidConfig(fault.v1, [problem], code=None if fault.is_syntax else BadRequest.code) from None


def read_value(
    value: object, *, name_from_url: str | None = None, username: str = "", is_given: IsGiven = _any_port
) -> JobSpec:
    """The same for a body that is already decoded, such as a form. Line and column of its problems are 0."""
    try:
        text = json.dumps(value, ensure_ascii=False)  # escapes would make it longer than what was sent
    except (TypeError, ValueError, RecursionError):
        message = "The config must be made of texts, numbers, lists and objects."
        raise InvalidConfig('"value" must be an object', [Problem(0, 0, "", message)]) from None
    try:
        return read_config(text, name_from_url=name_from_url, username=username, is_given=is_given)
    except InvalidConfig as invalid:
        placeless = [Problem(0, 0, each.path, each.message, each.mend) for each in invalid.problems]
        raise InvalidConfig(invalid.message, placeless) from None


def substitute_paths(spec: JobSpec, *, fs_uri: str, username: str) -> dict[str, str]:
    """``authFile``, ``dataDir``, ``outputDir`` and ``codeDir`` as the tasks see them (v1 contract, 1.4). The first
    ``$PAI_DEFAULT_FS_URI`` and the names of job and user are filled in; without an output folder there is a default."""

    def fill(path: str) -> str:
        return _JOB_OR_USER.sub(lambda m: names[m[1]], path.replace("$PAI_DEFAULT_FS_URI", fs_uri, 1))

    names = {"JOB_NAME": spec.job_name, "USER_NAME": username, "USERNAME": username}
    return {
        "authFile": fill(spec.auth_file),
        "dataDir": fill(spec.data_dir),
        "outputDir": fill(spec.output_dir) or f"{fs_uri}/Output/{username}/{spec.job_name}",
        "codeDir": fill(spec.code_dir),
    }


_EMPTY = 'child "jobName" fails because ["jobName" is required]'
_JOB_OR_USER = re.compile(r"\$PAI_(JOB_NAME|USER_NAME|USERNAME)(?!\w)", re.ASCII)
_LEVELS: dict[int, type[_Spec]] = {1: JobSpec, 3: RoleSpec, 5: PortSpec}  # by length of an unknown field's location
_NAMES = {level: [_v1_name(name) for name in level.model_fields] for level in _LEVELS.values()}


def _read(document: jsonc.Document, name_from_url: str | None, username: str, is_given: IsGiven) -> JobSpec:
    errors: list[v1_words.Error] = []
    try:
        spec = _validate(document.value)
        if name_from_url is not None and name_from_url != spec.job_name:
            spec = _validate({**spec.to_json(), "jobName": name_from_url})
        errors += _name_length(spec.job_name, username)
    except ValidationError as invalid:
        errors += [_known_fields(error) for error in invalid.errors(include_url=False) if not _is_hollow(error)]
    if len(errors) <= MOST_READ:
        errors += across(document.value, max_tasks=MAX_TASKS, max_gpus=INT_MAX, is_given=is_given)
    if errors or document.faults:
        message = v1_words.first_violation(errors) if errors else document.faults[0].v1
        raise InvalidConfig(message, problems_of(errors, document))
    return spec


def _validate(value: Any) -> JobSpec:
    return JobSpec.model_validate(value, by_alias=True, by_name=False)


def _name_length(name: str, username: str) -> list[v1_words.Error]:
    most = MAX_FULL_NAME - len(f"{username}~")
    if len(name) <= most:
        return []
    return [v1_words.own_error("string_too_long", ("jobName",), name, max_length=most)]


def _known_fields(error: v1_words.Error) -> v1_words.Error:
    level = _LEVELS.get(len(error["loc"]))
    if error["type"] != "extra_forbidden" or level is None:
        return error
    return {**error, "ctx": {"known": _NAMES[level]}}


def _is_hollow(error: v1_words.Error) -> bool:
    """Whether pydantic calls an array empty only because it refused all elements, each with an error of its own."""
    return error["type"] == "too_short" and bool(coerce.container(error["input"]))
