"""Routes of ``/api/v2/jobs``: v2's answers for v1's JSON jobs (v1 contract, 3.10, 9). Jobs of protocol version 2 (YAML)
are refused."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts import budget
from base.core.errors import BadRequest, ConflictJob, InvalidProtocol
from jobs import services
from jobs.config import jsonc, protocol_v2, yaml_text
from jobs.config.spec import JobSpec
from jobs.models import Job
from portal.job.api import JobConfig
from portal.lists.api import JobList
from portal.shared.api.answers import no_api
from portal.shared.api.openapi import errors
from portal.shared.api.v1 import V1View, body
from portal.shared.viewer import user_of

_PROTOCOL_2 = "This is a job of protocol version 2 (YAML). Longshore takes v1 jobs: JSON with jobName."


class Accepted(BaseModel):
    status: int
    message: str


class JobListV2(JobList):
    @extend_schema(summary="Submit a v1 JSON job", request=JobSpec, responses={202: Accepted, **errors(404, 409, 429)})
    def post(self, request: Request, username: str = "") -> Response:
        user = user_of(request)
        sent = body(request)
        with budget.reading(user.username, sent):
            config = _v1_config(sent)
        try:
            job = services.submit(user, config)
        except ConflictJob as taken:
            if not taken.name:
                raise
            raise ConflictJob(f"Job {user.username}~{taken.name} already exists.") from None
        message = f"Update job {job.name} for user {user.username} successfully."
        return Response({"status": 202, "message": message}, status=202)


class JobConfigV2(JobConfig):
    """The config in the form of protocol version 2. (Below ``/api/v2/user`` it keeps v1's form, from which v0.14's
    pages clone.)"""

    def value_of(self, job: Job) -> Any:
        return protocol_v2.of_v1(JobSpec.from_json(job.spec), job.username)


class ProtocolProbe(V1View):
    """The VS Code extension asks for the config of this job. By NoApiError it knows that it must submit v1 JSON."""

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        raise no_api(request._request)


def _v1_config(config: Any) -> Any:
    """The body itself, or as JSON when it is YAML: clients of the later system convert v1 configs so. Raises
    InvalidProtocol, and BadRequest with what cannot be read of YAML."""
    if not isinstance(config, str):
        return config
    try:
        value = jsonc.parse(config).value
    except jsonc.NotJson:
        if config.lstrip().startswith(("{", "[", "/")):
            return config  # meant to be JSON: submit says what is wrong with it
        config, value = _from_yaml(config)
    if isinstance(value, dict) and "protocolVersion" in value:
        raise InvalidProtocol(_PROTOCOL_2)
    return config


def _from_yaml(text: str) -> tuple[str, Any]:
    """The config as JSON, and its value."""
    try:
        config = yaml_text.converted(text)
        return config, jsonc.parse(config).value
    except (yaml_text.NotYaml, jsonc.NotJson) as wrong:
        if "protocolVersion" in text:
            raise InvalidProtocol(_PROTOCOL_2) from None
        raise BadRequest(str(wrong)) from None
