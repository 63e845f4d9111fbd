"""One operation of the gateway: what is asked, who asks, what they may, and the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from portal.core.errors import Forbidden
from portal.files.quota.writes import Writes
from portal.files.store import rules
from portal.files.store.accounts import Accounts
from portal.files.store.base import BadPath, Entry, PathNotFound, Store
from portal.files.store.delegation import Delegation
from portal.files.webhdfs import shapes
from portal.files.webhdfs.messages import Request
from portal.models import User

NEVER = datetime.fromtimestamp(0, UTC)  # when a folder changed that nobody has made yet


@dataclass(frozen=True, slots=True)
class Call:
    """One operation. ``may_*`` raise Forbidden."""

    request: Request
    rights: Delegation
    store: Store
    accounts: Accounts = field(default_factory=Accounts)

    @property
    def path(self) -> str:
        return self.request.path

    @property
    def writes(self) -> Writes:
        return Writes(self.store, self.accounts)

    @property
    def user(self) -> User:
        return self.rights.user

    def may_read(self, path: str) -> None:
        if not rules.may_read(path, self.user.username, self.rights.is_admin, self.accounts):
            raise self._denied(path)

    def may_write(self, path: str) -> None:
        if not rules.may_write(path, self.user.username, self.rights.is_admin, self.accounts):
            raise self._denied(path)

    def may_remove(self, path: str) -> None:
        if not rules.may_remove(path, self.user.username, self.rights.is_admin, self.accounts):
            raise self._denied(path)

    @property
    def owner(self) -> str:
        """New files in a personal tree belong to its user, whoever writes them."""
        return rules.owner_of(self.path, self.accounts) or self.user.username

    def stat(self, path: str) -> Entry:
        """The entry, also of a personal folder that nobody has made yet: clients that copy into it must find a
        folder."""
        try:
            return self.store.stat(path)
        except PathNotFound:
            if not rules.is_place(path, self.user.username):
                raise
            return Entry(path, is_dir=True, size=0, modified_at=NEVER)

    def find(self, path: str) -> Entry | None:
        try:
            return self.stat(path)
        except (PathNotFound, BadPath):
            return None

    def shown(self, entry: Entry, suffix: str = "") -> dict[str, Any]:
        return shapes.file_status(rules.shown(entry, self.accounts), suffix)

    def _denied(self, path: str) -> Forbidden:
        return Forbidden(f"Permission denied: user={self.user.username}, path={path}")
