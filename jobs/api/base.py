"""Reads what every job route has in its address: the job, and values in the query."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request

from jobs import queries
from jobs.config.spec import JobSpec
from jobs.models import Job
from portal.accounts.viewer import may_read_jobs, viewer_of
from portal.core.errors import BadRequest, Unauthorized

_MOST = 1_000_000_000
# For the API's document. A config is read under any content type; comments and trailing commas are allowed in JSON.
CONFIG = {"application/json": JobSpec, "application/x-www-form-urlencoded": JobSpec, "text/plain": OpenApiTypes.STR}


def require_reader(request: Request) -> None:
    """Raise Unauthorized unless the viewer may read jobs."""
    if not may_read_jobs(viewer_of(request)):
        raise Unauthorized


def find_job(request: Request, username: str, job: str) -> Job:
    """The job of the URL. As in v1 it is looked for before anything else is checked, but not for viewers who may read
    no job at all. Raises Unauthorized, NoJob."""
    require_reader(request)
    return queries.get_job(username, job, mine=viewer_of(request).username)


def is_legacy(request: Request, username: str) -> bool:
    """Whether the address is one of v1's that name no user. (In v2 the user is part of the job's name.)"""
    return not username and "/api/v2/" not in request.path_info


def query_text(request: Request, name: str) -> str:
    """A text of the query, empty when it is missing. Raises BadRequest."""
    value = str(request.query_params.get(name, ""))
    if "\x00" in value:
        raise BadRequest(f'child "{name}" fails because ["{name}" contains an invalid value]')
    return value


def query_number(request: Request, name: str, default: int, most: int = _MOST) -> int:
    """A number of the query, from 0 to ``most``. Raises BadRequest."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) <= 15 and int(value) <= most):
        raise BadRequest(f'child "{name}" fails because ["{name}" must be a number from 0 to {most}]')
    return int(value)
