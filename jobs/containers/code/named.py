"""Which folders below ``/users/<user>/code`` jobs and templates name: by their codeDir, or where a command reads them.

Asked of many at once, as whoever has 100,000 jobs has as many specs, which are gone through once for all. What is
submitted or saved afterwards is read when it is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from base.core.bulk import chunks
from jobs import queries
from jobs.models import Job, Template

CAN_BE_NAMED = re.compile(r"[A-Za-z0-9._-]+").fullmatch  # as a job
_SAID = re.compile(r"/code/+([A-Za-z0-9._-]+)")
_OWN_NAME = re.compile(r"\$(?:PAI_JOB_NAME(?!\w)|\{PAI_JOB_NAME\})", re.ASCII)
_LATE = timedelta(minutes=1)  # a row that was written before the last look may be committed after it


class NamedFolders:
    """``due``: the folders that will be asked for, each (user, name)."""

    def __init__(self, due: Collection[tuple[str, str]]) -> None:
        self._due, self._names = set(due), {name for _, name in due}
        self._users = {username for username, _ in due}
        self._of_user: set[tuple[str, str]] = set()  # (user, what a job of theirs says)
        self._of_all: set[str] = set()  # what a template says, or somebody's job that waits or runs
        self._looked_at: datetime | None = None

    def left(self) -> list[tuple[str, str]]:
        """Those that nobody names now."""
        self._look()
        return [each for each in sorted(self._due) if not self.had(*each)]

    def has(self, username: str, name: str) -> bool:
        """Whether a job of theirs, anybody's live one or a template names it, also where it is cloned, of another
        name. What is not due is taken for named."""
        if (username, name) not in self._due:
            return True
        self._look()
        return self.had(username, name)

    def had(self, username: str, name: str) -> bool:
        """The same as of the last look."""
        return name in self._of_all or (username, name) in self._of_user

    def _look(self) -> None:
        since, self._looked_at = self._looked_at, timezone.now()
        if since is None:
            for some in chunks(sorted(self._users)):
                self._read(Job.objects.filter(username__in=some))
            self._read(Job.planned().filter(state__in=queries.LIVE))
            templates = Template.objects.all()
        else:
            self._read(queries.visible_jobs().filter(created_at__gte=since - _LATE))
            templates = Template.objects.filter(changed_at__gte=since - _LATE)
        for config in templates.filter(config__contains="code").values_list("config", flat=True).iterator():
            self._of_all |= self._said_in(config.replace("\\/", "/"))

    def _read(self, jobs: QuerySet[Job]) -> None:
        of = jobs.annotate(text=Cast("spec", TextField())).filter(text__contains="/code/").order_by()
        for username, name, state, text in of.values_list("username", "name", "state", "text").iterator():
            if said := self._said_in(_OWN_NAME.sub(name, text)):
                self._of_user.update((username, each) for each in said)
                if state in queries.LIVE:
                    self._of_all |= said

    def _said_in(self, text: str) -> set[str]:
        """The names of ours. One at the end of a sentence may have a full stop behind it."""
        said = set(_SAID.findall(text))
        return self._names.intersection(said | {each.rstrip(".") for each in said})
