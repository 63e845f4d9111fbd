"""Says, behind the end of an attempt's logs, that the job goes on with another attempt.

event: newer          {"attempt"}: the job has this one by now
event: over           {}: no other attempt will come
: comment             every 15 s, so that proxies keep the connection
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from django.db import DatabaseError

from jobs.models import Job
from jobs.planning.lifecycle import JOB_ENDS
from portal.core.threads import in_thread
from portal.wakes.hub import hub

HEARTBEAT = 15.0  # seconds between two comments
INTERVAL = 1.0  # seconds between two looks


async def events(logs: AsyncGenerator[str], job_id: int, attempt: int) -> AsyncGenerator[str]:
    """The events of these logs, then one of those above. ``attempt``: the newest that is shown."""
    async with aclosing(logs) as shown:
        async for event in shown:
            yield event
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    beat_at = time.monotonic()
    hub.join(loop, woken)
    try:
        while True:
            woken.clear()
            if event := await in_thread(_event, job_id, attempt):
                yield event
                return
            if time.monotonic() - beat_at > HEARTBEAT:
                beat_at = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(INTERVAL)
            await woken.wait()  # the hub wakes everybody every few seconds
    finally:
        hub.leave(woken)


def _event(job_id: int, attempt: int) -> str:
    """Empty while it is not known. A database that is away says nothing."""
    try:
        row = Job.objects.filter(pk=job_id).values_list("attempt_number", "state").first()
    except DatabaseError:
        return ""
    if row is None:
        return "event: over\ndata: {}\n\n"
    number, state = row
    if number > attempt:
        return f"event: newer\ndata: {json.dumps({'attempt': number})}\n\n"
    return "event: over\ndata: {}\n\n" if state in JOB_ENDS else ""
