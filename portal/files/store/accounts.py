"""Says which top folders of the store are an account's. Those of deleted accounts stay closed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from portal.files.store.rules import OPEN, PERSONAL
from portal.models import FormerUser, User


class Accounts:
    """Looks each name up once; there is a new one for each request."""

    def __init__(self) -> None:
        self._known = dict.fromkeys((*PERSONAL, *OPEN), False)

    def among(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """portal.files.store.rules.Accounts"""
        if asked := names - self._known.keys():
            found = set(User.objects.filter(username__in=asked).values_list("username", flat=True))
            if gone := asked - found:
                found |= set(FormerUser.objects.filter(username__in=gone).values_list("username", flat=True))
            self._known |= {name: name in found for name in asked}
        return {name for name in names if self._known[name]}
