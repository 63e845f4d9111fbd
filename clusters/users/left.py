"""What deleted accounts have left: whoever gets an account of such a name later gets their jobs and files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from base.core import words
from base.core.signals import about_jobs
from base.files.store import open_store, rules
from base.files.store.base import BadPath, PathNotFound, StoreUnavailable
from base.models import FormerUser


@dataclass(frozen=True, slots=True)
class Left:
    """``jobs`` have ended. ``files``: whether there are any; None while the store does not answer."""

    jobs: int
    files: bool | None

    def sentence(self, username: str) -> str:
        jobs = f"{words.count(self.jobs, 'ended job', 'ended jobs')} with logs" if self.jobs else ""
        files = {True: "files", False: "", None: "files, if there are any"}[self.files]
        both = " and ".join(each for each in (jobs, files) if each)
        return f"An account {username} was deleted before, and what it left is now theirs: {both}."

    def data(self) -> dict[str, Any]:
        """For the audit."""
        return {"left": {"jobs": self.jobs, "files": self.files}}


def left_by(usernames: Collection[str]) -> dict[str, Left]:
    """What there is of deleted accounts of these names; names without are left out. It asks the store: not within a
    transaction."""
    former = FormerUser.objects.filter(username__in=usernames).values_list("username", flat=True)
    found = {name: Left(about_jobs().count_ended(name), _has_files(name)) for name in former}
    return {name: left for name, left in found.items() if left.jobs or left.files is not False}


def _has_files(username: str) -> bool | None:
    try:
        store = open_store()
        for tree in rules.trees_of(username):
            try:
                if store.list(tree):
                    return True
            except (PathNotFound, BadPath):
                continue
    except StoreUnavailable:
        return None
    return False
