"""Reads what every job route has in its address: the job, and values in the query."""

from __future__ import annotations

from rest_framework.request import Request

from base.core.errors import BadRequest
from base.core.words import whole
from jobs import access, queries
from jobs.models import Job
from portal.shared.viewer import reader_of, viewer_of

_MOST = 1_000_000_000


def find_job(request: Request, username: str, job: str) -> Job:
    """Find the job of the URL. As in v1 it is looked for before anything else is checked, but not for viewers who may
    read no job at all. Raises Unauthorized, NoJob."""
    return queries.get_job(username, job, mine=reader_of(request).username)


def find_job_for_details(request: Request, username: str, job: str) -> Job:
    """``find_job``, for those who may read the job's details. Raises Forbidden too."""
    row = find_job(request, username, job)
    access.require_details(viewer_of(request), row)
    return row


def is_legacy(request: Request, username: str) -> bool:
    """Whether the address is one of v1's that name no user. (In v2 the user is part of the job's name.)"""
    return not username and "/api/v2/" not in request.path_info


def query_text(request: Request, name: str) -> str:
    """A text of the query, empty when it is missing."""
    return str(request.query_params.get(name, ""))


def query_number(request: Request, name: str, default: int, most: int = _MOST) -> int:
    """Return a number of the query, from 0 to ``most``. Raises BadRequest."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if (number := whole(value, 15)) is None or number > most:
        raise BadRequest(f'child "{name}" fails because ["{name}" must be a number from 0 to {most}]')
    return number
