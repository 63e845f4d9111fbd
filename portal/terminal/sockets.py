"""The WebSocket of a terminal: ``/terminal/<user>/<job>/<role>/<index>?attempt=&cols=&rows=``.

Binary messages are the bytes of the terminal, texts are JSON (jobs/terminal/shell.py). A window that was there before
sends ``shell`` (its token) and ``after`` (how many bytes it has), and gets the same shell again. With ``command`` it is
that alone which runs, and no shell.
"""

from __future__ import annotations

import re

from django.http import HttpRequest, QueryDict

from base.accounts.callers import Caller
from base.accounts.scopes import Scope
from base.accounts.viewer import require_scope
from base.core.errors import LongshoreError
from base.core.threads import in_thread
from base.core.words import whole
from base.models import Terminal
from base.serving.sockets import Socket
from jobs.models import Task
from jobs.terminal import records, relay
from jobs.terminal.place import attempt_in, find
from jobs.terminal.shell import REFUSED, size_in
from jobs.terminal.shells import own_shells, pool
from portal.shared.callers import caller_of
from portal.shared.viewer import ip_of

PATH = re.compile(r"/terminal/(?P<username>[^/]+)/(?P<name>[^/]+)/(?P<role>[^/]+)/(?P<index>\d{1,6})")


async def serve(socket: Socket, request: HttpRequest, path: dict[str, str]) -> None:
    caller, task, row = await in_thread(_admitted, request, path, pool=pool)
    query = request.GET
    columns, rows = _size(query)
    await socket.accept()
    is_far = row is not None and row.owner != own_shells().owner
    if row is not None and is_far and await relay.pass_on(socket, row.owner, row.token, _view(query)):
        return
    shell, after = own_shells().find(row.token) if row is not None else None, None
    try:
        if shell is None:
            command = query.get("command", "").replace("\x00", "")
            shell = await own_shells().open(caller, task, columns, rows, ip_of(request), command)
        else:
            await shell.resize(columns, rows)
            after = _number(query.get("after")) if "after" in query else None
    except LongshoreError as error:
        await socket.close(REFUSED, error.message)
        return
    await shell.show(socket, after=after, flow="flow" in query)


def _admitted(request: HttpRequest, path: dict[str, str]) -> tuple[Caller, Task, Terminal | None]:
    caller = caller_of(request)
    require_scope(caller.user, Scope.JOBS_SUBMIT, reads=False)
    attempt = attempt_in(request.GET.get("attempt"))
    task = find(caller.user, path["username"], path["name"], path["role"], int(path["index"]), attempt)
    token = request.GET.get("shell", "")[:64].replace("\x00", "")
    return caller, task, records.find(token, caller, task.pk) if token else None


def _view(query: QueryDict) -> dict[str, str]:
    """The fields of the address that are about the window."""
    columns, rows = _size(query)
    more = {name: str(_number(query.get(name))) for name in ("after", "flow") if name in query}
    return {"cols": str(columns), "rows": str(rows), **more}


def _size(query: QueryDict) -> tuple[int, int]:
    return size_in([_number(query.get("cols")), _number(query.get("rows"))]) or (80, 24)


def _number(text: str | None) -> int:
    return whole(text, 15) or 0
