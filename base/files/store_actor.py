"""Who looks at the store, and what they may do there: the rules of base.files.store.rules for one user, with errors for
pages. A job's container and a client of WebHDFS look as their user."""

from __future__ import annotations

from collections.abc import Set as AbstractSet  # ``Set`` beside ``set`` would be misread
from dataclasses import dataclass
from urllib.parse import quote

from base.core import words
from base.core.errors import Forbidden, LongshoreError, NotFound
from base.files.quota.use import limit_of, use_of
from base.files.quota.writes import Writes
from base.files.store import rules
from base.files.store.base import Entry, PathNotFound, Store, joined, names_of
from base.models import FormerUser, User


class KnownAccounts:
    """Says which top folders of the store are an account's. Those of deleted accounts stay closed. It looks each name
    up once; there is a new one for each request."""

    def __init__(self) -> None:
        self._known = dict.fromkeys((*rules.PERSONAL, *rules.OPEN), False)

    def among(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """As base.files.store.rules.Accounts has it."""
        if asked := names - self._known.keys():
            known = set(User.objects.filter(username__in=asked).values_list("username", flat=True))
            if gone := asked - known:
                known |= set(FormerUser.objects.filter(username__in=gone).values_list("username", flat=True))
            self._known |= {name: name in known for name in asked}
        return {name for name in names if self._known[name]}


@dataclass(frozen=True, slots=True)
class StoreActor(rules.Rights):
    store: Store

    @classmethod
    def of(cls, user: User, store: Store) -> StoreActor:
        return cls(user.username, user.is_admin, KnownAccounts(), store)

    @property
    def writes(self) -> Writes:
        return Writes(self.store, self.accounts)

    def require_read(self, path: str) -> None:
        """NotFound where the user may not read: nobody learns which files others have."""
        if not self.may_read(path):
            raise self.hidden(path)

    def require_write(self, path: str) -> None:
        self.require_read(path)
        if not self.may_write(path):
            raise self.refused(f"{path} is written by admins only.", path)

    def require_remove(self, path: str) -> None:
        self.require_read(path)
        if not self.may_remove(path):
            raise self.refused(f"{path} stays: it is not yours to rename or delete.", path)

    def hidden(self, path: str) -> LongshoreError:
        return NotFound(f"There is no {path} that you may see.")

    def refused(self, says: str, path: str) -> LongshoreError:
        return Forbidden(says)

    def may_put(self, folder: str) -> bool:
        """Whether a file may be made in the folder."""
        return self.may_write(f"{folder.rstrip('/')}/a")

    def owner_for(self, path: str) -> str:
        """New files in a personal tree belong to its user, whoever writes them."""
        return rules.owner_of(path, self.accounts) or self.name

    def entries(self, folder: str) -> list[Entry]:
        return self.visible(self.store.list(folder))

    def quota(self, path: str) -> str:
        """``12.3 GB of 100 GB``: of whoever owns the path, else of the user who looks; empty without a limit."""
        owner = self.owner_for(path)
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
        """Return the entry. None for the user's own and the open places, and those above them, while nobody has made
        them. PathNotFound for everything else that is missing."""
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
    """Return the page of a path."""
    return f"/files{quote(path)}".rstrip("/")


def download(path: str) -> str:
    """The address at which the gateway sends the file."""
    return f"/webhdfs/v1{quote(path)}?op=OPEN"


def parent(path: str) -> str:
    return joined(names_of(path)[:-1])


def inside(folder: str, name: str) -> str:
    """Return the path of a name, or of a path below it. Raises BadPath."""
    return joined(names_of(f"{folder}/{name}"))
