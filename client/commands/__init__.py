"""The command ``longshore``. What takes time to import is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from ..errors import ClientError, NotCopied, NotMeant, NotThere
from ..words import VERSION
from . import account, files, inside, jobs, logs, running
from .output import say

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


class _Told(click.Group):
    """Says each error in a sentence, and ends with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ClientError as error:
            for line in str(error).splitlines():
                say(line)
            ctx.exit(error.code)
        except KeyboardInterrupt as told:
            say(f"Interrupted: {told}." if str(told) else "Interrupted.")
            sys.stdout.flush()
            os._exit(130)  # threads of a copy may wait for an answer
        except click.Abort:  # Ctrl-C where something is asked, or nobody who answers
            say("Interrupted: nothing was done.")
            ctx.exit(130)
        except (click.exceptions.Exit, click.ClickException):
            raise
        except BrokenPipeError:
            os._exit(141)  # as `longshore ls | head` is expected to end
        except UnicodeEncodeError as error:  # in a name or an argument
            say(f"{error.object!r} cannot be written in {error.encoding}.")
            ctx.exit(NotMeant.code)
        except OSError as error:  # of this machine: what the portal's is was told above
            say(f"{error.filename or 'What is printed'} cannot be written or read: {error.strerror}.")
            ctx.exit((NotThere if isinstance(error, FileNotFoundError) else NotCopied).code)
        except Exception as error:
            if os.environ.get("LONGSHORE_DEBUG"):
                raise
            say(f"This went wrong: {error} ({type(error).__name__}). LONGSHORE_DEBUG=1 shows where.")
            ctx.exit(70)


@click.group(cls=_Told, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="longshore")
def main() -> None:
    """Run deep-learning jobs from a terminal.

    First: longshore login http://portal.lab:9186 - then: longshore run --gpus 1 --image IMAGE -- python train.py

    Exit codes: 0 fine, 2 wrong usage, 65 refused, 66 not there, 69 the portal does not answer, 73 the name is taken, 74
    not copied, 75 too much at once, 77 not allowed, 130 interrupted; run and wait end with the code of the job.
    """


for command in COMMANDS:
    main.add_command(command)
