"""What every job route shares: which job it is about, whether the viewer may read jobs, and values in the query."""

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
    if not may_read_jobs(viewer_of(request)):
        raise Unauthorized


def find_job(request: Request, username: str, job: str) -> Job:
    """The job of the URL, before anything else is asked, as v1 does; but no word of it to who may read nothing."""
    require_reader(request)
    return queries.get_job(username, job, mine=viewer_of(request).username)


def is_legacy(request: Request, username: str) -> bool:
    """Whether the address is one of v1's that name no user; those of v2 put the user into the name."""
    return not username and "/api/v2/" not in request.path_info


def query_text(request: Request, name: str) -> str:
    value = str(request.query_params.get(name, ""))
    if "\x00" in value:
        raise BadRequest(f'child "{name}" fails because ["{name}" contains an invalid value]')
    return value


def query_number(request: Request, name: str, default: int, most: int = _MOST) -> int:
    value = request.query_params.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) <= 10 and int(value) <= most):
        raise BadRequest(f'child "{name}" fails because ["{name}" must be a number from 0 to {most}]')
    return int(value)
