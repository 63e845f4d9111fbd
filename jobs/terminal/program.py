"""What is started in a container for who opens a terminal. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusters.engines.attach import MARK

# The environment of an exec is what the container was made with; what only the start script needs is taken out, and the
# job's secrets, which never were in it, are read as the command reads them. bash where the image has it, else sh.
_SCRIPT = r"""
for at in 0 1 2 3 4 5 6 7 8 9; do unset "LONGSHORE_FILE_$at"; done
unset TINI_KILL_PROCESS_GROUP LONGSHORE_DEBUG_HOLD at
export PAI_WORK_DIR="${PAI_WORK_DIR:-$PWD}" LANG="${LANG:-C.UTF-8}"
[ ! -r /pai/secrets/job.sh ] || . /pai/secrets/job.sh
if command -v bash >/dev/null; then export PS1="\u@$1:\w\\$ "; exec bash; fi
export PS1="$1:\$PWD# "
exec /bin/sh
"""
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")
TERM = "xterm-256color"


def argv(label: str) -> tuple[str, ...]:
    """``label`` is the task's, for the prompt."""
    return ("/bin/sh", "-c", _SCRIPT, "sh", _PLAIN.sub("-", label))


def env(mark: str) -> Mapping[str, str]:
    return {"TERM": TERM, MARK: mark}
