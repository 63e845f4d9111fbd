"""Terminals of engines that run their programs by execs: what a close says when the engine does not answer. The rest is
in tests/contract_attach.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clusters.engines.exec_terminal import ExecTerminal, ExecTerminals
from clusters.engines.runtime import FaultReason, RuntimeFault


class Engine(ExecTerminals):
    """Answers ``heard``, raises it, or hangs. It is its own program, which has ended."""

    patience = 0.01

    def __init__(self, heard: Exception | None, *, hangs: bool = False) -> None:
        self.heard, self.hangs = heard, hangs
        self.ends = self.disconnects = 0

    async def hang_up(self, name: str, pid: int, mark: str) -> None:
        self.ends += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.heard is not None:
            raise self.heard

    async def _begin(self, *_: Any) -> Any:
        return self

    async def read(self) -> bytes:
        return b""

    async def close(self) -> None:
        self.disconnects += 1


def terminal_of(engine: Engine) -> ExecTerminal:
    return ExecTerminal(engine, "c", engine, 7, b"")  # type: ignore[arg-type]


AWAY = RuntimeFault("The engine does not answer.", reason=FaultReason.UNREACHABLE)


@pytest.mark.parametrize(
    ("engine", "has_ended"),
    [(Engine(None), True), (Engine(AWAY), False), (Engine(None, hangs=True), False)],
)
def test_a_close_says_whether_the_program_has_ended(engine: Engine, has_ended: bool) -> None:
    terminal = terminal_of(engine)
    assert asyncio.run(terminal.close()) is has_ended
    assert asyncio.run(terminal.close()) is has_ended
    assert engine.ends == engine.disconnects == 1


def test_a_program_that_has_ended_is_not_ended_again() -> None:
    engine = Engine(AWAY)

    async def run() -> bool:
        terminal = terminal_of(engine)
        assert await terminal.read() == b""
        return await terminal.close() and not engine.ends

    assert asyncio.run(run())


def test_a_program_that_ends_before_it_says_its_id_is_no_shell() -> None:
    engine = Engine(None)
    with pytest.raises(RuntimeFault, match="No shell could be started in the container: it hung up"):
        asyncio.run(engine.attach("c", ("sh",), env={}, columns=80, rows=24))
    assert engine.disconnects == 1
