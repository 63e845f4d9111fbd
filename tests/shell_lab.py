"""What the contract tests ask of every real engine in the same way: its sample image has a shell and nc."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from clusters.engines.runtime import SAVED_FILE, TOLD_FILE, File
from tests.contract_runtime import Lab, Program, ended, request, text
from tests.helpers import until


class ShellLab(Lab):
    """``host``: the one that has ``address``, of an engine with several hosts."""

    host = ""

    def argv(self, program: Program) -> tuple[str, ...]:
        lines = ["trap '' TERM"] if program.ignores_term else []
        lines += [f"cat {file.path} >&{number}" for number, file in enumerate(self.files(program), 1)]
        if program.saves:
            lines += [f"while [ ! -s {TOLD_FILE} ]; do sleep 0.1; done; cat {TOLD_FILE}; : >{SAVED_FILE}"]
        if program.exit_code is not None:
            lines.append(f"exit {program.exit_code}")
        else:
            lines.append("while :; do sleep 0.1; done" if program.ignores_term else "exec sleep 1000")
        return ("sh", "-c", "\n".join(lines))

    def files(self, program: Program) -> tuple[File, ...]:
        return File("/said/stdout", program.stdout), File("/said/stderr", program.stderr)

    def echo(self, port: int) -> None:
        argv = ("nc", "-ll", "-p", str(port), "-e", "cat")
        self.runtime.ensure(request(self, argv=argv, ports=(port,), host=self.host))
        until(lambda: self._listens(port), what="nc listens")

    def shell(self, script: str, **more: Any) -> str:
        """Run it to its end in a container; its standard output."""
        asked = request(self, argv=("sh", "-c", script), **more)
        self.runtime.ensure(asked)
        ended(self, asked.name)
        return text(self.runtime.logs(asked.name, "stdout")).decode()

    def _listens(self, port: int) -> bool:
        with suppress(OSError), socket.create_connection((self.address, port), 1):
            return True
        return False
