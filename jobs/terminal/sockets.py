"""The WebSocket of a terminal: ``/terminal/<user>/<job>/<role>/<index>?attempt=&cols=&rows=``.

Binary messages are the bytes of the terminal, texts are JSON (jobs/terminal/shell.py). A window that was there before
sends ``shell`` (its token) and ``after`` (how many bytes it has), and gets the same shell again.
"""

from __future__ import annotations

import re

from django.http import HttpRequest, QueryDict

from jobs.terminal import place as places
from jobs.terminal import records, relay
from jobs.terminal.place import Place
from jobs.terminal.shell import REFUSED, size_in
from jobs.terminal.shells import mine, pool
from portal.accounts import audit
from portal.accounts.callers import Caller, caller_of
from portal.core.errors import LongshoreError
from portal.core.threads import in_thread
from portal.models import Terminal
from portal.web.serving.sockets import Socket

PATH = re.compile(r"/terminal/(?P<username>[^/]+)/(?P<name>[^/]+)/(?P<role>[^/]+)/(?P<index>\d{1,6})")


async def serve(socket: Socket, path: dict[str, str]) -> None:
    caller, place, row = await in_thread(_admitted, socket.request, path, pool=pool)
    query = socket.request.GET
    columns, rows = _size(query)
    await socket.accept()
    is_far = row is not None and row.owner != mine().owner
    if row is not None and is_far and await relay.pass_on(socket, row.owner, row.token, _view(query)):
        return
    shell, after = mine().find(row.token) if row is not None else None, None
    try:
        if shell is None:
            shell = await mine().open(caller, place, columns, rows, audit.ip_of(socket.request))
        else:
            await shell.resize(columns, rows)
            after = number(query.get("after")) if "after" in query else None
    except LongshoreError as error:
        await socket.close(REFUSED, error.message)
        return
    await shell.show(socket, after=after, flow="flow" in query)


def _admitted(request: HttpRequest, path: dict[str, str]) -> tuple[Caller, Place, Terminal | None]:
    caller = caller_of(request)
    attempt = number(request.GET.get("attempt"))
    place = places.find(caller.user, path["username"], path["name"], path["role"], int(path["index"]), attempt)
    token = request.GET.get("shell", "")[:64].replace("\x00", "")
    return caller, place, records.find(token, caller, place.task.pk) if token else None


def _view(query: QueryDict) -> dict[str, str]:
    """The fields of the address that are about the window."""
    columns, rows = _size(query)
    given = {name: str(number(query.get(name))) for name in ("after", "flow") if name in query}
    return {"cols": str(columns), "rows": str(rows), **given}


def _size(query: QueryDict) -> tuple[int, int]:
    return size_in([number(query.get("cols")), number(query.get("rows"))]) or (80, 24)


def number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else 0
