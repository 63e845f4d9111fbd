"""Who looks at the store, and what they may do there: the rules of portal.files.store.rules, with errors for pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from portal.core import words
from portal.core.errors import Forbidden, NotFound
from portal.files.quota.limits import limit_of
from portal.files.quota.use import use_of
from portal.files.quota.writes import Writes
from portal.files.store import rules
from portal.files.store.accounts import Accounts
from portal.files.store.base import Entry, PathNotFound, Store, names_of
from portal.models import User


@dataclass(frozen=True, slots=True)
class Who:
    user: User
    store: Store
    accounts: Accounts = field(default_factory=Accounts)

    @property
    def name(self) -> str:
        return self.user.username

    @property
    def writes(self) -> Writes:
        return Writes(self.store, self.accounts)

    def require_read(self, path: str) -> None:
        """NotFound where the user may not read: nobody learns which files others have."""
        if not rules.may_read(path, self.name, self.user.is_admin, self.accounts):
            raise NotFound(f"There is no {path} that you may see.")

    def require_write(self, path: str) -> None:
        self.require_read(path)
        if not rules.may_write(path, self.name, self.user.is_admin, self.accounts):
            raise Forbidden(f"{path} is written by admins only.")

    def require_remove(self, path: str) -> None:
        self.require_read(path)
        if not self.may_remove(path):
            raise Forbidden(f"{path} stays: it is not yours to rename or delete.")

    def may_put(self, folder: str) -> bool:
        """Whether a file may be made in the folder."""
        return rules.may_write(f"{folder.rstrip('/')}/a", self.name, self.user.is_admin, self.accounts)

    def may_remove(self, path: str) -> bool:
        return rules.may_remove(path, self.name, self.user.is_admin, self.accounts)

    def owner_for(self, path: str) -> str:
        return rules.owner_of(path, self.accounts) or self.name

    def entries(self, folder: str) -> list[Entry]:
        return rules.visible(self.store.list(folder), self.name, self.user.is_admin, self.accounts)

    def quota(self, path: str) -> str:
        """``12.3 GB of 100 GB``: of whoever owns the path, else of the user who looks; empty without a limit."""
        owner = rules.owner_of(path, self.accounts) or self.name
        limit = limit_of(owner)
        if limit is None:
            return ""
        total = use_of(owner, self.store).total(wait=_A_MOMENT)
        return f"{words.NOTHING if total is None else words.size(total)} of {words.size(limit)}"

    def places(self) -> list[tuple[str, str]]:
        """The places to start from: (what it is, path)."""
        mine = [(f"/{top}/{self.name}", says) for top, says in _MINE]
        return [(says, path) for path, says in (*mine, ("/shared", "Shared with everyone"))]

    def stat(self, path: str) -> Entry | None:
        """The entry. None for the user's own and the open places, and those above them, while nobody has made them.
        PathNotFound for everything else that is missing."""
        try:
            return self.store.stat(path)
        except PathNotFound:
            tops = [f"/{top}" for top, _ in _MINE]
            if rules.is_place(path, self.name) or path in (f"/{self.name}", *tops):
                return None
            raise PathNotFound(f"There is no {path}.") from None


_A_MOMENT = 0.5  # seconds that a page waits for a count of the user's files
_MINE = (("users", "My files"), ("Container", "My jobs"), ("Output", "My outputs"))


def address(path: str) -> str:
    """The page of a path."""
    return f"/files{quote(path)}".rstrip("/")


def download(path: str) -> str:
    """The address at which the gateway sends the file."""
    return f"/webhdfs/v1{quote(path)}?op=OPEN"


def parent(path: str) -> str:
    return "/" + "/".join(names_of(path)[:-1])


def inside(folder: str, name: str) -> str:
    """The path of a name, or of a path below it. Raises BadPath."""
    return "/" + "/".join(names_of(f"{folder}/{name}"))
