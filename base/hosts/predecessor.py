"""Whether the installation of whose backup this one was made may still run. It has the same instance id and the same
jobs: what this one would stop, collect or remove may be the other's, at work. So nothing is done at an engine until an
admin has said that the other one is gone."""

from __future__ import annotations

from django.db.models import QuerySet

from base.models import Shared

SAY = "manage.py restore --old-is-gone"
BRIEFLY = "An admin must first say that the installation that was backed up is gone."
_ROW = "predecessor"  # the name of a row of Shared; its value is the moment of the backup


def sentence() -> str:
    """What is waited for and how to say it; empty where nothing is. One query."""
    made = rows().values_list("value", flat=True).first()
    return "" if made is None else told(made)


def told(made: str) -> str:
    """``made``: when the backup was."""
    return (
        f"The installation of which this is the backup of {made} may still run, so nothing is started, stopped or "
        f"removed here until an admin says that it is gone: {SAY}"
    )


def rows() -> QuerySet[Shared]:
    """There is one exactly while it may run."""
    return Shared.objects.filter(name=_ROW)


def remember(made: str) -> None:
    """This is a copy from now on."""
    Shared.objects.update_or_create(name=_ROW, defaults={"value": made})


class Restraint:
    """Keeps a scheduler from planning while the other installation may run. Only a restore, during which no scheduler
    has the lease, begins it: so once it is over nobody asks again."""

    def __init__(self) -> None:
        self.is_on = False

    def learn(self) -> None:
        """For a scheduler that begins to act."""
        self.is_on = rows().exists()

    def lasts(self) -> bool:
        if self.is_on:
            self.learn()
        return self.is_on
