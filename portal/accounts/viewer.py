"""Who looks at a page or asks the API: a user, or a guest who has not signed in."""

from __future__ import annotations

from typing import Protocol

from django.conf import settings


class Viewer(Protocol):
    """A ``portal.models.User`` or Django's ``AnonymousUser``."""

    @property
    def is_authenticated(self) -> bool: ...


def may_read_jobs(viewer: Viewer) -> bool:
    """The job list and virtual clusters, and of each job what everybody may know (LONGSHORE_ANONYMOUS_READ)."""
    return viewer.is_authenticated or settings.ANONYMOUS_READ != "none"
