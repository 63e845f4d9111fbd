"""Scopes of API tokens. A token may do what its scopes and its owner both may; one without scopes, as of a client that
signed in, may do all that its owner may. portal.shared.api.scopes says which route needs which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from base.core.errors import BadRequest
from base.models import User

ALL = "*"  # what a form chooses for a token without scopes


class Scope(StrEnum):
    JOBS_READ = "jobs:read"
    JOBS_SUBMIT = "jobs:submit"
    JOBS_STOP = "jobs:stop"
    FILES_READ = "files:read"
    FILES_WRITE = "files:write"
    ACCOUNT = "account:*"
    ADMIN = "admin:*"


SAYS: Mapping[Scope, str] = {
    Scope.JOBS_READ: "Read jobs, their logs and metrics, nodes, virtual clusters and reports",
    Scope.JOBS_SUBMIT: "Submit and change jobs, and get into their containers: terminal, SSH, web pages",
    Scope.JOBS_STOP: "Stop and delete jobs",
    Scope.FILES_READ: "Read files",
    Scope.FILES_WRITE: "Write and delete files",
    Scope.ACCOUNT: "Read and change the account with its notices, and read what it did",
    Scope.ADMIN: "What goes beyond a user: nodes, users, virtual clusters, and the jobs and files of others",
}


def stored(chosen: Iterable[str]) -> str:
    """These scopes as the row of a token has them. Raises BadRequest for none, and for what is no scope."""
    names = set(chosen)
    if not names:
        raise BadRequest("Choose at least one scope: what may the token do?")
    if unknown := sorted(names - {*Scope}):
        raise BadRequest(f"There is no scope {unknown[0][:40]!r}. The scopes are {', '.join(Scope)}.")
    return " ".join(scope for scope in Scope if scope in names)


def bound(user: User, scopes: str) -> User:
    """The user as they may act by a token whose row has these scopes: without ``admin:*`` as nobody but a user. Their
    row is never saved as a whole (User.save is not called without the fields to save)."""
    if scopes:
        user.scopes = frozenset(scopes.split())
        if Scope.ADMIN not in user.scopes:
            user.is_admin = user.is_auditor = False
    return user
