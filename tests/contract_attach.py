"""What every engine must do for terminals. Run on the fake by tests/integration, on a real engine by tests/acceptance.

A module subclasses ``AttachContract`` and gives the fixture ``lab`` of tests/contract_runtime.py. What is typed are
commands that a real shell and that of the fake both know.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from clusters.engines.attach import MARK, Attached
from clusters.engines.runtime import FaultReason, RuntimeFault
from tests.contract_runtime import Lab, Program, ended, request
from tests.helpers import LIMIT, on_a_loop

SHELL = ("/bin/sh",)
_LONGEST = 16 << 10  # bytes that a pattern may take


class Person:
    """Somebody who types and reads."""

    def __init__(self, attached: Attached) -> None:
        self.attached = attached
        self.seen = b""

    async def types(self, text: str | bytes) -> None:
        await self.attached.write(text.encode() if isinstance(text, str) else text)

    async def reads(self, pattern: str) -> re.Match[bytes]:
        """Until that is there; what came before it is forgotten."""
        async with asyncio.timeout(LIMIT):
            while not (found := re.search(pattern.encode(), self.seen)):
                data = await self.attached.read()
                assert data, f"it ended with {self.seen[-300:]!r}"
                # No pattern is longer. To look through all of a megabyte at each of its pieces would take minutes.
                self.seen = self.seen[-_LONGEST:] + data
        self.seen = self.seen[found.end() :]
        return found

    async def reads_to_the_end(self) -> bytes:
        async with asyncio.timeout(LIMIT):
            while data := await self.attached.read():
                self.seen += data
        return self.seen


async def presses_control_c(person: Person) -> None:
    """Again and again: nobody sees when a shell has handed its terminal to a command, and before that it is typed to
    neither of them."""
    while True:
        await person.types("\x03")
        await asyncio.sleep(0.5)


def with_shell(lab: Lab, what: Callable[[Person], Awaitable[None]], *, mark: str = "m1", **more: object) -> str:
    """Run ``what`` with a shell in a new container; the container's name."""
    asked = request(lab)
    lab.runtime.ensure(asked)

    async def run() -> None:
        env = {"PS1": "$ ", MARK: mark, "COLOUR": "blau"}
        attached = await lab.runtime.attach(asked.name, SHELL, env=env, columns=90, rows=30)
        try:
            await what(Person(attached))
        finally:
            await attached.close()

    on_a_loop(run())
    return asked.name


class AttachContract:
    def test_a_shell_answers_what_is_typed(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            assert person.attached.pid > 1
            await person.reads(r"[$#] ")
            await person.types("echo one-two\r")
            await person.reads("echo one-two\r\n(.*\n)?one-two\r\n")
            await person.types("echo $COLOUR\r")
            await person.reads("\nblau\r\n")

        with_shell(lab, talk)

    def test_letters_arrive_whole_however_they_are_cut(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.reads(r"[$#] ")
            text = "echo räksmörgås-日本\r".encode()
            for at in range(len(text)):
                await person.types(text[at : at + 1])
            await person.reads("\nräksmörgås-日本\r\n")

        with_shell(lab, talk)

    def test_its_program_knows_its_size_and_each_new_one(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.types("stty size\r")
            await person.reads("\n30 90\r\n")
            await person.attached.resize(132, 50)
            await person.types("stty size\r")
            await person.reads("\n50 132\r\n")

        with_shell(lab, talk)

    def test_control_c_ends_a_command_and_not_the_shell(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.reads(r"[$#] ")
            await person.types("sleep 1000\r")
            await person.reads("sleep 1000\r\n")
            typing = asyncio.create_task(presses_control_c(person))
            await person.reads(r"[$#] ")
            typing.cancel()
            await person.types("echo still-here\r")
            await person.reads("\nstill-here\r\n")

        with_shell(lab, talk)

    def test_control_c_gets_through_while_a_program_writes_without_end(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.types("yes\r")
            await person.reads("(y\r\n){1000}")
            await person.types("\x03")
            await person.types("echo still-here\r")
            await person.reads("\nstill-here\r\n")

        with_shell(lab, talk)

    def test_a_megabyte_is_pasted_whole(self, lab: Lab) -> None:
        line = b"x" * 127 + b"\r"
        size = 1 << 20

        async def talk(person: Person) -> None:
            await person.types("wc -c\r")
            await person.reads("wc -c\r\n")
            typing = asyncio.create_task(person.types(line * (size // len(line))))
            reading = asyncio.create_task(person.reads(rf"\n *{size}\r\n"))
            await typing
            await person.types("\x04")
            await reading

        with_shell(lab, talk)

    def test_it_says_how_the_shell_ended(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.types("exit 7\r")
            await person.reads_to_the_end()
            assert await person.attached.exit_code() == 7
            await person.attached.resize(10, 10)

        with_shell(lab, talk)

    def test_a_shell_ends_with_its_container(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.reads(r"[$#] ")
            (status,) = lab.runtime.list()
            await asyncio.to_thread(lab.runtime.stop, status.name, 0)
            await person.reads_to_the_end()
            assert await person.attached.exit_code() is None

        with_shell(lab, talk)

    def test_closing_ends_the_shell(self, lab: Lab) -> None:
        async def talk(person: Person) -> None:
            await person.types("sleep 999\r")
            await person.reads("sleep 999\r\n")
            await person.attached.close()
            with pytest.raises(RuntimeFault):
                await person.types("echo more\r")
            await self.is_gone(lab, person)

        with_shell(lab, talk)

    async def is_gone(self, lab: Lab, person: Person) -> None:
        """The program is."""

    def test_a_shell_whose_owner_was_lost_is_ended_by_its_mark(self, lab: Lab) -> None:
        asked = request(lab)
        lab.runtime.ensure(asked)

        async def run() -> None:
            env = {"PS1": "$ ", MARK: "abc123"}
            attached = await lab.runtime.attach(asked.name, SHELL, env=env, columns=80, rows=24)
            person = Person(attached)
            await lab.runtime.hang_up(asked.name, attached.pid, "another")
            await person.types("echo still-here\r")
            await person.reads("\nstill-here\r\n")
            await lab.runtime.hang_up(asked.name, attached.pid, "abc123")
            await person.reads_to_the_end()
            await attached.close()
            await lab.runtime.hang_up("longshore-contract-none", 100, "abc123")

        on_a_loop(run())

    def test_a_program_that_the_image_lacks_ends_with_127(self, lab: Lab) -> None:
        asked = request(lab)
        lab.runtime.ensure(asked)

        async def run() -> None:
            attached = await lab.runtime.attach(asked.name, ("/no/such",), env={}, columns=80, rows=24)
            assert b"not found" in await Person(attached).reads_to_the_end()
            assert await attached.exit_code() == 127
            await attached.close()

        on_a_loop(run())

    def test_there_is_no_shell_where_no_container_runs(self, lab: Lab) -> None:
        asked = request(lab, Program(exit_code=0))
        lab.runtime.ensure(asked)
        ended(lab, asked.name)
        for name in (asked.name, "longshore-contract-none"):
            with pytest.raises(RuntimeFault) as caught:
                on_a_loop(lab.runtime.attach(name, SHELL, env={}, columns=80, rows=24))
            assert caught.value.reason is FaultReason.GONE
