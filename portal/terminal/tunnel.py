"""The WebSocket that carries a TCP connection to a port of a task: ``/tunnel/<user>/<job>/<role>/<index>/<port>``.

Binary messages are its bytes. The text ``{"end": true}`` says that the client sends no more, and what still comes back
is sent; the socket is closed when the task sends no more. Opened as a terminal is, by whoever may open one.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from django.db import DatabaseError
from django.http import HttpRequest

from base.accounts.callers import Caller
from base.accounts.scopes import Scope
from base.accounts.viewer import require_scope
from base.core.errors import Conflict, LongshoreError, NodeUnreachable
from base.core.threads import in_thread
from base.models import User
from base.serving.sockets import Closed, Socket, first_of
from clusters.engines.runtime import RuntimeFault
from jobs.models import Task
from jobs.terminal.ports import find_port, record_entry
from jobs.terminal.shell import LOST, WITHDRAWN
from jobs.web_pages.visits import Target
from portal.shared.callers import caller_of
from portal.shared.viewer import ip_of

PATH = re.compile(
    r"/tunnel/(?P<username>[^/]+)/(?P<name>[^/]+)/(?P<role>[^/]+)/(?P<index>\d{1,6})/(?P<port>[^/]{1,256})"
)
MOST = 64  # connections that one user may have at once through one web process
EVERY = 2.5  # seconds between two questions whether they may go on
_PIECE = 1 << 16
_open: Counter[int] = Counter()  # by user
_asked: dict[tuple[str, int], float] = {}  # when it was last seen that this credential may go on in this task
_pool = ThreadPoolExecutor(8, thread_name_prefix="tunnels")
_dialling = ThreadPoolExecutor(8, thread_name_prefix="dials")  # so that no node which is silent delays a withdrawal


async def serve(window: Socket, request: HttpRequest, path: dict[str, str]) -> None:
    caller, task, target = await in_thread(_admitted, request, path, pool=_pool)
    with _counted(caller):
        try:
            dialled = await in_thread(target.dial, pool=_dialling)
        except RuntimeFault as fault:
            raise NodeUnreachable(fault.sentence) from fault
        dialled.setblocking(False)
        with dialled:
            await window.accept()
            await first_of(_carry(window, dialled), _while_allowed(window, caller, task, path))


def _admitted(request: HttpRequest, path: dict[str, str]) -> tuple[Caller, Task, Target]:
    caller = caller_of(request)
    task, target = _found(caller.user, path)
    record_entry(caller.user, task, path["port"], ip_of(request))
    return caller, task, target


@contextmanager
def _counted(caller: Caller) -> Iterator[None]:
    user = caller.user.pk
    if _open[user] >= MOST:
        raise Conflict(f"You have {MOST} connections to ports of tasks open, as many as you may. Close some first.")
    _open[user] += 1
    try:
        yield
    finally:
        _open[user] -= 1
        if not _open[user]:
            del _open[user]


async def _carry(window: Socket, dialled: socket.socket) -> None:
    """Until the task has sent all, or the client has gone."""
    loop = asyncio.get_running_loop()
    inward = asyncio.create_task(_inward(window, dialled))
    try:
        with suppress(OSError, Closed):
            while data := await loop.sock_recv(dialled, _PIECE):
                await window.send(data)
    finally:
        inward.cancel()
        await asyncio.gather(inward, return_exceptions=True)


async def _inward(window: Socket, dialled: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while isinstance(data := await window.receive(), bytes):
            await loop.sock_sendall(dialled, data)
        dialled.shutdown(socket.SHUT_WR)
        while True:
            await window.receive()
    except (Closed, OSError):
        with suppress(OSError):
            dialled.shutdown(socket.SHUT_RDWR)  # which ends what is read from it


async def _while_allowed(window: Socket, caller: Caller, task: Task, path: dict[str, str]) -> None:
    while True:
        await asyncio.sleep(EVERY)
        if refused := await in_thread(_refused, caller, task, path, pool=_pool):
            code, why = refused
            await window.close(code, why)
            return


def _refused(caller: Caller, task: Task, path: dict[str, str]) -> tuple[int, str] | None:
    """Asked once for all that one credential has open in one task."""
    key, now = (caller.credential, task.pk), time.monotonic()
    if now - _asked.get(key, -EVERY) < EVERY:
        return None
    try:
        user = caller.now()
        if user is None:
            return WITHDRAWN, "You are not signed in any more."
        if _found(user, path)[0].pk != task.pk:
            return LOST, "The task has ended."
    except DatabaseError:
        return None  # nothing can have changed
    except LongshoreError as error:
        return (LOST if isinstance(error, Conflict) else WITHDRAWN), error.message
    if len(_asked) > 10_000:
        _asked.clear()
    _asked[key] = now
    return None


def _found(user: User, path: dict[str, str]) -> tuple[Task, Target]:
    require_scope(user, Scope.JOBS_SUBMIT, reads=False)
    return find_port(user, path["username"], path["name"], path["role"], int(path["index"]), path["port"])
