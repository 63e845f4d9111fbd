"""The commands of ``longshore``. What takes time to import is imported by the command that needs it."""

from __future__ import annotations

from . import account, files, inside, jobs, logs, running

COMMANDS = [
    account.login,
    running.run,
    running.submit,
    jobs.ls,
    jobs.show,
    jobs.why,
    jobs.stop,
    running.wait,
    logs.logs,
    files.cp,
    inside.execute,
    inside.forward,
    inside.ssh,
    jobs.open_page,
    account.usage,
    account.completion,
]
