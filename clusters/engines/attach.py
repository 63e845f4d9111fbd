"""What Longshore asks of a container engine to let somebody type into a container: a program with a terminal.

Pure: the Protocols beside ``runtime``. ``docker.attach`` speaks to a real engine, ``fake.terminal`` is a shell in
memory; both pass the same contract tests (tests/contract_attach.py). All of it is used on the event loop and holds no
thread while it waits for the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

# In the environment of the program: a text that no other program has, so that nobody ends another one in its place.
MARK = "LONGSHORE_TERMINAL"
PIECE = 64 * 1024  # bytes; a read gives no more
GRACE = 2  # seconds between HUP and KILL


class Attached(Protocol):
    """A program that runs in a container, with a terminal. Its methods raise only ``RuntimeFault``."""

    @property
    def pid(self) -> int:
        """The number of the program, as processes of the container see it."""

    async def read(self) -> bytes:
        """The next bytes that the program has written; nothing when it has ended. The program waits while nobody
        reads."""

    async def write(self, data: bytes) -> None:
        """Send what is typed to the program. It returns when the engine has room for more."""

    async def resize(self, columns: int, rows: int) -> None:
        """The program is told. One that has ended is not."""

    async def exit_code(self) -> int | None:
        """The exit code of a program that has ended. None when it ended with its container, and where nobody knows
        it."""

    async def close(self) -> bool:
        """End the program as a closed window does: HUP, and KILL after GRACE. False when the engine did not answer, so
        that the program may still run: ``hang_up`` ends it later. Again is free."""


class Attachable(Protocol):
    """What an engine can do with terminals, beside the operations of ``ContainerRuntime``."""

    async def attach(
        self, name: str, argv: tuple[str, ...], *, env: Mapping[str, str], columns: int, rows: int
    ) -> Attached:
        """Start a program in a running container, as the container's own user, with the container's environment and
        ``env``. The image has /bin/sh. Raises RuntimeFault: GONE for a container that does not run, COMMAND_MISSING
        without /bin/sh. A program that the image does not have ends with 127."""

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        """End the program ``pid`` of this container if its MARK is ``mark``: one whose ``Attached`` was lost with its
        process. Succeeds also when it is gone."""
